"""XeGPU's matrix multiplication, D = C + A * B, one instruction, and the sg_maps of its operands.

Source: the XeGPU RFC, section on dpas; the sizes and types are those of the DPAS instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerType, Signedness, VectorType, i8
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.access_attributes import SgMapAttr, sg_map
from triton_xe.dialects.xegpu.syntax import TileOp, show_vector, with_result_of_acc
from triton_xe.dialects.xegpu.types import bit_width, vnni_factor
from triton_xe.errors import LegalityError
from triton_xe.hardware.dpas import (
    ELEMENT_BITS,
    SCALE_GROUP,
    SYSTOLIC_DEPTH,
    Dpas,
    operations_per_channel,
)
from triton_xe.hardware.target import Target

_FLOATS: Mapping[str, str] = {
    "f16": "f16", "bf16": "bf16", "f32": "tf32", "tf32": "tf32", "f8E5M2": "bf8",
    "f8E4M3FN": "hf8", "f4E2M1FN": "e2m1",
}  # fmt: skip


def precision_name(element: Attribute) -> str:
    """The name of a factor's element type in `hardware.dpas`; f32 means tf32.

    >>> from xdsl.dialects.builtin import i8
    >>> precision_name(i8)
    's8'
    """
    if isinstance(element, IntegerType):
        sign = "u" if element.signedness.data is Signedness.UNSIGNED else "s"
        return f"{sign}{element.bitwidth}"
    return _FLOATS.get(element.name, str(element))


def accumulator_name(element: Attribute) -> str:
    """The name of an accumulator's element type in `hardware.dpas`."""
    if isinstance(element, IntegerType) and element.signedness.data is not Signedness.UNSIGNED:
        return f"i{element.bitwidth}"
    return str(element)


Vector = VectorType[Attribute]


@lru_cache(maxsize=1024)
def _whole(a: Vector, b: Vector, result: Vector) -> Dpas:
    """The instruction for whole matrices; `VerifyException` if there is none."""
    m, n = _plain_shape(result, "C", False)
    rows, k = _plain_shape(a, "A", len(a.get_shape()) == 3)
    depth, columns = _plain_shape(b, "B", len(b.get_shape()) == 3)
    if len(a.get_shape()) == 3 and len(b.get_shape()) == 2:
        raise VerifyException(
            "xegpu.dpas: with A as rows x K/vnni x vnni, B must be in VNNI layout too:"
            f" {show_vector(_packed_b(b), b.element_type)}, not {b}"
        )
    if (rows, depth, columns) != (m, k, n):
        raise VerifyException(
            f"xegpu.dpas: A is {rows}x{k}, B {depth}x{columns}, C {m}x{n}; it must be MxK, KxN, MxN"
        )
    dpas = _instruction(a, b, result, m, n)
    if k != dpas.k:
        raise VerifyException(
            f"xegpu.dpas: one instruction sums over K = {dpas.k} of {a.element_type},"
            f" not {k}; split larger matrices"
        )
    return dpas


def _plain_shape(vector: Vector, matrix: str, packed: bool) -> tuple[int, int]:
    """(rows, columns) of a matrix in any of its forms."""
    shape = vector.get_shape()
    if not packed:
        if len(shape) != 2:
            forms = "2D" if matrix == "C" else "2D, or 3D with pairs or quads of 32 bits (VNNI)"
            raise VerifyException(f"xegpu.dpas: matrix {matrix} is {forms}, not {vector}")
        return shape[0], shape[1]
    factor = vnni_factor(vector.element_type)
    if factor == 1 or shape[2] != factor:
        raise VerifyException(
            f"xegpu.dpas: the 3D form is for elements of less than 32 bits and ends in 32 /"
            f" {bit_width(vector.element_type)} = {factor}, which {vector} does not"
        )
    if matrix == "A":
        return shape[0], shape[1] * factor
    return shape[0] * factor, shape[1]


def _packed_b(b: Vector) -> tuple[int, int, int]:
    factor = vnni_factor(b.element_type)
    return b.get_shape()[0] // factor, b.get_shape()[1], factor


def _instruction(a: Vector, b: Vector, result: Vector, m: int, n: int) -> Dpas:
    names = precision_name(a.element_type), precision_name(b.element_type)
    try:
        return Dpas(*names, accumulator_name(result.element_type), m, n)
    except LegalityError as error:
        raise VerifyException(f"xegpu.dpas: {error}") from error


