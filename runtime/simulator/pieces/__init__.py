"""Large host functions in pieces: LLVM compiles each shape of their vector work once."""
