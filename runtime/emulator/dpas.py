"""dpas and bdpas: the systolic matrix multiply, on the registers of all threads.

The arithmetic is the project's definition (`triton_xe.intrinsics.definitions.dpas`): k ascends,
each product is added to the fp32 accumulator in turn and rounded once.  Silicon may differ.
Operand layout: IGC, documentation/visa/instructions/DPAS.md; of scales visa/G4_Verifier.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import ELEMENT_BITS
from triton_xe.intrinsics.definitions.conversions import e8m0_to_double, unpack
from triton_xe.intrinsics.definitions.dpas import add_once
from triton_xe.runtime.emulator.channels import Running, execution_mask
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.numbers import DROPPED, TIE, bf16_to_float, convert
from triton_xe.runtime.emulator.registers import (
    DTYPES,
    SIZES,
    Array,
    Bools,
    Threads,
    byte_offset,
)

Step = Callable[[Threads, Running], None]
_KINDS: Mapping[str, str] = {
    "hf": "f16", "bf": "bf16", "tf32": "tf32", "b": "s8", "ub": "u8", "s8": "s8", "u8": "u8",
    "s4": "s4", "u4": "u4", "s2": "s2", "u2": "u2", "bf8": "bf8", "hf8": "hf8", "e2m1": "e2m1",
}  # fmt: skip
PRODUCTS = ("dpas", "bdpas")
"""Instructions that multiply matrices; `bdpas` has the shape 8x8 alone."""
SCALE_GROUP = 32
"""Elements along k that have one scale, and bytes from the scales of one such group to the next."""


def resets_reads(instruction: Instruction, following: Instruction | None) -> bool:
    """True for the dpas that IGC puts first in a chain of Xe-HPG: `dpas r null s s {Atomic}`.

    It ends the suppression of repeated operand reads, and does nothing else.  The instruction after
    it has the same destination, and in an atomic chain reads its accumulator before the first
    result arrives.  Therefore nothing observes the product.
    """
    return is_dummy(instruction) and following is not None and following.op == "dpas" and (
        following.destination == instruction.destination)


def is_dummy(instruction: Instruction) -> bool:
    """True if one register is both factors of a dpas in a chain, without an accumulator.

    That register is the destination, or one beside the factor of the next dpas (IGC, visa,
    SWSB_G4IR.cpp: `createADummyDpasRSWAInst`).  Products of tf32, which Xe-HPG lacks, are none:
    their factor is zeros, with which sums begin.
    """
    initial, *factors = instruction.sources
    places = {(each.file, each.number, each.sub) for each in factors}
    return ("Atomic" in instruction.options and initial.is_null and len(places) == 1
            and factors[0].type != "tf32")


def bits_of(operand: Operand) -> int:
    """Bits of an element of a factor."""
    kind = _KINDS.get(operand.type)
    if kind is None:
        raise UnsupportedError(f"dpas of {operand.type} has no definition here")
    return ELEMENT_BITS[kind]


def shape_of(instruction: Instruction) -> tuple[int, int, int]:
    """Rows, columns and k of a product."""
    depth, rows = (int(part) for part in (instruction.subop or "8x8").split("x"))
    most = max(bits_of(each) for each in instruction.sources[1:3])
    return rows, instruction.width, depth * min(8, 32 // most)


def dpas(instruction: Instruction, grf_bytes: int) -> Step:
    """The function that executes `dpas.DEPTHxREPEAT dst src0 src1 src2`, or `bdpas` with scales.

    src1 is K x N: dword n of a register holds consecutive k of column n.  Source src2 is REPEAT
    x K, rows one after another.  Sources src3 and src4 are the scales of src1 and src2.
    """
    initial, right, left, *scales = instruction.sources
    target = instruction.destination
    assert target is not None
    (rows, columns, k), mask = shape_of(instruction), execution_mask(instruction)
    a = _rows(left, _KINDS[left.type], rows, k, grf_bytes)
    b = _columns(right, _KINDS[right.type], k, columns, grf_bytes)
    if scales:
        b = _scaled(b, _scales(scales[0], columns, k, grf_bytes))
        by_row = _scales(scales[1], rows, k, grf_bytes)
        a = _scaled(a, lambda threads: by_row(threads).swapaxes(1, 2))
    c = _initial(initial, rows, columns, grf_bytes)
    store = _result(target, rows, columns, grf_bytes)
    product = _integers if right.type in ("b", "ub", "s8", "u8", "s4", "u4", "s2", "u2") else chain

    def multiply(threads: Threads, running: Running) -> None:
        store(threads, product(c(threads), a(threads), b(threads)), mask(threads, running))

    return multiply


Matrix = Callable[[Threads], Array]


def _image(operand: Operand, size: int, grf_bytes: int) -> Matrix:
    kind = operand.type if operand.type in SIZES else "ub"
    first = operand.number * grf_bytes + operand.sub * SIZES[kind]
    return lambda threads: np.ascontiguousarray(threads.bytes[:, first : first + size])


def _scaled(values: Matrix, scales: Matrix) -> Matrix:
    return lambda threads: values(threads) * scales(threads)


def _scales(operand: Operand, count: int, k: int, grf_bytes: int) -> Matrix:
    """Powers of two (threads, k, count): a byte for each row or column and group along k."""
    if operand.is_null:
        return lambda threads: np.ones((threads.count, k, count))
    groups = -(-k // SCALE_GROUP)
    at = (byte_offset(operand, grf_bytes) + np.arange(groups)[:, None] * SCALE_GROUP
          + np.arange(count)).repeat(k // groups, axis=0)
    return lambda threads: e8m0_to_double(threads.bytes[:, at])


def _rows(operand: Operand, kind: str, rows: int, k: int, grf_bytes: int) -> Matrix:
    image = _image(operand, rows * k * ELEMENT_BITS[kind] // 8, grf_bytes)
    return lambda threads: unpack(image(threads).reshape(-1), kind).reshape(threads.count, rows, k)


def _columns(operand: Operand, kind: str, k: int, columns: int, grf_bytes: int) -> Matrix:
    """A reader of operand B: (threads, k, columns), from dwords that pack consecutive rows."""
    image = _image(operand, k * columns * ELEMENT_BITS[kind] // 8, grf_bytes)
    in_dword = 32 // ELEMENT_BITS[kind]

    def matrix(threads: Threads) -> Array:
        values = unpack(image(threads).reshape(-1), kind)
        parts = values.reshape(threads.count, k // in_dword, columns, in_dword)
        return parts.transpose(0, 1, 3, 2).reshape(threads.count, k, columns)

    return matrix


def _initial(operand: Operand, rows: int, columns: int, grf_bytes: int) -> Matrix:
    """A reader of the accumulator: (threads, rows, columns); zeros for the null register."""
    if operand.is_null:
        dtype = np.int32 if operand.type in ("d", "ud") else np.float32
        return lambda threads: np.zeros((threads.count, rows, columns), dtype)
    kind, dtype = operand.type, DTYPES[operand.type]
    first = byte_offset(operand, grf_bytes) // SIZES[kind]

    def matrix(threads: Threads) -> Array:
        values = threads.views[dtype][:, first : first + rows * columns]
        values = bf16_to_float(values) if kind == "bf" else values
        return values.reshape(threads.count, rows, columns)

    return matrix


def _result(
    operand: Operand, rows: int, columns: int, grf_bytes: int
) -> Callable[[Threads, Array, Bools | None], None]:
    """A writer of the result, for channels of the mask."""
    kind, dtype = operand.type, DTYPES[operand.type]
    first = byte_offset(operand, grf_bytes) // SIZES[kind]
    part = slice(first, first + rows * columns)

    def store(threads: Threads, values: Array, mask: Bools | None) -> None:
        stored = convert(values.reshape(threads.count, -1), kind, False, threads)
        if mask is None:
            threads.views[dtype][:, part] = stored
        else:
            wide = np.broadcast_to(mask, (threads.count, columns))
            np.copyto(threads.views[dtype][:, part], stored, where=np.tile(wide, (1, rows)))

    return store


def _integers(c: Array, a: Array, b: Array) -> Array:
    """c + a * b of integers, modulo 2^32.

    Sums of products of bytes are exact in fp64, which has a fast product.
    """
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return c.astype(np.int64) + exact.astype(np.int64)


_NEAR_ZERO = 2.0**-50
"""Inputs of at least this size have products and sums far from fp32's denormals."""
_NEAR_ZERO_SUM = 2.0**-102


