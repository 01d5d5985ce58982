"""Rule decompose-scaled-dots: rewrite tt.dot_scaled to what the device multiplies.

The scaled DPAS takes e4m3, e5m2, bf16, f16 and, on some devices, pairs of e2m1, with a scale for 32
elements along K.  Such dots become `xe.scaled_dot`, with factors of one width: e2m1 become e5m2,
which is exact.  Both become bf16 or f16 if the other factor is, or if pairs are packed along M or
N.  All other dots become conversions, products and a tt.dot:

    a, scales (one per 16 or 32 values of K)  ->  bf16(a) * broadcast(scale)      both operands
    tt.dot of the products

The terms are f16 instead of bf16 if an operand is f16.  Formats: OCP microscaling formats (MX) 1.0.
A scale in i8 is an exponent, e8m0: 2^(scale - 127), and NaN for 255; other scales are fp8 numbers.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float8E5M2Type,
    Float32Type,
    IntegerType,
    StringAttr,
    TensorType,
    bf16,
    f16,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.dialects.arith_ext import ExtUIOp, SelectOp, TruncIOp
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.text.assembly import element_type, with_element_type
from triton_xe.dialects.tt.ops import (
    BroadcastOp,
    DotOp,
    DotScaledOp,
    ExpandDimsOp,
    FpToFpOp,
    ReshapeOp,
    TransOp,
)
from triton_xe.dialects.ttg import Fp4ToFpOp
from triton_xe.dialects.xe import ScaledDotOp
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import MAX_REPEAT_COUNT, SCALE_GROUP
from triton_xe.hardware.target import Target
from triton_xe.layout import (
    DotOperandEncoding,
    LinearEncoding,
    LinearLayout,
    SliceEncoding,
)
from triton_xe.layout.encodings import DistributedEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.front.writer import Writer
from triton_xe.lowering.layouts.at_operand import loaded_as
from triton_xe.lowering.layouts.dpas_choice import SCALED_BYTES
from triton_xe.lowering.layouts.rematerialize import (
    before_conversions,
    converted,
    layout_of,
)
from triton_xe.lowering.module_facts import remark

SMALLEST, NAN = 0x0040, 0x7FC0
"""bf16 bits of 2^-127, which e8m0 encodes as 0, and of NaN."""
ONE = 127
"""The e8m0 byte of 1."""
_WIDE = ("bf16", "fp16")


def decompose_scaled_dots(dot: DotScaledOp, scope: Scope) -> None:
    """`tt.dot_scaled` -> `xe.scaled_dot`, or `tt.dot` of scaled operands."""
    target = scope.native
    reason = refusal(dot, target)
    if reason is None and target is not None:
        _Decomposition(dot).keep(target)
        return
    if target is not None and target.has_scaled_dpas:
        remark(dot, f"scales are multiplied before the product: {reason}")
    _Decomposition(dot).run()


def refusal(dot: DotScaledOp, target: Target | None) -> str | None:
    """Reason why a dot cannot use the scaled DPAS; None if it can."""
    if target is None or not target.has_scaled_dpas:
        return "the device has no scaled DPAS for these subgroups"
    m, n = shape_of(dot.c)[-2:]
    k = 2 * shape_of(dot.a)[-1] if _format(dot, 0) == "e2m1" and _packs_k(dot, 0) else (
        shape_of(dot.a)[-1])
    if len(shape_of(dot.c)) != 2:
        return "it is a batch of matrices"
    for index, scale in enumerate((dot.a_scale, dot.b_scale)):
        if _format(dot, index) not in (*_WIDE, "e4m3", "e5m2", "e2m1"):
            return f"an operand is {_format(dot, index)}"
        if scale is None:
            continue
        if element_type(scale.type) != i8:
            return f"its scales are {element_type(scale.type)}, not E8M0"
        if k != SCALE_GROUP * shape_of(scale)[-1]:
            return f"a scale is for {k // shape_of(scale)[-1]} elements, not {SCALE_GROUP}"
    if not isinstance(element_type(dot.c.type), Float32Type):
        return f"it accumulates in {element_type(dot.c.type)}, not f32"
    least = SCALED_BYTES.k * (2 if _multiplies_fp4(dot, target) else 1)
    if m < MAX_REPEAT_COUNT or n < SCALED_BYTES.execution_size or k < least:
        return f"the block {m}x{n}x{k} is smaller than one instruction"
    return None


def _multiplies_fp4(dot: DotScaledOp, target: Target) -> bool:
    """True if the device multiplies pairs of e2m1 as they are."""
    return target.has_fp4_dpas and _format(dot, 0) == _format(dot, 1) == "e2m1"


def _format(dot: DotScaledOp, index: int) -> str:
    held = (dot.a_elem_type, dot.b_elem_type)[index]
    return str(held.data)  # type: ignore[attr-defined]


def _packs_k(dot: DotScaledOp, index: int) -> bool:
    """True if an e2m1 operand has pairs along K in a byte."""
    packs_k = (dot.lhs_k_pack, dot.rhs_k_pack)[index]
    return _format(dot, index) == "e2m1" and (packs_k is None or bool(packs_k.value.data))


class _Decomposition(Writer):
    """Rewrites one `tt.dot_scaled`."""

    def __init__(self, op: DotScaledOp) -> None:
        self.op = op
        self.formats = [_format(op, index) for index in (0, 1)]
        self.kind: Attribute = f16 if "fp16" in self.formats else bf16
        super().__init__(op)
        if {"bf16", "fp16"} <= set(self.formats):
            raise UnsupportedError("tt.dot_scaled of fp16 by bf16; convert one of them first")
        self.batches = len(shape_of(op.a)) - 2

    def run(self) -> None:
        """Replace the scaled dot by a dot of operands that are widened and multiplied by scales."""
        op, operands = self.op, []
        parent = encoding_of(op.c.type)
        assert isinstance(parent, DistributedEncoding)
        for index, (value, scale) in enumerate(((op.a, op.a_scale), (op.b, op.b_scale))):
            wide = self._wide(value, index)
            if scale is not None:
                wide = self._scaled(wide, before_conversions(scale), index)
            encoding = layout_attr(DotOperandEncoding(index, parent, 0))
            operands.append(converted(wide, encoding, self.at))
        dot = DotOp.create(
            operands=[*operands, op.c], result_types=[op.c.type],
            properties={"inputPrecision": StringAttr("ieee")},
        )
        Rewriter.replace_op(op, dot)

    def keep(self, target: Target) -> None:
        """Replace the dot by `xe.scaled_dot`, with factors that the device multiplies."""
        op, operands = self.op, []
        parent = encoding_of(op.c.type)
        assert isinstance(parent, DistributedEncoding)
        for index, value in enumerate((op.a, op.b)):
            held = self._wide(value, index) if self._is_wide() else before_conversions(value)
            if element_type(held.type) == i8 and not _multiplies_fp4(op, target):
                held = self._as_fp8(held, index)
            encoding = layout_attr(DotOperandEncoding(index, parent, 0))
            operands.append(converted(held, encoding, self.at))
        groups = shape_of(operands[0])[1] // SCALE_GROUP
        if _multiplies_fp4(op, target):
            groups *= 2
        scales = [self._ones(index, groups) if scale is None else before_conversions(scale)
                  for index, scale in enumerate((op.a_scale, op.b_scale))]
        dot = ScaledDotOp.create(operands=[*operands, op.c, *scales], result_types=[op.c.type])
        Rewriter.replace_op(op, dot)

    def _is_wide(self) -> bool:
        """True if factors of 8 bits or fewer become those of 16 bits."""
        return any(kind in _WIDE or (kind == "e2m1" and not _packs_k(self.op, index))
                   for index, kind in enumerate(self.formats))

    def _wide(self, value: SSAValue, index: int) -> SSAValue:
        """Convert an operand to 16 bits; B is loaded in pairs along K where it can be."""
        held = before_conversions(value)
        if index == 1 and self._wants_pairs(held):
            held = loaded_as(held, layout_attr(_with_pairs(layout_of(held.type))))
        return self._widened(held, index)

    def _as_fp8(self, value: SSAValue, index: int) -> SSAValue:
        """Convert pairs of e2m1 to e5m2: the upper bytes of f16, whose lower bytes are 0."""
        self.kind = f16
        wide = self._unpacked(value, index)
        bits = self.bitcast(wide, with_element_type(wide.type, i16))
        upper = self.do(arith.ShRUIOp, bits, 8)
        made = self.put(TruncIOp(upper, with_element_type(wide.type, i8)))
        return self.bitcast(made, with_element_type(wide.type, Float8E5M2Type()))

    def _ones(self, index: int, groups: int) -> SSAValue:
        """Scales of 1 for an operand without scales."""
        kind = TensorType(i8, [shape_of(self.op.c)[index], groups], self.op.c.type.encoding)  # type: ignore[attr-defined]
        return self.constant(ONE, kind)

    def _widened(self, value: SSAValue, index: int) -> SSAValue:
        """Convert an operand to the type that is multiplied."""
        held = element_type(value.type)
        if self.formats[index] == "e2m1":
            return self._unpacked(value, index)
        if held == self.kind:
            return value
        wide = with_element_type(value.type, self.kind)
        if isinstance(held, IntegerType) or self.formats[index] in ("e2m3", "e3m2"):
            raise UnsupportedError(f"tt.dot_scaled of {self.formats[index]} values")
        return self.put(FpToFpOp(src=value, result_type=wide))

    def _unpacked(self, value: SSAValue, index: int) -> SSAValue:
        """Unpack pairs of 4-bit floats, which are packed along K or along the other dimension."""
        axis = self.batches + (1 - index if _packs_k(self.op, index) else index)
        shape = [size * (1 + (d == axis)) for d, size in enumerate(shape_of(value))]
        kind = TensorType(self.kind, shape, layout_attr(_doubled(value, axis)))
        return self.put(Fp4ToFpOp(src=value, axis=axis, result_type=kind))

    def _wants_pairs(self, value: SSAValue) -> bool:
        """True if an operand B, loaded for this dot alone, should be loaded in pairs along K."""
        return self.batches == 0 and value.has_one_use() and not _packs_k(self.op, 1)

    def _scaled(self, value: SSAValue, scale: SSAValue, index: int) -> SSAValue:
        """Multiply an operand by its scales, each for a group of elements along K."""
        numbers = self._scale_values(scale)
        if index == 1:
            numbers = self._transposed(numbers)
        *batch, rows, columns = shape = shape_of(value)
        axis = self.batches + 2 - index
        groups = shape_of(numbers)[self.batches + 1 - index]
        size = (columns, rows)[index] // groups
        cube = (*batch, rows, groups, size) if index == 0 else (*batch, groups, size, columns)
        names = minor_first(len(cube))
        layout = layout_of(value.type).transpose_outs(minor_first(len(shape))).reshape_outs(
            dict(zip(names, reversed(cube), strict=True))
        )
        parent = LinearEncoding(layout.transpose_outs(list(reversed(names))))
        numbers = converted(numbers, layout_attr(SliceEncoding(axis, parent)), self.at)
        unit, full = (TensorType(self.kind, sizes, layout_attr(parent)) for sizes in (
            [1 if d == axis else s for d, s in enumerate(cube)], cube))
        numbers = self.put(ExpandDimsOp(src=numbers, axis=axis, result_type=unit))
        numbers = self.put(BroadcastOp(src=numbers, result_type=full))
        numbers = self.put(ReshapeOp(src=numbers, result_type=value.type))
        return self.put(arith.MulfOp(value, numbers))

    def _transposed(self, value: SSAValue) -> SSAValue:
        *batch, rows, columns = shape_of(value)
        n = self.batches
        swapped = layout_of(value.type).rename_outs(
            {f"dim{n}": f"dim{n + 1}", f"dim{n + 1}": f"dim{n}"})
        major_first = minor_first(n + 2)[::-1]
        encoding = layout_attr(LinearEncoding(swapped.transpose_outs(major_first)))
        kind = TensorType(element_type(value.type), (*batch, columns, rows), encoding)
        order = DenseArrayBase.from_list(i32, [*range(n), n + 1, n])
        return self.put(TransOp(src=value, order=order, result_type=kind))

    def _scale_values(self, scale: SSAValue) -> SSAValue:
        """Convert scales to the type of the dot: e8m0 exponents are shifted to those of bf16."""
        wide = with_element_type(scale.type, self.kind)
        if not isinstance(element_type(scale.type), IntegerType):
            return self.put(FpToFpOp(src=scale, result_type=wide))
        number = with_element_type(scale.type, i16)
        exponent = self.put(ExtUIOp(scale, number))
        bits = self.do(arith.ShLIOp, exponent, 7)
        for special, held in ((0, SMALLEST), (255, NAN)):
            equal = self.compare(exponent, special, "eq")
            bits = self.put(SelectOp(equal, self.constant(held, number), bits))
        powers = self.bitcast(bits, with_element_type(scale.type, bf16))
        if self.kind == bf16:
            return powers
        return self.put(FpToFpOp(src=powers, result_type=wide))


def minor_first(rank: int) -> list[str]:
    """The dimensions of a tensor, the last one first."""
    return [f"dim{d}" for d in reversed(range(rank))]


def _with_pairs(layout: LinearLayout) -> LinearEncoding:
    """Layout of B with adjacent elements along K in one lane, which share a dword in DPAS.

    It exchanges the lane or warp bit that selects them with the last register bit.
    """
    bases = {name: list(held) for name, held in layout.bases.items()}
    registers = bases["register"]
    for name in ("lane", "warp"):
        if (1, 0) in bases[name] and any(map(any, registers)):
            last = max(i for i, basis in enumerate(registers) if any(basis))
            bases[name][bases[name].index((1, 0))] = registers[last]
            registers[last] = (1, 0)
    return LinearEncoding(LinearLayout(bases, layout.out_dims))


def _doubled(value: SSAValue, axis: int) -> LinearEncoding:
    """Layout with twice the elements along an axis; pairs are in adjacent registers."""
    shape, old = shape_of(value), layout_of(value.type)
    bases = {
        name: [tuple(x * (1 + (d == axis)) for d, x in enumerate(b)) for b in held]
        for name, held in old.bases.items()
    }
    bases["register"] = [tuple(int(d == axis) for d in range(len(shape))), *bases["register"]]
    sizes = {f"dim{d}": s * (1 + (d == axis)) for d, s in enumerate(shape)}
    return LinearEncoding(LinearLayout(bases, sizes))
