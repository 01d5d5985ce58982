"""Kernels of Triton as native code on emulated devices, through the device protocol."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from python.test.emulator import rows
from triton_xe.errors import DeviceError
from triton_xe.runtime.device import MemoryBlock
from triton_xe.runtime.emulator import device as emulated
from triton_xe.runtime.emulator import iga
from triton_xe.runtime.emulator.dispatch import Dispatch
from triton_xe.runtime.emulator.memory import Fault
from triton_xe.runtime.opening import open_device
from triton_xe.runtime.selection import Machine, decide

REPOSITORY = Path(__file__).parents[3]
FUZZ = REPOSITORY / "python/test/fuzz"


def test_emulated_devices_are_simulated_ones_that_run_native_code() -> None:
    chosen = decide("emu:bmg,pvc", Machine())
    assert (chosen.kind, chosen.targets, chosen.is_emulated) == ("sim", ("bmg", "pvc"), True)
    assert decide("emu", Machine()).targets == ("bmg",)
    assert not decide("sim:bmg", Machine()).is_emulated
    with pytest.raises(DeviceError, match="emu:"):
        decide("emu:", Machine())


def test_a_device_without_a_decoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iga, "PLATFORMS", {"Xe2-LPG": (2, 0)})
    monkeypatch.setenv("TRITON_XE_OCLOC", __file__)  # it exists, and is not run
    with pytest.raises(DeviceError, match="no emulated pvc; use lnl"):
        emulated.EmulatedDevice("pvc")


def test_without_intels_compiler_the_device_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_OCLOC", "/nowhere")
    with pytest.raises(DeviceError, match="triton-xe toolchain"):
        emulated.EmulatedDevice("bmg")


@pytest.mark.parametrize("most", [1, 3, 4, 7, 12, 24, 100])
def test_the_parts_of_a_dispatch_have_all_groups_once(most: int) -> None:
    found = []
    for part in emulated.parts(Dispatch((4, 3, 2), 1, 16), most):
        assert part.group_count <= most
        found += [tuple(np.add(part.first_group, each)) for each in np.ndindex(part.groups)]
    assert sorted(found) == sorted(np.ndindex(4, 3, 2))


def test_memory_is_mapped_where_blocks_of_the_device_are() -> None:
    memory = np.arange(64, dtype=np.uint32)
    low = memory.ctypes.data
    block = MemoryBlock(low, low + 64)
    space = emulated.HostSpace(lambda x: block if low <= x < low + 64 else None)
    at = low + 4 * np.arange(16)
    np.testing.assert_array_equal(space.read(at, np.uint32), np.arange(16))
    with pytest.raises(Fault, match="in no allocation"):
        space.read(at + 4, np.uint32)
    space.lend(low)  # a block: nothing around it
    with pytest.raises(Fault, match="in no allocation"):
        space.read(at + 4, np.uint32)


def test_memory_of_other_libraries_is_lent_by_pages() -> None:
    memory = np.arange(64, dtype=np.uint32)
    space = emulated.HostSpace(lambda _: None)
    space.lend(memory.ctypes.data)
    np.testing.assert_array_equal(
        space.read(memory.ctypes.data + 4 * np.arange(64), np.uint32), memory)
    with pytest.raises(Fault, match="in no allocation"):
        space.read(np.array([64]), np.uint32)


PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(a, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at, at < n, other=0)
    tl.store(o + at, x * 3 + tl.sum(x, 0), at < n)

a = torch.arange(1000, dtype=torch.int32, device="xpu")
o = torch.zeros_like(a)
kernel[(8,)](a, o, 1000, 128, num_warps=2)
want = torch.cat([x * 3 + x.sum() for x in a.cpu().split(128)])
print(torch.xpu.get_device_name(), torch.equal(o.cpu(), want))
kernel[(8,)](a, o, 1 << 20, 128, num_warps=2)
"""


