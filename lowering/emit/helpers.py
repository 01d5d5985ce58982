"""Internal functions of the module, which are inlined, and those that every lane runs on its own.

Control flow of kernels is uniform; divergent code is in small functions, whose names start with
`__xe_lane_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triton_xe import llvm as ir
from triton_xe.intrinsics.own import LANE_PREFIX
from triton_xe.lowering.emit.writer import BUILTIN, ModuleState, Writer

Write = Callable[..., ir.Operand | None]
"""Writes the body of a function, given its writer and parameters; returns the result if any."""


def internal_function(
    state: ModuleState, symbol: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.Function:
    """A new function without a body, which is always inlined."""
    parameters = [(f"%a{k}", kind) for k, kind in enumerate(arguments)]
    made = ir.Function(symbol, result, parameters, [], is_internal=True, attributes="alwaysinline")
    state.llvm.functions[symbol] = made
    state.llvm.attributes[symbol] = made.attributes
    return made


def call_lane(
    em: Writer, name: str, result: ir.Type, arguments: Sequence[ir.Operand], write: Write
) -> ir.Operand:
    """Call a function that lanes run on their own, as `call_internal` does."""
    return call_internal(em, LANE_PREFIX + name, result, arguments, write)


def call_internal(
    em: Writer, symbol: str, result: ir.Type, arguments: Sequence[ir.Operand], write: Write
) -> ir.Operand:
    """Call the function `symbol`, which `write(writer, *parameters)` writes for the first call.

    Equal symbols must mean equal functions.
    """
    if symbol not in em.state.llvm.functions:
        types = [a.type for a in arguments]
        function = internal_function(em.state, symbol, result, types)
        function.blocks.append(ir.Block("%entry"))
        inner = Writer(em.state, function, function.blocks[0])
        inner.b.ret(write(inner, *function.arguments))
    return call_function(em, symbol, result, arguments)


def call_function(
    em: Writer, symbol: str, result: ir.Type, arguments: Sequence[ir.Operand]
) -> ir.Operand:
    """Call a function of the module."""
    wanted = [kind for _, kind in em.state.llvm.functions[symbol].parameters]
    if wanted != [value.type for value in arguments]:
        raise TypeError(f"arguments of {symbol}: {arguments}")
    return em.write(ir.Instruction(
        "call", result, list(arguments), callee=symbol, attributes=BUILTIN))


def conditional(
    w: Writer, condition: ir.Operand, write: Callable[[ir.Block], ir.Operand | None],
    otherwise: ir.Operand | None = None,
) -> ir.Operand | None:
    """The value that `write` computes if the condition holds, `otherwise` if it does not.

    `write` gets the block that follows, to which it may branch itself.
    """
    entry = w.b.block
    taken, done = (w.b.append_block(name) for name in ("try", "done"))
    w.b.branch_if(condition, taken, done)
    w.b.at_end(taken)
    value = write(done)
    last = w.b.block
    if not last.is_terminated:
        w.b.branch(done)
    w.function.blocks.remove(done)
    w.function.blocks.append(done)
    w.b.at_end(done)
    if otherwise is None:
        return None
    assert value is not None
    return w.b.merged(otherwise.type, (otherwise, entry), (value, last))
