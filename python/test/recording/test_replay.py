"""What a replay finds: the same as the launch did, what differs, and which programs it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.runtime.recording import compare, folder
from triton_xe.runtime.recording.memory import NOWHERE
from triton_xe.runtime.recording.replay import Replay
from triton_xe.runtime.recording.shrink import smallest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")


@triton.jit
def beyond(x, out, BLOCK: tl.constexpr):
    at = (tl.program_id(1) * 2 + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


def test_the_checks_find_the_same_in_a_replay(records: Any) -> None:
    with pytest.raises(SimulatorTrap) as caught:
        beyond[(2, 4)](torch.zeros(1000, device="xpu"), torch.zeros(1024, device="xpu"), BLOCK=128,
                       sanitize=True)
    code, (said,) = records.replay("--sanitize", "--shrink")
    assert (code, said["is_recorded_finding"]) == (1, True)
    original, again = (re.sub(r"0x\w+", "0x", text)
                       for text in (str(caught.value), said["finding"]["text"]))
    assert original == again
    assert "argument 'x': float32 tensor of shape (1000,)" in again
    assert said["programs"] == [7]
    assert records.replay("--sanitize", "--programs", "0,1,2")[0] == 0
    (code, (said,)) = records.replay("--compare")
    assert code == 1
    assert any("nothing to compare: the recorded launch ended" in x for x in said["lines"])


UNWRITTEN = """
import torch, triton, triton.language as tl
from triton_xe.errors import SimulatorTrap

@triton.jit
def half(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)

@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at)))

x = torch.empty(1024, device="xpu")
half[(1,)](x, BLOCK=512)
try:
    total[(8,)](x, torch.zeros(8, device="xpu"), BLOCK=128)
except SimulatorTrap as error:
    print(str(error).partition(": ")[2])
