"""Native DPAS and 2D blocks against their readable definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_xe.errors import SimulatorTrap
from triton_xe.hardware import block_2d
from triton_xe.hardware.dpas import PRECISION as CODES
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import target
from triton_xe.intrinsics.definitions import dpas as definition
from triton_xe.intrinsics.definitions.block_2d import Surface, Tile, block_read, block_write
from triton_xe.runtime import torch_memory
from triton_xe.runtime.simulator.device import SimulatedDevice

Run = Callable[..., None]
Text = Callable[..., str]
P = "ptr addrspace(1)"
SURFACE = "i64, i32, i32, i32, i32, i32, i32, i32, i32, i32, i1, i1, i32"


def raw_bytes(seed: int, size: int, specials: bool) -> Any:
    """Random bytes: any bit pattern, NaN, infinity and denormals included, or small numbers."""
    generator = np.random.default_rng(seed)
    if specials:
        return generator.integers(0, 256, size, dtype=np.uint8)
    return generator.integers(0, 4, size, dtype=np.uint8)


def operand(kind: str, seed: int, size: int, specials: bool) -> Any:
    if specials or kind not in ("f16", "bf16", "tf32"):
        return raw_bytes(seed, size, True)
    values = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    if kind == "f16":
        return values[: size // 2].astype(np.float16).view(np.uint8)
    if kind == "bf16":
        return (values[: size // 2].view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values[: size // 4].view(np.uint8)


def vector(count: int, element: str) -> str:
    return f"<{count} x {element}>" if count > 1 else element


def dpas_text(kernel: Text, a: str, b: str, acc: str, rows: int, lanes: int) -> str:
    """Load the three images, one DPAS, store the result."""
    shape = Dpas(a, b, acc, rows, lanes)
    element = {"f32": "float", "i32": "i32", "f16": "half", "bf16": "i16"}[acc]
    bits_a = 16 if lanes == 16 and shape.a_bytes >= 2 * lanes * rows else 32 if lanes == 8 else 8
    if a == "tf32":
        bits_a = 32
    ta = vector(shape.a_bytes // lanes // (bits_a // 8), f"i{bits_a}")
    tb = vector(shape.b_bytes // lanes // 4, "i32")
    tc = vector(rows, element)
    # raw images: one block read of 32-bit words each, through a private array
    def block(name: str, t: str, nbytes: int) -> str:
        return (f"  %{name} = call {t} @llvm.genx.GenISA.simdBlockRead.{name}({P} %p{name})\n")

    body = block("a", ta, 0) + block("b", tb, 0) + block("c", tc, 0) + (
        f"  %d = call {tc} @llvm.genx.GenISA.sub.group.dpas.x({tc} %c, {ta} %a, {tb} %b, "
        f"i32 {CODES[a]}, i32 {CODES[b]}, i32 8, i32 {rows}, i1 false)\n"
        f"  call void @llvm.genx.GenISA.simdBlockWrite.d({P} %pc, {tc} %d)"
    )
    other = "\n".join(
        f"declare {t} @llvm.genx.GenISA.simdBlockRead.{n}({P})"
        for n, t in (("a", ta), ("b", tb), ("c", tc))
    ) + (f"\ndeclare {tc} @llvm.genx.GenISA.sub.group.dpas.x({tc}, {ta}, {tb}, i32, i32, i32, "
         f"i32, i1)\ndeclare void @llvm.genx.GenISA.simdBlockWrite.d({P}, {tc})")
    return kernel(f"{P} %pa, {P} %pb, {P} %pc", body, lanes=lanes, other=other)


FLOAT_CASES = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"),
               ("bf16", "bf16", "bf16"), ("tf32", "tf32", "f32")]
INTEGER_CASES = [("s8", "s8"), ("u8", "u8"), ("u8", "s8"), ("s8", "u8"), ("s4", "s4"),
                 ("u4", "s4"), ("s8", "s4"), ("u4", "u8")]
CASES = FLOAT_CASES + [(a, b, "i32") for a, b in INTEGER_CASES]


@pytest.mark.covering
@pytest.mark.parametrize(("a", "b", "acc"), CASES)
@pytest.mark.parametrize("rows", [8, 4])
@pytest.mark.parametrize("specials", [False, True], ids=["numbers", "any-bits"])
def test_dpas_equals_its_definition(
    run: Run, kernel: Text, a: str, b: str, acc: str, rows: int, specials: bool
) -> None:
    shape = Dpas(a, b, acc, rows, 16)
    size = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}[acc]
    kind = "tf32" if acc == "f32" else acc
    pa = operand(a, 1, shape.a_bytes, specials)
    pb = operand(b, 2, shape.b_bytes, specials)
    pc = operand(kind, 3, rows * 16 * size, specials)
    want = definition.dpas(pc, pa, pb, shape)
    got = pc.copy()
    run(dpas_text(kernel, a, b, acc, rows, 16), pa, pb, got)
    assert_same(got, want, acc)


@pytest.mark.parametrize(("a", "b", "acc"), [c for c in CASES if c[0] != "tf32"
                                             and not ({c[0], c[1]} & {"s4", "u4"})])
def test_dpas_of_eight_lanes(kernel: Text, a: str, b: str, acc: str) -> None:
    device = SimulatedDevice("dg2")
    shape = Dpas(a, b, acc, 8, 8)
    pa, pb = operand(a, 1, shape.a_bytes, False), operand(b, 2, shape.b_bytes, False)
    pc = operand("tf32" if acc == "f32" else acc, 3, 64 * (4 if acc in ("f32", "i32") else 2),
                 False)
    want = definition.dpas(pc, pa, pb, shape)
    got = pc.copy()
    loaded = device.load(dpas_text(kernel, a, b, acc, 8, 8).encode(), "k")
    device.launch(loaded, (1, 1, 1), [x.ctypes.data for x in (pa, pb, got)])
    assert_same(got, want, acc)


def assert_same(got: Any, want: Any, acc: str) -> None:
    """Bit for bit, but any NaN equals any NaN."""
    if acc == "i32":
        np.testing.assert_array_equal(got, want)
        return
    kind = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}[acc]
    infinity = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}[acc]
    magnitude = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}[acc]
    a, b = got.view(kind), want.view(kind)
    both = ((a & magnitude) > infinity) & ((b & magnitude) > infinity)
    np.testing.assert_array_equal(np.where(both, 0, a), np.where(both, 0, b))


def test_dpas_definition_against_double_precision() -> None:
    shape = Dpas("f16", "f16", "f32")
    a, b = operand("f16", 1, shape.a_bytes, False), operand("f16", 2, shape.b_bytes, False)
    got = definition.dpas(np.zeros(512, np.uint8), a, b, shape).view(np.float32)
    rows = a.view(np.float16).astype(np.float64).reshape(8, 16)
    columns = b.view(np.float16).astype(np.float64).reshape(8, 16, 2)
    want = rows @ columns.transpose(0, 2, 1).reshape(16, 16)
    np.testing.assert_allclose(got.reshape(8, 16), want, rtol=0, atol=1e-5)


def test_fused_addition_rounds_once() -> None:
    """1 + 2^-24 + 2^-60 is above the tie: double rounding would lose it."""
    x, y = np.array([2.0**-24 + 2.0**-60]), np.array([1.0])
    assert definition.add_once(x, y)[0] == np.float32(1 + 2.0**-23)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rows": 9}, "illegal DPAS"), ({"b": "bf16"}, "cannot multiply f16 by bf16")],
)
def test_illegal_dpas_is_refused(
    run: Run, kernel: Text, change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where torch's tensors are mapped, though the arguments are missing."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    mapped = torch.empty(4, device="xpu")
    monkeypatch.delenv("TRITON_XE_SANITIZE")
    assert torch_memory.has_maps()
    text = dpas_text(kernel, "f16", "f16", "f32", 8, 16)
    if "rows" in change:
        text = text.replace("i32 8, i32 8, i1", "i32 8, i32 9, i1")
    else:
        text = text.replace("i32 12, i32 12", "i32 12, i32 11")
    with pytest.raises((SimulatorTrap, ValueError), match=message):
        run(text)
    del mapped


# --- 2D blocks ------------------------------------------------------------------------------------

SHAPES = [
    (16, 16, 32, 2, "plain"), (16, 32, 8, 1, "plain"), (16, 2, 4, 1, "plain"),
    (8, 32, 16, 2, "plain"), (8, 4, 32, 4, "plain"), (32, 16, 8, 1, "plain"),
    (32, 8, 4, 2, "plain"), (64, 8, 2, 1, "plain"), (16, 16, 32, 2, "vnni"),
    (16, 16, 16, 1, "vnni"), (16, 8, 2, 4, "vnni"), (8, 16, 32, 4, "vnni"),
    (8, 4, 4, 1, "vnni"), (8, 16, 8, 2, "vnni"), (32, 8, 16, 1, "transpose"),
    (32, 8, 32, 1, "transpose"), (32, 4, 8, 1, "transpose"), (32, 1, 16, 1, "transpose"),
    (64, 4, 8, 1, "transpose"), (32, 2, 1, 1, "transpose"),
]
POSITIONS = [(0, 0), (8, 3), (-4, -2), (60, 30), (-100, 5), (8, 200), (4, -40), (52, 20)]


def read_text(kernel: Text, bits: int, w: int, h: int, v: int, mode: str, nbytes: int) -> str:
    words = nbytes // 16
    size, t = (4, 32) if words % 4 == 0 else (2, 16) if words % 2 == 0 else (1, 8)
    t_ = vector(words // size, f"i{t}")
    body = f"""
  %i = ptrtoint {P} %s to i64
  %v = call {t_} @llvm.genx.GenISA.LSC2DBlockRead.r(i64 %i, i32 %w, i32 %h, i32 %p, i32 %x, i32 %y, i32 {bits}, i32 {w}, i32 {h}, i32 {v}, i1 {str(mode == "transpose").lower()}, i1 {str(mode == "vnni").lower()}, i32 0)
  call void @llvm.genx.GenISA.simdBlockWrite.r({P} %d, {t_} %v)"""  # noqa: E501
    other = (f"declare {t_} @llvm.genx.GenISA.LSC2DBlockRead.r({SURFACE})\n"
             f"declare void @llvm.genx.GenISA.simdBlockWrite.r({P}, {t_})")
    return kernel(f"{P} %s, {P} %d, i32 %w, i32 %h, i32 %p, i32 %x, i32 %y", body, other=other)


@pytest.mark.parametrize(("bits", "w", "h", "v", "mode"), SHAPES)
def test_block_read_equals_its_definition(
    device: SimulatedDevice, kernel: Text, align: Any,
    bits: int, w: int, h: int, v: int, mode: str,
) -> None:
    width, height, pitch = 128, 40, 144
    memory = align(np.random.default_rng(5).integers(1, 256, pitch * height, dtype=np.uint8))
    surface, tile = Surface(memory, width, height, pitch), Tile(bits // 8, w, h, v, mode)
    image = np.zeros(tile.block_bytes * v, np.uint8)
    shape = block_2d.BlockShape(bits, w, h, v, mode == "transpose", mode == "vnni")
    assert block_2d.check_load(shape, target("bmg")) is None
    loaded = device.load(read_text(kernel, bits, w, h, v, mode, image.size).encode(), "k")
    for x, y in POSITIONS:
        image[:] = 99
        device.launch(loaded, (1, 1, 1), [memory.ctypes.data, image.ctypes.data, width - 1,
                                          height - 1, pitch - 1, x, y])
        np.testing.assert_array_equal(image, block_read(surface, x, y, tile), err_msg=f"{x},{y}")


@pytest.mark.parametrize(("bits", "w", "h"), [(16, 16, 8), (32, 16, 8), (8, 64, 2), (64, 8, 4),
                                              (16, 32, 1)])
def test_block_write_equals_its_definition(
    device: SimulatedDevice, kernel: Text, align: Any, bits: int, w: int, h: int
) -> None:
    width, height, pitch = 128, 40, 128
    tile = Tile(bits // 8, w, h)
    image = np.random.default_rng(6).integers(0, 256, tile.block_bytes, dtype=np.uint8)
    t = vector(image.size // 16 // 2, "i16")
    body = f"""
  %i = ptrtoint {P} %s to i64
  %v = call {t} @llvm.genx.GenISA.simdBlockRead.r({P} %d)
  call void @llvm.genx.GenISA.LSC2DBlockWrite.r(i64 %i, i32 127, i32 39, i32 127, i32 %x, i32 %y, i32 {bits}, i32 {w}, i32 {h}, i32 1, i1 false, i1 false, i32 0, {t} %v)"""  # noqa: E501
    other = (f"declare void @llvm.genx.GenISA.LSC2DBlockWrite.r({SURFACE}, {t})\n"
             f"declare {t} @llvm.genx.GenISA.simdBlockRead.r({P})")
    loaded = device.load(
        kernel(f"{P} %s, {P} %d, i32 %x, i32 %y", body, other=other).encode(), "k"
    )
    for x, y in POSITIONS:
        memory, want = align(np.zeros(pitch * height, np.uint8)), np.zeros(pitch * height, np.uint8)
        block_write(Surface(want, width, height, pitch), x, y, tile, image)
        device.launch(loaded, (1, 1, 1), [memory.ctypes.data, image.ctypes.data, x, y])
        np.testing.assert_array_equal(memory, want, err_msg=f"{x},{y}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 127, 39, 135, 0, 0), "pitch of 136 bytes is not a multiple of 16"),
        ((8, 127, 39, 143, 0, 0), "base is not 64-byte aligned"),
        ((0, 31, 39, 143, 0, 0), "width of 32 bytes is less than 64"),
        ((0, 127, 39, 143, 1, 0), "x = 1 elements of 16 bits is not a multiple of 4 bytes"),
        ((0, 255, 39, 143, 0, 0), "pitch of 144 bytes is less than the width of 256"),
    ],
)
def test_illegal_surface_traps(
    device: SimulatedDevice, kernel: Text, align: Any, arguments: tuple[int, ...], message: str
) -> None:
    memory, image = align(np.zeros(8192, np.uint8)), np.zeros(2048, np.uint8)
    loaded = device.load(read_text(kernel, 16, 16, 32, 2, "plain", 2048).encode(), "k")
    offset, *rest = arguments
    with pytest.raises(SimulatorTrap, match=message):
        device.launch(
            loaded, (1, 1, 1), [memory.ctypes.data + offset, image.ctypes.data, *rest]
        )


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("bmg", (16, 16, 16, 4, "plain"), "row of 128 bytes is over the limit"),
        ("bmg", (16, 16, 16, 1, "transpose"), "transposes 32- and 64-bit elements only"),
        ("bmg", (16, 12, 16, 1, "plain"), "width 12 is not a power of 2"),
    ],
)
def test_illegal_shape_is_refused(
    kernel: Text, name: str, shape: tuple[int, int, int, int, str], message: str
) -> None:
    with pytest.raises(SimulatorTrap, match=message):
        assert SimulatedDevice(name).load(read_text(kernel, *shape, 2048).encode(), "k").host


def test_devices_without_block_messages_refuse_them(kernel: Text) -> None:
    text = read_text(kernel, 16, 16, 32, 2, "plain", 2048)
    with pytest.raises(SimulatorTrap, match="mtl has no 2D block messages"):
        assert SimulatedDevice("mtl").load(text.encode(), "k").host


def test_payload_form_moves_through_the_surface(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    body = f"""
entry:
  %i = ptrtoint {P} %s to i64
  %a = call ptr @llvm.genx.GenISA.LSC2DBlockCreateAddrPayload.p0i32(i64 %i, i32 127, i32 39, i32 127, i32 0, i32 %y, i32 16, i32 8, i32 1)
  br label %loop
