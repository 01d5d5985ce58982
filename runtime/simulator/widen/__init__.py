"""Widen LLVM IR of one work-item to host code of one subgroup."""
