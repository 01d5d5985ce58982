"""Checks of the device as a whole: its properties, memory, clock and speed."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import TARGETS
from triton_xe.model.rates import PRODUCTS
from triton_xe.runtime.opening import get, put
from triton_xe.runtime.recording import recorder
from triton_xe.runtime.recording.compare import differences
from triton_xe.runtime.recording.folder import Program, recordings
from triton_xe.runtime.recording.replay import Replay
from triton_xe.tools import sample_kernel
from triton_xe.tools.gpu_checks import kernels
from triton_xe.tools.gpu_checks.bench import Bench, Check, Module, Wrong, from_llvm


def _vector_add(bench: Bench) -> Module:
    return from_llvm("vector_add", sample_kernel.vector_add(bench.target.subgroup_size))


def vector_add(bench: Bench) -> None:
    a = np.arange(1024, dtype=np.float32)
    b, c = a * 0.5 + 1, np.full(1024, -7, np.float32)
    got = bench.run(_vector_add(bench), (16, 1, 1), [a, b, c, 1000])[2]
    bench.equal(got, np.where(np.arange(1024) < 1000, a + b, c), "a + b")


def identity(bench: Bench) -> None:
    """Compare the driver's properties with the row of our table."""
    from triton_xe.runtime.level_zero.targets import nearest_target

    physical: Any = bench.device.physical  # type: ignore[attr-defined]
    row, known = nearest_target(physical)
    if not known:
        raise Wrong(f"IP version {physical.ip_version} is not in the table of devices; it is "
                    f"used as {row.name}")
    names = ("subgroup_sizes", "max_slm_bytes", "max_work_group_size", "eus_per_core", "has_fp64")
    other = [f"{name} is {getattr(bench.target, name)}, the table says {getattr(row, name)}"
             for name in names if getattr(bench.target, name) != getattr(row, name)]
    if other:
        raise Wrong("; ".join(other))


def memory(bench: Bench) -> None:
    """Check that kernels can access device, shared and host memory, and that plain host memory is
    refused.
    """
    device: Any = bench.device
    module = _vector_add(bench)
    kernel = device.load(module.spirv, module.kernel)
    a = np.arange(1024, dtype=np.float32)
    for kind in ("device", "shared", "host"):
        blocks = [device.allocate(a.nbytes, kind=kind) for _ in range(3)]
        for block in blocks:
            device.copy_to_device(block.pointer, a)
        device.launch(kernel, (16, 1, 1), [*(block.pointer for block in blocks), 1024])
        device.synchronize()
        got = np.zeros_like(a)
        device.copy_to_host(got, blocks[2].pointer)
        bench.equal(got, a + a, f"{kind} memory")
    try:
        device.launch(kernel, (16, 1, 1), [a.ctypes.data] * 3 + [1024])
    except DeviceError:
        return
    raise Wrong("a pointer to plain host memory was not refused")


