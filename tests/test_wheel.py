"""What is installed is all that is needed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from sggnn_tf import schema as schemas
from sggnn_tf.tasks import TASKS

ROOT = Path(__file__).parent.parent
PROGRAM = "from sggnn_tf import schema, tasks; print(*(schema.to_text(schema.shipped(name)) for name in tasks.TASKS))"


def test_schemas_are_found_when_installed_from_a_wheel(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == " ".join(schemas.to_text(schemas.shipped(name)) for name in TASKS).strip()
