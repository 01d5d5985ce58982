"""LLVM IR as records: read by `parser`, created by `builder`, written by `printer`.

The subset is what a triton-xe module, or the host code generated from it, may contain.
"""

from triton_xe.llvm.builder import Builder, Parameter, define
from triton_xe.llvm.records import (
    ACCESSES,
    ASSEMBLY,
    ATOMICS,
    FALSE,
    TERMINATORS,
    TRUE,
    Block,
    Function,
    Global,
    Instruction,
    Module,
    Operand,
    Result,
    constant,
    constant_vector,
    integers,
    poison,
    splat,
    substitute,
    undef,
    undefined_calls,
    zero,
)
from triton_xe.llvm.types import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    LABEL,
    METADATA,
    PTR,
    TOKEN,
    VOID,
    Type,
    array,
    floating,
    integer,
    pointer,
    struct,
    struct_offsets,
    vector,
    vector_or_scalar,
    with_elements,
)

__all__ = [
    "ACCESSES", "ASSEMBLY", "ATOMICS", "F16", "F32", "F64", "FALSE", "I1", "I8", "I16", "I32",
    "I64", "LABEL", "METADATA", "PTR", "TERMINATORS", "TOKEN", "TRUE", "VOID", "Block", "Builder",
    "Function", "Global", "Instruction", "Module", "Operand", "Parameter", "Result", "Type",
    "array", "constant", "constant_vector", "define", "floating", "integer",
    "integers", "pointer", "poison", "splat", "struct", "struct_offsets", "substitute", "undef",
    "undefined_calls", "vector", "vector_or_scalar", "with_elements", "zero",
]
