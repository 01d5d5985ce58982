"""Assign the layouts of the matrix unit to dots, and eliminate layout conversions."""
