"""The register file that a kernel is built for."""

from __future__ import annotations

from dataclasses import dataclass

from triton_xe.hardware.block_2d import has_offsets
from triton_xe.hardware.target import Target

LARGE = 256
SMALL = 128
MOST_FOR_SMALL = 112
"""Estimated registers; beyond them the small file spills: the compiler moves loads to where they
overlap, and needs some for headers and addresses (with 119 packed weights spilled 384 bytes, with
116 they computed addresses anew: 474 instructions in place of 374)."""
MOST_STRAIGHT = {64: 112, 32: 200}
"""The same for code that neither loops over values nor multiplies matrices, by the bytes of a
register.  It waits for memory, and more threads hide that: it is in the small file where it can be.
Of registers of 64 bytes 115 (rotary embeddings) and 131 (layer norm's gradient) spilled 640 bytes;
of 32 bytes 168 (a transposition) did not, 226 did."""
FOR_ADDRESSES = 4
"""Registers of 64 bytes that are also needed where messages have no offsets: on Xe-HPC 112 spilled
576 bytes (SwiGLU's gradient), and 107 nothing (layer norm)."""
MOST_FOR_LARGE = {64: 256, 32: 512}
"""Estimated registers that the large file has room for, by the bytes of a register.  Of 64 bytes
260 (layer norm's gradient) spilled 1,280 bytes and 228 (rotary embeddings) none; of 32 bytes 401
(a copy) spilled none (IGC 2.40)."""
MAX_LANE_ELEMENTS = 2048
"""Elements of one tensor that a lane may hold: 128 KiB of fp32 per thread of 16 lanes, half of the
scratch space that a thread has.  Copies of 4096 spilled 254,528 bytes and took Intel's compiler
minutes (IGC 2.38, bmg); of more it says "total scratch space exceeds HW supported limit"."""
CARRIED_LIMIT = 64
"""Registers; loops that carry as many leave too few of 128 for operands."""

MOST_CARRIED = 192
"""Registers; a loop that carries as many leaves too few of 256 for operands."""

MOST_WITH_ADDRESSES = 300
"""Estimated registers; up to them the addresses that a loop carries need few.  With 341 registers
of 32 bytes packed weights spilled 1,280 bytes, with 283 products with experts none, and of 64 bytes
with 280 none either (IGC 2.40)."""

MOST_FOR_PAIRS = 280
"""Estimated registers; beyond them results that lie in four registers side by side spill: with 298
attention's backward loop did (4.6 KB, IGC 2.40), with 258 products of tf32 did not."""


@dataclass(frozen=True)
class RegisterFile:
    """Registers per thread; None leaves the number to Intel's compiler.

    With `automatic`, that compiler may also take the large file where the kernel needs it.

    >>> RegisterFile(256).flag
    '-ze-opt-large-register-file'
    """

    registers: int | None = None
    automatic: bool = False

    @classmethod
    def of_flags(cls, build_flags: str) -> RegisterFile:
        """The file that flags for Intel's compiler name; the last one counts.

        >>> RegisterFile.of_flags("-ze-intel-enable-auto-large-GRF-mode").automatic
        True
        """
        known = {file.flag: file for file in (cls(automatic=True), *map(cls, range(32, 257, 32)))}
        return next((known[f] for f in reversed(build_flags.split()) if f in known), cls())

    @property
    def flag(self) -> str:
        """How Intel's compiler is told."""
        if self.automatic:
            return "-ze-intel-enable-auto-large-GRF-mode"
        if self.registers == LARGE:
            return "-ze-opt-large-register-file"
        return "" if self.registers is None else f"-ze-exp-register-file-size={self.registers}"


def most_straight(device: Target) -> int:
    """Estimated registers that the small file has room for, without loops and products."""
    most = MOST_STRAIGHT[device.grf_bytes]
    return most if has_offsets(device) or not device.has_block_2d else most - FOR_ADDRESSES


def large_fits(num_warps: int, device: Target) -> bool:
    """Whether a work-group has threads enough with the large file, which leaves fewer."""
    return num_warps <= device.eus_per_core * device.threads_per_eu[LARGE]


def register_file(
    grf_mode: str, crowded: bool, num_warps: int, device: Target
) -> RegisterFile:
    """The file for a mode: "default", "auto" or a number.

    By default that is the large one for a kernel whose values are too many for the small one.
    """
    if grf_mode == "auto":
        return RegisterFile(automatic=True)
    if grf_mode == "default":
        wanted = LARGE if crowded and large_fits(num_warps, device) else None
    else:
        wanted = int(grf_mode)
    return RegisterFile(wanted if wanted in device.grf_modes else None)
