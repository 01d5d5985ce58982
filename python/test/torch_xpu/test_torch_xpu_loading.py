"""How the simulated device gets into torch, and what the user reads when it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import pytest

from python.test.counting import calls_of, watched
from triton_xe.errors import DeviceError
from triton_xe.runtime import checked_files, selection, torch_xpu
from triton_xe.runtime.torch_xpu import activation, compilation
from triton_xe.runtime.torch_xpu.autograd_threads import wait_until_idle

torch = pytest.importorskip("torch")

SIMULATED_BY_DEFAULT = pytest.mark.skipif(
    selection.decide("", selection.look(Path("/"))).kind != "sim",
    reason="on a machine with a GPU the simulator is used only when it is asked for")
NEEDS_COMPILER = r"needs a C\+\+ compiler once, and g\+\+, clang\+\+ and c\+\+ are all missing"


def output(script: str, **environment: str) -> str:
    """What `script` prints in a fresh Python, which must succeed."""
    inherited = {k: v for k, v in os.environ.items() if k != "TRITON_XE_DEVICE"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=inherited | environment,
        capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """torch as `autoload` finds it; the list receives what would be activated."""
    activated: list[object] = []
    monkeypatch.setattr(torch._C, "_has_xpu", False)
    monkeypatch.setattr(torch.xpu, "_lazy_init", torch.xpu._lazy_init)
    monkeypatch.setattr(activation, "activate", lambda *args: activated.append(args))
    return activated


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)


def compiler_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    compiler = folder / "failing-c++"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such header' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return compiler


# autoload ----------------------------------------------------------------------------------------


def test_autoload_can_be_turned_off() -> None:
    assert output("""
        import sys, torch
        assert not torch.xpu.is_available() and not torch._C._has_xpu
        assert not hasattr(torch._C, "_xpu_getDevice")
        assert not any(name.startswith("triton_xe") for name in sys.modules)
        """, TORCH_DEVICE_BACKEND_AUTOLOAD="0", TRITON_XE_DEVICE="sim") == ""


def test_autoload_leaves_a_real_xpu_build_alone(
    unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim")
    monkeypatch.setattr(torch._C, "_has_xpu", True)
    torch_xpu.autoload()
    assert unloaded == []


def test_autoload_loads_what_is_built(
    xpu: None, unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim:bmg,lnl")
    torch_xpu.autoload()
    [(chosen, path)] = unloaded
    assert chosen.targets == ("bmg", "lnl")
    assert path == compilation.library_path()


def test_bad_wish_is_a_warning(unloaded: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim:b60")
    why = r"TRITON_XE_DEVICE=sim:b60 names an unknown device 'b60'; did you mean bmg \(Arc B580\)"
    with pytest.warns(RuntimeWarning, match=why):
        torch_xpu.autoload()
    with pytest.raises(DeviceError, match=why):
        torch.xpu._lazy_init()


def test_a_gpu_is_asked_of_a_torch_without_xpu(
    unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "gpu")
    torch_xpu.autoload()
    assert unloaded == []
    with pytest.raises(DeviceError, match=r"TRITON_XE_DEVICE=gpu asks for it, but this torch \(.* "
                       "install torch's XPU build and run `triton-xe setup`, or simulate"):
        torch.xpu._lazy_init()


def test_the_first_use_says_why_there_is_no_device() -> None:
    """In a program: with a device that is none, and with a library that cannot be built."""
    program = """
        import warnings
        warnings.simplefilter("ignore")
        import torch
        try:
            torch.zeros(4, device="xpu")
        except RuntimeError as error:
            print(error)
        """
    assert "did you mean bmg (Arc B580)?" in output(program, TRITON_XE_DEVICE="sim:b580")
    assert "/dev/null/x" in output(
        program, TRITON_XE_CACHE="/dev/null/x", TRITON_XE_DEVICE="sim:bmg")


def test_no_compiler_is_a_warning_when_asked_for(
    empty_cache: Path, unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_compiler(monkeypatch)
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim")
    with pytest.warns(RuntimeWarning, match=NEEDS_COMPILER) as seen:
        torch_xpu.autoload()
    assert len(seen) == 1
    assert "\n" not in str(seen[0].message)


@SIMULATED_BY_DEFAULT
def test_no_compiler_is_silent_by_default(
    xpu: None, empty_cache: Path, unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_compiler(monkeypatch)
    monkeypatch.delenv("TRITON_XE_DEVICE", raising=False)
    monkeypatch.setattr(torch.xpu, "_lazy_init", torch.xpu._lazy_init)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_xpu.autoload()
    for _ in range(2):
        with pytest.raises(DeviceError, match=NEEDS_COMPILER) as error:
            torch.xpu._lazy_init()
        assert "\n" not in str(error.value)
        assert "install g++" in str(error.value)


def test_autoload_is_quick_when_there_is_nothing_to_do(
    unloaded: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "gpu")
    torch_xpu.autoload()
    assert calls_of(torch_xpu.autoload) < 1000


IMPORTED = set("""
    collector errors hardware hardware.target knobs locks runtime runtime.checked_files
    runtime.observers runtime.operator_traffic runtime.selection runtime.torch_xpu
    runtime.torch_xpu.activation runtime.torch_xpu.adjustments runtime.torch_xpu.autograd_threads
    runtime.torch_xpu.bindings runtime.torch_xpu.compilation runtime.torch_xpu.distributed
    runtime.torch_xpu.fakes runtime.torch_xpu.graphs runtime.torch_xpu.library
    runtime.torch_xpu.properties runtime.torch_xpu.tf32
    """.split())
"""Modules of this package that `import torch` may import: they decide its time."""


def test_importing_torch_does_little(xpu: None) -> None:
    """Count the functions that it calls instead of its time, and bound what it imports."""
    imported, calls = output("""
        import sys, torch
        from python.test.counting import calls_of
        from importlib.metadata import entry_points
        [plugin] = entry_points(group="torch.backends", name="triton_xe")
        before = set(sys.modules)
        calls = calls_of(lambda: plugin.load()())
        assert torch.xpu.is_available()
        print(*sorted(set(sys.modules) - before), sep=",")
        print(calls)
        """, TORCH_DEVICE_BACKEND_AUTOLOAD="0", TRITON_XE_DEVICE="sim").splitlines()
    assert set(imported.split(",")) <= {"triton_xe", *(f"triton_xe.{name}" for name in IMPORTED)}
    assert int(calls) < 15000


# building ----------------------------------------------------------------------------------------


def test_failing_compiler_is_one_sentence(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compiler_that_fails(empty_cache, monkeypatch)
    with pytest.raises(DeviceError) as error:
        compilation.build(quiet=True)
    assert str(error.value) == (
        f"the simulated xpu device cannot be built: {compiler} says: "
        "x.cpp:1: error: no such header")
    assert compilation.find() is None


def test_a_full_disk_is_one_sentence(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler_that_fails(empty_cache, monkeypatch)
    full = shutil._ntuple_diskusage(1 << 30, 1 << 30, 3 << 20)
    monkeypatch.setattr(compilation.shutil, "disk_usage", lambda folder: full)
    with pytest.raises(DeviceError, match=r"has 3 MiB left and 64 are needed; make room, or set "
                       "TRITON_XE_CACHE to another folder"):
        compilation.build(quiet=True)


def test_unwritable_cache_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("CXX", sys.executable)
    with pytest.raises(DeviceError, match="set TRITON_XE_CACHE to a folder that can be written"):
        compilation.build(quiet=True)


def test_missing_compiler_named_by_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DeviceError, match="CXX=no-such-compiler was not found"):
        compilation.find_compiler()


@pytest.mark.parametrize("damage", ["none", "cut", "bit", "record", "no record"])
def test_damaged_library_is_not_found(xpu: None, damage: str, empty_cache: Path) -> None:
    good = _library_of_this_process()
    copy = compilation.library_path()
    copy.parent.mkdir(parents=True)
    data, record = good.read_bytes(), good.with_suffix(".json").read_text()
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "bit":
        data = data[:-1] + bytes([data[-1] ^ 1])
    elif damage == "record":
        record = record[:10]
    copy.write_bytes(data)
    if damage != "no record":
        copy.with_suffix(".json").write_text(record)
    assert compilation.find() == (copy if damage == "none" else None)


@pytest.mark.parametrize("foreign", [
    "library written by all", "record written by all", "folder written by all",
    "library of another", "folder of another"])
def test_a_library_that_others_can_have_written_is_not_loaded(
    xpu: None, foreign: str, empty_cache: Path
) -> None:
    good, copy = _library_of_this_process(), compilation.library_path()
    copy.parent.mkdir(parents=True)
    for suffix in (".so", ".json"):
        copy.with_suffix(suffix).write_bytes(good.with_suffix(suffix).read_bytes())
    assert compilation.find() == copy
    what, _, how = foreign.partition(" ")
    path = {"library": copy, "record": copy.with_suffix(".json"), "folder": copy.parent}[what]
    if how == "of another":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(path, 12345, -1)
    else:
        path.chmod(0o777)
    assert compilation.find() is None
    if what == "folder":
        with pytest.raises(DeviceError, match=r"belongs to another user, or .* remove it, or set"):
            compilation.build(quiet=True)


def test_a_library_is_looked_through_once_until_it_changes(
    xpu: None, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, copy = _library_of_this_process(), compilation.library_path()
    copy.parent.mkdir(parents=True)
    for suffix in (".so", ".json"):
        copy.with_suffix(suffix).write_bytes(good.with_suffix(suffix).read_bytes())
    later = time.time() + 2 * checked_files.SETTLED_SECONDS
    monkeypatch.setattr(time, "time", lambda: later)  # all files are settled
    with watched(compilation.checked_library) as calls:
        assert [compilation.find() for _ in range(3)] == [copy] * 3
        assert len(calls) == 1
        copy.write_bytes(copy.read_bytes()[:-1])
        assert [compilation.find() for _ in range(2)] == [None] * 2
        assert len(calls) == 2


def _library_of_this_process() -> Path:
    library = activation.library()
    assert library is not None
    return Path(library.functions._name)


def test_key_covers_torch_and_sources() -> None:
    here = compilation.Torch(Path("/torch"), "2.13.0", 1)
    keys = {
        compilation.key(here),
        compilation.key(compilation.Torch(Path("/torch"), "2.13.1", 1)),
        compilation.key(compilation.Torch(Path("/torch"), "2.13.0", 0))}
    keys.add(compilation.key(here, compilation.Recipe("other", ())))
    assert len(keys) == 4


# Stands for the compiler: "building" writes a file, slowly, and says so.
FAKE_BUILD = """
import json, pathlib, time
from triton_xe.runtime.torch_xpu import compilation
compilation.installed_torch = lambda: compilation.Torch(pathlib.Path("/torch"), "2", 1)
compilation.find_compiler = lambda: "c++"
def make(path, compiler, torch, recipe):
    print("built", flush=True)
    time.sleep(0.5)
    path.parent.mkdir(parents=True)
    path.write_text("library")
    path.with_suffix(".json").write_text(json.dumps({"sha256": compilation.digest_of(b"library")}))
