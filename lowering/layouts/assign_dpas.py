"""Rule assign-dpas: assign a DPAS layout to every dot that the matrix unit supports.

    tt.dot (cvt %a), (cvt %b), %c : #blocked

 -> cvt (tt.dot (cvt %a : -> dot_op<0, #xe.dpas>), (cvt %b), (cvt %c : -> #xe.dpas)) : -> #blocked

Then `propagate_layouts` moves conversions to where they cost nothing.  `dpas_encoding`, a pure
function, decides how warps share the result.  If the result of one dot is an operand of another,
both are shared along the same dimension, so that it stays in its warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import ScaledDotOp
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import Target
from triton_xe.layout import DpasEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.at_operand import (
    is_unpacked,
    load_rows_in_pairs,
    loaded_as,
    rebuild_pointers,
)
from triton_xe.lowering.layouts.block_layouts import legalize_block_layouts
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.dot_operands import PRODUCTS, Operands, add, without_nan, zeros
from triton_xe.lowering.layouts.dpas_choice import (
    batched_encoding,
    clusters_explained,
    for_warps,
    instruction_of,
    operand_encoding,
    scales_encoding,
)
from triton_xe.lowering.layouts.narrow_products import narrow_products
from triton_xe.lowering.layouts.propagate_layouts import propagate
from triton_xe.lowering.layouts.rematerialize import before_conversions, converted
from triton_xe.lowering.layouts.share_conversions import share_conversions
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import (
    all_of,
    locate_since,
)

_CHAINED = ("arith", "math")
_Dot = TypeVar("_Dot", bound=DotOp | ScaledDotOp)


def assign_dpas(function: FuncOp, scope: Scope) -> None:
    """Assign DPAS layouts to dots."""
    if scope.keeps_layouts:
        legalize_block_layouts(function, scope.target, scope.warps)
    else:
        _assign_function(function, scope.target, scope.warps)


def _instruction(dot: DotOp | ScaledDotOp, target: Target, num_warps: int) -> Dpas | str:
    """The instruction for a dot that these warps share, or the reason why there is none."""
    dpas = instruction_of(dot, target)
    return dpas if isinstance(dpas, str) or isinstance(dot, ScaledDotOp) else for_warps(
        dpas, shape_of(dot.c), num_warps)


def _assign_function(function: Operation, target: Target, num_warps: int) -> None:
    """Give each dot a DPAS layout, propagate the layouts, and remark how each dot is multiplied."""
    found: list[DotOp | ScaledDotOp] = all_of(function, DotOp, ScaledDotOp)
    dots = {op: _instruction(op, target, num_warps) for op in found}
    made = {dot: dpas for dot, dpas in dots.items() if isinstance(dpas, Dpas)}
    if made:
        narrow_products(function)
    parents = shares(made, num_warps, target)
    for dot, dpas in dots.items():
        if isinstance(dpas, Dpas):
            parent = parents[dot]
            remark(dot, f"{dpas}{clusters_explained(parent, dpas, target)}")
            if isinstance(dot, ScaledDotOp):
                _assign_scaled(dot, dpas, parent)
            else:
                _assign(dot, dpas, parent)
        else:
            remark(dot, f"multiplied by FMA: {dpas}")
    if made:
        _share_equal(function)
        propagate(function, target)
    if made:
        load_rows_in_pairs(function, target)
        rebuild_pointers(function)
        share_conversions(function, target)
    if legalize_block_layouts(function, target, num_warps):
        propagate(function, target)


def _share_equal(function: Operation) -> None:
    """Convert a tensor once that several dots use in one layout."""
    known: dict[tuple[object, ...], ConvertLayoutOp] = {}
    for op in all_of(function, ConvertLayoutOp):
        first = known.setdefault((op.parent, op.src, op.result.type), op)
        if first is not op:
            Rewriter.replace_op(op, [], [first.result])


def shares(
    dots: Mapping[_Dot, Dpas], num_warps: int, target: Target
) -> dict[_Dot, DpasEncoding]:
    """Return how warps share the result of each dot."""
    first = _shared_first(list(dots))
    return {dot: batched_encoding(shape_of(dot.c), num_warps, dpas, first.get(dot, ""),
                                  _limiting_row(dot, target))
            for dot, dpas in dots.items()}


def _shared_first(dots: list[Any]) -> dict[Any, str]:
    """Return the dimension that warps share first, for each dot that has one.

    The result of a dot that is an operand of another stays in its warp.  Weights that are unpacked
    are shared by columns, so that only one warp unpacks each.  Gathered rows are shared so that
    only one warp loads each.
    """
    first: dict[Any, str] = {
        dot: "columns" for dot in dots
        if _is_swapped(dot) or is_unpacked(before_conversions(dot.b))}
    for dot in dots:
        for user, index in _reached(dot):
            if user in dots:
                side = ("rows", "columns")[index]
                first.setdefault(dot, side)
                first.setdefault(user, side)
    return first


def _limiting_row(dot: DotOp | ScaledDotOp, target: Target) -> int:
    """Elements of a row of A if whole rows limit the height of a warp's share, otherwise 0.

    They do if weights are unpacked and all rows come by block loads before they are used.  Gathered
    rows would be loaded twice instead, and without blocks rows are read piecemeal.
    """
    whole = target.has_block_2d and not _is_swapped(dot)
    return shape_of(dot.a)[-1] if whole and is_unpacked(before_conversions(dot.b)) else 0


def _is_swapped(dot: DotOp | ScaledDotOp) -> bool:
    return isinstance(dot, DotOp) and dot.swapped is not None


def _reached(dot: DotOp | ScaledDotOp) -> list[tuple[DotOp | ScaledDotOp, int]]:
    """(dot, operand) pairs that the result of a dot reaches through element-wise operations."""
    found = []
    work, seen = list(dot.results), set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.operation
            if isinstance(user, DotOp | ScaledDotOp) and use.index < 2:
                found.append((user, use.index))
            elif type(user) in (*CASTS, ConvertLayoutOp) or user.dialect_name() in _CHAINED:
                work += user.results
    return found


def _assign(dot: DotOp, dpas: Dpas, parent: DpasEncoding) -> None:
    """Give a dot and its operands the layouts of the instruction.

    A product of more precision than the instruction's becomes a sum of several.
    """
    precision = dot.precision
    operands = Operands(dpas, precision)
    terms = []
    for index, (operand, name) in enumerate(((dot.a, dpas.a), (dot.b, dpas.b))):
        source = before_conversions(operand)
        encoding = layout_attr(operand_encoding(index, parent, dpas))
        value = converted(source, encoding, _earliest_point(source, dot))
        terms.append(operands.terms(value, name, _earliest_point(value, dot)))
    at, before = InsertPoint.before(dot), dot.prev_op
    kind = layout_attr(parent)
    acc = converted(before_conversions(dot.c), kind, at)
    small = PRODUCTS.get(precision, ()) if len(terms[0]) > 1 else ()
    total = zeros(acc.type, at) if small else acc
    for left, right in small:
        total = _multiplied(dot, terms[0][left], terms[1][right], total, at)
    if small:
        total = without_nan(total, at)
    result = _multiplied(dot, terms[0][0], terms[1][0], total, at)
    if small:
        result = add(result, acc, at)
    back = ConvertLayoutOp(operands=[result], result_types=[dot.d.type])
    locate_since(before, dot)
    Rewriter.replace_op(dot, back)


def _assign_scaled(dot: ScaledDotOp, dpas: Dpas, parent: DpasEncoding) -> None:
    """Give a scaled dot, its operands and scales the layouts of the instruction."""
    at, before, given = InsertPoint.before(dot), dot.prev_op, []
    for index, operand in enumerate((dot.a, dot.b)):
        source = before_conversions(operand)
        encoding = layout_attr(operand_encoding(index, parent, dpas))
        given.append(converted(source, encoding, _earliest_point(source, dot)))
    given.append(converted(before_conversions(dot.c), layout_attr(parent), at))
    for index, (operand, scale) in enumerate(((dot.a, dot.a_scale), (dot.b, dot.b_scale))):
        source = before_conversions(scale)
        encoding = layout_attr(scales_encoding(
            index, parent, dpas, shape_of(operand), shape_of(scale)[1]))
        if source.has_one_use():
            source = loaded_as(source, encoding)
        given.append(converted(source, encoding, _earliest_point(source, dot)))
    made = ScaledDotOp.create(operands=given, result_types=[given[2].type],
                              attributes=dict(dot.attributes))
    Rewriter.insert_op(made, at)
    back = ConvertLayoutOp(operands=[made.d], result_types=[dot.d.type])
    locate_since(before, dot)
    Rewriter.replace_op(dot, back)


def _multiplied(
    dot: DotOp, a: SSAValue, b: SSAValue, acc: SSAValue, at: InsertPoint
) -> SSAValue:
    """Insert the dot of other operands at `at`; products that are terms of fp32 are of tf32."""
    copy = DotOp.create(
        operands=[a, b, acc], result_types=[acc.type], properties=dict(dot.properties),
        attributes=dict(dot.attributes),
    )
    if dot.precision in PRODUCTS:
        copy.input_precision = StringAttr("tf32")
    Rewriter.insert_op(copy, at)
    return copy.d


def _earliest_point(value: SSAValue, dot: DotOp | ScaledDotOp) -> InsertPoint:
    """Earliest point for computing an operand of a dot: outside of loops that do not change it."""
    op = value.owner
    if isinstance(op, Operation):
        return InsertPoint.after(op) if op.parent is not dot.parent else InsertPoint.before(dot)
    if op is dot.parent or op.first_op is None:
        return InsertPoint.before(dot)
    return InsertPoint.before(op.first_op)
