"""Single values in global memory, shared by all lanes of a subgroup.

Source: `load_scalar` and `store_scalar` of the first XeGPU, in the RFC that introduces XeTile; its
type `any` stands for the type of the value.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, MemRefType, NoneAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from triton_xe.dialects.xegpu.syntax import ADDRESS, INDEX, TileOp
from triton_xe.dialects.xegpu.types import bit_width


class ScalarAccessOp(TileOp):
    """An access at base plus a number of elements, if the mask is true."""

    def verify_place(self, base: SSAValue, value: Attribute) -> None:
        kind = base.type
        if not isinstance(value, IntegerType | AnyFloat) or bit_width(value) not in (8, 16, 32, 64):
            self.refuse(f"a value is a number of 8, 16, 32 or 64 bits, not {value}")
        self.verify_memref(kind, 1, value)
        if isinstance(kind, MemRefType) and kind.memory_space != NoneAttr():
            self.refuse(f"only global memory, not {kind}")


@irdl_op_definition
class LoadScalarOp(ScalarAccessOp):
    """The value at base + offset; `other` if the mask is false.

        %v = xegpu.load_scalar %base, %offset, %mask, %other : ui64, ui64, i1, f32 -> f32
    """

    name = "xegpu.load_scalar"
    base = operand_def(ADDRESS)
    offset = operand_def(INDEX)
    mask = operand_def(i1)
    other = operand_def()
    value = result_def()
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        self.verify_place(self.base, self.value.type)
        if self.other.type != self.value.type:
            self.refuse(f"the other value is {self.value.type}, not {self.other.type}")


@irdl_op_definition
class StoreScalarOp(ScalarAccessOp):
    """Write the value to base + offset if the mask is true.

        xegpu.store_scalar %value, %base, %offset, %mask : f32, ui64, ui64, i1
    """

    name = "xegpu.store_scalar"
    value = operand_def()
    base = operand_def(ADDRESS)
    offset = operand_def(INDEX)
    mask = operand_def(i1)
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        self.verify_place(self.base, self.value.type)
