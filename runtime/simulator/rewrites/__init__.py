"""Rewrites of a kernel's IR, most of them before widening."""
