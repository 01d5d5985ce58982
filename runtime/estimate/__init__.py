"""What a launch will do, without running it: its work for the time model.

`walk` follows the integers of a sample of work-groups through the kernel, `costs` counts the
instructions of each block, `footprints` says where messages lie, `launch_work` puts them together.
"""
