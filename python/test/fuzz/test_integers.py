"""A sample of what `integers.py` runs, and its evaluation in numpy against numbers by hand."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from python.test.fuzz import integer_language as tl
from python.test.fuzz import integers
from python.test.fuzz.integer_language import Block, Undefined

INTEGERS = Path(__file__).with_name("integers.py")


@pytest.mark.rest
@pytest.mark.parametrize("count", [10, pytest.param(49, marks=pytest.mark.slow)])
def test_random_kernels_have_right_numbers(count, tmp_path):
    done = subprocess.run(
        [sys.executable, INTEGERS, "--seed", "suite", "--first", "13", "--count", str(count),
         "--keep", tmp_path],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{{'right': {count}}}" in done.stdout


def of(dtype, *values):
    return Block(np.array(values, dtype))


@pytest.mark.parametrize(("result", "dtype", "values"), [
    (of("int32", -7, 7, -7) // of("int32", 2, -2, -2), "int32", [-3, -3, 3]),
    (of("int32", -7, 7, -7) % of("int32", 2, -2, -2), "int32", [-1, 1, -1]),
    (of("uint32", 2**32 - 7) // 2, "uint32", [2**31 - 4]),
    (of("int8", 100) + 100, "int8", [-56]),
    (of("int8", 100) + of("int16", 100), "int16", [200]),
    (of("int8", -1) + of("uint8", 2), "uint8", [1]),
    (of("uint8", 255) + of("int16", 1), "int16", [256]),
    (of("int32", -1) + of("uint32", 0), "uint32", [2**32 - 1]),
    (of("int64", -1) + of("uint32", 0), "int64", [-1]),
    (of("uint8", 200) >> of("int16", 1), "int16", [100]),
    (of("int8", -2) >> of("uint8", 1), "uint8", [255]),
    (of("uint8", 254) >> 1, "uint8", [127]),
    (-of("int8", -128), "int8", [-128]),
    (-of("uint16", 1), "uint16", [65535]),
    (tl.abs(of("int16", -2**15)), "int16", [-2**15]),
    (tl.cdiv(of("int32", -17), 16), "int32", [0]),
    (tl.minimum(of("uint32", 2**31), of("int32", -1)), "uint32", [2**31]),
    (of("int32", 300, -1).to(tl.int8), "int8", [44, -1]),
    (of("int8", -1).to(tl.uint32), "uint32", [2**32 - 1]),
    (of("int8", -1) < of("uint8", 1), "bool", [False]),
    (of("bool", True) + of("int8", 1), "int8", [2]),
])
def test_types_and_numbers_are_those_of_triton(result, dtype, values):
    assert (result.dtype.name, result.values.tolist()) == (dtype, values)


@pytest.mark.parametrize(("result", "dtype", "values"), [
    (tl.cumsum(of("int8", 100, 100, -1), 0), "int32", [100, 200, 199]),
    (tl.cumsum(of("uint8", 200, 100), 0, reverse=True), "uint32", [300, 100]),
    (tl.cumprod(of("int16", 300, 300), 0), "int32", [300, 90000]),
    (tl.associative_scan(of("int8", 3, -4, 5), 0, tl.standard._elementwise_max), "int8", [3, 3, 5]),
    (tl.reduce(of("int8", 100, 100, 1), 0, tl.standard._sum_combine), "int8", -55),
    (tl.sort(of("uint8", 3, 255, 0, 7), descending=True), "uint8", [255, 7, 3, 0]),
    (tl.histogram(of("int32", 0, 3, 3, 1), 4), "int32", [1, 1, 0, 2]),
    (tl.gather(of("int16", 5, 6, 7), of("int8", 2, 2, 0), 0), "int16", [7, 7, 5]),
    (tl.umulhi(of("int32", -1), of("int32", 7)), "int32", [6]),
    (tl.argmax(of("int32", 4, 9, 9), 0), "int32", 1),
    (tl.max(of("uint8", 3, 255), 0), "int32", 255),
    (tl.interleave(of("int8", 1, 2), of("int8", 3, 4)), "int8", [1, 3, 2, 4]),
    (of("int8", -1).to(tl.uint8, bitcast=True), "uint8", [255]),
])
def test_functions_of_several_elements(result, dtype, values):
    assert (result.dtype.name, result.values.tolist()) == (dtype, values)


def test_atomics_return_what_no_other_lane_changes():
    memory = tl.Memory(np.array([5, 6, 7], np.int32))
    pointer = tl.Pointer(memory, np.array([0, 2, 2, 1]))
    old = tl.atomic_add(pointer, of("int32", 1, 2, 3, 4), of("bool", True, True, True, False))
    assert memory.elements.tolist() == [6, 6, 12]
    assert old.undefined.tolist() == [False, True, True, True]
    assert old.block.values[0] == 5
    assert tl.atomic_cas(pointer[3:], of("int32", 6), of("int32", 9)).values.tolist() == [6]
    assert memory.elements.tolist() == [6, 9, 12]
    for operation in (tl.atomic_max, tl.atomic_xchg, tl.store):
        with pytest.raises(Undefined):
            operation(pointer, of("int32", 1, 2, 3, 4))


@pytest.mark.parametrize(("bounds", "values"), [
    ((3,), [0, 1, 2]), ((5, -4, -3), [5, 2, -1]), ((0, Block(np.array(96, "uint64")), -32), []),
    ((Block(np.array(9, "uint64")), 3, -4), [9, 5]), ((0, 7, 3), [0, 3, 6]),
])
def test_loops_count_as_those_of_triton(bounds, values):
    assert [index.values.item() for index in tl.LANGUAGE.range(*bounds)] == values


@pytest.mark.parametrize("text", [
    "a // 0", "a % (a - a)", "a.to(tl.int8) // -1", "a << 32", "a << -1", "a + 2**32",
    "a.to(tl.uint8) + -1", "a.to(tl.uint8) // a", "tl.load(p + 4)", "tl.load(p - 1)",
    "tl.store(p + a * 0, 1)", "tl.max_contiguous(a, 2)", "tl.max_constancy(a, 2)",
    "tl.assume(a < 0)", "tl.multiple_of(a, 256)", "-(a < 0)", "(7 % (a - a)) == 3", "(a // 0) != a",
])
def test_what_is_undefined_is_not_evaluated(text):
    names = {"tl": tl, "a": of("int32", 128, 5),
             "p": tl.Pointer(tl.Memory(np.zeros(4, np.int8)), np.array(0))}
    with pytest.raises(Undefined):
        eval(f"a + ({text})", names)


def test_undefined_elements_may_be_left_out():
    a = of("int32", 0, 5, 40)
    assert tl.where(a < 32, a << a, 7).values.tolist() == [0, 160, 7]
    assert tl.where(a == 0, a, 100 // a).values.tolist() == [0, 20, 2]
    with pytest.raises(Undefined):
        tl.where(a < 5, 100 % a, a << a)


def test_programs_have_two_axes():
    seen = []
    for index in range(6):
        tl.set_program(index, (3, 2))
        seen.append([int(x(axis).values) for x in (tl.program_id, tl.num_programs)
                     for axis in (0, 1)])
    assert seen == [[x, y, 3, 2] for y in range(2) for x in range(3)]


def test_a_loop_extends_its_bounds_by_its_own_sign():
    """`scf.for` compares signed integers, and Triton extends bounds by the type of the loop."""
    narrow = of("uint8", 200)[0]
    assert [int(x.values) for x in tl.LANGUAGE.range(narrow, 0, 30)] == [-56, -26]
    assert [int(x.values) for x in tl.LANGUAGE.range(of("int8", -56)[0], 0)] == list(range(-56, 0))


PROGRAM = """import triton
import triton.language as tl
from integer_language import array, compare