loop:
  %k = phi i32 [0, %entry], [%k1, %loop]
  %sum = phi <8 x i16> [zeroinitializer, %entry], [%t, %loop]
  %v = call <8 x i16> @llvm.genx.GenISA.LSC2DBlockReadAddrPayload.v8i16.p0i32(ptr %a, i32 0, i32 2, i32 16, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0)
  %t = add <8 x i16> %sum, %v
  call void @llvm.genx.GenISA.LSC2DBlockSetAddrPayloadField.p0i32.i32(ptr %a, i32 5, i32 16, i1 true)
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 4
  br i1 %more, label %loop, label %done
done:
  call void @llvm.genx.GenISA.simdBlockWrite.r({P} %d, <8 x i16> %t)"""  # noqa: E501
    g = "llvm.genx.GenISA."
    other = f"""
declare ptr @{g}LSC2DBlockCreateAddrPayload.p0i32(i64, i32, i32, i32, i32, i32, i32, i32, i32)
declare <8 x i16> @{g}LSC2DBlockReadAddrPayload.v8i16.p0i32(ptr, i32, i32, i32, i32, i32, i32, i1, i1, i32)
declare void @{g}LSC2DBlockSetAddrPayloadField.p0i32.i32(ptr, i32, i32, i1)
declare void @{g}simdBlockWrite.r({P}, <8 x i16>)"""  # noqa: E501
    memory = align(np.random.default_rng(7).integers(0, 9999, (40, 64)).astype(np.int16))
    out = np.zeros((8, 16), np.int16)
    loaded = device.load(kernel(f"{P} %s, {P} %d, i32 %y", body, other=other).encode(), "k")
    device.launch(loaded, (1, 1, 1), [memory.ctypes.data, out.ctypes.data, 3])
    np.testing.assert_array_equal(out, memory[5:13].reshape(8, 4, 16).sum(1, dtype=np.int16))


def test_every_legal_load_shape_of_bmg_compiles_to_the_right_size() -> None:
    shapes = block_2d.legal_shapes("load", target("bmg"))
    for s in shapes:
        mode = "transpose" if s.transpose else "vnni" if s.vnni else "plain"
        tile = Tile(s.element_bytes, s.width, s.height, s.blocks, mode)
        assert tile.block_bytes * s.blocks == s.result_bytes
        places = {
            tile.place(x, y, b)
            for x, y, b in itertools.product(range(s.width), range(s.height), range(s.blocks))
        }
        assert len(places) == s.width * s.height * s.blocks


def test_neighbouring_dpas_with_one_b_are_exact(run: Run, kernel: Text) -> None:
    """Three accumulators in a loop: the first two run as a pair, the third alone."""
    g = "llvm.genx.GenISA."
    phis = "\n".join(f"  %c{k} = phi <8 x float> [zeroinitializer, %entry], [%d{k}, %loop]"
                     for k in range(3))
    steps = "\n".join(
        f"  %d{k} = call <8 x float> @{g}sub.group.dpas.x(<8 x float> %c{k}, <8 x i16> %a{k}, "
        "<8 x i32> %b, i32 12, i32 12, i32 8, i32 8, i1 false)" for k in range(3)
    )
    loads = "\n".join(
        f"  %pa{k} = getelementptr i8, {P} %a, i32 {256 * k}\n"
        f"  %a{k} = call <8 x i16> @{g}simdBlockRead.a({P} %pa{k})" for k in range(3)
    )
    stores = "\n".join(
        f"  %pc{k} = getelementptr i8, {P} %c, i32 {512 * k}\n"
        f"  call void @{g}simdBlockWrite.c({P} %pc{k}, <8 x float> %d{k})" for k in range(3)
    )
    body = f"""
