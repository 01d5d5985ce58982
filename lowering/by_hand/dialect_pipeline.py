"""Programs written in XeTile or XeGPU by hand: text to SPIR-V by the stages from xegpu on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from triton_xe.dialects import xegpu
from triton_xe.dialects.xetile import XeTile
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.by_hand.diagnostics import errors_located, read_by_hand
from triton_xe.lowering.by_hand.emission import register
from triton_xe.lowering.by_hand.guard_tiles import GuardTilesPass
from triton_xe.lowering.by_hand.lower_kernel_functions import LowerKernelFunctionsPass
from triton_xe.lowering.facts.values import attribute
from triton_xe.lowering.module_facts import module_warps, set_target
from triton_xe.lowering.pipeline import Stage, make_llir, make_spirv, make_xegpu
from triton_xe.lowering.rewriting import below, functions

_ON_BLOCKS = (
    xegpu.LoadNdOp, xegpu.StoreNdOp, xegpu.DpasOp, xegpu.LoadGatherOp, xegpu.StoreScatterOp,
    xegpu.AtomicRmwOp,
)
"""Operations of XeGPU whose vectors are laid out as one instruction has them."""


@dataclass
class Program:
    """A compiled module and what a launch must know."""

    spirv: bytes = field(repr=False)
    llvm_ir: str = field(repr=False)
    metadata: dict[str, Any]
    kernels: tuple[str, ...]
    subgroups: int


def lower(module: ModuleOp, target_name: str) -> Program:
    """Compile a module in place; one without tiles keeps the order of its instructions."""
    register()
    set_target(module, target_name)
    stage, tiles = Stage(module), tuple(XeTile.operations)
    has_tiles = any(isinstance(op, tiles) for op in below(module))
    for function in module.ops if has_tiles else ():
        _refuse_mixed(function, tiles)
    LowerKernelFunctionsPass().apply(Context(), module)
    if has_tiles:
        GuardTilesPass().apply(Context(), module)
        stage = make_xegpu(stage)
    kernels = tuple(attribute(f, "sym_name").data for f in functions(module))
    metadata: dict[str, Any] = {}
    llir = make_llir(stage, metadata)
    return Program(make_spirv(llir, metadata), str(llir), metadata, kernels, module_warps(module))


def _refuse_mixed(function: Operation, tiles: tuple[type[Operation], ...]) -> None:
    """Refuse operations on the vectors of an instruction in a function with tiles."""
    inside = below(function)
    if any(isinstance(op, tiles) for op in inside):
        for op in inside:
            _refuse_block(op)


def _refuse_block(op: Operation) -> None:
    if isinstance(op, _ON_BLOCKS):
        raise UnsupportedError(
            f"{op.name} in a function with tiles of XeTile: it needs vectors as one instruction has"
            " them, and tiles are laid out by the compiler; use XeTile's operation here, or write"
            " two kernels"
        )


def compile_text(text: str, target_name: str, name: str = "module") -> Program:
    """Compile a program in XeTile or XeGPU."""
    module = read_by_hand(text, name)
    with errors_located("the compiler"):
        return lower(module, target_name)
