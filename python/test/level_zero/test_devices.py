"""Several devices and tiles, on the driver, which can act as a machine that has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.intel_driver
ROOT = Path(__file__).parents[3]
Run = Callable[..., dict[str, Any]]
SHOW = """
from triton_xe.runtime.level_zero.device import LevelZeroDevice
devices = open_devices()
out["devices"] = [(d.index, d.target.xe_cores, len(d.physical.sub_devices())) for d in devices]
"""


def test_each_device_launches_on_its_own_memory(on_driver: Run) -> None:
    out = on_driver(
        SHOW
        + """
spirv = to_spirv(sample_kernel.vector_add(lanes))
kernels = [d.load(spirv, "vector_add") for d in devices]
memory = [d.allocate(4096) for d in devices]
def launch(where, whose):
    values = [memory[whose].pointer] * 3 + [4]
    return refusal(lambda: devices[where].launch(kernels[where], (1, 1, 1), values))
out["own"] = [launch(0, 0), launch(1, 1)]
out["other"] = [launch(0, 1), launch(1, 0)]
for d in devices:
    d.synchronize()
""",
        extra={"CreateMultipleRootDevices": "2"},
    )
    assert out["devices"] == [[0, 20, 0], [1, 20, 0]]
    assert out["own"] == ["accepted"] * 2
    assert all("argument 0 points to the memory of another GPU" in said for said in out["other"])


@pytest.mark.parametrize(("mask", "count"), [("2,0", 2), ("1", 1)])
def test_the_affinity_mask_hides_devices(mask: str, count: int, on_driver: Run) -> None:
    start = (
        "import json\nfrom triton_xe.runtime.level_zero.device import open_devices\n"
        "from triton_xe.runtime import open_device\nout = {}\n"
        "try:\n    open_device(f'gpu:{len(open_devices())}')\n"
        "except Exception as error:\n    out['beyond'] = str(error)\n"
    )
    out = on_driver(
        'out["count"] = len(open_devices())', start=start,
        extra={"CreateMultipleRootDevices": "3", "ZE_AFFINITY_MASK": mask},
    )
    assert out["count"] == count
    assert f"no GPU number {count}: Level Zero found {count} Intel GPUs" in out["beyond"]


@pytest.mark.parametrize(
    ("hierarchy", "mask", "expected"),
    [
        ("FLAT", "", [[0, 56, 0], [1, 56, 0]]),
        ("COMPOSITE", "", [[0, 112, 2]]),
        ("COMPOSITE", "0.1", [[0, 56, 0]]),
    ],
)
def test_tiles_are_devices_or_parts_of_one(
    hierarchy: str, mask: str, expected: list[list[int]], on_driver: Run
) -> None:
    chosen = {"CreateMultipleSubDevices": "2", "ZE_FLAT_DEVICE_HIERARCHY": hierarchy}
    chosen |= {"ZE_AFFINITY_MASK": mask} if mask else {}
    assert on_driver(SHOW, "pvc", chosen)["devices"] == expected


def test_a_tile_can_be_used_on_its_own(on_driver: Run) -> None:
    out = on_driver(
        SHOW
        + """
