"""What is read from the assembly listings of Intel's graphics compiler."""
