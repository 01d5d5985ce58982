"""Recordings of compiled kernels, and what counts as a difference between two."""

import pytest

from python.dev import golden_corpus
from triton_xe.tools import golden
from triton_xe.tools.canonical import canonical_llvm, canonical_mlir, canonical_spirv
from triton_xe.tools.sample_kernel import to_spirv

TTIR = """
module {
  tt.func public @%(name)s(%%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %%0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %%1 = tt.splat %%p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %%2 = tt.addptr %%1, %%0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %%3 = tt.load %%2 : tensor<64x!tt.ptr<f32>>
    %%4 = %(op)s %%3, %%3 : tensor<64xf32>
    tt.store %%2, %%4 : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
COPY = """
func.func @copy(%a: memref<8x16xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %t : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""
LLVM = """
target triple = "spirv64-unknown-unknown"
declare spir_func i64 @_Z13get_global_idj(i32)
declare spir_func i64 @_Z12get_local_idj(i32)
define spir_kernel void @f(ptr addrspace(1) %p) !intel_reqd_sub_group_size !0 {
entry:
  %i = call spir_func i64 @_Z13get_global_idj(i32 0)
  %j = call spir_func i64 @_Z12get_local_idj(i32 0)
  %s = add i64 %i, %j
  store i64 %s, ptr addrspace(1) %p, align 8, !xe.at !1
  ret void
}
!0 = !{i32 16}
!1 = !{!"f.py", i32 1}
"""
DECLARATIONS = [line for line in LLVM.splitlines(keepends=True) if line.startswith("declare")]
RENAMED = (
    LLVM.replace("".join(DECLARATIONS), "".join(reversed(DECLARATIONS)))
    .replace("%s", "%sum").replace('%i ', '%".7" ').replace("%i,", '%".7",')
    .replace("!0", "!2").replace("!1", "!0").replace("entry:", "start:")
)
OTHER = LLVM.replace("add i64 %i, %j", "sub i64 %i, %j")


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus" / "kernels"
    folder.mkdir(parents=True)
    for name, op in (("twice", "arith.addf"), ("square", "arith.mulf")):
        (folder / f"{name}.ttir").write_text(TTIR % {"name": name, "op": op})
        (folder / f"{name}.json").write_text('{"num_warps": 4}')
    return folder.parent


def golden_command(*arguments):
    return golden.run(golden.parser().parse_args([str(a) for a in arguments]))


def test_planted_difference_is_found(corpus, tmp_path, capsys):
    out = tmp_path / "out"
    devices = ("--devices", "bmg,dg2")
    assert golden_command("record", corpus, out, *devices) == 0
    assert golden_command("compare", corpus, out, *devices) == 0
    assert "identical 16, equivalent 0, differ 0" in capsys.readouterr().out
    source = corpus / "kernels" / "square.ttir"
    source.write_text(source.read_text().replace("arith.mulf", "arith.subf"))
    assert golden_command("compare", corpus, out, *devices, "--show", "1") == 1
    printed = capsys.readouterr().out
    assert "bmg kernels/square llir differs" in printed
    assert "dg2 kernels/square spv differs" in printed
    assert "twice" not in printed


def test_comparing_with_nothing_is_no_success(corpus, tmp_path, capsys):
    assert golden_command("compare", corpus, tmp_path / "empty", "--devices", "bmg") == 1
    assert "2 compilations have no recording" in capsys.readouterr().out


def test_refusal_is_recorded(corpus, tmp_path):
    (corpus / "kernels" / "twice.json").write_text('{"num_warps": 3}')
    case = golden.Case(corpus / "kernels" / "twice.ttir", "bmg")
    assert golden.compiled(case) == {
        "refusal": "OptionError: num_warps must be a power of 2, not 3"}


def test_program_is_recorded(corpus, tmp_path):
    program = tmp_path / "copy.mlir"
    program.write_text(COPY)
    command = ("gather", corpus, "--program", program)
    assert golden_command(*command, "lower-kernel-functions,convert-xegpu-to-llvm") == 0
    [(case, recording, _)] = golden.compile_all(golden.choose(corpus, ["bmg"], 0, 0, "programs"), 1)
    assert case.name.startswith("programs/copy-")
    assert "LSC2DBlockRead" in recording["llir"]


@pytest.mark.parametrize(("form", "make"), [
    (canonical_llvm, str), (canonical_spirv, to_spirv),
], ids=["llvm", "spirv"])
def test_names_and_order_are_no_difference(form, make):
    assert make(LLVM) != make(RENAMED)
    assert form(make(LLVM)) == form(make(RENAMED))
    assert form(make(LLVM)) != form(make(OTHER))


def test_mlir_aliases_and_names_are_no_difference():
    text = "#b = #x.b<2>\n#a = #x.a<#b>\n%x = f.op() : t<#a>\nf.br ^next(%x : t<#a>)"
    same = "%7 = f.op() : t<#x.a<#x.b<2>>>\nf.br ^bb0(%7 : t<#x.a<#x.b<2>>>)"
    assert canonical_mlir(text) == canonical_mlir(same)
    assert canonical_mlir(text) != canonical_mlir(same.replace("2", "3"))


def test_kernels_of_a_program_are_gathered_once(tmp_path):
    program = ("-c", "from benchmarks.loops import compiled; compiled('add', 'bmg')")
    for _ in range(2):
        assert golden_corpus.gathered(tmp_path, "ledger", program) == 1
    (kernel,) = golden.choose(tmp_path, ["lnl"], sample=0, seed=0, kinds="ledger")
    assert "refusal" not in golden.compiled(kernel)
