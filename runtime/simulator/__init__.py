"""A simulated Xe GPU: runs the LLVM module that became the SPIR-V, on the host's cores."""
