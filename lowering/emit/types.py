"""LLVM types of Triton's scalar types.

bf16 travels as i16 and fp8 as i8, because OpenCL's SPIR-V has neither; pointers inside
tensors are i64 addresses, scalar pointers stay pointers.
"""

from __future__ import annotations

from functools import cache, lru_cache

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

from triton_xe import llvm as ir
from triton_xe.dialects.tt.types import PointerType
from triton_xe.errors import UnsupportedError

GLOBAL, SLM, PRIVATE = 1, 3, 0

I1, I8, I16, I32, I64 = ir.I1, ir.I8, ir.I16, ir.I32, ir.I64
HALF, FLOAT, DOUBLE = ir.F16, ir.F32, ir.F64
TWO_HALVES = ir.vector_or_scalar(2, HALF)
POINTER, SLM_POINTER, PRIVATE_POINTER = map(ir.pointer, (GLOBAL, SLM, PRIVATE))

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
        return ir.integer(kind.width.data)
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


def bits_of(kind: ir.Type) -> int:
    """Width of an integer or floating-point type, or of two fp16 values."""
    if kind is TWO_HALVES:
        return 32
    assert kind.kind in ("int", "float"), kind
    return kind.bits


def vector_of(kind: ir.Type, count: int) -> ir.Type:
    """`<count x kind>`, or the scalar for one element."""
    return ir.vector_or_scalar(count, kind)


def undefined(kind: ir.Type, count: int) -> ir.Operand:
    """`count` undefined elements."""
    return ir.undef(vector_of(kind, count))


def number(value: int) -> ir.Operand:
    """The i32 constant `value`."""
    return ir.constant(I32, value)


@lru_cache(maxsize=10_000)
def numbers(values: tuple[int, ...]) -> ir.Operand:
    """The vector of i32 constants, or the constant for a single one."""
    return number(values[0]) if len(values) == 1 else ir.integers(I32, values)


def shaped(like: ir.Type, kind: ir.Type) -> ir.Type:
    """`kind` with as many elements as `like`."""
    return ir.with_elements(like, kind)
