"""What a launch was given is in its folder, whatever that was, and gives the same bits again."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.runtime import load_folder, put
from triton_xe.runtime.level_zero.errors import QueueRecordingError
from triton_xe.runtime.recording import folder, recorder
from triton_xe.runtime.recording.recorder import Filter

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")


def filled(*shape: int, dtype: Any = torch.float32) -> Any:
    """Numbers on the device."""
    torch.manual_seed(len(shape))
    return torch.randn(*shape).to(dtype).to("xpu")


def add_kernel() -> Any:
    """A kernel that no other test has launched."""

    @triton.jit
    def added(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

    return added


def test_overlapping_views_share_one_block(records: Any) -> None:
    x, out = filled(1000), torch.zeros(2000, device="xpu")
    add_kernel()[(8,)](x[3:], x[500:], out[100:], 500, BLOCK=128)
    (made,) = records.same()
    a, b, c, n = made.arguments
    assert [block.nbytes for block in made.blocks] == [4000, 8000]
    assert (a.block, b.block, c.block, n.value) == (0, 0, 1, 500)
    assert (b.value - a.value, a.view.shape, b.view.shape) == (4 * 497, (997,), (500,))
    assert (a.name, a.triton, c.view.dtype, c.view.steps) == ("x", "*fp32", "float32", (4,))
    assert (made.grid, made.changed) == ((8, 1, 1), (1,))
    assert made.program.metadata["num_warps"] == 4
    assert made.versions["triton"] == triton.__version__
    (path,) = folder.recordings(records.path)
    assert "def added(x, y, out, n" in (path / "kernel.py").read_text()
    assert (path / "module.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"


@triton.jit
def strided(x, out, rows, columns, step, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    tl.store(out + i * columns + j, tl.load(x + i * step + j * 2, inside), inside)


def test_a_view_with_strides(records: Any) -> None:
    whole = filled(40, 64)
    strided[(1,)](whole[5:30, 3:60:2], torch.zeros(25, 29, device="xpu"), 25, 29, 64, R=32, C=32)
    (made,) = records.same()
    assert made.arguments[0].view == folder.View("float32", (25, 29), (256, 8), 4)


@triton.jit
def copy_block(d, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, d.load([8, 16]))


def test_a_tensor_descriptor(records: Any) -> None:
    x = filled(32, 64, dtype=torch.float16)
    descriptor = TensorDescriptor(x, [32, 64], [64, 1], [16, 32])
    copy_block[(1,)](descriptor, torch.zeros(16, 32, dtype=torch.float16, device="xpu"), M=16, N=32)
    (made,) = records.same()
    assert [each.name for each in made.arguments[:3]] == ["d.base", "d.shape[0]", "d.shape[1]"]
    assert made.arguments[-1].name == "out"


@triton.jit
def maybe(x, y, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    if n > 5:
        tl.store(out + at, value)
    else:
        tl.store(out + at, value + tl.load(y + at))


def test_null_pointers_and_empty_tensors(records: Any) -> None:
    empty = torch.empty(0, device="xpu")
    maybe[(1,)](filled(16), empty, torch.zeros(16, device="xpu"), 16, B=16)
    maybe[(1,)](filled(16), filled(16)[16:], torch.zeros(16, device="xpu"), 16, B=16)
    maybe[(0,)](filled(16), empty, filled(16), 16, B=16)
    first, second = records.same()
    assert (first.arguments[1].value, first.arguments[1].block) == (0, None)
    assert second.number == 2


@triton.jit
def constants(out, scale, limit, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.where(at < limit, scale, 1.0))


@triton.jit
def nothing(n):
    pass


def test_numbers_of_all_kinds_and_no_memory_at_all(records: Any) -> None:
    for scale in (float("nan"), float("-inf"), 1.5):
        constants[(1,)](torch.zeros(16, device="xpu"), scale, -(2**62), B=16)
        constants[(1,)](torch.zeros(16, device="xpu"), scale, 2**40, B=16)
    nothing[(3,)](7)
    made = records.same()
    assert [each.arguments[2].value for each in made[:2]] == [-(2**62), 2**40]
    assert (made[-1].blocks, made[-1].changed) == ((), ())


@triton.jit
def meeting(counter, out, PROGRAMS: tl.constexpr):
    tl.atomic_add(counter, 1)
    while tl.atomic_add(counter, 0) < PROGRAMS:
        pass
    tl.store(out + tl.program_id(0), tl.atomic_add(counter, 0))


def test_a_grid_that_is_held_at_once(records: Any) -> None:
    counts = [torch.zeros(n, dtype=torch.int32, device="xpu") for n in (1, 8)]
    meeting[(8,)](*counts, PROGRAMS=8, launch_cooperative_grid=True)
    (made,) = records.same()
    assert made.cooperative
    assert counts[1].tolist() == [8] * 8


@triton.jit
def says(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    tl.device_print("value", value)
    tl.store(out + at, value)


def test_what_a_kernel_prints_comes_again(records: Any, capfd: Any) -> None:
    says[(1,)](torch.arange(16.0, device="xpu")[4:], torch.zeros(16, device="xpu"), B=4)
    first = capfd.readouterr().out
    assert "value: 7.000000" in first
    records.same()
    assert first in "".join(capfd.readouterr())


@triton.jit
def small(a, b, c, out, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.load(a + at).to(tl.float32) + tl.load(b + at).to(tl.float32)
    tl.store(out + at, (total + tl.load(c + at).to(tl.float32)).to(tl.bfloat16))


def test_small_floats(records: Any) -> None:
    kinds = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
    small[(1,)](*(filled(64, dtype=kind) for kind in kinds),
                torch.zeros(64, dtype=torch.bfloat16, device="xpu"), B=64)
    (made,) = records.same()
    assert [each.view.dtype for each in made.arguments] == [
        "bfloat16", "float8_e4m3fn", "float8_e5m2", "bfloat16"]


@triton.jit
def through_table(table, out, B: tl.constexpr):
    at = tl.arange(0, B)
    source = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * B + at, tl.load(source + at))


@triton.jit
def through_number(address, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(address.to(tl.pointer_type(tl.float32)) + at))


def test_addresses_in_memory_and_in_integers(records: Any) -> None:
    """Memory is elsewhere in a replay, and pointers to it that are data move with it."""
    parts = [filled(32) * n for n in range(1, 4)]
    table = torch.tensor([-1, *(each.data_ptr() for each in parts), 5], device="xpu")
    through_table[(3,)](table[1:], torch.zeros(96, device="xpu"), B=32)
    through_number[(1,)](parts[2][4:].data_ptr(), torch.zeros(16, device="xpu"), B=16)
    first, second = records.same()
    (words,) = first.tables
    assert (words.offsets, len(first.blocks)) == ((8, 16, 24), 5)
    assert second.blocks[second.arguments[0].block].nbytes == 128


def test_numbers_that_are_no_addresses_stay(records: Any) -> None:
    @triton.jit
    def doubled(x, out, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(out + at, tl.load(x + at) * 2)

    random = torch.randint(-(2**62), 2**62, (512,))
    doubled[(1,)](random.to("xpu"), torch.zeros(512, dtype=torch.int64, device="xpu"), B=512)
    (made,) = records.same()
    assert (made.tables, len(made.blocks)) == ((), 2)


@triton.jit
def product(a, b, c, M, N, K, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        x = tl.load(a + i[:, None] * K + k[None, :], (i[:, None] < M) & (k[None, :] < K), 0.0)
        y = tl.load(b + k[:, None] * N + j[None, :], (k[:, None] < K) & (j[None, :] < N), 0.0)
        total += tl.dot(x, y)
    tl.store(c + i[:, None] * N + j[None, :], total, (i[:, None] < M) & (j[None, :] < N))


def test_the_version_that_a_launch_took_is_taken_again(records: Any) -> None:
    for m, n, k in ((64, 64, 64), (50, 60, 40), (50, 60, 41)):
        a, b = filled(m, k, dtype=torch.float16), filled(k, n, dtype=torch.float16)
        product[(1,)](a, b, torch.zeros(m, n, device="xpu"), m, n, k, B=32)
    usual, pitch, odd = records.same()
    assert usual.failing == ""
    assert "pitch" in pitch.failing
    assert odd.failing
    modules = [(path / "general.spv").exists() for path in folder.recordings(records.path)]
    assert modules == [False, True, True]
    (records.path / "000002-product/launch.json").write_text(
        replace(pitch, failing="").to_json())
    code, said = records.replay()
    assert (code, [bool(each["error"]) for each in said]) == (1, [False, True, False])
    assert "and this one would run the general version, as it does not hold" in said[1]["error"]


def test_autotuning_records_launches_that_ran(records: Any) -> None:
    @triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
    @triton.jit
    def tuned(x, out, n, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at, at < n) * 2, at < n)

    x = filled(1000)
    tuned[lambda meta: (triton.cdiv(1000, meta["B"]),)](x, torch.zeros_like(x), 1000)
    assert records.same()[-1].program.kernel == "tuned"


def test_numpy_records_what_a_view_is_a_view_of(records: Any) -> None:
    x, out = np.arange(100, dtype=np.float32), np.zeros(40, np.float32)
    add_kernel()[(1,)](x[10:60], x[60:], out, 40, BLOCK=64)
    (made,) = records.same()
    first = made.arguments[0]
    assert made.blocks[first.block].nbytes == 400
    assert first.extent == (first.value, first.value + 200)


@pytest.mark.rest
def test_a_kernel_inside_of_torch_compile(records: Any) -> None:
    x = filled(64, 100)
    torch.compile(lambda x: torch.nn.functional.softmax(x * 2 + 1, -1))(x)
    assert "softmax" in records.same()[-1].program.kernel


def test_folders_compiled_ahead_of_time(records: Any, tmp_path: Path) -> None:
    from triton_xe.tools import cli

    signature = "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=256"
    assert cli.main(["compile", "examples/vector_add.py::add_kernel", "--out",
                     str(tmp_path / "aot"), "--signature", signature]) == 0
    kernel = load_folder(tmp_path / "aot", "sim:bmg")
    x = np.arange(1000, dtype=np.float32)
    buffers = [put(kernel.device, array) for array in (x, x, np.zeros_like(x))]
    kernel((4,), *buffers, 1000)
    (made,) = records.same()
    assert [each.name for each in made.arguments] == ["a_ptr", "b_ptr", "c_ptr", "n"]
    assert (made.program.kind, made.changed) == ("spirv", (2,))
    kernel((4,), *buffers, 1001)
    code, said = records.replay("--sanitize")
    assert code == 1
    assert "argument 'a_ptr': pointer to float32, element offset 1000" in str(said[1])


def test_launches_are_chosen_by_name_and_number(records: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITON_XE_RECORD_FILTER", "add*:2, other")
    kernel, x = add_kernel(), filled(128)
    for n in (17, 18, 19):
        kernel[(1,)](x, x, torch.zeros(128, device="xpu"), n, BLOCK=128)
    (made,) = records.same()
    assert (made.number, made.arguments[3].value) == (2, 18)
    with pytest.raises(DeviceError, match="a launch is a number from 1 on, not '0'"):
        Filter.read("add:0")


def test_a_limit_and_a_full_disk_do_not_stop_the_program(
    records: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TRITON_XE_RECORD_LIMIT", "2000")
    kernel, x, out = add_kernel(), filled(128), torch.zeros(128, device="xpu")
    kernel[(1,)](x, x, out, 128, BLOCK=128)
    with pytest.warns(RuntimeWarning, match=r"launch 2 of kernel 'added' is not recorded: its 1536"
                                            r".*TRITON_XE_RECORD_LIMIT=2000; name the launch"):
        kernel[(1,)](x, x + 1, out, 128, BLOCK=128)
    assert torch.equal(out, x + (x + 1))

    monkeypatch.setenv("TRITON_XE_RECORD_LIMIT", "1000000")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # LLVM's handler would also remove the simulator's handler of wild accesses
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, most[1]))
    try:
        with pytest.warns(RuntimeWarning, match="File too large"):
            kernel[(1,)](x, x, out, 128, BLOCK=128)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert torch.equal(out, x + x)
    assert len(folder.recordings(records.path)) == 1


class Capturing:
    """A GPU whose queue is recorded into a graph."""

    is_dry = is_simulated = False

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def wait_for(self, stream: int) -> None:
        raise QueueRecordingError(f"stream {stream} is recorded into a graph")

    def launch(self, kernel: Any, grid: Any, values: Any, **how: Any) -> None:
        self.launches.append((grid, values, how))


def test_what_a_graph_captures_is_launched_and_not_recorded(records: Any) -> None:
    device = Capturing()
    made = recorder.recorder(lambda _: pytest.fail("nothing is to be recorded"), "k", ("i32",))
    with pytest.warns(RuntimeWarning, match="launch 1 of kernel 'k' is not recorded: stream 7"):
        made.launch(recorder.Loaded(device, None, b""), ("n",), (1, 1, 1), (5,), stream=7)
    assert device.launches == [((1, 1, 1), (5,), {"stream": 7, "tensors": ((), ())})]
    assert not records.path.exists()


def test_random_memory_is_stored_and_other_memory_compressed(records: Any) -> None:
    x = torch.rand(1 << 16, device="xpu").view(torch.int32) * 7919
    add_kernel()[(1,)](x, torch.zeros_like(x), torch.zeros_like(x), 64, BLOCK=64)
    (path,) = folder.recordings(records.path)
    with zipfile.ZipFile(path / "before.zip") as archive:
        methods = {each.compress_type for each in archive.infolist()}
        assert methods == {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    records.same()


ALONE = """
import sys
for name in ("torch", "triton"):
    sys.modules[name] = None
