"""From tensors, tiles and XeGPU operations to LLVM IR: the last lowering, and the only one that
names an intrinsic."""
