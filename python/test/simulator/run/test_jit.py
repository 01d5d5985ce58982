"""How host modules are compiled."""

from __future__ import annotations

import ctypes

import pytest

from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run import jit


def test_large_modules_are_compiled_with_less_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[int] = []
    machine = jit._target_machine
    monkeypatch.setattr(
        jit, "_target_machine", lambda effort: efforts.append(effort) or machine(effort))
    text = "define i32 @three() {\n  ret i32 3\n}\n"
    for most in (len(text) - 1, len(text)):
        monkeypatch.setattr(jit, "LARGE", most)
        code = jit.NativeCode(jit._compile(text, "library"))
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("three"))() == 3
    assert efforts == [1, 2]


def test_code_is_loaded_without_compiling_anything() -> None:
    """An empty module costs a millisecond: all passes are made ready for it."""
    code = jit.NativeCode(jit._compile("define void @nothing() {\n  ret void\n}\n", "library"))
    assert not code.engine._modules


def test_the_first_kernel_is_loaded_with_what_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_loaded", {})
    loaders: list[jit.NativeCode] = []

    class Counted(jit.NativeCode):
        def __init__(self, *objects: bytes) -> None:
            super().__init__(*objects)
            loaders.append(self)

    monkeypatch.setattr(jit, "NativeCode", Counted)
    runner = symbol("run", "plain")
    for count in (1, 2):
        text = f"define i32 @number() {{\n  ret i32 {count}\n}}\n"
        code = jit.load_kernel(text, (), "kernel", runner)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("number"))() == count
        assert jit.helper_address(runner) == loaders[0].address(runner)
        assert len(loaders) == count
