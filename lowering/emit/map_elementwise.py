"""Lowering of tl.map_elementwise: a scalar function, maybe with branches, on every element."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import MapElementwiseOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.scalar_code import scalar_code
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.types import scalar_type


@lowers(MapElementwiseOp)
def lower_map_elementwise(em: Emitter, op: MapElementwiseOp) -> None:
    pack = int(op.pack.value.data)
    sources = [em.registers(v) for v in op.srcs]
    count = len(em.view(op.res[0]).registers)
    if count % pack:
        raise UnsupportedError(
            f"tl.map_elementwise with pack={pack} on a tensor of which each lane holds {count} "
            "elements: use a larger tensor, fewer warps or a smaller pack"
        )
    write = scalar_code(em, op.scalar_op)
    results: list[list[ir.Operand]] = [[] for _ in op.res]
    for start in range(0, count, pack):
        made = write([s.register(em, start + i) for s in sources for i in range(pack)])
        for index, out in enumerate(results):
            out += made[index * pack : (index + 1) * pack]
    for result, scalars in zip(op.res, results, strict=True):
        em.bind(result, from_scalars(em, scalar_type(result.type), scalars))
