"""Run COMPUTE_WALKER commands: decode the program, its threads and their first registers.

Source: Intel's compute runtime, `hw_cmds_generated_*_core.inl`: COMPUTE_WALKER,
INTERFACE_DESCRIPTOR_DATA (its last 21 words but 13), RENDER_SURFACE_STATE.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from triton_xe import knobs
from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator import Dispatch, Launch, LocalIds, Program
from triton_xe.runtime.emulator.kernel_driver.memory import AddressSpace, EmulatorFault
from triton_xe.runtime.emulator.memory import Surfaces
from triton_xe.runtime.emulator.undefined_registers import refuse_lost_value

Words = Sequence[int]
_SIMD = {0: 8, 1: 16, 2: 32}
_SLM_KIB = (0, 1, 2, 4, 8, 16, 32, 64, 24, 48, 96, 128, 192, 256, 320, 384, 3, 5, 6, 7, 9, 10, 11,
            12, 13, 14, 15)
"""Code of a size of shared local memory -> KiB."""
_WALK_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
"""Dimensions from the one that changes fastest, by the walk order's code."""
_LAYOUT_LINEAR, _PREDICATED = 0, 1 << 8
_BUFFER_SURFACE, _SCRATCH_SURFACE = 4, 6
_STATE_BYTES = 64
_WITH_POINTER = 16
"""Words of inline data of Xe3P."""
_KEY_BYTES = 4096


@dataclass(frozen=True)
class Form:
    """Positions of fields in the words of a COMPUTE_WALKER."""

    descriptor: slice
    inline: slice
    post_syncs: tuple[slice, ...]
    operation_bit: int
    """Lowest bit of the operation in the first word of a post-sync."""


_FORMS: Mapping[int, Form] = {
    2: Form(slice(-21, -13), slice(-8, None), (slice(-13, -8),), 0),
    8: Form(slice(19, 27), slice(32, 48),
            (slice(27, 32), slice(48, 53), slice(53, 58), slice(58, 63)), 16),
}  # fmt: skip
"""Opcode -> form: COMPUTE_WALKER, and since Xe3P COMPUTE_WALKER_2."""


def form_of(words: Words) -> Form:
    """The form of a walker."""
    return _FORMS[words[0] >> 18 & 0x3F]


