"""Modules of `triton.backends` that others import by name."""
