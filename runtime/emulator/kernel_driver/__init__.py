"""A Linux xe kernel driver without hardware: Intel's drivers run on it unmodified.

`triton-xe emulate` starts programs on it (docs/emulator.md).  `server` talks to them, `device`
answers their requests, and `machine` says what the device is.  `memory` has its memory, `streamer`
executes command buffers and `dispatch` their kernels, on the emulated execution units.
"""
