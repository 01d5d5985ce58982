"""Launches beside a SYCL queue are ordered with its work on the device; the host does not wait."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from triton_xe.errors import DeviceError
from triton_xe.runtime import native
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.tools.sample_kernel import to_spirv, vector_add

needs_dpctl = pytest.mark.skipif(
    importlib.util.find_spec("dpctl") is None,
    reason="dpctl, which makes SYCL queues, is not installed: pip install 'triton-xe[sycl]'",
)
FIRST_ADAPTER = {"SYCL_UR_USE_LEVEL_ZERO_V2": "0"}
SECOND_ADAPTER = {"SYCL_UR_USE_LEVEL_ZERO_V2": "1"}
LOGGED = {
    "ZE_ENABLE_VALIDATION_LAYER": "1",
    "ZE_ENABLE_PARAMETER_VALIDATION": "1",
    "ZEL_ENABLE_LOADER_LOGGING": "1",
    "ZEL_LOADER_LOG_CONSOLE": "1",
    "ZEL_LOADER_LOGGING_LEVEL": "trace",
    "ZEL_LOADER_LOGGING_ENABLE_SUCCESS_PRINT": "1",
}
# The second adapter makes memory resident, which the driver refuses on a simulated stream, the only
# call that it needs and that fails there: the loader's function is replaced by "return 0".
RESIDENT = """
import ctypes
from triton_xe.runtime.level_zero import raw
if os.environ["SYCL_UR_USE_LEVEL_ZERO_V2"] == "1":
    call = ctypes.CDLL(raw.api().path).zeContextMakeMemoryResident
    place = ctypes.cast(call, ctypes.c_void_p).value
    begin = place & -4096
    writable = ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(8192), 7)
    assert writable == 0
    ctypes.memmove(place, bytes.fromhex("31c0c3"), 3)
"""
QUEUE = RESIDENT + """
import warnings
import dpctl, dpctl.memory
from triton_xe.runtime.level_zero import sycl_events
warnings.simplefilter("error")
chosen = os.environ.get("PROPERTY")
queue = dpctl.SyclQueue("level_zero:gpu", property=[chosen] if chosen else [])
address = queue.addressof_ref()
device.adopt_queue(address)
kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
memory = [dpctl.memory.MemoryUSMDevice(4096, queue=queue) for _ in range(3)]
def launch():
    device.launch(kernel, (16, 1, 1), [*(m._pointer for m in memory), 1000], stream=address)
"""


def calls(printed: str) -> list[tuple[str, dict[str, str]]]:
    """The driver calls that the loader logged between the marks, with their arguments."""
    (part,) = re.findall(r"^BEGIN$(.*?)^END$", printed, re.MULTILINE | re.DOTALL)
    return [
        (name, dict(re.findall(r"(\w+)=([^\s,{}]+)", arguments)))
        for name, arguments in re.findall(r" in (ze\w+)\((.*)\)", part)
    ]


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize(
    ("chosen", "extra"),
    [
        ("", {}),
        ("in_order", {}),
        ("", {"UR_L0_USE_IMMEDIATE_COMMANDLISTS": "0"}),
        ("in_order", {"UR_L0_USE_IMMEDIATE_COMMANDLISTS": "0"}),
        ("", SECOND_ADAPTER),
    ],
)
def test_events_keep_the_order_and_the_host_does_not_wait(
    chosen: str, extra: dict[str, str], on_driver: Any
) -> None:
    out = on_driver(
        QUEUE
        + """
waits = []
append = device.list.wait_on
device.list.wait_on = lambda event: (waits.append(event), append(event))
launch()
print("BEGIN", file=sys.stderr)
queue.memcpy_async(memory[0], memory[1], 4096)
launch()
queue.memcpy_async(memory[2], memory[0], 4096)
print("END", file=sys.stderr)
link = device.orders[address].links[-1]
out["waits"], out["own"] = waits, device.list.value
out["handed back"] = [link.list_done.native(), link.signal.value]
device.synchronize()
queue.wait()
device.close()
""",
        extra={**LOGGED, **FIRST_ADAPTER, **extra, "PROPERTY": chosen},
    )
    made = calls(out["stderr"])
    assert not [name for name, _ in made if "Synchronize" in name]
    own = hex(out["own"])
    appends = [(name, given) for name, given in made if "CommandListAppend" in name]
    mine = [number for number, (_, given) in enumerate(appends) if given["hCommandList"] == own]
    first, _, last = mine
    assert [appends[number][0].removeprefix("zeCommandListAppend") for number in mine] == [
        "Barrier", "LaunchKernel", "Barrier",
    ]
    assert (appends[first][1]["numWaitEvents"], appends[first][1]["hSignalEvent"]) == (
        "1", "nullptr",
    )
    signals = [given.get("hSignalEvent", given.get("hEvent")) for _, given in appends[:first]]
    assert hex(out["waits"][-1]) in signals
    assert out["handed back"] == [int(appends[last][1]["hSignalEvent"], 16)] * 2
    after = [(name.removeprefix("zeCommandListAppend"), given) for name, given in appends[last:]]
    copies = [number for number, (name, _) in enumerate(after) if name == "MemoryCopy"]
    waiting = [
        number for number, (_, given) in enumerate(after)
        if int(given.get("numWaitEvents", given.get("numEvents", "0"))) > 0
    ]
    assert len(copies) == 1
    assert waiting
    assert waiting[0] < copies[0]


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize("name", ["bmg", "pvc"])
def test_a_queue_with_one_list_gets_the_kernel_itself(name: str, on_driver: Any) -> None:
    out = on_driver(
        QUEUE
        + """
