"""LLVM types of Triton's scalar types.

bf16 travels as i16 and fp8 as i8, because OpenCL's SPIR-V has neither; pointers inside
tensors are i64 addresses, scalar pointers stay pointers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute

from triton_xe.dialects.tt.types import PointerType
from triton_xe.errors import UnsupportedError

GLOBAL, SLM, PRIVATE = 1, 3, 0

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType(addrspace=GLOBAL)
SLM_POINTER = ir.PointerType(addrspace=SLM)
PRIVATE_POINTER = ir.PointerType()

_FP8 = frozenset({"f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3"})


def is_pointer(kind: Attribute) -> bool:
    """True if this is Triton's pointer type."""
    return isinstance(kind, PointerType)


def is_bf16(kind: Attribute) -> bool:
    """True if elements are bf16."""
    return isinstance(element(kind), BFloat16Type)


def is_fp8(kind: Attribute) -> bool:
    """True if elements are 8-bit floats."""
    return element(kind).name in _FP8


def element(kind: Attribute) -> Attribute:
    """The element type of a tensor or vector, or the scalar type itself."""
    return kind.element_type if isinstance(kind, (TensorType, VectorType)) else kind


@cache
def scalar_type(kind: Attribute) -> ir.Type:
    """The LLVM type that holds one element in a register."""
    kind = element(kind)
    if isinstance(kind, IntegerType):
        return ir.IntType(kind.width.data)
    if isinstance(kind, Float16Type):
        return HALF
    if isinstance(kind, BFloat16Type):
        return I16
    if isinstance(kind, Float32Type):
        return FLOAT
    if isinstance(kind, Float64Type):
        return DOUBLE
    if isinstance(kind, IndexType):
        return I64
    if is_pointer(kind):
        return I64
    if is_fp8(kind):
        return I8
    raise UnsupportedError(f"values of type {kind} are not supported on Xe GPUs")


def argument_type(kind: Attribute) -> ir.Type:
    """The LLVM type of a scalar value that is not inside a tensor."""
    return POINTER if is_pointer(kind) else scalar_type(kind)


def opcode_of(value: object) -> str:
    """The name of an instruction; empty for arguments and constants."""
    return value.opname if isinstance(value, ir.Instruction) else ""


def callee_of(value: object) -> str:
    """The name of the function that a call calls; empty for other values, and for assembly."""
    called = value.callee if isinstance(value, ir.CallInstr) else None
    return called.name if isinstance(called, ir.Function) else ""


def bits_of(kind: ir.Type) -> int:
    """Width of an LLVM scalar type."""
    if isinstance(kind, ir.IntType):
        return int(kind.width)
    return {ir.HalfType: 16, ir.FloatType: 32, ir.DoubleType: 64}[type(kind)]


class _ByIdentity(dict[tuple[int, float], Any]):
    """Cache by identity of a type and a number, because types are slow to hash; values reference
    the types.
    """

    def __init__(self, make: Callable[[ir.Type, Any], Any]) -> None:
        self._make = make

    def lookup(self, kind: ir.Type, number: float) -> Any:
        found = self.get((id(kind), number))
        if found is None:
            if len(self) > MOST_KEPT:
                self.clear()
            found = self[id(kind), number] = (self._make(kind, number), kind)
        return found[0]


MOST_KEPT = 10_000
_vectors = _ByIdentity(ir.VectorType)
_undefined = _ByIdentity(lambda kind, count: ir.Constant(vector_of(kind, count), ir.Undefined))
_filled, _filled_floats = (_ByIdentity(lambda kind, value: ir.Constant(
    kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)) for _ in range(2))


def vector_of(kind: ir.Type, count: int) -> ir.Type:
    """`<count x kind>`, or the scalar for one element."""
    return kind if count == 1 else _vectors.lookup(kind, count)


def undefined(kind: ir.Type, count: int) -> ir.Constant:
    """`count` undefined elements."""
    return _undefined.lookup(kind, count)


@cache
def number(value: int) -> ir.Constant:
    """The i32 constant `value`."""
    return I32(value)


@lru_cache(maxsize=MOST_KEPT)
def numbers(values: tuple[int, ...]) -> ir.Constant:
    """The vector of i32 constants, or the constant for a single one."""
    if len(values) == 1:
        return number(values[0])
    return ir.Constant(vector_of(I32, len(values)), [number(value) for value in values])


def scalar_of(kind: ir.Type) -> ir.Type:
    """The element of a vector type, or the type itself."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def shaped(like: ir.Type, kind: ir.Type) -> ir.Type:
    """`kind` with as many elements as `like`."""
    return vector_of(kind, like.count) if isinstance(like, ir.VectorType) else kind


def filled(kind: ir.Type, value: int | float) -> ir.Constant:
    """A constant with the same value in every element."""
    if type(value) is int:
        return _filled.lookup(kind, value)
    if type(value) is float and value:  # zeros of both signs are equal
        return _filled_floats.lookup(kind, value)
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)

