"""Arithmetic stays where it was written, before the end of its block.

Long blocks are cut.  LLVM moves what is needed only after the cut to where it is needed, sums for
example, and has to keep all that they are made of: what was loaded for them, in memory.

    %s = fadd <16 x float> %x, %y                %s = fadd <16 x float> %x, %y
    br i1 %bad, label %stopped, label %next      %s.here = asm sideeffect "", "=v,0" (%s)
  next:                                    ->    br i1 %bad, label %stopped, label %next
    use of %s                                  next:
                                                 use of %s.here
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.ir import Block, Function, Instruction
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_ARITHMETIC = frozenset("fadd fsub fmul".split())


def pinned_results(function: Function, stopped: str, host: HostCpu) -> Function:
    """The host function whose cuts, which go to `stopped`, hold results; it stays as it is."""
    cuts = {b.label for b in function.blocks if stopped in b.successors and len(b.successors) > 1}
    if not cuts:
        return function
    users: dict[str, set[str]] = defaultdict(set)
    for block in function.blocks:
        for i in block.instructions:
            for name in i.locals():
                users[name].add(block.label)
    pinned: dict[str, tuple[str, Instruction]] = {
        i.result: (block.label, _pin(i, host)) for block in function.blocks if block.label in cuts
        for i in block.instructions
        if i.result and _is_register(i, host) and users[i.result] - {block.label}}
    return replace(function, blocks=[_written(b, pinned) for b in function.blocks])


def _is_register(i: Instruction, host: HostCpu) -> bool:
    """Whether it computes just what a vector register of the host holds."""
    t = i.type
    computes = i.opcode in _ARITHMETIC or (
        i.opcode == "call" and i.callee.startswith(("llvm.fma.", "llvm.maxnum.", "llvm.minnum.")))
    return (computes and t.kind == "vec" and t.scalar.kind == "float"
            and t.count * t.scalar.bits == 8 * host.vector_bytes)


def _pin(i: Instruction, host: HostCpu) -> Instruction:
    assert i.result is not None
    bank = "v" if host.vector_bytes == 64 else host.float_bank
    return Instruction("call", i.type, [i.value], f"{i.result}.here",
                       callee=f'{ir.ASSEMBLY} sideeffect "", "={bank},0"')


def _written(block: Block, pinned: dict[str, tuple[str, Instruction]]) -> Block:
    """A block with its pins before its end, and with what others have pinned."""
    used = {name for i in block.instructions for name in i.locals() if name in pinned}
    renamed = {name: pinned[name][1].value for name in used if pinned[name][0] != block.label}
    own = [pinned[i.result][1] for i in block.instructions if i.result in pinned]
    made = Block(block.label, [*block.instructions[:-1], *own, block.instructions[-1]])
    ir.substitute([made], renamed)
    return made
