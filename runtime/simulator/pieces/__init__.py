"""Split large host functions, so that LLVM compiles each shape of their vector work once."""
