"""The trace file and its table, several devices at once, and results that repeat."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples import matmul, vector_add
from triton_xe.runtime.simulator.device import SimulatedDevice

ADD = """
define spir_kernel void @k(ptr addrspace(1) %a) !intel_reqd_sub_group_size !0
    !reqd_work_group_size !1 {{
  %l = call spir_func i32 @_Z22get_sub_group_local_idv()
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %l
  %x = load i32, ptr addrspace(1) %p, align 4
  %y = add i32 %x, %l
  store i32 %y, ptr addrspace(1) %p, align 4
  ret void
}}
declare spir_func i32 @_Z22get_sub_group_local_idv()
!0 = !{{i32 {lanes}}}
!1 = !{{i32 {lanes}, i32 1, i32 1}}
"""


def rows(path: Path) -> dict[str, list[str]]:
    """The table's rows by kind of message."""
    found = {}
    for line in path.with_name(path.name + ".txt").read_text().splitlines():
        found[line[:28].strip()] = line[28:].split()
    return found


def test_trace_of_a_matmul(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (torch.randn(128, 128, device="xpu", dtype=torch.float16) for _ in range(2))
    want = matmul.matmul(a, b)
    path = tmp_path / "trace.json"
    monkeypatch.setenv("TRITON_XE_TRACE", str(path))
    torch.testing.assert_close(matmul.matmul(a, b), want, atol=0, rtol=0)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    kinds = {e["name"] for e in events}
    assert {"DPAS", "2D block read", "2D block write"} <= kinds
    executed = 128**3 // (8 * 16 * 16)
    assert sum(e["name"] == "DPAS" for e in events) == int(rows(path)["DPAS"][0]) == executed
    reads = [e["args"] for e in events if e["name"] == "2D block read"]
    assert all(0 <= r["x"] < 128 and 0 <= r["y"] < 128 for r in reads)
    assert re.search(r"^\S*matmul\.py:\d+:\d+$", reads[0]["source"])
    lines = Path(matmul.__file__).read_text().splitlines()
    for name, text in (("2D block read", "tl.load"), ("DPAS", "tl.dot"),
                       ("2D block write", "tl.store")):
        for source in {e["args"]["source"] for e in events if e["name"] == name}:
            assert text in lines[int(source.split(":")[-2]) - 1]
    assert int(rows(path)["2D block write"][1]) == want.nbytes


def test_trace_counts_lanes_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1000, device="xpu")
    vector_add.add(x, x)
    path = tmp_path / "trace.json"
    monkeypatch.setenv("TRITON_XE_TRACE", str(path))
    vector_add.add(x, x)
    assert int(rows(path)["global load"][1]) == 2 * x.nbytes
    assert int(rows(path)["global store"][1]) == x.nbytes


ACCESSES = """
@slm = internal addrspace(3) global [4096 x i8] undef, align 64
define spir_kernel void @k(ptr addrspace(1) %a) !intel_reqd_sub_group_size !0
    !reqd_work_group_size !1 {
  %l = call spir_func i32 @_Z22get_sub_group_local_idv()
  %half = lshr i32 %l, 1
  %near = getelementptr i32, ptr addrspace(1) %a, i32 %l
  %x = load i32, ptr addrspace(1) %near, align 4
  %f = mul i32 %l, 16
  %far = getelementptr i32, ptr addrspace(1) %a, i32 %f
  %few = icmp ult i32 %l, 4
  call void @"llvm.genx.GenISA.PredicatedStore.p1.i32"(
    ptr addrspace(1) %far, i32 %x, i64 4, i1 %few)
  %w = mul i32 %half, 16
  %s = getelementptr i32, ptr addrspace(3) @slm, i32 %w
  store i32 %x, ptr addrspace(3) %s, align 4
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  %t = getelementptr i32, ptr addrspace(3) @slm, i32 0
  %y = load i32, ptr addrspace(3) %t, align 4
  %z = call i32 @"llvm.genx.GenISA.simdShuffleXor.i32"(i32 %x, i32 1)
  ret void
}
declare void @"llvm.genx.GenISA.PredicatedStore.p1.i32"(ptr addrspace(1), i32, i64, i1)
declare i32 @"llvm.genx.GenISA.simdShuffleXor.i32"(i32, i32)
declare spir_func i32 @_Z22get_sub_group_local_idv()
declare spir_func void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
!0 = !{i32 16}
!1 = !{i32 32, i32 1, i32 1}
"""


