"""Several builds of one kernel in one folder: for devices, divisors, sizes and types.

`bundle.json` lists the kernel, its arguments in order, and the folders of its variants (see
`folder`), the most specialized first.  A launch takes the first variant that its arguments fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from typing import Any

from triton_xe.errors import DeviceError
from triton_xe.runtime.device import Device
from triton_xe.runtime.folder import (
    DESCRIPTION,
    Description,
    FolderKernel,
    Parameter,
    load_folder,
    number_of,
)
from triton_xe.runtime.opening import open_device

BUNDLE = "bundle.json"
FORMAT = 1
INTEGER_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}


@dataclass(frozen=True)
class Bundle:
    """Contents of `bundle.json`."""

    kernel: str
    arguments: tuple[str, ...]
    variants: tuple[str, ...]
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Bundle:
        """Parse the text; `DeviceError` if it is not a bundle of this version."""
        try:
            values = json.loads(text)
            values |= {name: tuple(values[name]) for name in ("arguments", "variants")}
            made = Bundle(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise DeviceError(f"{BUNDLE} is damaged: {error}") from error
        is_inside = all(Path(name).name == name for name in made.variants)
        if made.format != FORMAT or not is_inside:
            raise DeviceError(f"{BUNDLE} is damaged, or of another version; compile it again")
        return made


def specialness(description: Description) -> float:
    """How specialized a variant is: the more it requires of its arguments, the larger."""
    divisors = sum(log2(each.divisible_by) for each in description.parameters)
    return 64 * len(description.constants) + divisors


def refusal(description: Description, given: Mapping[str, Any]) -> str:
    """Reason why a variant cannot be launched with these arguments; empty if it can.

    `given` has the arguments that any variant takes; those that are constant in all may be left
    out.
    """
    for name, constant in description.constants.items():
        if name in given and given[name] != constant:
            return f"it is for {name} = {constant!r}, not {given[name]!r}"
    reasons = (_refusal_of(each, given) for each in description.parameters)
    return next(filter(None, reasons), "")


def _refusal_of(parameter: Parameter, given: Mapping[str, Any]) -> str:
    """Reason why a kernel cannot take the value for a parameter; empty if it can."""
    value, what = given[parameter.name], f"it takes {parameter.triton} for {parameter.name}, not"
    elements = _elements_of(value)
    if parameter.type == "ptr" and elements and f"*{elements}" != parameter.triton.replace("k", ""):
        return f"{what} *{elements}"
    if isinstance(value, float) and parameter.type in INTEGER_BITS:
        return f"{what} {value!r}"
    try:
        number = number_of(parameter.type, value)
    except (TypeError, ValueError):
        return f"{what} {value!r}"
    bits = INTEGER_BITS.get(parameter.type)
    if bits is not None and not _fits(int(number), bits, parameter.triton.startswith("u")):
        return f"{what} {value!r}, which is too large"
    if parameter.divisible_by > 1 and number % parameter.divisible_by:
        return f"{parameter.name} must be divisible by {parameter.divisible_by}, not {number:#x}"
    return ""


def _fits(number: int, bits: int, unsigned: bool) -> bool:
    low, high = (0, 1 << bits) if unsigned else (-1 << bits - 1, 1 << bits - 1)
    return low <= number < high


_ELEMENTS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
             "bool": "i1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5"}


def _elements_of(value: Any) -> str:
    """Element type of a tensor or array, as Triton spells it; empty if it has none."""
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    return _ELEMENTS.get(name, name.replace("uint", "u").replace("int", "i"))


class BundleKernel:
    """A kernel of a bundle on a device; call it with the grid and the kernel's arguments."""

    def __init__(self, path: Path, bundle: Bundle, device: Device) -> None:
        self.path, self.bundle, self.device = path, bundle, device
        described = {name: _description(path / name) for name in bundle.variants}
        self.descriptions = {
            name: each for name, each in described.items() if each.target == device.target.name
        }
        if not self.descriptions:
            targets = ", ".join(sorted({each.target for each in described.values()}))
            raise DeviceError(
                f"{path} was compiled for {targets}, but {device.name} is {device.target.name};"
                f" add --target {device.target.name}"
            )
        self._kernels: dict[str, FolderKernel] = {}

    def __call__(
        self, grid: Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]], *arguments: Any,
        stream: int = 0, **named: Any,
    ) -> None:
        """Launch the first variant that fits; `grid` may be a function of its constants.

        Arguments are the kernel's, in its order or by name; constants may be left out.
        """
        given = dict(zip(self.bundle.arguments, arguments, strict=False)) | named
        unknown = [name for name in named if name not in self.bundle.arguments]
        if len(arguments) > len(self.bundle.arguments) or unknown:
            raise DeviceError(
                f"kernel {self.bundle.kernel!r} takes {', '.join(self.bundle.arguments)}; got"
                f" {', '.join(unknown) or len(arguments)}"
            )
        name = self.choose(given)
        found = self.descriptions[name]
        sizes = grid(found.constants) if callable(grid) else grid
        self._kernel(name)(sizes, *(given[p.name] for p in found.parameters), stream=stream)

    def choose(self, given: Mapping[str, Any]) -> str:
        """The folder of the first variant that fits; `DeviceError` gives the reasons if none
        does.
        """
        taken = {p.name for each in self.descriptions.values() for p in each.parameters}
        missing = [name for name in self.bundle.arguments if name in taken and name not in given]
        if missing:
            raise DeviceError(f"kernel {self.bundle.kernel!r} needs {', '.join(missing)}")
        reasons = {name: refusal(each, given) for name, each in self.descriptions.items()}
        for name, reason in reasons.items():
            if not reason:
                return name
        listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise DeviceError(
            f"no variant of kernel {self.bundle.kernel!r} for {self.device.target.name} fits these"
            f" arguments: {listed}; compile one more with --signature"
        )

    def _kernel(self, name: str) -> FolderKernel:
        if name not in self._kernels:
            self._kernels[name] = load_folder(self.path / name, self.device)
        return self._kernels[name]

    def close(self) -> None:
        for kernel in self._kernels.values():
            kernel.close()


def _description(folder: Path) -> Description:
    try:
        return Description.from_json((folder / DESCRIPTION).read_text())
    except OSError as error:
        raise DeviceError(f"{folder} holds no compiled kernel: {error}") from error


def load_bundle(folder: str | Path, device: Device | str = "") -> BundleKernel:
    """The kernel of a bundle, on a device or on the device of that name; variants load when used.

    Raise `DeviceError` if the folder is damaged or has nothing for the device.
    """
    path = Path(folder)
    try:
        bundle = Bundle.from_json((path / BUNDLE).read_text())
    except OSError as error:
        raise DeviceError(f"{path} holds no bundle: {error}") from error
    return BundleKernel(path, bundle, open_device(device) if isinstance(device, str) else device)
