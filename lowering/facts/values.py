"""Read single facts off SSA values: shapes, constants, what a loop carries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import UnsupportedError

_size = attrgetter("data")


class Unknown(Exception):
    """No formula exists; the message is the reason."""


def attribute(op: Operation, name: str) -> Any:
    """A property or attribute of an operation, whichever has the name."""
    found = op.properties.get(name)
    return op.attributes.get(name) if found is None else found


def integer_attribute(op: Operation, name: str) -> int | None:
    """The number that an operation has under a name; None if it has none."""
    held = attribute(op, name)
    if held is None:
        return None
    if not isinstance(held, IntegerAttr) or held.value.data < 0:
        raise UnsupportedError(f"{op.name}: {name} is a number from 0 on, not {held}")
    return held.value.data


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value, () of a scalar."""
    kind = value.type
    return tuple(map(_size, kind.shape.data)) if type(kind) is TensorType else ()


def element_of(value: SSAValue) -> Attribute:
    """The type of a tensor's elements, or of a scalar."""
    kind = value.type
    return kind.element_type if type(kind) is TensorType else kind


def constant_of(value: SSAValue) -> int | None:
    """The integer of a scalar or splat constant."""
    op = value.owner
    if type(op) is not arith.ConstantOp:
        return None
    held = op.value
    if isinstance(held, IntegerAttr):
        return held.value.data
    if isinstance(held, DenseIntOrFPElementsAttr) and held.is_splat():
        first = held.get_values()[0]
        return int(first) if isinstance(first, int) else None
    return None


def declared_multiple(value: SSAValue) -> int:
    """The divisibility that the frontend states of a function argument."""
    if not isinstance(value, BlockArgument):
        return 1
    function = value.block.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return 1
    stated = function.arg_attrs.data[value.index].data.get("tt.divisibility")
    return stated.value.data if isinstance(stated, IntegerAttr) else 1


Reshape = ExpandDimsOp | ReshapeOp | BroadcastOp | TransOp
"""Operations that only move elements to other positions."""


@dataclass(frozen=True)
class Carried:
    """A loop-carried value, number `index`: its initial value, and that which iterations yield."""

    loop: scf.ForOp
    index: int
    start: SSAValue
    end: SSAValue


def carried(value: SSAValue) -> Carried | None:
    """How a loop carries a block argument; None if no loop carries it."""
    if type(value) is not BlockArgument or not value.index:
        return None
    loop = value.block.parent_op()
    if not isinstance(loop, scf.ForOp):
        return None
    place = value.index - 1
    last = loop.body.block.last_op
    assert last is not None
    return Carried(loop, place, loop.iter_args[place], last.operands[place])


def passed_groups(op: Operation) -> Iterable[Iterable[SSAValue]]:
    """Groups of values of one type, because a loop or branch passes one to the other."""
    if isinstance(op, scf.ForOp):
        body = op.body.block
        assert body.last_op is not None
        return zip(op.iter_args, body.args[1:], body.last_op.operands, op.res, strict=True)
    if isinstance(op, scf.WhileOp):
        before, after = op.before_region.block, op.after_region.block
        test, last = before.last_op, after.last_op
        assert isinstance(test, scf.ConditionOp)
        assert last is not None
        return [*zip(op.arguments, before.args, last.operands, strict=True),
                *zip(test.args, after.args, op.res, strict=True)]
    if isinstance(op, scf.YieldOp) and isinstance(branch := op.parent_op(), scf.IfOp):
        return zip(op.operands, branch.results, strict=True)
    return ()


def dimension_map(op: Reshape) -> tuple[int | None, ...]:
    """For each result dim the operand's dim it runs along, or None where it is constant."""
    old, new = shape_of(op.src), shape_of(op.result)
    match op:
        case TransOp(order=order):
            return tuple(int(d) for d in order.get_values())
        case BroadcastOp():
            return tuple(d if old[d] == new[d] else None for d in range(len(new)))
        case ExpandDimsOp(axis=axis):
            at = axis.value.data
            return tuple(None if d == at else d - (d > at) for d in range(len(new)))
    kept = iter([d for d, size in enumerate(old) if size != 1])
    if [s for s in old if s != 1] != [s for s in new if s != 1]:
        raise Unknown("a reshape that splits or merges dimensions")
    return tuple(None if size == 1 else next(kept) for size in new)


def pointee_bits(value: SSAValue) -> int:
    """Bits of what a pointer, or each pointer of a tensor, points to (pointers have 64)."""
    pointee = element_of(value).pointee  # type: ignore[attr-defined]
    if isinstance(pointee, IntegerType):
        return pointee.width.data
    if pointee.name.startswith("f8"):
        return 8
    return pointee.bitwidth if hasattr(pointee, "bitwidth") else 64


def element_bits(kind: Attribute) -> int:
    """Bits of an element in a register; a pointer has 64."""
    return 64 if isinstance(kind, PointerType) else bit_width(kind)


def pointee_bytes(value: SSAValue) -> int:
    """Bytes from one element to the next; an i1 takes one."""
    return max(pointee_bits(value) // 8, 1)


def states_facts(op: Operation) -> bool:
    """True if facts stated of an operation are about one known value.

    For control flow, a fact may be about any of its results, even one that has been removed.
    """
    return len(op.results) == 1 and type(op) not in (scf.ForOp, scf.IfOp, scf.WhileOp)


def pointee_bytes_or_1(value: SSAValue) -> int:
    """Bytes from one element that a pointer points to, to the next; 1 for an integer."""
    return pointee_bytes(value) if isinstance(element_of(value), PointerType) else 1


def bits_of(value: SSAValue) -> int:
    """Bits of an integer, an index or a pointer, or of each element; 0 of others."""
    kind: Any = value.type
    if type(kind) in (TensorType, VectorType):  # vectors: of programs that are written by hand
        kind = kind.element_type
    if type(kind) is IntegerType:
        return kind.width.data
    return 64 if type(kind) in (IndexType, PointerType) else 0
