"""Work of a launch for the time model, without running it.

`walk` follows the integers of a sample of work-groups through the kernel.  `costs` counts the
instructions of each block, `footprints` finds the memory that messages access, and `launch_work`
combines them.
"""
