"""`triton-xe emulate`: real programs on Intel's unmodified driver, with right numbers."""

import json
import re
import subprocess
import sys

import pytest

from triton_xe import knobs
from triton_xe.hardware.target import TARGETS, target
from triton_xe.tools import cli, intel

pytestmark = pytest.mark.intel_driver
ADD = """
import numpy as np
from triton_xe.runtime.opening import open_device, get, put, time_ms
from triton_xe.tools import sample_kernel
device = open_device("gpu")
kernel = device.load(sample_kernel.to_spirv(sample_kernel.vector_add(device.target.subgroup_size)),
                     "vector_add")
a = np.arange(1024, dtype=np.float32)
def add(kind):
    blocks = [device.allocate(a.nbytes, kind=kind) for _ in range(3)]
    for block, values in zip(blocks, (a, a * 0.5, a * 0 - 7)):
        device.copy_to_device(block.pointer, values)
    device.launch(kernel, (16, 1, 1), [*(b.pointer for b in blocks), 1000])
    device.synchronize()
    got = np.zeros_like(a)
    device.copy_to_host(got, blocks[2].pointer)
    return bool((got == np.where(a < 1000, a * 1.5, -7)).all())
"""
SUMMARY = re.compile(r"emulated (\S+) \(.+\): (\d+) kernels, (\d+) launches, (\d+) instructions")


def last_line(done: subprocess.CompletedProcess[str]):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [
    "bmg", "lnl", "ptl", "pvc", "dg2", "mtl", "arl-h", "nvl-p", "cri"])
def test_a_kernel_runs_and_the_driver_says_what_the_table_says(emulate, name):
    done = emulate(sys.executable, "-c", ADD + """
import json
t, p = device.target, device.physical
print(json.dumps([[add(kind) for kind in ("device", "shared", "host")], t.name, t.xe_cores,
                  t.eus_per_core, t.max_slm_bytes, t.slices, list(p.ip_version), p.device_id,
                  p.is_integrated, device.allocate(64).pointer]))
""", device=name)
    row = target(name)
    *facts, pointer = last_line(done)
    assert (pointer >> 48 & 0x1FF == 0x100) == (row.address_bits == 57)
    assert facts == [
        [True] * 3, name, row.xe_cores, row.eus_per_core, row.max_slm_bytes, row.slices,
        [*row.ip_version, row.stepping], row.device_id, row.is_integrated]
    found = SUMMARY.search(done.stderr)
    assert found[1] == name
    assert min(map(int, found.groups()[1:])) > 0


def test_programs_that_a_program_starts_have_the_gpu_too(emulate):
    """A script, a shell, and a second process at the same time."""
    inner = ADD + "print(json.dumps([add('device'), sys.executable]))"
    done = emulate("/bin/sh", "-c", 'exec "$0" -c "$1"', sys.executable, ADD + f"""
import json, subprocess, sys
first = [add("device"), sys.executable]
done = subprocess.run([sys.executable, "-c", {("import json, sys" + inner)!r}], check=True,
                      capture_output=True, text=True)
print(json.dumps([first, json.loads(done.stdout), add("shared")]))
""")
    expected = [True, sys.executable]
    assert last_line(done) == [expected, expected, True]


def test_events_measure_time(emulate):
    """Timestamps of kernels and copies: in order, and as long as the host's clock says."""
    done = emulate(sys.executable, "-c", ADD + """
import json, time
block = put(device, np.zeros(1 << 16, np.float32))
def launch():
    device.launch(kernel, (1024, 1, 1), [block.pointer] * 3 + [1 << 16])
launch(); device.synchronize()
start = time.perf_counter()
first = device.record_event(); launch(); last = device.record_event()
elapsed = device.elapsed_ms(first, last)
print(json.dumps([0 < elapsed <= (time.perf_counter() - start) * 1e3]))
""")
    assert last_line(done) == [True]


def test_a_wild_access_ends_the_program_with_a_sentence(emulate):
    done = emulate(sys.executable, "-c", ADD + """
block = device.allocate(a.nbytes)
wild = 0x7000_0000_0000
device.check_pointer = lambda *_: None
from triton_xe.runtime.level_zero import launcher
import ctypes
from triton_xe.runtime.level_zero import raw
call = raw.api().call
value = ctypes.c_uint64(wild)
device.launch(kernel, (1, 1, 1), [block.pointer] * 3 + [5])
device.synchronize()
for index in range(3):
    call("zeKernelSetArgumentValue", kernel.ze_kernel.handle, index, 8, ctypes.byref(value))
groups = raw.ze_group_count_t(1, 1, 1)
call("zeCommandListAppendLaunchKernel", device.list.handle, kernel.ze_kernel.handle,
     ctypes.byref(groups), None, 0, None)
device.synchronize()
print("went on")
""")
    assert done.returncode == 70
    assert "went on" not in done.stdout
    sentence = done.stderr.splitlines()[-2]
    assert sentence.startswith("triton-xe emulate: ")
    assert "0x700000000000" in sentence


@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_a_register_that_nothing_wrote_ends_the_program(emulate, device):
    """Native code with another register in its addition, as if the compiler had lost a value."""
    done = emulate(sys.executable, "-c", ADD + """
import re
from triton_xe.runtime.emulator import Program, iga
spirv = sample_kernel.to_spirv(sample_kernel.vector_add(device.target.subgroup_size))
made = device.native_code(spirv, "vector_add")
program = Program.from_zebin(device.target.name, made.binary, "vector_add")
text = iga.disassemble(program.device, program.code)
lost = re.sub(r"(\\badd \\(\\d+\\|M0\\) +r\\d+\\.0<1>:f +)r\\d+", r"\\1r120", text, count=1)
code = iga.assemble(program.device, lost)
binary = made.binary.replace(program.code[: len(code)], code)
print(add("device"), binary != made.binary)
kernel = device.load_native(binary, made.entry)
add("device")
print("went on")
""", device=device)
    assert done.returncode == 70
    assert done.stdout == "True True\n"
    assert "reads r120, which nothing wrote: add at 0x" in done.stderr.splitlines()[-2]


def test_the_exit_code_is_the_programs(emulate):
    assert emulate("/bin/sh", "-c", "exit 7").returncode == 7
    assert emulate("/bin/sh", "-c", "kill -9 $$").returncode == 137


def test_what_is_missing_is_one_sentence(capsys, monkeypatch, tmp_path):
    if not intel.on_system("libze_loader.so.1"):
        with monkeypatch.context() as patch:
            patch.setenv("TRITON_XE_TOOLCHAIN", str(tmp_path))
            assert cli.main(["emulate", "--", "true"]) == 1
        assert "run `triton-xe toolchain`" in capsys.readouterr().err
    assert cli.main(["emulate"]) == 1
    assert "name a program to run" in capsys.readouterr().err
    assert cli.main(["emulate", "--device", "b580", "--", "true"]) == 1
    assert "did you mean bmg" in capsys.readouterr().err


def test_every_target_has_an_identity():
    assert all(row.device_id for row in TARGETS.values())
    assert knobs.emulated() is False
