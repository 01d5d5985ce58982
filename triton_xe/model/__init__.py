"""A time model of Xe devices."""
