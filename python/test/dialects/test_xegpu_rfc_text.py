"""The RFCs' examples, as they are written there, are read; each notation is tried at least once."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from python.test.filecheck import check_text
from triton_xe.dialects import context
from triton_xe.dialects.text.rfc import is_rfc_notation, normalized
from triton_xe.errors import UnsupportedError
from triton_xe.tools.cli import main

SLM_LINE = "#xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>"
SLM_LANES = "#xegpu.tdesc_attr<memory_scope = slm, scattered = true>"


@pytest.fixture
def ctx() -> Context:
    ctx = context()
    ctx.allow_unregistered = True
    return ctx


def read(ctx: Context, text: str, **aliases: str) -> ModuleOp:
    module = Parser(ctx, normalized(text, aliases=aliases).text).parse_module()
    module.verify()
    return module


TABLE = [
    "%scatter_tdesc1 = XeGPU.create_tdesc %mem_addr, %offset: int64, Vector<16 x index> ->"
    " tensor_desc<16 x bf16, #scattered, memory_scope=slm, chunk_size_per_lane=1>",
    "%result = XeGPU.load_gather %scatter_tdesc2, %mask {L1 = cached, L2 = uncached,"
    " transpose=[1,0]} : tensor_desc<16x8xbf16, #Scattered>, vector<16xi1> -> vector<8x16xbf16>",
    "%tdesc_updated = XeGpu.update_offset %tdesc, %offsets: tensor_desc<16xbf16, #scattered>,"
    " vector<16x index> -> tensor_desc<16xbf16, #scattered>",
    "XeGPU.prefetch %scatter_tdesc1 {L1 = cached, L2 = uncached} :"
    " tensor_desc<16xbf16, #scattered>",
    "%ret_value = XeGPU.atomic_rmw “addf”, %value, %scatter_mem2, %mask :"
    " vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>",
    "%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %tile_offset:2, %base_shape:2,%base_strides:2:"
    " int64, index, index, index, index, index, index -> tensor_desc<8x16xbf16,"
    " memory_scope=global>",
    "%result = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached} :"
    " tensor_desc<8x16xbf16> -> vector<8x16xbf16>",
    "%vector_c = XeGPU.dpas %vector_c, %vector_a, %vector_b: vector<8x16xfloat>,"
    " vector<8x8x2xbf16>, vector<8x16x2xbf16> -> vector<8x16xfloat>",
    "XeGPU.store_nd %value, %tdesc2 {L1_hint = uncached, L3_hint = uncached} :"
    " vector<8x16xbf16>, tensor_desc<8x16xbf16>",
    "%tdesc_updated = XeGpu.update_nd_offset %tdesc, %offset_x, offset_y,"
    " tensor_desc<8x16xbf16>, index, index -> tensor_desc<8x16xbf16>",
    "XeGPU.prefetch_nd %tdesc2: tensor_desc<8x16xbf16>",
    "XeGPU.creat_nbarrier %total_nbarrier_num: Uint8_t",
    "%nbarrier = XeGPU.alloc_nbarrier %nbarrier_id, %participant_thread_num : Uint8_t, Uint8_t"
    " -> !XeGPU.nbarrier",
    "XeGPU.nbarrier_arrive %nbarrier : !XeGPU.nbarrier",
    "XeGPU.fence {scope = gpu, memory_kind = global}",
]

BLOCKS = [
    """%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
        : uint64, index, index, index, index, index, index
        into tensor_desc<8x16xbf16, array_length=2>""",
    """%tdesc2 = XeGPU.create_nd_tdesc  %mref, %offsets:2
        : memref<1024x1024xbf16>, index, index
        into tensor_desc<8x16xbf16>""",
    """#tdesc_attr1 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
    %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offset:
        uint64, index into tensor_desc<16xbf16, #tdesc_attr2>""",
    """%at = XeGPU.load_nd %tdesc2 {transpose = [1,0]} :
     tensor_desc<16x8xf32> into vector<8x16xf32>""",
    """%bt = XeGPU.load_nd %tdesc2 {packed} :
     tensor_desc<16x16xbf16> into vector<8x16x2xbf16>""",
    """%at = XeGPU.load_nd %block_a {transpose = [1, 0], transpose_bit_width = 32} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>
    %bt = vector.shape_cast %at :  vector<8x64xfp16> into vector<8x32x2xfp16>""",
    """// `dpas` variant without vector_c initialization.
    %vector_c = XeGPU.dpas %vector_a, %vector_b :
     vector<8x16xbf16>, vector<16x16xbf16>
     into vector<8x16xfloat>""",
    """%vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x16xbf16>, vector<8x16x2xbf16>
     into vector<8x16xfloat>
    %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x8x2xbf16>, vector<8x16x2xbf16>
     into vector<8x16xfloat>""",
    """XeGPU.store_nd %value, %tdesc2:
          vector<8x16xbf16>, tensor_desc<8x16xbf16>
    XeGPU.store_nd %value, %tdesc2:
          vector<16xbf16>, tensor_desc<16xbf16>""",
    """%tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 :
        tensor_desc<8x16xbf16>, index, index into tensor_desc<8x16xbf16>""",
]

