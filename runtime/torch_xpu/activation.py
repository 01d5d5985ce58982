"""Load the library into this process, and add to `torch.xpu` what a CPU build lacks.

torch is imported inside functions only: importing torch runs `autoload`, which imports this module.
"""

from __future__ import annotations

import importlib
import sys
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import Target, target
from triton_xe.runtime.selection import Selection
from triton_xe.runtime.torch_xpu import adjustments, compilation, tf32
from triton_xe.runtime.torch_xpu.autograd_threads import wait_at_exit
from triton_xe.runtime.torch_xpu.library import Library, load

if TYPE_CHECKING:
    import torch

_loaded: Library | None = None
_targets: tuple[Target, ...] = ()


def is_loaded() -> bool:
    return _loaded is not None


def library() -> Library | None:
    return _loaded


def targets() -> tuple[Target, ...]:
    """The simulated devices of this process, in the order of their indices."""
    return _targets


def start(chosen: Selection) -> None:
    """Load the library now, or arrange for the first use of "xpu" to do it."""
    path = compilation.find()
    if path is None and knobs.device():
        path = compilation.build()
    if path is None:
        _activate_on_first_use(chosen)
        return
    activate(chosen, path)


def _activate_on_first_use(chosen: Selection) -> None:
    """Replace `torch.xpu._lazy_init`, which torch calls before it creates the first XPU tensor."""
    import torch

    original = torch.xpu._lazy_init

    def build_and_init() -> None:
        torch.xpu._lazy_init = original
        try:
            activate(chosen, compilation.build())
        except DeviceError:
            torch.xpu._lazy_init = build_and_init
            raise
        torch.xpu._lazy_init()

    torch.xpu._lazy_init = build_and_init


def activate(chosen: Selection, path: Path) -> None:
    """Register the simulated devices with torch.  Once per process; later calls do nothing."""
    global _loaded, _targets
    if _loaded is not None:
        return
    _hide_cuda()
    from triton_xe.runtime.torch_xpu.bindings import Bindings
    from triton_xe.runtime.torch_xpu.properties import properties_of, without_uuid

    made = load(path)
    chosen_targets = tuple(target(name) for name in chosen.targets)
    made.start([each.memory_bytes for each in chosen_targets])
    properties = tuple(properties_of(each, i) for i, each in enumerate(chosen_targets))
    if sys.modules["torch"].__version__.startswith("2.8."):
        properties = tuple(without_uuid(each) for each in properties)
    _loaded, _targets = made, chosen_targets
    bindings = Bindings(made, properties)
    _extend_torch(bindings.names())
    wait_at_exit()


def _hide_cuda() -> None:
    """Make torch count no CUDA devices in this process; it supports one kind of accelerator.

    torch counts once.  The environment variables that hide the devices are restored afterwards, so
    that child processes have the devices.
    """
    import torch

    count = getattr(torch._C, "_cuda_getDeviceCount", None)  # torch's builds for CUDA and for ROCm
    if count is None:
        return
    with knobs.changed("CUDA_VISIBLE_DEVICES", "-1"), knobs.changed("HIP_VISIBLE_DEVICES", "-1"):
        visible = count()
    if visible:
        raise DeviceError(
            f"{visible} CUDA devices are in use since before `import torch`, and torch takes one "
            "kind of accelerator: import torch first, or start the program with "
            "CUDA_VISIBLE_DEVICES=-1")


def _extend_torch(names: dict[str, Any]) -> None:
    """Set the functions that a CPU build lacks, and adjust what depends on them."""
    import torch

    for name, value in names.items():
        setattr(torch._C, name, value)
    torch._C._has_xpu = True
    if not torch.cuda.is_available():
        torch.cuda._is_compiled = lambda: False  # a CUDA build: fake tensors refuse two devices
    setattr(torch._C._dynamo.guards, "_empty_strided_xpu", _empty_strided)  # noqa: B010
    _rebind(torch.xpu, torch._C)
    torch.xpu._device_count_zes = lambda: -1
    setattr(torch.xpu, "has_2d_block_array", _has_2d_block_array)  # noqa: B010
    tf32.show_in_backends()
    adjustments.adjust_when_imported()
    _clear_cached_answers()


def _rebind(xpu: Any, built: Any) -> None:
    """Bind the names in `torch.xpu` that it takes from `torch._C`, which is `built`, on import.

    `torch.xpu` itself is not executed again: that takes 4 ms, and drops seeds that it queued.
    """
    for name in ("streams", "graphs", "memory"):
        module: Any = sys.modules.get(f"torch.xpu.{name}")
        if module is not None:  # graphs are there from torch 2.11 on
            module.__spec__.loader.exec_module(module)
            made = vars(module)
            vars(xpu).update((each, made[each]) for each in made.get("__all__", made)
                             if hasattr(xpu, each) and each[:2] != "__")
    xpu._is_in_bad_fork = built._xpu_isInBadFork
    xpu._XpuDeviceProperties = built._XpuDeviceProperties
    xpu._exchange_device = built._xpu_exchangeDevice
    xpu._maybe_exchange_device = built._xpu_maybeExchangeDevice


def _clear_cached_answers() -> None:
    """Clear caches in which torch has stored the accelerators of this process."""
    for name in ("torch.xpu", "torch.utils._triton", "torch._inductor.utils"):
        for value in vars(sys.modules.get(name, object)).values():
            if isinstance(value, _lru_cache_wrapper):
                value.cache_clear()
    if interfaces := sys.modules.get("torch._dynamo.device_interface"):
        importlib.reload(interfaces)


def _has_2d_block_array(device: int = -1) -> bool:
    """True if the device has 2D block messages; intel-extension-for-pytorch calls this."""
    import torch

    index = torch.xpu.current_device() if device < 0 else device
    return bool(torch.xpu.get_device_properties(index).has_subgroup_2d_block_io)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Allocate an xpu tensor; code generated by Inductor calls this."""
    import torch

    return torch.empty_strided(size, stride, dtype=dtype, device="xpu")
