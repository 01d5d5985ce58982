"""Descriptors of tiles: their types, attributes of their accesses, and the positions of gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu, xetile
from triton_xe.dialects.xegpu.dpas import operand_sg_map
from triton_xe.dialects.xegpu.types import TensorDescType
from triton_xe.lowering.facts.values import carried, passed_groups
from triton_xe.lowering.rewriting import all_of, detach, orders_memory
from triton_xe.lowering.tiles.tile_operands import Cut, Span, TileOperand
from triton_xe.plan import BlockPlan

Hints = dict[str, Attribute]


class MessageKind(Enum):
    """Kind of the messages that move a block: 2D blocks, or gathers of its rows or columns."""

    BLOCK = auto()
    GATHER = auto()
    GATHER_TRANSPOSED = auto()


Kind = tuple[TensorDescType, MessageKind]
"""A descriptor's type, and the kind of its messages."""


@dataclass
class Needs:
    """The descriptors that the accesses of one tile in memory use, in order of first use."""

    gather: bool = False
    kinds: dict[Kind, None] = field(default_factory=dict)


class Rectangle(NamedTuple):
    """Adjacent operands that one plan moves."""

    rows: Span
    columns: Span
    start: tuple[int, int]
    plan: BlockPlan
    part: TileOperand


def is_transposed(op: Operation, kind: xetile.TileType) -> bool:
    """True if rows of registers are columns of memory."""
    flips = isinstance(op, xetile.LoadTileOp) and op.transpose is not None
    return flips != (not kind.row_major)


def in_memory(kind: xetile.TileType, pair: Sequence[Any]) -> tuple[Any, Any]:
    """(along the columns, along the rows) of memory, from values for rows and columns."""
    first, second = pair
    return (first, second) if kind.row_major else (second, first)


def flipped(pair: tuple[Any, Any], transposed: bool) -> tuple[Any, Any]:
    """The pair, exchanged if `transposed`."""
    return (pair[1], pair[0]) if transposed else pair


def cache_hints(op: Operation) -> Hints:
    return {k: v for k, v in op.properties.items() if k in ("L1_hint", "L2_hint", "L3_hint")}


def mark_valid(op: xegpu.LoadNdOp | xegpu.StoreNdOp, rows: Cut, columns: Cut) -> None:
    """Mark the valid part of an operand, if it is not the whole operand."""
    if (rows.valid, columns.valid) != (rows.size, columns.size):
        op.valid = DenseArrayBase.from_list(i32, [rows.valid, columns.valid])


def gather_kind(tile: TileOperand, row: int, kind: xetile.TileType, transposed: bool) -> Kind:
    """The descriptor of one operand that gathers move."""
    shape = tile.shape_at(row)
    lanes = operand_sg_map(tile.operand, tile.bits, shape.execution_size, shape.k)
    desc = xegpu.tensor_desc(
        shape.size(tile.operand), kind.element_type, sg_map=lanes, memory_scope=kind.scope)
    return desc, MessageKind.GATHER_TRANSPOSED if transposed else MessageKind.GATHER


def descriptor_type(kind: xetile.TileType, plan: BlockPlan) -> TensorDescType:
    """The descriptor of one message of a plan."""
    shape = plan.shape
    width = shape.width * shape.element_bits // plan.element_bits
    lanes = plan.target.subgroup_size
    factor = plan.parts
    if shape.transpose:
        rows = min(lanes, shape.height)
        mapping = xegpu.sg_map((rows, lanes // rows), (1, min(factor, width)))
    elif shape.vnni:
        mapping = xegpu.sg_map((1, lanes), (factor, 1))
    elif width * plan.element_bits >= lanes * plan.register_bits:
        mapping = xegpu.sg_map((1, lanes), (1, factor))
    else:
        rows = lanes * plan.register_bits // (width * plan.element_bits)
        mapping = xegpu.sg_map((rows, lanes // rows), (1, factor))
    return xegpu.tensor_desc((shape.height, width), kind.element_type, sg_map=mapping,
                       array_length=shape.blocks)


def sink_gathers(function: Operation) -> None:
    """Move gathers to their first use, so that few operands are live at a time."""
    blocks = dict.fromkeys(load.parent for load in all_of(function, xegpu.LoadNdOp))
    for block in blocks:
        assert block is not None
        order = {op: i for i, op in enumerate(block.ops)}
        barriers = [i for op, i in order.items() if orders_memory(op)]
        for op in reversed(order):
            if not isinstance(op, xegpu.LoadNdOp) or not is_gathered(op.desc):
                continue
            users = [order[u.operation] for u in op.value.uses if u.operation in order]
            if len(users) < op.value.uses.get_length() or not users:
                continue
            first = min(users)
            if not any(order[op] < i < first for i in barriers):
                target = list(order)[first]
                detach(op)
                Rewriter.insert_op(op, InsertPoint.before(target))
                moved = op.desc.owner
                if isinstance(moved, xegpu.UpdateNdOffsetOp) and moved.moved.uses.get_length() == 1:
                    detach(moved)
                    Rewriter.insert_op(moved, InsertPoint.before(op))


def is_gathered(desc: SSAValue) -> bool:
    """True if a descriptor, or the one that it was moved from, was created for gathers."""
    while not isinstance(desc.owner, xegpu.CreateNdTdescOp):
        op = desc.owner
        if isinstance(op, xegpu.UpdateNdOffsetOp):
            desc = op.desc
            continue
        held = carried(desc)
        if held is None:
            return False
        desc = held.start
    return desc.owner.gather is not None


def same_layout_groups(op: Operation) -> list[list[SSAValue]]:
    """Groups of tiles of registers that must have the same layout."""
    if type(op) is scf.ForOp:
        groups = map(list, passed_groups(op))
        return [group for group in groups if isinstance(group[0].type, VectorType)]
    if op.dialect_name() in ("arith", "math") or isinstance(op, xe.RoundTf32Op):
        tiles = [v for v in (*op.operands, *op.results)
                 if isinstance(v.type, VectorType) and len(v.type.get_shape()) in (2, 4)]
        return [tiles] if len(tiles) > 1 else []
    return []