LANES = [
    """%scatter_tdesc0 = XeGPU.create_tdesc %mem_addr, %offsets} :
        uint64, Vector<16 x index>, into tensor_desc<16 x uint8, #scattered>""",
    """#tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
    %scatter_tdesc_chunk = XeGPU.create_tdesc, %base_addr, %offsets
        uint64, vector<16xindex> into tensor_desc<16x8xuint16, #tdesc_attr>""",
    """%result0 = XeGPU.load_gather %scatter_tdesc0, %mask {L1_hint = cached, L2_hint = uncached} :
          tensor_desc<16xuint8, #Scattered>, vector<16xi1> into vector<16xuint8>""",
    """XeGPU.store_scatter %value, %scatter_tdesc1, %mask:
         vector<16xuint16>, vector<16xi1>, tensor_desc<16xuint16, #scattered>""",
    """%tdesc_updated = XeGpu.update_offsets %scatter_tdesc1, %offsets:
        tensor_desc<16xuint16, #scattered>, vector<16xuint16>, into"""
    " tensor_desc<16xuint16, #scattered>",
    """%ret_value = XeGPU.atomic_rmw “addf” %value, %scatter_Desc1, %mask:
          vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1> to vector<16xbf16>""",
    """XeGPU.alloc_nbarrier %total_nbarrier_num: i8
    %nbarrier = XeGPU.init_nbarrier %nbarrier_id, %participant_thread_num : i8, i8 into nbarrier
    XeGPU.nbarrier_arrive %nbarrier
    XeGPU.nbarrier_wait %nbarrier
    XeGPU.fence {scope = "gpu",  memory_kind = "global", }""",
]

WORK_ITEM = [
    """#sg_map_b = xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
    %vector_b = XeGPU.load_nd {packed} %tdesc1:
     tensor_desc<16x16xbf16, #sg_map_b> into vector<8x2xbf16>""",
    """#sg_map_at = xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>
    %at = XeGPU.load_nd %tdesc1 {transpose = [1,0]} :
     tensor_desc<16x8xf32, #sg_map_at> into vector<8x1xf32>""",
    """#sg_map_t = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
    #scatter_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true>
    %scatter_tdesc = XeGPU.create_tdesc, %src_addr, %offsets:
        uint64, vector<16xindex> into tensor_desc<16xfp32, #scatter_attr, #sg_map_t>
    %result = XeGPU.load_gather %scatter_tdesc, %mask {L1 = cached, L2 = uncached} :
          tensor_desc<16xfp32, #tdesc_attr, #sg_map_t>, vector<16xi1> -> vector<1xfp32>""",
]

LOAD_2D = """
  #sg_map_a = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  #sg_map_b = xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
  #sg_map_c = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>

  %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
        : uint64, index, index, index, index, index, index
        into tensor_desc<8x16xbf16, #sg_map_a>

  %vector_a = XeGPU.load_nd %tdesc1:
     tensor_desc<8x16xbf16, #sg_map_a> into vector<8x1xbf16>

  XeGPU.prefetch_nd %tdesc1: tensor_desc<8x16xbf16, #sg_map_a>

  %vector_b = XeGPU.load_nd %tdesc1:
     tensor_desc<16x16xbf16, #sg_map_b> into vector<8x2xbf16>

  %vector_c = XeGPU.dpas %vector_a, %vector_b {#sg_map_a #sg_map_b #sg_map_c} :vector<8x1xbf16>,
     vector<8x2xbf16> into vector<8x1xfloat>

  XeGPU.store_nd %vector_c, %tdesc2:
          vector<8x1xfloat>, tensor_desc<8x16xfloat, #sg_map_c>

  %tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 :
      tensor_desc<8x16xbf16, #sg_map_a>, index, index into tensor_desc<8x16xbf16, #sg_map_a>
"""

