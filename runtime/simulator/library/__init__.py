"""Functions that the host code of kernels calls, made for a host and compiled once."""
