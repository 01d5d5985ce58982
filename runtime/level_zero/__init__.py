"""Intel GPUs through Level Zero, called with ctypes; importing needs no driver."""
