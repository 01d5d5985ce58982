"""What cannot be read or lowered is refused in a sentence with line and column."""

import pytest

from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.xegpu.nd import CreateNdTdescOp
from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.lowering.by_hand.diagnostics import read_by_hand
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.lowering.rewriting import all_of
from triton_xe.tools.commands.opt import transformed

COPY = """func.func @copy(%a: memref<8x16xf32>, %o: memref<8x16xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %s : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""
LOAD = COPY.splitlines()[3]
TTGIR = """#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [1],
                      order = [0]}>
#rows = #ttg.slice<{dim = 1, parent = #ttg.blocked<{sizePerThread = [1, 1],
                    threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [1, 0]}>}>
module attributes {"ttg.num-warps" = 1 : i32, ttg.target = "xpu"} {
tt.func public @k(%p: !tt.ptr<f32>) {
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #line>
  %x = OP
  tt.return
}
}
"""
WRONG = {
    "a missing arrow": (COPY.replace("-> !", "> !", 1), "k.mlir:2:58: Expected '->'"),
    "an unknown op": (COPY.replace("load_nd", "load_md"), "k.mlir:4:8: the operation 'xegpu.load_"),
    "a value defined twice": (
        COPY.replace("  %s =", LOAD + "\n  %s ="), "k.mlir:5:3: SSA value %v is already defined"),
    "a use before the definition": (
        COPY.replace(LOAD + "\n", "").replace("  func.return", LOAD + "\n  func.return"),
        "k.mlir:4:3: xegpu.store_nd uses a value that is not defined before it"),
    "a broken rule": (
        COPY.replace("vector<8x16xf32>", "vector<4x16xf32>"),
        "k.mlir:4:3: xegpu.load_nd: the value of"),
    "an open string": (COPY.replace("{\n", '{"\n', 1), "k.mlir:1:62: a string that is not closed"),
    "an open string and much text": ('"' + "a" * 5000, "k.mlir:1:1: a string that is not closed"),
    "an alias of nothing": (
        COPY.replace("func.return", "return loc(#loc9)"), "k.mlir:6:19: undefined"),
    "a part that no pass can take": (
        COPY.replace("%a: memref<8x16xf32>", "%a: memref<8x16xf32, strided<[16, 1], offset: ?>>")
        .replace("%a, 0, 0 : memref<8x16xf32>",
                 "%a, 0, 0 : memref<8x16xf32, strided<[16, 1], offset: ?>>"),
        "k.mlir:1:1: an argument of type"),
    "a constant of no numbers": (
        COPY.replace("  func", "  %c = arith.constant dense<0> : vector<tensor<16xf32>>\n  func"),
        "k.mlir:7:3: a type, a number or an attribute here is not of the kind that belongs here"),
    "a product of blocks to integers": (
        """#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16],
                         warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "xpu"} {
tt.func public @f(%x: tensor<32x64xbf16, #blocked>, %y: tensor<64x32xf8E4M3FN, #blocked>,
                  %s: tensor<32x2xi8, #blocked>, %z: tensor<32x32xi16, #blocked>) {
  %d = tt.dot_scaled %x, %y scale %s, %z lhs = bf16 rhs = e4m3 {fastMath = false}
      : tensor<32x64xbf16, #blocked> * tensor<64x32xf8E4M3FN, #blocked>,
        tensor<32x2xi8, #blocked> -> tensor<32x32xi16, #blocked>
  tt.return
}
}
""", "k.mlir:6:3: tt.dot_scaled: the product is of floats, not tensor<32x32xi16"),
    "an axis too many": (
        TTGIR.replace("OP", "tt.expand_dims %i {axis = 3 : i32} : tensor<16xi32, #line> ->"
                            " tensor<16x1xi32, #line>"),
        "k.mlir:8:3: tt.expand_dims: tensor<16xi32"),
    "a broadcast of more than ones": (
        TTGIR.replace("OP", "tt.broadcast %i : tensor<16xi32, #line> -> tensor<64xi32, #line>"),
        "k.mlir:8:3: tt.broadcast: dimensions of size 1 grow"),
    "offsets of another shape": (
        TTGIR.replace("OP", "tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>, #line>\n"
                            "  %y = tt.addptr %x, %i : tensor<32x!tt.ptr<f32>, #line>,"
                            " tensor<16xi32, #line>"),
        "k.mlir:9:3: tt.addptr: the shape is 32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_line_and_column(name):
    text, message = WRONG[name]
    with pytest.raises(UnsupportedError) as error:
        transformed(text, "lower-kernel-functions,convert-xegpu-to-llvm", name="k.mlir")
    assert str(error.value).startswith(message)


def test_the_compiler_of_run_says_them_too():
    text = COPY.replace("func.return", '%n = "gpu.num_subgroups"() : () -> index\n  func.return')
    with pytest.raises(UnsupportedError, match=r"^k.mlir:6:3: gpu.num_subgroups"):
        compile_text(text, "bmg", "k.mlir")


def test_other_exceptions_of_a_pass_are_refusals_that_name_it(monkeypatch):
    from triton_xe.lowering.by_hand import kernel_functions

    monkeypatch.setattr(kernel_functions, "shape_and_strides", lambda op, kind: 1 // 0)
    with pytest.raises(UnsupportedError, match=r"^k.mlir:2:3: pass lower-kernel-functions cannot"):
        transformed(COPY, "lower-kernel-functions", name="k.mlir")


def test_an_operation_that_cannot_be_made_does_not_hide_the_reason(monkeypatch):
    from triton_xe.dialects.tt.ops import MulhiUIOp
    from triton_xe.lowering.by_hand import kernel_functions

    monkeypatch.setattr(kernel_functions, "shape_and_strides", lambda op, kind: MulhiUIOp())
    with pytest.raises(UnsupportedError, match=r"^k.mlir:2:3: pass .* needs result_type"):
        transformed(COPY, "lower-kernel-functions", name="k.mlir")


def test_a_half_row_of_16_bits_multiplies():
    """A message of less than a register is padded, in the text as well."""
    tile = "!xetile.tile<{0}x16x{1}>".format
    text = f"""func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {{
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> {tile(1, "f16")}
  %tb = xetile.init_tile %b, 0, 0 : memref<64x64xf16> -> {tile(16, "f16")}
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> {tile(1, "f32")}
  %va = xetile.load_tile %ta : {tile(1, "f16")} -> vector<1x16xf16>
  %vb = xetile.load_tile %tb : {tile(16, "f16")} -> vector<16x16xf16>
  %d = xetile.tile_mma %va, %vb : vector<1x16xf16>, vector<16x16xf16> -> vector<1x16xf32>
  xetile.store_tile %d, %tc : vector<1x16xf32>, {tile(1, "f32")}
  func.return
}}
"""
    lowered = transformed(text, "lower-kernel-functions,convert-xetile-to-xegpu")
    assert transformed(lowered, "") == lowered


@pytest.mark.parametrize(("device", "reason"), [
    ("bmg", "pitch of 72 bytes is not a multiple of 16"), ("cri", "width of 34 bytes is not a"),
    ("dg2", "dg2 has no 2D block messages"),
])
def test_a_message_that_a_device_cannot_send_is_refused(device, reason):
    """`lower-kernel-functions` marks such a block; here the mark is removed again."""
    text = """func.func @k(%a: !tt.ptr<f16>) {
  %t = xegpu.create_nd_tdesc %a, 8, 16, 64, 17, 36, 1
      : !tt.ptr<f16> -> !xegpu.tensor_desc<8x16xf16>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x16xf16>
  func.return
}
"""
    module = read_by_hand(transformed(text, "lower-kernel-functions", device), "k.mlir")
    (described,) = all_of(module, CreateNdTdescOp)
    assert described.gather is not None
    described.gather = None
    with pytest.raises(LegalityError, match=reason):
        transformed(write_module(module), "convert-xegpu-to-llvm", device)


def test_what_a_module_lacks_is_said_at_its_first_op():
    with pytest.raises(UnsupportedError, match=r"^k.mlir:1:1: the module says its subgroups as"):
        transformed(COPY, "insert-barriers", "bmg", "k.mlir")


@pytest.mark.parametrize("used", ["%v", "%w"])
def test_blocks_of_xegpu_next_to_tiles_are_refused(used):
    tile, block = "!xetile.tile<8x16xf32>", "!xegpu.tensor_desc<8x16xf32>"
    text = f"""func.func @k(%a: memref<8x16xf32>, %o: memref<8x16xf32>) {{
  %t = xetile.init_tile %a, 0, 0 : memref<8x16xf32> -> {tile}
  %v = xetile.load_tile %t : {tile} -> vector<8x16xf32>
  %d = xegpu.create_nd_tdesc %a, 0, 0 : memref<8x16xf32> -> {block}
  xegpu.prefetch_nd %d : {block}
  %w = xegpu.load_nd %d : {block} -> vector<8x16xf32>
  %s = xetile.init_tile %o, 0, 0 : memref<8x16xf32> -> {tile}
  xetile.store_tile {used}, %s : vector<8x16xf32>, {tile}
  func.return
}}
"""
    with pytest.raises(UnsupportedError, match=r"^k.mlir:6:3: xegpu.load_nd in a function with ti"):
        compile_text(text, "bmg", "k.mlir")


@pytest.mark.parametrize("text", ["", "!n = i32\n", "#b = #ttg.shared_memory\n"])
def test_a_file_of_aliases_alone_is_an_empty_module(text):
    """As MLIR reads it; what ends in the middle of an alias stays an error."""
    module = read_by_hand("#a = #ttg.shared_memory\n" + text, "aliases.mlir")
    assert not module.body.block.ops
    with pytest.raises(UnsupportedError, match=r"aliases\.mlir:"):
        read_by_hand("#a = #ttg.shared_memory\n#c = \n", "aliases.mlir")
