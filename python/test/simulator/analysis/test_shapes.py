"""Shapes of values over lanes agree with the values, of all inputs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.records import Operand
from triton_xe.llvm.types import integer
from triton_xe.runtime.simulator.analysis import shapes as analysis
from triton_xe.runtime.simulator.analysis.shapes import Shape, ShapeAnalysis

LANES, BITS, WIDER = 16, 8, 16
Values = NDArray[np.int64]
_OPERATIONS = ("add", "add", "add nsw", "sub", "sub nsw", "mul", "shl", "and", "or", "xor", "lshr")
_BY_CONSTANT = ("mul", "shl", "and", "or", "xor", "lshr")


def signed(x: Values, bits: int) -> Values:
    return ((x & (1 << bits) - 1) ^ (1 << bits - 1)) - (1 << bits - 1)


def computed(opcode: str, x: Values, y: Values) -> Values:
    return {"add": x + y, "sub": x - y, "mul": x * y, "shl": x << (y & 7), "and": x & y,
            "or": x | y, "xor": x ^ y, "lshr": (x & 255) >> (y & 7)}[opcode]


class Program:
    """Random operations on lane numbers and an argument of 8 bits, with all of its values."""

    def __init__(self, random_: random.Random) -> None:
        self.lines = ["%lane = call i32 @_Z22get_sub_group_local_idv()",
                      "%l = trunc i32 %lane to i8"]
        argument, lane = np.indices((1 << BITS, LANES))
        self.values: dict[str, tuple[Values, int]] = {"%n": (argument, BITS), "%l": (lane, BITS)}
        self.defined = {name: np.ones_like(lane, bool) for name in self.values}
        for k in range(10):
            self._add(f"%v{k}", random_)
        narrow = [name for name in self.values if name not in ("%n", "%l")]
        for k, (name, opcode) in enumerate(zip(narrow, "sext zext".split() * 5, strict=True)):
            x = self.values[name][0]
            wide = signed(x, BITS) if opcode == "sext" else x & 255
            self._keep(f"%w{k}", f"{opcode} i8 {name} to i16", wide, WIDER, self.defined[name])

    def _add(self, name: str, random_: random.Random) -> None:
        spelled = random_.choice(_OPERATIONS)
        opcode = spelled.split()[0]
        first = random_.choice(list(self.values))
        number = random_.choice((1, 2, 3, 4, 15, 16, 64, 112))
        if opcode in ("shl", "lshr"):
            number = random_.randrange(1, 7)
        second = str(number) if opcode in _BY_CONSTANT else random_.choice(list(self.values))
        x, defined = self.values[first][0], self.defined[first]
        y = np.full_like(x, number)
        if second in self.values:
            y, defined = self.values[second][0], defined & self.defined[second]
        found = computed(opcode, x, y)
        if spelled.endswith("nsw"):
            exact = computed(opcode, signed(x, BITS), signed(y, BITS))
            defined = defined & (signed(exact, BITS) == exact)
        self._keep(name, f"{spelled} i8 {first}, {second}", found, BITS, defined)

    def _keep(self, name: str, line: str, value: Values, bits: int, defined: Values) -> None:
        self.lines.append(f"{name} = {line}")
        self.values[name], self.defined[name] = (value, bits), defined

    def shapes(self) -> dict[str, Shape]:
        body = "\n".join(f"  {line}" for line in self.lines)
        module = parse_module(
            f"define spir_kernel void @k(i8 %n) {{\nentry:\n{body}\n  ret void\n}}\n"
            "declare i32 @_Z22get_sub_group_local_idv()")
        (kernel,), found = module.kernels(), ShapeAnalysis(module, LANES)
        return {name: found.of(kernel, Operand(integer(bits), name))
                for name, (_, bits) in self.values.items()}

    def wrong(self) -> list[str]:
        """Values whose shape does not hold for an input of which all lanes are defined."""
        return [name for name, shape in self.shapes().items()
                if not shape.wide and not self._holds(name, shape)]

    def _holds(self, name: str, shape: Shape) -> bool:
        value, bits = self.values[name]
        value = value[self.defined[name].all(1)]
        table = np.zeros(LANES, np.int64) if shape.table is None else shape.table[0]
        bases = value - table & (1 << bits) - 1
        base = bases[:, :1]
        if (bases != base).any() or (base & ~shape.bits).any():
            return False
        return not shape.exact or bool((signed(value, bits) == signed(base, bits) + table).all())


def found_in(programs: int) -> list[str]:
    """The first program, with values, whose shapes do not hold."""
    random_ = random.Random(40)
    for _ in range(programs):
        made = Program(random_)
        if wrong := made.wrong():
            return [*wrong, *made.lines]
    return []


def test_shapes_hold_for_all_inputs() -> None:
    assert found_in(300) == []


@pytest.mark.parametrize(("name", "fault"), [
    ("has_room", lambda table, bits, t, signed: True),
    ("never_wraps", lambda shapes: True),
    ("_carry_bits", lambda a, b, t: a | b),
])
def test_planted_faults_are_found(
    name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, name, fault)
    assert found_in(300)


@pytest.mark.parametrize(("lines", "is_wide"), [
    ("%m = or i32 %l, 64\n %b = add nsw i32 %n, %m\n %i = add nsw i32 %n, %b", True),
    ("%m = shl i32 %lane, 30\n %i = sub nsw i32 %n, %m", True),
    ("%s = shl i32 %group, 6\n %at = add i32 %l, %s\n %i = add nsw i32 %n, %at", False),
], ids=["base wraps", "constants wrap", "sum below the steps of its base"])
def test_sums_whose_parts_do_not_wrap_stay_tabled_when_extended(lines: str, is_wide: bool) -> None:
    module = parse_module(f"""
define spir_kernel void @k(i32 %n) {{
entry:
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %l = shl i32 %lane, 2
  %group = call i32 @_Z16get_sub_group_idv()
  {lines}
  %w = sext i32 %i to i64
  ret void
}}
declare i32 @_Z22get_sub_group_local_idv()
declare i32 @_Z16get_sub_group_idv()""")
    (kernel,) = module.kernels()
    assert ShapeAnalysis(module, 16).of(kernel, Operand(integer(64), "%w")).wide is is_wide
