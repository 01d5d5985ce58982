"""Software that knows nothing of this project, on the emulated GPU: results against numpy.

dpctl and oneDNN may be in another environment than the tests: `ONEDNN_PREFIX` names its folder.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triton_xe.tools import cli, intel

pytestmark = pytest.mark.intel_driver
HERE = Path(__file__).parent
ROOT = HERE.parents[3]
PREFIX = Path(os.environ.get("ONEDNN_PREFIX", sys.prefix))
PYTHON = str(PREFIX / "bin/python")
HAS_DNN = (PREFIX / "lib/libdnnl.so.3").exists()
HAS_DPCTL = bool([*PREFIX.glob("lib/python3*/site-packages/dpctl")])
HOME = intel.toolchain_root()
OPENCL = os.environ.get("OCL_ICD_VENDORS", "") or (
    HOME and (HOME / intel.LIBRARIES / "intel-opencl/libigdrcl.so").exists())
needs_dnn = pytest.mark.skipif(
    not HAS_DNN, reason="oneDNN is not installed: pip install 'triton-xe[onednn]'")
needs_dpctl = pytest.mark.skipif(
    not HAS_DPCTL, reason="dpctl, which makes SYCL queues, is not installed: "
    "pip install 'triton-xe[sycl]'")
needs_opencl = pytest.mark.skipif(
    not OPENCL, reason="OpenCL's driver, which also builds some of oneDNN's kernels, is not "
    "installed: triton-xe toolchain --opencl")
COPIES = """
import json, numpy as np, dpctl, dpctl.memory as memory
queue = dpctl.SyclQueue("level_zero:gpu", property=["in_order", "enable_profiling"])
kinds = memory.MemoryUSMShared, memory.MemoryUSMDevice, memory.MemoryUSMHost
values = np.random.default_rng(0).integers(0, 256, 100_003, dtype=np.uint8)
found = []
for source in kinds:
    for target in kinds:
        a, b = source(values.size, queue=queue), target(values.size, queue=queue)
        a.copy_from_host(values)
        event = queue.memcpy_async(b, a, values.size)
        event.wait()
        times = event.profiling_info_start, event.profiling_info_end
        found.append(bool((b.copy_to_host() == values).all()) and 0 < times[0] < times[1])
filled = memory.MemoryUSMDevice(1000, queue=queue)
queue.memset(filled, 7, 1000) if hasattr(queue, "memset") else filled.copy_from_host(
    np.full(1000, 7, np.uint8))
queue.wait()
found.append(bool((filled.copy_to_host() == 7).all()))
print(json.dumps([queue.sycl_device.max_compute_units, found]))
"""


def environment(**more):
    folders = [str(PREFIX / "lib"), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return {"LD_LIBRARY_PATH": ":".join(filter(None, folders)),
            "ONEAPI_DEVICE_SELECTOR": "level_zero:*", **more}


@needs_dpctl
@pytest.mark.parametrize(("device", "units"), [("bmg", 160), ("pvc", 448)])
def test_sycl_queues_copy_all_kinds_of_memory_and_time_it(emulate, device, units):
    done = emulate(PYTHON, "-c", COPIES, device=device, **environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [units, [True] * 10]


def run_onednn(emulate, device, words, **more):
    done = emulate(PYTHON, str(ROOT / "benchmarks/onednn_programs.py"), *words, device=device,
                   timeout=3000, **environment(**more))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (
        [each for each in lines if not each["right"]], done.stderr[-2000:])
    return lines, done


@needs_dnn
@needs_opencl
@pytest.mark.slow
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_onednns_kernels_give_the_numbers_of_numpy(emulate, device):
    lines, _ = run_onednn(emulate, device, ())
    assert len(lines) == 72


@needs_dnn
@needs_opencl
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_a_product_split_along_k_ends_and_is_timed(emulate, device):
    """Its threads wait for each other's parts in memory; oneDNN reads each kernel's time."""
    lines, done = run_onednn(emulate, device, ["8x512x1024"], ONEDNN_VERBOSE="profile_exec")
    assert len(lines) == 1
    times = [float(line.rsplit(",", 1)[1]) for line in done.stdout.splitlines()
             if line.startswith("onednn_verbose") and ",exec,gpu," in line]
    assert len(times) == 1
    assert 0 < times[0] < lines[0]["seconds"] * 1e3 + 10


PROGRAM = """
import ctypes, json, sys
import numpy as np
cl = ctypes.CDLL("libOpenCL.so.1")
for name in "Context CommandQueue ProgramWithSource ProgramWithBinary Buffer Kernel".split():
    name = "Create" + name
    getattr(cl, "cl" + name).restype = ctypes.c_void_p
