"""All that other rooms use of the simulator; each name is imported when it is first used.

| to | |
|---|---|
| open a device, load a module, launch, check, trace | `SimulatedDevice` |
| build another device over the host's memory | `HostDevice`, `ModuleKernel`, `Work` |
| ask what a kernel reads and writes | `KernelSource` |
| read a device's clock | `clock_of` |
| predict a launch without a device | `TimedKernel`, `Walk`, `line_costs` |

Recorders and others that want to see launches are observers (`runtime.observers`); what checked
launches found is in a file (`runtime.findings`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.clock import clock_of
    from triton_xe.runtime.simulator.device import SimulatedDevice
    from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel
    from triton_xe.runtime.simulator.estimate.lines import line_costs
    from triton_xe.runtime.simulator.estimate.walk import Walk
    from triton_xe.runtime.simulator.host_device import HostDevice, ModuleKernel, Work
    from triton_xe.runtime.simulator.run.kernel_source import KernelSource

_HOMES = {
    "device": ("SimulatedDevice",),
    "host_device": ("HostDevice", "ModuleKernel", "Work"),
    "run.kernel_source": ("KernelSource",),
    "clock": ("clock_of",),
    "estimate.launch_work": ("TimedKernel",),
    "estimate.walk": ("Walk",),
    "estimate.lines": ("line_costs",),
}

__all__ = [
    "HostDevice", "KernelSource", "ModuleKernel", "SimulatedDevice", "TimedKernel", "Walk", "Work",
    "clock_of", "line_costs",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"triton_xe.runtime.simulator.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
