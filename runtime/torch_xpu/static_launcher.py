"""Inductor's launcher of kernels that it knows by file, on a simulated device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_xe.runtime.torch_xpu.cpp import Kernel


class StaticLauncher:
    """`torch._C._StaticXpuLauncher`, which every `import torch` makes and few programs use."""

    @staticmethod
    def _load_kernel(path: str, name: str, shared: int, device: int) -> tuple[Kernel, int, int]:
        from triton_xe.runtime.torch_xpu.cpp import Kernel

        kernel = Kernel(Path(path).read_bytes(), name, device)
        registers, spills, _ = kernel.facts
        return kernel, registers, spills

    @staticmethod
    def _launch_kernel(kernel: Kernel, x: int, y: int, z: int, *arguments: Any) -> None:
        """`arguments`: warps, shared memory, letters of types, values, and the stream."""
        *_, values, stream = arguments
        taken = [each.data_ptr() if hasattr(each, "data_ptr") else each or 0
                 for each in values[:len(kernel.types)]]
        kernel.launch((x, y, z), taken, stream)
