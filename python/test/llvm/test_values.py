"""Functions that are written as arithmetic do what they say."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable
from functools import partial

import llvmlite.binding as llvm
import numpy as np
import pytest

from python.test.filecheck import check_text
from triton_xe.llvm import F64, I1, I32, I64, PTR, VOID, Type, integer, vector
from triton_xe.llvm.builder import Routine, define
from triton_xe.llvm.printer import print_module
from triton_xe.llvm.values import Memory, Value, Writer
from triton_xe.runtime.simulator.run.jit import NativeCode, compile_object


def writer(result: Type, **parameters: Type) -> Writer:
    return Writer(Routine("f", result, tuple(parameters.items())))


def run(w: Writer, *arguments: object) -> int:
    text = print_module([w.function])
    llvm.parse_assembly(text).verify()
    code = NativeCode(compile_object(text, "library"))
    result = None if w.routine.result is VOID else ctypes.c_int64
    kinds = [ctypes.c_void_p if t is PTR else ctypes.c_int64 for _, t in w.routine.parameters]
    given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    return ctypes.CFUNCTYPE(result, *kinds)(code.address("f"))(*given)


def test_the_example_of_the_docstring() -> None:
    w = writer(I64, words=PTR, n=I64, word=I64)
    words, found = Memory(w, w["words"]), w.variable(0)
    with w.range(0, w["n"]) as k, w.when(words[k] == w["word"]):
        found.value += 1
    w.ret(found.value)
    assert run(w, np.array([3, 5, 3, 3, 8]), 4, 3) == 3


def test_numbers_are_computed_and_compared_as_such() -> None:
    w = writer(I64, x=I64)
    x = w["x"].converted("sitofp", F64)
    half = w.variable(x / 2.0 - 0.5)
    with w.when((x >= 10.0) & (half.value != x)):
        half.value = -half.value * 2.0
    w.ret(w.intrinsic("fma", half.value, 4.0, x).as_bits(I64))
    for given, wanted in ((3, 4 * 1.0 + 3), (10, 4 * -9.0 + 10)):
        assert struct.unpack("d", struct.pack("q", run(w, given)))[0] == wanted


def test_ranges_may_take_several_at_once() -> None:
    w = writer(I64, p=PTR, n=I64)
    with w.range(0, w["n"], 2) as k:
        w.store(k, w["p"] + k * 8)
    w.ret(0)
    memory = np.full(5, -1)
    run(w, memory, 5)
    assert memory.tolist() == [0, -1, 2, -1, 4]


@pytest.mark.parametrize("x", [2, 7, -1])
def test_branches_nest_and_may_return(x: int) -> None:
    w = writer(I64, x=I64)
    y = w.variable(0)
    with w.when(w["x"] < 5):
        with w.when(w["x"] == 2):
            w.ret(-2)
        with w.otherwise():
            y.value = 10
    with w.otherwise(), w.when(w["x"].compare("slt", 0)):
        y.value = w["x"] >> 60
    w.ret(y.value)
    assert run(w, x) == {2: -2, 7: 0, -1: 15}[x]


def test_scalars_beside_vectors_are_spread() -> None:
    four = vector(4, I64)
    w = writer(I64, p=PTR, x=I64)
    row = w.load(four, w["p"], align=8)
    low = row < w["x"]
    w.store(w.select(low, w["x"], row + 1), w["p"], align=8)
    w.ret(low.bits.to(I64) * 16 + low.bits.lowest())
    memory = np.array([9, 2, 7, 1])
    assert run(w, memory, 5) == 0b1010 * 16 + 1
    assert memory.tolist() == [10, 5, 8, 5]


def test_only_chosen_lanes_are_gathered_and_scattered() -> None:
    w = writer(VOID, p=PTR)
    lanes = vector(4, I64)
    at = w.load(lanes, w["p"], align=8)
    mask = at != 0
    w.scatter(w.gather(I32, at.pointer(), mask) * 3, at.pointer(), mask)
    w.ret()
    numbers = np.array([1, 2, 3], np.int32)
    run(w, np.array([numbers.ctypes.data + 8, 0, numbers.ctypes.data, 0]))
    assert numbers.tolist() == [3, 2, 9]


def test_chains_and_narrow_words() -> None:
    w = writer(I64, p=PTR, first=I64)
    following, steps = Memory(w, w["p"], I32), w.variable(0)
    with w.chain(w["first"]) as (k, slot):
        steps.value += 1
        slot.value = following[k].to(I64)
        following[k] = w.term(1, I1)
    w.ret(steps.value)
    links = np.array([0, 3, 0, 2], np.int32)
    assert run(w, links, 1) == 3
    assert links.tolist() == [0, 1, 1, 1]


def test_a_value_is_not_known_to_python() -> None:
    w = writer(VOID, x=I64)
    with pytest.raises(TypeError, match="when it runs"):
        bool(w["x"] == 1)
    assert isinstance(w["x"] == 1, Value)


def test_flags_of_lanes_are_passed_as_an_integer() -> None:
    """As a vector they would take a byte each on the stack."""
    routine = Routine("f", I1, (("mask", vector(128, I1)), ("x", vector(16, I64))))
    w = Writer(routine)
    assert w["mask"].type is vector(128, I1)
    function = w.finish(w["mask"].every())[0]
    assert [t for _, t in function.parameters] == [integer(128), vector(16, I64)]
    caller = define("g", I1, [("mask", vector(128, I1)), ("x", vector(16, I64))])
    caller.ret(caller.invoke(routine, *caller.arguments))
    text = print_module([function, caller.function])
    check_text(text, "CHECK: call i1 @f(i128 %")
    llvm.parse_assembly(text).verify()


_EDGES = (0, 1, 5, -1)
_OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor,
    operator.lshift, operator.rshift, operator.floordiv, operator.mod,
    *(partial(lambda x, y, p: x.compare(p, y), p=p)
      for p in ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sge")))


def _is_defined(apply: Callable[[Value, Value], Value], y: int) -> bool:
    if apply in (operator.floordiv, operator.mod):
        return y != 0
    return apply not in (operator.lshift, operator.rshift) or 0 <= y < 8


@pytest.mark.parametrize("t", [I32, vector(4, I32)], ids=str)
def test_operations_on_constants_are_those_on_variables(t: Type) -> None:
    w = writer(VOID, given=PTR, out=PTR)
    given, out = Memory(w, w["given"]), Memory(w, w["out"])

    def read(k: int) -> Value:
        x = given[k].to(t.scalar)
        return w.spread(x, t.count)

    def write(x: Value) -> None:
        x = x.signed(I64)
        out[len(rows)] = x[t.count - 1] if x.type.count else x

    rows = list[tuple[int, int, object]]()
    for apply in _OPERATORS:
        for j, x in enumerate(_EDGES):
            for k, y in enumerate(_EDGES):
                if not _is_defined(apply, y):
                    continue
                for first in (read(j), w.term(x, t)):
                    for second in (read(k), w.term(y, t)):
                        write(apply(first, second))
                        rows.append((x, y, apply))
    w.ret()
    results = np.zeros(len(rows), np.int64)
    run(w, np.array(_EDGES, np.int64), results)
    for k in range(0, len(rows), 4):
        assert len(set(results[k:k + 4].tolist())) == 1, rows[k]
    assert len(set(results.tolist())) > 10


def test_what_constants_decide_is_not_written() -> None:
    w = writer(I64, x=I64)
    found = w.variable(0)
    with w.when(w.term(8, I64).has(8)):
        found.value += w["x"]
        with w.when(w.term(0, I1)):
            w.ret(17)
        with w.otherwise():
            found.value += 2
    with w.otherwise():
        found.value = 5
        with w.when(w["x"] == 3):
            w.ret(18)
    with w.when(w.select(w.term(1, I1), w["x"] == 4, 0)), w.when(w.term(1, I1)):
        w.ret(-1)
    w.ret(found.value)
    assert [run(w, x) for x in (3, 4)] == [5, -1]
    text = print_module([w.function])
    check_text(text, "CHECK-NOT: {{17|18}}")
