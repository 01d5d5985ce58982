"""Functions that the host code of kernels calls, generated for a host and compiled once."""
