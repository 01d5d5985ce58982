"""The SPIR-V of the examples, read back by an independent translator, gives the same results."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import torch
import triton

from examples import attention, matmul, matmul_descriptor, softmax, vector_add
from python.test.gemm.pairwise import settings
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.versions import entry_name, versions_of
from triton_xe.spirv import is_spirv
from triton_xe.tools import intel
from triton_xe.tools.commands.run import made_array, run_program

FOLDER = Path(matmul.__file__).parent


def translator() -> tuple[str, ...] | None:
    """The command of llvm-spirv, on PATH or in the toolchain's root."""
    names = ("llvm-spirv-22", "llvm-spirv")
    return next((found for name in names if (found := intel.tool(name))), None)


pytestmark = pytest.mark.skipif(translator() is None, reason="llvm-spirv is not installed")


def llvm_of(spirv: bytes, folder: Path) -> bytes:
    command = translator()
    assert command is not None
    binary, bitcode = folder / "kernel.spv", folder / "kernel.bc"
    binary.write_bytes(spirv)
    subprocess.run([*command, "-r", str(binary), "-o", str(bitcode)], check=True)
    return str(llvm.parse_bitcode(bitcode.read_bytes())).encode()


def _random(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to("xpu")


def _add() -> Any:
    x = _random(1000)
    return vector_add.add(x, x * 3)


def _softmax() -> Any:
    return softmax.softmax(_random(33, 300))


def _matmul() -> Any:
    a, b = _random(100, 72).half(), _random(72, 96).half()
    return matmul.matmul(a, b, activation="leaky_relu", blocks=(32, 32, 32), num_warps=4)


def _matmul_descriptor() -> Any:
    a, b = _random(100, 72).half(), _random(96, 72).half().T
    return matmul_descriptor.matmul(a, b, blocks=(32, 32, 32), num_warps=4)


def _attention() -> Any:
    q, k, v = (_random(1, 2, 64, 32 + n)[..., :32].half().contiguous() for n in range(3))
    return attention.attention(q, k, v, causal=True, blocks=(32, 32), num_warps=4)


EXAMPLES: dict[str, tuple[ModuleType, Callable[[], Any]]] = {
    "add_kernel": (vector_add, _add),
    "softmax_kernel": (softmax, _softmax),
    "matmul_kernel": (matmul, _matmul),
    "matmul_descriptor_kernel": (matmul_descriptor, _matmul_descriptor),
    "attention_kernel": (attention, _attention),
}


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget the code compiled for another device."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for module, _ in EXAMPLES.values():
        for kernel in vars(module).values():
            getattr(kernel, "device_caches", {}).clear()


@pytest.fixture
def translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_visa: None
) -> Callable[[], list[str]]:
    """From its call on, devices load what the translator makes of a module; tells the kernels."""
    names: list[str] = []
    load = SimulatedDevice.load

    def one(device: Any, binary: bytes, kernel_name: str, flags: str) -> Any:
        text = llvm_of(binary, tmp_path)
        return load(device, text, entry_name(binary, kernel_name), build_flags=flags)

    def translate(
        self: Any, binary: bytes, kernel_name: str, *, build_flags: str = "", general: Any = None,
    ) -> Any:
        assert is_spirv(binary)
        names.append(kernel_name)
        made = one(self, binary, kernel_name, build_flags)
        made.versions = versions_of(
            binary, kernel_name, lambda module, flags: one(self, module, kernel_name, flags),
            general)
        made.launch_state = self._native_state(made)
        return made

    def begin() -> list[str]:
        _forget()
        monkeypatch.setattr(SimulatedDevice, "load", translate)
        return names

    return begin


@pytest.mark.parametrize(*settings(
    name=list(EXAMPLES), device=["bmg", "pvc", "dg2"], strength=1))
def test_translated_back(
    name: str, device: str, translated: Callable[[], list[str]], forgotten: None,
    choose: Callable[[str], None],
) -> None:
    choose(f"sim:{device}")
    example = EXAMPLES[name][1]
    want = example()
    names = translated()
    got = example()
    assert names == [name]
    torch.testing.assert_close(got, want, atol=0, rtol=0)


@pytest.mark.parametrize("on", [
    "bmg", pytest.param("dg2", marks=pytest.mark.rest),
    pytest.param("pvc", marks=pytest.mark.slow)])
def test_xetile_translated_back(on: str, translated: Callable[[], list[str]]) -> None:
    text = (FOLDER / "xetile_gemm.mlir").read_text()
    a, b = made_array("shape:40x72:f16:seed=1"), made_array("shape:72x48:f16:seed=2")
    want, got = (np.full((40, 48), 7, np.float32) for _ in range(2))
    run_program(text, [a, b, want, 40, 48, 72], target=on)
    names = translated()
    run_program(text, [a, b, got, 40, 48, 72], target=on)
    assert names == ["gemm"]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2)


def test_every_example_is_translated() -> None:
    """Gluon's example apart: it states the layouts of one kind of device."""
    modules = [importlib.import_module(f"examples.{p.stem}") for p in FOLDER.glob("*.py")]
    kernels = {
        kernel.__name__ for module in modules for kernel in vars(module).values()
        if type(kernel) is triton.runtime.JITFunction and kernel.__name__.endswith("_kernel")
    }
    assert kernels == set(EXAMPLES)
    assert [p.name for p in FOLDER.glob("*.mlir")] == ["xetile_gemm.mlir"]
