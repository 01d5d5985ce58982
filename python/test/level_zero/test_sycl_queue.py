"""Launching in order with the work of a SYCL queue, as torch.xpu uses them."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from python.test.counting import watched
from triton_xe.errors import DeviceError
from triton_xe.runtime import native
from triton_xe.runtime.level_zero import launcher, sycl_queue
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.native.arguments import make_direct_launcher, read_tensors
from triton_xe.tools.sample_kernel import to_spirv, vector_add

needs_dpctl = pytest.mark.skipif(
    importlib.util.find_spec("dpctl") is None,
    reason="dpctl, which makes SYCL queues, is not installed: pip install 'triton-xe[sycl]'",
)
SPIRV = to_spirv(vector_add())
QUEUE, ORDERED, CONTEXT, DEVICE = 0x5000, 0x5300, 0x6000, 2


class RecordedQueue:
    """A queue on the fake driver's device that notes when it is waited for."""

    def __init__(
        self, fake: Any, device: int = DEVICE, context: int = CONTEXT, keeps_order: bool = False
    ) -> None:
        self.fake, self.device, self.context = fake, device, context
        self.is_recording = False
        self.keeps_order, self.native, self.address = keeps_order, 0x7000, QUEUE

    def wait(self) -> None:
        self.fake.calls.append("wait for the queue")


@pytest.fixture
def queues(fake: Any) -> dict[int, RecordedQueue]:
    known = {QUEUE: RecordedQueue(fake), 0x5100: RecordedQueue(fake, context=0x6100),
             0x5200: RecordedQueue(fake, device=3), ORDERED: RecordedQueue(fake, keeps_order=True)}
    (device,) = open_devices()
    device.find_queue = known.__getitem__
    return known


