"""Simplify addresses and masks of accesses before layouts are chosen."""
