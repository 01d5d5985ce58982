"""What kernels written for Intel GPUs name as `tl.extra.intel`."""

from . import libdevice as libdevice
