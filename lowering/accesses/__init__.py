"""Addresses and masks of accesses, made simpler before layouts are chosen."""
