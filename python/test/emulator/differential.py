"""Run each launch of an emulated device on the simulator too, and compare all memory.

    TRITON_XE_DEVICE=emu:bmg pytest -p python.test.emulator.differential --sample 600 \\
        python/test/language

`--sample N` keeps N of the tests, drawn by `--sample-seed`.  `compare_launches` does the same in
any program.  A launch fails its test if its memory differs, except:

- Floats may differ by `ROUNDING`: Intel's library and `math.*` have errors of their own.  Types
  are those of the tensors; for other pointers, those that the instructions compute.
- Two NaNs are equal.
- A kernel that uses the old values of atomics shows the order of its threads, and those in
  `UNDEFINED` compute what Triton leaves undefined.  There the test judges what native code left.

Each module must also be valid SPIR-V, if `spirv-val` is installed: Intel's compiler makes wrong
code of others without a word.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from triton_xe.runtime.emulator.device import EmulatedDevice
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.messages.lsc import OPERATIONS
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.recording.views import root_of
from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.tools import intel

ROUNDING = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Relative errors that hardware's functions may cause; numbers of fp8 may be neighbours."""
REGISTERS = {"df": ("float64",), "f": ("float32", "bfloat16"), "hf": ("float16",),
             "bf": ("bfloat16",)}
"""Types of registers -> types of memory that instructions with them may have computed."""
HOW = ("equal", "rounded", "left to the test")
UNDEFINED = ("divisions",)
"""Kernels that divide integers by zero."""
LONG_VECTORS = "Illegal number of components"
"""The validator's message for vectors of more than 16 elements, which results of messages are."""
counts: Counter[str] = Counter()


class Different(AssertionError):
    """Native code left other memory than the simulator."""


def compare_launches() -> None:
    """From now on launches on emulated devices run twice."""
    emulated = EmulatedDevice.execute
    twins: dict[int, tuple[SimulatedDevice, Any]] = {}

    def run(self: EmulatedDevice, kernel: Any, work: Any) -> None:
        places = places_of(self, kernel, work)
        before = [place.memory.copy() for place in places]
        emulated(self, kernel, work)
        native = [place.memory.copy() for place in places]
        _fill(places, before)
        if kernel.serial not in twins:
            _check_module(kernel.module)
            twins[kernel.serial] = _twin(self, kernel)
        device, twin = twins[kernel.serial]
        device.execute(twin, work)
        program: Program = kernel.native.program
        how = max((compared(kernel.name, x, place, program)
                   for x, place in zip(native, places, strict=True)),
                  key=HOW.index, default="equal")
        counts[how] += 1
        if how == HOW[-1]:
            _fill(places, native)

    EmulatedDevice.execute = run  # type: ignore[method-assign]


def _check_module(module: bytes) -> None:
    problem = None if intel.spirv_val_available() else intel.spirv_val(module)
    if problem is not None and LONG_VECTORS not in problem:
        raise Different(f"the module is not valid SPIR-V: {problem}")


def _twin(emulated: EmulatedDevice, kernel: Any) -> tuple[SimulatedDevice, Any]:
    """A simulated device with the memory of an emulated one, and the same kernel on it."""
    device = SimulatedDevice(emulated.target.name, emulated.index)
    device.blocks = emulated.blocks
    return device, device.load(kernel.module, kernel.name, build_flags=kernel.build_flags)


def _fill(places: list[Place], values: list[np.ndarray]) -> None:
    for place, contents in zip(places, values, strict=True):
        place.memory[...] = contents


@dataclass(frozen=True)
class Place:
    """A block of memory that pointers of a launch point to."""

    memory: np.ndarray
    types: set[str]
    """Types of the elements of the tensors in it; "" for a pointer without a tensor."""

    def formats(self, program: Program) -> Iterator[str]:
        """The types of floats that may be in it."""
        for each in self.types:
            if each:
                yield from (each,) if each in ROUNDING or each.startswith("float8") else ()
            else:
                yield from _computed(program)


