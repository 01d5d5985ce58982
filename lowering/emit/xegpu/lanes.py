"""Accesses of single lanes: global or shared memory, with a condition, with cache hints.

A message with a hint has no condition, and neither has an ordinary access to shared memory.  So a
conditional one of those branches; as control flow of a kernel is the same for all lanes, that
happens in a helper function that every lane runs for itself.  Shared memory is not cached: hints
mean nothing there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths.terms import scalar_of
from triton_xe.lowering.emit.tensors.lsc import load_with_policy, store_with_policy
from triton_xe.lowering.emit.tensors.memory import load, store
from triton_xe.lowering.emit.types import I1, I8, I64, SLM, bits_of, suffix


def alignment(kind: ir.Type) -> int:
    """Bytes to which the elements of an access are aligned: their own size."""
    return max(bits_of(scalar_of(kind)) // 8, 1)


Where = tuple[ir.Value, ir.Value]
"""A pointer and an offset in bytes."""


def pointer_at(em: Any, where: Where) -> ir.Value:
    """base + offset."""
    return em.b.gep(where[0], [where[1]], source_etype=I8)


def hinted_load(
    em: Emitter, where: Where, kind: ir.Type, condition: ir.Value | None, policy: str
) -> ir.Value:
    """What lies at a pointer, or zero where the condition does not hold."""
    shared = where[0].type.addrspace == SLM
    policy = "default" if shared else policy
    if isinstance(condition, ir.Constant) and condition.constant == 0:
        return ir.Constant(kind, None)
    if condition is None:
        return _read(em, where, kind, policy)
    if not shared and policy == "default":
        return load(em, pointer_at(em, where), kind, condition, None, alignment(kind))
    helper = _load_helper(em, where[0].type, kind, policy)
    return _call(em, helper, [*where, condition])


def hinted_store(
    em: Emitter, where: Where, value: ir.Value, condition: ir.Value | None, policy: str
) -> None:
    """Write a value where the condition holds."""
    shared = where[0].type.addrspace == SLM
    policy = "default" if shared else policy
    if condition is None:
        _write(em, where, value, policy)
        return
    if not shared and policy == "default":
        store(em, pointer_at(em, where), value, condition, alignment(value.type))
        return
    helper = _store_helper(em, where[0].type, value.type, policy)
    _call(em, helper, [*where, value, condition])


def _read(em: Any, where: Where, kind: ir.Type, policy: str) -> ir.Value:
    pointer, align = pointer_at(em, where), alignment(kind)
    if policy != "default":
        return load_with_policy(em, pointer, kind, align, policy)
    value = em.b.load(pointer, typ=kind)
    value.align = align
    return value


def _write(em: Any, where: Where, value: ir.Value, policy: str) -> None:
    pointer, align = pointer_at(em, where), alignment(value.type)
    if policy != "default":
        store_with_policy(em, pointer, value, align, policy)
        return
    em.b.store(value, pointer).align = align


def _call(em: Emitter, helper: ir.Function, arguments: list[ir.Value]) -> Any:
    called = em.b.call(helper, arguments)
    called.cconv = helper.calling_convention
    return called


def _load_helper(em: Emitter, pointer: ir.Type, kind: ir.Type, policy: str) -> ir.Function:
    name = f"__xe_lane_load_{suffix(kind)}_p{pointer.addrspace}_{policy.replace('.', '_')}"

    def write(em: Emitter, function: ir.Function) -> None:
        b, (base, offset, condition) = em.b, function.args
        entry, yes, done = b.block, *(function.append_basic_block(n) for n in ("yes", "done"))
        b.cbranch(condition, yes, done)
        b.position_at_end(yes)
        value = _read(em, (base, offset), kind, policy)
        b.branch(done)
        b.position_at_end(done)
        phi = b.phi(kind)
        phi.add_incoming(ir.Constant(kind, None), entry)
        phi.add_incoming(value, yes)
        b.ret(phi)

    return lane_helper(em, name, kind, [pointer, I64, I1], write)


def _store_helper(em: Emitter, pointer: ir.Type, kind: ir.Type, policy: str) -> ir.Function:
    name = f"__xe_lane_store_{suffix(kind)}_p{pointer.addrspace}_{policy.replace('.', '_')}"

    def write(em: Emitter, function: ir.Function) -> None:
        b, (base, offset, value, condition) = em.b, function.args
        yes, done = (function.append_basic_block(n) for n in ("yes", "done"))
        b.cbranch(condition, yes, done)
        b.position_at_end(yes)
        _write(em, (base, offset), value, policy)
        b.branch(done)
        b.position_at_end(done)
        b.ret_void()

    return lane_helper(em, name, ir.VoidType(), [pointer, I64, kind, I1], write)


class _HelperEmitter:
    """As much of an `Emitter` as the body of a helper needs."""

    def __init__(self, em: Emitter, builder: ir.IRBuilder) -> None:
        self.state, self.target, self.b = em.state, em.target, builder


def lane_helper(
    em: Emitter, name: str, result: ir.Type, arguments: list[ir.Type], write: Any
) -> ir.Function:
    """The internal function of this name, written when first asked for."""
    known = em.state.llvm.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(em.state.llvm, ir.FunctionType(result, arguments), name)
    function.linkage = "internal"
    function.calling_convention = "spir_func"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    write(_HelperEmitter(em, builder), function)
    return function


__all__ = ["Where", "hinted_load", "hinted_store", "lane_helper", "pointer_at"]
