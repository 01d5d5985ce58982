"""Passes on kernels where several rewrites meet: X.mlir holds input and expectation of pass X."""

import sys
from pathlib import Path

import pytest

from triton_xe.dialects.text.writer import write_module
from triton_xe.hardware.target import target
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.layouts.assign_dpas import assign_dpas
from triton_xe.lowering.remarks import Remarks
from triton_xe.lowering.surfaces.raise_surfaces import raise_surfaces
from triton_xe.lowering.tiles.convert_to_xetile import convert_to_xetile

sys.path.insert(0, str(Path(__file__).parent))

from module_text import file_check

HERE = Path(__file__).parent
BMG = target("bmg")
PASSES = {
    "raise_surfaces": lambda module: raise_surfaces(module, BMG, Remarks()),
    "assign_dpas": lambda module: assign_dpas(module, BMG, 4, Remarks()),
    "convert_to_xetile": lambda module: convert_to_xetile(module, BMG, 4, 3),
}


@pytest.mark.parametrize("name", PASSES)
def test_pass(name):
    path = HERE / f"{name}.mlir"
    module = import_ttgir(path.read_text())
    PASSES[name](module)
    module.verify()
    file_check(path, write_module(module))
