"""triton-xe: unmodified Triton kernels on Intel Xe GPUs, and a simulator of them."""

__version__ = "0.1.0"