compilation.build_into = make
print(compilation.build().read_text())
"""


def test_only_one_of_two_processes_builds(tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_XE_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", FAKE_BUILD], env=environment, text=True,
                         stdout=subprocess.PIPE) for _ in range(2)]
    texts = [process.communicate(timeout=60)[0] for process in both]
    assert sorted(texts) == ["built\nlibrary\n", "library\n"]


# first use ---------------------------------------------------------------------------------------

FIRST_USE = """
import os, pathlib, shutil
from triton_xe.runtime.torch_xpu import compilation
def copy(path, compiler, torch, recipe):
    print("built", flush=True)
    path.parent.mkdir(parents=True)
    for suffix in (".so", ".json"):
        shutil.copy(pathlib.Path(os.environ["BUILT"]).with_suffix(suffix), path.with_suffix(suffix))
compilation.build_into = copy
compilation.find_compiler = lambda: "c++"
import torch
assert not torch.xpu.is_available()
"""


@SIMULATED_BY_DEFAULT
def test_first_use_builds(xpu: None, tmp_path: Path) -> None:
    text = output(FIRST_USE + textwrap.dedent("""
        assert torch.ones(2).sum().item() == 2.0
        x = torch.ones(2, device="xpu", requires_grad=True)
        assert torch.xpu.is_available()
        (x * 2).sum().backward()
        print(x.grad.tolist(), torch.xpu.device_count(), torch.accelerator.current_accelerator())
        """), TRITON_XE_CACHE=str(tmp_path), BUILT=str(_library_of_this_process()))
    assert text == "built\n[2.0, 2.0] 1 xpu"


def test_program_may_end_right_after_backward(xpu: None) -> None:
    assert output("""
        import sys, torch
        sys.setswitchinterval(1000)  # the main thread keeps the interpreter's lock to the end
        x = torch.ones(2, device="xpu", requires_grad=True)
        (x * 2).sum().backward()
        print(x.grad.tolist())
        """, TRITON_XE_DEVICE="sim:bmg") == "[2.0, 2.0]"


def test_autograd_threads_rest_after_backward(xpu: None) -> None:
    x = torch.ones(2, device="xpu", requires_grad=True)
    (x * 2).sum().backward()
    assert wait_until_idle()


@pytest.mark.rest
@SIMULATED_BY_DEFAULT
def test_first_use_may_be_late(xpu: None, tmp_path: Path) -> None:
    """After torch was asked for accelerators, ran a backward pass, and compiled for the CPU."""
    text = output(FIRST_USE + textwrap.dedent("""
        from torch.utils._triton import has_triton
        assert not torch.accelerator.is_available() and not has_triton()
        assert not torch.xpu.is_available(), "it is not built because a program asks"
        torch.ones(2, requires_grad=True).sum().backward()
        torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
        x = torch.ones(2, device="xpu", requires_grad=True)
        (x.sin() * 3).sum().backward()
        assert (x.grad.cpu() - 3 * torch.tensor(1.0).cos()).abs().max() < 1e-5
        print(torch.accelerator.current_accelerator(), has_triton())
        print(torch.compile(lambda x: x * 2)(x.detach()).tolist())
        """), TRITON_XE_CACHE=str(tmp_path), BUILT=str(_library_of_this_process()),
        TORCHINDUCTOR_COMPILE_THREADS="1")
    assert text == "built\nxpu True\n[2.0, 2.0]"


@pytest.mark.skipif(not torch.version.cuda, reason="needs a CUDA build of torch")
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_cuda_build_without_a_device_has_xpu_as_its_accelerator():
    x = torch.ones(3, device="xpu", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert torch.accelerator.current_accelerator().type == "xpu"
    doubled = torch.compile(lambda tensor: tensor * 2)(x.detach())
    assert doubled.tolist() == [2, 2, 2]
