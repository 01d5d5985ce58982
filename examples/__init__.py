"""Kernels to read, run and import; each is a script: `python -m examples.<name>`."""