"""


def test_memory_that_was_never_written_is_known_in_a_replay(records: Any, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(UNWRITTEN)
    environment = {**os.environ, "TRITON_XE_SANITIZE": "1"}
    done = subprocess.run([sys.executable, str(script)], env=environment, text=True, check=True,
                          capture_output=True)
    assert "operator of torch" in done.stdout
    code, said = records.replay("--sanitize", "--shrink", "--repeat", "2")
    assert (code, said[0]["finding"]) == (1, None)
    assert said[1]["is_recorded_finding"]
    assert said[1]["programs"] == [4]


@triton.jit
def racing(out, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1.0)
    if program == 37:
        tl.store(out + 12 * BLOCK + tl.arange(0, BLOCK), 2.0)


def test_a_race_is_shrunk_to_its_two_programs(records: Any) -> None:
    racing[(64,)](torch.zeros(64 * 128, device="xpu"), BLOCK=128)
    assert records.replay()[0] == 0
    code, (said,) = records.replay("--sanitize", "--shrink", "--compare")
    assert (code, said["finding"]["what"], said["programs"]) == (1, "race", [12, 37])
    assert (said["differences"], "it did not run to its end" in said["lines"][-2]) == ([], True)
    assert any("2 of 64 programs are enough, none can be left out: (12, 0, 0), (37, 0, 0)" in line
               for line in said["lines"])


@triton.jit
def asserting(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + at) < 40, "too large")


def test_an_assertion_is_shrunk(records: Any) -> None:
    with pytest.raises(AssertionError):
        asserting[(8,)](torch.arange(128, device="xpu") % 41, BLOCK=16, debug=True)
    code, (said,) = records.replay("--shrink")
    assert (code, said["finding"]["error"]) == (1, "DeviceAssertionError")
    assert said["programs"] in ([2], [5], [7])


@triton.jit
def scaled(x, out, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * factor)


def change(path: Path, old: str, new: str) -> None:
    """Edit the description of a launch."""
    text = (path / "launch.json").read_text()
    assert old in text
    (path / "launch.json").write_text(text.replace(old, new))


def test_what_differs_is_named_with_its_element_and_its_program(records: Any) -> None:
    x = torch.arange(512.0, device="xpu").reshape(8, 64)
    out = torch.zeros(600, device="xpu")[44:556].view(8, 64)
    scaled[(8,)](x, out, 2.0, BLOCK=64)
    (path,) = folder.recordings(records.path)
    before = np.frombuffer(Replay(path).before[0], np.float32).copy()
    assert (before[:512] == np.arange(512)).all()
    change(path, '"value": 2.0', '"value": 2.0000002')
    code, (said,) = records.replay("--compare")
    assert (code, len(said["differences"]), said["differences"][0]["beyond"]) == (0, 1, 0)
    assert records.replay("--compare", "--rtol", "1e-9")[0] == 1
    change(path, '"value": 2.0000002', '"value": -2.0')
    code, (said,) = records.replay("--compare", "--shrink")
    (found,) = said["differences"]
    assert (code, found["name"], found["first"], found["beyond"]) == (1, "out", [0, 1], 511)
    assert (found["got"], found["wanted"], found["largest"]) == (-2.0, 2.0, 2044.0)
    assert said["programs"] == [0]


def test_numbers_of_small_types() -> None:
    bits = np.arange(256, dtype=np.uint8)[:, None]
    for kind in ("float8_e4m3fn", "float8_e5m2"):
        torchs = torch.arange(256, dtype=torch.uint8).view(getattr(torch, kind)).float().numpy()
        np.testing.assert_array_equal(compare.numbers(bits, kind), torchs)


@triton.jit
def ticket(counter, out):
    tl.store(out + tl.program_id(0), tl.atomic_add(counter, 1))


def test_runs_start_from_the_same_memory(records: Any) -> None:
    ticket[(1,)](torch.zeros(1, dtype=torch.int32, device="xpu"),
                 torch.zeros(4, dtype=torch.int32, device="xpu"))
    code, (said,) = records.replay("--repeat", "3", "--compare")
    assert (code, len(said["milliseconds"]), said["differences"]) == (0, 3, [])


def test_a_trace_is_written(records: Any, tmp_path: Path) -> None:
    scaled[(2,)](torch.ones(128, device="xpu"), torch.ones(128, device="xpu"), 3.0, BLOCK=64)
    assert records.replay("--trace", str(tmp_path / "trace.json"))[0] == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_memory_that_nobody_knew_is_nowhere(records: Any) -> None:
    kept = torch.zeros(1, dtype=torch.float32, device="xpu")
    scaled[(1,)](torch.ones(64, device="xpu"), torch.ones(64, device="xpu"), 3.0, BLOCK=64)
    (path,) = folder.recordings(records.path)
    values = json.loads((path / "launch.json").read_text())
    values["arguments"][0]["block"] = values["arguments"][0]["view"] = None
    (path / "launch.json").write_text(json.dumps(values))
    assert Replay(path).values[0] == NOWHERE + values["arguments"][0]["value"] % 4096
    code, (said,) = records.replay("--sanitize")
    assert (code, "where there is no memory" in said["finding"]["text"]) == (1, True)
    assert kept.item() == 0


def test_damage_is_refused(records: Any) -> None:
    scaled[(1,)](torch.rand(4096, device="xpu"), torch.ones(64, device="xpu"), 3.0, BLOCK=64)
    (path,) = folder.recordings(records.path)
    with pytest.raises(DeviceError, match="was compiled for bmg, but Data Center GPU Max 1100"):
        Replay(path, "sim:pvc")
    with pytest.raises(DeviceError, match="holds no recorded launch: record one with"):
        folder.recordings(path.parent.parent)
    memory = bytearray((path / "before.zip").read_bytes())
    memory[len(memory) // 3] ^= 0xFF
    (path / "before.zip").write_bytes(memory)
    with pytest.raises(DeviceError, match=r"before\.zip is missing or damaged"):
        Replay(path)
    change(path, '"format": 1', '"format": 7')
    with pytest.raises(DeviceError, match="has format 7, this version reads 1"):
        folder.read(path)
    (path / "launch.json").write_text("{")
    with pytest.raises(DeviceError, match="damaged"):
        folder.read(path)


@pytest.mark.parametrize("needed", [{0}, {999}, {3, 700}, {1, 2, 3, 997}, set(range(0, 1000, 90))])
def test_nothing_can_be_left_out_of_the_smallest(needed: set[int]) -> None:
    found, is_certain = smallest(range(1000), lambda some: needed <= set(some))
    assert (set(found), is_certain) == (needed, True)