class Dispatcher:
    """Runs walkers, and counts what ran."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.kernels = self.launches = self.instructions = 0
        self.observe: Callable[[Launch], object] | None = None
        """Called after each launch."""
        self._programs: dict[bytes, list[Program]] = {}
        """Programs by their first bytes."""

    def __call__(self, words: Words, space: AddressSpace, bases: Mapping[str, int]) -> None:
        """Execute a walker: run its kernel on all threads."""
        descriptor = words[form_of(words).descriptor]
        address = bases.get("instruction", 0) + (descriptor[0] & ~63 | descriptor[1] << 32)
        program = self._program(space, address)
        dispatch = dispatch_of(words, space, bases)
        refuse_lost_value(program, dispatch.inputs(program.grf_bytes))
        launch = Launch(program, space, dispatch).check_waits()
        launch.run(seconds=knobs.time_limit())
        program.refuse_missing_waits()
        self.launches += 1
        self.instructions += launch.instructions
        if self.observe is not None:
            self.observe(launch)

    def _program(self, space: AddressSpace, address: int) -> Program:
        """The program at an address; equal code at several addresses is one program."""
        available = space.bytes_from(address)
        known = self._programs.setdefault(space.copy(address, min(_KEY_BYTES, available)), [])
        for program in known:
            size = len(program.code)
            if size <= available and space.copy(address, size) == program.code:
                return program
        self.kernels += 1
        known.append(Program.at_address(self.target.name, space, address))
        return known[-1]


def dispatch_of(words: Words, space: AddressSpace, bases: Mapping[str, int]) -> Dispatch:
    """The threads that a COMPUTE_WALKER starts."""
    where, form = form_of(words), words[4]
    descriptor, inline = words[where.descriptor], words[where.inline]
    pointer = inline[2] | inline[3] << 32 if len(inline) == _WITH_POINTER else 0
    if words[0] & _PREDICATED or form >> 19 & 7 != _LAYOUT_LINEAR or form >> 30 not in _SIMD:
        raise EmulatorFault(f"the emulated GPU does not know this kind of COMPUTE_WALKER: "
                            f"{words[0]:#x}, {form:#x}; please report it")
    return Dispatch(
        groups=(words[7], words[8], words[9]), threads=descriptor[5] & 0x3FF,
        simd=_SIMD[form >> 30], first_group=(words[10], words[11], words[12]),
        indirect_offset=words[3] & ~63, general_state_base=space.plain(bases.get("general", 0)),
        inline_data=struct.pack(f"<{len(inline)}I", *inline) if form >> 25 & 1 else b"",
        local_ids=_local_ids(words), slm_bytes=_SLM_KIB[descriptor[5] >> 16 & 31] << 10,
        scratch_bytes=_scratch_at(space, pointer) or _scratch(space, bases),
        scratch_pointer=pointer, last_thread_mask=words[5],
        surfaces=_surfaces(space, bases, descriptor[4]))


def _local_ids(words: Words) -> LocalIds | None:
    """Local ids that hardware computes, if the walker asks for them."""
    form, sizes = words[4], words[6]
    if not form >> 29 & 1:
        return None
    extent = tuple((sizes >> 10 * axis & 0x3FF) + 1 for axis in range(3))
    emitted = tuple(axis for axis in range(3) if form >> 26 + axis & 1)
    return LocalIds((extent[0], extent[1], extent[2]), emitted, _WALK_ORDERS[form >> 22 & 7])


def _scratch(space: AddressSpace, bases: Mapping[str, int]) -> int:
    """Bytes of scratch memory of a thread, from the surface that CFE_STATE names."""
    offset = bases.get("scratch", 0)
    for heap in ("surface", "bindless"):
        if offset and heap in bases and (found := _scratch_at(space, bases[heap] + offset)):
            return found
    return 0


def _scratch_at(space: AddressSpace, address: int) -> int:
    """Bytes of scratch memory of a thread, from the state of a surface; 0 if its kind is another.

    On Xe3P its address is the second argument of a kernel that needs it (IGC, `scratch_pointer`).
    """
    if not address or space.bytes_from(address) < _STATE_BYTES:
        return 0
    state = _words(space, address, 6)
    unit = 64 if state[5] >> 14 & 1 else 1
    return unit * ((state[3] & 0x3FFFF) + 1) if state[0] >> 29 == _SCRATCH_SURFACE else 0


def _surfaces(space: AddressSpace, bases: Mapping[str, int], table: int) -> Surfaces:
    """Address and size of buffers, by the number in the kernel's table or the offset in a heap."""

    def find(kind: str, number: int) -> tuple[int, int]:
        heap, offset = ("bindless" if kind == "bss" else "surface"), number & ~63
        if kind == "bti":
            entry = bases.get("surface", 0) + (table & 0x1FFFE0) + 4 * number
            offset = _words(space, entry, 1)[0] & ~63
        state = _words(space, bases.get(heap, 0) + offset, 10)
        if state[0] >> 29 != _BUFFER_SURFACE:
            raise EmulatorFault(f"surface {kind}[{number:#x}] is of kind {state[0] >> 29}; the "
                                "emulated GPU knows buffers only")
        width, height, depth = state[2] & 0x7F, state[2] >> 16 & 0x3FFF, state[3] >> 21
        address = space.plain(state[8] | state[9] << 32)
        return address, 1 + (width | height << 7 | depth << 21)

    return find


def _words(space: AddressSpace, address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", space.load(address, 4 * count))
