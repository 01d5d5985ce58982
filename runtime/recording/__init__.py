"""Write launches to folders, and repeat them from there.

`recorder` writes the inputs of a launch, `folder` defines the format, `memory` has the blocks of
memory in it.  `replay` repeats the launch, `compare` and `shrink` examine the result.
"""
