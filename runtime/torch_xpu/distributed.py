"""`torch.distributed` between simulated devices: `xccl`, which scripts name, is gloo here.

Collectives run on the memory that a device's tensors are in, so gloo needs no copy of it.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any


class ProcessGroupXCCL:
    """Constructor of torch's class of this name, which returns a gloo group."""

    Options = SimpleNamespace

    def __new__(cls, store: Any, rank: int, size: int, options: Any) -> Any:
        from torch.distributed import ProcessGroupGloo

        return ProcessGroupGloo(store, rank, size, timeout=options._timeout)


def adjust(module: Any) -> None:
    """Give `torch.distributed.distributed_c10d` the backend that a build for XPU has."""
    names: tuple[Any, ...] = (module, sys.modules.get("torch.distributed"))
    for each in filter(None, names):
        each.is_xccl_available = lambda: True
    module.ProcessGroupXCCL = ProcessGroupXCCL
    configure = module.BackendConfig.__init__

    def also_for_cpu(self: Any, backend: Any) -> None:
        """Run collectives of XPU tensors on the group's backend for the CPU.

        For a backend that was not named torch takes the group's default to be gloo.
        """
        configure(self, backend)
        devices = self.device_backend_map
        if "xpu" in devices and backend == module.Backend.UNDEFINED:
            devices["xpu"] = module.Backend.GLOO
        if "xpu" in devices:
            devices.setdefault("cpu", devices["xpu"])

    module.BackendConfig.__init__ = also_for_cpu
