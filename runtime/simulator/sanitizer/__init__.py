"""Checks of a launch: bounds, alignment, races, reads of undefined or unwritten memory."""
