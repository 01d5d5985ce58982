"""Tiles of matrix operands that the warps of a work-group share (see `tile_tables`)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from python.test.filecheck import check_text
from python.test.simulator.conftest import aligned
from python.test.simulator.widen.test_simulated_matmul import SURFACE, G, P, matmul_text
from triton_xe.runtime.simulator.analysis import tile_tables
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.kernel import SimulatedKernel
from triton_xe.runtime.simulator.library.names import DPAS_UNROLLED
from triton_xe.runtime.simulator.library.symbols import parts, symbol
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, generate_for

Text = Callable[..., str]
M, N, K = 128, 96, 320
HALF = 12
TILE_A, TILE_B = 16 * 32 * 4, 32 * 32 * 4


def limit_tables(nbytes: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Give tables this many bytes, and compiled code a cache for this size."""
    monkeypatch.setattr(tile_tables, "ALL_BYTES", nbytes)
    monkeypatch.setenv("TRITON_XE_CACHE", str(folder / str(nbytes)))


class Matmul:
    """Operands, and their product by a kernel with four warps in a work-group."""

    def __init__(self, device: SimulatedDevice, align: Any, k: int = K) -> None:
        generator = np.random.default_rng(0)
        self.device = device
        self.a = align(generator.standard_normal((M, k)).astype(np.float16))
        self.b = align(generator.standard_normal((k, N)).astype(np.float16))
        self.c = align(np.zeros((M, N), np.float32))

    def run(self, kernel: SimulatedKernel) -> Any:
        pointers = [x.ctypes.data for x in (self.a, self.b, self.c)]
        self.c[:] = np.nan
        self.device.launch(kernel, (N // 32, M // 64, 1), [*pointers, M, N, self.a.shape[1]])
        return self.c.copy()


def text_of(kernel: Text) -> str:
    return matmul_text(kernel, HALF, late_store=False, warps=4)


def with_payloads(text: str) -> str:
    """The kernel with surfaces that are made before the loop, and offsets in them."""
    create, read = f"{G}LSC2DBlockCreateAddrPayload.p0i32", f"{G}LSC2DBlockReadAddrPayload"
    made = f"""  %pa = call ptr @{create}(i64 %ai, i32 %aw, i32 %ah, i32 %aw, i32 0, i32 %m, i32 16, i32 16, i32 2)
  %pb = call ptr @{create}(i64 %bi, i32 %bw, i32 %bh, i32 %bw, i32 %n, i32 0, i32 16, i32 32, i32 2)
"""  # noqa: E501
    for old, new in (
        (f"{G}LSC2DBlockRead.a(i64 %ai, i32 %aw, i32 %ah, i32 %aw, i32 %k, i32 %m,",
         f"{read}.v32i16.p0i32(ptr %pa, i32 %k, i32 0,"),
        (f"{G}LSC2DBlockRead.b(i64 %bi, i32 %bw, i32 %bh, i32 %bw, i32 %n, i32 %k,",
         f"{read}.v32i32.p0i32(ptr %pb, i32 0, i32 %k,"),
        (BEFORE_LOOP, made + BEFORE_LOOP),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    shape = "i32, i32, i32, i32, i32, i32, i1, i1, i32"
    return text + f"""
declare ptr @{create}(i64, i32, i32, i32, i32, i32, i32, i32, i32)
declare <32 x i16> @{read}.v32i16.p0i32(ptr, {shape})
declare <32 x i32> @{read}.v32i32.p0i32(ptr, {shape})
"""


def with_transposed_reads(text: str) -> str:
    """The kernel for B that lies in memory as columns: 16 of them, 16 numbers of K, per read."""
    numbers = [(j, k) for j in range(2) for k in range(2)]
    arrays = "".join(f"  %tb{j}{k} = alloca <8 x i32>, align 64\n" for j, k in numbers)
    reads = "  %kd0 = lshr i32 %k, 1\n  %kd1 = add i32 %kd0, 8\n  %n0 = add i32 %n, 0\n"
    reads += "  %n1 = add i32 %n, 16\n  %th = sub i32 %N, 1\n"
    for j, k in numbers:
        reads += (
            f"  %rb{j}{k} = call <8 x i32> @{G}LSC2DBlockRead.t(i64 %bi, i32 %aw, i32 %th, "
            f"i32 %aw, i32 %kd{k}, i32 %n{j}, i32 32, i32 8, i32 16, i32 1, i1 true, i1 false, "
            f"i32 0)\n  store <8 x i32> %rb{j}{k}, ptr %tb{j}{k}, align 64\n")
    kept = []
    for line in text.splitlines():
        if line.startswith("  %rb_ ="):
            kept.append(reads)
        elif "ptr %tb" not in line and "%tb = " not in line:
            kept.append(line)
    text = "\n".join(kept)
    for j, k in numbers:
        text = text.replace(f"ptr %pb{j}{k},", f"ptr %tb{j}{k},")
    return text.replace("entry:\n", "entry:\n" + arrays) + f"""
declare <8 x i32> @{G}LSC2DBlockRead.t({SURFACE})
"""


@pytest.mark.parametrize("form", [with_payloads, with_transposed_reads])
def test_every_form_of_a_read_shares_its_tiles(
    device: SimulatedDevice, kernel: Text, align: Any, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, form: Callable[[str], str],
) -> None:
    work, plain = Matmul(device, align), device.load(text_of(kernel).encode(), "k")
    expected = work.run(plain)
    if form is with_transposed_reads:
        work.b = align(work.b.T)
    text = form(text_of(kernel)).encode()
    for nbytes in (0, 8 * TILE_B, tile_tables.ALL_BYTES):
        limit_tables(nbytes, monkeypatch, tmp_path)
        loaded = device.load(text, "k")
        reads = re.findall(r"call ptr @xe\.tile\.", loaded.host.text)
        assert len(reads) == (2 if form is with_payloads else 5) * (nbytes > 0)
        check_text(loaded.host.text, "CHECK-NOT: prepare_")
        np.testing.assert_array_equal(work.run(loaded), expected)


@pytest.mark.covering
@pytest.mark.parametrize("tiles", [1, 3, 7, 40], ids=lambda n: f"{n} tiles")
@pytest.mark.parametrize("k", [64, K])
@pytest.mark.parametrize("threads", [1, 2])
def test_any_size_gives_the_same_bits(
    device: SimulatedDevice, kernel: Text, align: Any, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, tiles: int, k: int, threads: int,
) -> None:
    """Full tables, tables that begin anew, tables that do not pay, and none at all."""
    monkeypatch.setenv("TRITON_XE_THREADS", str(threads))
    work = Matmul(device, align, k)
    results = []
    for nbytes in (0, 2 * tiles * TILE_B):
        limit_tables(nbytes, monkeypatch, tmp_path)
        loaded = device.load(text_of(kernel).encode(), "k")
        assert (loaded.host.tile_bytes > 0) == (nbytes > 0)
        check_text(loaded.host.text, f"CHECK{'' if nbytes else '-NOT'}: @xe.tile.")
        results.append(work.run(loaded))
    np.testing.assert_array_equal(*results)
    exact = work.a.astype(np.float64) @ work.b
    np.testing.assert_allclose(results[1], exact, rtol=0, atol=2e-5 * k)


SHAPE = (16, 16, 8, 1, 64, 16, "rows_f16")
READ = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_int32] * 5, ctypes.c_void_p,
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4]


class Reads:
    """Reads of 8 rows of a matrix through a table of so many tiles."""

    def __init__(self, capacity: int) -> None:
        self.read = ctypes.CFUNCTYPE(*READ)(jit.helper_address(symbol("tile", *SHAPE)))
        self.table = tile_tables.TileTable(0, 0, capacity, tile_bytes=16 * 8 * 4)
        self.matrix = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
        self.source, self.head, self.tiles, self.image, self.error = (aligned(x) for x in (
            self.matrix, np.zeros(self.table.nbytes, np.uint8),
            np.zeros(capacity * 128, np.float32), np.zeros(128, np.float32),
            np.zeros(16, np.int64)))

    def __call__(self, row: int, group: int) -> Any:
        t = self.table
        at = self.read(
            self.image.ctypes.data, self.source.ctypes.data, 127, 63, 127, 0, row,
            self.error.ctypes.data, 0, self.head.ctypes.data, self.tiles.ctypes.data, t.capacity,
            t.key_bits, t.slots, group)
        return np.frombuffer((ctypes.c_float * 128).from_address(at), np.float32)

    def shares(self, row: int, group: int) -> bool:
        """Whether a read, which is right, comes from the table."""
        found = self(row, group)
        np.testing.assert_array_equal(found, self.matrix[row : row + 8, :16].ravel())
        return bool(found.ctypes.data != self.image.ctypes.data)


def test_what_a_work_group_was_given_stays_while_it_runs() -> None:
    """Also where the next tile that a full table does not have takes the place of the first."""
    tile = Reads(capacity=2)
    for _ in range(4):
        tile(0, 1), tile(8, 1)
    given = tile(0, 2)
    for row in (16, 24, 32):
        tile.shares(row, 2)
    np.testing.assert_array_equal(given, tile.matrix[:8, :16].ravel())
    assert all(tile.shares(row, 3) for row in (16, 24))


@pytest.mark.parametrize("capacity", [3, 4, 5])
def test_tiles_of_former_work_groups_make_room(capacity: int) -> None:
    """Each work-group of two rows of tiles that it reads four times shares them all."""
    tile = Reads(capacity)
    for group in range(1, 12):
        rows = [(2 * group + k) % 7 * 8 for k in range(2)]
        assert all([tile.shares(row, group) for _ in range(4) for row in rows])


def test_tiles_that_are_not_given_again_are_not_kept() -> None:
    tile = Reads(capacity=3)
    shared = [tile.shares(row, group) for group, row in enumerate(range(0, 56, 8), 1)]
    assert shared == [True] * 3 + [False] * 4


STEPS_AT = 5
"""Position of the number of steps among the parameters of `dpas_symbol`."""


@pytest.mark.parametrize("features", ["+avx2", "+avx2,+avx512f"])
def test_products_ask_for_a_line_of_the_next_tiles_for_each_row(
    device: SimulatedDevice, kernel: Text, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    features: str,
) -> None:
    """The calls ask for all 48 rows of A and B, or for as many lines of both prepared tiles."""
    host = HostCpu("x86_64-linux", "", features)

    def asked() -> list[int]:
        with generate_for(host):
            text = device.load(text_of(kernel).encode(), "k").host.text
        names = re.findall(r"call void @(xe\.dpas\.[\w.]*)\(", text)
        assert len(names) == 4
        calls = [parts(name)[1][STEPS_AT:] for name in names]
        rows = [int(steps) * 16 // DPAS_UNROLLED * int(n) for steps, *ahead in calls for n in ahead]
        apart = re.findall(r"select i1 %\w+, i64 %\w+, i64 (\d\d+)", text)
        assert 48 <= sum(rows) < 48 + max(rows)
        return [int(nbytes) for nbytes in apart]

    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "tables"))
    assert asked() == [TILE_A // 16, TILE_B // 32]
    limit_tables(0, monkeypatch, tmp_path)
    assert asked() == []


def test_each_matrix_has_its_table(device: SimulatedDevice, kernel: Text) -> None:
    loaded = device.load(text_of(kernel).encode(), "k")
    half = tile_tables.ALL_BYTES // 2
    tiles = half // TILE_A * TILE_A + half // TILE_B * TILE_B
    assert loaded.host.tile_bytes == loaded.host.tile_heads + tiles


def test_a_table_holds_the_columns_of_a_large_block() -> None:
    """B of a block of 256 columns, K = 1024, with one other matrix."""
    assert tile_tables.ALL_BYTES // 2 >= 256 * 1024 * 4


def test_a_launch_reads_what_is_there_now(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    work = Matmul(device, align)
    loaded = device.load(text_of(kernel).encode(), "k")
    work.run(loaded)
    work.a *= np.float16(2)
    again = work.run(loaded)
    np.testing.assert_allclose(again, work.a.astype(np.float64) @ work.b, rtol=0, atol=4e-5 * K)


BEFORE_LOOP = "  br label %loop\nloop:"
IN_LOOP = "  %k1 = add i32 %k, 32\n"
STORE = "  store i32 0, ptr addrspace(1) %c, align 4\n"


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (BEFORE_LOOP, f"  %o = atomicrmw add {P} %c, i32 1 seq_cst\n"),
        (BEFORE_LOOP, f"  %o = load volatile i32, {P} %c, align 4\n"),
        (BEFORE_LOOP, STORE),
        (IN_LOOP, STORE),
    ],
    ids=["atomic", "volatile", "store before", "store in the loop"],
)
def test_no_table_where_an_earlier_read_may_differ(
    device: SimulatedDevice, kernel: Text, place: str, line: str
) -> None:
    text = text_of(kernel)
    assert text.count(place) == 1
    loaded = device.load(text.replace(place, line + place).encode(), "k")
    assert loaded.host.tile_bytes == 0
    check_text(loaded.host.text, "CHECK: rows_f16")


