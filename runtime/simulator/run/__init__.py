"""Compile host modules, run the work-groups of a launch, and stop it on errors."""
