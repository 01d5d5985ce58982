"""Estimate how many machine instructions LLVM generates for one instruction of a host function.

LLVM's time depends on them.  A vector of 128 fp32 elements takes 16 registers of 32 bytes, and each
operation on it 16 instructions.  Work that hosts do lane by lane counts each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from triton_xe.llvm.records import Function, Instruction
from triton_xe.llvm.types import Type
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

_PER_LANE, _PER_MASKED_LANE, _PER_SOURCE, _PER_MASKED = 3, 4, 4, 3


@dataclass
class HostCosts:
    """Costs on a host with vector registers of `width` bytes; `functions` may be inlined."""

    width: int
    functions: dict[str, int]

    @classmethod
    def for_host(cls, host: HostCpu, functions: Sequence[Function]) -> HostCosts:
        """Costs on a host, with those of `functions`, each of which calls only earlier ones."""
        made = cls(host.vector_bytes, {})
        for function in functions:
            made.functions[function.name] = sum(map(made.cost, function.instructions()))
        return made

    def cost(self, i: Instruction) -> int:
        """Machine instructions of an instruction, including those of a function that it calls."""
        if i.opcode == "phi":
            return 0
        if i.opcode == "call" and i.callee.startswith("llvm.masked."):
            return self._masked(i)
        if i.opcode in ("extractelement", "insertelement"):
            return 1
        widest = self.registers(i.type)
        for operand in i.operands:
            if operand.type.kind == "vec":
                widest = max(widest, self.registers(operand.type))
        if i.opcode == "shufflevector" and not (is_slice(i) or is_splat(i)):
            return self.registers(i.type) * min(_PER_SOURCE, widest)
        return widest + self.functions.get(i.callee, 0)

    def _masked(self, i: Instruction) -> int:
        """Cost of a masked access, which goes lane by lane on hosts without masks for it."""
        t = i.operands[0].type if i.type.kind == "void" else i.type
        if self.width == 64:
            return _PER_MASKED * self.registers(t)
        if "gather" in i.callee or "scatter" in i.callee:
            return _PER_LANE * t.lanes
        return _PER_MASKED_LANE * t.lanes if t.scalar.size < 4 else (
            _PER_MASKED * self.registers(t))

    def registers(self, t: Type) -> int:
        """Vector registers of a value; flags take at least a byte each."""
        return _registers(t, self.width)


@cache
def _registers(t: Type, width: int) -> int:
    return max(1, -(-t.size // width)) if t.kind == "vec" else 1


def is_slice(i: Instruction) -> bool:
    """True if a shuffle takes neighbouring elements of one operand, or all of both."""
    first = i.indices[0]
    return first >= 0 and i.indices[-1] == first + len(i.indices) - 1 and (
        i.indices == tuple(range(first, first + len(i.indices))))


def is_splat(i: Instruction) -> bool:
    """True if a shuffle repeats the first element."""
    return not any(i.indices)
