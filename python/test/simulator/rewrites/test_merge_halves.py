"""Halves of words that are converted apart are converted where they lie, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.merge_halves import merge_halves

P = "ptr addrspace(1)"
Text = Callable[..., str]
EVEN, ODD = "<i32 0, i32 2>", "<i32 1, i32 3>"
ROUND = "llvm.genx.GenISA.ftobf.v2i16.v2f32"
INTERLEAVED = "<4 x i32> <i32 0, i32 2, i32 1, i32 3>"
HALVES = f"""
  %h = bitcast <2 x i32> %w to <4 x half>
  %e = shufflevector <4 x half> %h, <4 x half> %h, <2 x i32> {EVEN}
  %l = fpext <2 x half> %e to <2 x float>
  %g = bitcast <2 x i32> %w to <4 x half>
  %o = shufflevector <4 x half> %g, <4 x half> %g, <2 x i32> {ODD}
  %u = fpext <2 x half> %o to <2 x float>
  %x = shufflevector <2 x float> %l, <2 x float> %u, {INTERLEAVED}
"""
BRAINS = f"""
  %s = shl <2 x i32> %w, <i32 16, i32 16>
  %l = bitcast <2 x i32> %s to <2 x float>
  %a = and <2 x i32> %w, <i32 4294901760, i32 4294901760>
  %u = bitcast <2 x i32> %a to <2 x float>
  %x = shufflevector <2 x float> %l, <2 x float> %u, {INTERLEAVED}
"""
PACKED = f"""
  %f = bitcast <2 x i32> %w to <2 x float>
  %v = shufflevector <2 x float> %f, <2 x float> <float 1.5, float 0x7ff8000000000000>,
                     <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %l = shufflevector <4 x float> %v, <4 x float> %v, <2 x i32> {EVEN}
  %u = shufflevector <4 x float> %v, <4 x float> %v, <2 x i32> {ODD}
  %x = shufflevector <2 x float> %l, <2 x float> %u, {INTERLEAVED}
"""
ROUNDED = f"""
  %h = bitcast <2 x i32> %w to <4 x half>
  %v = fpext <4 x half> %h to <4 x float>
  %a = shufflevector <4 x float> %v, <4 x float> %v, <2 x i32> <i32 0, i32 1>
  %b = call <2 x i16> @{ROUND}(<2 x float> %a, i32 0)
  %c = zext <2 x i16> %b to <2 x i32>
  %d = shl <2 x i32> %c, <i32 16, i32 16>
  %l = bitcast <2 x i32> %d to <2 x float>
  %e = shufflevector <4 x float> %v, <4 x float> %v, <2 x i32> <i32 2, i32 3>
  %f = call <2 x i16> @{ROUND}(<2 x float> %e, i32 0)
  %g = zext <2 x i16> %f to <2 x i32>
  %o = shl <2 x i32> %g, <i32 16, i32 16>
  %u = bitcast <2 x i32> %o to <2 x float>
  %x = shufflevector <2 x float> %l, <2 x float> %u, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
"""
SIDES = HALVES.replace(ODD, EVEN, 1).replace(f"%h, <2 x i32> {EVEN}", f"%h, <2 x i32> {ODD}")
"""The other way round: not the elements in their order."""


def text_of(kernel: Text, body: str) -> str:
    lines = " ".join(body.split("\n")).replace("  %", "\n  %")
    return kernel(f"{P} %pw, {P} %px", f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %i = mul i32 %lane, 2
  %from = getelementptr i32, {P} %pw, i32 %i
  %w = load <2 x i32>, {P} %from
{lines}
  %k = mul i32 %lane, 4
  %to = getelementptr float, {P} %px, i32 %k
  store <4 x float> %x, {P} %to""", other=f"declare <2 x i16> @{ROUND}(<2 x float>, i32)")


@pytest.mark.parametrize(("body", "opcodes"), [
    (HALVES, ["bitcast", "fpext"]), (BRAINS, ["bitcast", "zext", "shl", "bitcast"]),
    (PACKED, ["bitcast", "shufflevector"]),
    (ROUNDED, ["bitcast", "fpext", "call", "zext", "shl", "bitcast"])],
    ids=["fp16", "bf16", "packed", "rounded"])
def test_they_are_converted_where_they_lie(
    run: Callable[..., None], kernel: Text, body: str, opcodes: list[str]
) -> None:
    text = text_of(kernel, body)
    (function,) = parse_module(text).kernels()
    (block,) = merge_halves(function).blocks
    names = [i.opcode for i in block.instructions]
    assert names[names.index("load") + 1 : names.index("mul", names.index("load"))] == opcodes
    words = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    x = np.zeros(64, np.uint32)
    run(text, words, x)
    halves = words.view(np.uint16)
    wide = halves.view(np.float16).astype(np.float32).view(np.uint32)
    expected = {
        HALVES: wide,
        ROUNDED: wide + 0x7fff + (wide >> 16 & 1) & 0xffff0000,
        BRAINS: halves.astype(np.uint32) << 16,
        PACKED: np.concatenate([words.reshape(16, 2), np.tile(np.array(
            [1.5, np.nan], np.float32).view(np.uint32), (16, 1))], 1).ravel()}[body]
    numbers = ~np.isnan(expected.view(np.float32))
    np.testing.assert_array_equal(x[numbers], expected[numbers])
    assert np.isnan(x.view(np.float32)[~numbers]).all()


@pytest.mark.parametrize("body", [
    SIDES, BRAINS.replace("%w, <i32 16, i32 16>", "%w, <i32 16, i32 8>"),
    BRAINS.replace("4294901760>", "4294901504>"),
    HALVES.replace("<i32 0, i32 2, i32 1, i32 3>", "<i32 0, i32 1, i32 2, i32 3>"),
    ROUNDED.replace("%g, <i32 16, i32 16>", "%g, <i32 16, i32 8>")],
    ids=["sides", "shift", "mask", "order", "rounded"])
def test_others_stay_as_they_are(kernel: Text, body: str) -> None:
    (function,) = parse_module(text_of(kernel, body)).kernels()
    (block,) = merge_halves(function).blocks
    assert ["shufflevector"] == [i.opcode for i in block.instructions if i.result == "%x"]
