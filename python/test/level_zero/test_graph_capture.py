"""Launches while a queue is recorded into a graph: recorded too, or refused; never left out."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from triton_xe.backend.launcher import make_launch
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.level_zero.errors import QueueRecordingError
from triton_xe.runtime.level_zero.sycl_queue import TorchStream
from triton_xe.tools.sample_kernel import to_spirv, vector_add

from .test_sycl_order import FIRST_ADAPTER, LOGGED, QUEUE, SECOND_ADAPTER

Run = Callable[..., dict[str, Any]]
needs_dpctl = pytest.mark.skipif(
    importlib.util.find_spec("dpctl") is None,
    reason="dpctl, which makes SYCL queues, is not installed: pip install 'triton-xe[sycl]'",
)
# A graph of the driver: what was recorded, as the driver describes it.
DRIVER = """
import ctypes
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.errors import QueueRecordingError
loader = ctypes.CDLL(raw.api().path)
def ze(name, *arguments):
    code = getattr(loader, name)(*arguments)
    assert code in (0, 0x7fff0000, 0x7fff0001), (name, hex(code))
    return code
def dumped(graph):
    path = os.path.join(os.environ["TRITON_XE_CACHE"], "graph.dot")
    ze("zeGraphDumpContentsExt", graph, path.encode(), None)
    return open(path).read()
"""
# SYCL's modifiable_command_graph and an empty property list (zeros), or one with a flag set.
SYCL = """
from triton_xe.runtime.level_zero.sycl_queue import function
GRAPH = "_ZN4sycl3_V13ext6oneapi12experimental6detail24modifiable_command_graph"
pointer, NATIVE_RECORDING = ctypes.c_void_p, 22
def record(flags):
    graph, chosen, none = (ctypes.create_string_buffer(256) for _ in range(3))
    ctypes.c_uint64.from_buffer(chosen).value = flags
    make = function(GRAPH + "C1ERKNS0_5queueERKNS0_13property_listE", None, *[pointer] * 3)
    make(ctypes.addressof(graph), address, ctypes.addressof(chosen))
    begin = function(GRAPH + "15begin_recordingERNS0_5queueERKNS0_13property_listE", None,
                     *[pointer] * 3)
    begin(ctypes.addressof(graph), address, ctypes.addressof(none))
    return graph
def end(graph):
    function(GRAPH + "13end_recordingEv", None, pointer)(ctypes.addressof(graph))
class State:
    launch_state, index = kernel.launch_state, 0
    device, kernel = device, kernel
def as_triton():
    direct(16, 1, 1, address, State, None, None, None, None, *(m._pointer for m in memory), 1000)
from triton_xe.backend.launcher import make_direct, make_launch
types = ("*fp32", "*fp32", "*fp32", "i32")
direct = make_direct(types, make_launch("vector_add", tuple("abcn"), types, device_checks=True))
reporting = make_launch("vector_add", tuple("abn"), ("*fp32", "*fp32", "i32"), device_checks=True,
                        debug_sites=[{"what": "print"}])
"""


@pytest.mark.intel_driver
def test_the_devices_own_list_is_recorded_and_replayed(on_driver: Run) -> None:
    out = on_driver(
        DRIVER
        + """
kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
memory = [device.allocate(4096) for _ in range(3)]
values = [m.pointer for m in memory]
own, graph, made = ctypes.c_void_p(device.list.value), ctypes.c_void_p(), ctypes.c_void_p()
ze("zeCommandListBeginGraphCaptureExt", own, None)
device.launch(kernel, (16, 1, 1), [*values, 1000])
device.launch(kernel, (8, 1, 1), [*values, 500])
ze("zeCommandListEndGraphCaptureExt", own, None, ctypes.byref(graph))
out["graph"] = dumped(graph)
ze("zeGraphInstantiateExt", graph, None, ctypes.byref(made))
ze("zeCommandListAppendGraphExt", own, made, None, None, 0, None)
device.synchronize()
ze("zeExecutableGraphDestroyExt", made)
ze("zeGraphDestroyExt", graph)
"""
    )
    assert re.findall(r"vector_add|\b\d+x1x1\b", out["graph"]) == [
        "vector_add", "16x1x1", "vector_add", "8x1x1",
    ]


@needs_dpctl
@pytest.mark.intel_driver
def test_a_queue_that_records_natively_records_launches(on_driver: Run) -> None:
    out = on_driver(
        QUEUE + DRIVER + SYCL
        + """
