"""Emit regions on scalars; with control flow, as a function that is called for each lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Region, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import (
    CallOp,
    MapElementwiseReturnOp,
    ReduceReturnOp,
    ScanReturnOp,
)
from triton_xe.intrinsics.own import LANE_PREFIX
from triton_xe.lowering.emit.control import Frame, write_blocks
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import call_function, internal_function
from triton_xe.lowering.emit.types import argument_type, scalar_type

Values = list[ir.Operand]
Scalar = Callable[[Sequence[ir.Operand]], Values]


RETURNS = (ReduceReturnOp, ScanReturnOp, MapElementwiseReturnOp)


def has_control_flow(region: Region) -> bool:
    """True if the region has control flow."""
    return len(region.blocks) > 1 or any(
        op.regions or isinstance(op, CallOp) for block in region.blocks for op in block.ops
    )


def scalar_code(em: Emitter, region: Region) -> Scalar:
    """Return a function that emits the region for given LLVM values.

    It emits the region's operations in place, or a call for each lane if the region branches.
    """
    if has_control_flow(region):
        return _as_function(em, region)

    def write(arguments: Sequence[ir.Operand]) -> Values:
        outer = em.enter()
        for arg, value in zip(region.block.args, arguments, strict=True):
            em.bind(arg, value)
        made: Values = []
        for op in region.block.ops:
            if isinstance(op, RETURNS):
                made = [em.scalar(v) for v in op.arguments]
            else:
                em.operation(op)
        em.leave(outer)
        return made

    return write


@lowers(*RETURNS)
def lower_region_return(
    em: Emitter, op: ReduceReturnOp | ScanReturnOp | MapElementwiseReturnOp
) -> None:
    """Record the values that a region with control flow returns from this block."""
    em.frames[-1].returns.append((em.b.block, [([em.scalar(v)], _only) for v in op.arguments]))


def _only(parts: Values) -> ir.Operand:
    return parts[0]


def captured(region: Region) -> list[SSAValue]:
    """Values from outside that the region uses."""
    inside = {arg for op in region.walk() for r in op.regions for b in r.blocks for arg in b.args}
    inside |= {arg for block in region.blocks for arg in block.args}
    inside |= {result for op in region.walk() for result in op.results}
    used = (value for op in region.walk() for value in op.operands)
    return list(dict.fromkeys(v for v in used if v not in inside))


def _as_function(em: Emitter, region: Region) -> Scalar:
    """Emit the region as an LLVM function on scalars of one lane; return what emits a call."""
    kinds = [scalar_type(arg.type) for arg in region.blocks[0].args]
    outside = captured(region)
    extra = [em.scalar(v) for v in outside]
    types = [*kinds, *(v.type for v in extra)]
    name = f"{LANE_PREFIX}code{len(em.state.llvm.functions)}"
    results = _result_types(region)
    returned = _return_type(results)
    function = internal_function(em.state, name, returned, types)
    inner = Emitter(em.state, function, em.source)
    for value, arg in zip([*region.blocks[0].args, *outside], function.arguments, strict=True):
        inner.bind(value, arg)
    frame = Frame(name)
    inner.frames.append(frame)
    write_blocks(inner, region)
    values = frame.results(inner)
    _return(inner, values)

    def call(arguments: Sequence[ir.Operand]) -> Values:
        called = call_function(em, name, returned, [*arguments, *extra])
        if len(results) == 1:
            return [called]
        return [em.b.extract_value(called, i) for i in range(len(results))]

    return call


def _result_types(region: Region) -> list[ir.Type]:
    last = next(op for block in region.blocks for op in block.ops if isinstance(op, RETURNS))
    return [argument_type(v.type) for v in last.arguments]


def _return_type(results: Sequence[ir.Type]) -> ir.Type:
    """LLVM type of the results: one result, or a structure."""
    return results[0] if len(results) == 1 else ir.struct(tuple(results))


def _return(em: Emitter, values: Values) -> None:
    """Return one value, or several as a structure."""
    if len(values) == 1:
        em.b.ret(values[0])
        return
    whole: ir.Operand = ir.undef(_return_type([v.type for v in values]))
    for index, value in enumerate(values):
        whole = em.b.insert_value(whole, value, index)
    em.b.ret(whole)
