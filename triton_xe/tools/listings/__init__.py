"""Readers of the assembly listings of Intel's graphics compiler."""