P, U, Z = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
status, platform, device, found = ctypes.c_int(), P(), P(), U()
def check(code): assert code == 0, code
check(cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(found)))
check(cl.clGetDeviceIDs(platform, ctypes.c_ulong(4), 1, ctypes.byref(device), ctypes.byref(found)))
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(status)))
queue = P(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(status)))
text = open(sys.argv[1], "rb").read()
source, size = ctypes.c_char_p(text), Z(len(text))
if sys.argv[1].endswith(".cl"):
    program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), ctypes.byref(size),
                                             ctypes.byref(status)))
else:
    program = P(cl.clCreateProgramWithBinary(context, 1, ctypes.byref(device), ctypes.byref(size),
                                             ctypes.byref(source), None, ctypes.byref(status)))
check(status.value)
check(cl.clBuildProgram(program, 1, ctypes.byref(device), b"-cl-std=CL3.0", None, None))
def run(name, arrays, items, group, *numbers):
    kernel = P(cl.clCreateKernel(program, name.encode(), ctypes.byref(status)))
    check(status.value)
    buffers = [P(cl.clCreateBuffer(context, ctypes.c_ulong(1 | 32), Z(a.nbytes), P(a.ctypes.data),
                                   ctypes.byref(status))) for a in arrays]
    for i, b in enumerate(buffers):
        check(cl.clSetKernelArg(kernel, U(i), Z(8), ctypes.byref(b)))
    for i, n in enumerate(numbers):
        check(cl.clSetKernelArg(kernel, U(len(buffers) + i), Z(4), ctypes.byref(ctypes.c_int(n))))
    check(cl.clEnqueueNDRangeKernel(queue, kernel, U(len(items)), None, (Z * 3)(*items),
                                    (Z * 3)(*group), 0, None, None))
    for b, a in zip(buffers, arrays):
        check(cl.clEnqueueReadBuffer(queue, b, 1, Z(0), Z(a.nbytes), P(a.ctypes.data), 0, None,
                                     None))
