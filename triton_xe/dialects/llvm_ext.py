"""Dialect `llvm`: the one operation of it that Triton's front end writes.

    llvm.intr.assume %condition : i1            # tl.assume
"""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """The author's word that a condition holds; a kernel is right without it as well."""

    name = "llvm.intr.assume"
    condition = operand_def(i1)
    assembly_format = "$condition attr-dict `:` type($condition)"


LLVM = Dialect("llvm", [AssumeOp])
