"""The dialect `gpu` of xDSL, with the barrier spelled as in MLIR: `gpu.barrier`."""

from __future__ import annotations

from xdsl.dialects.gpu import GPU as Stock
from xdsl.dialects.gpu import BarrierOp as StockBarrierOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Wait for all subgroups of the work-group; their stores before it are visible afterwards."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"


GPU = Dialect("gpu", [
    *(op for op in Stock.operations if op is not StockBarrierOp), BarrierOp,
], list(Stock.attributes))
