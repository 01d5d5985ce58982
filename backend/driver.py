"""The runtime side of the plugin: the active device, and its interfaces for Triton and torch.

Triton finds this module through the entry point `intel`, and expects one driver class in it. Torch
is used if the program has imported it; it is never imported here for its own sake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from triton_xe.backend import devices, launcher, timing
from triton_xe.backend.arch import Arch
from triton_xe.errors import XeError
from triton_xe.runtime.operator_traffic import Traffic

FLUSHED_BYTES = 256 << 20
"""Bytes that a benchmark writes to empty a card's caches, as for Triton's other devices."""

_SCALARS = {
    "i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u1": "uint8_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "fp16": "uint16_t", "bf16": "uint16_t", "fp32": "float", "f32": "float", "fp64": "double",
}


def _torch_with_xpu() -> Any:
    """torch if the program has loaded one that supports device "xpu", real or simulated."""
    torch = sys.modules.get("torch")
    return torch if getattr(getattr(torch, "_C", None), "_has_xpu", False) else None


class XeDriver(DriverBase):
    """Triton's driver; instances are cheap and equal, because torch and Inductor create their
    own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.utils = devices.DeviceUtils()
        self.launcher_cls = launcher.XeLauncher
        self._index = 0

    @classmethod
    def is_active(cls) -> bool:
        """True if this process uses an Intel GPU or a simulated one; never raises."""
        try:
            return devices.selection().kind != "none"
        except XeError:
            # a bad TRITON_XE_DEVICE: say so when the device is used, not at `import torch`
            return True

    def get_current_target(self) -> GPUTarget:
        target = devices.device(self.get_current_device()).target
        return GPUTarget("xpu", Arch(target.name), target.subgroup_size)

    def get_current_device(self) -> int:
        """torch's current device once torch is loaded; later calls go directly to torch."""
        torch = _torch_with_xpu()
        if torch is None:
            return self._index
        index = int(torch.xpu.current_device())
        self.get_current_device = torch._C._xpu_getDevice  # type: ignore[method-assign]
        return index

    def set_current_device(self, index: int) -> None:
        devices.device(index)
        self._index = index
        torch = _torch_with_xpu()
        if torch is not None:
            torch.xpu.set_device(index)

    def get_current_stream(self, index: int) -> int:
        """Address of torch's current queue on the device; 0, the device's own queue, without
        torch.
        """
        torch = _torch_with_xpu()
        if torch is None:
            return 0
        torch.xpu.current_device()
        self.get_current_stream = (  # type: ignore[method-assign]
            torch._C._xpu_getCurrentRawStream)
        return int(torch._C._xpu_getCurrentRawStream(index))

    def get_device_capability(self, index: int | None = None) -> dict[str, Any]:
        """Torch's capability mapping of the device."""
        import torch

        capability: dict[str, Any] = torch.xpu.get_device_capability(index)
        return capability

    def get_device_interface(self) -> Any:
        """`torch.xpu` if the program uses torch, otherwise an object with the same few names."""
        device = devices.device(self.get_current_device())
        torch = _torch_with_xpu()
        found: Any = timing.DeviceInterface(device) if torch is None else torch.xpu
        clock = device.clock
        if clock is not None and timing.is_do_bench(sys._getframe(1)):
            return timing.BenchInterface(found, clock)
        return found

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("xpu", self.get_current_device())

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of a kernel argument; pointers are opaque, as in Level Zero."""
        if ty.startswith("*"):
            return "void*"
        known = _SCALARS.get(ty)
        if known is None:
            raise ValueError(f"a kernel argument cannot have type {ty!r}")
        return known

    def get_benchmarker(self) -> Callable[..., Any]:
        """Triton's own on a GPU; on the simulator one that launches as rarely as possible."""
        device = devices.device(self.get_current_device())
        if device.is_simulated:
            return partial(timing.bench_simulated, clock=device.clock)
        from triton.testing import do_bench

        benchmarker: Callable[..., Any] = do_bench
        return benchmarker

    def get_empty_cache_for_benchmark(self) -> Any:
        """A tensor that exceeds the last-level cache; tiny on the simulator, which has no cache."""
        device = devices.device(self.get_current_device())
        nbytes = 4 if device.is_simulated else FLUSHED_BYTES
        torch = _torch_with_xpu()
        if torch is None:
            return timing.DeviceCache(device, nbytes)
        return torch.empty(nbytes // 4, dtype=torch.int32, device=self.get_active_torch_device())

    def clear_cache(self, cache: Any) -> None:
        """Write to all of the tensor; the clock of a simulated device counts a card's bytes.

        Benchmarks choose their repetitions by a time that includes this write.
        """
        cache.zero_()
        clock = devices.device(self.get_current_device()).clock
        if clock is not None:
            clock.operate(Traffic(written=FLUSHED_BYTES))

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Zeroed device memory that lives until the work queued before it has run."""
        import torch

        return torch.zeros(size, dtype=torch.int8, device=self.get_active_torch_device())
