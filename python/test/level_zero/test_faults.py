"""When the driver, the device or the cache folder fails: a clear error, nothing lost."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from triton.runtime.errors import OutOfResources

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import LARGE, RegisterFile
from triton_xe.runtime.level_zero import native_cache, raw
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.level_zero.errors import LevelZeroError
from triton_xe.runtime.level_zero.native_cache import NativeEntry
from triton_xe.tools.sample_kernel import to_spirv, vector_add

DEVICE_LOST, OUT_OF_MEMORY, BUILD_FAILURE = 0x70000001, 0x70000003, 0x70000004
UNINITIALIZED, BAD_BINARY = 0x78000001, 0x7800000F
SPIRV = to_spirv(vector_add())
LARGE_GRF_FLAG = RegisterFile(LARGE).flag


def test_loader_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_LEVEL_ZERO", "/nowhere/libze_loader.so.1")
    with pytest.raises(DeviceError, match=r"/nowhere/libze_loader.so.1 cannot be loaded.*install"):
        open_devices()


def test_loader_too_old_for_zeinitdrivers_uses_the_old_way(fake: Any) -> None:
    fake.missing.add("zeInitDrivers")
    assert [device.name for device in open_devices()] == ["Fake B580"]
    assert "zeInit" in fake.calls


def test_loader_too_old_for_a_needed_function(fake: Any) -> None:
    fake.missing.add("zeCommandListCreateImmediate")
    with pytest.raises(DeviceError, match="has no zeCommandListCreateImmediate: too old"):
        open_devices()


@pytest.mark.parametrize("missing", [(), ("zeInitDrivers",)])
def test_no_driver_is_no_device(fake: Any, missing: tuple[str, ...]) -> None:
    fake.missing.update(missing)
    fake.codes.update(zeInitDrivers=UNINITIALIZED, zeInit=UNINITIALIZED)
    assert open_devices() == []


def test_devices_of_others_are_left_alone(fake: Any) -> None:
    def properties(handle: Any, found: Any) -> None:
        type(fake).zeDeviceGetProperties(fake, handle, found)
        found[0].vendorId = 0x10DE

    fake.zeDeviceGetProperties = properties
    assert open_devices() == []


def test_load_and_launch_on_the_fake(fake: Any) -> None:
    (device,) = open_devices()
    kernel = device.load(SPIRV, "vector_add")
    memory = device.allocate(64)
    device.launch(kernel, (4, 1, 1), (memory.pointer, None, memory.pointer, 7))
    assert fake.launches == [(4, 1, 1)]
    assert (kernel.n_registers, kernel.n_spills, kernel.max_threads) == (128, 0, 1024)


def test_out_of_memory_names_size_and_device(fake: Any) -> None:
    (device,) = open_devices()
    fake.codes["zeMemAllocDevice"] = OUT_OF_MEMORY
    with pytest.raises(LevelZeroError, match="cannot allocate 4096 bytes on Fake B580") as caught:
        device.allocate(4096)
    assert caught.value.is_out_of_memory
    assert "not enough device memory (ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY" in str(caught.value)


@pytest.mark.parametrize("call", ["zeCommandListAppendLaunchKernel", "zeKernelSetArgumentValue"])
def test_device_lost_at_launch_and_afterwards(fake: Any, call: str) -> None:
    (device,) = open_devices()
    kernel, memory = device.load(SPIRV, "vector_add"), device.allocate(64)
    fake.codes[call] = fake.codes["zeCommandListHostSynchronize"] = DEVICE_LOST
    p = memory.pointer
    with pytest.raises(LevelZeroError, match="cannot launch kernel 'vector_add'") as caught:
        device.launch(kernel, (4, 1, 1), (p, p, p, 7))
    assert caught.value.is_device_lost
    with pytest.raises(LevelZeroError, match="ListHostSynchronize failed: the device hung"):
        device.synchronize()
    memory.free()
    assert fake.calls[-1] == "zeMemFree"
    del fake.codes["zeCommandListHostSynchronize"]


def test_cooperative_launches(fake: Any) -> None:
    (device,) = open_devices()
    kernel, p = device.load(SPIRV, "vector_add"), device.allocate(64).pointer
    device.launch(kernel, (40, 1, 1), (p, p, p, 7), cooperative=True)
    assert "zeCommandListAppendLaunchCooperativeKernel" in fake.calls
    fake.calls.clear()
    with pytest.raises(DeviceError, match="of its 41 programs the device holds 40 at once"):
        device.launch(kernel, (41, 1, 1), (p, p, p, 7), cooperative=True)
    assert not any("AppendLaunch" in call for call in fake.calls)


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ("zeModuleCreate", "load"), ("zeKernelCreate", "load"), ("zeKernelGetProperties", "load"),
        ("zeModuleGetNativeBinary", "load"), ("zeKernelSetGroupSize", "load"),
        ("zeCommandListAppendMemoryCopy", "copy"), ("zeEventPoolCreate", "event"),
        ("zeEventCreate", "event"), ("zeCommandListAppendBarrier", "event"),
    ],
)
def test_every_call_that_fails_is_named(fake: Any, call: str, action: str) -> None:
    (device,) = open_devices()
    memory = device.allocate(64)
    fake.codes[call] = BUILD_FAILURE
    actions = {
        "load": lambda: device.load(SPIRV, "vector_add"),
        "copy": lambda: device.copy_to_device(memory.pointer, np.zeros(4)),
        "event": device.record_event,
    }
    with pytest.raises(LevelZeroError, match=f"{call} failed") as caught:
        actions[action]()
    assert (caught.value.call, caught.value.code) == (call, BUILD_FAILURE)
    assert list(knobs.cache_dir().glob("native/*/*")) == []


def test_copies_stay_inside_one_allocation(fake: Any) -> None:
    (device,) = open_devices()
    p = device.allocate(64).pointer
    fake.memory_range = lambda pointer: (p, 64)
    device.copy_to_device(p + 32, bytes(32))
    for action in (
        lambda: device.copy_to_device(p + 32, bytes(33)),
        lambda: device.copy_to_host(np.zeros(5), p + 32),
        lambda: device.fill(p, 0, 65),
    ):
        with pytest.raises(DeviceError, match="do not fit: the allocation ends after"):
            action()
    fake.codes["zeMemGetAddressRange"] = 0x7FFFFFFE
    fake.calls.clear()
    with pytest.raises(DeviceError, match="no memory of the device at 0x7; was it freed"):
        device.copy_to_host(np.zeros(5), 7)
    assert fake.calls == ["zeMemGetAddressRange"]


def test_what_the_device_may_still_use_is_destroyed_after_waiting(fake: Any) -> None:
    (device,) = open_devices()
    kernel, event = device.load(SPIRV, "vector_add"), device.record_event()
    device.launch(kernel, (4, 1, 1), (None, None, None, 7))
    fake.calls.clear()
    kernel.close()
    del kernel
    wait = "zeCommandListHostSynchronize"
    assert fake.calls == [wait, "zeKernelDestroy", "zeModuleDestroy"]
    fake.calls.clear()
    device.launch(device.load(SPIRV, "vector_add"), (4, 1, 1), (None, None, None, 7))
    after = fake.calls[fake.calls.index("zeCommandListAppendLaunchKernel") :]
    assert after[1:] == [wait, "zeKernelDestroy", "zeModuleDestroy"]
    fake.calls.clear()
    device.event_pool = None
    del event
    assert fake.calls == ["zeEventDestroy", wait, "zeEventPoolDestroy"]


def test_a_closed_device_refuses_and_the_driver_is_not_called(fake: Any) -> None:
    (device,) = open_devices()
    p = device.allocate(64).pointer
    device.close()
    fake.calls.clear()
    for action in (
        device.synchronize, device.record_event, lambda: device.fill(p, 0, 8),
        lambda: device.copy_to_device(p, b"abc"), lambda: device.copy_to_host(np.zeros(2), p),
    ):
        with pytest.raises(DeviceError, match="this CommandList of Level Zero is closed"):
            action()
    assert not [call for call in fake.calls if call.startswith("zeCommandList")]
    (again,) = open_devices()
    assert again is not device
    assert open_devices() == [again]
    again.synchronize()


def test_unknown_code_is_still_an_error() -> None:
    error = LevelZeroError("zeSomething", -1)
    assert str(error) == (
        "zeSomething failed: no explanation known (unknown result, 0xffffffff)"
    )


def test_a_rebuild_that_does_not_help_or_does_not_fit_is_dropped(fake: Any) -> None:
    (device,) = open_devices()
    fake.spills = lambda flags: 512
    kept = device.load(SPIRV, "vector_add")
    assert (kept.n_registers, kept.n_spills, kept.report.flags) == (128, 512, "")
    fake.spills = lambda flags: 64 if LARGE_GRF_FLAG in flags else 512
    better = device.load(SPIRV, "vector_add", build_flags="-x")
    assert (better.n_registers, better.n_spills) == (256, 64)
    assert better.report.flags == f"-x {LARGE_GRF_FLAG}"
    wide = to_spirv(vector_add().replace("!{i32 64, i32 1", "!{i32 1024, i32 1"))
    assert device.load(wide, "vector_add").n_registers == 128


@pytest.mark.parametrize(("code", "is_lost"), [
    ("35 00 10 00 02 00 00 ff 14 fe 00 f0 00 1b 04 a8", True),  # store, r27 without its number
    ("35 00 10 00 02 00 00 ff 14 fe 00 f0 08 1b 04 a8", False),  # store of r27
    ("35 00 10 00 00 00 00 14 14 fe 00 f0 04 ff 00 a8", False),  # load
    ("35 00 10 00 02 00 00 ff 14 fd 00 f0 00 1b 04 a8", False),  # addresses in r509
    ("35 00 10 20 02 00 00 ff 14 fe 00 f0 00 1b 04 a8", False),  # two short instructions
])
def test_code_that_would_lose_stores_is_built_with_fewer_registers(
    fake: Any, code: str, is_lost: bool
) -> None:
    """Intel's compiler 2.40 for Xe3P, if the addresses of a store begin in r510."""
    many = "-ze-exp-register-file-size=512"
    fake.code = lambda flags: bytes.fromhex(code) if many in flags else b""
    (device,) = open_devices()
    built = device.load(SPIRV, "vector_add", build_flags=f"-x {many}")
    assert built.report.flags == (f"-x {LARGE_GRF_FLAG}" if is_lost else f"-x {many}")


