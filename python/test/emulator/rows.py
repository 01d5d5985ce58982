"""Rows of the ledger (`benchmarks.loops`), launched on native code and on the simulator."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import loops
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.tools import intel

ELEMENTS = 1 << 18
GEMM = {name: 256 for name in (
    "M", "N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "length")}
SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "add": {"n": 2000}, "add, n odd": {"n": 1999}, "dropout": {"n": 2000, "seed": 42},
    "cross entropy": {"label": 3}, "inductor reduction": {"xnumel": 2, "r0_numel": 768},
    "inductor pointwise": {"xnumel": 1000}, "rotary embedding": {"length": 2, "batches": 1},
    "rms norm bf16": {"n": 4096},
}
"""Arguments of single rows; others are as in the ledger, or fit `ELEMENTS`."""


@dataclass(frozen=True)
class Compiled:
    """A row's kernel for a device: SPIR-V for the simulator, native code for the emulator."""

    row: str
    device: str
    name: str
    spirv: bytes
    build_flags: str
    binary: bytes
    parameters: tuple[str, ...]

    @property
    def program(self) -> Program:
        return Program.from_zebin(self.device, self.binary)


def compiled(row: str, device: str, **changed: int) -> Compiled:
    kernel = loops.compiled(row, device, **changed)
    spirv, flags = kernel.asm["spv"], kernel.metadata.build_flags
    names = tuple(n for n, t in kernel.src.signature.items() if t != "constexpr")
    native = intel.compile_spirv(spirv, device, flags, dump_asm=False)
    return Compiled(row, device, kernel.metadata.name, spirv, flags, native.binary, names)


def grid_of(row: str) -> tuple[int, int, int]:
    """At most two programs in each dimension, four of one; a GEMM's are inside of its matrix."""
    found = loops.ROWS[row]
    most = 4 if found.grid[1:] == (1, 1) else 2
    x, y, z = (min(size, most) for size in found.grid)
    if row == "rotary embedding":
        return 2, 1, 1
    if "M" in found.kernel.arg_names and y > 1:
        x, y = (min(2, -(-256 // found.constants[block])) for block in ("BLOCK_M", "BLOCK_N"))
    return x, y, z


def arguments(kernel: Compiled, seed: int = 1) -> list[Any]:
    """Arrays and numbers for the kernel's parameters."""
    return [_argument(kernel.row, name, seed) for name in kernel.parameters]


def _argument(row: str, name: str, seed: int) -> Any:
    kind = loops.ROWS[row]._type(name)
    if kind[0] == "*":
        return _array(kind[1:], name, np.random.default_rng([seed, zlib.crc32(name.encode())]))
    if kind == "fp32":
        return 1e-5 if name == "eps" else 0.5
    sizes = GEMM | dict(loops.ROWS[row].sizes)
    if "attention" in row:
        sizes |= {"stride_h": 256 * 128, "stride_bh": 256 * 256, "stride_b": 256}
    sizes = {"n": 1000, "stride": 4096} | sizes | dict(SPECIAL.get(row, {}))
    return sizes.get(name, 256)


def _array(kind: str, name: str, rng: np.random.Generator) -> np.ndarray:
    if name == "lock_ptr":
        return np.zeros(ELEMENTS, np.int32)
    if kind in ("i32", "i64"):
        return rng.integers(0, 4, ELEMENTS, {"i32": np.int32, "i64": np.int64}[kind])
    if kind == "i8":
        return rng.integers(-20, 20, ELEMENTS, np.int8)
    if kind == "u8":
        low, high = (125, 130) if name in ("sa_ptr", "sb_ptr") else (0, 256)
        return rng.integers(low, high, ELEMENTS).astype(np.uint8)
    values = rng.standard_normal(ELEMENTS).astype(np.float32)
    if kind.startswith("fp8"):
        import ml_dtypes

        dtype = ml_dtypes.float8_e5m2 if kind == "fp8e5" else ml_dtypes.float8_e4m3fn
        return values.astype(dtype).view(np.uint8)
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"fp16": np.float16, "fp32": np.float32}[kind])


def native_launch(
    kernel: Compiled, given: list[Any], program: Program | None = None
) -> tuple[Launch, list[Any]]:
    """A launch of native code on memory of its own, and its arguments: addresses and numbers."""
    space = AddressSpace()
    passed = [space.put(v) if isinstance(v, np.ndarray) else v for v in given]
    return Launch.from_zebin(
        program or kernel.program, kernel.binary, space, grid_of(kernel.row), passed), passed


def run_native(
    kernel: Compiled, given: list[Any], order: Any = None, program: Program | None = None,
    watch: bool = False, **limits: Any,
) -> tuple[list[np.ndarray], Launch]:
    """The arrays after a launch on native code; `watch` also notes its prefetches."""
    launch, passed = native_launch(kernel, given, program)
    if watch:
        launch.watch_prefetches()
    launch.check_waits().run(order, **limits)
    return [launch.space.get(at, value.dtype, value.shape)
            for at, value in zip(passed, given, strict=True)
            if isinstance(value, np.ndarray)], launch


def _refuse(reason: str) -> Any:
    raise AssertionError(f"the launch fails a condition of the fast version: {reason}")


def run_simulated(kernel: Compiled, given: list[Any]) -> list[np.ndarray]:
    """The arrays after a launch on the simulator."""
    device = SimulatedDevice(kernel.device)
    loaded = device.load(kernel.spirv, kernel.name, build_flags=kernel.build_flags,
                         general=_refuse)
    buffers = []
    for value in given:
        if isinstance(value, np.ndarray):
            buffers.append(device.allocate(value.nbytes))
            device.copy_to_device(buffers[-1].pointer, value)
    pointers = iter(b.pointer for b in buffers)
    passed = [next(pointers) if isinstance(v, np.ndarray) else v for v in given]
    device.launch(loaded, grid_of(kernel.row), passed)
    device.synchronize()
    results = [np.empty_like(v) for v in given if isinstance(v, np.ndarray)]
    for buffer, array in zip(buffers, results, strict=True):
        device.copy_to_host(array, buffer.pointer)
    loaded.close()
    return results


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")
