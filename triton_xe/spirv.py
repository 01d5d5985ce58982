"""Read and change SPIR-V modules, and attach texts for the runtime to them.

Triton passes `load_binary` only the module, so the module carries all texts that the runtime needs,
above all the LLVM IR, which the simulator executes.  They are packed (`packed_text`) and split over
`OpModuleProcessed` strings, a debug instruction that every consumer may ignore.

Word layout: SPIR-V specification 1.6, sections 2.3 (header, instruction words) and 2.4 (logical
layout: OpModuleProcessed follows the names and precedes the annotations).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from triton_xe.errors import DeviceError
from triton_xe.packed_text import pack, unpack

MAGIC = 0x07230203
HEADER_WORDS = 5
MARK = "triton-xe "
HALVES, WIDE, QUOTIENT = "xe.half.", "xe.wide.", "xe.quotient."
"""Prefixes of functions that have a different body of equal meaning in SPIR-V.

That body is vISA, or LLVM IR for quotients.
"""
PRODUCT, SCALES, INITIAL, SCAN, RUN, AFTER, PREVIOUS = (
    "bdpas_", "scale_pairs_", "initial_", "scan_", "run_", "after_", "previous_")
"""Prefixes, after `WIDE`, of functions.

They compute DPAS, arrange its scales, scan lanes or registers, or fill the initial sums of a loop.
"""
BF16_SUM = "__xe_lane_atomic_one_bf16"
"""Prefix of helpers that add to bf16 in memory: a loop in LLVM IR, one message in SPIR-V."""
LLVM_IR = "llvm-ir"
CONDITIONS = "launch-conditions"
"""Conditions on a launch (`triton_xe.conditions`); a module without them takes any launch."""
CONDITIONAL = "__conditional"
"""Suffix of an entry point that does not take every launch.

Only callers that test the conditions know the suffix.
"""
BUILD_FLAGS = "build-flags"
NEEDS = "needs"
"""Scratch size and uses of print and assert, for launchers that have only the module."""
GENERAL = "general-version"
"""Source from which the version for all other launches is compiled."""
SOURCE_NODE = "xe.at"
"""Metadata of an LLVM IR instruction: file, line and column of the user's code."""
UNFILLED_NODE = "xe.unfilled"
"""Metadata of a masked load that leaves the registers of inactive lanes unchanged."""
FITS_NODE, PROMISE_NODE, INSIDE_NODE, RANGE_NODE = DEFINED_NODES = (
    "xe.fits", "xe.promise", "xe.inside", "xe.range")
"""Metadata of comparisons that the sanitizer tests: if one is false, results are undefined.

In this order: A shift is by less than the width.  `tl.assume` or another promise is true.  An
access is inside its bounds.  A converted number is in the range of its type.
"""
ADDED_NODE = "xe.added"
"""Metadata of a barrier (and its fences) that the compiler added."""
FIRST_NODE = "xe.first"
"""Metadata of the first of the stores into which one tensor store was split."""
FALLBACK_NODE = "xe.fallback"
"""Metadata of a branch between two versions of equal meaning.

It says which label, 0 or 1, is the version that is always valid; the other one is faster.
"""
ROLLED_LABEL = "rolled"
"""Name of the first block of a loop that Intel's compiler must not unroll."""
CHUNK = 120_000
"""Characters of an attached string: an instruction has 262,128 bytes, a character at most two."""
OP_MODULE_PROCESSED = 330
# capability, extension, import, memory model, entry point, execution mode, strings, sources, names
_EARLIER_OPCODES = frozenset({17, 10, 11, 14, 15, 16, 331, 7, 2, 3, 4, 5, 6, OP_MODULE_PROCESSED})


def has_visa(function: str) -> bool:
    """True if the function has a different body in SPIR-V, mostly vISA."""
    return function.startswith((HALVES, WIDE, QUOTIENT))


def is_spirv(binary: bytes) -> bool:
    """True if the bytes begin like a little-endian SPIR-V module."""
    return len(binary) >= 20 and struct.unpack_from("<I", binary)[0] == MAGIC


def instructions(binary: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield each instruction as (opcode, byte offset, byte length).

    `DeviceError` for a damaged module.
    """
    words = _words(binary)
    at = HEADER_WORDS
    while at < len(words):
        length = words[at] >> 16
        if length == 0 or at + length > len(words):
            raise DeviceError(f"damaged SPIR-V module: bad instruction length at byte {at * 4}")
        yield words[at] & 0xFFFF, at * 4, length * 4
        at += length


def _words(binary: bytes) -> tuple[int, ...]:
    if not is_spirv(binary) or len(binary) % 4:
        raise DeviceError("not a SPIR-V module: wrong magic number or length")
    return struct.unpack(f"<{len(binary) // 4}I", binary)


def without_texts(binary: bytes) -> bytes:
    """The module without its attached texts, as Intel's compiler sees it."""
    kept = (binary[at : at + length] for opcode, at, length in instructions(binary)
            if opcode != OP_MODULE_PROCESSED)
    return binary[: HEADER_WORDS * 4] + b"".join(kept)


def attach(binary: bytes, name: str, text: str) -> bytes:
    """Return the module with `text`, unless empty, attached under a name."""
    if not text:
        return binary
    at = next(
        (start for opcode, start, _ in instructions(binary) if opcode not in _EARLIER_OPCODES),
        len(binary),
    )
    packed = pack(text)
    chunks = [packed[i : i + CHUNK] for i in range(0, len(packed), CHUNK)]
    inserted = b"".join(_module_processed(f"{MARK}{name} {i} {c}") for i, c in enumerate(chunks))
    return binary[:at] + inserted + binary[at:]


def attached(binary: bytes, name: str) -> str:
    """The text attached under a name; empty if there is none.

    Raises `DeviceError` if another version of triton-xe packed it with another sample.
    """
    mark = f"{MARK}{name} ".encode()
    found: list[str] = []
    at = binary.find(mark)  # faster than walking the instructions
    while at >= 0:
        end = binary.index(b"\0", at)
        found.append(binary[at + len(mark) : end].decode().partition(" ")[2])
        at = binary.find(mark, end)
    try:
        return unpack("".join(found)) if found else ""
    except zlib.error as error:
        raise DeviceError(
            f"the text {name!r} in this SPIR-V module was packed by another version of triton-xe: "
            "compile the kernel again"
        ) from error


def attached_llvm_ir(binary: bytes) -> str:
    """The LLVM IR from which a module was written; `DeviceError` if it has none inside."""
    text = attached(binary, LLVM_IR)
    if not text:
        raise DeviceError(
            "this SPIR-V module carries no LLVM IR: the simulator runs only modules compiled by "
            "triton-xe; compile the kernel again"
        )
    return text


def _module_processed(text: str) -> bytes:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.pack("<I", ((1 + len(data) // 4) << 16) | OP_MODULE_PROCESSED) + data
