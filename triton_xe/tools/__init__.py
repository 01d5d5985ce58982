"""The `triton-xe` command."""
