"""`triton.backends.intel`, the name under which programs import Intel's own build of Triton."""
