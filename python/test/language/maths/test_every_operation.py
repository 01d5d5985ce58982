"""Each operation of MLIR's dialects in stock Triton is lowered, or refused with what to do."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import triton

from python.test.lowering.module_text import attributes
from triton_xe.dialects.advice import remedy_of
from triton_xe.errors import UnsupportedError
from triton_xe.lowering import universe  # noqa: F401  (registers all lowerings)
from triton_xe.lowering.emit.emitter import LOWERINGS
from triton_xe.lowering.front.expand_arithmetic import EXPANSIONS

OPERATIONS = {
    "arith": "addf addi addui_extended andi bitcast ceildivsi ceildivui cmpf cmpi constant "
             "convertf divf divsi divui extf extsi extui floordivsi flush_denormals fptosi fptoui "
             "index_cast index_castui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui "
             "mulf muli mulsi_extended mului_extended negf ori remf remsi remui scaling_extf "
             "scaling_truncf select shli shrsi shrui sitofp subf subi subui_extended truncf trunci "
             "uitofp xori",
    "math": "absf absi acos acosh asin asinh atan atan2 atanh cbrt ceil clampf copysign cos cosh "
            "ctlz ctpop cttz erf erfc exp exp2 expm1 floor fma fpowi ipowi isfinite isinf isnan "
            "isnormal log log10 log1p log2 powf round roundeven rsqrt sin sincos sinh sqrt tan "
            "tanh trunc",
    "scf": "condition execute_region for forall forall.in_parallel if index_switch parallel reduce "
           "reduce.return while yield",
    "cf": "assert br cond_br switch",
    "ub": "poison unreachable",
}
"""The operations of MLIR's dialects that libtriton 3.9 registers."""
NAMES = [f"{dialect}.{name}" for dialect, names in OPERATIONS.items() for name in names.split()]
INSIDE = {"scf.yield", "scf.condition"}
"""Ends of blocks, which the lowering of the loop or the branch reads."""
LOWERED = {op.name for op in (*LOWERINGS, *EXPANSIONS)} | INSIDE
REFUSED = sorted(set(NAMES) - LOWERED)
HEAD = """
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [1], order = [0]}>
""" + attributes(warps=1) + """ {
"""


def test_the_list_holds_what_libtriton_registers():
    """Its binary has the names; in places a name's beginning only, in an instruction's bytes."""
    binary = Path(triton._C.libtriton.__file__).read_bytes()
    dialects = "|".join(OPERATIONS).encode()
    found = set(re.findall(rb"\0(?=((?:%s)\.[a-z_0-9.]+)\0)" % dialects, binary))
    names = {name.decode() for name in found}
    others = {"arith.fastmath", "arith.overflow", "math.h"}
    assert names - others <= set(NAMES)
    assert len(names & set(NAMES)) > 60


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_lowered_is_refused_with_what_to_do(name):
    assert remedy_of(name) != remedy_of("another.operation")


def test_what_is_lowered_needs_no_advice():
    assert {name for name in LOWERED if remedy_of(name) != remedy_of("")} == set()
    assert len(set(NAMES) & LOWERED) == len(NAMES) - len(REFUSED) >= 90


def compiled(tmp_path, body, kinds):
    """A kernel that loads 64 elements of each kind as %0, %1 ..., and may store to %p0, %p1 ..."""
    arguments = ", ".join(f"%p{i}: !tt.ptr<{kind}> {{tt.divisibility = 16 : i32}}"
                          for i, kind in enumerate(kinds))
    lines = ["%at = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #line>"]
    for i, kind in enumerate(kinds):
        pointers = f"tensor<64x!tt.ptr<{kind}>, #line>"
        lines += [f"%s{i} = tt.splat %p{i} : !tt.ptr<{kind}> -> {pointers}",
                  f"%q{i} = tt.addptr %s{i}, %at : {pointers}, tensor<64xi32, #line>",
                  f"%x{i} = tt.load %q{i} : {pointers}"]
    path = tmp_path / "k.ttgir"
    path.write_text(f"{HEAD}tt.func public @k({arguments}) {{\n" + "\n".join(lines)
                    + f"\n{body}\ntt.return\n}}\n}}\n")
    return triton.compile(str(path))


def stored(value, index, kind):
    return f"tt.store %q{index}, {value} : tensor<64x!tt.ptr<{kind}>, #line>"


def edges(dtype, rng):
    """Pairs of the smallest and largest integers, small ones and random ones; no zero divisor."""
    info = np.iinfo(dtype)
    some = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 16]
    some += [-1, -2, -3, -16] if info.min else []
    pairs = [(a, b) for a in some for b in some
             if b and not (a == info.min and b == -1)]
    pairs += [(int(a), int(b) or 5)
              for a, b in zip(*rng.integers(info.min, info.max, (2, 64), dtype), strict=True)]
    chosen = rng.permutation(len(pairs))[:64]
    return [np.array([pairs[i][j] for i in chosen], dtype) for j in (0, 1)]


