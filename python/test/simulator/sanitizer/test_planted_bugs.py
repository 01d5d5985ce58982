"""Bugs planted in real kernels: the sanitizer finds each, says where, and the process lives on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from examples import matmul, matmul_descriptor, softmax, vector_add
from python.test.operations import operations
from triton_xe.backend import devices
from triton_xe.errors import LegalityError, SimulatorTrap
from triton_xe.runtime import native
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.spirv import attached_llvm_ir

N = 1000


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "3")


def found(kernel: Any, grid: int | tuple[int, ...], *arguments: Any, **options: Any) -> str:
    """The report on a launch, which must name the kernel, this file, a program and a warp."""
    kernel_name = kernel.fn.__name__
    with pytest.raises(SimulatorTrap) as caught:
        kernel[grid if isinstance(grid, tuple) else (grid,)](*arguments, **options)
    text = str(caught.value)
    assert f"kernel {kernel_name}, " in text
    assert re.search(r"test_planted_bugs\.py:\d+:\d+, program \(\d+, \d+, \d+\), warp \d+", text)
    return text


def xpu(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(shape, device="xpu", dtype=dtype)


# --- out of bounds --------------------------------------------------------------------------------


@triton.jit
def add(x, y, out, n, MASK_IN: tl.constexpr, MASK_OUT: tl.constexpr, FROM: tl.constexpr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256) - FROM
    if MASK_IN:
        total = tl.load(x + i, mask=i < n, other=0.0) + tl.load(y + i, mask=i < n, other=0.0)
    else:
        total = tl.load(x + i) + tl.load(y + i)
    if MASK_OUT:
        tl.store(out + i, total, mask=i < n)
    else:
        tl.store(out + i, total)


def test_one_launch_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_XE_SANITIZE")
    text = found(add, 4, xpu(N), xpu(N), xpu(N), N, False, True, 0, sanitize=True)
    assert "out-of-bounds load" in text


def test_load_without_a_mask() -> None:
    text = found(add, 4, xpu(N), xpu(N), xpu(N), N, False, True, 0)
    assert re.search(r"out-of-bounds load of \d+ bytes: 0 bytes past the end of the block", text)
    assert "argument 'x': float32 tensor of shape (1000,), strides (1,)" in text
    assert "element (1000,), which it does not have" in text
    assert "program (3, 0, 0), warp" in text
    assert "lane" in text


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "xetile", "xegpu", "llir"])
def test_stage_that_is_overridden(stage: str, tmp_path: Path) -> None:
    """A stage's own text brings the same report as the kernel."""
    arguments = (xpu(N), xpu(N), xpu(N), N, True, False, 0)
    want = found(add, 4, *arguments)
    compiled = add.warmup(*arguments, grid=(4,))
    file = tmp_path / f"add.{stage}"
    file.write_text(str(compiled.asm[stage]))
    text = found(add, 4, *arguments, ir_override=str(file))
    assert text.split(": ")[0] == want.split(": ")[0]


def test_store_without_a_mask() -> None:
    text = found(add, 4, xpu(N), xpu(N), xpu(N), N, True, False, 0)
    assert re.search(r"out-of-bounds store of \d+ bytes: 0 bytes past the end", text)
    assert "argument 'out'" in text


def test_start_before_the_tensor() -> None:
    text = found(add, 4, xpu(N), xpu(N), xpu(N), N, True, True, 1)
    assert "4 bytes before the start of the block" in text
    assert "element offset -1" in text


@triton.jit
def transpose(source, target, stride, rows: tl.constexpr, columns: tl.constexpr):
    r, c = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
    tl.store(target + c * stride + r, tl.load(source + r * columns + c))


def test_wrong_stride_of_a_transposed_matrix() -> None:
    text = found(transpose, 1, xpu(32, 64), xpu(64, 32), 64, 32, 64)
    assert "out-of-bounds store" in text
    assert "argument 'target': float32 tensor of shape (64, 32)" in text