launch()
print("BEGIN", file=sys.stderr)
queue.memcpy_async(memory[0], memory[1], 4096)
launch()
queue.memcpy_async(memory[2], memory[0], 4096)
print("END", file=sys.stderr)
known = device.queues[address]
out["keeps"], out["native"], out["own"] = known.keeps_order, known.native, device.list.value
out["beside"] = len(device.orders)
device.synchronize()
queue.wait()
device.close()
""",
        name,
        {**LOGGED, **SECOND_ADAPTER, "PROPERTY": "in_order"},
    )
    assert out["keeps"]
    assert out["beside"] == 0
    made = calls(out["stderr"])
    assert not [name for name, _ in made if "Synchronize" in name]
    appends = [
        (name.removeprefix("zeCommandListAppend"), given["hCommandList"])
        for name, given in made if "CommandListAppend" in name
    ]
    lists = {given for _, given in appends}
    assert [name for name, _ in appends] == ["MemoryCopy", "LaunchKernel", "MemoryCopy"]
    assert lists == {hex(out["native"])} != {hex(out["own"])}


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize("adapter", [FIRST_ADAPTER, SECOND_ADAPTER])
def test_where_events_are_out_of_reach_the_host_waits_for_the_queue(
    adapter: dict[str, str], on_driver: Any
) -> None:
    out = on_driver(
        QUEUE
        + """
from triton_xe.runtime.level_zero import device as device_module
device_module.can_order = lambda: False
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    launch()
    print("BEGIN", file=sys.stderr)
    queue.memcpy_async(memory[0], memory[1], 4096)
    launch()
    print("END", file=sys.stderr)
out["warned"] = [str(each.message) for each in caught]
out["own"] = device.list.value
device.close()
""",
        extra={**LOGGED, **adapter, "PROPERTY": ""},
    )
    (warned,) = out["warned"]
    assert "launches wait for torch's queue before and after each kernel" in warned
    made = [(name, given) for name, given in calls(out["stderr"])
            if "Append" in name or "Synchronize" in name]
    names = [name for name, _ in made]
    launched = names.index("zeCommandListAppendLaunchKernel")
    assert any("Copy" in name for name in names[:launched])
    assert any("Synchronize" in name for name in names[:launched])
    assert [(name, given["hCommandList"]) for name, given in made[launched:]] == [
        ("zeCommandListAppendLaunchKernel", hex(out["own"])),
        ("zeCommandListHostSynchronize", hex(out["own"])),
    ]


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize(("adapter", "chosen"), [(FIRST_ADAPTER, "in_order"), (SECOND_ADAPTER, "")])
def test_events_are_given_back_and_used_again(
    adapter: dict[str, str], chosen: str, on_driver: Any
) -> None:
    out = on_driver(
        QUEUE
        + """
first, second = (sycl_events.context_of(address) for _ in range(2))
out["same"] = first.room.raw == second.room.raw
before = first.uses
second.close()
out["dropped"] = before - first.uses
out["gone"] = second.uses
second.close()
first.close()
out["can"] = sycl_events.can_order()
errors = []
def work():
    try:
        for _ in range(150): launch()
    except Exception as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
order = device.orders[address]
out["links"] = [len(order.links), len(order.free_events)]
out["errors"] = errors
out["refused"] = refusal(lambda: device.launch(kernel, (1, 1, 1), [0, 0, 0], stream=address))
device.close()
device.close()
out["after"] = [len(order.links), len(order.free_events)]
""",
        extra={**adapter, "PROPERTY": chosen},
    )
    assert (out["same"], out["dropped"], out["gone"]) == (True, 1, 0)
    assert out["can"]
    assert out["errors"] == []
    assert sum(out["links"]) == 64
    assert out["links"][0] >= 32
    assert "it takes 4 arguments" in out["refused"]
    assert out["after"] == [0, 0]


def test_without_the_sycl_runtime_torch_waits_for_its_queue(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: int) -> None:
        raise DeviceError("this SYCL runtime does not export it")

    xpu = SimpleNamespace(
        current_stream=lambda index: SimpleNamespace(sycl_queue=0x5000),
        synchronize=lambda index: fake.calls.append(f"torch waits for {index}"),
    )
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(xpu="2026"), xpu=xpu)
    )
    (device,) = open_devices()
    device.find_queue = refuse
    with pytest.warns(RuntimeWarning, match="does not export it"):
        kernel = device.load(to_spirv(vector_add()), "vector_add")
    p = device.allocate(64).pointer
    fake.calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.launch(kernel, (2, 1, 1), (p, p, p, 7), stream=0x5000)
    steps = [c for c in fake.calls if "Set" not in c and "GetAlloc" not in c]
    assert steps == [
        "torch waits for 0", "zeCommandListAppendLaunchKernel", "zeCommandListHostSynchronize",
    ]


@pytest.mark.skipif(native.launch is None, reason="launch.c was not built")
def test_the_last_user_of_a_shared_pointer_ends_it() -> None:
    """A control block as libstdc++ has it: table of functions, uses, weak uses."""
    ended: list[str] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    functions = [kind(lambda _, name=name: ended.append(name)) for name in "abcd"]
    table = (ctypes.c_void_p * 4)(*(ctypes.cast(f, ctypes.c_void_p).value for f in functions))
    block = (ctypes.c_uint64 * 2)(ctypes.addressof(table), 2 << 32 | 2)
    release = native.launch.release_shared
    release(ctypes.addressof(block))
    assert (ended, block[1]) == ([], 2 << 32 | 1)
    release(ctypes.addressof(block))
    assert (ended, block[1]) == (["c"], 1 << 32)
    block[1] = 1 << 32 | 1
    release(ctypes.addressof(block))
    assert ended == ["c", "c", "d"]
    with pytest.raises(TypeError):
        release("block")
