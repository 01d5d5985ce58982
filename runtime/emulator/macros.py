"""Macros of IEEE division and square root: `math.invm`, `math.rsqtm` and `madm`.

Their `mme` registers have more bits of exponent than the general registers, therefore steps
between them neither overflow nor underflow.  Values are kept here as a mantissa and an exponent.
The flag (eo) is set for special operands, whose result is final: the quotient or the root, since
IGC's sequences do nothing more with it.  Source: Intel PRM, "Math function", and IGC,
visa/iga/IGALibrary, "math macro".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from triton_xe.runtime.emulator import numbers
from triton_xe.runtime.emulator.channels import Running, execution_mask, set_flags
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.numbers import Scaled
from triton_xe.runtime.emulator.operands import destination, source
from triton_xe.runtime.emulator.registers import CHANNELS, Array, Bools, Threads

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


def _read(operand: Operand, width: int, grf_bytes: int) -> Callable[[Threads], Scaled]:
    """The operand's values, from its `mme` register if it names one."""
    general = source(_register(replace(operand, modifiers="")), width, grf_bytes).read
    sign, name = -1 if "n" in operand.modifiers else 1, operand.extra

    def read(threads: Threads) -> Scaled:
        if name == _PLAIN:
            parts, exponents = np.frexp(np.broadcast_to(
                general(threads).astype(np.float64), (threads.count, width)))
        else:
            parts, exponents = (x[:, :width] for x in threads.exponents[name])
        return sign * parts, exponents

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

    def store(
        self, threads: Threads, part: Array, error: Array, exponent: Array, running: Running
    ) -> None:
        """Write the general register, and the `mme` register with all of the exponent."""
        chosen = self.mask(threads, running)
        if self.is_double:
            values = numbers.scaled_doubles(part, error, exponent, threads)
        else:
            exact = np.ldexp(numbers.to_odd(part, error), exponent)
            values = numbers.narrowed(exact, np.float32, threads)
        self._write(threads, values, chosen)
        if self._name != _PLAIN:
            self._keep(threads, part if self.is_double else _rounded(part, error), exponent, chosen)

    def _keep(
        self, threads: Threads, part: Array, exponent: Array, chosen: Bools | None
    ) -> None:
        """Write the `mme` register."""
        zeros = np.zeros((threads.count, CHANNELS))
        kept = threads.exponents.setdefault(self._name, (zeros, zeros.astype(np.int64)))
        part, more = np.frexp(part)
        for old, new in zip(kept, (part, exponent + more), strict=True):
            np.copyto(old[:, : self._width], new, where=True if chosen is None else chosen)


def _rounded(part: Array, error: Array) -> Array:
    """The mantissas with 24 bits, to nearest even."""
    mantissa, exponent = np.frexp(numbers.to_odd(part, error))
    plain = np.isfinite(part) & (part != 0)
    return np.where(plain, np.ldexp(np.rint(mantissa * _MANTISSA), exponent - 24), part)


def _multiply_add(instruction: Instruction, grf_bytes: int) -> Step:
    """madm: src0 + src1 * src2, fused."""
    macro = _Macro(instruction, grf_bytes)
    z, x, y = macro.reads

    def run(threads: Threads, running: Running) -> None:
        macro.store(threads, *numbers.fused(x(threads), y(threads), z(threads)), running)

    return run


def _special(function: Callable[..., tuple[Array, Scaled]]) -> Callable[[Instruction, int], Step]:
    """Define a macro that computes a first approximation.

    `function` returns the channels with special operands, and the results.
    """

    def define(instruction: Instruction, grf_bytes: int) -> Step:
        macro, flags = _Macro(instruction, grf_bytes), set_flags(instruction)

        def run(threads: Threads, running: Running) -> None:
            special, (part, exponent) = function(*(read(threads) for read in macro.reads))
            macro.store(threads, part, np.zeros_like(part), exponent, running)
            flags(threads, special, macro.mask(threads, running))

        return run

    return define


def _inverse(a: Scaled, b: Scaled) -> tuple[Array, Scaled]:
    """invm: 1 / b to start with; a / b where it needs no more steps."""
    special = ~np.isfinite(a[0]) | ~np.isfinite(b[0]) | (b[0] == 0) | (a[0] == 0)
    return special, (np.where(special, a[0], 1) / b[0], np.where(special, 0, -b[1]))


def _inverse_root(a: Scaled, *_: Scaled) -> tuple[Array, Scaled]:
    """rsqtm: 1 / sqrt(a) to start with; sqrt(a) where it needs no more steps."""
    special = ~np.isfinite(a[0]) | (a[0] <= 0)
    root = np.sqrt(np.ldexp(a[0], a[1] & 1))
    return special, (np.where(special, root, 1 / root), np.where(special, 0, -(a[1] >> 1)))


MACROS: Mapping[str, Callable[[Instruction, int], Step]] = {
    "madm": _multiply_add, "invm": _special(_inverse), "rsqtm": _special(_inverse_root),
}
