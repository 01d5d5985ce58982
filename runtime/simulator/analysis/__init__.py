"""Facts about kernels, found before any code is written."""
