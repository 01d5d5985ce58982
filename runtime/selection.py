"""Choose the device that kernels run on: a real Intel GPU, simulated ones, or none.

`decide` is the whole policy, a pure function of the user's request and of the machine's properties.
`select` examines the machine, cheaply: it imports neither torch nor triton and starts no process.

The policy, first match wins (`TRITON_XE_DEVICE` is the user's request):

| request | machine | choice |
|---|---|---|
| `gpu` | any | the GPU (its first use reports a missing one) |
| `sim`, `sim:pvc`, `sim:bmg,pvc` | any | simulated devices, `bmg` if none is named |
| none | a program under `triton-xe emulate` | its GPU |
| none | Intel GPU, torch not a CPU-only build | the GPU |
| none | a GPU of NVIDIA or AMD | none: their Triton backend remains the only active one |
| none | torch is an XPU build, no Intel GPU | none: that torch cannot have simulated tensors |
| none | anything else | one simulated `bmg` |

If torch has no XPU support, it cannot have tensors on an Intel GPU (mostly a laptop's integrated
one), so that `device="xpu"` is simulated.  The reason says what to install.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Literal, NamedTuple

from triton_xe import knobs
from triton_xe.errors import DeviceError

DEFAULT_TARGET = "bmg"
MAX_DEVICES = 64
INTEL_VENDOR_ID = "0x8086"

Kind = Literal["gpu", "sim", "none"]
TorchBuild = Literal["xpu", "other", "missing"]


class Machine(NamedTuple):
    """The machine's properties for `decide`; `other_gpu` is another vendor's name, or empty."""

    intel_gpu: bool = False
    other_gpu: str = ""
    torch: TorchBuild = "missing"


class Selection(NamedTuple):
    """The choice: `targets` names one simulated device each and is empty unless kind is "sim"."""

    kind: Kind
    targets: tuple[str, ...]
    reason: str
    on_request: bool = False
    """True if kernels are left to another vendor's backend until `TRITON_XE_DEVICE` is set."""
    is_emulated: bool = False
    """True if simulated devices execute native code."""


def decide(request: str, machine: Machine) -> Selection:
    """Apply the policy above; `DeviceError` if `request` is not a device.

    >>> decide("sim:bmg,pvc", Machine()).targets
    ('bmg', 'pvc')
    >>> decide("", Machine(other_gpu="NVIDIA")).kind
    'none'
    """
    if request:
        return _read_request(request.strip())
    if machine.intel_gpu and machine.torch != "other":
        return Selection("gpu", (), "this machine has an Intel GPU")
    if machine.other_gpu:
        return Selection(
            "none", (), f"this machine has an {machine.other_gpu} GPU, so the simulator is used "
            "only when TRITON_XE_DEVICE=sim asks for it", on_request=True)
    if machine.torch == "xpu":
        return Selection(
            "none", (), "this torch is an XPU build but no Intel GPU was found; install torch's "
            "CPU build to use the simulator")
    if machine.intel_gpu:
        return Selection(
            "sim", (DEFAULT_TARGET,), "this machine has an Intel GPU, but this torch has no XPU "
            "support; install torch's XPU build to use the GPU")
    return Selection("sim", (DEFAULT_TARGET,), "this machine has no GPU")


def _read_request(request: str) -> Selection:
    """The devices that a value of TRITON_XE_DEVICE names; raise if it names none."""
    kind, colon, names = request.partition(":")
    if request == "gpu":
        return Selection("gpu", (), "TRITON_XE_DEVICE=gpu asks for it")
    if kind == "gpu":
        raise DeviceError(
            f"TRITON_XE_DEVICE={request} names no device; TRITON_XE_DEVICE=gpu uses all Intel "
            "GPUs, and ZE_AFFINITY_MASK chooses among them")
    if kind not in ("sim", "emu") or (colon and not names):
        from triton_xe.hardware.target import TARGETS

        raise DeviceError(
            f"TRITON_XE_DEVICE={request} names no device; use gpu, sim, emu, or sim: or emu: and "
            f"one or more of {', '.join(TARGETS)}, as in sim:bmg,pvc")
    targets = tuple(names.split(",")) if names else (DEFAULT_TARGET,)
    _check_targets(request, targets)
    return Selection(
        "sim", targets, f"TRITON_XE_DEVICE={request} asks for it", is_emulated=kind == "emu")


def _check_targets(request: str, targets: tuple[str, ...]) -> None:
    from triton_xe.hardware.target import is_target, known_names

    unknown = [name for name in targets if not is_target(name)]
    if unknown:
        raise DeviceError(
            f"TRITON_XE_DEVICE={request} names an unknown device {unknown[0]!r}; "
            + known_names(unknown[0]))
    if len(targets) > MAX_DEVICES:
        raise DeviceError(
            f"TRITON_XE_DEVICE names {len(targets)} devices; at most {MAX_DEVICES} are simulated")


def select() -> Selection:
    """The device choice for this process, from `TRITON_XE_DEVICE` and this machine."""
    request = knobs.device()
    if not request and knobs.emulated():
        return Selection("gpu", (), "`triton-xe emulate` gives this program an emulated GPU")
    return decide(request, Machine() if request else look(Path("/")))


def look(root: Path) -> Machine:
    """Examine this machine; `root` is the root of the file system."""
    return Machine(_has_intel_gpu(root), _other_gpu(root), torch_build())


def torch_build() -> TorchBuild:
    """Kind of the installed torch (XPU build or not), read from its files, without importing it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return "missing"
    if spec is None or spec.origin is None:
        return "missing"
    libraries = Path(spec.origin).parent / "lib"
    is_xpu = any((libraries / name).exists() for name in ("libtorch_xpu.so", "torch_xpu.dll"))
    return "xpu" if is_xpu else "other"


def _has_intel_gpu(root: Path) -> bool:
    """True if there is an Intel render node and Level Zero's loader, which kernels need.

    WSL2 has `/dev/dxg` for the GPUs of all vendors; there Intel's driver decides.
    """
    if (root / "dev/dxg").exists() and _has_library(root, "libze_intel_gpu.so.1"):
        return _has_level_zero(root)
    nodes = sorted(name for name in _names(root / "dev/dri") if name.startswith("renderD"))
    vendors = (root / "sys/class/drm" / name / "device/vendor" for name in nodes)
    return any(_text(path) == INTEL_VENDOR_ID for path in vendors) and _has_level_zero(root)


def _names(folder: Path) -> list[str]:
    """Names in a folder; empty if it does not exist or cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _has_level_zero(root: Path) -> bool:
    if knobs.level_zero():
        return Path(knobs.level_zero()).exists()
    return _has_library(root, "libze_loader.so.1")


def _has_library(root: Path, name: str) -> bool:
    folders = [root / name for name in (
        "usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64", "lib64",
        "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "opt/intel/oneapi/lib")]
    folders = [*knobs.library_folders(), *folders]
    return any((folder / name).exists() for folder in folders)


def _other_gpu(root: Path) -> str:
    """Maker of a GPU that is not Intel's; empty if there is none."""
    nvidia = ("proc/driver/nvidia/version", "dev/nvidia0", "usr/lib/wsl/lib/libcuda.so.1")
    if any((root / name).exists() for name in nvidia):
        return "NVIDIA"
    return "AMD" if (root / "dev/kfd").exists() else ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