@triton.jit
def row_sum(x, out, stride, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * stride + tl.arange(0, COLUMNS))
    tl.store(out + row, tl.sum(values, 0))


def test_row_longer_than_the_matrix_is_wide() -> None:
    text = found(row_sum, 8, xpu(8, 100), xpu(8), 100, 128)
    assert "out-of-bounds load" in text
    assert "program (7, 0, 0)" in text


def test_grid_with_one_program_too_many() -> None:
    text = found(row_sum, 9, xpu(8, 128), xpu(9), 128, 128)
    assert "element (8, 0), which it does not have" in text


@triton.jit
def product(a, b, c, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * N + n[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total)


def test_matmul_of_a_ragged_matrix() -> None:
    a, b = xpu(40, 64, dtype=torch.float16), xpu(64, 64, dtype=torch.float16)
    text = found(product, (2, 2), a, b, xpu(40, 64), 40, 64, 64, 32)
    assert "out-of-bounds load" in text
    assert "argument 'a': float16 tensor of shape (40, 64)" in text


# --- pointers that are none -----------------------------------------------------------------------


@triton.jit
def through_table(table, out, COUNT: tl.constexpr):
    for k in range(COUNT):
        source = tl.load(table + k).to(tl.pointer_type(tl.float32))
        tl.store(out + k, tl.load(source + 3))


def table(*addresses: int) -> Any:
    return torch.tensor(addresses, dtype=torch.int64).to("xpu")


def test_pointer_to_a_freed_tensor() -> None:
    kept, gone = xpu(16), xpu(1 << 18)
    addresses = table(kept.data_ptr(), gone.data_ptr())
    through_table[(1,)](addresses, xpu(2), 2)
    del gone
    text = found(through_table, 1, addresses, xpu(2), 2)
    assert "load of 4 bytes after free" in text
    assert "block of 1048576 bytes" in text


def test_pointer_to_a_freed_result_of_an_operator() -> None:
    gone = xpu(512, 64) @ xpu(64, 512)
    addresses = table(gone.data_ptr())
    del gone
    text = found(through_table, 1, addresses, xpu(1), 1)
    assert "load of 4 bytes after free" in text
    assert "block of 1048576 bytes" in text


def test_null_pointer() -> None:
    text = found(through_table, 1, table(0), xpu(1), 1)
    assert "through a null pointer (address 0xc)" in text


def test_pointer_of_a_cpu_tensor() -> None:
    host = torch.ones(1 << 16)
    text = found(through_table, 1, table(host.data_ptr()), xpu(1), 1)
    assert "host memory" in text


def test_pointer_made_of_rubbish() -> None:
    text = found(through_table, 1, table(0x5555_0000_0000_0000 >> 4), xpu(1), 1)
    assert "where there is no memory" in text


@triton.jit
def as_words(source, out):
    words = source.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(out + tl.arange(0, 16), tl.load(words + tl.arange(0, 16)))


def test_misaligned_pointer() -> None:
    data = xpu(65, dtype=torch.int8)
    text = found(as_words, 1, data[1:], xpu(16, dtype=torch.int32))
    assert "misaligned load" in text
    assert "multiple of 4 bytes" in text


@pytest.mark.skipif(native.threads is None, reason="needs the compiled part of the runtime")
def test_wild_pointer_without_the_sanitizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "0")
    for _ in range(2):
        with pytest.raises(SimulatorTrap, match="kernel through_table: an access at 0xc, where"):
            through_table[(1,)](table(0), xpu(1), 1)
    add[(4,)](xpu(N), xpu(N), out := xpu(N), N, True, True, 0)
    assert (out.cpu() == 2).all()


# --- races between programs -----------------------------------------------------------------------


@triton.jit
def count(values, bins, ATOMIC: tl.constexpr):
    v = tl.load(values + tl.program_id(0))
    if ATOMIC:
        tl.atomic_add(bins + v, 1)
    else:
        tl.store(bins + v, tl.load(bins + v) + 1)


