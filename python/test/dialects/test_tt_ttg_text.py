"""Ops that the kernels of the lowering tests do not reach, as text that libtriton also accepts."""

import tempfile
from io import StringIO
from pathlib import Path

import pytest
from triton._C.libtriton import ir
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from python.test.filecheck import check_text
from triton_xe.dialects.text.reader import read_module
from triton_xe.dialects.text.writer import write_module

HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 4], warpsPerCTA = [2, 2], \
order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#linear = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16]], warp = [[0], [0]], \
block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#cube = #ttg.blocked<{sizePerThread = [1, 1, 1], threadsPerWarp = [2, 2, 4], \
warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#sharedT = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#padded = #ttg.padded_shared<[64:+4] {order = [1, 0], shape = [32, 64]}>
#flat = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
ttg.target = "xpu:bmg", "ttg.threads-per-warp" = 16 : i32} {
  tt.func public @kernel(%p: !tt.ptr<f32>, %ps: tensor<64x!tt.ptr<i32>, #line>, \
%x: tensor<64xf32, #line>, %i: tensor<64xi32, #line>, %m: tensor<64xi1, #line>, %s: i32, %t: i64, \
%v: tensor<32x64xf16, #blocked>, %fp4: tensor<32x64xi8, #blocked>, %c: f32, %w: tensor<32xf32, \
#linear>) {
"""
TAIL = """\
    tt.return
  }
}
"""

LINES = [
    "%0 = tt.atomic_load acquire, gpu, %ps : (tensor<64x!tt.ptr<i32>, #line>) -> "
    "tensor<64xi32, #line>",
    "%0 = tt.atomic_load relaxed, cta, %ps, %m : (tensor<64x!tt.ptr<i32>, #line>, "
    "tensor<64xi1, #line>) -> tensor<64xi32, #line>",
    "tt.atomic_store release, sys, %ps, %i : tensor<64x!tt.ptr<i32>, #line>",
    "tt.atomic_store relaxed, gpu, %ps, %i, %m : tensor<64x!tt.ptr<i32>, #line>",
    "%0 = tt.atomic_poll acquire, gpu, %ps, %i : tensor<64x!tt.ptr<i32>, #line>, "
    "tensor<64xi32, #line> -> tensor<64xi1, #line>",
    "%0 = tt.atomic_poll relaxed, gpu, %ps, %i timeout %t : tensor<64x!tt.ptr<i32>, #line>, "
    "tensor<64xi32, #line> -> tensor<64xi1, #line>",
    "%0 = tt.approx_divf %x, %x : tensor<64xf32, #line>",
    '%0 = tt.extern_elementwise %x, %x {libname = "lib", libpath = "", pure = true, '
    'symbol = "__xe_pow"} : (tensor<64xf32, #line>, tensor<64xf32, #line>) -> '
    "tensor<64xf32, #line>",
    "%0 = tt.fp_to_fp %x, rounding = rtz : tensor<64xf32, #line> -> tensor<64xf8E5M2, #line>",
    "%0 = tt.clampf %c, %c, %c, propagateNan = all : f32",
    "%0 = tt.ptr_to_int %p : !tt.ptr<f32> -> i64",
    "%0 = tt.int_to_ptr %t : i64 -> !tt.ptr<f32>",
    '%0 = tt.int_to_ptr %t : i64 -> !tt.ptr<f32, "constant">',
    "%0 = tt.load %p {isVolatile = true} : !tt.ptr<f32>",
    "%0 = arith.truncf %c to_nearest_even : f32 to bf16",
    "%0 = arith.addf %c, %c fastmath<contract> : f32",
    "%0 = arith.cmpf ogt, %x, %x fastmath<nnan> : tensor<64xf32, #line>",
    "%0 = arith.addi %i, %i overflow<nsw> : tensor<64xi32, #line>",
    "%0 = arith.select %m, %x, %x : tensor<64xi1, #line>, tensor<64xf32, #line>",
    "%0 = arith.index_cast %s : i32 to index",
    "%0 = ub.poison : tensor<64xf32, #line>",
    "%0 = ttg.convert_layout %v : tensor<32x64xf16, #blocked> -> tensor<32x64xf16, "
    "#ttg.dot_op<{opIdx = 0, parent = #blocked}>>",
    "%0 = ttg.convert_layout %w : tensor<32xf32, #linear> -> "
    "tensor<32xf32, #ttg.slice<{dim = 1, parent = #blocked}>>",
    "%0 = ttg.convert_layout %w {force_warp_shuffle} : tensor<32xf32, #linear> -> "
    "tensor<32xf32, #ttg.slice<{dim = 0, parent = #ttg.slice<{dim = 2, parent = #cube}>}>>",
    "%0 = ttg.local_alloc %v : (tensor<32x64xf16, #blocked>) -> "
    "!ttg.memdesc<32x64xf16, #shared, #smem>",
    "%0 = ttg.local_alloc : () -> !ttg.memdesc<32x64xf16, #padded, #smem, mutable>",
    "scf.for %k = %s to %s step %s  : i32 {\n    } {llvm.loop_annotation = "
    "#llvm.loop_annotation<licm = #llvm.loop_licm<disable = true, versioningDisable = true>>}",
    "ttg.barrier local",
    "ttg.barrier local|global_read|global_write",
    "%0 = ttg.warp_id",
    "%0 = ttg.fp4_to_fp %fp4 {axis = 1 : i32} : tensor<32x64xi8, #blocked> -> "
    "tensor<32x128xbf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 4], "
    "warpsPerCTA = [2, 2], order = [1, 0]}>>",
]

BUFFER = "%b = ttg.local_alloc : () -> !ttg.memdesc<32x64xf16, #shared, #smem, mutable>"
BUFFERS = "%b = ttg.local_alloc : () -> !ttg.memdesc<2x32x64xf16, #shared, #smem, mutable>"
FLAT = "%b = ttg.local_alloc : () -> !ttg.memdesc<64xf32, #flat, #smem, mutable>"
VIEWS = [
    (BUFFER, "ttg.local_dealloc %b : !ttg.memdesc<32x64xf16, #shared, #smem, mutable>"),
    (
        BUFFER,
        "%0 = ttg.local_load %b : !ttg.memdesc<32x64xf16, #shared, #smem, mutable> -> "
        "tensor<32x64xf16, #blocked>",
    ),
    (
        BUFFER,
        "ttg.local_store %v, %b : tensor<32x64xf16, #blocked> -> "
        "!ttg.memdesc<32x64xf16, #shared, #smem, mutable>",
    ),
    (
        BUFFERS,
        "%0 = ttg.memdesc_index %b[%s] : !ttg.memdesc<2x32x64xf16, #shared, #smem, mutable> -> "
        "!ttg.memdesc<32x64xf16, #shared, #smem, mutable>",
    ),
    (
        BUFFER,
        "%0 = ttg.memdesc_subslice %b[0, 32] : !ttg.memdesc<32x64xf16, #shared, #smem, mutable> "
        "-> !ttg.memdesc<32x32xf16, #shared, #smem, mutable, 32x64>",
    ),
    (
        BUFFER,
        "%0 = ttg.memdesc_trans %b {order = array<i32: 1, 0>} : !ttg.memdesc<32x64xf16, #shared, "
        "#smem, mutable> -> !ttg.memdesc<64x32xf16, #sharedT, #smem, mutable>",
    ),
    (
        FLAT,
        "%0 = ttg.local_gather %b[%i] {axis = 0 : i32} : !ttg.memdesc<64xf32, #flat, #smem, "
        "mutable>, tensor<64xi32, #line> -> tensor<64xf32, #line>",
    ),
    (
        FLAT,
        "ttg.local_scatter %b[%i], %x {axis = 0 : i32} : !ttg.memdesc<64xf32, #flat, #smem, "
        "mutable>, tensor<64xi32, #line>, tensor<64xf32, #line>",
    ),
]
SMEM = "!ttg.memdesc<64xf32, #flat, #smem, mutable>"
VIEWS += [
    (
        FLAT,
        "%0 = ttg.local_atomic_scatter_rmw fadd, %b[%i], %x, %m {axis = 0 : i32} : "
        f"({SMEM}, tensor<64xf32, #line>, tensor<64xi32, #line>, tensor<64xi1, #line>) -> "
        "tensor<64xf32, #line>",
    ),
    (
        FLAT.replace("f32", "i32"),
        "%0 = ttg.async_copy_global_to_local %ps, %b mask %m other %i : "
        "tensor<64x!tt.ptr<i32>, #line> -> <64xi32, #flat, #smem, mutable>",
        "%1 = ttg.async_commit_group tokens %0",
        "%2 = ttg.async_wait %1 {num = 1 : i32}",
        f"%3 = ttg.local_load %b token %2 : {SMEM} -> tensor<64xf32, #line>".replace("f32", "i32"),
    ),
    (
        FLAT,
        '%0 = ttg.inline_asm "text" {constraints = "", pure = false} %b, %x : '
        f"({SMEM}, tensor<64xf32, #line>) -> tensor<64xf32, #line>",
    ),
]
BODIES = [*LINES, *("\n    ".join(lines) for lines in VIEWS)]


def module_of(body):
    return f"{HEAD}    {body}\n{TAIL}"


def normalised(text):
    """What libtriton prints for a text, without locations; fails when libtriton rejects it."""
    context = ir.context()
    ir.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.mlir"
        path.write_text(text)
        module = ir.parse_mlir_module(str(path), context)
        return module.str_nodebug() if hasattr(module, "str_nodebug") else str(module)


@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize("body", BODIES)
def test_libtriton_reads_what_we_write(body):
    text = module_of(body)
    module = read_module(text)
    module.verify()
    assert normalised(write_module(module)) == normalised(text)


@pytest.mark.parametrize("body", BODIES)
def test_the_op_is_written_as_it_was_read(body):
    """Up to the names of aliases."""
    module = read_module(module_of(body))
    assert write_module(read_module(write_module(module))) == write_module(module)


@pytest.mark.parametrize(("clauses", "policy"), [
    ("cacheModifier = ca evictionPolicy = evict_first", "ca, eviction_policy = evict_first"),
    ("evictionPolicy = evict_last", "none, eviction_policy = evict_last"),
    ("cacheModifier = cv", "cv, eviction_policy = evict_normal"),
])
@pytest.mark.parametrize("op", [
    "%0 = tt.load %ps{} : tensor<64x!tt.ptr<i32>, #line>",
    "%0 = tt.load %ps, %m, %i{} {{isVolatile = true}} : tensor<64x!tt.ptr<i32>, #line>",
    "tt.store %ps, %i{} : tensor<64x!tt.ptr<i32>, #line>",
])
def test_hints_are_read_as_older_versions_spell_them(op, clauses, policy):
    written = write_module(read_module(module_of(op.format(f" {clauses}"))))
    check_text(written, f"CHECK: cachePolicy = #tt.cache_policy<cache_modifier = {policy}>")
    assert write_module(read_module(written)) == written


def test_an_unknown_hint_is_refused():
    with pytest.raises(ParseError, match="Expected one of 'evict_first'"):
        read_module(module_of("tt.store %ps, %i evictionPolicy = evict_all : "
                              "tensor<64x!tt.ptr<i32>, #line>"))


def test_dpas_layouts_are_named_once_and_read_back():
    dpas = (
        "#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, "
        "threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>"
    )
    operand = f"#ttg.dot_op<{{opIdx = 0, parent = {dpas}, kWidth = 1}}>"
    module = read_module(
        f"module {{\n  tt.func @f(%c: tensor<128x128xf32, {dpas}>, "
        f"%a: tensor<128x32xf16, {operand}>) {{\n    tt.return\n  }}\n}}\n"
    )
    text = write_module(module)
    assert text.startswith(f"#dpas = {dpas}\n")
    check_text(text, "CHECK: %a: {{.*}}#ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>")
    assert write_module(read_module(text)) == text
    assert read_module(text).is_structurally_equivalent(module)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<32xi32, #line>",
            "64 values do not fit",
        ),
        ("%0 = tt.splat %s : i32 -> tensor<64xf32, #line>", "elements must have the source's type"),
        (
            "%0 = ttg.convert_layout %x : tensor<64xf32, #line> -> tensor<32xf32, #line>",
            "only the layout may change",
        ),
        ("%0 = tt.atomic_load never, gpu, %p : (!tt.ptr<f32>) -> f32", "expected one of relaxed"),
        ("%0 = arith.extsi %i : tensor<64xi32, #line> to tensor<32xi64, #line>", "differ in shape"),
        (
            '%0 = "tt.reduce"(%x) <{axis = 0 : i32}> ({\n^bb0(%a: f32):\n'
            "tt.reduce.return %a : f32\n}) : (tensor<64xf32, #line>) -> f32",
            "takes 1 values",
        ),
    ],
)
def test_a_wrong_op_is_not_valid(body, message):
    with pytest.raises(VerifyException, match=message):
        read_module(module_of(body)).verify()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = tt.load %x : tensor<64xf32, #line>", "is no pointer"),
        ("%0 = arith.addf %i, %i : tensor<64xf32, #line>", "operand is used with type"),
        ("%0 = tt.precise_sqrt %undefined : f32", "used but not defined"),
        ("%0 = arith.cmpi almost, %s, %s : i32", "Expected one of"),
        ("ttg.barrier everything", "Expected one of"),
        ("%0 = tt.dot_scaled %x : f32", "Expected ','"),
        ("%0, %1 = tt.precise_sqrt %c : f32", "has 1 results"),
        ("%0 = ub.poison : tensor<64xf32, #nowhere>", "undefined symbol alias"),
    ],
)
def test_a_wrong_text_is_not_read(body, message):
    with pytest.raises((ParseError, VerifyException), match=message):
        read_module(module_of(body))


PAIRS = """builtin.module {
  tt.func @k(%a: f128, %b: f128) {
    %c = arith.mulf %a, %a : f128 loc(#loc)
    %d = arith.mulf %a, %b : f128 loc(#loc)
    %e = arith.mulf %b, %a : f128 loc(#loc)
    %f = arith.mulf %b, %b : f128 loc(#loc)
    tt.return
  }
}
#loc = loc(unknown)
"""


def test_ops_of_equal_operands_teach_nothing_of_others():
    module = read_module(PAIRS)
    a, b = module.body.block.first_op.body.block.args
    wanted = [(a, a), (a, b), (b, a), (b, b)]
    products = [op for op in module.walk() if op.name == "arith.mulf"]
    assert [tuple(op.operands) for op in products] == wanted
    again = read_module(write_module(module, locations=True))
    assert normalised(write_module(again)) == normalised(write_module(module))
    check_text(write_module(module), """
        CHECK: mulf %a, %a
        CHECK: mulf %a, %b
        CHECK: mulf %b, %a
        CHECK: mulf %b, %b
        """)


def test_strings_are_written_as_xdsl_writes_them():
    text = "".join(map(chr, range(256))) + 'a "quoted" back\\slash \u20ac'
    module = ModuleOp([], {"xe.text": StringAttr(text)})
    expected = StringIO()
    Printer(stream=expected).print_op(module)
    written = write_module(module)
    assert written.rstrip("\n") == expected.getvalue()


def test_attributes_with_strings_are_read_once_for_all_modules():
    text = 'builtin.module attributes {a = "x } # {", b = 3 : i32} {\n}\n'
    first = read_module(text)
    again = read_module(text)
    assert again.attributes["a"] is first.attributes["a"]
    assert again.attributes == first.attributes
    assert again.attributes["a"] == StringAttr("x } # {")
    again.attributes.clear()
    assert first.attributes == read_module(text).attributes
