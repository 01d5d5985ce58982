"""The subcommands of `triton-xe`, a module each."""
