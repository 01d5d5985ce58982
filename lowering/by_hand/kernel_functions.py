"""Convert functions of programs written by hand to kernels: memrefs become addresses."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu, xetile
from triton_xe.dialects.arith_ext import IndexCastOp
from triton_xe.dialects.tt.ops import AddPtrOp, GetNumProgramsOp, GetProgramIdOp
from triton_xe.dialects.tt.structure import FuncOp, ReturnOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.target import Target
from triton_xe.lowering.by_hand.decompose_vectors import ACCESSES, decompose_vectors, lower_access
from triton_xe.lowering.emit.xegpu.blocks import SLM_BYTES
from triton_xe.lowering.facts.values import integer_attribute
from triton_xe.lowering.module_facts import WARPS, module_warps
from triton_xe.lowering.rewriting import below

SUBGROUPS = "xe.subgroups"
SLM_SPACE = 3
_ARGUMENT_TYPES = IntegerType | IndexType | AnyFloat | PointerType | LLVMPointerType


def lower_kernel_functions(module: ModuleOp, device: Target) -> None:
    """Convert all functions of a module to kernels; all must have the same number of subgroups."""
    found = {module_warps(module)} if WARPS in module.attributes else set()
    for function in list(module.body.block.ops):
        if isinstance(function, func.FuncOp) and function.body.blocks:
            found.add(subgroups_of(function))
            decompose_vectors(_function(function), device)
    if len(found) > 1:
        raise UnsupportedError(
            f"the kernels of one module have different numbers of subgroups ({sorted(found)});"
            " put them into modules of their own"
        )
    module.attributes[WARPS] = IntegerAttr(next(iter(found), 1), i32)


def subgroups_of(function: Operation) -> int:
    """Subgroups of a work-group of this kernel."""
    held = integer_attribute(function, SUBGROUPS)
    if held == 0:
        raise UnsupportedError(f"{SUBGROUPS} = 0: a work-group has at least one")
    return held or 1


def _function(old: func.FuncOp) -> FuncOp:
    """Convert a `func.func` to a `tt.func` kernel, whose memrefs become addresses."""
    body = old.detach_region(0)
    for arg in list(body.block.args):
        if isinstance(arg.type, MemRefType):
            _argument(arg, arg.type)
    inputs = [arg.type for arg in body.block.args]
    wrong = next((kind for kind in inputs if not isinstance(kind, _ARGUMENT_TYPES)), None)
    if wrong is not None:
        raise UnsupportedError(
            f"{old.sym_name.data}: a kernel takes numbers, addresses and memrefs, not {wrong}"
        )
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
    made.location = old.location
    Rewriter.replace_op(old, made)
    slm = 0
    for op in below(made):
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
    return made


def _argument(value: SSAValue, kind: MemRefType[Any]) -> None:
    """Convert an argument of memref type to a pointer to the memref's base, before its offset."""
    offset = kind.get_offset()
    if offset is None:
        raise UnsupportedError(
            f"an argument of type {kind}: its offset is not known; pass the address of the first"
            " element, or a memref without offset and the offset as an index"
        )
    uses = list(value.uses)
    address = Rewriter.replace_value_with_new_type(value, PointerType(kind.element_type))
    if offset:
        start = arith.ConstantOp(IntegerAttr(offset, i64))
        moved = AddPtrOp.create(operands=[address, start.result], result_types=[address.type])
        Rewriter.insert_op((start, moved), InsertPoint.at_start(_block(address)))
        for use in uses:
            use.operation.operands[use.index] = moved.result
        address = moved.result
    _memref(address, kind, offset)


def _block(value: SSAValue) -> Block:
    assert isinstance(value, BlockArgument)
    return value.block


def _memref(
    address: SSAValue, kind: MemRefType[Any], offset: int, scope: str = "global"
) -> None:
    """Give the shape and strides of a memref to the operations that access it.

    `address` is that of the first element, `offset` elements after the memref's base.
    """
    for use in list(address.uses):
        op = use.operation
        if isinstance(op, xetile.InitTileOp | xegpu.CreateNdTdescOp):
            _check_scope(op, scope)
        if isinstance(op, xetile.InitTileOp) and not op.sizes:
            shape, strides = shape_and_strides(op, kind)
            made: Operation = xetile.InitTileOp(
                base=op.base, offsets=op.offsets, sizes=shape, stride=strides[0],
                tile_type=op.tile_type,
            )
        elif isinstance(op, xegpu.CreateNdTdescOp):
            _check_alignment(kind, offset)
            if op.shape or len(kind.get_shape()) < 2:
                continue
            shape, strides = shape_and_strides(op, kind)
            made = xegpu.CreateNdTdescOp(
                base=op.base, offsets=op.offsets, shape=shape, strides=strides,
                desc_type=op.desc_type,
            )
        elif isinstance(op, memref.SubviewOp):
            if scope == "slm":
                raise UnsupportedError(
                    f"memref.subview of {kind}: a part of shared local memory; add its offset to"
                    " those of the tile or block instead")
            _subview(op, kind, offset)
            continue
        elif isinstance(op, ACCESSES):
            lower_access(op, address, kind, scope)
            continue
        else:
            if any(isinstance(value.type, MemRefType) for value in op.results):
                raise UnsupportedError(
                    f"{op.name} of {kind}: parts of memrefs are made by memref.subview; give other"
                    " views as an address, sizes and strides")
            continue
        made.properties = op.properties | made.properties
        made.attributes.update(op.attributes)
        Rewriter.replace_op(op, made)


