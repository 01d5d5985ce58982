"""Prevent LLVM from moving arithmetic past the cuts of a block.

Long blocks are cut.  LLVM sinks values that are used only after the cut, for example sums, so that
their operands stay live: loaded values, which it spills.

    %s = fadd <16 x float> %x, %y                %s = fadd <16 x float> %x, %y
    br i1 %bad, label %stopped, label %next      %s.here = asm sideeffect "", "=v,0" (%s)
  next:                                    ->    br i1 %bad, label %stopped, label %next
    use of %s                                  next:
                                                 use of %s.here

A value of several registers is pinned in each of them.

Functions that are split into pieces need no pins: their vectors are in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triton_xe import llvm as ir
from triton_xe.llvm import Block, Function, Instruction, Operand, vector
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import is_pin, pin
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_ARITHMETIC = frozenset("fadd fsub fmul".split())


def pinned_results(function: Function, stopped: str, host: HostCpu) -> Function:
    """Copy a host function, with results pinned at cuts: blocks that may branch to `stopped`."""
    stops = {stopped, *(b.label for b in function.blocks if b.successors == [stopped])}
    cuts = {b.label for b in function.blocks
            if len(b.successors) > 1 and not stops.isdisjoint(b.successors)}
    if not cuts:
        return function
    used_in = Facts(function).used_in
    pinned: dict[str, tuple[str, list[Instruction]]] = {
        i.result: (block.label, _pin(i, host)) for block in function.blocks if block.label in cuts
        for i in block.instructions
        if i.result and _fills_registers(i, host) and {*used_in.get(i.result, ())} - {block.label}}
    return replace(function, blocks=[_written(b, pinned) for b in function.blocks])


def without_pins(function: Function) -> Function:
    """Copy a host function, with values themselves in place of pinned ones."""
    pinned = {str(i.result): i.operands[0] for i in function.instructions() if is_pin(i)}
    blocks = [Block(b.label, [i for i in b.instructions if not is_pin(i)])
              for b in function.blocks]
    ir.substitute(blocks, pinned)
    return replace(function, blocks=blocks)


def _fills_registers(i: Instruction, host: HostCpu) -> bool:
    """True if a result fills one vector register of the host exactly, or 2, 4 and so on."""
    t = i.type
    computes = i.opcode in _ARITHMETIC or (
        i.opcode == "call" and i.callee.startswith(("llvm.fma.", "llvm.maxnum.", "llvm.minnum.")))
    if not (computes and t.kind == "vec" and t.scalar.kind == "float" and t.scalar.bits >= 32):
        return False  # only some hosts have fp16 in registers
    registers, left = divmod(t.count * t.scalar.bits, 8 * host.vector_bytes)
    return not left and registers.bit_count() == 1


def _pin(i: Instruction, host: HostCpu) -> list[Instruction]:
    """Pin each register of a result, and concatenate them again."""
    name, n = f"{i.result}.here", 8 * host.vector_bytes // i.type.scalar.bits
    made: list[Instruction] = []

    def add(opcode: str, operands: list[Operand], **fields: Any) -> Operand:
        lanes = len(fields["indices"]) if opcode == "shufflevector" else n
        made.append(Instruction(opcode, vector(lanes, i.type.scalar), operands,
                                f"{name}.{len(made)}", **fields))
        return made[-1].value

    bank = "v" if host.vector_bytes == 64 else host.float_bank
    parts = [i.value] if i.type.count == n else [
        add("shufflevector", [i.value, i.value], indices=tuple(range(first, first + n)))
        for first in range(0, i.type.count, n)]
    parts = [add("call", [x], callee=pin(bank)) for x in parts]
    while len(parts) > 1:
        parts = [add("shufflevector", [x, y], indices=tuple(range(2 * x.type.count)))
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]
    made[-1].result = name
    return made


def _written(block: Block, pinned: dict[str, tuple[str, list[Instruction]]]) -> Block:
    """Add a block's pins, and use the pinned values of other blocks."""
    held = {name: made[-1].value for name, (_, made) in pinned.items()}
    others = {name: x for name, x in held.items() if pinned[name][0] != block.label}
    phis, rest = Block(block.label, block.phis), block.instructions[len(block.phis):-1]
    ir.substitute([phis], held)
    body = Block(block.label, [*rest, block.instructions[-1]])
    ir.substitute([body], others)
    return Block(block.label, [*phis.instructions, *(
        x for i in body.instructions
        for x in (i, *(pinned[i.result][1] if i.result in pinned else ())))])
