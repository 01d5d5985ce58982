"""Kernels compiled ahead of time: a folder with the binary, `kernel.json` and a C header.

`triton-xe compile --out DIR` writes such a folder; this module reads and launches it with neither
triton nor torch.  The description has everything that a launch needs: parameters in order,
work-group size, shared local memory, build flags, and the device of the code.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.rounding import bf16_bits
from triton_xe.runtime.arguments import Elements
from triton_xe.runtime.device import Device, Grid, Kernel
from triton_xe.runtime.opening import open_device
from triton_xe.runtime.spirv_reader import EntryPoint

if TYPE_CHECKING:
    from triton_xe.runtime.recording.recorder import Recorder

DESCRIPTION = "kernel.json"
FORMAT = 1
_TYPES = ("ptr", "i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a launch: `type` is ptr, i1, i8, ... f64 or bf16; `triton` is Triton's type.

    The value (of a pointer, the address) must be a multiple of `divisible_by`.
    """

    name: str
    type: str
    triton: str
    divisible_by: int = 1

    def __post_init__(self) -> None:
        if self.type not in _TYPES or self.divisible_by < 1:
            raise DeviceError(f"parameter {self.name!r} has no valid type or divisor: {self}")


@dataclass(frozen=True)
class Description:
    """Contents of `kernel.json`; sizes in bytes, `group_size` in work-items."""

    kernel: str
    target: str
    binary: str
    kind: Literal["spirv", "zebin"]
    parameters: tuple[Parameter, ...]
    constants: dict[str, Any]
    build_flags: str
    subgroup_size: int
    group_size: tuple[int, int, int]
    slm_bytes: int
    header: str
    sha256: str
    facts: dict[str, Any] = field(default_factory=dict)
    """Registers and spills that the compiler reported; empty if it was not run."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise DeviceError(
                f"{DESCRIPTION} has format {self.format}, this version reads {FORMAT}; "
                "compile the kernel again"
            )
        is_inside = all(Path(name).name == name for name in (self.binary, self.header))
        if self.kind not in ("spirv", "zebin") or len(self.group_size) != 3 or not is_inside:
            raise DeviceError(f"{DESCRIPTION} of {self.kernel!r} is damaged")

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Description:
        """Parse the text; `DeviceError` if it is no description."""
        try:
            values = json.loads(text)
            values["parameters"] = tuple(Parameter(**each) for each in values["parameters"])
            values["group_size"] = tuple(values["group_size"])
            return Description(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise DeviceError(f"{DESCRIPTION} is damaged: {error}") from error


class FolderKernel:
    """A kernel of a folder on a device; call it with the grid and the arguments in order."""

    def __init__(
        self, description: Description, device: Device, kernel: Kernel, binary: bytes
    ) -> None:
        self.description, self.device, self.kernel = description, device, kernel
        self.binary = binary
        self._recorder = _recorder(description) if knobs.record() else None

    def __call__(self, grid: Sequence[int], *arguments: Any, stream: int = 0) -> None:
        """Launch; a pointer is a buffer, an address, None, or any object with `data_ptr()`."""
        parameters = self.description.parameters
        if len(arguments) != len(parameters):
            names = ", ".join(each.name for each in parameters)
            raise DeviceError(
                f"kernel {self.description.kernel!r} takes {len(parameters)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        values = [self._value(*pair) for pair in zip(parameters, arguments, strict=True)]
        pointers = [(k, each.name) for k, each in enumerate(parameters) if each.type == "ptr"]
        if self._recorder is not None:
            self._recorder.launch(
                self, [each.name for each in parameters], self._grid(grid), values, stream=stream,
                tensors=(tuple(pointers), tuple(arguments[k] for k, _ in pointers)))
            return
        tensors = tuple(pointers), tuple(
            arguments[k] if hasattr(arguments[k], "stride")
            else Elements(int(values[k]), parameters[k].triton) for k, _ in pointers)
        self.device.launch(
            self.kernel, self._grid(grid), values, stream=stream, tensors=tensors)

    def _grid(self, grid: Sequence[int]) -> Grid:
        try:
            x, y, z = (operator.index(size) for size in (*grid, 1, 1)[: max(len(grid), 3)])
        except (TypeError, ValueError) as error:
            raise DeviceError(
                f"kernel {self.description.kernel!r}: a grid is one to three integers, got {grid!r}"
            ) from error
        return x, y, z

    def _value(self, parameter: Parameter, value: Any) -> int | float:
        """Convert an argument; refuse one that is not divisible as the code was compiled for."""
        try:
            number = number_of(parameter.type, value)
        except (TypeError, ValueError) as error:
            raise DeviceError(
                f"kernel {self.description.kernel!r}: {parameter.name} is {parameter.triton}, got "
                f"{value!r}"
            ) from error
        if parameter.divisible_by > 1 and number % parameter.divisible_by:
            raise DeviceError(
                f"kernel {self.description.kernel!r} was compiled for {parameter.name} divisible "
                f"by {parameter.divisible_by}, got {number:#x}"
            )
        return number

    def close(self) -> None:
        self.kernel.close()


def load_folder(folder: str | Path, device: Device | str = "") -> FolderKernel:
    """The kernel of a folder, on a device or on the device of that name (see `open_device`).

    Raise `DeviceError` if the folder is damaged or was compiled for another device.
    """
    path = Path(folder)
    try:
        description = Description.from_json((path / DESCRIPTION).read_text())
        binary = (path / description.binary).read_bytes()
    except OSError as error:
        raise DeviceError(f"{path} holds no compiled kernel: {error}") from error
    _check_digest(description, binary)
    on = open_device(device) if isinstance(device, str) else device
    if on.target.name != description.target:
        raise DeviceError(
            f"{path} was compiled for {description.target}, but {on.name} is {on.target.name}; "
            f"compile it with --target {on.target.name}"
        )
    return FolderKernel(description, on, _load(description, binary, on), binary)


def _recorder(description: Description) -> Recorder | None:
    """The recorder of a kernel's launches (see `runtime.recording`); None if they are not
    recorded.
    """
    from triton_xe.runtime.recording.folder import Program
    from triton_xe.runtime.recording.recorder import recorder

    d = description
    program = Program(d.kernel, d.target, d.kind, d.build_flags, d.subgroup_size, d.group_size,
                      {"constants": d.constants, "shared": d.slm_bytes}, ())
    return recorder(lambda _: (program, ""), d.kernel, [each.triton for each in d.parameters])


def _load(description: Description, binary: bytes, device: Any) -> Kernel:
    name = description.kernel
    if description.kind == "spirv":
        kernel: Kernel = device.load(binary, name, build_flags=description.build_flags)
        return kernel
    if device.is_simulated:
        raise DeviceError(
            f"kernel {name!r} is native code, which the simulator cannot run; compile the folder "
            "with --emit spirv"
        )
    types = tuple("i16" if p.type == "bf16" else p.type for p in description.parameters)
    entry = EntryPoint(name, types, description.subgroup_size, description.group_size)
    native: Kernel = device.load_native(binary, entry)
    return native


def _check_digest(description: Description, binary: bytes) -> None:
    import hashlib

    if hashlib.sha256(binary).hexdigest() != description.sha256:
        raise DeviceError(
            f"{description.binary} is not the file that {DESCRIPTION} describes; compile again"
        )


def number_of(kind: str, value: Any) -> int | float:
    """The number that is passed for a value; `TypeError` or `ValueError` if it has another type."""
    if kind == "ptr":
        return _address(value)
    if kind == "bf16":
        return bf16_bits(value)
    if kind.startswith("f"):
        return float(value)
    return int(value) if kind == "i1" and value in (0, 1) else operator.index(value)


def _address(value: Any) -> int:
    """Address of a tensor or buffer, or a number itself; 0 for None."""
    if value is None:
        return 0
    if hasattr(value, "data_ptr"):
        return operator.index(value.data_ptr())
    return operator.index(getattr(value, "pointer", value))