PVC_LANES, ARC_LANES = 16, 8
"""Work-items of a subgroup in the RFC's rules: 16 for PVC, whose DPAS has 16 columns, and 8 for
ARC.
"""


@lru_cache(maxsize=256)
def dpas_sg_map(operand: str, element: str, lanes: int, other: str | None = None) -> SgMapAttr:
    """The map of operand "a", "b" or "c" whose elements are `element` (names of hardware.dpas).

    A row of A is distributed in order, B is packed into 32 bits, and C has one column per
    work-item. The RFC's tables for PVC and ARC follow this rule, which also covers types that they
    lack. `other` is the element of the other factor if it differs.

    >>> print(dpas_sg_map("b", "bf16", 16))
    #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
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
    """Reason why `given` is not the map that DPAS needs; None if it is."""
    if given.lanes not in (PVC_LANES, ARC_LANES):
        return f"DPAS needs subgroups of 16 (PVC) or 8 (ARC) work-items, not {given.lanes}"
    needed = dpas_sg_map(operand, element, given.lanes, other)
    if given == needed:
        return None
    device = "PVC" if given.lanes == PVC_LANES else "ARC"
    return f"matrix {operand.upper()} of {element} needs {needed} on {device}, not {given}"


def lanes_reason(given: SgMapAttr, target: Target) -> str | None:
    """Reason why kernels for `target` cannot use the map; None if they can.

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


Maps = tuple[SgMapAttr, SgMapAttr, SgMapAttr]
_MAPS = ("sg_map_a", "sg_map_b", "sg_map_c")


