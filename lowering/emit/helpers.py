"""Internal functions of the module, which are inlined, and those that every lane runs on its own.

Control flow of kernels is uniform; divergent code is in small functions, whose names start with
`__xe_lane_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from triton_xe.intrinsics.own import LANE_PREFIX
from triton_xe.lowering.emit.building.function import Function
from triton_xe.lowering.emit.writer import ModuleState, Writer


def internal_function(
    state: ModuleState, symbol: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.Function:
    """A new function without a body, which is always inlined."""
    function = Function(state.llvm, ir.FunctionType(result, arguments), symbol)
    function.linkage = "internal"
    function.calling_convention = "spir_func"
    function.attributes.add("alwaysinline")
    return function


def call_lane(
    em: Writer, name: str, result: ir.Type, arguments: Sequence[ir.Value],
    write: Callable[..., ir.Value | None],
) -> ir.Value:
    """Call a function that lanes run on their own, as `call_internal` does."""
    return call_internal(em, LANE_PREFIX + name, result, arguments, write)


def call_internal(
    em: Writer, symbol: str, result: ir.Type, arguments: Sequence[ir.Value],
    write: Callable[..., ir.Value | None],
) -> ir.Value:
    """Call the function `symbol`, which `write(writer, *parameters)` writes for the first call.

    Equal symbols must mean equal functions.
    """
    function = em.state.llvm.globals.get(symbol)
    if function is None:
        function = internal_function(em.state, symbol, result, [a.type for a in arguments])
        inner = Writer(em.state, function.append_basic_block("entry"))
        value = write(inner, *function.args)
        if value is None:
            inner.b.ret_void()
        else:
            inner.b.ret(value)
    return em.b.call(function, arguments)


def conditional(
    w: Writer, condition: ir.Value, write: Callable[[ir.Block], ir.Value | None],
    otherwise: ir.Value | None = None,
) -> ir.Value | None:
    """The value that `write` computes if the condition holds, `otherwise` if it does not.

    `write` gets the block that follows, to which it may branch itself.
    """
    entry = w.b.block
    taken, done = (w.b.append_basic_block(name) for name in ("try", "done"))
    w.b.cbranch(condition, taken, done)
    w.b.position_at_end(taken)
    value = write(done)
    last = w.b.block
    if not last.is_terminated:
        w.b.branch(done)
    w.function.blocks.remove(done)
    w.function.blocks.append(done)
    w.b.position_at_end(done)
    if otherwise is None:
        return None
    merged = w.b.phi(otherwise.type)
    merged.add_incoming(otherwise, entry)
    merged.add_incoming(value, last)
    return merged
