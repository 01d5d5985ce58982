"""Rule scatter-general-rows: general versions store a product's rows in a loop.

    tt.store %p, %x : 128x128        scf.for %i = 0 to 8 {
                                ->     %row = xe.rows %x[%i]     rows %i, %i + 8, ... : 16x128
                                       tt.store (rows %i, %i + 8, ... of %p), %row }

A version without 2D messages stores one element per lane and message.  Each needs its own address,
mask and conversion.  An instruction of the matrix unit writes its rows to consecutive registers.
The loop addresses them by an index, so that the code of one row is enough for all.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.memory import StoreOp
from triton_xe.layout.dpas import DpasEncoding
from triton_xe.layout.encodings import Encoding
from triton_xe.lowering.facts.values import Unknown, element_bits, element_of, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import is_cheap
from triton_xe.lowering.parts import Parts, rolled_loop
from triton_xe.lowering.rewriting import locate
from triton_xe.lowering.surfaces.raise_surfaces import in_slow_version


def scatter_general_rows(store: StoreOp, scope: Scope) -> None:
    """In versions without 2D messages, store rows of products in a loop."""
    kind = store.value.type
    held = encoding_of(kind) if isinstance(kind, TensorType) else None
    if not isinstance(held, DpasEncoding) or held.rank != 2 or (
            held.rows_per_register > 1 or not in_slow_version(store)):
        return
    rows, count = shape_of(store.value)[0], held.repeat_count
    body = Block(arg_types=(i32,))
    parts = Parts(body, rows // count, _of_rows, _row, stride=count)
    try:
        operands = [parts.value(v, 0) for v in store.operands]
    except Unknown:
        return
    made = StoreOp.create(operands=operands, properties=dict(store.properties),
                          attributes=dict(store.attributes))
    locate(store, made)
    body.add_ops([made, scf.YieldOp()])
    rolled_loop(store, count, 1, body)
    Rewriter.erase_op(store)


def _row(parts: Parts, value: SSAValue, dim: int) -> SSAValue | None:
    """Select registers of a value that is not index arithmetic."""
    op = value.owner
    if is_cheap(value) or (
            isinstance(op, Operation) and is_elementwise(op) and value.has_one_use()):
        return None
    if dim or element_bits(element_of(value)) != 32 or not isinstance(
            encoding_of(value.type), DpasEncoding):
        raise Unknown("rows that are not consecutive registers")
    made = xe.RowsOp(tensor=value, first=parts.block.args[0], result_type=parts.kind(value, dim))
    return parts.put(op if isinstance(op, Operation) else made, made)


def _of_rows(layout: Encoding, dim: int) -> Encoding:
    """The layout of the first row of each instruction."""
    if not isinstance(layout, DpasEncoding) or dim:
        raise Unknown("a layout without rows of instructions")
    return replace(layout, repeat_count=1)
