"""Illegal instructions and work-groups planted in compiled kernels: each is found and explained."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from examples import matmul
from triton_xe.errors import LegalityError, SimulatorTrap, XeError
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.spirv import attached_llvm_ir

N = 64


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def xpu(*shape: int, dtype: Any = torch.float16) -> Any:
    return torch.ones(shape, device="xpu", dtype=dtype)


@cache
def matmul_text() -> str:
    a = xpu(N, N)
    compiled = matmul.matmul_kernel.warmup(
        a, a, a, N, N, N, N, 1, N, 1, N, 1, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, GROUP_M=1,
        ACTIVATION="", grid=(1,), num_warps=4, guards="kernel")
    return attached_llvm_ir(compiled.asm["spv"])


def launch(text: str) -> None:
    device = SimulatedDevice("bmg")
    tensors = [xpu(N, N) for _ in range(3)]
    loaded = device.load(text.encode(), "matmul_kernel")
    device.launch(loaded, (1, 1, 1), (*(t.data_ptr() for t in tensors), N, N, N, N, N, N))


def line_of(text: str) -> int:
    """The line of the matmul example that contains a text."""
    lines = Path(matmul.__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


def report(change: Callable[[str], str], at: str = "a = tl.load") -> str:
    """What the simulator says of the matmul example with a changed LLVM module; names a line."""
    line = line_of(at)
    after = change(matmul_text())
    assert after != matmul_text()
    with pytest.raises(XeError) as caught:
        launch(after)
    text = str(caught.value)
    assert re.search(rf"kernel matmul_kernel, \S*matmul\.py:{line}:\d+", text)
    return text


READ = r'(LSC2DBlockReadAddrPayload\.v64i16\.p0i32\(ptr ([^,]*), i32 0, i32 0, i32 16, i32 16), '
READ += r"i32 32, i32 2, i1 false, i1 false"


def of_shape(text: str, shape: str) -> str:
    """The module with another height, count of blocks and transposition in its block read."""
    return re.sub(READ, rf"\1, {shape}, i1 false", text)


def with_surface(text: str, change: Callable[[list[str]], None]) -> str:
    """The module with other operands of the payload of that read: base, width, height, pitch..."""
    read = re.search(READ, text)
    assert read is not None
    line = next(x for x in text.splitlines() if f"{read[2]} = call" in x)
    head, _, operands = line.partition("(i64 ")
    places = operands.split(", i32 ")
    change(places)
    return text.replace(line, f"{head}(i64 {', i32 '.join(places)}")


def test_block_of_a_shape_that_does_not_exist() -> None:
    text = report(lambda t: of_shape(t, "i32 24, i32 2, i1 false"))
    assert "illegal 2D block read" in text
    assert "height" in text


def test_block_that_is_too_wide() -> None:
    text = report(lambda t: of_shape(t, "i32 32, i32 8, i1 false"))
    assert "illegal 2D block read" in text


def test_transposed_block_of_halves() -> None:
    text = report(lambda t: of_shape(t, "i32 32, i32 2, i1 true"))
    assert "illegal 2D block read" in text
    assert "transposes 32- and 64-bit elements only" in text


def test_pitch_that_is_no_multiple_of_16() -> None:
    text = report(lambda t: with_surface(t, lambda places: places.__setitem__(3, "131")))
    assert "illegal 2D block surface: pitch of 132 bytes is not a multiple of 16" in text
    assert re.search(r"program \(0, 0, 0\), warp 0", text)


def test_surface_that_begins_between_cache_lines() -> None:
    def move(text: str) -> str:
        bases: list[str] = []

        def other(places: list[str]) -> None:
            bases.append(places[0])
            places[0] = "%moved"

        line = next(x for x in with_surface(text, other).splitlines() if "(i64 %moved" in x)
        return with_surface(text, other).replace(
            line, f"  %moved = add i64 {bases[0]}, 8\n{line}")

    text = report(move)
    assert "illegal 2D block surface: base is not 64-byte aligned" in text


def test_surface_larger_than_its_tensor() -> None:
    """The height says more rows than the tensor has: the rows past its end are read."""
    def grow(places: list[str]) -> None:
        places[2], places[5] = "4095", "4000"

    text = report(lambda t: with_surface(t, grow))
    # earlier tests may have had memory there
    assert "load of 64 bytes after free" in text or (
        "out-of-bounds load" in text and "past the end of the block of 8192 bytes" in text)
    assert re.search(r"program \(0, 0, 0\), warp \d", text)


DPAS = "i32 12, i32 12, i32 8, i32 8, i1 false"


@pytest.mark.parametrize(("changed", "message"), [
    ("i32 12, i32 4, i32 8, i32 8, i1 false", "cannot multiply f16 by s8"),
    ("i32 12, i32 12, i32 4, i32 8, i1 false", "illegal DPAS"),
    ("i32 12, i32 12, i32 8, i32 9, i1 false", "illegal DPAS"),
    ("i32 12, i32 12, i32 8, i32 4, i1 false", "operand accumulator of a DPAS with 4 rows"),
])
def test_dpas_of_types_and_sizes_that_do_not_go_together(changed: str, message: str) -> None:
    assert message in report(lambda t: t.replace(DPAS, changed), "total = tl.dot")


def test_device_without_block_messages() -> None:
    """Compiled for one device, run on another."""
    device = SimulatedDevice("dg2")
    kernel = device.load(matmul_text().encode(), "matmul_kernel")
    with pytest.raises(SimulatorTrap, match=r"matmul\.py:\d+:\d+: .* dg2 has no 2D block messages"):
        device.launch(kernel, (1, 1, 1), [0] * len(kernel.argument_types))


def test_work_group_that_is_too_large() -> None:
    text = matmul_text().replace("= !{i32 64, i32 1, i32 1}", "= !{i32 2048, i32 1, i32 1}")
    device = SimulatedDevice("bmg")
    with pytest.raises(LegalityError, match="work-group of 2048 work-items is over the limit"):
        device.load(text.encode(), "matmul_kernel")


@triton.jit
def row_sum(x, out, COLUMNS: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, COLUMNS)), 0))


def without_barrier_in_warp_2(*, early: bool) -> str:
    """Warp 2 leaves out the barrier, or ends before it."""
    x, out = xpu(1024, dtype=torch.float32), xpu(1, dtype=torch.float32)
    compiled = row_sum.warmup(x, out, COLUMNS=1024, grid=(1,), num_warps=4)
    text = attached_llvm_ir(compiled.asm["spv"])
    warp = re.search(r"(%\S+) = call spir_func i32 @_Z16get_sub_group_idv", text)
    assert warp is not None
    barrier = re.search(r".* call .*ControlBarrier.*", text)[0]
    odd = f"  %odd = icmp eq i32 {warp[1]}, 2\n  br i1 %odd, label %past, label %meet\n"
    after = f"{barrier}\n  br label %past\npast:"
    if early:
        after = f"{barrier}\n  br label %rest\npast:\n  ret void\nrest:"
    text = text.replace(barrier, f"{odd}meet:\n{after}")
    device = SimulatedDevice("bmg")
    loaded = device.load(text.encode(), "row_sum")
    with pytest.raises(SimulatorTrap) as caught:
        device.launch(loaded, (1, 1, 1), (x.data_ptr(), out.data_ptr()))
    message = str(caught.value)
    assert re.search(r"test_planted_instructions\.py:\d+:\d+", message)
    return message


def test_warp_that_ends_before_a_barrier() -> None:
    message = without_barrier_in_warp_2(early=True)
    assert "kernel row_sum: divergent barrier in work-group 0: subgroup 0 waits at" in message
    assert "subgroup 2 has ended; a real device hangs" in message


def test_warp_that_leaves_out_a_barrier() -> None:
    """It reads what the others have not yet made visible, before anything hangs."""
    message = without_barrier_in_warp_2(early=False)
    assert "data race: load of 4 bytes" in message
    assert "program (0, 0, 0), warp 2" in message