def _check_scope(op: xetile.InitTileOp | xegpu.CreateNdTdescOp, scope: str) -> None:
    """Refuse a tile or descriptor that states another memory than that of its memref."""
    kind = op.results[0].type
    said = kind.scope if isinstance(kind, xetile.TileType) else kind.memory_scope  # type: ignore[attr-defined]
    if said != scope:
        raise UnsupportedError(
            f"{op.name}: the memref is in {scope} memory; say memory_scope = {scope} in {kind}")


def _subview(op: memref.SubviewOp, kind: MemRefType[Any], offset: int) -> None:
    """Replace a part of a memref by the address of its first element, with the whole's strides."""
    part = op.result.type
    assert isinstance(part, MemRefType)
    _, strides = shape_and_strides(op, kind)
    steps = op.static_strides.get_values()
    sizes = op.static_sizes.get_values()
    expected = tuple(stride * step for stride, step in zip(strides, steps, strict=True))
    given = part.get_shape(), part.get_strides()
    if DYNAMIC_INDEX in steps + sizes or given != (sizes, expected):
        raise UnsupportedError(
            f"memref.subview to {part}: sizes and strides are to be numbers, those of the type and"
            f" of as many dimensions as {kind} has"
        )
    indices, found = iter(op.offsets), offset
    address: SSAValue = op.source
    for start, stride in zip(op.static_offsets.get_values(), strides, strict=True):
        if start == DYNAMIC_INDEX:
            index = IndexCastOp(next(indices), i64)
            scale = arith.ConstantOp(IntegerAttr(stride, i64))
            amount: list[Operation] = [index, scale, arith.MuliOp(index.results[0], scale)]
        else:
            found += start * stride
            amount = [arith.ConstantOp(IntegerAttr(start * stride, i64))]
        moved = AddPtrOp.create(
            operands=[address, amount[-1].results[0]], result_types=[address.type]
        )
        Rewriter.insert_op((*amount, moved), InsertPoint.before(op))
        address = moved.result
    if part.get_offset() not in (None, found):
        raise UnsupportedError(f"memref.subview to {part}: its offset is {found}")
    for use in list(op.result.uses):
        use.operation.operands[use.index] = address
    _memref(address, part, found)
    Rewriter.erase_op(op)


def shape_and_strides(
    op: Operation, kind: MemRefType[Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a memref whose type says them."""
    shape, strides = kind.get_shape(), kind.get_strides()
    if strides is None or DYNAMIC_INDEX in shape or {None, DYNAMIC_INDEX} & set(strides):
        raise UnsupportedError(f"{op.name}: {kind} has no static shape; give sizes and strides")
    return shape, tuple(max(1, stride) for stride in strides if stride is not None)


def _check_alignment(kind: MemRefType[Any], offset: int) -> None:
    """Refuse blocks of a memref that begins at an unaligned distance from its address."""
    size = bit_width(kind.element_type)
    if len(kind.get_shape()) > 1 and offset * size % (8 * block_2d.BASE_ALIGNMENT):
        raise UnsupportedError(
            f"xegpu.create_nd_tdesc: {kind} starts {offset * size // 8} bytes after an address;"
            f" blocks are described from a multiple of {block_2d.BASE_ALIGNMENT} bytes on. Describe"
            " the whole, and add the distance to the offsets of the block"
        )


def _replace_id(op: gpu.BlockIdOp | gpu.GridDimOp | gpu.SubgroupIdOp) -> None:
    """gpu.block_id x -> tt.get_program_id x ; gpu.grid_dim x -> tt.get_num_programs x"""
    made: Operation
    if isinstance(op, gpu.SubgroupIdOp):
        made = xe.WarpIdOp(id_type=i32)
    else:
        kind = GetProgramIdOp if isinstance(op, gpu.BlockIdOp) else GetNumProgramsOp
        axis = StringAttr(str(op.dimension.data))
        made = kind.create(properties={"axis": axis}, result_types=[i32])
    Rewriter.insert_op(made, InsertPoint.before(op))
    Rewriter.replace_op(op, IndexCastOp(made.results[0], IndexType()))


def _allocate(op: memref.AllocaOp, used: int) -> int:
    """Replace a memref in shared local memory by its offset in bytes; return the bytes in use."""
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
    _memref(base.result, kind, 0, "slm")
    Rewriter.erase_op(op)
    if kind.get_strides() != MemRefType.strides_for_shape(kind.get_shape()) or kind.get_offset():
        raise UnsupportedError(f"memref.alloca of {kind}: only without a layout of its own")
    size = prod(kind.get_shape()) * bit_width(kind.element_type) // 8
    return used + -(-size // 64) * 64
