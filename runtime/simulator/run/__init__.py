"""Compile host modules, run the work-groups of a launch, end it when something goes wrong."""