r = np.random.default_rng(0)
right = {}
a, b, c = r.standard_normal((70, 50), np.float32), r.standard_normal((50, 90), np.float32), None
c = np.zeros((70, 90), np.float32)
run("product", [a, b, c], (96, 80, 1), (16, 8, 1), 70, 90, 50)
right["product"] = bool(np.abs(c - a.astype(np.float64) @ b).max() < 1e-4)
x, total = r.integers(-1000, 1000, 5000).astype(np.int32), np.zeros(64, np.int32)
run("histogram", [x, total], (5120, 1, 1), (64, 1, 1), 5000)
right["histogram"] = bool((total == np.bincount(x & 63, minlength=64)).all())
x, y = r.standard_normal(1024).astype(np.float32), np.zeros(16, np.float32)
run("group_sums", [x, y], (1024, 1, 1), (64, 1, 1))
right["group_sums"] = bool(np.allclose(y, x.reshape(16, 64).sum(1), atol=1e-4))
x = r.integers(0, 2**32, 256, dtype=np.uint32); y = np.zeros((5, 256), np.uint32)
run("integers", [x, y], (256, 1, 1), (32, 1, 1))
wide = x.astype(object)
want = [[int(v) // 7 for v in wide], [int(v) % 1000 for v in wide],
        [bin(int(v)).count("1") for v in wide], [(int(v) * int(v) >> 32) for v in wide],
        [(int(v) << 7 | int(v) >> 25) & 0xffffffff for v in wide]]
right["integers"] = y.tolist() == want
x = r.standard_normal(512).astype(np.float32) * 3; y = np.zeros((4, 512), np.float32)
run("functions", [x, y], (512, 1, 1), (64, 1, 1))
v = x.astype(np.float64)
want = np.stack([np.exp(v), np.sin(v), np.sqrt(np.abs(v)), np.where(v > 0, v, v * 0.1)])
right["functions"] = bool(np.allclose(y, want, rtol=1e-5, atol=1e-6))
x = r.integers(0, 100, 777).astype(np.int32); y = np.zeros(777, np.int32)
run("collatz", [x, y], (832, 1, 1), (64, 1, 1), 777)
def steps(n):
    count = 0
    while n > 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count
right["collatz"] = y.tolist() == [steps(int(n)) for n in x]
print(json.dumps(right))
"""


@needs_opencl
@pytest.mark.parametrize("compiler", ["driver", "ocloc"])
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_opencl_compiles_and_runs_kernels(emulate, device, compiler, tmp_path):
    """OpenCL C, compiled in the program by the driver, or ahead of time by `ocloc`."""
    (tmp_path / "program.py").write_text(PROGRAM)
    kernels = HERE / "kernels.cl"
    if compiler == "ocloc":
        kernels = tmp_path / "kernels.bin"
        subprocess.run(
            [*intel.ocloc_command(), "compile", "-file", str(HERE / "kernels.cl"), "-device",
             device, "-options", "-cl-std=CL3.0", "-o", str(kernels)], check=True,
            capture_output=True, cwd=tmp_path)
    done = emulate(sys.executable, str(tmp_path / "program.py"), str(kernels), device=device)
    assert done.returncode == 0, done.stderr
    right = json.loads(done.stdout.splitlines()[-1])
    assert right == dict.fromkeys(right, True)
    assert len(right) == 6


def test_a_program_in_c_launches_a_folder(emulate, tmp_path):
    """A folder from `triton-xe compile`, loaded by C through its header; numbers come back."""
    if not shutil.which("cc") or (reason := intel.available()):
        pytest.skip("no C compiler" if not shutil.which("cc") else reason)
    assert cli.main([
        "compile", f"{ROOT / 'examples/vector_add.py'}::add_kernel", "--signature",
        "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024", "--target", "bmg",
        "--out", str(tmp_path)]) == 0
    (tmp_path / "level_zero").mkdir()
    shutil.copy(ROOT / "third_party/level_zero/include/ze_api.h", tmp_path / "level_zero")
    shutil.copy(HERE / "launch_folder.c", tmp_path)
    home = intel.toolchain_root()
    loader = f"{home / intel.LIBRARIES}/libze_loader.so.1" if home else "-l:libze_loader.so.1"
    subprocess.run(
        ["cc", "-Wall", f"-I{tmp_path}", "-o", tmp_path / "main", tmp_path / "launch_folder.c",
         loader, "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True)
    (binary,) = tmp_path.glob("add_kernel.[sz]*")
    done = emulate(str(tmp_path / "main"), str(binary))
    assert (done.returncode, done.stdout) == (0, "3000 of 3000 sums are right\n"), done.stderr


def test_the_page_is_right(emulate, tmp_path, monkeypatch):
    """The commands of docs/emulator.md: a folder on arrays of numpy, and the line at the end."""
    page = (ROOT / "docs/emulator.md").read_text()
    compiling, running = page.split("```sh\n")[2].splitlines()[:2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert cli.main(shlex.split(compiling)[1:]) == 0
    words = shlex.split(running.removeprefix("triton-xe emulate -- python "))
    done = emulate(sys.executable, *words)
    assert done.returncode == 0, done.stderr
    assert "largest error 0.0" in done.stdout
    said = page.split("```text\n")[1].splitlines()[0]
    assert re.sub(r"\d+", "#", done.stderr.splitlines()[-1]) == re.sub(r"\d+", "#", said)
