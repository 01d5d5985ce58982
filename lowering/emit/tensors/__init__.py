"""Lowering of operations on tensors in registers, shared and global memory to LLVM IR."""
