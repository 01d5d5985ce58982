"""The SPIR-V of the examples, read back by an independent translator, gives the same results."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
import torch

from examples import matmul, softmax, vector_add
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.tools import intel


def translator() -> tuple[str, ...] | None:
    """The command of llvm-spirv, on PATH or in the toolchain's root."""
    names = ("llvm-spirv-22", "llvm-spirv")
    return next((found for name in names if (found := intel._tool(name))), None)


def llvm_of(spirv: bytes, folder: Path) -> bytes:
    command = translator()
    assert command is not None
    binary, bitcode = folder / "kernel.spv", folder / "kernel.bc"
    binary.write_bytes(spirv)
    subprocess.run([*command, "-r", str(binary), "-o", str(bitcode)], check=True)
    return str(llvm.parse_bitcode(bitcode.read_bytes())).encode()


def _add() -> Any:
    x = torch.randn(1000, device="xpu", generator=torch.Generator("xpu").manual_seed(1))
    return vector_add.add(x, x * 3)


def _softmax() -> Any:
    x = torch.randn(33, 300, device="xpu", generator=torch.Generator("xpu").manual_seed(1))
    return softmax.softmax(x)


def _matmul() -> Any:
    seeded = torch.Generator("xpu").manual_seed(1)
    a, b = (torch.randn(96, 96, device="xpu", generator=seeded).half() for _ in range(2))
    return matmul.matmul(a, b)


@pytest.mark.skipif(translator() is None, reason="llvm-spirv is not installed")
@pytest.mark.parametrize("example", [_add, _softmax, _matmul])
def test_translated_back(
    example: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (vector_add, softmax, matmul):
        _forget(module)
    want = example()
    launch = SimulatedDevice.launch
    replaced = []

    def translated(
        self: SimulatedDevice, kernel: Any, grid: Any, args: Any, *, stream: int = 0
    ) -> None:
        spirv = binaries[kernel.name]
        kernel = self.load(llvm_of(spirv, tmp_path), kernel.name)
        replaced.append(kernel.name)
        launch(self, kernel, grid, args, stream=stream)

    binaries = {
        name: compiled.asm["spv"]
        for module in (vector_add, softmax, matmul)
        for name, compiled in _compiled(module).items()
    }
    monkeypatch.setattr(SimulatedDevice, "launch", translated)
    torch.testing.assert_close(example(), want, atol=0, rtol=0)
    assert replaced


def _forget(module: Any) -> None:
    """Drop variants other tests compiled, so that a kernel's name says which one is meant."""
    for kernel in vars(module).values():
        getattr(kernel, "device_caches", {}).clear()


def _compiled(module: Any) -> dict[str, Any]:
    """Kernels compiled since they were forgotten, by name."""
    found: dict[str, Any] = {}
    for kernel in vars(module).values():
        for cache in getattr(kernel, "device_caches", {}).values():
            for compiled in cache[0].values():
                assert compiled.name not in found, "two variants of one kernel"
                found[compiled.name] = compiled
    return found