REGULAR_LOAD = """
  #sg_map_t = xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>
  #scatter_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true>
  %scatter_tdesc_chunk = XeGPU.create_tdesc, %src_addr, %offsets
        {chunk_size_per_lane=4} :
        uint64, vector<16xindex> into tensor_desc<16x4xfp32, #scatter_attr, #sg_map_t>

  %result = XeGPU.load_gather %scatter_tdesc_chunk, %mask {L1 = cached, L2 = uncached,
          transpose=[1,0]} :
          tensor_desc<16x4xfp32, #scatter_attr, #sg_map_t>, vector<16xi1> -> vector<4x1xfp32>

  #sg_map = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
  %tdesc2 = XeGPU.create_nd_tdesc %dest_addr, %offset:
        uint64, index into tensor_desc<64xfp32, #tdesc_attr>
  XeGPU.store_nd %value, %tdesc2:
                vector<4xfp32>, tensor_desc<64xfp32, #tdesc_attr>
"""

TILES = [
    """%tile = XeTile.init_tile %base_memref, %offset:2, %sizes:2, %stride
     memref<64x64xbf16>, index, index, index, index, index
     into tile<64x64xbf16, index, index, index, index, index>""",
    """%tile = XeTile.init_coop_tile %tile, %coop_id, %coop_size
     tile<64x64xbf16, index, index, index, index, index>, uint_32, uint_32
     into tile<8x8xbf16, index, index, index, index, index>""",
    """%vector_a = XeTile.load_tile %tile_a   inner_blocks = [8, 16]
     tile<64x64xbf16, index, index, index, index, index>
        into vector <8x4x8x16xb16>""",
    """%vector_a = XeTile.load_tile %tile_a   inner_blocks = [8, 16] Transpose = TRUE
     tile<64x64xbf16, index, index, index, index, index>
        into vector <4x8x16x8xbf16>""",
    """XeTile.store_tile %tile_a  %vector_a  inner_blocks = [8, 16]
       vector <8x4x8x16>
     into tile<64x64xbf16, index, index, index, index, index>""",
    """XeTile.prefetch_tile %coop_tile_a
     tile<8x8xbf16, index, index, index, index, index>""",
    """%a = XeTile.load_tile %coop_tile_a
     tile<16x16xbf16, index, index, index, index, index>
       into Vector <16x16xbf16>""",
    """%vector_c = XeTile.tile_mma %vector_a, %vector_b
     vector <8x4x8x8xbf16>, vector<4x8x8x16xbf16>
       into vector <8x8x8x16float>""",
    """XeTile.update_tile_offset %tile, %offset_x, offset_y
        tile<64x64xbf16, index, index, index, index, index>, index""",
]

FIRST_XEGPU = [
    """%block = XeGPU.init_tile %base_memref, %offset:2, %sizes:2, %strides
     memref<8x16xbf16>, index, index, index, index, index
     into tile<8x16xbf16, index, index, index, index, index>""",
    """%bt = XeGPU.load_2D %block_b   VNNI_AXIS = 1
     tile<16x16xbf16, index, index, index, index, index>
        into vector <8x16x2xbf16>""",
    """%at = XeGPU.load_2D %block_a   Transpose = TRUE
     tile<8x16xf32, index, index, index, index, index>
        into vector <16x8xf32>""",
    """XeGPU.store_2D %tile_a  %vector_a
       vector <8x16>
     into tile<8x16xbf16, index, index, index, index, index>""",
    """XeTile.prefetch_2D %block_a
     tile<64x64xbf16, index, index, index, index, index>""",
]


