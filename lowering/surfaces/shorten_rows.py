"""Pass shorten-rows: reductions of rows that fit one subgroup get a version of their own.

    %m = cmpi slt, make_range(0, 4096), splat %n ; tt.load %p, %m, 0 ; tt.reduce ; ...
 -> condition of a launch: %n has at least 256 elements
    in the version for other launches: make_range(0, 256), one subgroup for each row

If a block is much longer than the row, the kernel mostly computes on masked elements.  The short
version has at least one element after the row's end.  If all elements there are equal, and reducing
one more changes nothing, the others are not needed (`row_ends`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, TensorType, i32
from xdsl.ir import SSAValue

from triton_xe.conditions import SHORT_ROWS
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.ops import MakeRangeOp
from triton_xe.dialects.tt.structure import FuncOp, ReduceOp
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.layout import BlockedEncoding, SliceEncoding
from triton_xe.layout.encodings import DistributedEncoding, Encoding
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.module_facts import WARPS, module_lanes, module_warps, options_of, remark
from triton_xe.lowering.rewriting import functions, retype
from triton_xe.lowering.surfaces.launch_guards import assume
from triton_xe.lowering.surfaces.row_ends import RowEnds
from triton_xe.lowering.targeted_pass import TargetedPass

PER_LANE = 16
"""Elements of a short row per lane."""
WORTH = 8
"""Ratio of block to short row from which on the full block takes at least a tenth longer."""


@dataclass(frozen=True)
class ShortenRowsPass(TargetedPass):
    """Reductions of rows that fit one subgroup get a version of their own."""

    short_rows: bool = False
    """True to compile the short version."""
    name: ClassVar = "shorten-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lanes = module_lanes(op, self.device(op))
        if options_of(op).guards != "launch" and not self.short_rows:
            return
        for function in functions(op):
            rows = rows_of(function, lanes * PER_LANE) if function.is_kernel else None
            if rows is None:
                continue
            if self.short_rows:
                _shorten(op, function, rows, lanes)
            else:
                _prefer_long(rows, function)


@dataclass(frozen=True)
class Rows:
    """Rows of a kernel: the argument with their length, their block length, and the short one."""

    size: SSAValue
    length: int
    short: int


def rows_of(function: FuncOp, shortest: int) -> Rows | None:
    """Rows of a kernel that reduces them, if a block is much longer than `shortest`; else None."""
    tensors = _tensors(function)
    length = max((max(shape_of(value)) for value in tensors), default=0)
    if length < WORTH * shortest or not all(map(_is_laid_out, tensors)):
        return None
    if any(shape_of(value).count(length) > 1 for value in tensors):
        return None
    for size in function.body.blocks[0].args:
        ends = RowEnds(length, size, shortest)
        if (isinstance(size.type, IntegerType) and ends.read(function.body.blocks)
                and ends.is_asked and ends.folds):
            return Rows(size, length, shortest)
    return None


def _tensors(function: FuncOp) -> list[SSAValue]:
    """All tensors of a function."""
    values: Iterable[SSAValue] = (
        value for op in function.walk()
        for value in (*op.results, *(arg for region in op.regions for block in region.blocks
                                     for arg in block.args)))
    return [value for value in values if shape_of(value)]


def _is_laid_out(value: SSAValue) -> bool:
    held = encoding_of(value.type)
    while isinstance(held, SliceEncoding):
        held = held.parent
    return isinstance(held, BlockedEncoding)


def _prefer_long(rows: Rows, function: FuncOp) -> None:
    first = next(op for op in function.walk() if isinstance(op, ReduceOp)
                 and rows.length in shape_of(op.srcs[0]))
    long = Guard(Poly.symbol(rows.size), Relation.AT_LEAST, Poly.constant(rows.short), SHORT_ROWS)
    assume([long], first)
    remark(first, f"rows of up to {rows.short - 1} elements run in a version for one subgroup")


def _shorten(module: ModuleOp, function: FuncOp, rows: Rows, lanes: int) -> None:
    tensors = _tensors(function)
    long = [value for value in tensors if rows.length in shape_of(value)]
    at_once = max(prod(shape_of(value)) for value in long) // rows.length
    warps = min(at_once, module_warps(module))
    along = dict(_along(encoding_of(value.type), shape_of(value).index(rows.length))
                 for value in long)
    for value in tensors:
        assert isinstance(value.type, TensorType)
        shape = [rows.short if size == rows.length else size for size in shape_of(value)]
        layout = _short_layout(encoding_of(value.type), along, lanes, warps)
        if isinstance(value.owner, MakeRangeOp) and rows.length in shape_of(value):
            value.owner.properties["end"] = IntegerAttr(rows.short, i32)
        retype(value, TensorType(value.type.element_type, shape, layout_attr(layout)))
    module.attributes[WARPS] = IntegerAttr(warps, i32)


def _along(held: Encoding, dim: int) -> tuple[Encoding, int]:
    """The blocked layout that a slice is taken from, and its dim that is `dim` of the slice."""
    while isinstance(held, SliceEncoding):
        dim += dim >= held.dim
        held = held.parent
    return held, dim


def _short_layout(
    held: Encoding, along: Mapping[Encoding, int], lanes: int, warps: int
) -> DistributedEncoding:
    """Layout with lanes along a row, as the layouts in `along`; each warp has rows of its own."""
    if isinstance(held, SliceEncoding):
        return SliceEncoding(held.dim, _short_layout(held.parent, along, lanes, warps))
    assert isinstance(held, BlockedEncoding)
    dim = along.get(held, held.order[0])
    across = next((d for d in range(held.rank) if d != dim), dim)
    each, threads, groups = (
        tuple(size if d == at else 1 for d in range(held.rank))
        for at, size in ((dim, min(held.size_per_thread[dim], PER_LANE)), (dim, lanes),
                         (across, warps)))
    return BlockedEncoding(each, threads, groups, held.order)

