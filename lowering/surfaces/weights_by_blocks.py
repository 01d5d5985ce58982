"""Load weights that are unpacked for a dot by 2D messages.

    load p : 64x128xi8, p = base + k / 2 * pitch + n    ->   xe.repeat (load p' : 32x128xi8)

Elements that several rows or columns share are loaded once.  A message loads them in the layout of
the matrix unit's operand, with bytes that are consecutive along K in one word.  If the launch
cannot check the surface, or no message has that layout, each lane loads its own elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import AddPtrOp, DotOp, SplatOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import RepeatOp, ScaledDotOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.values import Unknown, constant_of, shape_of
from triton_xe.lowering.layouts.assign_dpas import shares
from triton_xe.lowering.layouts.at_operand import (
    MOST_COPIES,
    carried_pointer,
    copies_of,
    initial,
)
from triton_xe.lowering.layouts.block_layouts import LEAST_BYTES
from triton_xe.lowering.layouts.dpas_choice import (
    instruction_of,
    operand_encoding,
    scaled_instruction,
    scales_encoding,
)
from triton_xe.lowering.layouts.propagate_layouts import messages_of
from triton_xe.lowering.layouts.rematerialize import before_conversions, is_volatile, layout_of
from triton_xe.lowering.layouts.repeats import (
    TIMES,
    Runs,
    can_shrink,
    joined,
    repeats_of,
    shrunk,
    shrunk_type,
    words_layout,
)
from triton_xe.lowering.rewriting import all_of, extend_for, last_of, locate, retyped, yield_more
from triton_xe.plan import Refusal, SurfaceFacts, plan_block_load


class _Weights(NamedTuple):
    """A load of weights for an operand; `runs` are equal elements of the load or its result."""

    load: LoadOp
    runs: Runs | None
    is_few: bool
    """True if the load has one element of each run already."""
    operand: Attribute
    """Type of the operand of the matrix unit."""

    @property
    def kind(self) -> TensorType[Attribute]:
        """Type of the tensor to load, in the layout of the operand."""
        element = self.load.result.type.element_type  # type: ignore[attr-defined]
        assert isinstance(self.operand, TensorType)
        held = TensorType(element, self.operand.get_shape(), self.operand.encoding)
        if self.runs is None:
            return held
        words = layout_attr(words_layout(layout_of(held), self.runs))
        return retyped(shrunk_type(held, self.runs), words)


def weights_by_blocks(function: Operation, target: Target, num_warps: int) -> list[LoadOp]:
    """Loads of weights that may become messages; elements of runs are loaded once from here on."""
    once = _RunLoader()
    return [once.load(found) for found in _find_loads(function, target, num_warps)
            if _may_be_a_block(found, once, target)]


def scales_by_blocks(function: Operation, target: Target, num_warps: int) -> list[LoadOp]:
    """Loads of the scales of products that messages bring in words of four groups along K."""
    dots = {dot: scaled_instruction(dot.a.type) for dot in all_of(function, ScaledDotOp)}
    found = []
    for dot, parent in shares(dots, num_warps, target).items():
        for index, value in enumerate((dot.a_scale, dot.b_scale)):
            load, shape = before_conversions(value).owner, shape_of(value)
            layout = scales_encoding(
                index, parent, dots[dot], shape_of(dot.operands[index]), shape[1]).layout
            plan = plan_block_load(layout, SurfaceFacts(contiguous_dim=1), 8, target)
            if isinstance(load, LoadOp) and not (is_volatile(load) or isinstance(plan, Refusal)):
                found.append(load)
    return found


def _find_loads(function: Operation, target: Target, num_warps: int) -> Iterator[_Weights]:
    """Each load of weights for an operand of a product in the same block, once."""
    made = {dot: instruction_of(dot, target) for dot in all_of(function, DotOp)
            if len(shape_of(dot.c)) == 2}
    dots = {dot: dpas for dot, dpas in made.items() if isinstance(dpas, Dpas)}
    operands = {(dot, index): list(_loads(before_conversions(operand)))
                for dot in dots for index, operand in enumerate((dot.a, dot.b))}
    seen = set[LoadOp]()
    parents = shares(dots, num_warps, target) if any(operands.values()) else {}
    for (dot, index), loads in operands.items():
        for load, few in loads:
            if load in seen or load.parent is not dot.parent:
                continue
            seen.add(load)
            kind = retyped(dot.operands[index].type,
                           layout_attr(operand_encoding(index, parents[dot], dots[dot])))
            yield _Weights(load, few or repeats_of(load), few is not None, kind)


def _loads(operand: SSAValue) -> Iterator[tuple[LoadOp, Runs | None]]:
    """Loads of matrices for an operand, and the runs in which their elements are repeated.

    Operands that are loaded as they are, or only converted to another type, have none.
    """
    work: list[tuple[SSAValue, Runs | None, bool]] = [(operand, None, False)]
    seen = set[SSAValue]()
    while work:
        value, runs, is_made = work.pop()
        op, few = value.owner, joined(value)
        if value in seen or isinstance(op, Block) or 1 in shape_of(value):
            continue
        seen.add(value)
        if isinstance(op, LoadOp):
            if is_made and len(shape_of(value)) == 2 and not is_volatile(op):
                yield op, runs
        elif few is not None:
            work.append((few, Runs(len(shape_of(value)) - 1, TIMES[32]), is_made))
        elif isinstance(op, ConvertLayoutOp) or is_elementwise(op):
            combines = len(op.operands) > 1
            work += [(v, runs, is_made or combines) for v in op.operands]


def _may_be_a_block(found: _Weights, once: _RunLoader, target: Target) -> bool:
    """True if few enough messages load the layout of an operand."""
    kind = found.kind
    is_integer = isinstance(found.kind.element_type, IntegerType)
    most = MOST_COPIES if is_integer else 1  # warps meet and share floats that take long to widen
    if copies_of(found.operand) > most or (found.runs and not once.may_shrink(found)):
        return False
    try:
        strides = Affine().index(once.pointers(found)).strides
    except Unknown:
        return False
    along = [d for d, stride in enumerate(strides) if stride.as_constant == 1]
    if not along or tuple(kind.get_shape()) != tuple(shape_of(once.pointers(found))):
        return False
    plan = messages_of(target, kind, along[-1] == 0)
    if isinstance(plan, Refusal):
        return False
    held = layout_of(kind)
    values = prod(held.in_dims[name] for name in ("register", "lane"))
    return values * bit_width(kind.element_type) // 8 >= LEAST_BYTES * len(plan.messages)


@dataclass
class _RunLoader:
    """Rewriter that loads one element of each run."""

    made: dict[tuple[SSAValue, Runs], SSAValue] = field(default_factory=dict)

    def may_shrink(self, found: _Weights) -> bool:
        """True if the pointers and the mask of one element of each run can be recomputed."""
        load, runs = found.load, found.runs
        assert runs is not None
        if found.is_few:
            return True
        if isinstance(load.ptr, BlockArgument) and carried_pointer(load.ptr) is None:
            return False
        return all(can_shrink(v, runs) for v in (initial(load.ptr), *load.operands[1:]))

    def pointers(self, found: _Weights) -> SSAValue:
        """Pointers of a load; the initial ones if a loop carries them."""
        first = initial(found.load.ptr)
        return first if found.runs is None or found.is_few else shrunk(
            first, found.runs, self.made)

    def load(self, found: _Weights) -> LoadOp:
        """Load one element of each run, and repeat it."""
        load, runs = found.load, found.runs
        if runs is None or found.is_few:
            load.unpacked = UnitAttr()
            return load
        kind = load.result.type
        masks = [shrunk(v, runs, self.made) for v in load.operands[1:]]
        loaded = LoadOp.create(
            operands=[self._moving(found), *masks], result_types=[shrunk_type(kind, runs)],
            properties=dict(load.properties), attributes=dict(load.attributes))
        loaded.unpacked = UnitAttr()
        repeated = RepeatOp(
            source=loaded.result, axis=runs.axis, times=runs.times, result_type=kind)
        locate(load, loaded, repeated)
        Rewriter.replace_op(load, [loaded, repeated])
        return loaded

    def _moving(self, found: _Weights) -> SSAValue:
        """Pointers as a loop carries them, which moves all by the same step."""
        moving, first = carried_pointer(found.load.ptr), self.pointers(found)
        if moving is None:
            return first
        held, step = moving
        body, moved = held.loop.body.block, held.end.owner
        new, (pointers,) = extend_for(held.loop, [first])
        assert isinstance(moved, AddPtrOp)
        kind = shrunk_type(moved.offset.type, found.runs)  # type: ignore[arg-type]
        at = InsertPoint.before(last_of(body))
        if isinstance(step, int):
            by = _constant_like(moved.offset, kind)
        else:
            by = SplatOp(operands=[step], result_types=[kind])
        after = AddPtrOp(operands=[pointers, by.results[0]], result_types=[pointers.type])
        Rewriter.insert_op([by, after], at)
        yield_more(new, [after.results[0]])
        return pointers


def _constant_like(value: SSAValue, kind: Any) -> Operation:
    """A splat constant with another shape."""
    number = constant_of(value)
    assert number is not None
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [number]), kind)