def test_histogram_without_atomics() -> None:
    values, bins = xpu(32, dtype=torch.int32), xpu(8, dtype=torch.int32)
    text = found(count, 32, values, bins, False)
    assert "data race" in text
    assert "argument 'bins'" in text
    assert "program (0, 0, 0)" in text
    count[(32,)](values, bins, True)


@triton.jit
def smooth(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0.0)
    tl.store(x + i, left, mask=i < n)


def test_stencil_in_place() -> None:
    text = found(smooth, 4, xpu(256), 256, 64, num_warps=1)
    assert "data race" in text
    assert "nothing orders them: programs run at the same time" in text


@triton.jit
def last_sums(parts, counter, out, SEM: tl.constexpr, COUNT: tl.constexpr):
    me = tl.program_id(0)
    tl.store(parts + me, me.to(tl.float32))
    arrived = tl.atomic_add(counter, 1, sem=SEM)
    if arrived == COUNT - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, COUNT)), 0))


def test_last_program_reads_what_was_not_released() -> None:
    parts, out = xpu(16), xpu(1)
    text = found(last_sums, 16, parts, table(0), out, "relaxed", 16)
    assert "data race" in text
    last_sums[(16,)](parts, table(0), out, "acq_rel", 16)
    assert out.item() == 120


# --- loops without end, infinities ----------------------------------------------------------------