entry:
{loads}
  %b = call <8 x i32> @{g}simdBlockRead.b({P} %pb)
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i1, %loop]
{phis}
{steps}
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, 3
  br i1 %more, label %loop, label %done
done:
{stores}"""
    other = f"""
declare <8 x i16> @{g}simdBlockRead.a({P})
declare <8 x i32> @{g}simdBlockRead.b({P})
declare void @{g}simdBlockWrite.c({P}, <8 x float>)
declare <8 x float> @{g}sub.group.dpas.x(<8 x float>, <8 x i16>, <8 x i32>, i32, i32, i32,
  i32, i1)"""
    shape = Dpas("f16", "f16", "f32")
    a = operand("f16", 1, 3 * shape.a_bytes, False)
    b, c = operand("f16", 2, shape.b_bytes, False), np.zeros((3, 512), np.uint8)
    run(kernel(f"{P} %a, {P} %pb, {P} %c", body, other=other), a, b, c)
    for k in range(3):
        want = np.zeros(512, np.uint8)
        for _ in range(3):
            want = definition.dpas(want, a[256 * k : 256 * k + 256], b, shape)
        np.testing.assert_array_equal(c[k], want)


@pytest.mark.parametrize(("a", "b", "acc"), [("f16", "f16", "f32"), ("s8", "s8", "i32"),
                                             ("bf16", "bf16", "bf16")])
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 1)])
def test_run_of_dpas_is_exact(
    run: Run, kernel: Text, a: str, b: str, acc: str, rows: int, columns: int
) -> None:
    """Tiles of a product over three steps: pairs share A, or B; one is left alone."""
    steps = 3
    shape = Dpas(a, b, acc, 8, 16)
    element, size = {"f32": ("float", 4), "i32": ("i32", 4), "bf16": ("i16", 2)}[acc]
    t, g = f"<8 x {element}>", "llvm.genx.GenISA."
    loads, products, stores = [], [], []
    for kind, count in (("a", rows * steps), ("b", steps * columns)):
        vector_type = "<8 x i16>" if kind == "a" else "<8 x i32>"
        for k in range(count):
            at = k * (shape.a_bytes if kind == "a" else shape.b_bytes)
            loads += [f"%p{kind}{k} = getelementptr i8, {P} %{kind}, i32 {at}",
                      f"%{kind}{k} = call {vector_type} @{g}simdBlockRead.{kind}({P} %p{kind}{k})"]
    for step, m, n in itertools.product(range(steps), range(rows), range(columns)):
        before = f"%d{step - 1}_{m}_{n}" if step else "zeroinitializer"
        products.append(
            f"%d{step}_{m}_{n} = call {t} @{g}sub.group.dpas.x({t} {before}, "
            f"<8 x i16> %a{m * steps + step}, <8 x i32> %b{step * columns + n}, i32 {CODES[a]}, "
            f"i32 {CODES[b]}, i32 8, i32 8, i1 false)"
        )
    for m, n in itertools.product(range(rows), range(columns)):
        at = (m * columns + n) * 128 * size
        stores += [f"%pc{m}_{n} = getelementptr i8, {P} %c, i32 {at}",
                   f"call void @{g}simdBlockWrite.c({P} %pc{m}_{n}, {t} %d{steps - 1}_{m}_{n})"]
    other = f"""
declare <8 x i16> @{g}simdBlockRead.a({P})
declare <8 x i32> @{g}simdBlockRead.b({P})
declare void @{g}simdBlockWrite.c({P}, {t})
declare {t} @{g}sub.group.dpas.x({t}, <8 x i16>, <8 x i32>, i32, i32, i32, i32, i1)"""
    pa = operand(a, 1, rows * steps * shape.a_bytes, False).reshape(rows, steps, -1)
    pb = operand(b, 2, steps * columns * shape.b_bytes, False).reshape(steps, columns, -1)
    c = np.zeros((rows, columns, 128 * size), np.uint8)
    body = "\n".join(loads + products + stores)
    run(kernel(f"{P} %a, {P} %b, {P} %c", body, other=other), pa.ravel(), pb.ravel(), c)
    for m, n in itertools.product(range(rows), range(columns)):
        want = np.zeros(128 * size, np.uint8)
        for step in range(steps):
            want = definition.dpas(want, pa[m, step], pb[step, n], shape)
        assert_same(c[m, n], want, acc)
