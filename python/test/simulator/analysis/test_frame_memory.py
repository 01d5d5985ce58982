"""Reads of operands between DPAS are done before them where they touch no memory of theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from python.test.simulator.widen.test_simulated_matmul import SURFACE, G, P
from triton_xe.llvm import PTR, VOID, Block, Instruction, Operand
from triton_xe.runtime.simulator.analysis.frame_memory import FrameMemory
from triton_xe.runtime.simulator.device import SimulatedDevice

Text = Callable[..., str]
ROWS, COLUMNS, K = 8, 16, 64


def product_text(kernel: Text, arrays: int, between: str = "") -> str:
    """C = A·B in steps of 16, whose operands go through so many arrays in turn."""
    body = "entry:\n"
    for n in range(arrays):
        body += (f"  %ta{n} = alloca <8 x i16>, align 64\n"
                 f"  %tb{n} = alloca <8 x i32>, align 64\n")
    for name in "abc":
        body += f"  %{name}i = ptrtoint {P} %{name} to i64\n"
    total = "zeroinitializer"
    for step in range(K // 16):
        n, k = step % arrays, 16 * step
        body += f"""
  %ra{k} = call <8 x i16> @{G}LSC2DBlockRead.a(i64 %ai, i32 {2 * K - 1}, i32 {ROWS - 1}, i32 {2 * K - 1}, i32 {k}, i32 0, i32 16, i32 16, i32 {ROWS}, i32 1, i1 false, i1 false, i32 0)
  store <8 x i16> %ra{k}, ptr %ta{n}, align 64
  %rb{k} = call <8 x i32> @{G}LSC2DBlockRead.b(i64 %bi, i32 {2 * COLUMNS - 1 + 32}, i32 {K - 1}, i32 {2 * COLUMNS - 1 + 32}, i32 0, i32 {k}, i32 16, i32 16, i32 16, i32 1, i1 false, i1 true, i32 0)
  store <8 x i32> %rb{k}, ptr %tb{n}, align 64
  %a{k} = load <8 x i16>, ptr %ta{n}, align 16
  %b{k} = load <8 x i32>, ptr %tb{n}, align 32
  %d{k} = call <8 x float> @{G}sub.group.dpas.x(<8 x float> {total}, <8 x i16> %a{k}, <8 x i32> %b{k}, i32 12, i32 12, i32 8, i32 8, i1 false)
{between}
"""  # noqa: E501
        total = f"%d{k}"
    body += f"""
  %w = bitcast <8 x float> {total} to <8 x i32>
  call void @{G}LSC2DBlockWrite.w(i64 %ci, i32 63, i32 {ROWS - 1}, i32 63, i32 0, i32 0, i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0, <8 x i32> %w)
"""  # noqa: E501
    other = f"""
declare <8 x i16> @{G}LSC2DBlockRead.a({SURFACE})
declare <8 x i32> @{G}LSC2DBlockRead.b({SURFACE})
declare void @{G}LSC2DBlockWrite.w({SURFACE}, <8 x i32>)
declare <8 x float> @{G}sub.group.dpas.x(<8 x float>, <8 x i16>, <8 x i32>, i32, i32, i32, i32, i1)
"""
    return kernel(f"{P} %a, {P} %b, {P} %c", body, other=other)


@pytest.mark.parametrize(("arrays", "calls"), [(1, [2, 2]), (2, [2, 2]), (4, [2, 2])])
def test_an_array_that_is_filled_again_is_read_before(
    device: SimulatedDevice, kernel: Text, align: Any, arrays: int, calls: list[int]
) -> None:
    generator = np.random.default_rng(arrays)
    a = align(generator.standard_normal((ROWS, K)).astype(np.float16))
    b = align(generator.standard_normal((K, 2 * COLUMNS)).astype(np.float16))
    c = align(np.zeros((ROWS, COLUMNS), np.float32))
    loaded = device.load(product_text(kernel, arrays).encode(), "k")
    found = re.findall(r"call \w+ @xe\.dpas\.f32\.float\.8\.16\.16\.(\d)", loaded.host.text)
    assert [int(steps) for steps in found] == calls
    device.launch(loaded, (1, 1, 1), [x.ctypes.data for x in (a, b, c)])
    exact = a.astype(np.float64) @ b[:, :COLUMNS].astype(np.float64)
    np.testing.assert_allclose(c, exact, rtol=0, atol=1e-3)


SUM, LEFT, RIGHT, OTHER, WORDS = (Operand(PTR, f"%{n}") for n in ("s", "a", "b", "o", "t"))
FRAME = [Instruction("alloca", PTR, [], x.text) for x in (SUM, LEFT, RIGHT, OTHER)]
INTO_SUM, UNKNOWN = (Operand(PTR, f"%{n}") for n in ("into", "unknown"))
BLOCK = Block("", [Instruction("getelementptr", PTR, [SUM], INTO_SUM.text)])


def arrays(memory: FrameMemory, *groups: list[Operand]) -> list[set[str | None]]:
    return [{memory.array(x) for x in group} for group in groups]


def load(x: Operand, *flags: str) -> Instruction:
    return Instruction("load", PTR, [x], "%r", flags=flags)


def store(x: Operand) -> Instruction:
    return Instruction("store", VOID, [x, x])


@pytest.mark.parametrize(("instruction", "expected"), [
    (load(OTHER), True), (load(LEFT), True), (load(WORDS), True), (load(OTHER, "volatile"), False),
    (load(SUM), False), (load(INTO_SUM), False), (load(UNKNOWN), False),
    (store(OTHER), True), (store(LEFT), False), (store(RIGHT), False), (store(INTO_SUM), False),
    (Instruction("call", VOID, [OTHER, LEFT], callee="xe.prepare_a.f16.8.16"), True),
    (Instruction("call", VOID, [RIGHT, OTHER], callee="xe.prepare_b.f16.16.16"), False),
    (Instruction("call", VOID, [OTHER, SUM], callee="xe.prepare_a.f16.8.16"), False),
    (Instruction("call", VOID, [OTHER], callee="xe.block_read.16.16.8.1.64.16.plain"), True),
    (Instruction("call", VOID, [LEFT], callee="xe.block_read.16.16.8.1.64.16.plain"), False),
    (Instruction("call", VOID, [OTHER], callee="xe.block_write.16.16.8.64.16"), False),
    (Instruction("br", VOID, []), False),
])
def test_instructions_may_pass_calls(instruction: Instruction, expected: bool) -> None:
    memory = FrameMemory(FRAME, [BLOCK], [WORDS])
    assert memory.is_independent(instruction, *arrays(memory, [SUM], [LEFT, RIGHT])) is expected


def test_nothing_is_written_where_operands_may_be_anywhere() -> None:
    memory = FrameMemory(FRAME, [BLOCK], [WORDS])
    assert memory.is_independent(load(OTHER), *arrays(memory, [SUM], [UNKNOWN]))
    assert not memory.is_independent(store(OTHER), *arrays(memory, [SUM], [UNKNOWN]))
