"""Rule step-general-products: general versions multiply one instruction's K per iteration.

    %a = tt.load %p : 128x64         scf.for %k = 0 to 64 step 16 iter_args(%s = %c) {
    %b = tt.load %q : 64x128    ->     %a = tt.load (columns %k to %k + 16 of %p) : 128x16
    %d = tt.dot %a, %b, %c             %b = tt.load (rows %k to %k + 16 of %q)    : 16x128
                                       tt.dot %a, %b, %s }

If only the kernel can test a guard, it contains a version without 2D messages.  A message of that
version loads one element per lane, so that a whole block takes many instructions.  The loop
executes as many, and keeps a part of the code and of the registers.  The order of the sums is that
of the whole block.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.hardware.dpas import Dpas
from triton_xe.layout import BlockedEncoding
from triton_xe.layout.encodings import Encoding
from triton_xe.lowering.facts.values import Unknown, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.layouts.rematerialize import is_volatile
from triton_xe.lowering.parts import Parts, rolled_loop
from triton_xe.lowering.rewriting import orders_memory
from triton_xe.lowering.surfaces.raise_surfaces import in_slow_version


def step_general_products(dot: DotOp, scope: Scope) -> None:
    """In versions without 2D messages, multiply one instruction's K per iteration of a loop."""
    dpas, size = instruction_of(dot, scope.target), shape_of(dot.a)[-1]
    if not isinstance(dpas, Dpas) or len(shape_of(dot.a)) != 2 or (
            size <= dpas.k or not in_slow_version(dot)):
        return
    extent, body = dpas.k, Block(arg_types=(i32, dot.c.type))

    def loaded(parts: Parts, value: SSAValue, dim: int) -> SSAValue | None:
        load = value.owner
        if not isinstance(load, LoadOp):
            return None
        _check(load, dot)
        return parts.again(load, dim)

    parts = Parts(body, extent, lambda held, dim: _narrowed(held, dim, extent), loaded)
    try:
        a, b = parts.value(dot.a, 1), parts.value(dot.b, 0)
    except Unknown:
        return
    made = DotOp.create(operands=[a, b, body.args[1]], result_types=[dot.d.type],
                        properties=dict(dot.properties), attributes=dict(dot.attributes))
    parts.put(dot, made)
    body.add_op(scf.YieldOp(made.d))
    loop = rolled_loop(dot, size, extent, body, [dot.c])
    Rewriter.replace_op(dot, [], loop.results)


def _check(load: LoadOp, dot: DotOp) -> None:
    """Raise `Unknown` unless a load can be moved to a product."""
    if is_volatile(load) or not load.result.has_one_use() or load.parent is not dot.parent:
        raise Unknown("the load is used elsewhere")
    following = load.next_op
    while following is not None and following is not dot:
        if orders_memory(following):
            raise Unknown(f"the load stays before {following.name}")
        following = following.next_op


def _narrowed(layout: Encoding, dim: int, extent: int) -> Encoding:
    """A layout in which as few warps as possible have copies of `extent` elements of a dimension.

    They are distributed over the other dimension of a matrix.
    """
    if not isinstance(layout, BlockedEncoding) or len(layout.order) != 2:
        return layout
    warps = list(layout.warps_per_cta)
    lanes = layout.size_per_thread[dim] * layout.threads_per_warp[dim]
    kept = min(warps[dim], max(1, extent // lanes))
    warps[1 - dim] *= warps[dim] // kept
    warps[dim] = kept
    return replace(layout, warps_per_cta=tuple(warps))
