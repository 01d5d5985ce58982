"""Facts about the integers, pointers and masks of a kernel, each proved from its operations."""
