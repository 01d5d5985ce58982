"""From LLVM IR to a SPIR-V module."""
