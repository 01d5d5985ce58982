"""Pure decisions: the dots that the matrix unit computes, and how subgroups share them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.xe import ScaledDotOp
from triton_xe.hardware.block_2d import MAX_HEIGHT, MAX_ROW_BYTES
from triton_xe.hardware.dpas import SYSTOLIC_DEPTH, Dpas, check_dpas
from triton_xe.hardware.register_file import LARGE
from triton_xe.hardware.target import Target
from triton_xe.layout import (
    DotOperandEncoding,
    DpasEncoding,
    LinearEncoding,
    LinearLayout,
    to_linear_layout,
)
from triton_xe.lowering.facts.values import shape_of

_F32: dict[str, str] = {"tf32": "tf32", "tf32x3": "tf32", "bf16x3": "bf16", "bf16x6": "bf16"}
_FP8: dict[str, str] = {"f8E5M2": "bf8", "f8E4M3FN": "hf8"}


def operand_type(
    element: Attribute, precision: str = "tf32", target: Target | None = None
) -> str | None:
    """The DPAS operand type for an element type, None if there is none."""
    if isinstance(element, Float32Type):
        return _F32.get(precision)
    if isinstance(element, Float16Type):
        return "f16"
    if isinstance(element, BFloat16Type):
        return "bf16"
    if isinstance(element, IntegerType) and element.width.data == 8:
        return "s8"
    name = _FP8.get(str(element))
    if name is None:
        return None
    return name if target is None or target.has_fp8_dpas else "f16"


def accumulator_type(element: Attribute) -> str:
    """The DPAS name of an accumulator's element type."""
    if isinstance(element, Float32Type):
        return "f32"
    if isinstance(element, IntegerType):
        return f"i{element.width.data}"
    return {"f16": "f16", "bf16": "bf16"}.get(str(element), str(element))


SCALED_BYTES = Dpas("hf8", "hf8", "f32")
"""The instruction of a scaled dot as layouts see it: pairs of e2m1 are arranged as bytes."""


def scaled_instruction(factor: Attribute) -> Dpas:
    """The instruction of a scaled dot, as layouts see it, for the type of a factor."""
    name = operand_type(get_element_type_or_self(factor))
    return Dpas(name, name, "f32") if name in ("bf16", "f16") else SCALED_BYTES


def instruction_of(dot: DotOp | ScaledDotOp, target: Target) -> Dpas | str:
    """The DPAS instruction for a dot, or the reason why there is none."""
    if isinstance(dot, ScaledDotOp):
        return scaled_instruction(dot.a.type)
    left, right, result = (get_element_type_or_self(v.type) for v in (dot.a, dot.b, dot.c))
    a, b = (operand_type(kind, dot.precision, target) for kind in (left, right))
    if a is None or b is None:
        return f"no DPAS of {left} by {right}"
    m, n = shape_of(dot.c)[-2:]
    k = shape_of(dot.a)[-1]
    accumulator = accumulator_type(result)
    reason = check_dpas(a, b, accumulator, target)
    if reason is not None:
        return reason
    made = Dpas(a, b, accumulator, min(8, m), target.dpas_execution_size)
    if n < made.execution_size or k < made.k:
        return f"the block {m}x{n}x{k} is smaller than one DPAS"
    return made


