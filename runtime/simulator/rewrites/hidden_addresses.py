"""Hide how the addresses of gathers and scatters are computed from LLVM's code generator.

With AVX-512, LLVM 22.1 splits a gather of more than eight lanes.  If the addresses in each part are
one number plus constants, it may take the number of the first part for all parts:

    %p = inttoptr <16 x i64> %x to <16 x ptr>      %low, %high = shufflevector %x
    gather (%p)                               ->   %l, %h = asm "", "=v,0" (%low), (%high)
                                                   gather (inttoptr (shufflevector %l, %h))
"""

from __future__ import annotations

from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.llvm import I64, PTR, Builder, Function, Instruction, vector
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_AT = {"llvm.masked.gather.": 0, "llvm.masked.scatter.": 1}
"""Position of the addresses among the operands."""
_HIDDEN = f'{ir.ASSEMBLY} "", "=v,0"'
"""The callee that returns its operand, a register of addresses."""


def hidden_addresses(function: Function, host: HostCpu) -> Function:
    """A host function whose gathers and scatters have hidden addresses; itself if it has none."""
    count = host.vector_bytes // PTR.size
    if host.vector_bytes < 64 or not any(
            _splits(i, count) for i in function.instructions()):
        return function
    b = Builder(replace(function, blocks=[]), "hidden")
    for block in function.blocks:
        b.start(block.label)
        for i in block.instructions:
            b.append(_hidden(b, i, count) if _splits(i, count) else i)
    return b.function


def _position(i: Instruction) -> int | None:
    """Position of the addresses of a gather or scatter among its operands."""
    return next((at for name, at in _AT.items() if i.callee.startswith(name)), None)


def _splits(i: Instruction, count: int) -> bool:
    """True for a gather or scatter of more than `count` lanes."""
    at = _position(i)
    return at is not None and i.operands[at].type.count > count


def _hidden(b: Builder, i: Instruction, count: int) -> Instruction:
    """A gather or scatter whose addresses LLVM knows nothing about."""
    at, operands = _position(i) or 0, list(i.operands)
    whole = b.ptrtoint(operands[at])
    parts = [
        b.call(_HIDDEN, vector(count, I64), [b.shuffle(whole, None, range(first, first + count))])
        for first in range(0, whole.type.count, count)]
    while len(parts) > 1:
        parts = [b.shuffle(x, y, range(2 * x.type.count))
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]
    operands[at] = b.cast("inttoptr", parts[0], PTR)
    return i.with_operands(operands)