def test_table_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two work-groups of two subgroups of 16 lanes."""
    device = SimulatedDevice("bmg")
    kernel = device.load(ACCESSES.encode(), "k")
    buffer = device.allocate(4096)
    path = tmp_path / "trace.json"
    monkeypatch.setenv("TRITON_XE_TRACE", str(path))
    device.launch(kernel, (2, 1, 1), (buffer.pointer,))
    table = rows(path)
    # count, bytes, lanes active, use of cache lines: 16 lanes x 4 bytes in one line of 64
    assert table["global load"] == ["4", "256", "100%", "100%"]
    # 4 of 16 lanes, 4 bytes of each line
    assert table["global store"] == ["4", "64", "25%", "6%"]
    # 8 different words of one bank, each for two lanes
    assert table["SLM store"] == ["4", "256", "100%", "8.00"]
    assert table["barrier"][0] == table["shuffle"][0] == "4"
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in events} == {(g, s) for g in (0, 1) for s in (0, 1)}
    order = [e["name"] for e in events if (e["pid"], e["tid"]) == (1, 1)]
    assert order == ["global load", "global store", "SLM store", "barrier", "SLM load", "shuffle"]
    assert all("source" in e["args"] for e in events)


@pytest.mark.parametrize(("target", "lanes"), [("dg2", 8), ("bmg", 16), ("pvc", 32)])
def test_lanes_of_each_device(target: str, lanes: int) -> None:
    device = SimulatedDevice(target)
    kernel = device.load(ADD.format(lanes=lanes).encode(), "k")
    buffer = device.allocate(4 * lanes)
    device.copy_to_device(buffer.pointer, np.arange(lanes, dtype=np.int32))
    for sanitize in (False, True):
        device.launch(kernel, (1, 1, 1), (buffer.pointer,), sanitize=sanitize)
    got = np.zeros(lanes, np.int32)
    device.copy_to_host(got, buffer.pointer)
    np.testing.assert_array_equal(got, 3 * np.arange(lanes))


def test_several_devices_at_once() -> None:
    devices = [SimulatedDevice(name, k) for k, name in enumerate(("pvc", "dg2", "lnl"))]
    loaded: list[tuple[SimulatedDevice, Any, Any, int]] = []
    for device in devices:
        lanes = device.target.subgroup_size
        buffer = device.allocate(4 * lanes)
        device.copy_to_device(buffer.pointer, np.zeros(lanes, np.int32))
        kernel = device.load(ADD.format(lanes=lanes).encode(), "k")
        loaded.append((device, kernel, buffer, lanes))
    for times in (1, 2):
        for device, kernel, buffer, lanes in loaded:
            device.launch(kernel, (1, 1, 1), (buffer.pointer,))
            got = np.zeros(lanes, np.int32)
            device.copy_to_host(got, buffer.pointer)
            np.testing.assert_array_equal(got, times * np.arange(lanes))


def test_results_repeat_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (torch.randn(256, 192, device="xpu", dtype=torch.float16) for _ in range(2))
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("TRITON_XE_THREADS", threads)
        results.append(matmul.matmul(a, b.T))
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_the_time_axis_is_that_of_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(1 << 16, device="xpu")
    path = tmp_path / "trace.json"
    monkeypatch.setenv("TRITON_XE_TRACE", str(path))
    start, end = (torch.xpu.Event(enable_timing=True) for _ in range(2))
    start.record()
    y = vector_add.add(x, x)
    end.record()
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    last = max(e["ts"] for e in events)
    assert last == pytest.approx(start.elapsed_time(end) * 1e3, rel=0.05)
    assert last < 20  # microseconds of a device, not of this machine
    assert y[0] == 2
