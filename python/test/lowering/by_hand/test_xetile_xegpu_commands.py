"""Passes by name: `triton-xe opt`, `xdsl-opt` with the plugin, `triton-xe run`."""

import numpy as np
import pytest
from xdsl.universe import Universe
from xdsl.xdsl_opt_main import xDSLOptMain

from triton_xe.lowering.pipeline import PASSES
from triton_xe.tools.cli import main

COPY = """
func.func @copy(%a: memref<8x16xf32>, %o: memref<8x16xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %s : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""
TILES = """
func.func @copy(%a: memref<64x64xf32>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %t {transpose} : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  xetile.store_tile %v, %t : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}
"""


def test_the_plugin_knows_every_pass():
    universe = Universe.get_multiverse()
    for name in PASSES:
        assert universe.all_passes[name]().name == name


def test_xdsl_opt_reads_the_dialects_and_runs_the_passes(tmp_path, capsys):
    file = tmp_path / "copy.mlir"
    file.write_text(COPY)
    xDSLOptMain(args=[str(file), "-p", "lower-kernel-functions,convert-xegpu-to-llvm"]).run()
    assert "LSC2DBlockRead" in capsys.readouterr().out
    file.write_text(TILES)
    xDSLOptMain(args=[str(file)]).run()
    assert "xetile.load_tile" in capsys.readouterr().out


def test_opt_prints_llvm(tmp_path, capsys):
    file = tmp_path / "copy.mlir"
    file.write_text(COPY)
    passes = 'lower-kernel-functions{target="pvc"},convert-xegpu-to-llvm'
    assert main(["opt", str(file), "-p", passes]) == 0
    assert "llvm.genx.GenISA.LSC2DBlockRead" in capsys.readouterr().out


def test_opt_names_unknown_passes(tmp_path, capsys):
    file = tmp_path / "copy.mlir"
    file.write_text(COPY)
    assert main(["opt", str(file), "-p", "fold-everything"]) == 1
    assert "fold-everything" in capsys.readouterr().err


def test_run_writes_the_arrays(tmp_path):
    (tmp_path / "copy.mlir").write_text(COPY)
    source = np.arange(128, dtype=np.float32).reshape(8, 16)
    np.save(tmp_path / "a.npy", source)
    arguments = ["run", str(tmp_path / "copy.mlir"), "--target", "pvc", "--out",
                 str(tmp_path / "out"), "--args", str(tmp_path / "a.npy"), "shape:8x16:f32:zeros"]
    assert main(arguments) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "arg1.npy"), source)


@pytest.mark.parametrize("text", ["shape:8x8", "shape:8:f99", "nothing"])
def test_run_refuses_odd_arguments(text, tmp_path, capsys):
    (tmp_path / "copy.mlir").write_text(COPY)
    assert main(["run", str(tmp_path / "copy.mlir"), "--args", text, "1"]) == 1
    assert repr(text) in capsys.readouterr().err