def test_both_ends_of_a_launch_are_waited_for(fake: Any, queues: dict[int, Any]) -> None:
    (device,) = open_devices()
    device.adopt_queue(QUEUE)
    assert device.context.value == CONTEXT
    kernel, memory = device.load(SPIRV, "vector_add"), device.allocate(64)
    p = memory.pointer
    fake.calls.clear()
    with pytest.warns(RuntimeWarning, match="does not export barriers"):
        device.launch(kernel, (2, 1, 1), (p, p, p, 7), stream=QUEUE)
    steps = [c for c in fake.calls if "Set" not in c and "GetAlloc" not in c]
    assert steps == [
        "wait for the queue", "zeCommandListAppendLaunchKernel", "zeCommandListHostSynchronize",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.launch(kernel, (0, 1, 1), (p, p, p, 7), stream=QUEUE)
    assert fake.launches == [(2, 1, 1)]
    with pytest.raises(DeviceError, match="it takes 4 arguments"):
        device.launch(kernel, (2, 1, 1), (p, p, p), stream=QUEUE)


@pytest.mark.skipif(native.launch is None, reason="launch.c was not built")
def test_a_queue_that_keeps_order_is_not_waited_for(fake: Any, queues: dict[int, Any]) -> None:
    (device,) = open_devices()
    device.adopt_queue(ORDERED)
    kernel, memory = device.load(SPIRV, "vector_add"), device.allocate(64)
    values = (memory.pointer,) * 3
    left: list[Any] = []
    direct = make_direct_launcher(
        kernel.argument_types, lambda *given: left.append(given)
    )
    fake.calls.clear()
    direct(2, 1, 1, ORDERED, kernel, None, None, None, None, *values, 7)
    assert len(left) == 1
    assert fake.launches == []
    device.launch(kernel, (2, 1, 1), (*values, 7), stream=ORDERED)
    direct(3, 1, 1, ORDERED, kernel, None, None, None, None, *values, 7)
    assert (fake.launches, fake.lists) == ([(2, 1, 1), (3, 1, 1)], [0x7000, 0x7000])
    assert len(left) == 1
    assert not {"wait for the queue", "zeCommandListHostSynchronize"} & set(fake.calls)
    device.synchronize()
    assert fake.calls[-2:] == ["zeCommandListHostSynchronize", "wait for the queue"]


@pytest.mark.parametrize("wrong", ["is_command_list", "is_in_order", "owns_all_work"])
def test_order_needs_one_in_order_command_list(wrong: str) -> None:
    facts = {"is_command_list": True, "is_in_order": True, "owns_all_work": True}
    handles = {"address": 1, "native": 2, "context": 3, "device": 4}
    assert sycl_queue.SyclQueue(**handles, **facts).keeps_order
    assert not sycl_queue.SyclQueue(**handles, **{**facts, wrong: False}).keeps_order


def test_queues_that_cannot_be_used_are_refused(fake: Any, queues: dict[int, Any]) -> None:
    (device,) = open_devices()
    with pytest.raises(DeviceError, match="not on Fake B580"):
        device.adopt_queue(0x5200)
    kernel = device.load(SPIRV, "vector_add")
    with pytest.raises(DeviceError, match="before torch's queue was known; import torch"):
        device.launch(kernel, (1, 1, 1), (0, 0, 0, 7), stream=QUEUE)
    assert fake.launches == []


def test_a_borrowed_context_is_never_destroyed(fake: Any, queues: dict[int, Any]) -> None:
    (device,) = open_devices()
    device.adopt_queue(QUEUE)
    device.adopt_queue(0x5100)
    assert device.context.value == 0x6100
    device.context.close()
    assert "zeContextDestroy" not in fake.calls


@pytest.mark.parametrize("xpu", ["20260200", None])
def test_the_first_kernel_adopts_the_queue_of_a_loaded_torch(
    xpu: str | None, fake: Any, queues: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(sycl_queue=QUEUE)
    torch = SimpleNamespace(
        version=SimpleNamespace(xpu=xpu), xpu=SimpleNamespace(current_stream=lambda index: stream)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    (device,) = open_devices()
    device.load(SPIRV, "vector_add")
    assert (device.context.value == CONTEXT) is bool(xpu)


@pytest.mark.parametrize(("xpu", "can_look", "trusted"), [
    ("20260200", True, ["xpu:0"]), ("20260200", False, []), (None, True, []),
])
def test_tensors_are_trusted_where_torchs_queue_was_found_on_the_device(
    xpu: str | None, can_look: bool, trusted: list[str], fake: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(address: int) -> sycl_queue.SyclQueue:
        if not can_look:
            raise DeviceError("this SYCL runtime is too new")
        return sycl_queue.SyclQueue(address, 0x7000, True, True, CONTEXT, DEVICE)

    stream = SimpleNamespace(sycl_queue=QUEUE)
    torch = SimpleNamespace(
        version=SimpleNamespace(xpu=xpu), xpu=SimpleNamespace(current_stream=lambda index: stream),
        nn=SimpleNamespace(Parameter=bytearray), Tensor=bytes, empty=lambda *_, device: device,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    (device,) = open_devices()
    device.find_queue = look
    with warnings.catch_warnings(), watched(read_tensors, launcher.trust_device_of) as calls:
        warnings.simplefilter("ignore", RuntimeWarning)
        device.load(SPIRV, "vector_add")
    read, *others = [list(call.arguments.values()) for call in calls]
    assert read == [bytes, bytearray]
    assert [tensor for _, tensor in others] == trusted


@pytest.mark.skipif(
    "libsycl.so" in Path("/proc/self/maps").read_text(), reason="a SYCL runtime is loaded"
)
def test_without_a_sycl_runtime_a_queue_is_refused() -> None:
    with pytest.raises(DeviceError, match="no SYCL runtime is loaded"):
        sycl_queue.sycl_queue(QUEUE)


@needs_dpctl
@pytest.mark.intel_driver
def test_queues_of_the_sycl_runtime_on_intels_driver(on_driver: Any) -> None:
    out = on_driver(
        """
        import dpctl, dpctl.memory
        from triton_xe.runtime.level_zero.sycl_queue import sycl_queue
        queues = [dpctl.SyclQueue("level_zero:gpu", property="in_order"),
                  dpctl.SyclQueue("level_zero:gpu")]
        found = [sycl_queue(queue.addressof_ref()) for queue in queues]
        out["order"] = [queue.is_in_order for queue in found]
        out["device"] = [queue.device == device.physical.handle.value for queue in found]
        device.adopt_queue(queues[0].addressof_ref())
        kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
        memory = [dpctl.memory.MemoryUSMDevice(4096, queue=queues[0]) for _ in range(3)]
        pointers = [each._pointer for each in memory]
        for queue in queues:
            device.launch(kernel, (16, 1, 1), [*pointers, 1000], stream=queue.addressof_ref())
        """,
        extra={"SYCL_UR_USE_LEVEL_ZERO_V2": "0", "ZE_ENABLE_VALIDATION_LAYER": "1",
               "ZE_ENABLE_PARAMETER_VALIDATION": "1"},
    )
    assert out["order"] == [True, False]
    assert out["device"] == [True, True]


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize(
    ("device", "choice", "expected"),
    [("dg2", "", False), ("bmg", "", True), ("bmg", "0", False), ("pvc", "1", True)],
)
def test_the_adapter_in_use_is_found(
    device: str, choice: str, expected: bool, on_driver: Any
) -> None:
    out = on_driver(
        """
        import dpctl
        from triton_xe.runtime.level_zero.sycl_queue import has_one_list
        out["before"] = has_one_list()
        dpctl.get_devices()
        out["after"] = has_one_list()
        """,
        device,
        {"SYCL_UR_USE_LEVEL_ZERO_V2": choice} if choice else {},
    )
    assert (out["before"], out["after"]) == (False, expected)