def refusing(fake: Any, refuses: Callable[[str], bool]) -> list[str]:
    """Have the driver refuse to build with some flags; the flags of all builds as they happen."""
    answer, asked = fake.answer, []

    def answered(name: str, args: Any) -> int:
        if name == "zeModuleCreate" and args[2][0].format == raw.FORMAT_SPIRV:
            asked.append(args[2][0].pBuildFlags.decode())
            if refuses(asked[-1]):
                return BUILD_FAILURE
        return int(answer(name, args))

    fake.answer = answered
    return asked


def test_what_does_not_build_with_128_registers_is_built_with_256(fake: Any) -> None:
    asked = refusing(fake, lambda flags: LARGE_GRF_FLAG not in flags)
    (device,) = open_devices()
    assert device.load(SPIRV, "vector_add", build_flags="-x").n_registers == 256
    assert asked == ["-x", f"-x {LARGE_GRF_FLAG}"]
    assert device.load(SPIRV, "vector_add", build_flags="-x").report.from_cache


def test_256_registers_that_do_not_build_are_dropped(fake: Any) -> None:
    refusing(fake, lambda flags: LARGE_GRF_FLAG in flags)
    fake.spills = lambda flags: 512
    (device,) = open_devices()
    assert device.load(SPIRV, "vector_add").n_registers == 128