@pytest.mark.intel_compiler
@pytest.mark.parametrize(("device", "lines"), [
    ("bmg", "1"), pytest.param("dg2", "0", marks=pytest.mark.rest)])
def test_a_program_with_torch_runs_native_code(
    device: str, lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", f"emu:{device}")
    monkeypatch.setenv("TRITON_XE_LINES", lines)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("True\n"), done.stderr
    assert done.stderr.count("kernels run on an emulated GPU") == 1
    assert "4 bytes at " in done.stderr
    assert "in no allocation" in done.stderr
    assert "(kernel kernel, send." in done.stderr
    assert ("TRITON_XE_LINES=1 adds source lines" in done.stderr) == (lines == "0")
    assert (f", {path}:" in done.stderr) == (lines == "1")


DOUBLES = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(a, o, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(a + at).to(o.dtype.element_ty))

kinds = torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64
for n, kind in zip((32, 64, 32, 64, 32), kinds):
    for source, target in ((torch.float64, kind), (kind, torch.float64)):
        given, o = torch.arange(n).to(source), torch.zeros(n, dtype=target, device="xpu")
        kernel[(1,)](given.to("xpu"), o, n, num_warps=1)
        if not torch.equal(o.cpu(), given.to(target)):
            print(n, source, target, o.cpu())
"""


LANES = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(a, o, p, R: tl.constexpr, C: tl.constexpr):
    x = tl.load(a + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    tl.store(o + tl.arange(0, C), tl.sum(x, 0))
    tl.store(p + tl.arange(0, R), tl.argmax(x, 1))

for rows, columns, warps, lanes in (
        (4, 64, 1, 32), (4, 32, 4, 32), (4, 32, 4, 16), (64, 16, 4, 32)):
    a = torch.randperm(rows * columns).to(torch.int32).view(rows, columns)
    o, p = (torch.zeros(n, dtype=torch.int32, device="xpu") for n in (columns, rows))
    kernel[(1,)](a.to("xpu"), o, p, rows, columns, num_warps=warps, warp_size=lanes)
    if not (torch.equal(o.cpu(), a.sum(0).int()) and torch.equal(p.cpu(), a.argmax(1).int())):
        print(rows, columns, warps, lanes)
"""


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", pytest.param("pvc", marks=pytest.mark.rest)])
def test_code_that_intels_compiler_must_not_be_left_to_choose(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the second of two doubles of a lane from a wrong register, unless it is told not
    to, and writes no instruction for `simdShuffleXor` by 16 lanes.
    """
    monkeypatch.setenv("TRITON_XE_DEVICE", f"emu:{device}")
    (tmp_path / "doubles.py").write_text(DOUBLES)
    (tmp_path / "lanes.py").write_text(LANES)
    both = "import runpy; [runpy.run_path(f'{name}.py') for name in ('doubles', 'lanes')]"
    done = subprocess.run([sys.executable, "-c", both], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.intel_compiler
def test_code_that_reads_a_register_that_nothing_wrote_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = rows.compiled("add", "bmg")
    text = iga.disassemble("bmg", kernel.program.code)
    lost = re.sub(r"(\badd \(16\|M0\) +r\d+\.0<1>:f +)r\d+", r"\1r120", text, count=1)
    code = iga.assemble("bmg", lost)
    binary = kernel.binary.replace(kernel.program.code[: len(code)], code)
    assert binary != kernel.binary
    (tmp_path / "lost.bin").write_bytes(binary)
    compiler = tmp_path / "ocloc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -out_dir ]; do shift; done\n'
                        f'cp {tmp_path}/lost.bin "$2/native_bmg.bin"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("TRITON_XE_OCLOC", str(compiler))
    loaded = emulated.EmulatedDevice("bmg").load(kernel.spirv, kernel.name)
    with pytest.raises(Fault, match=r"kernel .* for bmg.*reads r120, which nothing wrote: add at"):
        _ = loaded.native


@pytest.mark.rest
@pytest.mark.intel_compiler
def test_checks_are_left_to_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "emu:bmg")
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert "TRITON_XE_DEVICE=sim" in done.stderr


@pytest.mark.intel_compiler
@pytest.mark.parametrize(("device", "kernels"), [
    ("bmg", 1), *(pytest.param(*more, marks=pytest.mark.rest)
                  for more in (("bmg", 8), ("pvc", 8), ("dg2", 8), ("ptl", 8))),
    *(pytest.param(*more, marks=pytest.mark.slow)
      for more in (("bmg", 20), ("pvc", 12), ("dg2", 12))),
])
def test_random_stores_leave_the_same_as_native_code(
    device: str, kernels: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, FUZZ / "stores.py", "--seed", "native", "--device", f"emu:{device}",
         "--kernels", str(kernels), "--draws", "3", "--keep", tmp_path],
        capture_output=True, text=True, check=False)
    assert f"{3 * kernels} draws right" in done.stdout, done.stdout + done.stderr


@pytest.mark.intel_compiler
@pytest.mark.rest
@pytest.mark.parametrize(("device", "kernels"), [("bmg", 10), ("pvc", 10), ("dg2", 8)])
def test_random_integers_are_exact_in_native_code(
    device: str, kernels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", f"emu:{device}")
    done = subprocess.run(
        [sys.executable, FUZZ / "integers.py", "--seed", "native", "--count", str(kernels),
         "--keep", tmp_path], capture_output=True, text=True, check=False)
    assert f"{{'right': {kernels}}} in" in done.stdout, done.stdout + done.stderr


COUNTED = """
import torch, triton, triton.language as tl
from triton_xe.backend.devices import device
from triton_xe.model.work import Issue
from triton_xe.tools import exact

@triton.jit
def kernel(o, n):
    total = 0
    for k in range(n):
        total = (total ^ k) * 5
    tl.store(o, total)

o = torch.zeros(1, dtype=torch.int32, device="xpu")
found, executed = {}, exact.executed_issue
exact.executed_issue = lambda *given: found.setdefault(n, executed(*given))
torch.xpu.Event(enable_timing=True).record()
device(0).clock.now_ms()
for n in (10, 1000):
    kernel[(3,)](o, n, num_warps=2)
    device(0).clock.now_ms()
print(found[1000].integer - found[10].integer, found[10].messages)
"""


@pytest.mark.intel_compiler
def test_the_exact_clock_counts_executed_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length of the loop depends on an argument; one store and the loads of arguments."""
    monkeypatch.setenv("TRITON_XE_DEVICE", "emu:bmg")
    monkeypatch.setenv("TRITON_XE_CLOCK", "exact")
    path = tmp_path / "program.py"
    path.write_text(COUNTED)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    more, messages = map(float, done.stdout.split())
    assert more >= 990
    assert more % 990 == 0
    assert 0.5 <= messages <= 3


@pytest.mark.intel_compiler
def test_a_device_opens_by_name() -> None:
    device = open_device("emu:bmg")
    assert device.name.endswith("(emulated)")
    assert device.is_simulated


@pytest.mark.rest
@pytest.mark.intel_compiler
def test_a_recorded_launch_is_replayed_as_native_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim:bmg")
    path, launches = tmp_path / "program.py", tmp_path / "launches"
    path.write_text(PROGRAM.rpartition("kernel[(8,)]")[0])
    with monkeypatch.context() as recording:
        recording.setenv("TRITON_XE_RECORD", str(launches))
        subprocess.run([sys.executable, path], check=True)
    command = [sys.executable, "-m", "triton_xe.tools.cli", "replay", launches, "--compare"]
    done = subprocess.run([*command, "--device", "emu:bmg"], capture_output=True, text=True,
                          check=False)
    assert "replayed on Arc B580 (emulated)" in done.stdout, done.stderr
    assert "to the bit" in done.stdout
