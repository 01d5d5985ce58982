"""Refuse tensors that exceed the registers and scratch memory of a lane, before any other work."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import ModuleOp, TensorType

from triton_xe.dialects.text.locations import source_of
from triton_xe.errors import XeError, out_of_resources
from triton_xe.hardware.register_file import MAX_LANE_ELEMENTS
from triton_xe.lowering.module_facts import module_lanes, module_target, module_warps
from triton_xe.lowering.rewriting import below


def refuse_large_tensors(module: ModuleOp) -> None:
    """Raise `OutOfResources` if a tensor exceeds the registers and scratch memory of its lanes."""
    lanes = module_warps(module) * module_lanes(module, module_target(module))
    for op in below(module):
        for result in op.results:
            kind = result.type
            if not isinstance(kind, TensorType):
                continue
            held = prod(kind.get_shape()) // lanes
            if held > MAX_LANE_ELEMENTS:
                _refuse(kind, held, str(source_of(op) or ""))


def _refuse(kind: TensorType, held: int, location: str) -> None:
    """Raise the error for a tensor with too many elements per lane, at a source location."""
    shape = "x".join(map(str, kind.get_shape()))
    try:
        out_of_resources(
            held, MAX_LANE_ELEMENTS, "elements of a tensor per lane",
            f"a tensor of {shape} elements",
        )
    except XeError as error:
        error.location = location
        raise
