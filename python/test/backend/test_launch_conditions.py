"""Conditions of launches: what a table says is true of every program, in Python as in C."""

import random

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.conditions import Range, Step, Table, Unsafe, range_of
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
        b = random_.choice((1, 2, 5, 6, 8, 16, 32)) if op == "rest" else b
        steps.append(table.step(op, a, b, random_.choice((8, 16, 32, 64, 64))))
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


def wrapped(value, bits):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def in_kernel(table, arguments, grid, programs, choose):
    """Each step as a program computes it: with `bits` bits, which wrap around."""
    found = []
    for op, a, b, bits in table.steps:
        if op in COMPUTED:
            exact = COMPUTED[op](found[a], found[b], choose) if found[b] or op not in (
                "divide", "remainder") else 0
            found.append(wrapped(exact, bits))
        elif op == "at_least":
            found.append(found[a] >= found[b])
        elif op == "multiple":
            found.append(found[a] % (1 << b) == 0)
        elif op == "rest":
            found.append(found[a] % (1 << b))
        else:
            one = Table([Step(op, a, b, bits)])
            found.append(values_of(one, arguments, grid, programs, choose)[0])
    return found


def test_conditions_that_hold_are_true_in_programs_whose_integers_wrap():
    choose, held = random.Random(11), 0
    for _ in range(8000):
        arguments = [choose.choice(VALUES) for _ in range(3)]
        grid = tuple(choose.choice((1, 2, 5, 130)) for _ in range(3))
        table = random_table(choose, 3)
        if table.failing(arguments, grid):
            continue
        for _ in range(4):
            programs = [choose.randrange(size) for size in grid]
            values = in_kernel(table, arguments, grid, programs, choose)
            assert all(values[n] for n in table.meanings), (table.text(), arguments, grid)
            held += 1
    assert held > 400


@pytest.mark.parametrize(("low", "high", "power", "wanted"), [
    (-3, -3, 8, (253, 253)), (-200, -100, 8, (56, 156)), (5, 90, 32, (5, 90)),
    (-1, 1, 8, (0, 255)), (250, 260, 8, (0, 255)), (256, 260, 8, (0, 4)),
])
def test_the_rest_is_the_integer_without_its_sign(low, high, power, wanted):
    found = range_of(Step("rest", 0, power), [Range(low, high, 0)], [], [])
    assert (found.low, found.high) == wanted


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
        meaning = table.needed_by(step) if step >= 0 else ""
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


@triton.jit
def unsigned_rows(x, w, o, n: tl.uint32, SIZE: tl.constexpr, BY: tl.constexpr):
    """Rows of a product from `n`, computed as `BY` says, up to the pitch."""
    first = n // 3 if BY == 0 else n % 48 if BY == 1 else n >> 2 if BY == 2 else (n & 31)
    first = first if BY < 4 else n.to(tl.uint8).to(tl.uint32)
    r = tl.arange(0, 16)
    k = tl.arange(0, SIZE)
    a = tl.load(x + (first.to(tl.int64) + r[:, None]) * SIZE + k[None, :])
    b = tl.load(w + k[:, None] * SIZE + k[None, :])
    tl.store(o + r[:, None] * SIZE + k[None, :], tl.dot(a, b))


@pytest.mark.sample(3)
@pytest.mark.parametrize("by", range(5))
def test_unsigned_integers_are_those_of_the_kernel(by):
    """Rows begin at quotients, rests, shifts, masks and narrow copies of unsigned integers."""
    choose = np.random.default_rng(by)
    x = choose.integers(-4, 5, (320, 32)).astype(np.float16)
    w = choose.integers(-4, 5, (32, 32)).astype(np.float16)
    firsts = (lambda n: n // 3, lambda n: n % 48, lambda n: n >> 2, lambda n: n & 31,
              lambda n: n % 256)
    many = (0, 7, 100, 160, 2**32 - 1, 2**31, 2**31 + 5, 2**32 - 256)
    for n in (n for n in many if firsts[by](n) < 300):
        o = np.zeros((16, 32), np.float32)
        unsigned_rows[(1,)](x, w, o, n, 32, by)
        first = firsts[by](n)
        assert (o == x[first:first + 16].astype(np.float32) @ w.astype(np.float32)).all(), n
