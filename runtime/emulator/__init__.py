"""An emulated Xe GPU: Intel's native code, executed instruction by instruction in numpy.

Intel's compiler builds a kernel, `libiga64` (part of `triton-xe toolchain`) decodes it, and each
instruction runs for all threads of the launch at once.  All devices of the table are emulated.

    space = AddressSpace()                        # GPU addresses -> memory of this process
    a = space.put(numpy_array)                    # allocate; or space.map(gpu, host, size)
    program = Program.from_zebin("bmg", binary)   # or Program.at_address("bmg", space, address)
    launch = Launch.from_zebin(program, binary, space, groups=(4, 1, 1), arguments=[a, 1000])
    launch.run()                                  # or run("reversed"), run("shuffled:1"), ...
    space.get(a, "float32", (1000,)), launch.executed(), launch.instructions

`Launch(program, space, Dispatch(...))` starts the threads as a COMPUTE_WALKER says.  That has
work-groups, threads, the offset of the arguments in memory (r0.0), inline data and hardware's local
ids.  It also has shared local memory, scratch and the mask of each group's last thread.  `Fault` (a
`SimulatorTrap`) is raised for accesses out of bounds, misaligned ones that hardware refuses, and
hangs; `UnsupportedError` for an instruction or message without definition.  Either names the
kernel, the instruction and its address, and has it as `error.pc`.  `program.lines =
source_lines(listing, program.instructions)` adds source lines, if the compiler was given them.

Order of the modules: `iga` (decoder), `instruction`, `registers` (state of the threads),
`numbers` (rounding), `operands`, `channels` (masks and flags), `operations`, `macros`, `dpas`,
`branches`, `messages/`.  Then come `program`, `dispatch`, `scheduler`, `launch`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_xe.runtime.emulator.dispatch import Dispatch, LocalIds
    from triton_xe.runtime.emulator.launch import Launch
    from triton_xe.runtime.emulator.listing import source_lines
    from triton_xe.runtime.emulator.memory import AddressSpace, Fault
    from triton_xe.runtime.emulator.program import Program

_HOMES = {"AddressSpace": "memory", "Dispatch": "dispatch", "Fault": "memory",
          "Launch": "launch", "LocalIds": "dispatch", "Program": "program",
          "source_lines": "listing"}

__all__ = ["AddressSpace", "Dispatch", "Fault", "Launch", "LocalIds", "Program", "source_lines"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