from triton_xe.tools.cli import main
code = main(["replay", sys.argv[1], "--compare", "--repeat", "2"])
sys.exit(code)
"""


def test_a_replay_needs_neither_torch_nor_triton(records: Any) -> None:
    x = filled(50, 41, dtype=torch.float16)
    product[(1,)](x, filled(41, 60, dtype=torch.float16), torch.zeros(50, 60, device="xpu"),
                  50, 60, 41, B=32)
    done = subprocess.run([sys.executable, "-c", ALONE, str(records.path)], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the general version, as it does not hold that" in done.stdout
    assert done.stdout.endswith("the same as after the recorded launch, to the bit\n")


def test_inductor_launches_through_triton_while_recording(monkeypatch: Any) -> None:
    name = "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TRITON_XE_RECORD", raising=False)
    knobs.record_torch_too()
    assert name not in knobs.process_environment()
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRITON_XE_RECORD", "somewhere")
    knobs.record_torch_too()
    assert knobs.process_environment()[name] == "1"
    monkeypatch.delenv(name)
    knobs.record_torch_too()
    assert knobs.process_environment()[name] == "0"
    monkeypatch.setenv(name, "0")


def test_without_the_variable_nothing_is_there() -> None:
    """A launch is the same code, and no module of the recorder is loaded."""
    code = ("import triton_xe.backend.launcher as l, sys; l.make_launch('k', ('n',), ('i32',));"
            "print([m for m in sys.modules if 'recording' in m])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@triton.jit
def accumulated(x, sums, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(sums + at, tl.load(sums + at) + tl.load(x + at))


def test_each_replay_of_a_graph_is_a_launch(records: Any) -> None:
    x, sums = filled(64), torch.zeros(64, device="xpu")
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        accumulated[(2,)](x, sums, 32)
        sums *= 2
    before = len(folder.recordings(records.path))
    graph.replay()
    sums.zero_()
    graph.replay()
    made = records.same()
    assert [each.number for each in made] == list(range(1, before + 3))
    assert [each.name for each in made[-1].arguments] == ["x", "sums"]
    assert torch.equal(sums.cpu(), 2 * x.cpu())


def test_a_kernel_that_is_known_by_its_module_alone(records: Any) -> None:
    from triton_xe.backend.compiler import attach_needs
    from triton_xe.runtime.torch_xpu.cpp import Kernel

    x, sums = filled(64), torch.zeros(64, device="xpu")
    made = accumulated.warmup(x, sums, 32, grid=(1,))
    facts = {"global_scratch_size": 0, "profile_scratch_size": 0, "debug_sites": ()}
    module = attach_needs(made.asm["spv"], facts, made.asm["ttgir"])
    Kernel(module, "accumulated", 0).launch((2, 1, 1), [x.data_ptr(), sums.data_ptr()], 0)
    (recorded,) = records.same()
    assert [(each.name, each.triton) for each in recorded.arguments] == [
        ("x", "*fp32"), ("sums", "*fp32")]
    assert recorded.changed == (1,)
    assert torch.equal(sums.cpu(), x.cpu())
    (path,) = folder.recordings(records.path)
    assert "tt.func public @accumulated" in (path / "kernel.py").read_text()