@triton.jit
def kernel(x, o, a, N: tl.constexpr):
    i = tl.arange(0, N)
    v1 = ((i - a) % 16)
    v2 = (v1 & 7)
    tl.store(o + i, tl.load(x + 32 + tl.maximum(v1 // 4, v1), mask=(i < 20), other=0))


compare(kernel, (1, 1), dict(x=array(1, 64, 'int8'), o=array(2, 32, 'int8'), a=7, N=32),
        num_warps=4)
compare(kernel, (1, 1), dict(x=array(1, 64, 'int8'), o=array(2, 32, 'int8'), a=9, N=32),
        num_warps=4)
"""


def test_numbers_that_differ_are_reported(tmp_path):
    """The device divides toward zero; a copy of the evaluation that does not must disagree."""
    path = tmp_path / "p.py"
    path.write_text(PROGRAM.replace("compare\n", "compare\nimport integer_language\n"
                                    "integer_language._remainder.__code__ = "
                                    "(lambda a, b: a % b).__code__\n"))
    why = integers.outcome(path)
    assert why == "wrong: 7 of 32 elements of o, the first at 0: -10, not 50"
    path.write_text(PROGRAM)
    assert integers.outcome(path) == ""


@pytest.mark.parametrize(("options", "why"), [
    ("num_warps=4, sanitize=True", ""), ("num_warps=4", "unreported: the claim in line 9")])
def test_a_false_claim_has_to_be_reported_with_its_line(options, why, tmp_path):
    """Without the checks nothing tests it."""
    path = tmp_path / "p.py"
    path.write_text(PROGRAM.replace("    v1 =", "    tl.assume(a < 8)\n    v1 =").replace(
        "num_warps=4", options))
    assert integers.outcome(path) == why


@pytest.mark.parametrize(("n", "options", "why"), [
    (32, "num_warps=4", ""), (1024, "num_warps=1", "wrong"),
    (1024, "num_warps=1, sanitize=True", ""),
])
def test_a_false_hint_is_reported_or_changes_nothing(n, options, why, tmp_path):
    """Only wide accesses rely on it, of kernels with several elements for each lane."""
    path = tmp_path / "p.py"
    path.write_text(PROGRAM.replace("    v1 =", "    i = tl.max_contiguous(i // 3, 4)\n    v1 =")
                    .replace("x + 32 + tl.maximum(v1 // 4, v1), mask=(i < 20), other=0", "x + i")
                    .replace("o + i", "o + tl.arange(0, N)").replace("N=32", f"N={n}")
                    .replace("2, 32", f"2, {n}").replace("1, 64", "1, 512").replace("int8", "int32")
                    .replace("num_warps=4", options))
    assert integers.outcome(path).partition(":")[0] == why


def test_a_wrong_program_becomes_smaller(tmp_path):
    """As long as `%` is in it, this one stays wrong."""
    path = tmp_path / "p.py"
    path.write_text(PROGRAM)

    def outcome(p):
        return "wrong: 7 of 16" if "% 16" in p.read_text() else "undefined: v1"

    text = integers.smaller(path, "wrong: 5 of 32", outcome=outcome)
    assert text.count("compare(") == 1
    assert not [part for part in ("v2", "mask", "i - a") if part in text]


@pytest.mark.parametrize("other", ["out of bounds: store", "data race: load"])
def test_a_smaller_program_has_the_same_operation_and_cause(other, tmp_path):
    """Without `%` this one is wrong too, but elsewhere."""
    path = tmp_path / "p.py"
    path.write_text(PROGRAM)

    def outcome(p):
        said = "out of bounds: load" if "% 16" in p.read_text() else other
        return f"SimulatorTrap: {said} at {p}:{len(p.read_text())}, lanes 1, 2"

    text = integers.smaller(path, outcome(path), outcome=outcome)
    assert "% 16" in text
    assert "mask" not in text


FAR = """import triton
import triton.language as tl
from integer_language import array, compare


@triton.jit
def kernel(w, a, x, o, a0, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    k = tl.arange(0, K)
    at = tl.arange(0, N)[None, :]
    g = (a0 + k) >> 5
    s = tl.load(x - (a0 >> 5) * N + g[:, None].to(tl.int64) * N + at)
    b = tl.load(w + (k // 8)[:, None] * N + at)
    on = (k % (a0 * N) <= 4)[None, :]
    u = tl.load(a + tl.arange(0, M)[:, None] * K + k[None, :], mask=on, other=0)
    o += tl.arange(0, M)[:, None] * N + at
    tl.store(o, tl.dot(u, b.to(tl.float16) * s))


compare(kernel, (1, 1), dict(
    w=array(1, 256, 'int8', -4, 5), a=array(2, 512, 'float16', -3, 4),
    x=array(3, 64, 'float16', 1, 4), o=array(4, 1024, 'float32'), a0=274877906976, M=16, N=64,
    K=32), num_warps=2)
"""


def test_a_mask_of_numbers_that_need_more_than_64_bits(tmp_path):
    path = tmp_path / "p.py"
    path.write_text(FAR)
    assert integers.outcome(path) == ""
