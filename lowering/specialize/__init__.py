"""Assumptions about a launch, and what they simplify."""
