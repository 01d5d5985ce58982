"""Lowering of mathematical functions and number formats to LLVM IR."""
