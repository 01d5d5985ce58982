"""Macros of IEEE division and square root: `math.invm`, `math.rsqtm` and `madm`.

Their `mme` registers have more bits of exponent than the general registers, therefore steps
between them neither overflow nor underflow.  Values are kept here as fp64 with the mantissa of
their type.  The flag (eo) is set for special operands, whose result is final.  Source: Intel PRM,
"Math function", and IGC, visa/iga/IGALibrary, "math macro".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from triton_xe.runtime.emulator import numbers
from triton_xe.runtime.emulator.channels import Running, execution_mask, set_flags
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.operands import Read, destination, source
from triton_xe.runtime.emulator.registers import CHANNELS, Array, Threads

Step = Callable[[Threads, Running], Any]
_PLAIN = "nomme"
_MANTISSA = 2.0**24


def is_macro(instruction: Instruction) -> bool:
    return instruction.op == "madm" or instruction.subop in ("invm", "rsqtm")


def _register(operand: Operand) -> Operand:
    """The general register of a macro operand, whose channels are consecutive."""
    if operand.kind == "immediate":
        return operand
    return replace(operand, kind="register", region=operand.region or (1, 1, 0))


def _read(operand: Operand, width: int, grf_bytes: int) -> Read:
    """The operand's values as fp64, from its `mme` register if it names one."""
    general = source(_register(replace(operand, modifiers="")), width, grf_bytes).read
    negates, name = "n" in operand.modifiers, operand.extra

    def read(threads: Threads) -> Array:
        if name == _PLAIN:
            values = np.broadcast_to(general(threads).astype(np.float64), (threads.count, width))
        else:
            values = threads.exponents[name][:, :width]
        return -values if negates else values

    return read


class _Macro:
    """Operands of a macro instruction and how its result is stored."""

    def __init__(self, instruction: Instruction, grf_bytes: int) -> None:
        target = instruction.destination
        assert target is not None
        width = instruction.width
        self.reads = tuple(_read(each, width, grf_bytes) for each in instruction.sources)
        self.is_double = target.type == "df"
        self.mask = execution_mask(instruction)
        self._width, self._name = width, target.extra
        self._write = destination(
            replace(target, kind="register", region=(1, 1, 0)), width, grf_bytes)

    def store(self, threads: Threads, values: Array, running: Running) -> None:
        """Write the general register, and the `mme` register with all of the exponent."""
        chosen = self.mask(threads, running)
        self._write(threads, values if self.is_double
                    else numbers.narrowed(values, np.float32, threads), chosen)
        if self._name == _PLAIN:
            return
        kept = threads.exponents.setdefault(self._name, np.zeros((threads.count, CHANNELS)))
        rounded = values if self.is_double else _rounded(values)
        np.copyto(kept[:, : self._width], rounded, where=True if chosen is None else chosen)


def _rounded(values: Array) -> Array:
    """fp64 values with 24 bits of mantissa, to nearest even."""
    mantissa, exponent = np.frexp(values)
    plain = np.isfinite(values) & (values != 0)
    return np.where(plain, np.ldexp(np.rint(mantissa * _MANTISSA), exponent - 24), values)


def _multiply_add(instruction: Instruction, grf_bytes: int) -> Step:
    """madm: src0 + src1 * src2, fused."""
    macro = _Macro(instruction, grf_bytes)
    z, x, y = macro.reads

    def run(threads: Threads, running: Running) -> None:
        if macro.is_double:
            values = numbers.doubles(
                *numbers.fused_with_error(x(threads), y(threads), z(threads)), threads)
        else:
            values = numbers.fused_to_odd(x(threads), y(threads), z(threads))
        macro.store(threads, values, running)

    return run


def _special(
    function: Callable[..., tuple[Array, Array]],
) -> Callable[[Instruction, int], Step]:
    """A first approximation; `function` returns special channels and results."""

    def define(instruction: Instruction, grf_bytes: int) -> Step:
        macro, flags = _Macro(instruction, grf_bytes), set_flags(instruction)

        def run(threads: Threads, running: Running) -> None:
            special, values = function(*(read(threads) for read in macro.reads))
            macro.store(threads, values, running)
            flags(threads, special, macro.mask(threads, running))

        return run

    return define


def _inverse(a: Array, b: Array) -> tuple[Array, Array]:
    """invm: 1 / b to start with; a / b where it needs no more steps."""
    special = ~np.isfinite(a) | ~np.isfinite(b) | (b == 0) | (a == 0)
    return special, np.where(special, a / b, 1 / b)


def _inverse_root(a: Array, *_: Array) -> tuple[Array, Array]:
    return ~np.isfinite(a) | (a <= 0), 1 / np.sqrt(a)


MACROS: Mapping[str, Callable[[Instruction, int], Step]] = {
    "madm": _multiply_add, "invm": _special(_inverse), "rsqtm": _special(_inverse_root),
}
