"""Pass lower-kernel-functions: functions written by hand become kernels as Triton's are.

    func.func @k(%a: memref<64x64xf16>, %n: index)  ->  tt.func public @k(%a: !tt.ptr<f16>, ...)
    func.return                                     ->  tt.return
    xetile.init_tile / xegpu.create_nd_tdesc at a memref of static shape
                                                    ->  the same at an address, sizes written out
    gpu.block_id, gpu.grid_dim, gpu.subgroup_id     ->  tt.get_program_id, ..., xe.warp_id
    memref.alloca() : memref<256xf32, 3>            ->  an offset into shared local memory

The attribute `xe.subgroups` of a function is the number of subgroups of its work-group (1 unless
it is given), `xe.slm_bytes` the shared local memory that addresses of memory_scope = slm count in.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import IndexCastOp
from triton_xe.dialects.tt.ops import GetNumProgramsOp, GetProgramIdOp
from triton_xe.dialects.tt.structure import FuncOp, ReturnOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xe import WarpIdOp
from triton_xe.dialects.xegpu.nd import CreateNdTdescOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.dialects.xetile.ops import InitTileOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.module_facts import WARPS, module_warps
from triton_xe.lowering.targeted_pass import TargetedPass

SUBGROUPS = "xe.subgroups"
SLM_BYTES = "xe.slm_bytes"
SLM_SPACE = 3


@dataclass(frozen=True)
class LowerKernelFunctionsPass(TargetedPass):
    """In kernels written by hand: `func.func` -> `tt.func`, memrefs -> addresses."""

    name: ClassVar = "lower-kernel-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.device(op)
        found = {module_warps(op)} if WARPS in op.attributes else set()
        for function in list(op.body.block.ops):
            if isinstance(function, func.FuncOp) and function.body.blocks:
                found.add(subgroups_of(function))
                _function(function)
        if len(found) > 1:
            raise UnsupportedError(
                f"the kernels of one module have different numbers of subgroups ({sorted(found)});"
                " put them into modules of their own"
            )
        op.attributes[WARPS] = IntegerAttr(next(iter(found), 1), i32)


def subgroups_of(function: Operation) -> int:
    """Subgroups of a work-group of this kernel."""
    held = function.attributes.get(SUBGROUPS)
    return int(held.value.data) if isinstance(held, IntegerAttr) else 1


def _function(old: func.FuncOp) -> None:
    body = old.detach_region(0)
    for arg in list(body.block.args):
        if isinstance(arg.type, MemRefType):
            _memref(arg, arg.type)
    inputs = [arg.type for arg in body.block.args]
    if old.function_type.outputs.data:
        raise UnsupportedError(f"{old.sym_name.data}: a kernel returns nothing; store the results")
    attributes = {k: v for k, v in old.attributes.items() if k != SUBGROUPS}
    made = FuncOp.create(
        properties={
            "sym_name": old.sym_name,
            "function_type": FunctionType.from_lists(inputs, []),
            "sym_visibility": StringAttr("public"),
        },
        attributes=attributes,
        regions=[body],
    )
    Rewriter.replace_op(old, made)
    slm = 0
    for op in list(made.walk()):
        if isinstance(op, func.ReturnOp | gpu.ReturnOp):
            Rewriter.replace_op(op, ReturnOp.create())
        elif isinstance(op, gpu.NumSubgroupsOp):
            raise UnsupportedError("gpu.num_subgroups: the number is the attribute xe.subgroups")
        elif isinstance(op, gpu.BlockIdOp | gpu.GridDimOp | gpu.SubgroupIdOp):
            _replace_id(op)
        elif isinstance(op, memref.AllocaOp):
            slm = _allocate(op, slm)
    if slm:
        declared = attributes.get(SLM_BYTES)
        if isinstance(declared, IntegerAttr):
            raise UnsupportedError(
                f"{old.sym_name.data}: shared local memory is given by {SLM_BYTES} or by"
                " memref.alloca, not both"
            )
        made.attributes[SLM_BYTES] = IntegerAttr(slm, i32)


def _memref(value: SSAValue, kind: MemRefType[Any]) -> None:
    """Take the shape of a memref over into the ops that describe parts of it."""
    shape, strides = kind.get_shape(), kind.get_strides()
    known = DYNAMIC_INDEX not in shape and strides is not None and all(
        isinstance(s, int) and s != DYNAMIC_INDEX for s in strides)
    for use in list(value.uses):
        op = use.operation
        if isinstance(op, InitTileOp) and not op.sizes:
            _need(known, op, kind)
            assert strides is not None
            made: Operation = InitTileOp(
                base=op.base, offsets=op.offsets, sizes=shape, stride=strides[0],
                tile_type=op.tile_type,
            )
        elif isinstance(op, CreateNdTdescOp) and not op.shape and len(shape) == 2:
            _need(known, op, kind)
            made = CreateNdTdescOp(
                base=op.base, offsets=op.offsets, shape=shape, strides=strides,
                desc_type=op.desc_type,
            )
        else:
            continue
        made.properties = op.properties | made.properties
        made.attributes.update(op.attributes)
        Rewriter.replace_op(op, made)
    Rewriter.replace_value_with_new_type(value, PointerType(kind.element_type))


def _need(known: bool, op: Operation, kind: Attribute) -> None:
    if not known:
        raise UnsupportedError(f"{op.name}: {kind} has no static shape; give sizes and strides")


def _replace_id(op: gpu.BlockIdOp | gpu.GridDimOp | gpu.SubgroupIdOp) -> None:
    """gpu.block_id x -> tt.get_program_id x ; gpu.grid_dim x -> tt.get_num_programs x"""
    made: Operation
    if isinstance(op, gpu.SubgroupIdOp):
        made = WarpIdOp(id_type=i32)
    else:
        kind = GetProgramIdOp if isinstance(op, gpu.BlockIdOp) else GetNumProgramsOp
        axis = StringAttr(str(op.dimension.data))
        made = kind.create(properties={"axis": axis}, result_types=[i32])
    Rewriter.insert_op(made, InsertPoint.before(op))
    Rewriter.replace_op(op, IndexCastOp(made.results[0], IndexType()))


def _allocate(op: memref.AllocaOp, used: int) -> int:
    """A memref in shared local memory becomes its offset in bytes."""
    kind = op.memref.type
    assert isinstance(kind, MemRefType)
    space = kind.memory_space
    local = isinstance(space, IntegerAttr) and space.value.data == SLM_SPACE
    if not local or DYNAMIC_INDEX in kind.get_shape():
        raise UnsupportedError(
            f"memref.alloca of {kind}: only shared local memory of static shape"
            f" (memory space {SLM_SPACE}) can be allocated"
        )
    base = arith.ConstantOp(IntegerAttr(used, i64))
    Rewriter.insert_op(base, InsertPoint.before(op))
    op.memref.replace_all_uses_with(base.result)
    Rewriter.erase_op(op)
    size = prod(kind.get_shape()) * bit_width(kind.element_type) // 8
    return used + -(-size // 64) * 64