def for_warps(dpas: Dpas, shape: tuple[int, ...], num_warps: int) -> Dpas:
    """The instruction with fewer rows, if warps would else compute the same rows.

    >>> d = Dpas("f16", "f16", "f32", 8, 16)
    >>> [for_warps(d, (32, 64), warps).repeat_count for warps in (8, 16, 32)]
    [8, 8, 4]
    """
    needed = num_warps * dpas.execution_size
    while dpas.repeat_count > 1 and prod(shape) < needed * dpas.repeat_count:
        dpas = replace(dpas, repeat_count=dpas.repeat_count // 2)
    return dpas


def dpas_encoding(
    m: int, n: int, num_warps: int, dpas: Dpas, first: str = "", k: int = 0
) -> DpasEncoding:
    """Split an m x n result over `num_warps` subgroups, as square as the instruction allows.

    A warp's share is one rectangle.  The split follows Intel's backend (warpsPerTile): rows are
    halved while a share is at least twice as tall, in instructions, as it is wide.  With `first`,
    "rows" or "columns" are halved as long as possible.  That keeps the result of one dot in the
    warp that needs it as an operand of the next.  Columns are not halved if a share's accumulators
    and its rows of A, `k` elements each, would fill the register file.
    """
    rows, columns = 1, 1
    while rows * columns < num_warps:
        tall = m / (2 * dpas.repeat_count) / rows
        wide = n / dpas.execution_size / columns
        can_rows = rows * dpas.repeat_count < m
        can_columns = columns * dpas.execution_size < n
        prefer_rows = tall >= wide if not first else first == "rows"
        if first == "columns":
            most = min(num_warps // rows, max(n // dpas.execution_size, 1))
            prefer_rows = _fills_the_file(m * most // num_warps, n // most, k, dpas)
        if can_rows and (prefer_rows or not can_columns):
            rows *= 2
        else:
            columns *= 2
    share_m = max(m // rows, dpas.repeat_count)
    share_n = max(n // columns, dpas.execution_size)
    return DpasEncoding(
        dpas.repeat_count,
        SYSTOLIC_DEPTH,
        dpas.execution_size,
        dpas.operations_per_channel,
        dpas.execution_size,
        (rows, columns),
        (share_m // dpas.repeat_count, share_n // dpas.execution_size),
    )


def _fills_the_file(m: int, n: int, k: int, dpas: Dpas) -> bool:
    """True if m x n accumulators, which alone would fit, and m rows of A take all registers.

    A register has 32 bits for each column of an instruction.
    """
    sums, rows = m * n * dpas.bits_of("c"), m * k * dpas.bits_of("a")
    return sums < LARGE * dpas.execution_size * 32 <= sums + rows


def batched_encoding(
    shape: tuple[int, ...], num_warps: int, dpas: Dpas, first: str = "", k: int = 0
) -> DpasEncoding:
    """`dpas_encoding` of a matrix, or of a batch of them: warps share the batch first."""
    m, n = shape[-2:]
    if len(shape) == 2:
        return dpas_encoding(m, n, num_warps, dpas, first, k)
    apart = min(shape[0], num_warps)
    one = dpas_encoding(m, n, num_warps // apart, dpas, first, k)
    return replace(
        one, warps_per_cta=(apart, *one.warps_per_cta), rep_cluster=(1, *one.rep_cluster)
    )


def clusters_explained(encoding: DpasEncoding, dpas: Dpas, target: Target) -> str:
    """Explain why a warp's instructions are grouped differently from Intel's backend; empty if
    equal.

    Intel's backend groups as many as one 2D load of A (32 rows) and one of B (rows of 64 bytes)
    feed.  The group repeats over the block.  Here a warp's share is one group.
    """
    if not target.has_block_2d:
        return ""
    *_, m, n = encoding.rep_cluster
    row = dpas.execution_size * dpas.bits_of("b") // 8
    theirs = min(m, MAX_HEIGHT // encoding.repeat_count), min(n, MAX_ROW_BYTES // row)
    if theirs == (m, n):
        return ""
    *_, rows, columns = encoding.warps_per_cta
    return (
        f"; {rows}x{columns} warps with repCluster = [{m}, {n}]: each has one rectangle of"
        f" {m * encoding.repeat_count}x{n * encoding.execution_size}, so that its rows of C and of"
        f" what it prefetches are adjacent; Intel's backend repeats [{theirs[0]}, {theirs[1]}], as"
        " much as one load of A and one of B feed, with the shares of other warps between"
    )


def operand_encoding(index: int, parent: DpasEncoding, dpas: Dpas) -> DotOperandEncoding:
    """The layout of operand A (0) or B (1)."""
    return DotOperandEncoding(index, parent, dpas.fragment("ab"[index]).packed)


def scales_encoding(
    index: int, parent: DpasEncoding, dpas: Dpas, operand: tuple[int, ...], groups: int
) -> LinearEncoding:
    """The layout of the scales of A (0) or B (1): lanes along the rows or columns that they scale.

    `operand` is the shape of the matrix; its scales are rows or columns x groups along K.  The
    instruction takes the scales of A from the first eight lanes.  The others have those of the next
    eight rows, or copies if the warp has no more rows.
    """
    held = to_linear_layout(operand_encoding(index, parent, dpas), operand)
    along = {name: [basis[index] for basis in bases] for name, bases in held.bases.items()}
    inside = sorted({at for name in ("register", "lane") for at in along[name] if at})
    return LinearEncoding(LinearLayout(scales_bases(inside, groups, dpas.execution_size) | {
        "warp": [(at, 0) for at in along["warp"]],
        "block": [(0, 0) for _ in held.bases.get("block", ())],
    }, {"dim0": operand[index], "dim1": groups}))


def scales_bases(rows: list[int], groups: int, lanes: int) -> dict[str, list[tuple[int, ...]]]:
    """Bases of a subgroup's scales, whose rows or columns are those of `rows`."""
    count = lanes.bit_length() - 1
    return {
        "register": [*((0, 1 << bit) for bit in range(groups.bit_length() - 1)),
                     *((at, 0) for at in rows[count:])],
        "lane": [(at, 0) for at in [*rows, *[0] * count][:count]],
    }
