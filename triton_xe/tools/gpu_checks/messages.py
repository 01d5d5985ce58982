"""Checks of single instructions: 2D block messages and DPAS, written as LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from triton_xe.hardware.block_2d import BlockShape, legal_shapes
from triton_xe.hardware.dpas import ELEMENT_BITS, Dpas, check_dpas
from triton_xe.intrinsics import genisa, opencl
from triton_xe.tools.gpu_checks.bench import Array, Bench, Check, Module, from_llvm

_P = "ptr addrspace(1)"
_LOCAL_ID = opencl.LOCAL_ID.symbol("i64", ["i32"])
ROWS, ROW_BYTES, PITCH = 40, 192, 256
"""The surface of the checks: 40 rows of 192 bytes, with a pitch of 256 bytes."""
_SURFACE = ["i64", *["i32"] * 5]
_TAIL = [*["i32"] * 4, "i1", "i1", "i32"]
_BOUNDS = "i32 %width, i32 %height, i32 %pitch, i32 %x, i32 %y"
_COMBINATIONS = (
    ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"), ("s8", "s8", "i32"), ("u8", "s8", "i32"),
    ("u8", "u8", "i32"), ("s4", "s4", "i32"), ("hf8", "hf8", "f32"), ("bf8", "bf8", "f32"),
)


def _module(name: str, lanes: int, declare: str, parameters: str, body: str) -> Module:
    """Build a kernel of one subgroup from LLVM IR; `%lane` is the number of the lane."""
    return from_llvm(name, f"""
target triple = "spirv64-unknown-unknown"
declare spir_func i64 @{_LOCAL_ID}(i32)
{declare}
define spir_kernel void @{name}({parameters}) !intel_reqd_sub_group_size !0
    !reqd_work_group_size !1 {{
  %lane = call spir_func i64 @{_LOCAL_ID}(i32 0)
{body}
  ret void
}}
!0 = !{{i32 {lanes}}}
!1 = !{{i32 {lanes}, i32 1, i32 1}}
""")


def _vector(bench: Bench, shape: BlockShape) -> tuple[str, int]:
    """The LLVM type of a lane's part of a block, and its bytes."""
    element = max(16, shape.element_bits, 32 if shape.vnni else 0) // 8
    count = shape.result_bytes // (bench.target.subgroup_size * element)
    return f"<{count} x i{8 * element}>", count * element


def _chosen(bench: Bench, operation: str) -> Iterator[BlockShape]:
    """Yield two blocks of each kind: the largest, and the largest of those with least width."""
    kinds: dict[tuple[int, bool, bool], list[BlockShape]] = {}
    for shape in legal_shapes(operation, bench.target):
        if shape.result_bytes >= 4 * bench.target.subgroup_size * max(2, shape.element_bytes):
            kinds.setdefault((shape.element_bits, shape.transpose, shape.vnni), []).append(shape)
    for shapes in kinds.values():
        yield max(shapes, key=lambda s: (s.payload_bytes, s.width))
        yield max(shapes, key=lambda s: (-s.width, s.payload_bytes, s.blocks))


def _positions(shape: BlockShape) -> list[tuple[int, int]]:
    """(x, y) inside, across each edge and corner, and outside; x in whole words."""
    columns, step = 8 * ROW_BYTES // shape.element_bits, max(1, 32 // shape.element_bits)
    xs = (-step, step, columns - step, columns + step, -(1 << 20))
    return [(x, y) for x in xs for y in (-1, 3, ROWS - 1, ROWS + 3)]


def _block(shape: BlockShape, rest: str = "") -> str:
    flags = f"i1 {str(shape.transpose).lower()}, i1 {str(shape.vnni).lower()}"
    return (f"i64 %at, {_BOUNDS}, i32 {shape.element_bits}, i32 {shape.width}, i32 {shape.height}, "
            f"i32 {shape.blocks}, {flags}, i32 0{rest}")


def _numbers(x: int, y: int) -> tuple[int, ...]:
    return (ROW_BYTES - 1, ROWS - 1, PITCH - 1, x & 0xFFFFFFFF, y & 0xFFFFFFFF)


def _bytes(bench: Bench, count: int, seed: int = 0) -> Array:
    return bench.random(seed).integers(1, 256, count).astype(np.uint8)


