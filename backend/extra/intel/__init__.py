"""The module that kernels written for Intel GPUs use as `tl.extra.intel`."""

from . import libdevice as libdevice
