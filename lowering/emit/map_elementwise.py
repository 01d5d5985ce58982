"""Lowering of tl.map_elementwise: a scalar function, maybe with branches, on every element."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.dialects.tt.structure import (
    MapElementwiseOp,
    MapElementwiseReturnOp,
    ReduceReturnOp,
    ScanReturnOp,
)
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.scalar_code import Scalar, Values, branches, is_return, lane_function
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.types import scalar_type
from triton_xe.lowering.surfaces.affine import attribute


@lowers(MapElementwiseOp)
def lower_map_elementwise(em: Emitter, op: MapElementwiseOp) -> None:
    pack = int(attribute(op, "pack").value.data)
    sources = [em.registers(v) for v in op.operands]
    count = len(em.view(op.results[0]).registers)
    if count % pack:
        raise UnsupportedError(
            f"tl.map_elementwise with pack={pack} on a tensor of which each lane holds {count} "
            "elements: use a larger tensor, fewer warps or a smaller pack"
        )
    region = op.regions[0]
    kinds = [s.kind for s in sources for _ in range(pack)]
    write = lane_function(em, region, kinds) if branches(region) else _straight(em, op)
    results: list[list[ir.Value]] = [[] for _ in op.results]
    for start in range(0, count, pack):
        given = [s.register(em, start + i) for s in sources for i in range(pack)]
        made = write(given)
        for index, out in enumerate(results):
            out += made[index * pack : (index + 1) * pack]
    for result, scalars in zip(op.results, results, strict=True):
        em.bind(result, from_scalars(em, scalar_type(result.type), scalars))


def _straight(em: Emitter, op: Operation) -> Scalar:
    """A region without branches, written out for each element."""
    block = op.regions[0].block

    def write(arguments: Sequence[ir.Value]) -> Values:
        outer = em.enter()
        for arg, value in zip(block.args, arguments, strict=True):
            em.bind(arg, value)
        made: Values = []
        for inner in block.ops:
            if is_return(inner):
                made = [em.scalar(v) for v in inner.operands]
            else:
                em.operation(inner)
        em.leave(outer)
        return made

    return write


@lowers(MapElementwiseReturnOp, ReduceReturnOp, ScanReturnOp)
def lower_region_return(em: Emitter, op: Operation) -> None:
    """The end of scalar code that runs lane by lane."""
    em.frames[-1].returns.append((em.b.block, [([em.scalar(v)], _first) for v in op.operands]))


def _first(parts: Values) -> ir.Value:
    return parts[0]
