"""Small programs in assembly, run on the emulator with given registers."""

from __future__ import annotations

from functools import cache

import numpy as np

from triton_xe.runtime.emulator import AddressSpace, Dispatch, Launch, Program, iga

END = "(W) send.gtwy (1|M0) null r127 null:0 0x0 0x02000010 {EOT}\n"


@cache
def code(device: str, text: str) -> bytes:
    return iga.assemble(device, text + "\n" + END)


@cache
def program(device: str, text: str) -> Program:
    return Program(device, code(device, text))


def launch(
    device, text, registers=None, *, threads=1, simd=16, space=None, undefined=0, **dispatch
) -> Launch:
    """A launch with `registers`: number -> array, the same or (threads, elements) for each.

    Registers from r10 on are 0 otherwise.
    """
    made = Launch(program(device, text), space or AddressSpace(),
                  Dispatch(**({"groups": (1, 1, 1)} | dispatch), threads=threads, simd=simd),
                  undefined)
    grf = made.program.grf_bytes
    made.threads.bytes[:, 10 * grf : 256 * grf] = 0
    for number, values in (registers or {}).items():
        values = np.ascontiguousarray(values)
        raw = values.view(np.uint8).reshape(*values.shape[:-1], -1)
        first = number * grf
        made.threads.bytes[:, first : first + raw.shape[-1]] = raw
    return made


def run(device, text, registers=None, **more) -> Launch:
    return launch(device, text, registers, **more).run()


def register(done: Launch, number: int, dtype, count: int = 16) -> np.ndarray:
    """Elements of a register of each thread, (threads, count)."""
    first = number * done.program.grf_bytes
    size = np.dtype(dtype).itemsize * count
    return np.ascontiguousarray(done.threads.bytes[:, first : first + size]).view(dtype)


def result(device, text, registers, dtype, count: int = 16) -> np.ndarray:
    """What is in r20 of the first thread after the program."""
    return register(run(device, text, registers), 20, dtype, count)[0]
