"""Rows of the ledger (`benchmarks.loops`), launched on native code and on the simulator."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
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
    "rms norm bf16": {"n": 4096}, "MoE": {"stride_be": 256 * 256},
    "MoE 64x128x32": {"stride_be": 256 * 256},
}
"""Arguments of single rows; others are as in the ledger, or fit `ELEMENTS`."""


GROUPS = ((128, 128, 64), (256, 128, 128), (100, 72, 37), (1, 304, 192))
"""M, N and K of each product of row "grouped"; rows of 37 elements have no 2D messages."""


@dataclass(frozen=True)
class Table:
    """Arrays whose addresses an array in memory has."""

    arrays: tuple[np.ndarray, ...]


def arrays(value: Any) -> tuple[np.ndarray, ...]:
    """The arrays that an argument points to."""
    return value.arrays if isinstance(value, Table) else (
        (value,) if isinstance(value, np.ndarray) else ())


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


def compiled(row: str, device: str, **changed: int | str) -> Compiled:
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
    kind = loops.ROWS[row].type_of(name)
    if row == "grouped" and name != "groups":
        return _of_groups(name, seed)
    if kind[0] == "*":
        return _array(kind[1:], name, np.random.default_rng([seed, zlib.crc32(name.encode())]))
    if kind == "fp32":
        return 1e-5 if name == "eps" else 0.5
    sizes = GEMM | dict(loops.ROWS[row].sizes)
    if "attention" in row:
        sizes |= {"stride_h": 256 * 128, "stride_bh": 256 * 256, "stride_b": 256}
    sizes = {"n": 1000, "stride": 4096} | sizes | dict(SPECIAL.get(row, {}))
    return sizes.get(name, 256)


def _of_groups(name: str, seed: int) -> Any:
    if name == "size_ptr":
        return np.array(GROUPS, np.int32)
    sizes = {"a_ptr": lambda m, n, k: m * k, "b_ptr": lambda m, n, k: n * k,
             "c_ptr": lambda m, n, k: m * n}[name]
    return Table(tuple(
        _array("fp16", name, np.random.default_rng([seed, number]))[: sizes(*shape)]
        for number, shape in enumerate(GROUPS)))


def _array(kind: str, name: str, rng: np.random.Generator) -> np.ndarray:
    if name == "lock_ptr":
        return np.zeros(ELEMENTS, np.int32)
    if name == "token_ptr":
        return rng.permutation(320).astype(np.int32)
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


def _placed(
    given: list[Any], put: Callable[[np.ndarray], int]
) -> tuple[list[Any], list[tuple[int, np.ndarray]]]:
    """The arguments to pass, and the address of each array."""
    passed, found = [], []
    for value in given:
        places = [(put(array), array) for array in arrays(value)]
        found += places
        if isinstance(value, Table):
            passed.append(put(np.array([at for at, _ in places], np.int64)))
        else:
            passed.append(places[0][0] if places else value)
    return passed, found


def native_launch(
    kernel: Compiled, given: list[Any], program: Program | None = None
) -> tuple[Launch, list[tuple[int, np.ndarray]]]:
    """A launch of native code on memory of its own, and the address of each array."""
    space = AddressSpace()
    passed, places = _placed(given, space.put)
    return Launch.from_zebin(
        program or kernel.program, kernel.binary, space, grid_of(kernel.row), passed), places


def run_native(
    kernel: Compiled, given: list[Any], order: Any = None, program: Program | None = None,
    watch: bool = False, **limits: Any,
) -> tuple[list[np.ndarray], Launch]:
    """The arrays after a launch on native code; `watch` also notes its prefetches."""
    launch, places = native_launch(kernel, given, program)
    if watch:
        launch.watch_prefetches()
    launch.check_waits().run(order, **limits)
    return [launch.space.get(at, array.dtype, array.shape) for at, array in places], launch


def _refuse(reason: str) -> Any:
    raise AssertionError(f"the launch fails a condition of the fast version: {reason}")


def run_simulated(kernel: Compiled, given: list[Any]) -> list[np.ndarray]:
    """The arrays after a launch on the simulator."""
    device = SimulatedDevice(kernel.device)
    loaded = device.load(kernel.spirv, kernel.name, build_flags=kernel.build_flags,
                         general=_refuse)
    buffers = []

    def put(array: np.ndarray) -> int:
        buffers.append(device.allocate(array.nbytes))
        device.copy_to_device(buffers[-1].pointer, array)
        return buffers[-1].pointer

    passed, places = _placed(given, put)
    device.launch(loaded, grid_of(kernel.row), passed)
    device.synchronize()
    results = []
    for at, array in places:
        results.append(np.empty_like(array))
        device.copy_to_host(results[-1], at)
    loaded.close()
    return results


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")
