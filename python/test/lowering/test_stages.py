"""Triton's kernels go through XeTile and XeGPU, and only its end names intrinsics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.compile_time import source_of, stage_times
from examples.matmul import matmul_kernel
from triton_xe.dialects.text.writer import write_module
from triton_xe.lowering import pipeline

ROOT = Path(__file__).parents[3]
CONSTANTS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "ACTIVATION": "",
             "stride_ak": 1, "stride_bn": 1, "stride_cn": 1}


@pytest.fixture(scope="module")
def stages() -> dict[str, str]:
    names = matmul_kernel.arg_names
    types = {n: "constexpr" if n in CONSTANTS else "*fp16" if n.endswith("_ptr") else "i32"
             for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
               if types[n] != "constexpr"}
    source = ASTSource(matmul_kernel, types, CONSTANTS, aligned)
    kernel = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 4})
    return {name: text for name, text in kernel.asm.items() if isinstance(text, str)}


def count(text: str, operation: str) -> int:
    """How often an operation stands in a text, remarks about it apart."""
    text = re.sub(r'"[^"]*"', '""', text)
    return len(re.findall(rf"(?<![\w.]){re.escape(operation)}(?![\w.])", text))


def test_loads_stores_and_dots_become_tiles(stages: dict[str, str]) -> None:
    fast = stages["xetile"]
    assert count(fast, "scf.if") == count(fast, "tt.dot") == 0
    assert count(fast, "tt.load") == 0
    assert count(fast, "xetile.load_tile") == 2
    assert count(fast, "xetile.tile_mma") == 1
    assert count(fast, "xetile.store_tile") == 1
    assert count(fast, "xetile.prefetch_tile") >= 2


def test_tiles_become_instructions(stages: dict[str, str]) -> None:
    assert "xetile." not in stages["xegpu"]
    fast = stages["xegpu"]
    assert count(fast, "tt.load") == 0
    assert count(fast, "xegpu.load_nd") >= 2
    assert count(fast, "xegpu.dpas") == 16
    assert count(fast, "xegpu.store_nd") >= 4
    assert count(fast, "xegpu.prefetch_nd") >= 2


def test_the_last_stage_has_one_call_per_instruction(stages: dict[str, str]) -> None:
    """In the loop; the first pass before it has as many."""
    first, loop = stages["llir"].split("\nloop")[0], stages["llir"].split("\nloop")[-1]
    for part in (first, loop.split("\nafter")[0]):
        calls = re.findall(r"call [^\n]*@\"llvm\.genx\.GenISA\.([\w.]+)\"", part)
        for call, operation in (("sub.group.dpas", "dpas"), ("LSC2DBlockRead", "load_nd")):
            made = sum(c.startswith(call) for c in calls)
            assert made == count(stages["xegpu"], f"xegpu.{operation}")


@pytest.mark.parametrize("folder", ["triton_xe/dialects", "triton_xe/plan", "triton_xe/layout",
                                    "triton_xe/hardware", "lowering", "backend"])
def test_only_the_last_lowering_names_intrinsics(folder: str) -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / folder).rglob("*.py"))
        if re.search(r"[\"'][^\"'\n]*(?:llvm\.genx|GenISA|__spirv_|_Z\d+[a-z])", path.read_text())
    ]
    assert [p for p in found if not p.startswith("lowering/emit/")] == []


def test_every_stage_reads_back(stages: dict[str, Any]) -> None:
    from triton_xe.lowering import pipeline

    for name in ("xetile", "xegpu"):
        assert str(pipeline.stage_of(stages[name])) == stages[name]


@pytest.mark.parametrize(("name", "reused"), [
    ("add", True), ("softmax fp32", True), ("layer norm", False), ("gemm 64x64x32", False)])
def test_a_stage_that_changes_nothing_keeps_its_text(
    name: str, reused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def checked(xetile: Any) -> Any:
        str(xetile)
        made = make_xegpu(xetile)
        seen.append("text" in vars(made))
        assert str(made) == write_module(made.module, locations=True)
        return made

    make_xegpu = pipeline.make_xegpu
    monkeypatch.setattr(pipeline, "make_xegpu", checked)
    stage_times(GPUTarget("xpu", "bmg", 16), "xegpu", *source_of(name))
    assert seen == [reused]
