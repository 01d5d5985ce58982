"""Decisions about memory messages, as pure functions from layouts and facts to plans with reasons.

Operand B of a 256x256x32 fp16 product, for 8 x 4 subgroups of an Arc B580:

>>> from triton_xe.hardware.target import target
>>> from triton_xe.layout import parse_encoding, to_linear_layout
>>> from triton_xe.plan.drawing import draw_plan
>>> dpas = ("#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, "
...     "threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>")
>>> b = parse_encoding(f"#ttg.dot_op<{{opIdx = 1, parent = {dpas}, kWidth = 2}}>")
>>> plan = plan_block_load(to_linear_layout(b, (32, 256)), SurfaceFacts(pitch_multiple=16), 16,
...     target("bmg"), fragment=fragment_of(b, 16))
>>> str(plan.shape), plan.vector_type
('d16 16x32 v2 vnni', '<32 x i32>')
>>> print(draw_plan(plan))
      x=0        16         32   128        144        160  256
y=0   +----------+----------+    +----------+----------+
      | #0       : #0       |    | #1       : #1       |
      | e0..15   : e16..31  |    | e0..15   : e16..31  |
32    +----------+----------+    +----------+----------+

Warp 3 reads 96 columns further right.  The third DPAS operand of each warp (K 16..31 of its first
16 columns) is elements 8 to 15 of message 0, without moves:

>>> plan.origin.apply({"warp": 3, "block": 0})
{'dim0': 0, 'dim1': 96}
>>> plan.fragments[2].message, plan.fragments[2].elements, plan.fragments[2].is_slice
(0, (8, 9, 10, 11, 12, 13, 14, 15), True)

The plan is valid if its guards hold.  Conditions that the facts prove are not among them:

>>> print(*plan.guards[:2], sep=", ")
base is a multiple of 64 bytes, pitch is at least 64 bytes

If no 2D block message is legal, the result is a reason, and `plan_load` plans a gather instead:

>>> facts = SurfaceFacts(pitch_bytes=1002)
>>> print(plan_block_load(to_linear_layout(b, (32, 256)), facts, 16, target("bmg")).reason)
the surface is not legal for 2D block messages: pitch is not a multiple of 16 bytes
>>> plan_load(to_linear_layout(b, (32, 256)), facts, 16, target("bmg")).access
<Access.SCALAR: 'scalar gather'>
"""

from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.plan.block_load import Objective, plan_block_load, plan_block_store
from triton_xe.plan.gather import Access, GatherPlan, plan_gather, plan_load, plan_store
from triton_xe.plan.model import (
    BlockLoadPlan,
    BlockPlan,
    BlockStorePlan,
    FragmentSource,
    Message,
    Refusal,
    Source,
)
from triton_xe.plan.operand import fragment_of
from triton_xe.plan.prefetch import PrefetchPlan, plan_prefetch
from triton_xe.plan.result_layout import result_layout
from triton_xe.plan.size_class import SizeClass, size_class
from triton_xe.plan.surface import SurfaceFacts

__all__ = [
    "Access",
    "BlockLoadPlan",
    "BlockPlan",
    "BlockStorePlan",
    "FragmentSource",
    "GatherPlan",
    "Guard",
    "Message",
    "Objective",
    "PrefetchPlan",
    "Refusal",
    "Relation",
    "SizeClass",
    "Source",
    "SurfaceFacts",
    "fragment_of",
    "plan_block_load",
    "plan_block_store",
    "plan_gather",
    "plan_load",
    "plan_prefetch",
    "plan_store",
    "result_layout",
    "size_class",
]
