"""Functions, instructions and text of LLVM IR, made quickly."""
