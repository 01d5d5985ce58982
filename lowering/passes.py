"""The passes of the compiler as xDSL passes, for `triton-xe opt` and `xdsl-opt`.

    xdsl-opt kernel.ttgir -p 'raise-surfaces,assign-dpas,convert-to-xetile{num-stages=3}'

A pass asks the module for its device (`ttg.target = "xpu:bmg"`) and its subgroups; the option
`target` says it where the module does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from triton_xe.hardware.target import Target
from triton_xe.lowering.insert_barriers import InsertBarriersPass

LLVM_IR = "xe.llvm_ir"
"""Attribute of a module that convert-xegpu-to-llvm has emptied: the text of the LLVM module."""
DEFAULT_TARGET = "bmg"


@dataclass(frozen=True)
class TargetedPass(ModulePass):
    """A pass for one device."""

    target: str = DEFAULT_TARGET

    def device(self, module: ModuleOp) -> Target:
        """The module's device; noted in the module."""
        from triton_xe.lowering.by_hand.dialect_pipeline import set_target

        return set_target(module, self.target)


@dataclass(frozen=True)
class ExpandDescriptorsPass(TargetedPass):
    """Loads and stores through tensor descriptors -> those of tensors of pointers."""

    name: ClassVar = "expand-descriptors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.surfaces.expand_descriptors import expand_descriptors

        expand_descriptors(op)


@dataclass(frozen=True)
class DecomposeScaledDotsPass(TargetedPass):
    """tt.dot_scaled -> tt.dot of scaled operands."""

    name: ClassVar = "decompose-scaled-dots"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.layouts.decompose_scaled_dots import decompose_scaled_dots

        decompose_scaled_dots(op)


@dataclass(frozen=True)
class RaiseSurfacesPass(TargetedPass):
    """tt.load and tt.store of matrices -> xe.block_load and xe.block_store."""

    name: ClassVar = "raise-surfaces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.remarks import Remarks
        from triton_xe.lowering.surfaces.raise_surfaces import raise_surfaces

        raise_surfaces(op, self.device(op), Remarks())


@dataclass(frozen=True)
class JoinHalvesPass(TargetedPass):
    """A tile that is split in two to be stored half by half is stored whole."""

    name: ClassVar = "join-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.remarks import Remarks
        from triton_xe.lowering.surfaces.join_halves import join_halves

        join_halves(op, self.device(op), Remarks())


@dataclass(frozen=True)
class AssignDpasPass(TargetedPass):
    """tt.dot gets the layout of DPAS, its operands those of DPAS operands."""

    name: ClassVar = "assign-dpas"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.layouts.assign_dpas import assign_dpas
        from triton_xe.lowering.pipeline import module_warps
        from triton_xe.lowering.remarks import Remarks

        assign_dpas(op, self.device(op), module_warps(op), Remarks())


@dataclass(frozen=True)
class SpreadRowsPass(TargetedPass):
    """Values per row of a DPAS result live one in a lane."""

    name: ClassVar = "spread-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.layouts.spread_rows import spread_rows

        spread_rows(op)


@dataclass(frozen=True)
class ReduceInPlacePass(TargetedPass):
    """A reduction of all elements reads them where they are."""

    name: ClassVar = "reduce-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.layouts.reduce_in_place import reduce_in_place

        reduce_in_place(op)


@dataclass(frozen=True)
class ScatterInPlacePass(TargetedPass):
    """Scattered stores and atomics work in the layout of their addresses."""

    name: ClassVar = "scatter-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.layouts.scatter_in_place import scatter_in_place

        scatter_in_place(op)


@dataclass(frozen=True)
class ConvertToXeTilePass(TargetedPass):
    """Block loads, block stores and dots -> XeTile; loads are prefetched num_stages - 1 ahead."""

    name: ClassVar = "convert-to-xetile"
    num_stages: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.pipeline import module_warps
        from triton_xe.lowering.tiles.convert_to_xetile import convert_to_xetile

        convert_to_xetile(op, self.device(op), module_warps(op), self.num_stages)


@dataclass(frozen=True)
class LowerKernelFunctionsPass(TargetedPass):
    """func.func -> tt.func; memrefs -> addresses."""

    name: ClassVar = "lower-kernel-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.by_hand.lower_kernel_functions import lower_kernel_functions

        self.device(op)
        lower_kernel_functions(op)


@dataclass(frozen=True)
class GuardTilesPass(TargetedPass):
    """A version with messages, and one with gathers for surfaces that messages cannot address."""

    name: ClassVar = "guard-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.by_hand.guard_tiles import guard_tiles

        guard_tiles(op, self.device(op))


@dataclass(frozen=True)
class ConvertXeTileToXeGPUPass(TargetedPass):
    """Tiles -> instructions."""

    name: ClassVar = "convert-xetile-to-xegpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.tiles.convert_xetile_to_xegpu import convert_xetile_to_xegpu

        convert_xetile_to_xegpu(op, self.device(op))


@dataclass(frozen=True)
class SinkLoadsPass(TargetedPass):
    """Reads that do not fit into the registers at once move to their first use."""

    name: ClassVar = "sink-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.tiles.sink_loads import sink_loads

        sink_loads(op, self.device(op))


@dataclass(frozen=True)
class ConvertXeGPUToLLVMPass(TargetedPass):
    """The whole module -> LLVM IR, kept as text in an attribute of the then empty module."""

    name: ClassVar = "convert-xegpu-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from triton_xe.lowering.pipeline import Stage, make_llir

        self.device(op)
        from triton_xe.lowering.rewriting import detach

        text = str(make_llir(Stage(op), {}))
        for inner in list(op.body.block.ops):
            detach(inner)
        op.attributes[LLVM_IR] = StringAttr(text)


__all__ = ["InsertBarriersPass"]