def block_loads(bench: Bench) -> None:
    for shape in _chosen(bench, "load"):
        kind, nbytes = _vector(bench, shape)
        callee = genisa.LSC_2D_BLOCK_READ.symbol(kind, [*_SURFACE, *_TAIL])
        module = _module(
            "block_load", bench.target.subgroup_size,
            f"declare {kind} @{callee}({', '.join([*_SURFACE, *_TAIL])})",
            f"{_P} %surface, {_P} %out, {_BOUNDS}", f"""
  %at = ptrtoint {_P} %surface to i64
  %value = call {kind} @{callee}({_block(shape)})
  %mine = getelementptr {kind}, {_P} %out, i64 %lane
  store {kind} %value, {_P} %mine, align 4""")
        surface = _bytes(bench, ROWS * PITCH)
        out = np.full(nbytes * bench.target.subgroup_size, 0xEE, np.uint8)
        for x, y in _positions(shape):
            bench.same(module, (1, 1, 1), [surface, out, *_numbers(x, y)], f"{shape} at {x}, {y}")


def block_stores(bench: Bench) -> None:
    for shape in _chosen(bench, "store"):
        kind, nbytes = _vector(bench, shape)
        types = [*_SURFACE, *_TAIL, kind]
        callee = genisa.LSC_2D_BLOCK_WRITE.symbol("void", types)
        module = _module(
            "block_store", bench.target.subgroup_size,
            f"declare void @{callee}({', '.join(types)})",
            f"{_P} %surface, {_P} %in, {_BOUNDS}", f"""
  %at = ptrtoint {_P} %surface to i64
  %mine = getelementptr {kind}, {_P} %in, i64 %lane
  %value = load {kind}, {_P} %mine, align 4
  call void @{callee}({_block(shape, f", {kind} %value")})""")
        surface = _bytes(bench, ROWS * PITCH)
        source = _bytes(bench, nbytes * bench.target.subgroup_size, 1)
        for x, y in _positions(shape):
            bench.same(module, (1, 1, 1), [surface, source, *_numbers(x, y)],
                       f"{shape} at {x}, {y}")


def block_prefetches(bench: Bench) -> None:
    shape = BlockShape(16, 16, 8)
    callee = genisa.LSC_2D_BLOCK_PREFETCH.symbol("void", [*_SURFACE, *_TAIL])
    module = _module(
        "block_prefetch", bench.target.subgroup_size,
        f"declare void @{callee}({', '.join([*_SURFACE, *_TAIL])})",
        f"{_P} %surface, {_P} %out, {_BOUNDS}", f"""
  %at = ptrtoint {_P} %surface to i64
  call void @{callee}({_block(shape)})
  %mine = getelementptr i32, {_P} %out, i64 %lane
  store i32 7, {_P} %mine, align 4""")
    for x, y in [*_positions(shape), (1 << 22, 1 << 22)]:
        out = np.zeros(bench.target.subgroup_size, np.int32)
        bench.same(module, (1, 1, 1), [_bytes(bench, ROWS * PITCH), out, *_numbers(x, y)])


