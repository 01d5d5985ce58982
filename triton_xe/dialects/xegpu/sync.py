"""XeGPU ops that order subgroups and memory: named barriers and fences.

They are uniform instructions and need no sg_map.  Source: the XeGPU RFC, sections on
alloc_nbarrier, init_nbarrier, nbarrier_arrive, nbarrier_wait and fence.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.constraints import VerificationContext
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import FenceScopeAttr, MemoryKindAttr
from triton_xe.dialects.text.tile_syntax import (
    UsualSyntax,
    parse_attr_dict,
    print_attr_dict,
)
from triton_xe.dialects.xegpu.types import NbarrierType


class CountConstraint(AttrConstraint):
    """A barrier's number or number of participants."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if isinstance(attr, IndexType) or (
            isinstance(attr, IntegerType) and attr.bitwidth in (8, 32)
        ):
            return
        raise VerifyException(f"a barrier's id or count is i8, ui8, i32 or index, not {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> CountConstraint:
        return self


@irdl_op_definition
class AllocNbarrierOp(UsualSyntax):
    """Set aside this many named barriers for the work-group."""

    name = "xegpu.alloc_nbarrier"
    count = operand_def(CountConstraint())
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, *, count: SSAValue) -> None:
        Operation.__init__(self, operands=(count,))


@irdl_op_definition
class InitNbarrierOp(UsualSyntax):
    """The named barrier with this id, which so many subgroups take part in."""

    name = "xegpu.init_nbarrier"
    nbarrier_id = operand_def(CountConstraint())
    participants = operand_def(CountConstraint())
    nbarrier = result_def(NbarrierType)
    traits = traits_def(Pure())

    def __init__(self, *, nbarrier_id: SSAValue, participants: SSAValue) -> None:
        Operation.__init__(
            self, operands=(nbarrier_id, participants), result_types=(NbarrierType(),)
        )


@irdl_op_definition
class NbarrierArriveOp(UsualSyntax):
    """Tell the other participants that this subgroup has arrived."""

    name = "xegpu.nbarrier_arrive"
    nbarrier = operand_def(NbarrierType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, *, nbarrier: SSAValue) -> None:
        Operation.__init__(self, operands=(nbarrier,))


@irdl_op_definition
class NbarrierWaitOp(UsualSyntax):
    """Wait until all participants have arrived."""

    name = "xegpu.nbarrier_wait"
    nbarrier = operand_def(NbarrierType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, *, nbarrier: SSAValue) -> None:
        Operation.__init__(self, operands=(nbarrier,))


@irdl_op_definition
class FenceOp(IRDLOperation):
    """Order writes before it with reads and writes after it.

    scope: workgroup or gpu (all work-groups).  memory_kind: global or shared (local memory).

        xegpu.fence {scope = gpu, memory_kind = global}
    """

    name = "xegpu.fence"
    scope = prop_def(FenceScopeAttr)
    memory_kind = prop_def(MemoryKindAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, *, scope: str, memory_kind: str) -> None:
        Operation.__init__(
            self,
            properties={
                "scope": FenceScopeAttr(scope),
                "memory_kind": MemoryKindAttr(memory_kind),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> FenceOp:
        properties, attributes = parse_attr_dict(parser, cls)
        return cls.create(properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        print_attr_dict(printer, self)
