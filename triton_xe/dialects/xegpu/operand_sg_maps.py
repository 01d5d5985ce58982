"""Which sg_map the operands of a DPAS need: the RFC's tables for PVC and ARC, as data.

PVC stands for every device whose DPAS is 16 wide (subgroups of 16), ARC for those where it is 8
wide (subgroups of 8).  Source: the XeGPU RFC, "Rules of sg_map setting on PVC and ARC".

>>> print(dpas_sg_map("b", "bf16", 16))
#xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from triton_xe.dialects.access_attributes import SgMapAttr, sg_map
from triton_xe.hardware.dpas import ELEMENT_BITS, SYSTOLIC_DEPTH, operations_per_channel
from triton_xe.hardware.target import Target

Grid = tuple[int, int]

PVC_LANES = 16
ARC_LANES = 8

# (operand, element) -> (wi_layout, wi_data, tile that one DPAS takes, fragment of a work-item)
PVC: Mapping[tuple[str, str], tuple[Grid, Grid, Grid, Grid]] = {
    ("a", "bf16"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("a", "f16"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("a", "tf32"): ((2, 8), (1, 1), (8, 8), (4, 1)),
    ("a", "u8"): ((1, 16), (1, 2), (8, 32), (8, 2)),
    ("a", "s8"): ((1, 16), (1, 2), (8, 32), (8, 2)),
    ("b", "bf16"): ((1, 16), (2, 1), (16, 16), (8, 2)),
    ("b", "f16"): ((1, 16), (2, 1), (16, 16), (8, 2)),
    ("b", "tf32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("b", "u8"): ((1, 16), (4, 1), (32, 16), (8, 4)),
    ("b", "s8"): ((1, 16), (4, 1), (32, 16), (8, 4)),
    ("c", "f32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("c", "i32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
}
ARC: Mapping[tuple[str, str], tuple[Grid, Grid, Grid, Grid]] = {
    ("a", "bf16"): ((1, 8), (1, 2), (8, 16), (8, 2)),
    ("a", "f16"): ((1, 8), (1, 2), (8, 16), (8, 2)),
    ("a", "tf32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("a", "u8"): ((1, 8), (1, 4), (8, 32), (8, 4)),
    ("a", "s8"): ((1, 8), (1, 4), (8, 32), (8, 4)),
    ("b", "bf16"): ((1, 8), (2, 1), (16, 8), (8, 2)),
    ("b", "f16"): ((1, 8), (2, 1), (16, 8), (8, 2)),
    ("b", "tf32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("b", "u8"): ((1, 8), (4, 1), (32, 8), (8, 4)),
    ("b", "s8"): ((1, 8), (4, 1), (32, 8), (8, 4)),
    ("c", "f32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("c", "i32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
}
TABLES: Mapping[int, Mapping[tuple[str, str], tuple[Grid, Grid, Grid, Grid]]] = {
    PVC_LANES: PVC,
    ARC_LANES: ARC,
}


def transposed_sg_map(lanes: int) -> SgMapAttr:
    """For a 32-bit operand that is transposed while it is loaded: one row per work-item."""
    return sg_map((lanes, 1), (1, 1))


def scattered_sg_map(lanes: int, chunk_size: int = 1) -> SgMapAttr:
    """For load_gather and store_scatter; chunks are rows."""
    return sg_map((1, lanes) if chunk_size == 1 else (lanes, 1), (1, 1))


@lru_cache(maxsize=256)
def dpas_sg_map(operand: str, element: str, lanes: int, other: str | None = None) -> SgMapAttr:
    """The map of operand "a", "b" or "c" whose elements are `element` (names of hardware.dpas).

    `other` is the element of the other factor where it differs.  Types that the RFC's tables lack
    (4-bit integers, fp8, 16-bit accumulators) follow the rule that the tables follow: a row of A
    is dealt out in order, B is packed into 32 bits, C has one column per work-item.
    """
    if operand == "c":
        return operand_sg_map("c", 32, lanes, 0)
    k = SYSTOLIC_DEPTH * operations_per_channel(element, other or element)
    return operand_sg_map(operand, ELEMENT_BITS[element], lanes, k)


@lru_cache(maxsize=256)
def operand_sg_map(operand: str, bits: int, lanes: int, k: int) -> SgMapAttr:
    """The map of an operand with elements of `bits`, of an instruction that sums over `k`."""
    if operand == "c":
        return sg_map((1, lanes), (1, 1))
    if operand == "b":
        return sg_map((1, lanes), (32 // bits, 1))
    if k < lanes:
        return sg_map((lanes // k, k), (1, 1))
    return sg_map((1, lanes), (1, k // lanes))


def sg_map_reason(
    operand: str, element: str, given: SgMapAttr, other: str | None = None
) -> str | None:
    """Why `given` is not the map that DPAS needs; None if it is."""
    if given.lanes not in TABLES:
        return f"DPAS needs subgroups of 16 (PVC) or 8 (ARC) work-items, not {given.lanes}"
    needed = dpas_sg_map(operand, element, given.lanes, other)
    if given == needed:
        return None
    device = "PVC" if given.lanes == PVC_LANES else "ARC"
    return f"matrix {operand.upper()} of {element} needs {needed} on {device}, not {given}"


def lanes_reason(given: SgMapAttr, target: Target) -> str | None:
    """Why kernels for `target` cannot use the map; None if they can.

    >>> from triton_xe.hardware.target import target
    >>> lanes_reason(sg_map((1, 16), (1, 1)), target("dg2"))
    'the sg_map has 16 work-items, subgroups on dg2 have 8'
    """
    if given.lanes == target.subgroup_size:
        return None
    return (
        f"the sg_map has {given.lanes} work-items, subgroups on {target.name} have"
        f" {target.subgroup_size}"
    )
