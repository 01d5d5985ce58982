"""The devices of this process, opened on first use, with the functions that Triton calls."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from triton_xe import knobs
from triton_xe.backend.general_version import general_version
from triton_xe.errors import DeviceError
from triton_xe.runtime.device import Device, Kernel
from triton_xe.runtime.selection import Selection, select
from triton_xe.spirv import BUILD_FLAGS, attached


@functools.cache
def selection() -> Selection:
    """The choice of device, made once per process."""
    return select()


@functools.cache
def devices() -> tuple[Device, ...]:
    """All devices; `DeviceError` if the choice is "none" or nothing was found."""
    chosen = selection()
    if chosen.kind == "none":
        raise DeviceError(f"no device for Triton's xpu backend: {chosen.reason}")
    if chosen.kind == "gpu":
        from triton_xe.runtime.level_zero.device import open_devices

        found = tuple(open_devices())
        if not found:
            raise DeviceError(f"Level Zero finds no Intel GPU, and {chosen.reason}; `triton-xe "
                              "doctor` says what is missing, TRITON_XE_DEVICE=sim simulates one")
        return found
    from triton_xe.runtime.opening import simulated

    made = simulated(chosen)
    if chosen.is_emulated and knobs.lines():
        from triton_xe.runtime.emulator.device import EmulatedDevice
        from triton_xe.tools.report.native_lines import keep_lines

        for emulated in made:
            assert isinstance(emulated, EmulatedDevice)
            keep_lines(emulated)
    if knobs.exact_clock():
        from triton_xe.tools.exact import native_issue

        for each in made:
            assert each.clock is not None
            each.clock.native = native_issue
    return made


def device(index: int) -> Device:
    """Device number `index`; `DeviceError` if there is none."""
    found = devices()
    if not 0 <= index < len(found):
        raise DeviceError(f"there is no device xpu:{index}; this process has {len(found)}")
    return found[index]


def native_device(target: str) -> Any:
    """The first GPU of this process that runs code of a target; None if there is none."""
    if selection().kind != "gpu":
        return None
    return next((found for found in devices() if found.target.name == target), None)


def native_identity(target: str) -> str:
    """Driver and device for which native code would be built here; empty if none can be built."""
    found = native_device(target)
    if found is not None:
        return str(found.native_identity)
    if knobs.debug():
        print(f"triton-xe: no native code: this process has no GPU of type {target}",
              file=sys.stderr)
    return ""


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """Module and function that `load_binary` returns: a kernel and its device."""

    device: Device
    kernel: Kernel
    index: int
    launch_state: Any
    """State for compiled launch code; None for a simulated kernel."""
    binary: bytes = b""
    """The module from which it was loaded."""

    def close(self) -> None:
        self.kernel.close()


class DeviceUtils:
    """`driver.utils`: the calls that Triton's runtime makes on any backend."""

    def load_binary(
        self, name: str, binary: bytes, shared: int, index: int
    ) -> tuple[LoadedKernel, LoadedKernel, int, int, int]:
        """Return (module, function, registers, spilled bytes, most threads of a work-group)."""
        on = device(index)
        kernel = on.load(
            binary, name, build_flags=attached(binary, BUILD_FLAGS),
            general=functools.partial(general_version, binary),
        )
        loaded = LoadedKernel(on, kernel, index, kernel.launch_state, binary)
        return loaded, loaded, kernel.n_registers, kernel.n_spills, kernel.max_threads

    def unload_module(self, module: LoadedKernel) -> None:
        """Unload; also called at interpreter exit, when modules that it needs may be gone."""
        try:
            module.close()
        except (AttributeError, ImportError, TypeError, DeviceError):
            return

    def wait(self) -> None:
        """Wait until every kernel on every device has ended.

        Launch hooks of Intel's own backend call it before output is read.
        """
        for opened in devices():
            opened.synchronize()

    def get_device_properties(self, index: int) -> dict[str, Any]:
        return device(index).properties()
