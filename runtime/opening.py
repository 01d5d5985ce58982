"""Devices by name, and numpy arrays on them, for programs without torch and triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from triton_xe.errors import DeviceError
from triton_xe.runtime.device import Buffer, Device
from triton_xe.runtime.selection import Machine, Selection, decide, select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from triton_xe.runtime.simulator.interface import HostDevice


def open_device(name: str = "") -> Device:
    """Open a device: `gpu`, `gpu:1` (the second), `sim` or `sim:pvc`; by default as for Triton.

    Raise `DeviceError` with a remedy if there is no such device.
    """
    kind, _, number = name.partition(":")
    if kind == "gpu":
        if number and not number.isdigit():
            raise DeviceError(f"{name!r} names no device; use gpu, gpu:1, sim, sim:bmg or emu:bmg")
        return _gpu(int(number or 0))
    chosen = decide(name, Machine()) if name else select()
    if chosen.kind == "none":
        raise DeviceError(f"no device: {chosen.reason}")
    if chosen.kind == "gpu":
        return _gpu(0)
    return simulated(chosen)[0]


def simulated(chosen: Selection) -> tuple[HostDevice[Any], ...]:
    """The simulated or emulated devices of a selection."""
    kind: type[HostDevice[Any]]
    if chosen.is_emulated:
        from triton_xe.runtime.emulator.device import EmulatedDevice as kind
    else:
        from triton_xe.runtime.simulator.interface import SimulatedDevice as kind
    return tuple(kind(name, index) for index, name in enumerate(chosen.targets))


def _gpu(index: int) -> Device:
    from triton_xe.runtime.level_zero.device import open_devices

    found = open_devices()
    if index >= len(found):
        raise DeviceError(
            f"there is no GPU number {index}: Level Zero found {len(found)} Intel GPUs; "
            "`triton-xe doctor` says why"
        )
    return found[index]


def put(device: Device, array: NDArray[Any]) -> Buffer:
    """A buffer on the device with the contents of an array, for `@triton.jit` kernels too."""
    source = np.ascontiguousarray(array)
    if source.dtype.hasobject:
        raise DeviceError(f"an array of {source.dtype} holds Python objects, not numbers")
    buffer = device.allocate(source.nbytes)
    buffer.dtype = source.dtype.name
    device.copy_to_device(buffer.pointer, source)
    return buffer


def get(device: Device, buffer: Buffer, shape: Any, dtype: Any) -> NDArray[Any]:
    """The first elements of a buffer as a new array, after all earlier launches."""
    array = np.empty(shape, dtype)
    if array.nbytes > buffer.nbytes:
        raise DeviceError(f"the buffer has {buffer.nbytes} bytes; {array.nbytes} were asked for")
    device.synchronize()
    device.copy_to_host(array, buffer.pointer)
    return array


def time_ms(device: Device, action: Callable[[], Any]) -> float:
    """Milliseconds that the launches of `action` take, on the device's clock."""
    start = device.record_event()
    action()
    return device.elapsed_ms(start, device.record_event())