tile = LevelZeroDevice(device.physical.sub_devices()[1])
kernel = tile.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
memory = tile.allocate(4096)
tile.launch(kernel, (4, 1, 1), [memory.pointer] * 3 + [4])
tile.synchronize()
out["cores"] = [tile.target.xe_cores, device.target.xe_cores]
""",
        "pvc",
        {"CreateMultipleSubDevices": "2", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
    )
    assert out["cores"] == [56, 112]


def test_triton_launches_on_the_device_that_is_chosen(on_driver: Run, tmp_path: Path) -> None:
    out = on_driver(
        f"""
        sys.path.insert(0, {str(ROOT)!r})
        from benchmarks.launch_cost import FloatTensor
        from examples.vector_add import add_kernel
        from triton.runtime.driver import driver
        from triton_xe.backend import devices
        opened = devices.devices()
        memory = [[on.allocate(4096) for _ in range(3)] for on in opened]
        tensors = [[FloatTensor(block.pointer) for block in blocks] for blocks in memory]
        def launch(where, whose):
            driver.active.set_current_device(where)
            return add_kernel[(4,)](*tensors[whose], 1024, BLOCK=256).function.index
        out["ran"] = [launch(0, 0), launch(1, 1), launch(0, 0)]
        out["foreign"] = refusal(lambda: launch(1, 0))
        out["beyond"] = refusal(lambda: launch(2, 0))
        """,
        extra={"TRITON_XE_DEVICE": "gpu", "CreateMultipleRootDevices": "2",
               "TRITON_CACHE_DIR": str(tmp_path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert out["ran"] == [0, 1, 0]
    assert "points to the memory of another GPU" in out["foreign"]
    assert "there is no device xpu:2; this process has 2" in out["beyond"]


# Below our bindings: a function of the loader answers with a code instead of calling the driver.
FAULT = """
import ctypes
from triton_xe.runtime.level_zero import raw
def break_call(name, code):
    place = ctypes.cast(getattr(ctypes.CDLL(raw.api().path), name), ctypes.c_void_p).value
    change = ctypes.CDLL(None).mprotect
    assert change(ctypes.c_void_p(place & -4096), ctypes.c_size_t(8192), 7) == 0
    ctypes.memmove(place, b"\\xb8" + code.to_bytes(4, "little") + b"\\xc3", 6)
LOST, OUT_OF_MEMORY = 0x70000001, 0x70000003
spirv = to_spirv(sample_kernel.vector_add(lanes))
kernel, memory = device.load(spirv, "vector_add"), device.allocate(4096)
def launch():
    device.launch(kernel, (4, 1, 1), [memory.pointer] * 3 + [4])
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_lost_device_is_an_error_everywhere_and_the_process_ends(
    native: str, on_driver: Run
) -> None:
    out = on_driver(
        FAULT
        + """
launch()
event = device.record_event()
for name in ("zeCommandListAppendLaunchKernel", "zeCommandListHostSynchronize",
             "zeEventHostSynchronize", "zeCommandListAppendMemoryCopy", "zeModuleCreate"):
    break_call(name, LOST)
out["said"] = [refusal(each) for each in (
    launch, device.synchronize, event.synchronize,
    lambda: device.copy_to_device(memory.pointer, bytes(8)),
    lambda: device.load(spirv, "vector_add"))]
memory.free()
kernel.close()
""",
        extra={"TRITON_XE_NATIVE": native},
    )
    for said in out["said"]:
        assert said.startswith("LevelZeroError: ")
        assert "the device hung, was reset or removed; restart the program" in said


def test_waiting_ends_where_the_device_is_lost_and_where_a_key_is_pressed(on_driver: Run) -> None:
    out = on_driver(
        FAULT
        + """
import signal
break_call("zeCommandListHostSynchronize", raw.NOT_READY)
signal.signal(signal.SIGALRM, signal.default_int_handler)
out["keys"] = 0
for _ in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        device.synchronize()
    except KeyboardInterrupt:
        out["keys"] += 1
break_call("zeDeviceGetStatus", LOST)
out["lost"] = refusal(device.synchronize)
"""
    )
    assert out["keys"] == 200
    assert "zeCommandListHostSynchronize would never end: zeDeviceGetStatus failed" in out["lost"]
    assert "the device hung, was reset or removed" in out["lost"]


def test_exhausted_memory_is_an_error_and_what_is_held_stays_usable(on_driver: Run) -> None:
    out = on_driver(
        FAULT
        + """
out["large"] = refusal(lambda: device.allocate(60 << 30))
break_call("zeMemAllocDevice", OUT_OF_MEMORY)
out["full"] = refusal(lambda: device.allocate(4096))
launch()
break_call("zeModuleCreate", OUT_OF_MEMORY)
out["module"] = refusal(lambda: device.load(spirv, "vector_add"))
break_call("zeCommandListAppendLaunchKernel", OUT_OF_MEMORY)
out["launch"] = refusal(launch)
device.synchronize()
"""
    )
    assert "the size is larger than the device supports" in out["large"]
    for what, start in (("full", "cannot allocate 4096 bytes"),
                        ("module", "kernel 'vector_add' does not build"),
                        ("launch", "cannot launch kernel 'vector_add'")):
        assert out[what].startswith(f"LevelZeroError: {start}")
        assert "not enough device memory" in out[what]