as_triton()
as_triton()
recorded = record(1 << NATIVE_RECORDING)
launch()
as_triton()
graph = ctypes.c_void_p()
ze("zeCommandListGetGraphExt", ctypes.c_void_p(device.queues[address].native), ctypes.byref(graph))
out["graph"] = dumped(graph)
out["wait"] = refusal(device.synchronize)
values = [m._pointer for m in memory[:2]]
out["reports"] = refusal(lambda: reporting(16, 1, 1, address, State, None, None, None, None,
                                           *values, 1000))
block = device.allocate(64)
block.free()
extra = device.load(to_spirv(sample_kernel.register_pressure(4, lanes)), "register_pressure")
extra.close()
end(recorded)
launch()
device.synchronize()
print("CLOSE", file=sys.stderr)
kernel.close()
other = device.load(to_spirv(sample_kernel.register_pressure(4, lanes)), "register_pressure")
other.close()
print("CLOSED", file=sys.stderr)
""",
        extra={**LOGGED, **SECOND_ADAPTER, "PROPERTY": "in_order"},
    )
    closed = out["stderr"].partition("CLOSE\n")[2].partition("CLOSED\n")[0]
    assert closed.count(" in zeKernelDestroy(") == 1
    assert out["graph"].count("vector_add") == 2
    assert "cannot be waited for" in out["wait"]
    assert out["reports"].startswith("QueueRecordingError: cannot launch kernel 'vector_add': it")
    assert "prints or asserts" in out["reports"]


@needs_dpctl
@pytest.mark.intel_driver
@pytest.mark.parametrize(
    ("adapter", "chosen"),
    [(SECOND_ADAPTER, "in_order"), (FIRST_ADAPTER, "in_order"), (SECOND_ADAPTER, "")],
)
def test_a_queue_that_would_leave_launches_out_refuses_them(
    adapter: dict[str, str], chosen: str, on_driver: Run
) -> None:
    out = on_driver(
        QUEUE + DRIVER + SYCL
        + """
as_triton()
as_triton()
recorded = record(0)
out["refused"] = [refusal(launch), refusal(as_triton)]
end(recorded)
as_triton()
device.synchronize()
queue.wait()
""",
        extra={**adapter, "PROPERTY": chosen},
    )
    for said in out["refused"]:
        assert said.startswith("QueueRecordingError: cannot launch kernel 'vector_add': its queue")
        assert "missing from every replay" in said


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_torchs_capture_is_asked_for_where_sycl_is_out_of_reach(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (device,) = open_devices()
    kernel = device.load(to_spirv(vector_add()), "vector_add")
    capturing = [False]
    xpu = SimpleNamespace(is_current_stream_capturing=lambda: capturing[0],
                          synchronize=lambda index: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(xpu=xpu))
    device.queues[64] = TorchStream(64, 0, 2, 0)
    device.launch(kernel, (1, 1, 1), (None, None, None, 1), stream=64)
    capturing[0] = True
    with pytest.raises(QueueRecordingError, match="missing from every replay"):
        device.launch(kernel, (1, 1, 1), (None, None, None, 1), stream=64)
    assert len(fake.launches) == 1


def test_a_loader_without_graphs_records_nothing_natively(fake: Any) -> None:
    from triton_xe.runtime.level_zero.sycl_queue import SyclQueue

    queue = SyclQueue(1, 5, True, True, 3, 2, True)
    fake.codes["zeCommandListIsGraphCaptureEnabledExt"] = raw.QUERY_TRUE
    assert queue.records_natively
    fake.missing.add("zeCommandListIsGraphCaptureEnabledExt")
    assert not queue.records_natively


def test_a_launch_that_waits_asks_first() -> None:
    asked: list[tuple[str, int]] = []

    def refuse(kernel: str, stream: int) -> None:
        asked.append((kernel, stream))
        raise QueueRecordingError("no")

    device = SimpleNamespace(is_simulated=False, refuse_recording=refuse)
    launch = make_launch("k", ("n",), ("i32",), debug_sites=[{"what": "print"}])
    with pytest.raises(QueueRecordingError):
        launch(1, 1, 1, 7, SimpleNamespace(device=device, index=0), None, None, None, None, 3)
    assert asked == [("k", 7)]