def timer(bench: Bench) -> None:
    """Compare time between two events of the device with the host's clock, over 30 ms and more."""
    device = bench.device
    module = _vector_add(bench)
    kernel = device.load(module.spirv, module.kernel)
    size = 1 << (16 if bench.is_emulated else 20)
    block = put(device, np.zeros(size, np.float32))
    for count in (1, 16, 256, 4096, 65536):
        device.synchronize()
        start = time.perf_counter()
        first = device.record_event()
        for _ in range(count):
            device.launch(kernel, (size // 64, 1, 1), [block.pointer] * 3 + [size])
        last = device.record_event()
        elapsed = device.elapsed_ms(first, last) if bench.executes else 0.0
        host = (time.perf_counter() - start) * 1e3
        if host > 30 or not bench.executes:
            break
    bench.values |= {"host ms": host, "device ms": elapsed}
    if bench.executes and not 0.8 * host < elapsed < 1.1 * host:
        raise Wrong("the device's clock does not agree with the host's: is its resolution wrong?")


def cached_code(bench: Bench) -> None:
    """Check that the driver's own binary of a kernel computes the same when loaded again."""
    device: Any = bench.device
    module = _vector_add(bench)
    for _ in range(2):
        kernel = device.load(module.spirv, module.kernel)
        from_cache = kernel.report.from_cache
        kernel.close()
    if not from_cache:
        raise Wrong("native code is not kept: can the folder TRITON_XE_CACHE be written?")
    vector_add(bench)


def graph(bench: Bench) -> None:
    """Record c += a twice into a graph of the driver, and replay it three times."""
    from triton_xe.runtime.level_zero import raw

    device: Any = bench.device
    module, call, commands = _vector_add(bench), raw.api().call, device.list.handle
    kernel = device.load(module.spirv, module.kernel)
    a = np.arange(1024, dtype=np.float32)
    one, sums = put(device, a), put(device, np.zeros_like(a))
    recorded, replayed = raw.GraphHandle(), raw.ExecutableGraphHandle()
    call("zeCommandListBeginGraphCaptureExt", commands, None)
    for _ in range(2):
        device.launch(kernel, (16, 1, 1), [sums.pointer, one.pointer, sums.pointer, 1024])
    call("zeCommandListEndGraphCaptureExt", commands, None, ctypes.byref(recorded))
    call("zeGraphInstantiateExt", recorded, None, ctypes.byref(replayed))
    for _ in range(3):
        call("zeCommandListAppendGraphExt", commands, replayed, None, None, 0, None)
    got = get(device, sums, a.shape, a.dtype)
    call("zeExecutableGraphDestroyExt", replayed)
    call("zeGraphDestroyExt", recorded)
    bench.equal(got, 6 * a, "sums after three replays")


def recording(bench: Bench) -> None:
    """Check that a launch recorded on the device gives the same memory there, and simulated."""
    device, module = bench.device, _vector_add(bench)
    kernel = device.load(module.spirv, module.kernel)
    blocks = [put(device, np.arange(1024, dtype=np.float32)) for _ in range(3)]
    program = Program(module.kernel, bench.target.name, "spirv", module.flags, 0, (0, 0, 0), {}, ())
    with TemporaryDirectory() as folder, knobs.changed("TRITON_XE_RECORD", folder):
        made = recorder.Recorder(module.kernel, lambda _: (program, ""), ("*fp32",) * 3 + ("i32",))
        made.launch(recorder.Loaded(device, kernel, module.spirv), ("a", "b", "c", "n"), (16, 1, 1),
                    [*(block.pointer for block in blocks), 1000])
        (path,) = recordings(Path(folder))
        for name in ("gpu" if bench.is_real else "", ""):
            replay = Replay(path, name)
            wrong = next(differences(replay.recording, replay.run().after, replay.expected()), None)
            if bench.executes and wrong is not None:
                raise Wrong(f"replayed on {replay.device.name}, {wrong}")


def _records(bench: Bench) -> bool:
    """True if the driver can record launches into a graph."""
    from triton_xe.runtime.level_zero import raw

    call = "zeCommandListIsGraphCaptureEnabledExt"
    if not bench.is_real or not raw.api().has(call):
        return False
    device: Any = bench.device
    return raw.api().function(call)(device.list.handle) in (raw.QUERY_TRUE, raw.QUERY_FALSE)


def launch_cost(bench: Bench) -> None:
    device = bench.device
    module = _vector_add(bench)
    kernel = device.load(module.spirv, module.kernel)
    block = put(device, np.zeros(64, np.float32))
    count = 2000 if bench.is_real and not bench.is_emulated else 50
    for _ in range(2):
        device.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            device.launch(kernel, (1, 1, 1), [block.pointer] * 3 + [64])
        submitted = time.perf_counter()
        device.synchronize()
    bench.values |= {"us per launch": (submitted - start) * 1e6 / count,
                     "us with its run": (time.perf_counter() - start) * 1e6 / count}


def bandwidth(bench: Bench) -> None:
    """Compare the rate of c = a + b over 3 x 256 MiB with the peak by memory clock and width."""
    device, target = bench.device, bench.target
    count = (64 << 20) if bench.is_timed else 1 << 14
    module = _vector_add(bench)
    kernel = device.load(module.spirv, module.kernel)
    blocks = [device.allocate(4 * count) for _ in range(3)]
    groups = count // sample_kernel.GROUP_SIZE
    arguments = [*(block.pointer for block in blocks), count]

    def launch() -> None:
        device.launch(kernel, (groups, 1, 1), arguments)

    best = bench.milliseconds(launch)
    peak = 2 * target.memory_clock_mhz * 1e6 * target.memory_bus_bits / 8 / 1e9
    bench.values |= {"GB/s": 12 * count / best / 1e6, "peak GB/s by its clock": peak}


_PEAKS = {"float16": 1, "uint16": 1, "int8": 2}
"""Rate of the matrix unit relative to fp16."""


def matrix_rate(bench: Bench) -> None:
    """Compare the rate of a product, in blocks of 256 x 256, with the peak by units and clock."""
    device, target = bench.device, bench.target
    size = 4096 if bench.is_timed else 256
    row = next(each for each in TARGETS.values() if each.architecture == target.architecture)
    rates = PRODUCTS[row.product]
    macs = 8 * 16 * rates.lanes / rates.dpas_clocks  # of one engine and clock
    clock = target.clock_mhz * 1e6
    for kind, factor in _PEAKS.items():
        result = np.int32 if kind == "int8" else np.float32
        module, passed = kernels.compiled(bench, kernels.product, {
            "a": np.zeros((size, size), kind), "b": np.zeros((size, size), kind),
            "c": np.zeros((size, size), result), "M": size, "N": size, "K": size,
            "PRECISION": "ieee", "BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 32}, num_warps=32)
        loaded = device.load(module.spirv, module.kernel, build_flags=module.flags)
        blocks = [put(device, each) for each in passed[:3]]
        arguments = [*(block.pointer for block in blocks), *passed[3:]]

        def launch(kernel: Any = loaded, values: Any = arguments) -> None:
            device.launch(kernel, (size // 256, size // 256, 1), values)

        rate = 2e-9 * size**3 / bench.milliseconds(launch)
        peak = 2e-12 * macs * factor * target.xe_cores * target.eus_per_core * clock
        name = {"uint16": "bf16"}.get(kind, kind)
        bench.values |= {f"{name} T/s": rate, f"{name} peak": peak}
        if bench.is_timed and rate > 1.1 * peak:
            raise Wrong(f"{name} is faster than its peak: a clock or a count of units is wrong")


_TIME = "an emulated GPU says nothing about time"


def _real(bench: Bench) -> bool:
    return bench.is_real


NEEDS_DRIVER = (_real, _records)
"""Conditions of checks that need Level Zero; no simulated device meets them."""
CHECKS = (
    Check("vector-add", "A kernel is built, launched, and its results come back.", vector_add),
    Check("identity", "The driver says of the device what the table of devices says.", identity,
          _real),
    Check("memory", "Kernels reach device, shared and host memory of Level Zero, and a launch "
          "refuses plain memory of the host.", memory, _real),
    Check("cached-code", "Native code that the driver made before is loaded again, and is as good.",
          cached_code, _real),
    Check("graph", "Launches that the driver records into a graph run at each replay, in order.",
          graph, _records),
    Check("recording", "A recorded launch leaves the same memory when it is replayed, on the "
          "device and on the simulator.", recording),
    Check("timer", "The device's clock has the resolution that the driver names.", timer, _real),
)
SPEED = (
    Check("launch-cost", "Says what a launch costs the host, and with its run.", launch_cost,
          only_silicon=_TIME),
    Check("bandwidth", "Says how fast memory is, against its clock and width.", bandwidth,
          only_silicon=_TIME),
    Check("matmul-rate", "Says how fast the matrix unit is, against its units and clock, and is "
          "never faster than they allow.", matrix_rate, lambda bench: bench.target.has_dpas,
          _TIME),
)
