"""Layouts made of shapes and operands: equal to those that Triton's own passes make of them."""

import random
import re

import pytest
from triton._C.libtriton import ir, passes

from triton_xe.errors import LayoutError
from triton_xe.layout import NvidiaMmaEncoding, parse_encoding, read_aliases
from triton_xe.layout.defaults import (
    blocked_for,
    dot_operand_for,
    nvmma_for,
    padded_for,
    swizzled_for,
)

WIDTHS = {"i8": 8, "f16": 16, "f32": 32}


def through(add_passes, text, tmp_path):
    """The module that passes of Triton's make of a text, and the layouts that it names."""
    context = ir.context()
    ir.load_dialects(context)
    file = tmp_path / "module.mlir"
    file.write_text(text)
    module = ir.parse_mlir_module(str(file), context)
    manager = ir.pass_manager(context)
    add_passes(manager)
    manager.run(module, "test")
    return str(module), read_aliases(str(module))


@pytest.mark.parametrize("seed", range(3))
def test_blocked_layouts_of_shapes(seed, tmp_path):
    rng = random.Random(seed)
    warps, lanes, blocks = rng.choice([1, 4, 16]), rng.choice([16, 32]), (1, 2, 4)[seed]
    shapes = [[1 << rng.randrange(8) for _ in range(rng.randint(1, 3))] for _ in range(12)]
    kinds = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in shapes]
    splats = "\n".join(
        f'%{n} = tt.splat %x : f32 -> {kind}\n'
        f'tt.print "x" {{hex = false, isSigned = array<i32: 0>}} : %{n} : {kind}'
        for n, kind in enumerate(kinds))
    made, aliases = through(
        lambda p: passes.ttir.add_convert_to_ttgpuir(p, "cuda:80", warps, lanes, blocks),
        f"module {{ tt.func public @k(%x: f32) {{\n{splats}\ntt.return }} }}", tmp_path)
    found = re.findall(r"tt.splat .* (#[\w$-]+)>$", re.sub(r" loc\(.*", "", made), re.MULTILINE)
    assert len(found) == len(shapes)
    for shape, name in zip(shapes, found, strict=True):
        each, order = [1] * len(shape), tuple(reversed(range(len(shape))))
        want = blocked_for(shape, each, order, warps=warps, lanes=lanes, blocks=blocks)
        assert parse_encoding(aliases[name]) == want, shape


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_swizzled_layouts_of_operands(element, operand, order, tmp_path):
    matrix = NvidiaMmaEncoding(2, 0, (2, 2), (16, 8))
    for rows, columns in ((64, 32), (16, 128), (256, 64)):
        into = dot_operand_for(operand, matrix, WIDTHS[element])
        source = blocked_for((rows, columns), (1, 1), order, warps=4, lanes=32)
        made, aliases = through(
            passes.ttgpuir.add_reduce_data_duplication,
            f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
                ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32}} {{
            tt.func public @k(%x: {element}) {{
              %0 = tt.splat %x : {element} -> tensor<{rows}x{columns}x{element}, {source}>
              %1 = ttg.convert_layout %0 : tensor<{rows}x{columns}x{element}, {source}>
                   -> tensor<{rows}x{columns}x{element}, {into}>
              tt.print "x" {{hex = false, isSigned = array<i32: 0>}} :
                   %1 : tensor<{rows}x{columns}x{element}, {into}>
              tt.return }} }}""", tmp_path)
        found = [parse_encoding(text) for text in aliases.values() if "swizzled" in text]
        want = swizzled_for(into, (rows, columns), order, WIDTHS[element])
        assert found == [want], (rows, columns, made)


def test_shared_layouts_by_their_rules():
    """Of matrix products, by the bytes of a row; transposed reads take the other dim's vectors."""
    assert [nvmma_for(shape, (1, 0), 16).swizzling_byte_width
            for shape in ((64, 64), (64, 32), (64, 16), (64, 8), (4, 64))] == [128, 64, 32, 0, 0]
    assert nvmma_for((64, 64), (0, 1), 8).transposed
    assert nvmma_for((8, 32), (1, 0), 8, fp4_padded=True).swizzling_byte_width == 64
    matrix = NvidiaMmaEncoding(2, 0, (2, 2), (16, 8))
    left, right = (dot_operand_for(n, matrix, 8) for n in (0, 1))
    assert left.k_width == 4
    assert swizzled_for(left, (64, 64), (1, 0), 8, transposed=True) == swizzled_for(
        right, (64, 64), (1, 0), 8)
    padded = padded_for([(2, 1), (4, 2)], (1, 0), (4, 8))
    assert parse_encoding("#ttg.padded_shared<[2:+1, 4:+2] {order = [1, 0], shape = [4, 8]}>"
                          ) == padded
    assert [padded.padded_offset(n) for n in range(6)] == [0, 1, 3, 4, 8, 9]
    plain = dot_operand_for(0, blocked_for((16, 16), (1, 1), (1, 0), warps=4, lanes=16), 16)
    assert (swizzled_for(plain, (16, 16), (1, 0), 16).max_phase, plain.k_width) == (1, 0)
    amd = parse_encoding("#ttg.amd_wmma<{version = 2, isTranspose = false, warpsPerCTA = [2, 2]}>")
    with pytest.raises(LayoutError, match="amd_wmma"):
        swizzled_for(type(left)(0, amd, 8), (16, 16), (1, 0), 16)