@pytest.mark.parametrize("text", [*TABLE, *BLOCKS, *LANES, *WORK_ITEM, *TILES, *FIRST_XEGPU])
def test_example_is_read(ctx: Context, text: str) -> None:
    module = read(ctx, text, tdesc_attr2=SLM_LINE, tdesc_attr=SLM_LANES)
    found = sum(op.name.startswith(("xegpu.", "xetile.")) for op in module.walk())
    lower = text.lower()
    assert found == lower.count("xegpu.") + lower.count("xetile.") - text.count("= !xegpu.") - (
        text.count("= xegpu.") + text.count("!XeGPU.")
    )


def test_2d_load_example(ctx: Context) -> None:
    module = read(ctx, LOAD_2D)
    names = [op.name for op in module.walk() if op.name.startswith("xegpu.")]
    assert names == [
        "xegpu.create_nd_tdesc", "xegpu.load_nd", "xegpu.prefetch_nd", "xegpu.load_nd",
        "xegpu.dpas", "xegpu.store_nd", "xegpu.update_nd_offset",
    ]  # fmt: skip
    dpas = next(op for op in module.walk() if op.name == "xegpu.dpas")
    assert [operand.name_hint for operand in dpas.operands] == ["vector_a", "vector_b"]
    assert set(dpas.properties) == {"sg_map_a", "sg_map_b", "sg_map_c"}


def test_regular_load_example_lacks_an_sg_map(ctx: Context) -> None:
    with pytest.raises(VerifyException, match="is vector<64xf32>, not vector<4xf32>"):
        read(ctx, REGULAR_LOAD)


def test_regular_load_example_with_the_sg_map(ctx: Context) -> None:
    text = REGULAR_LOAD.replace("64xfp32, #tdesc_attr", "64xfp32, #tdesc_attr, #sg_map")
    module = read(ctx, text)
    gather = next(op for op in module.walk() if op.name == "xegpu.load_gather")
    assert gather.operands[0].name_hint == "scatter_tdesc_chunk"


def test_table_stores_with_a_hint_for_loads(ctx: Context) -> None:
    text = (
        "XeGPU.store_scatter %value, %scatter_tdesc2, %mask {L1 = cached, L2 = uncached} :"
        " vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>"
    )
    with pytest.raises(VerifyException, match="L1_hint is one of uncached, write_through"):
        read(ctx, text)
    read(ctx, text.replace("L1 = cached", "L1 = write_through"))


def test_result_that_is_named_again_is_renamed() -> None:
    text = "%c = XeGPU.dpas %a, %b, %c: vector<8x16xf16>, vector<16x16xf16> into vector<8x16xf32>"
    line = normalized(f"{text}\n{text}").text.splitlines()[1]
    assert line.startswith("%c_3 = xegpu.dpas %a, %b, %c_2 :")


def test_scalar_accesses_of_any_type_are_of_f32(ctx: Context) -> None:
    text = """%r = XeGPU.load_scalar %base, %offset, %mask, %mask_val:
                             uint64, uint64, i1, any, into any
XeGPU.store_scalar %r, %base, %offset, %mask:
                         any, uint64, uint64, i1"""
    made = normalized(text)
    check_text(made.text, """
        CHECK: xegpu.load_scalar %base, %offset, %mask, %mask_val : ui64, ui64, i1, f32 -> f32
        """)
    assert len(made.notes) == 2
    read(ctx, text)


