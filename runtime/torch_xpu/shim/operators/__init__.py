"""Operators of the simulated device that are not the CPU's as they are."""
