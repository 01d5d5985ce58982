"""Conditions of launches: what a table says is true of every program, in Python as in C."""

import random

import pytest

from triton_xe.conditions import Table
from triton_xe.conditions import _range as range_of
from triton_xe.conditions import _Unsafe as Unsafe
from triton_xe.runtime import native

VALUES = (0, 1, -1, 2, 3, 7, 16, 64, 100, 127, 128, 4096, -64, 1 << 24, (1 << 31) - 1, -(1 << 31),
          1 << 40, (1 << 62) + 5, -(1 << 63), (1 << 63) - 1)


def random_table(random_, arguments):
    """A table of inputs, arithmetic on them, and a condition on each result."""
    table = Table()
    steps = [table.step("program", axis) for axis in range(3)]
    steps += [table.step("argument", n, 0, random_.choice((32, 64))) for n in range(arguments)]
    steps += [table.step("address", 0), table.step("programs", 1)]
    steps += [table.constant(random_.choice(VALUES[:14])) for _ in range(3)]
    for _ in range(random_.randrange(1, 12)):
        a, b = random_.choice(steps), random_.choice(steps)
        op = random_.choice((*COMPUTED, "rest"))
        b = random_.randrange(1, 7) if op == "rest" else b
        steps.append(table.step(op, a, b, random_.choice((32, 64, 64))))
    for step in random_.sample(steps, 2):
        table.require("at_least", step, random_.choice(steps), what=f"step {step} is large enough")
        table.require("multiple", step, random_.randrange(8), what=f"step {step} is a multiple")
    return table


def divided(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


COMPUTED = {
    "add": lambda x, y, _: x + y, "subtract": lambda x, y, _: x - y,
    "multiply": lambda x, y, _: x * y, "divide": lambda x, y, _: divided(x, y),
    "remainder": lambda x, y, _: x - divided(x, y) * y,
    "minimum": lambda x, y, _: min(x, y), "maximum": lambda x, y, _: max(x, y),
    "either": lambda x, y, choose: choose.choice((x, y)),
    "span": lambda x, y, choose: choose.randint(x, max(x, y - 1)),
}


def values_of(table, arguments, grid, programs, choose):
    """What each step is in one program, up to the first division by zero."""
    found = []
    for op, a, b, bits in table.steps:
        if op in ("divide", "remainder") and not found[b]:
            break
        if op in COMPUTED:
            found.append(COMPUTED[op](found[a], found[b], choose))
        elif op == "argument":
            low = arguments[a] % (1 << bits)
            found.append(low - (1 << bits if low >> bits - 1 else 0))
        else:
            found.append({
                "constant": lambda a, b: a, "address": lambda a, b: arguments[a] % 64,
                "program": lambda a, b: programs[a], "programs": lambda a, b: grid[a],
                "rest": lambda a, b: found[a] % (1 << b),
            }.get(op, lambda a, b: 0)(a, b))
    return found


def ranges_of(table, arguments, grid):
    """The ranges up to the first step that cannot be computed safely."""
    ranges = []
    for step in table.steps:
        try:
            ranges.append(range_of(step, ranges, arguments, grid))
        except Unsafe:
            break
    return ranges


@pytest.mark.parametrize("seed", range(4))
def test_ranges_hold_what_programs_compute(seed):
    choose = random.Random(seed)
    held = 0
    for _ in range(400):
        arguments = [choose.choice(VALUES) for _ in range(3)]
        grid = tuple(choose.choice((1, 2, 5, 130)) for _ in range(3))
        table = random_table(choose, 3)
        ranges = ranges_of(table, arguments, grid)
        for _ in range(6):
            programs = [choose.randrange(size) for size in grid]
            values = values_of(table, arguments, grid, programs, choose)
            for (op, *_), value, found in zip(table.steps, values, ranges, strict=False):
                if op not in ("at_least", "multiple"):
                    assert found.low <= value <= found.high, (table.text(), arguments, grid)
                    assert value % (1 << found.zeros) == 0, (table.text(), arguments, grid)
                    held += 1
    assert held > 10_000


@pytest.mark.skipif(native.launch is None, reason="no launch code in C")
def test_c_and_python_agree():
    choose, answers = random.Random(5), set()
    for _ in range(2000):
        arguments = [choose.choice(VALUES) for _ in range(3)]
        grid = tuple(choose.choice((0, 1, 2, 5, 130)) for _ in range(3))
        table = random_table(choose, 3)
        words = [b"".join((v % (1 << 64)).to_bytes(8, "little") for v in each)
                 for each in (arguments, grid)]
        step = native.launch.failing_step(table.packed(), *words)
        meaning = table._needed_by(step) if step >= 0 else ""
        assert meaning == table.failing(arguments, grid), (table.text(), arguments, grid)
        answers.add(step >= 0)
    assert answers == {True, False}


def test_text_is_read_back():
    table = random_table(random.Random(3), 2)
    assert Table.read(table.text()).text() == table.text()
    assert Table.read(table.text()).packed() == table.packed()


@pytest.mark.parametrize("line", ["add 0 1 64", "argument 256 0 64", "program 3 0 64", "sum 0 0 64",
                                  "constant 1 0 63"])
def test_damaged_tables_are_refused(line):
    with pytest.raises(ValueError, match="table of conditions"):
        Table.read(line)


def test_remainders_of_multiples_leave_room_for_a_block():
    """`start % size + 128 <= size` follows when 128 divides both."""
    table = Table()
    start = table.step("multiply", table.step("program", 0), table.constant(128))
    left = table.step("remainder", start, table.step("argument", 0))
    end = table.step("add", left, table.constant(128))
    table.require("at_least", table.step("argument", 0), end, what="the block does not wrap around")
    assert table.failing([1024], (50, 1, 1)) == ""
    assert table.failing([1000], (50, 1, 1)) == "the block does not wrap around"
    assert table.failing([0], (50, 1, 1)) == "the block does not wrap around"


def test_what_cannot_be_computed_does_not_hold():
    table = Table()
    product = table.step("multiply", table.step("argument", 0), table.step("argument", 1), 32)
    table.require("at_least", product, table.constant(0), what="it fits")
    assert table.failing([1 << 15, 1 << 15], (1, 1, 1)) == ""
    assert table.failing([1 << 16, 1 << 16], (1, 1, 1)) == "it fits"


def test_steps_that_no_condition_needs_are_forgotten():
    table = Table()
    three = table.constant(3)
    before = table.text()
    for _ in range(2):
        assert table.step("add", three, three) == 1
        table.shorten(1)
        assert table.text() == before
