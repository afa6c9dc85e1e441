"""What runs in a process with TensorFlow's C++ runtime and without its Python: nothing here imports TensorFlow."""