def chain(c: Array, a: Array, b: Array) -> Array:
    """One fused multiply-add per k: (threads, M, N) + (threads, M, K) * (threads, K, N).

    A product is exact in fp64.  Rounding the fp64 sum again is right unless it looks like a tie of
    fp32 or is a denormal there; `add_once` computes these.
    """
    total = c.astype(np.float32)
    left, right = a.astype(np.float64), b.astype(np.float64)
    quick = not (_has_tiny(left, _NEAR_ZERO) or _has_tiny(right, _NEAR_ZERO)
                 or _has_tiny(total, _NEAR_ZERO_SUM))
    for k in range(left.shape[2]):
        product = left[:, :, k : k + 1] * right[:, k : k + 1, :]
        total = _rounded_sum(product, total) if quick else add_once(
            product, total.astype(np.float64))
    return total


def _rounded_sum(product: Array, total: Array) -> Array:
    """The sum of a product and fp32 numbers in fp32, rounded once; none is near fp32's denormals.
    """
    exact = product + total
    result: Array = exact.astype(np.float32)
    ties = np.flatnonzero((exact.view(np.int64) & DROPPED) == TIE)
    if ties.size:
        result.reshape(-1)[ties] = add_once(
            product.reshape(-1)[ties], total.reshape(-1)[ties].astype(np.float64))
    return result


def _has_tiny(values: Array, limit: float) -> bool:
    return bool(((np.abs(values) < limit) & (values != 0)).any())
