"""Instrument messages of a kernel with trace records."""

from __future__ import annotations

from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.genisa import PREFIX
from triton_xe.llvm.records import Instruction, Operand, constant
from triton_xe.llvm.types import I1, I32, I64, Type, vector
from triton_xe.runtime.simulator.sanitizer.state import Kind
from triton_xe.runtime.simulator.trace.library import RECORD, record_lanes
from triton_xe.runtime.simulator.trace.tracing import Site
from triton_xe.runtime.simulator.widen.host_function import CTX, SG
from triton_xe.runtime.simulator.widen.parts import BlockArguments
from triton_xe.runtime.simulator.widen.values import Uniform, Value
from triton_xe.runtime.simulator.widen.widener import Widener

_KINDS = {
    Family.DPAS: "DPAS", Family.SHUFFLE: "shuffle", Family.REDUCTION: "shuffle",
    Family.HELPER: "lane by lane",
}


def _register_site(
    w: Widener, i: Instruction, kind: str, nbytes: int, detail: str = ""
) -> list[Operand] | None:
    """Register the trace site of an instruction; return the first operands of its record.

    None if the launch is not traced.
    """
    plan = w.kernel.plan
    if plan is None or not plan.trace:
        return None
    plan.sites[i.line] = Site(kind, nbytes, w.kernel.module.location(i.line, i.debug), detail)
    return [CTX, SG, constant(I32, i.line)]


def traced_access(
    w: Widener, i: Instruction, pointer: Value, slm: bool, t: Type, mask: Value | None, kind: int
) -> None:
    """Record a load, store or atomic of the lanes."""
    verb = "atomic" if kind & Kind.ATOMIC else "store" if kind & Kind.WRITE else "load"
    space = "SLM" if slm else "global"
    head = _register_site(w, i, f"{space} {verb}", t.size, f"{t.size} bytes a lane")
    if head is None:
        return
    if isinstance(pointer, Uniform):
        w.b.invoke(RECORD, *head, 1, 1)
        return
    addresses = w.b.ptrtoint(w.b.wide(pointer))
    active = constant(vector(w.lanes, I1), 1) if mask is None else w.b.mask(mask)
    w.b.invoke(record_lanes(w.lanes), *head, addresses, constant(I1, slm), active)


def traced_block(w: Widener, i: Instruction, arguments: BlockArguments, action: str) -> None:
    """Record a 2D block message at x, y."""
    a = arguments
    mode = "" if a.mode == "plain" else f" {a.mode}"
    shape = f"{a.blocks} x {a.tile_height} x {a.tile_width} of {a.bits} bits{mode}"
    nbytes = a.blocks * a.tile_height * a.tile_width * a.bits // 8
    head = _register_site(w, i, f"2D block {action.lower()}", nbytes, shape)
    if head is not None:
        x, y = (w.b.sext(n, I64) for n in a.surface[4:])
        w.b.invoke(RECORD, *head, x, y)


def traced_call(w: Widener, i: Instruction, *, barrier: bool) -> None:
    """Record a DPAS, shuffle or barrier, or the call of a helper that runs lane by lane."""
    kind = "barrier" if barrier else _KINDS.get(find(i.callee).family)
    if not kind:
        return
    head = _register_site(w, i, kind, 0, i.callee.removeprefix(PREFIX))
    if head is not None:
        w.b.invoke(RECORD, *head, 0, 0)