def test_rows_written_by_the_launch_itself(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    """What a kernel stores after its loop does not take the table away."""
    text = text_of(kernel).replace("\ndone:\n", "\ndone:\n" + STORE)
    loaded = device.load(text.encode(), "k")
    assert loaded.host.tile_bytes > 0


def test_no_table_when_accesses_are_checked(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    work = Matmul(device, align)
    loaded = device.load(text_of(kernel).encode(), "k")
    plain = work.run(loaded)
    buffers = [device.allocate(x.nbytes) for x in (work.a, work.b, work.c)]
    for buffer, x in zip(buffers, (work.a, work.b, work.c), strict=True):
        device.copy_to_device(buffer.pointer, x)
    device.launch(loaded, (N // 32, M // 64, 1), [*(b.pointer for b in buffers), M, N, K],
                  sanitize=True)
    (checked,) = [made for made in loaded.forms.values() if made.form.plan]
    assert checked.host.tile_bytes == 0
    result = np.zeros_like(plain)
    device.copy_to_host(result, buffers[2].pointer)
    np.testing.assert_array_equal(result, plain)


def test_a_kernel_that_was_compiled_before_is_not_read_again(
    device: SimulatedDevice, kernel: Text, align: Any, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path))
    work, text = Matmul(device, align), text_of(kernel).encode()
    first, other = (d.load(text, "k") for d in (device, SimulatedDevice("pvc")))
    assert first.host == other.host
    again = device.load(text, "k")
    assert again.host == first.host
    assert ["parsed" in vars(k.source) for k in (first, again, other)] == [True, False, True]
    assert again.argument_types == first.argument_types
    np.testing.assert_array_equal(work.run(again), work.run(first))
