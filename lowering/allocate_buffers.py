"""Pass allocate-buffers: each buffer in shared local memory gets its place.

    ttg.local_alloc : ...  ->  ttg.local_alloc {allocation.offset = 4096 : i32} : ...

Buffers of a kernel lie one after the other; those of a function that it calls behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from triton_xe.dialects.tt.structure import CallOp, FuncOp
from triton_xe.dialects.ttg import LocalAllocOp, MemDescType
from triton_xe.errors import UnsupportedError
from triton_xe.layout.shared import SharedEncoding
from triton_xe.lowering.emit.types import bits_of, scalar_type
from triton_xe.lowering.rewriting import all_of, functions
from triton_xe.plan.shared_view import SharedView, buffer_bytes, shared_view

OFFSET = "allocation.offset"
ALIGNMENT = 64


@dataclass(frozen=True)
class AllocateBuffersPass(ModulePass):
    """Buffers in shared local memory get their places."""

    name: ClassVar = "allocate-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {function.sym_name.data: function for function in functions(op)}
        starts: dict[str, int] = {}
        for function in known.values():
            if function.is_kernel:
                _place(function, 0, known, starts, ())
        for name, start in starts.items():
            for alloc in all_of(known[name], LocalAllocOp):
                alloc.attributes[OFFSET] = IntegerAttr(start, i32)
                start += bytes_of(alloc)


def _place(
    function: FuncOp, start: int, known: dict[str, FuncOp], starts: dict[str, int],
    callers: tuple[str, ...],
) -> None:
    """Let a function's buffers begin behind those of whoever calls it."""
    name = function.sym_name.data
    if name in callers or starts.get(name, -1) >= start:
        return
    starts[name] = start
    end = start + sum(map(bytes_of, all_of(function, LocalAllocOp)))
    for call in all_of(function, CallOp):
        if call.callee_name in known:
            _place(known[call.callee_name], end, known, starts, (*callers, name))


def memory_of(kind: MemDescType) -> SharedView:
    """How the memory behind a type is laid out."""
    encoding = kind.encoding.encoding  # type: ignore[attr-defined]
    if not isinstance(encoding, SharedEncoding):
        raise UnsupportedError(f"{encoding} is no layout of shared local memory")
    return shared_view(encoding, tuple(n.data for n in kind.alloc_shape))


def bytes_of(alloc: LocalAllocOp) -> int:
    """Bytes of a buffer, up to where the next one may begin."""
    kind = alloc.result.type
    assert isinstance(kind, MemDescType)
    nbytes = buffer_bytes(memory_of(kind), max(bits_of(scalar_type(kind.element_type)) // 8, 1))
    return nbytes + -nbytes % ALIGNMENT


def offset_of(alloc: Operation) -> int:
    """Where a buffer begins."""
    held = alloc.attributes.get(OFFSET)
    if not isinstance(held, IntegerAttr):
        raise UnsupportedError(f"{alloc.name} without a place; run allocate-buffers before")
    return int(held.value.data)
