"""A module of tt.func operations as an LLVM module for SPIR-V."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Operation

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.lowering.allocate_slm import SlmPlan
from triton_xe.lowering.emit import (
    arithmetic,
    calls,
    control,
    debug,
    inline_assembly,
    map_elementwise,
)
from triton_xe.lowering.emit.control import write_body
from triton_xe.lowering.emit.counters import share_counters
from triton_xe.lowering.emit.debug import uses_debug_buffer
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.fusion import fuse_products
from triton_xe.lowering.emit.halves_at_once import compute_halves_at_once
from triton_xe.lowering.emit.legality import check_written
from triton_xe.lowering.emit.masked_loads import separate_other_values
from triton_xe.lowering.emit.maths import fp4, libdevice
from triton_xe.lowering.emit.maths import functions as maths
from triton_xe.lowering.emit.maths.kept_roundings import keep_roundings
from triton_xe.lowering.emit.numbering import number_values
from triton_xe.lowering.emit.separate_broadcasts import separate_broadcasts
from triton_xe.lowering.emit.simplify.narrow import narrow_vectors
from triton_xe.lowering.emit.simplify.simplify_llvm import simplify_llvm
from triton_xe.lowering.emit.tensors import (
    atomics,
    convert,
    dot,
    gather,
    histogram,
    memory,
    reduce,
    scan,
    shape,
    shared,
)
from triton_xe.lowering.emit.tensors.exchange import place_regions
from triton_xe.lowering.emit.tensors.wide_operands import widen_operands
from triton_xe.lowering.emit.types import I8, POINTER, argument_type
from triton_xe.lowering.emit.unused import drop_unused_functions, drop_unused_values
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.emit.xegpu import messages, scalar, sync
from triton_xe.lowering.rewriting import functions

_TABLES = (
    arithmetic, atomics, calls, control, convert, debug, dot, fp4, gather, histogram,
    inline_assembly, libdevice, map_elementwise, maths, memory, reduce, scan, shape, shared,
    messages, scalar, sync,
)


def emit_module(
    module: Operation, target: Target, num_warps: int, lanes: int, *, contract: bool = True,
    tests_promises: bool = False, locates_all: bool = False,
) -> ModuleState:
    """Emit every kernel of a module; the LLVM module is `llvm` of the returned state."""
    state = ModuleState(
        ir.Module(), target, num_warps, lanes, module, contract, tests_promises, locates_all)
    for op in functions(module):
        if op.is_kernel:  # others are written where they are called
            _function(state, op)
    if state.slm is not None:
        resize_slm(state)
    simplify_llvm(state)
    narrow_vectors(state)
    share_counters(state)
    fuse_products(state)
    compute_halves_at_once(state)
    drop_unused_values(state)
    keep_roundings(state)
    separate_broadcasts(state)
    separate_other_values(state)
    drop_unused_functions(state)
    number_values(state)
    check_written(state.llvm, target)
    return state


def _function(state: ModuleState, op: FuncOp) -> None:
    """Emit a kernel: its signature, its metadata and its body."""
    first = op.body.blocks[0]
    for kind in first.arg_types:
        if isinstance(kind, ShapedType):
            raise UnsupportedError(
                f"@{op.sym_name.data}: a kernel takes numbers and pointers, not {kind}"
            )
    arguments = [argument_type(kind) for kind in first.arg_types]
    if uses_debug_buffer(state.module):
        arguments.append(POINTER)
    function = new_kernel(state, op.sym_name.data, arguments)
    state.slm_plan, state.slm_bases = SlmPlan(), []
    em = Emitter(state, function, op)
    for value, held in zip(first.args, function.arguments, strict=False):
        em.bind(value, held)
    write_body(em, op.body)
    place_regions(em)
    widen_operands(state, function)


def new_kernel(state: ModuleState, name: str, arguments: Sequence[ir.Type]) -> ir.Function:
    """A kernel without a body, for the lanes and warps of the module."""
    threads, module = state.num_warps * state.lanes, state.llvm
    parameters = [(f"%a{k}", kind) for k, kind in enumerate(arguments)]
    made = module.functions[name] = ir.Function(
        name, ir.VOID, parameters, [], is_kernel=True, metadata={
            "intel_reqd_sub_group_size": module.add_metadata(f"!{{i32 {state.lanes}}}"),
            "reqd_work_group_size": module.add_metadata(f"!{{i32 {threads}, i32 1, i32 1}}"),
        })
    return made


def resize_slm(state: ModuleState) -> None:
    """Give the array in shared local memory the size that its users need."""
    assert state.slm is not None
    state.slm.type = ir.array(state.slm_bytes, I8)
