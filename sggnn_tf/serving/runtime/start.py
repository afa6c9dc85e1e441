"""Starts a module in a process that has TensorFlow's C++ runtime, as a server has, and not its Python.

    python start.py sggnn_tf.serving.runtime.server ARGUMENT...

The packages `tensorflow` and `sggnn_tf` are there for what needs no TensorFlow (protocol buffers, this folder): their
`__init__` modules, which would load it, are not run.
"""

import importlib.util
import runpy
import sys
import types


def main() -> None:
    """Runs the module that the first argument names."""
    sys.path.pop(0)  # The folder of this file.
    for name in ("tensorflow", "sggnn_tf", "sggnn_tf.serving"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            raise SystemExit(f"There is no package {name}.")
        package = types.ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = package
    sys.argv.pop(0)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
