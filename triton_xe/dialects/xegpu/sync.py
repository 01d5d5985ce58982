"""XeGPU ops that order subgroups and memory: named barriers and fences.

They are uniform instructions and need no sg_map.  Source: the XeGPU RFC, sections on
alloc_nbarrier, init_nbarrier, nbarrier_arrive, nbarrier_wait and fence.
"""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from triton_xe.dialects.access_attributes import FenceScopeAttr, MemoryKindAttr
from triton_xe.dialects.xegpu.syntax import TileOp, TypeConstraint, is_index
from triton_xe.dialects.xegpu.types import NbarrierType

COUNT = TypeConstraint(
    "a barrier's id or count is i8, ui8, i32 or index", lambda type_: is_index(type_, (8, 32))
)


@irdl_op_definition
class AllocNbarrierOp(TileOp):
    """Allocate this many named barriers for the work-group."""

    name = "xegpu.alloc_nbarrier"
    count = operand_def(COUNT)
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class InitNbarrierOp(TileOp):
    """The named barrier with this id, in which this many subgroups participate."""

    name = "xegpu.init_nbarrier"
    nbarrier_id = operand_def(COUNT)
    participants = operand_def(COUNT)
    nbarrier = result_def(NbarrierType)
    traits = traits_def(Pure())

    def __init__(self, *, nbarrier_id: SSAValue, participants: SSAValue) -> None:
        super().__init__(
            nbarrier_id=nbarrier_id, participants=participants, nbarrier_type=NbarrierType()
        )


@irdl_op_definition
class NbarrierArriveOp(TileOp):
    """Signal to the other participants that this subgroup has arrived."""

    name = "xegpu.nbarrier_arrive"
    nbarrier = operand_def(NbarrierType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class NbarrierWaitOp(TileOp):
    """Wait until all participants have arrived."""

    name = "xegpu.nbarrier_wait"
    nbarrier = operand_def(NbarrierType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class FenceOp(TileOp):
    """Order writes before it with reads and writes after it.

    scope: workgroup or gpu (all work-groups).  memory_kind: global or shared (local memory).

        xegpu.fence {scope = gpu, memory_kind = global}
    """

    name = "xegpu.fence"
    scope = prop_def(FenceScopeAttr)
    memory_kind = prop_def(MemoryKindAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
