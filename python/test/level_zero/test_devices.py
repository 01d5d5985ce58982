"""Several devices and tiles, on the driver, which can act as a machine that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.intel_driver
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
