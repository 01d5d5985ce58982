"""A whole matmul in the compiler's form: block reads into private arrays, slices, DPAS chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_xe.intrinsics.definitions.conversions import bf16_to_float, float_to_bf16
from triton_xe.runtime.simulator.device import SimulatedDevice

Text = Callable[..., str]
P = "ptr addrspace(1)"
G = "llvm.genx.GenISA."
SURFACE = "i64, i32, i32, i32, i32, i32, i32, i32, i32, i32, i1, i1, i32"
TILES_M, TILES_N, K_STEP = 2, 2, 32


def matmul_text(kernel: Text, code: int, *, late_store: bool, warps: int = 2) -> str:
    """16 x 32 per subgroup; `late_store` reads the next tiles before using the current ones."""
    reads = f"""
  %ra_ = call <32 x i16> @{G}LSC2DBlockRead.a(i64 %ai, i32 %aw, i32 %ah, i32 %aw, i32 %kx, i32 %m, i32 16, i32 16, i32 16, i32 2, i1 false, i1 false, i32 0)
  %rb_ = call <32 x i32> @{G}LSC2DBlockRead.b(i64 %bi, i32 %bw, i32 %bh, i32 %bw, i32 %n, i32 %kx, i32 16, i32 16, i32 32, i32 2, i1 false, i1 true, i32 0)"""  # noqa: E501
    stores = """
  store <32 x i16> %ra_, ptr %ta, align 64
  store <32 x i32> %rb_, ptr %tb, align 64"""
    slices, products = "", ""
    for k in range(2):
        for i in range(TILES_M):
            slices += (f"  %pa{i}{k} = getelementptr i8, ptr %ta, i64 {(k * 16 + i * 8) * 2}\n"
                       f"  %a{i}{k} = load <8 x i16>, ptr %pa{i}{k}, align 16\n")
        for j in range(TILES_N):
            slices += (f"  %pb{j}{k} = getelementptr i8, ptr %tb, i64 {(j * 16 + k * 8) * 4}\n"
                       f"  %b{j}{k} = load <8 x i32>, ptr %pb{j}{k}, align 16\n")
        for i in range(TILES_M):
            for j in range(TILES_N):
                source = f"%c{i}{j}" if k == 0 else f"%d{i}{j}0"
                products += (
                    f"  %d{i}{j}{k} = call <8 x float> @{G}sub.group.dpas.x(<8 x float> {source}, "
                    f"<8 x i16> %a{i}{k}, <8 x i32> %b{j}{k}, i32 {code}, i32 {code}, i32 8, "
                    "i32 8, i1 false)\n")
    every = [(i, j) for i in range(TILES_M) for j in range(TILES_N)]
    phis = "\n".join(f"  %c{i}{j} = phi <8 x float> [zeroinitializer, %entry], "
                     f"[%d{i}{j}1, %body]" for i, j in every)
    out = "".join(
        f"  %y{i}{j} = add i32 %m, {8 * i}\n  %x{i}{j} = add i32 %n, {16 * j}\n"
        f"  %w{i}{j} = bitcast <8 x float> %c{i}{j} to <8 x i32>\n"
        f"  call void @{G}LSC2DBlockWrite.w(i64 %ci, i32 %cw, i32 %ah, i32 %cw, i32 %x{i}{j}, "
        f"i32 %y{i}{j}, i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0, "
        f"<8 x i32> %w{i}{j})\n" for i, j in every
    )
    first = reads.replace("%kx", "0").replace("_ =", "0 =") + stores.replace("_,", "0,")
    inside = reads.replace("%kx", "%k1" if late_store else "%k")
    body = f"""
entry:
  %ta = alloca <32 x i16>, align 64
  %tb = alloca <32 x i32>, align 64
  %gx64 = call spir_func i64 @_Z12get_group_idj(i32 0)
  %gy64 = call spir_func i64 @_Z12get_group_idj(i32 1)
  %gx = trunc i64 %gx64 to i32
  %gy = trunc i64 %gy64 to i32
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %gm = mul i32 %gy, {warps}
  %tm = add i32 %gm, %sg
  %m = mul i32 %tm, {8 * TILES_M}
  %n = mul i32 %gx, {16 * TILES_N}
  %ai = ptrtoint {P} %a to i64
  %bi = ptrtoint {P} %b to i64
  %ci = ptrtoint {P} %c to i64
  %K2 = shl i32 %K, 1
  %aw = sub i32 %K2, 1
  %N2 = shl i32 %N, 1
  %bw = sub i32 %N2, 1
  %N4 = shl i32 %N, 2
  %cw = sub i32 %N4, 1
  %ah = sub i32 %M, 1
  %bh = sub i32 %K, 1
{first if late_store else ""}
  br label %loop
loop:
  %k = phi i32 [0, %entry], [%k1, %body]
{phis}
  %go = icmp slt i32 %k, %K
  br i1 %go, label %body, label %done
body:
  %k1 = add i32 %k, {K_STEP}
{inside if late_store else inside + stores}
{slices}
{products}
{stores if late_store else ""}
  br label %loop
done:
{out}"""
    other = f"""
declare <32 x i16> @{G}LSC2DBlockRead.a({SURFACE})
declare <32 x i32> @{G}LSC2DBlockRead.b({SURFACE})
declare void @{G}LSC2DBlockWrite.w({SURFACE}, <8 x i32>)
declare <8 x float> @{G}sub.group.dpas.x(<8 x float>, <8 x i16>, <8 x i32>, i32, i32, i32, i32, i1)
"""
    return kernel(f"{P} %a, {P} %b, {P} %c, i32 %M, i32 %N, i32 %K", body, warps=warps, other=other)


@pytest.mark.parametrize("size", [(32, 32, 32), (64, 96, 128), (40, 72, 88), (8, 32, 48)])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("late_store", [False, True], ids=["plain", "pipelined"])
def test_matmul(
    device: SimulatedDevice, kernel: Text, align: Any, size: tuple[int, int, int], kind: str,
    late_store: bool,
) -> None:
    m, n, k = size
    generator = np.random.default_rng(0)
    fa, fb = (generator.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    if kind == "f16":
        a, b = fa.astype(np.float16), fb.astype(np.float16)
        fa, fb = a.astype(np.float32), b.astype(np.float32)
    else:
        a, b = float_to_bf16(fa), float_to_bf16(fb)
        fa, fb = bf16_to_float(a), bf16_to_float(b)
    a, b, c = align(a), align(b), align(np.zeros((m, n), np.float32))
    text = matmul_text(kernel, 12 if kind == "f16" else 11, late_store=late_store)
    loaded = device.load(text.encode(), "k")
    grid = (-(-n // 32), -(-m // 32), 1)
    device.launch(loaded, grid, [x.ctypes.data for x in (a, b, c)] + [m, n, k])
    np.testing.assert_allclose(c, fa.astype(np.float64) @ fb, rtol=0, atol=2e-5 * k)
