"""Modules of `triton.backends` that other libraries import by name."""
