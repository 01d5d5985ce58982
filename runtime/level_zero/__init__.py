"""Intel GPUs through Level Zero, called with ctypes; importing this package needs no driver."""
