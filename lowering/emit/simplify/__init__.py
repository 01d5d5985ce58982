"""Family simplify-llvm: rules for integers of a written module."""
