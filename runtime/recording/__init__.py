"""Launches written to a folder, and launched again from it.

`recorder` writes what a launch was given, `folder` is what it writes, `memory` the blocks of memory
in it; `replay` launches it again, `compare` and `shrink` look at what came of that.
"""
