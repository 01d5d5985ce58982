"""Functions of the checks are compiled when they are first called."""

from __future__ import annotations

import ctypes

import pytest

from triton_xe.llvm import I64, PTR, VOID, Function, define, vector
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.library.late_calls import bind_late
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.sanitizer import shadow

COUNT = 8
WIDE = vector(16, I64)
CALLEE = symbol("san", "sum")
PARAMETERS = [("to", PTR), ("wide", WIDE), *((f"x{k}", I64) for k in range(COUNT))]
"""More arguments than there are registers for, one of them a vector."""


def callee() -> Function:
    """Add each of some numbers to a vector, and store it."""
    b = define(CALLEE, VOID, PARAMETERS)
    to, total, *numbers = b.arguments
    for k, number in enumerate(numbers):
        total = b.add(total, b.broadcast(b.mul(number, 10 ** k), 16))
    b.store(total, to, align=8)
    b.ret()
    return b.function


def caller() -> Function:
    """Call it twice, for different memory."""
    b = define("caller", VOID, [("first", PTR), ("second", PTR), ("numbers", PTR)])
    first, second, numbers = b.arguments
    wide = b.load(WIDE, numbers, align=8)
    given = [b.load(I64, b.at(numbers, 8 * k)) for k in range(COUNT)]
    for to in (first, second):
        b.call(CALLEE, VOID, [to, wide, *given])
    b.ret()
    return b.function


def loaded(functions: list[Function], late: bool) -> jit.NativeCode:
    variables = bind_late(functions) if late else []
    return jit.NativeCode(jit.compiled(print_module(functions, variables), jit.AS_WRITTEN))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_function_is_compiled_at_its_first_call(
    monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    shadow.prepare()
    asked, made = list[str](), list[jit.NativeCode]()

    def address(name: str) -> int:
        asked.append(name)
        if interrupted and len(asked) == 1:
            raise KeyboardInterrupt
        made.append(loaded([callee()], late=False))
        return made[0].address(name)

    monkeypatch.setattr(jit, "helper_address", address)
    code = loaded([caller()], late=True)
    assert not asked
    first, second = (ctypes.c_int64 * 16)(), (ctypes.c_int64 * 16)()
    numbers = (ctypes.c_int64 * 16)(*range(1, 17))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("caller"))
    for _ in range(2):
        run(first, second, numbers)
    assert asked == [CALLEE] * (1 + interrupted)
    total = sum((k + 1) * 10 ** k for k in range(COUNT))
    assert list(first) == list(second) == [n + total for n in range(1, 17)]
