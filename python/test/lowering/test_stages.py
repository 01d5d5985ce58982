"""Triton's kernels go through XeTile and XeGPU, and only its end names intrinsics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import loops
from examples.matmul import matmul_kernel
from python.test.operations import instructions, operations
from triton_xe.dialects.text.writer import write_module
from triton_xe.lowering import pipeline
from triton_xe.lowering.module_facts import CompileOptions

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


def test_loads_stores_and_dots_become_tiles(stages: dict[str, str]) -> None:
    fast = operations(stages["xetile"])
    assert not {"scf.if", "tt.dot", "tt.load"} & {*fast}
    assert fast.count("xetile.load_tile") == 2
    assert fast.count("xetile.tile_mma") == 1
    assert fast.count("xetile.store_tile") == 1
    assert fast.count("xetile.prefetch_tile") >= 2


def test_tiles_become_instructions(stages: dict[str, str]) -> None:
    fast = operations(stages["xegpu"])
    assert not any(name.startswith("xetile.") or name == "tt.load" for name in fast)
    assert fast.count("xegpu.load_nd") >= 2
    assert fast.count("xegpu.dpas") == 16
    assert fast.count("xegpu.store_nd") >= 4
    assert fast.count("xegpu.prefetch_nd") >= 2


def test_the_last_stage_has_one_call_per_instruction(stages: dict[str, str]) -> None:
    """In the loop."""
    written = operations(stages["xegpu"])
    calls = instructions(stages["llir"], "loop")
    assert calls.count("GenISA.sub.group.dpas") == written.count("xegpu.dpas")
    assert calls.count("GenISA.LSC2DBlockReadAddrPayload") == written.count("xegpu.load_nd")


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
    for name in ("xetile", "xegpu"):
        assert str(pipeline.stage_of(stages[name])) == stages[name]


@pytest.mark.parametrize(("name", "reused"), [
    ("add", True), ("softmax fp32", True), ("layer norm", False), ("gemm 64x64x32", False)])
def test_a_stage_that_changes_nothing_keeps_its_text(name: str, reused: bool) -> None:
    ttgir = loops.compiled(name, "bmg").asm["ttgir"]
    xetile = pipeline.make_xetile(ttgir, CompileOptions(guards="launch"), "bmg")
    str(xetile)
    made = pipeline.make_xegpu(xetile)
    assert ("text" in vars(made)) == reused
    assert str(made) == write_module(made.module, locations=True)