@triton.jit
def spin(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def poll(flag, out):
    if tl.program_id(0) == 1:
        tl.atomic_poll(flag, 1)
    tl.store(out + tl.program_id(0), 1.0)


@pytest.mark.parametrize("checks", ["1", "0"])
def test_waits_without_end(checks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report tells who waits, and where."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", checks)
    for kernel, program, call in (
        (spin, 0, lambda: spin[(1,)](xpu(1, dtype=torch.int32))),
        (poll, 1, lambda: poll[(3,)](xpu(1, dtype=torch.int32) * 0, xpu(3))),
    ):
        place = rf"kernel {kernel.__name__}, \S*test_planted_bugs\.py:\d+:\d+, "
        with pytest.raises(SimulatorTrap, match=rf"{place}program \({program}, 0, 0\), warp \d: "
                           "a deadlock"):
            call()


@triton.jit
def endless(out, step):
    k = 1
    while k != 0:
        k += step
    tl.store(out, k)


@pytest.mark.parametrize("checks", ["1", "0"])
def test_loops_without_end(checks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", checks)
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "1")
    with pytest.raises(SimulatorTrap, match=r"test_planted_bugs\.py:\d+:\d+, program \(0, 0, 0\), "
                       r"warp \d: still running after 1 s: an endless"):
        endless[(1,)](xpu(1, dtype=torch.int32), 0)


@triton.jit
def plain_softmax(x, out, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    powers = tl.exp(tl.load(x + at))
    tl.store(out + at, powers / tl.sum(powers, 0))


def test_softmax_that_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "finite")
    text = found(plain_softmax, 4, xpu(4, 64) * 100, xpu(4, 64), 64)
    assert "finite operands give an infinity or NaN" in text


# --- shared local memory: bugs planted in the compiled code ---------------------------------------

BARRIER = "call spir_func void @\"_Z22__spirv_ControlBarrieriii\"(i32 2, i32 2, i32 272)"


def tampered(change: Callable[[str], str]) -> str:
    """The report on a row sum over four warps whose LLVM module was changed."""
    x, out = xpu(1, 1024), xpu(1)
    compiled = row_sum.warmup(x, out, 1024, COLUMNS=1024, grid=(1,), num_warps=4)
    before = attached_llvm_ir(compiled.asm["spv"])
    after = change(before)
    assert after != before
    device = SimulatedDevice(devices.device(0).target.name)
    loaded = device.load(after.encode(), "row_sum")
    with pytest.raises(SimulatorTrap) as caught:
        device.launch(loaded, (1, 1, 1), (x.data_ptr(), out.data_ptr(), 1024))
    return str(caught.value)


def test_missing_barrier() -> None:
    text = tampered(lambda t: re.sub(r".*ControlBarrieriii\(i32 2, i32 2.*\n", "", t))
    assert re.search("data race|that no store of this work-group wrote", text)
    assert "shared local memory" in text


def test_barrier_without_a_fence() -> None:
    pattern = r"(ControlBarrieriii\(i32 2, i32 2), i32 272"
    text = tampered(lambda t: re.sub(pattern, r"\1, i32 0", t))
    assert "data race: load" in text
    assert "no barrier with a fence of that memory is between them" in text


def test_shared_memory_that_nobody_wrote() -> None:
    text = tampered(lambda t: re.sub(r"\n  store [^\n]*addrspace\(3\)[^\n]*", "", t))
    assert "that no store of this work-group wrote: byte 0" in text


def test_shared_memory_too_small() -> None:
    def shrink(text: str) -> str:
        return re.sub(r"(addrspace\(3\) global) \[\d+ x i8\]", r"\1 [8 x i8]", text)

    text = tampered(shrink)
    assert re.search(r"out-of-bounds store of \d+ bytes at byte \d+ of shared local memory", text)
    assert "which has 8 bytes" in text


def test_more_shared_memory_than_there_is() -> None:
    def grow(text: str) -> str:
        return re.sub(r"(addrspace\(3\) global) \[\d+ x i8\]", r"\1 [999999 x i8]", text)

    with pytest.raises(LegalityError, match="999999 bytes of shared local memory are over"):
        tampered(grow)


def test_lanes_that_the_device_does_not_have() -> None:
    def widen(text: str) -> str:
        return re.sub(r"= !\{i32 (8|16|32)\}", "= !{i32 64}", text)

    with pytest.raises(LegalityError, match="no subgroups of 64 lanes"):
        tampered(widen)


# --- and kernels without bugs ---------------------------------------------------------------------


def test_examples_run_clean() -> None:
    x, y = torch.randn(1000, device="xpu"), torch.randn(1000, device="xpu")
    torch.testing.assert_close(vector_add.add(x, y), x + y)
    rows = torch.randn(33, 500, device="xpu")
    torch.testing.assert_close(softmax.softmax(rows), torch.softmax(rows, 1))
    a, b = (torch.randn(100, 96, device="xpu", dtype=torch.float16) for _ in range(2))
    want = a.float() @ b.float().T
    found = matmul.matmul(a, b.T, blocks=(32, 64, 32), num_warps=4).float()
    torch.testing.assert_close(found, want, atol=0.1, rtol=0.01)


@triton.jit
def row_maxima(x, out, rows: tl.constexpr, columns: tl.constexpr):
    i, j = tl.arange(0, rows), tl.arange(0, columns)
    tl.store(out + i, tl.max(tl.load(x + i[:, None] * columns + j[None, :]), 1))


def test_warps_that_write_copies_of_one_value_do_not_race() -> None:
    x, out = torch.randn(16, 64, dtype=torch.float64), xpu(16, dtype=torch.float64)
    row_maxima[(1,)](x.to("xpu"), out, 16, 64)
    assert torch.equal(out.cpu(), x.max(1).values)


@pytest.mark.parametrize("example", [matmul, matmul_descriptor])
def test_one_of_the_warps_with_copies_stores_a_block(example: Any) -> None:
    """A result of two tiles that eight warps hold: six would store what the others do."""
    a, b = (torch.randn(64, 64, dtype=torch.float16).to("xpu") for _ in range(2))
    c, compiled = example.launch(a, b, "", None, (8, 32, 32), 8, {"num_warps": 8})
    torch.testing.assert_close(c.cpu(), (a.cpu().float() @ b.cpu().float()).half(), atol=0.1,
                               rtol=0.01)
    assert operations(compiled.asm["xetile"]).count("xetile.store_tile") == 1
