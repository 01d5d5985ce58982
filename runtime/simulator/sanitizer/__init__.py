"""Checks of a launch: bounds, alignment, races, values that were never written."""