@lru_cache(maxsize=1024)
def _fragment_instruction(a: Vector, b: Vector, result: Vector, maps: Maps) -> Dpas:
    """The instruction for one work-item's fragments; `VerifyException` if there is none."""
    lanes = maps[0].lanes
    if {entry.lanes for entry in maps} != {lanes}:
        raise VerifyException(
            "xegpu.dpas: the sg_maps of A, B and C have"
            f" {', '.join(str(entry.lanes) for entry in maps)} work-items; they must be the same"
        )
    dpas = _instruction(a, b, result, prod(result.get_shape()), lanes if lanes in (8, 16) else 16)
    for operand, element, other, entry in (
        ("a", dpas.a, dpas.b, maps[0]),
        ("b", dpas.b, dpas.a, maps[1]),
        ("c", dpas.accumulator, None, maps[2]),
    ):
        reason = sg_map_reason(operand, element, entry, other)
        if reason:
            raise VerifyException(f"xegpu.dpas: {reason}")
    m, n, k = dpas.repeat_count, dpas.execution_size, dpas.k
    for matrix, vector, size, entry in (
        ("A", a, m * k, maps[0]), ("B", b, k * n, maps[1]), ("C", result, m * n, maps[2])
    ):  # fmt: skip
        step = lanes * entry.data_size
        if matrix == "A" and m == 1:
            size = max(size, step)  # a row of tf32 leaves half of the lanes over
        if size % step:
            raise VerifyException(
                f"xegpu.dpas: matrix {matrix} of {m}x{n}x{k} has {size} elements, which {lanes}"
                f" work-items cannot share by {entry.data_size}; use an even number of rows"
            )
        shape = (size // step, entry.data_size)
        if vector.get_shape() != shape:
            raise VerifyException(
                f"xegpu.dpas: a work-item's fragment of matrix {matrix} is"
                f" {show_vector(shape, vector.element_type)} for {m}x{n}x{k}, not {vector}"
            )
    return dpas


@irdl_op_definition
class DpasOp(TileOp):
    """D = C + A * B on the systolic array; without `acc`, C is zero.

    Whole-vector flavour: A is MxK or MxK/vxv, B is KxN or, in VNNI layout, K/vxNxv, with v = 32
    / element bits.  Work-item flavour (the three sg_maps given): fragments
    [steps, elements per step] of each work-item.  f32 factors are multiplied as tf32; signless
    integers are signed.

        %d = xegpu.dpas %a, %b, %c : vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xf32>
             -> vector<8x16xf32>
    """

    name = "xegpu.dpas"
    LAST_AS_RESULT: ClassVar = True
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = opt_operand_def(VectorType)
    sg_map_a = opt_prop_def(SgMapAttr)
    sg_map_b = opt_prop_def(SgMapAttr)
    sg_map_c = opt_prop_def(SgMapAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, *, sg_maps: Maps | None = None, **given: Any) -> None:
        """Build the op; `result_type` may be left out if `acc` is given."""
        maps = {} if sg_maps is None else dict(zip(_MAPS, sg_maps, strict=True))
        super().__init__(**with_result_of_acc(self.name, given), **maps)

    @property
    def sg_maps(self) -> Maps | None:
        """The maps of A, B and C in the work-item flavour."""
        a, b, c = self.sg_map_a, self.sg_map_b, self.sg_map_c
        return None if a is None or b is None or c is None else (a, b, c)

    @property
    def instruction(self) -> Dpas:
        """The hardware instruction; `VerifyException` if there is none."""
        types = self.a.type, self.b.type, self.result.type
        maps = self.sg_maps
        return _whole(*types) if maps is None else _fragment_instruction(*types, maps)

    def verify_(self) -> None:
        given = [name for name in _MAPS if name in self.properties]
        if given and len(given) < 3:
            self.refuse(
                "the work-item flavour has sg_map_a, sg_map_b and sg_map_c;"
                f" only {', '.join(given)} is given"
            )
        if self.acc is not None and self.acc.type != self.result.type:
            self.refuse(
                f"C and the result have the same type, not {self.acc.type} and {self.result.type}"
            )
        _ = self.instruction


@irdl_op_definition
class DpasMxOp(TileOp):
    """D = C + scale(A) * scale(B), one instruction on the fragments of a work-item.

    Fragments are [vector elements, values in each].  Values of i8 in A and B are pairs of e2m1, low
    bits first.  The scales are E8M0 bytes, one for 32 elements along K.  Lane n has those of column
    n of B, and of row n of A if n < 8.

        %d = xegpu.dpas_mx %a, %b, %c, %s, %t : vector<8x2xf8E4M3FN>, vector<8x4xf8E5M2>,
             vector<8x1xf32>, vector<1x1xi8>, vector<1x1xi8> -> vector<8x1xf32>
    """

    name = "xegpu.dpas_mx"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = operand_def(VectorType)
    scale_a = operand_def(VectorType)
    scale_b = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @property
    def instruction(self) -> Dpas:
        """The hardware instruction; `VerifyException` if there is none."""
        a, b, result = (get_element_type_or_self(v.type) for v in (self.a, self.b, self.result))
        try:
            return Dpas(scaled_name(a), scaled_name(b), accumulator_name(result))
        except LegalityError as error:
            raise VerifyException(f"{self.name}: {error}") from error

    def verify_(self) -> None:
        if self.acc.type != self.result.type:
            self.refuse(
                f"C and the result have the same type, not {self.acc.type} and {self.result.type}")
        made = self.instruction
        bits = bit_width(self.a.type.element_type)  # type: ignore[attr-defined]
        wanted = {"a": (8, 16 // bits), "b": (8, 32 // bits), "acc": (8, 1),
                  "scale_a": (made.scales, 1), "scale_b": (made.scales, 1)}
        for name, value in zip(wanted, self.operands, strict=True):
            kind = value.type
            assert isinstance(kind, VectorType)
            element = i8 if name.startswith("scale") else kind.element_type
            self.verify_vector(name, kind, [wanted[name]], element)


def scaled_name(element: Attribute) -> str:
    """The name of a scaled factor's element type in `hardware.dpas`; i8 is a pair of e2m1."""
    return "e2m1" if element == i8 else precision_name(element)


def scaled_reason(*kinds: Any) -> str | None:
    """Reason why A, B, C and scales of these types are no scaled product; None if they are."""
    a, b, *_ = (kind.element_type for kind in kinds)
    (m, k), (depth, n), result, left, right = (tuple(kind.get_shape()) for kind in kinds)
    groups = k * (2 if a == i8 else 1) // SCALE_GROUP
    if depth != k or result != (m, n) or (a == i8) != (b == i8):
        return f"A, B and C are MxK, KxN and MxN of one width, not {', '.join(map(str, kinds[:3]))}"
    for kind, shape, wanted in ((kinds[3], left, (m, groups)), (kinds[4], right, (n, groups))):
        if shape != wanted or kind.element_type != i8:
            return f"scales are i8, {wanted[0]}x{wanted[1]} of them, not {kind}"
    return None