QUOTIENTS = {
    "ceildivsi": ("int", lambda a, b: -(-a // b)), "floordivsi": ("int", lambda a, b: a // b),
    "ceildivui": ("uint", lambda a, b: -(-a // b)),
}


@pytest.mark.covering
@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_are_rounded_up_or_down(tmp_path, name, width):
    signed, quotient = QUOTIENTS[name]
    kind = f"i{width}"
    body = f"%r = arith.{name} %x0, %x1 : tensor<64x{kind}, #line>\n"
    kernel = compiled(tmp_path, body + stored("%r", 2, kind), [kind] * 3)
    for seed in range(4):
        a, b = edges(f"{signed}{width}", np.random.default_rng(seed))
        found = np.zeros_like(a)
        kernel[(1, 1, 1)](a, b, found)
        assert found.tolist() == [quotient(int(x), int(y)) for x, y in zip(a, b, strict=True)]


EXTENDED = {
    "addui_extended": (", tensor<64xi1, #line>", lambda a, b, w: ((a + b) % 2**w, a + b >= 2**w)),
    "subui_extended": (", tensor<64xi1, #line>", lambda a, b, w: ((a - b) % 2**w, a < b)),
    "mului_extended": ("", lambda a, b, w: (a * b % 2**w, a * b >> w)),
    "mulsi_extended": ("", lambda a, b, w: (a * b % 2**w, (a * b >> w) % 2**w)),
}


@pytest.mark.covering
@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", EXTENDED)
def test_results_of_two_parts_are_exact(tmp_path, name, width):
    second, parts = EXTENDED[name]
    kind = f"i{width}"
    flag = "i1" in second
    body = f"%r:2 = arith.{name} %x0, %x1 : tensor<64x{kind}, #line>{second}\n"
    if flag:
        body += f"%f = arith.extui %r#1 : tensor<64xi1, #line> to tensor<64x{kind}, #line>\n"
    body += stored("%r#0", 2, kind) + "\n" + stored("%f" if flag else "%r#1", 3, kind)
    kernel = compiled(tmp_path, body, [kind] * 4)
    dtype = f"int{width}" if name == "mulsi_extended" else f"uint{width}"
    a, b = edges(dtype, np.random.default_rng(width))
    low, high = np.zeros_like(a), np.zeros_like(a)
    kernel[(1, 1, 1)](a, b, low, high)
    found = zip(*(x.view(f"uint{width}").tolist() for x in (low, high)), strict=True)
    assert list(found) == [parts(int(x), int(y), width) for x, y in zip(a, b, strict=True)]


FLOATS = [0.0, -0.0, 1.0, -1.5, 0.25, 3.0, -7.0, math.inf, -math.inf, math.nan, 1e-40, 100.0]


@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize(("text", "function"), [
    ("math.clampf %x0 to [%x1, %x2]", lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    ("math.erfc %x0", lambda x, *_: np.array([math.erfc(v) for v in x.tolist()])),
    ("math.isfinite %x0", lambda x, *_: np.isfinite(x)),
    ("math.isinf %x0", lambda x, *_: np.isinf(x)), ("math.isnan %x0", lambda x, *_: np.isnan(x)),
])
def test_other_functions_of_floats(tmp_path, text, function):
    tests = "math.is" in text
    body = f"%r = {text} : tensor<64xf32, #line>\n"
    if tests:
        body += "%f = arith.uitofp %r : tensor<64xi1, #line> to tensor<64xf32, #line>\n"
    kernel = compiled(tmp_path, body + stored("%f" if tests else "%r", 3, "f32"), ["f32"] * 4)
    x = np.resize(np.array(FLOATS, np.float32), 64)
    low, high = np.full(64, -2, np.float32), np.full(64, 2.5, np.float32)
    found = np.zeros(64, np.float32)
    kernel[(1, 1, 1)](x, low, high, found)
    np.testing.assert_allclose(found, function(x, low, high), rtol=1e-5)


@pytest.mark.since_triton(3, 9)
def test_sine_and_cosine_are_two_results(tmp_path):
    body = "%s, %c = math.sincos %x0 : tensor<64xf32, #line>\n"
    kernel = compiled(tmp_path, body + stored("%s", 1, "f32") + "\n" + stored("%c", 2, "f32"),
                      ["f32"] * 3)
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    sine, cosine = np.zeros_like(x), np.zeros_like(x)
    kernel[(1, 1, 1)](x, sine, cosine)
    np.testing.assert_allclose(sine, np.sin(x), atol=1e-6)
    np.testing.assert_allclose(cosine, np.cos(x), atol=1e-6)


@pytest.mark.since_triton(3, 9)
def test_a_power_by_integers(tmp_path):
    body = ("%r = math.fpowi %x0, %x1 : tensor<64xf32, #line>, tensor<64xi32, #line>\n"
            + stored("%r", 2, "f32"))
    kernel = compiled(tmp_path, body, ["f32", "i32", "f32"])
    x = np.resize(np.array([1.5, -2.0, 0.5, -1.0], np.float32), 64)
    n = np.arange(-8, 56, dtype=np.int32) // 4
    found = np.zeros_like(x)
    kernel[(1, 1, 1)](x, n, found)
    np.testing.assert_allclose(found, x.astype(np.float64) ** n, rtol=1e-5)


@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize(("name", "advice"), [
    ("math.ipowi", "multiply in a loop"), ("math.isnormal", "compare the value's size")])
def test_a_refusal_says_what_to_do(tmp_path, name, advice):
    kind = "i32" if name == "math.ipowi" else "f32"
    operands = "%x0, %x0" if name == "math.ipowi" else "%x0"
    use = (stored("%r", 0, kind) if kind == "i32" else
           f"%y = arith.select %r, %x0, %x0 : tensor<64xi1, #line>, tensor<64x{kind}, #line>\n"
           + stored("%y", 0, kind))
    with pytest.raises(UnsupportedError, match=rf"{name}.* not supported .*; {advice}"):
        compiled(tmp_path, f"%r = {name} {operands} : tensor<64x{kind}, #line>\n{use}", [kind])