REFUSED = [
    ("XeGPU.prefetch_nd %t: tensor_desc<8x16xbf16, #gone>", "names #gone but does not define it"),
    ("XeGPU.load_nd %t, %u: tensor_desc<8x16xbf16> into vector<8x16xbf16>", "2 operands but 1"),
    ("XeTile.update_tile_offset %tile", "operands or types are missing: XeTile.update_tile"),
    ("XeGPU.prefetch_nd %t:99999999999: tensor_desc<8x16xf16>", "%t:99999999999: a value has at"),
    ("total = 4", "not an op of XeTile or XeGPU: total = 4"),
    (
        "%at = XeGPU.load_2D %block_a VNNI_AXIS = 0 tile<8x16xbf16> into vector<8x16xbf16>",
        "xegpu.load_2D with VNNI_AXIS gives a 3D vector",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        normalized(text)
    assert message in str(error.value)


CASTS = [
    (
        "%at = XeGPU.load_2D %block_a   VNNI_AXIS = 0 (default) tile<8x16xbf16, index, index>"
        " into vector<8x8x2xbf16>",
        "%at_block = xegpu.load_nd %block_a : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>",
    ),
    (
        "%at = XeGPU.load_2D %block_a   Transpose = TRUE   VNNI_AXIS = 1 tile<8x16xbf16, index>"
        " into vector <8x8x2bf16>",
        "%at_block = xegpu.load_nd %block_a {transpose = [1, 0], transpose_bit_width = 32} :"
        " !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>",
    ),
]


@pytest.mark.parametrize(("text", "load"), CASTS)
def test_first_xegpu_loads_and_casts(ctx: Context, text: str, load: str) -> None:
    read(ctx, text)
    line = normalized(text).text.splitlines()[0]
    cast = '%at = "vector.shape_cast"(%at_block) : (vector<8x16xbf16>) -> (vector<8x8x2xbf16>)'
    assert line.endswith(f"{{ {load} {cast}")


def test_first_xegpu_1d_accesses(ctx: Context) -> None:
    text = """%result = XeGPU.load_1d %base, %offset: uint64, uint64 into vector<8xf32>
 XeGPU.store_1d %value, %base, %offset: vector<8xf32>, uint64, uint64"""
    names = [op.name for op in read(ctx, text).walk() if op.name.startswith("xegpu.")]
    assert names == [
        "xegpu.create_nd_tdesc", "xegpu.load_nd", "xegpu.create_nd_tdesc", "xegpu.store_nd"
    ]  # fmt: skip


@pytest.mark.parametrize("text", [*TABLE, *BLOCKS, *LANES, *WORK_ITEM, *TILES, *FIRST_XEGPU])
def test_opt_reads_the_example_and_prints_todays_text(tmp_path, capsys, text: str) -> None:
    file = tmp_path / "rfc.mlir"
    defined = {"tdesc_attr2": SLM_LINE, "tdesc_attr": SLM_LANES}
    file.write_text("".join(f"#{name} = {attr}\n" for name, attr in defined.items()) + text)
    assert main(["opt", str(file)]) == 0
    printed = capsys.readouterr()
    assert not is_rfc_notation(printed.out)
    assert "rfc.mlir: read as in the RFCs, line " in printed.err
    file.write_text(printed.out)
    assert main(["opt", str(file)]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (printed.out, "")


WHOLE = """
#sg_map = !xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
func.func @copy(%a: memref<8x16xf32>, %o: memref<8x16xf32>) {
  %n = arith.constant 1 : index
  %zero:2 = func.call @two() : () -> (index, index)
  scf.for %i = %n to %n step %n {
    %t = XeGPU.create_nd_tdesc %a, %zero:2
         : memref<8x16xfp32>, index, index
         into tensor_desc<8x16xfp32>
    %s = XeGPU.create_nd_tdesc %o, 0, %zero#1 : memref<8x16xf32>, index into tensor_desc<8x16xf32>
    %v = XeGPU.load_nd %t {L1 = cached} : tensor_desc<8x16xfp32> into Vector<8 x 16 x fp32>
    XeGPU.store_nd %v, %s : vector<8x16xfp32>, tensor_desc<8x16xfp32>
  }
  func.return
}
func.func private @two() -> (index, index)
"""


def test_opt_reads_the_notation_inside_of_functions(tmp_path, capsys) -> None:
    file = tmp_path / "whole.mlir"
    file.write_text(WHOLE)
    assert main(["opt", str(file)]) == 0
    printed = capsys.readouterr()
    check_text(printed.out,
               "CHECK: xegpu.load_nd %t {L1_hint = cached} : !xegpu.tensor_desc<8x16xf32>")
    assert len(printed.err.splitlines()) == 5
    file.write_text(WHOLE.replace("Vector<8 x 16", "Vector<4 x 16"))
    assert main(["opt", str(file)]) == 1
    assert f"{file}:12:" in capsys.readouterr().err


def test_opt_names_the_line_of_an_attribute_that_is_not_defined(tmp_path, capsys) -> None:
    (tmp_path / "k.mlir").write_text("\nXeGPU.prefetch_nd %t: tensor_desc<8x16xbf16, #gone>\n")
    assert main(["opt", str(tmp_path / "k.mlir")]) == 1
    assert "k.mlir:2:1: the text names #gone but does not define it" in capsys.readouterr().err
