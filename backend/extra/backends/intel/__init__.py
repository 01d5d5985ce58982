"""`triton.backends.intel`, which is Intel's own build of Triton to those who import it."""