def places_of(device: EmulatedDevice, kernel: Any, work: Any) -> list[Place]:
    """The memory of all tensors, arrays and blocks that pointers of a launch point to.

    The device's blocks of borrowed memory may reach past an array, into what others change.
    """
    found: dict[int, Place] = {}
    tensors = {k: tensor for (k, _), tensor in zip(*(work.tensors or ((), ())), strict=True)}
    for k in sorted(kernel.pointer_arguments):
        tensor = tensors.get(k)
        block = root_of(device, tensor, int(work.args[k]))
        if block is not None and block.nbytes:
            place = Place(_memory(block.low, block.nbytes), set())
            found.setdefault(block.low, place).types.add(
                str(getattr(tensor, "dtype", "")).rpartition(".")[2])
    return list(found.values())


def _computed(program: Program) -> set[str]:
    """Types of floats that the instructions of a program compute."""
    targets = (each.destination for each in program.instructions)
    return {each for target in targets if target is not None
            for each in REGISTERS.get(target.type, ())}


def _memory(address: int, size: int) -> np.ndarray:
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def compared(
    name: str, native: np.ndarray, place: Place, program: Program
) -> str:
    """How memory that native code left is like that of the simulator; else `Different`."""
    simulated = place.memory
    if np.array_equal(native, simulated):
        return "equal"
    if any(_is_rounded(native, simulated, each) for each in place.formats(program)):
        return "rounded"
    if name in UNDEFINED or any(map(_depends_on_order, program.instructions)):
        return "left to the test"
    wrong = np.flatnonzero(native != simulated)
    raise Different(f"kernel {name}: {len(wrong)} bytes differ, the first at {wrong[0]}: native "
                    f"code left {native[wrong[0]]}, the simulator {simulated[wrong[0]]}")


def _depends_on_order(instruction: Instruction) -> bool:
    """True for an atomic message with a result, or one that adds floats."""
    target = instruction.destination
    if not instruction.op.startswith("send") or instruction.subop not in ("ugm", "slm"):
        return False
    descriptor = instruction.sources[3].value
    name = OPERATIONS.get(int(descriptor, 0) & 63, "") if descriptor else ""
    returns = target is not None and not target.is_null
    adds = name.endswith(("fadd", "fsub"))
    return adds or (name.startswith("atomic") and returns)


def _is_rounded(native: np.ndarray, simulated: np.ndarray, kind: str) -> bool:
    if kind.startswith("float8"):
        return bool((abs(native.astype(int) - simulated) <= 1).all())
    size = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
    whole = len(native) // size * size
    if not np.array_equal(native[whole:], simulated[whole:]):
        return False
    bits = [x[:whole].view(f"u{size}") for x in (native, simulated)]
    differ = bits[0] != bits[1]
    a, b = (_numbers(x[differ], kind) for x in bits)
    return _within(a, b, ROUNDING[kind], np.finfo(a.dtype))


def _numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32) if kind == "bfloat16" else (
        bits.view(kind))


def _within(a: np.ndarray, b: np.ndarray, bound: float, limits: Any) -> bool:
    """True if all are normal numbers, and close to each other, or both are NaN.

    Signalling NaNs among the bits, which may be integers', do not warn when they are converted.
    """
    with np.errstate(all="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        sizes = np.maximum(abs(a), abs(b))
        close = (abs(a - b) <= bound * sizes + 1e-6) & (sizes >= float(limits.tiny)) & (
            sizes <= float(limits.max))
    return bool((close | (np.isnan(a) & np.isnan(b))).all())


# --- pytest -----------------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--sample", type=int, default=0)
    parser.addoption("--sample-seed", default="1")


def pytest_configure(config: Any) -> None:
    compare_launches()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    count = config.getoption("--sample")
    if 0 < count < len(items):
        chosen = set(random.Random(config.getoption("--sample-seed")).sample(
            range(len(items)), count))
        items[:] = [item for k, item in enumerate(items) if k in chosen]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"launches on both devices: {dict(counts)}")