def test_what_does_not_build_at_all_is_a_configuration_to_skip(fake: Any) -> None:
    asked = refusing(fake, lambda flags: True)
    (device,) = open_devices()
    with pytest.raises(OutOfResources, match=r"does not build.*use smaller blocks") as caught:
        device.load(SPIRV, "vector_add")
    assert asked == ["", LARGE_GRF_FLAG]
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, LevelZeroError)
    assert isinstance(again, OutOfResources)
    assert str(again) == str(caught.value)
    with pytest.raises(OutOfResources):
        device.load(SPIRV, "vector_add", build_flags=LARGE_GRF_FLAG)
    assert len(asked) == 3


def test_a_folder_that_does_not_build_says_so_where_triton_is_not_installed() -> None:
    program = ("import sys; sys.modules['triton'] = None\n"
               "from triton_xe.errors import DeviceError, too_large\n"
               "raise too_large(DeviceError('it does not build'), 1, 0, 'registers')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "triton_xe.errors.DeviceError: it does not build"


@pytest.mark.parametrize("code", [OUT_OF_MEMORY, BUILD_FAILURE, 0x70000005, 0x78000009])
@pytest.mark.parametrize("call", ["zeModuleCreate", "zeKernelCreate"])
def test_whatever_the_driver_says_of_too_much_scratch_space_it_is_a_configuration_to_skip(
    fake: Any, call: str, code: int
) -> None:
    (device,) = open_devices()
    fake.codes[call] = code
    with pytest.raises(OutOfResources, match=r"does not build.*use smaller blocks"):
        device.load(SPIRV, "vector_add")


@pytest.mark.parametrize("cached", [True, False])
def test_a_module_is_built_once_whoever_asks(
    fake: Any, cached: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    building, most = [], []

    def slow(flags: str) -> bool:
        building.append(flags)
        most.append(len(building))
        time.sleep(0.05)
        building.pop()
        return False

    asked = refusing(fake, slow)
    if not cached:
        (tmp_path / "file").touch()
        monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "file"))  # no folder
    (device,) = open_devices()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: device.load(SPIRV, "vector_add", build_flags=f"-x{n % 2}"),
                      range(8)))
    assert sorted(asked) == ["-x0", "-x1"]
    assert max(most) == 1


