"""The dialect `gpu` of xDSL, with its barrier as MLIR writes it: `gpu.barrier`."""

from __future__ import annotations

from xdsl.dialects.gpu import GPU as Stock
from xdsl.dialects.gpu import BarrierOp as StockBarrierOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All subgroups of a work-group meet, and see what the others stored before."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"


GPU = Dialect("gpu", [
    *(op for op in Stock.operations if op is not StockBarrierOp), BarrierOp,
], list(Stock.attributes))