def _operand(bench: Bench, kind: str, nbytes: int, seed: int, special: bool) -> Array:
    """Registers of an operand: random bits for integers, and numbers of its type for floats."""
    random = bench.random(seed)
    if kind not in ("f16", "bf16", "tf32", "f32"):
        low = 0x38 if kind in ("hf8", "bf8") else 256
        return random.integers(0, low, nbytes).astype(np.uint8)
    numbers = random.standard_normal(nbytes).astype(np.float32)
    if special:
        numbers[::3] *= np.float32(2.0) ** random.integers(-40, -10, numbers[::3].shape)
    if kind == "f16":
        return numbers[: nbytes // 2].astype(np.float16).view(np.uint8)
    words = numbers.view(np.uint32) & np.uint32(
        {"f32": 0xFFFFFFFF, "tf32": 0xFFFFE000, "bf16": 0xFFFF0000}[kind])
    if kind == "bf16":
        return (words[: nbytes // 2] >> 16).astype(np.uint16).view(np.uint8)
    return words[: nbytes // 4].view(np.uint8)


def _multiply(bench: Bench, dpas: Dpas, special: bool) -> tuple[Module, list[Array]]:
    acc, a, b = (each.removeprefix("<1 x ").rstrip(">") if each.startswith("<1 x ") else each
                 for each in dpas.llvm_types)
    types = [acc, a, b, *["i32"] * 4, "i1"]
    callee = genisa.DPAS.symbol(acc, types)
    first, second = dpas.precision
    loads = "".join(
        f"\n  %p{name} = getelementptr {kind}, {_P} %{name}, i64 %lane"
        f"\n  %v{name} = load {kind}, {_P} %p{name}, align 2"
        for name, kind in (("c", acc), ("a", a), ("b", b)))
    module = _module(
        "dpas", bench.target.subgroup_size, f"declare {acc} @{callee}({', '.join(types)})",
        f"{_P} %c, {_P} %a, {_P} %b", f"""{loads}
  %d = call {acc} @{callee}({acc} %vc, {a} %va, {b} %vb, i32 {first}, i32 {second}, i32 8,
      i32 {dpas.repeat_count}, i1 false)
  store {acc} %d, {_P} %pc, align 2""")
    size = dpas.repeat_count * dpas.execution_size * dpas.bits_of("c") // 8
    arrays = [_operand(bench, dpas.accumulator, size, 3, special),
              _operand(bench, dpas.a, dpas.a_bytes, 4, special),
              _operand(bench, dpas.b, dpas.b_bytes, 5, special)]
    return module, arrays


def _dpas_variants(bench: Bench) -> Iterator[Dpas]:
    width = bench.target.dpas_execution_size
    for a, b, accumulator in _COMBINATIONS:
        for rows in (1, 2, 8):
            if check_dpas(a, b, accumulator, bench.target, repeat_count=rows) is None:
                yield Dpas(a, b, accumulator, rows, width)


_RESULT = {"f32": (np.float32, 2.0**-23), "i32": (np.int32, 0), "f16": (np.float16, 2.0**-10),
           "bf16": (np.uint16, 2.0**-7)}


def dpas_products(bench: Bench) -> None:
    """Compare integers exactly, and floats within a rounding for each part of the sum."""
    for dpas in _dpas_variants(bench):
        module, arrays = _multiply(bench, dpas, special=False)
        got = bench.run(module, (1, 1, 1), arrays)[0]
        want = bench.run(module, (1, 1, 1), arrays, on=bench.reference)[0]
        kind, rounding = _RESULT[dpas.accumulator]
        found, wanted = (_as_numbers(each.view(kind), dpas.accumulator) for each in (got, want))
        bench.values[f"{dpas.a} {dpas.b} {dpas.accumulator} alike"] = float(np.mean(got == want))
        bound = 8 * rounding * dpas.k**0.5 * (1 + np.abs(wanted))
        bench.close(found, wanted, bound, str(dpas))


def dpas_rounding(bench: Bench) -> None:
    """Compare sums exactly, of numbers down to 2^-40; many of them are denormal in fp16."""
    for dpas in _dpas_variants(bench):
        if dpas.is_float and ELEMENT_BITS[dpas.a] >= 16:
            module, arrays = _multiply(bench, dpas, special=True)
            got = bench.run(module, (1, 1, 1), arrays)[0]
            want = bench.run(module, (1, 1, 1), arrays, on=bench.reference)[0]
            kind = _RESULT[dpas.accumulator][0]
            bench.equal(got.view(kind), want.view(kind), str(dpas))


def _as_numbers(words: Array, kind: str) -> Array:
    if kind != "bf16":
        return words
    return (words.astype(np.uint32) << 16).view(np.float32)


def _has_blocks(bench: Bench) -> bool:
    return bench.target.has_block_2d


def _has_dpas(bench: Bench) -> bool:
    return bench.target.has_dpas


CHECKS = (
    Check("block-load", "A 2D block load has each element where the table of layouts says, and "
          "zero for every element outside of the surface, for each kind of block and each edge.",
          block_loads, _has_blocks),
    Check("block-store", "A 2D block store writes the elements inside of the surface, and nothing "
          "else.", block_stores, _has_blocks),
    Check("block-prefetch", "A 2D block prefetch may be outside of the surface, at any distance.",
          block_prefetches, _has_blocks),
    Check("dpas", "DPAS of each type and repeat count has its operands where the tables say, and "
          "its result is exact for integers, within rounding for floats.",
          dpas_products, _has_dpas),
    Check("dpas-rounding", "DPAS keeps denormal operands and results, and adds in the order and "
          "with the roundings of the readable definition, to the bit.", dpas_rounding, _has_dpas,
          "the emulated matrix unit rounds by the same definition"),
)