def test_a_kernel_that_spills_very_much_says_so(fake: Any) -> None:
    fake.spills, fake.ip_version = lambda flags: 250_000, 12 << 22 | 60 << 14
    (device,) = open_devices()
    with pytest.warns(UserWarning, match="keeps 250000 bytes per thread in memory"):
        device.load(SPIRV, "vector_add")


@pytest.mark.parametrize("get", ["load", "native_code"])
def test_a_kernel_whose_spills_may_get_lost_is_refused(fake: Any, get: str) -> None:
    fake.spills = lambda flags: 65536
    (device,) = open_devices()
    with pytest.warns(UserWarning, match="keeps 65536 bytes per thread in memory"):
        device.load(SPIRV, "vector_add", build_flags="-x")
    fake.spills = lambda flags: 65537
    for _ in ("built", "from the cache"):
        with pytest.raises(OutOfResources, match="may lose registers that kernel 'vector_add'"):
            getattr(device, get)(SPIRV, "vector_add")


def test_native_code_that_the_driver_refuses_is_built_again(fake: Any) -> None:
    (device,) = open_devices()
    assert not device.load(SPIRV, "vector_add").report.from_cache
    assert device.load(SPIRV, "vector_add").report.from_cache
    answer = fake.answer
    fake.answer = lambda name, args: (
        BAD_BINARY
        if name == "zeModuleCreate" and args[2][0].format == raw.FORMAT_NATIVE
        else answer(name, args)
    )
    fake.callbacks.clear()
    assert not device.load(SPIRV, "vector_add").report.from_cache


def test_a_damaged_entry_is_taken_as_missing(fake: Any) -> None:
    entry = NativeEntry(b"code" * 100, "-flag", 64)
    assert native_cache.write("ab12", entry)
    (path,) = knobs.cache_dir().glob("native/ab/*")
    assert native_cache.read("ab12") == entry
    whole = path.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole + b"x", b"X" + whole[1:]):
        path.write_bytes(damaged)
        assert native_cache.read("ab12") is None
    native_cache.remove("ab12")
    native_cache.remove("ab12")
    assert not path.exists()


def test_what_others_can_have_written_is_taken_as_missing(fake: Any) -> None:
    assert native_cache.write("ab12", NativeEntry(b"code", ""))
    (path,) = knobs.cache_dir().glob("native/ab/*")
    path.chmod(0o602)
    assert native_cache.read("ab12") is None
    path.chmod(0o600)
    assert native_cache.read("ab12") is not None
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        assert native_cache.read("ab12") is None


def test_a_folder_that_cannot_be_written_only_costs_time(
    fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    blocked = tmp_path_factory.mktemp("blocked") / "a file"
    blocked.write_text("in the way of the folder")
    monkeypatch.setenv("TRITON_XE_CACHE", str(blocked))
    (device,) = open_devices()
    assert not device.load(SPIRV, "vector_add").report.from_cache
    assert device.load(SPIRV, "vector_add").report.from_cache  # of this process
    assert not native_cache.write("ab12", NativeEntry(b"x", ""))


def _write_often(folder: str, me: int) -> None:
    os.environ["TRITON_XE_CACHE"] = folder
    for _ in range(200):
        native_cache.write("cd34", NativeEntry(bytes([me]) * 5000, str(me)))


def test_processes_writing_the_same_entry_never_leave_half_a_file(fake: Any) -> None:
    folder = str(knobs.cache_dir())
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_often, args=(folder, n)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        entry = native_cache.read("cd34")
        if entry is not None:
            assert entry.binary == bytes([int(entry.flags)]) * 5000
            seen.add(entry.flags)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen
    assert len(list(Path(folder).glob("native/cd/*"))) == 1
