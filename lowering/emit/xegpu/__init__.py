"""Lowering of XeGPU operations to LLVM IR."""
