"""Regions on scalars with control flow of their own, as functions that run lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from xdsl.ir import Operation, Region, SSAValue

from triton_xe.intrinsics.own import LANE_PREFIX
from triton_xe.lowering.emit.control import Frame, write_blocks
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.helpers import lane_function as new_function
from triton_xe.lowering.emit.types import argument_type

Values = list[ir.Value]
Scalar = Callable[[Sequence[ir.Value]], Values]


def branches(region: Region) -> bool:
    """Whether the region has control flow."""
    return len(region.blocks) > 1 or any(
        op.regions or op.name == "tt.call" for block in region.blocks for op in block.ops
    )


def captured(region: Region) -> list[SSAValue]:
    """Values from outside that the region uses."""
    inside = {arg for op in region.walk() for r in op.regions for b in r.blocks for arg in b.args}
    inside |= {arg for block in region.blocks for arg in block.args}
    inside |= {result for op in region.walk() for result in op.results}
    used = (value for op in region.walk() for value in op.operands)
    return list(dict.fromkeys(v for v in used if v not in inside))


def lane_function(em: Emitter, region: Region, kinds: Sequence[ir.Type]) -> Scalar:
    """The region as a function on scalars that differ from lane to lane.

    `kinds` are the types of the region's arguments.
    """
    outside = captured(region)
    extra = [em.scalar(v) for v in outside]
    types = [*kinds, *(v.type for v in extra)]
    name = em.state.llvm.get_unique_name(f"{LANE_PREFIX}code").removeprefix(LANE_PREFIX)
    results = _result_types(region)
    function = new_function(em.state, name, _returned(results), types)
    inner = Emitter(em.state, function, em.source)
    for value, arg in zip([*region.blocks[0].args, *outside], function.args, strict=True):
        inner.bind(value, arg)
    frame = Frame(name)
    inner.frames.append(frame)
    write_blocks(inner, region)
    values = frame.results(inner)
    _return(inner, values)
    inner.allocas.branch(inner.body)

    def call(arguments: Sequence[ir.Value]) -> Values:
        called = em.b.call(function, [*arguments, *extra])
        if len(results) == 1:
            return [called]
        return [em.b.extract_value(called, i) for i in range(1, len(results) + 1)]

    return call


def _result_types(region: Region) -> list[ir.Type]:
    last = next(
        op for block in region.blocks for op in block.ops if op.name.endswith(".return")
    )
    return [argument_type(v.type) for v in last.operands]


def _returned(results: Sequence[ir.Type]) -> ir.Type:
    """One result, or a structure with the results after an empty member.

    LLVM's SPIR-V target ends the process on member 0 when the module has the number 0 already
    ("Unexpected integer constant pattern", SPIRVUtils.cpp, LLVM 22.1).
    """
    if len(results) == 1:
        return results[0]
    return ir.LiteralStructType([results[0], *results])


def _return(em: Emitter, values: Values) -> None:
    if len(values) == 1:
        em.b.ret(values[0])
        return
    whole: ir.Value = ir.Constant(_returned([v.type for v in values]), ir.Undefined)
    for index, value in enumerate(values, 1):
        whole = em.b.insert_value(whole, value, index)
    em.b.ret(whole)


def is_return(op: Operation) -> bool:
    """Whether an operation ends a region of scalar code."""
    return op.name.endswith(".return")
