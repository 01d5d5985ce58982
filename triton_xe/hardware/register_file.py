"""The register file (GRF mode) that a kernel is built for: registers per thread."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from triton_xe.errors import out_of_resources
from triton_xe.hardware.block_2d import has_offsets
from triton_xe.hardware.target import Target

LARGE = 256
SMALL = 128
MOST_FOR_SMALL = 112
"""Estimated registers above which a kernel spills with the small file.

The limit is below 128 because Intel's compiler moves loads so that they overlap, and needs
registers for headers and addresses.  With 119, packed weights spilled 384 bytes.  With 116 they
recomputed addresses: 474 instructions instead of 374.
"""
MOST_STRAIGHT = {64: 112, 32: 200}
"""Limit like `MOST_FOR_SMALL`, by bytes of a register, for kernels with neither loop-carried values
nor products.

Such kernels wait for memory.  More threads hide the latency, so they use the small file if it fits.
With registers of 64 bytes, 115 (rotary embeddings) and 131 (layer norm's gradient) spilled 640
bytes.  With 32 bytes, 168 (a transposition) spilled nothing and 226 spilled.
"""
FOR_ADDRESSES = 4
"""Additional registers of 64 bytes that addresses need if messages have no immediate offsets.

On Xe-HPC, 112 spilled 576 bytes (SwiGLU's gradient), and 107 nothing (layer norm).
"""
MOST_FOR_LARGE = {64: 256, 32: 512}
"""Estimated registers that fit the large file, by bytes of a register.

With 64 bytes, 260 (layer norm's gradient) spilled 1,280 bytes and 228 (rotary embeddings) none.
With 32 bytes, 401 (a copy) spilled none (IGC 2.40).
"""
MAX_LANE_ELEMENTS = 2048
"""Elements of one tensor that a lane may hold.

That is 128 KiB of fp32 per thread of 16 lanes, half of the scratch space of a thread.  Copies of
4096 spilled 254,528 bytes and took Intel's compiler minutes (IGC 2.38, bmg).  For more it reports
"total scratch space exceeds HW supported limit".
"""
MOST_SPILLED = 64 * 1024
"""Bytes of spilled registers per thread that Intel's compiler orders correctly on Xe2 and later.

Beyond them, it addresses scratch memory from 64 KiB on, up and down.  It moves a fill of registers
on both sides before the spills of these (IGC 2.40, docs/reports/intel-compiler.md).
"""
CARRIED_LIMIT = 64
"""Loop-carried registers that leave too few of 128 for operands."""

MOST_ESTIMATED = 290
"""Estimated registers above which a loop spills if it carries addresses, or has results in four
adjacent registers.

With adjacent registers, attention's backward loop spilled 4.6 KB with 298, and products of tf32
none with 258.  With addresses, packed weights spilled 1,280 bytes with 341 of 32 bytes, and
products with experts none with 283 (IGC 2.40).
"""

_NAMES_A_FILE = ("register-file", "GRF")
"""Parts of the flags of Intel's compiler that name a register file."""

HALF_FILE = LARGE // 2
"""Registers that the loads of one block, or its sums of products, may fill."""
BUDGET = 184
"""Registers that values which a loop carries, or which are combined after it, may fill together."""
MOST_CARRIED = BUDGET
"""Loop-carried registers that leave too few of 256 for operands."""
MOST_BESIDE_TILES = 208
"""Limit like `BUDGET` next to tiles whose products are computed message by message, or sum by sum,
and above which a loop may spill.

With 212 attention's backward loop to heads of 128 spilled up to 2 KB, with 202 nothing.  With 224
attention to 128 keys at a time spilled up to 3.9 KB, with 208 to 64 of wide heads nothing (IGC
2.40).
"""
MOST_IN_LOOP = 232
"""Registers that a loop's carried values, those loaded before it and its largest product may fill.

With 184 the loops of attention, and of its gradient, took 12 and 24 % longer by the model (bmg).
"""
FOR_COMPILER = 8
"""Registers by which that limit is lower from Xe3 on, where a thread may have many numbers of them.

With 232 attention's backward loop spilled 5.5 KB on `ptl` and 3.4 KB on `nvl-p`, and nothing on
older devices (IGC 2.40).
"""


class Need(Enum):
    """Which register file a kernel needs, by the estimate of its live registers."""

    SMALL = "small"
    MEASURED = "the small one, unless code for it spills"
    BY_COMPILER = "the one that Intel's compiler chooses before it allocates registers"
    LARGE = "large"


class RegisterFile(NamedTuple):
    """Registers per thread; None is the small file, or the large one if code for that spills less.

    For Xe3, Intel's compiler chooses the number itself if it is None.
    With `automatic`, Intel's compiler may choose the large file if the kernel needs it.

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
        sizes = (*range(32, 257, 32), 320, 448, 512)
        known = {file.flag: file for file in (cls(automatic=True), *map(cls, sizes))}
        return next((known[f] for f in reversed(build_flags.split()) if f in known), cls())

    @property
    def flag(self) -> str:
        """Build flag of Intel's compiler."""
        if self.automatic:
            return "-ze-intel-enable-auto-large-GRF-mode"
        if self.registers == LARGE:
            return "-ze-opt-large-register-file"
        return "" if self.registers is None else f"-ze-exp-register-file-size={self.registers}"


def with_256_registers(build_flags: str) -> str:
    """The flags, with 256 registers instead of another number, because r510 must hold no addresses.

    >>> with_256_registers("-g -ze-exp-register-file-size=512")
    '-g -ze-opt-large-register-file'
    """
    named = RegisterFile.of_flags(build_flags).flag
    return " ".join([*(f for f in build_flags.split() if f != named), RegisterFile(LARGE).flag])


def most_in_loop(device: Target) -> int:
    """`MOST_IN_LOOP` of a device."""
    return MOST_IN_LOOP - (FOR_COMPILER if len(device.grf_modes) > 2 else 0)


def refuse_lost_spills(kernel: str, nbytes: int, device: Target) -> None:
    """Refuse native code that may read spilled registers before they are written.

    The error is also Triton's `OutOfResources`.
    """
    if nbytes > MOST_SPILLED and has_offsets(device):
        out_of_resources(
            nbytes, MOST_SPILLED, "bytes of spilled registers per thread",
            f"Intel's compiler may lose registers that kernel {kernel!r} spills")


def most_straight(device: Target) -> int:
    """Estimated registers that fit the small file, without loops and products."""
    most = MOST_STRAIGHT[device.grf_bytes]
    return most if has_offsets(device) or not device.has_block_2d else most - FOR_ADDRESSES


def may_fit_small(needed: int, device: Target) -> bool:
    """True if Intel's compiler may fit code without DPAS into the small file.

    By its own order of instructions, 128 to 201 estimated registers fit (rotary embeddings, rows of
    softmax, loops over 16 rows of a matrix).  With 260 (layer norm's gradient) its automatic choice
    spilled 448 bytes, and the large file none.  On Xe-HPG it chose the small file with 5,408 bytes
    (SwiGLU's gradient).
    """
    return device.has_block_2d and needed <= MOST_FOR_LARGE[device.grf_bytes]


def large_fits(num_warps: int, device: Target) -> bool:
    """True if a core has enough threads for a work-group with the large file, which halves their
    number.
    """
    return num_warps <= device.eus_per_core * device.threads_per_eu[device.large_file]


def larger_file(build_flags: str, num_warps: int, device: Target) -> RegisterFile | None:
    """The register file to build for if the default one spills.

    None if the flags name a file, or if no larger one has threads for so many warps.
    """
    names_file = any(mark in build_flags for mark in _NAMES_A_FILE)
    if names_file or device.large_file not in device.grf_modes or not large_fits(num_warps, device):
        return None
    return RegisterFile(device.large_file)


def needed_file(
    registers: int | None, carried: int, has_products: bool, is_straight: bool, device: Target
) -> Need:
    """Return which register file holds the estimated live registers of a kernel.

    `carried` of them are loop-carried.  `registers` is None if these decide the choice of a kernel
    with products (DPAS).  `is_straight` is true without loop-carried values and products.

    A loop without products is built for both files if necessary.  Intel's compiler moves its loads,
    so that the estimate does not tell what spills.  Two products of fp32 by FMA have 350 registers
    on bmg.  That of 64 x 64 x 16 on 4 warps spills none, and that of 32 x 64 x 16 on 2 warps 2,304
    bytes.  Only carried registers remain in any order.  Products by DPAS are not tried, because
    those in the ledger spill.
    """
    limit = most_straight(device) if is_straight else MOST_FOR_SMALL
    if carried < CARRIED_LIMIT and (registers or 0) <= limit:
        return Need.SMALL
    if registers is None or has_products:
        return Need.LARGE
    if is_straight:
        return Need.BY_COMPILER if may_fit_small(registers, device) else Need.LARGE
    return Need.MEASURED if carried <= MOST_FOR_SMALL else Need.LARGE


def register_file(grf_mode: str, need: Need, num_warps: int, device: Target) -> RegisterFile:
    """Return the register file for a mode: "default", "auto" or a number.

    "default" selects the file that the kernel needs.  Intel's automatic choice ends at 256
    registers, so the large file is selected instead if it is larger.
    """
    if grf_mode == "default":
        need = need if large_fits(num_warps, device) else Need.SMALL
        if need is Need.BY_COMPILER and device.large_file <= LARGE:
            grf_mode = "auto"
        elif need in (Need.BY_COMPILER, Need.LARGE):
            grf_mode = str(device.large_file)
        else:
            return RegisterFile()
    if grf_mode == "auto":
        return RegisterFile(automatic=True)
    wanted = int(grf_mode)
    return RegisterFile(wanted if wanted in device.grf_modes else None)
