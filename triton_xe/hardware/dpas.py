"""DPAS, the systolic matrix multiply: D[M,N] = C[M,N] + A[M,K] * B[K,N].

M = repeat count (1..8), N = execution size (16, or 8 on Xe-HPG), K = 8 * operations per channel.
IGC encodes wrong combinations silently, so `check_dpas` is the gate: what it refuses must never be
emitted.  Source: IGC's DPAS tables and the vISA documentation, probed with ocloc 26.27; for Xe3P
IGC's `visa/G4_Verifier.cpp` and oneDNN's `ngen_core.hpp` (fp4 on `cri` alone).

The scaled DPAS (`bdpas`) multiplies rows of A and columns of B by powers of 2 first.  An E8M0 byte
is the scale of 32 elements along K, or of the whole K of an instruction that sums over fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target

SYSTOLIC_DEPTH = 8
MAX_REPEAT_COUNT = 8
EXECUTION_SIZES = (8, 16)

PRECISION: Mapping[str, int] = {
    "u8": 1, "u4": 2, "u2": 3, "s8": 4, "s4": 5, "s2": 6, "bf8": 7, "hf8": 8, "tf32": 10,
    "bf16": 11, "f16": 12, "e2m1": 13,
}  # fmt: skip
"""Operand type -> precision operand of the intrinsic (IGC's numbering, not vISA's)."""
ELEMENT_BITS: Mapping[str, int] = {
    "u8": 8, "u4": 4, "u2": 2, "s8": 8, "s4": 4, "s2": 2, "bf8": 8, "hf8": 8, "tf32": 32,
    "bf16": 16, "f16": 16, "e2m1": 4,
}  # fmt: skip
SCALE_GROUP = 32
"""Elements along K that share a scale; an instruction with a smaller K takes one scale."""
ACCUMULATOR_LLVM: Mapping[str, str] = {"f32": "float", "i32": "i32", "f16": "half", "bf16": "i16"}

_INTEGER = frozenset(("u8", "s8", "u4", "s4", "u2", "s2"))
_FP8 = frozenset(("bf8", "hf8"))
_FLOAT_ACCUMULATORS: Mapping[str, tuple[str, ...]] = {
    "f16": ("f32", "f16"), "bf16": ("f32", "bf16"), "tf32": ("f32",), "e2m1": ("f32", "bf16"),
    "bf8": ("f32", "bf16"), "hf8": ("f32", "bf16"),
}  # fmt: skip


@dataclass(frozen=True)
class Fragment:
    """Registers of a layout that form one operand of an instruction.

    It takes `registers` consecutive registers of the layout, of which `packed` share one vector
    element of the operand.  `outer_dim` is the tensor dimension that is not summed over.

    >>> Fragment(16, packed=2).elements
    8
    """

    registers: int
    packed: int = 1
    outer_dim: int = 0

    def __post_init__(self) -> None:
        if self.registers < 1 or self.registers & (self.registers - 1):
            raise LegalityError(f"a fragment has a power of 2 of registers, not {self.registers}")
        if self.packed < 1 or self.packed & (self.packed - 1) or self.packed > 8:
            raise LegalityError(f"1, 2, 4 or 8 values share an element, not {self.packed}")
        if self.outer_dim not in (0, 1):
            raise LegalityError(f"the outer dimension is 0 or 1, not {self.outer_dim}")

    @property
    def elements(self) -> int:
        return max(1, self.registers // self.packed)


class DpasShape(NamedTuple):
    """M, N and K of one DPAS, which determine the layout of its operands.

    >>> DpasShape(8, 16, 16).fragment("a", 16)
    Fragment(registers=8, packed=1, outer_dim=0)
    """

    repeat_count: int
    execution_size: int
    k: int

    def size(self, operand: str) -> tuple[int, int]:
        """Rows and columns of operand "a", "b" or "c"."""
        return {"a": (self.repeat_count, self.k), "b": (self.k, self.execution_size),
                "c": (self.repeat_count, self.execution_size)}[operand]

    def a_element_bits(self, bits: int) -> int:
        """Bits of a vector element of A, per lane.

        A row of A is one element if it has at least a byte per lane.  Otherwise two rows are one
        element (tf32, or 2 bits by 8 bits).
        """
        return max(self.k * bits // self.execution_size, bits, 8)

    def fragment(self, operand: str, bits: int) -> Fragment:
        """Registers of an operand with elements of `bits`, with one element per register."""
        if operand == "a":
            count = max(1, self.repeat_count * self.k // self.execution_size)
            return Fragment(count, max(1, self.a_element_bits(bits) // bits), 0)
        if operand == "b":
            return Fragment(self.k, 32 // bits, 1)
        if operand == "c":
            return Fragment(self.repeat_count, 1, 0)
        raise LegalityError(f"DPAS has operands a, b and c, not {operand!r}")


@dataclass(frozen=True)
class Dpas:
    """One DPAS: operand types, accumulator (and result) type, M and N.

    >>> d = Dpas("f16", "f16", "f32", repeat_count=8, execution_size=16)
    >>> d.k, d.llvm_types
    (16, ('<8 x float>', '<8 x i16>', '<8 x i32>'))
    """

    a: str
    b: str
    accumulator: str
    repeat_count: int = 8
    execution_size: int = 16

    def __post_init__(self) -> None:
        reason = _combination_reason(self.a, self.b, self.accumulator)
        if reason:
            raise LegalityError(reason)
        if self.execution_size not in EXECUTION_SIZES:
            raise LegalityError(f"DPAS is 8 or 16 wide, not {self.execution_size}")
        if not 1 <= self.repeat_count <= MAX_REPEAT_COUNT:
            raise LegalityError(f"DPAS has 1 to 8 rows, not {self.repeat_count}")

    @property
    def operations_per_channel(self) -> int:
        return operations_per_channel(self.a, self.b)

    @property
    def k(self) -> int:
        return SYSTOLIC_DEPTH * self.operations_per_channel

    @property
    def is_float(self) -> bool:
        return self.a not in _INTEGER

    @property
    def precision(self) -> tuple[int, int]:
        """The intrinsic's precA and precB."""
        return PRECISION[self.a], PRECISION[self.b]

    @property
    def scales(self) -> int:
        """Scales of a row of A, or of a column of B, if the instruction is the scaled one."""
        return max(1, self.k // SCALE_GROUP)

    @property
    def a_bytes(self) -> int:
        """Bytes of operand A: one row of K elements after the other."""
        return self.repeat_count * self.k * ELEMENT_BITS[self.a] // 8

    @property
    def b_bytes(self) -> int:
        """Bytes of operand B: column n is dword n of consecutive registers."""
        return self.k * self.execution_size * ELEMENT_BITS[self.b] // 8

    @property
    def a_element_bits(self) -> int:
        """Bits of a vector element of A, per lane."""
        return self.shape.a_element_bits(ELEMENT_BITS[self.a])

    @property
    def llvm_types(self) -> tuple[str, str, str]:
        """Vector types of one work-item: accumulator, A, B (A and B are raw register images)."""
        acc = f"<{self.repeat_count} x {ACCUMULATOR_LLVM[self.accumulator]}>"
        lane_bits = 8 * self.a_bytes // self.execution_size
        a_elements = max(1, lane_bits // self.a_element_bits)
        b_elements = 8 * self.b_bytes // (32 * self.execution_size)
        return acc, f"<{a_elements} x i{self.a_element_bits}>", f"<{b_elements} x i32>"

    @property
    def shape(self) -> DpasShape:
        return DpasShape(self.repeat_count, self.execution_size, self.k)

    def bits_of(self, operand: str) -> int:
        """Bits of an element of operand "a", "b" or "c"."""
        if operand == "c":
            return {"f32": 32, "i32": 32}.get(self.accumulator, 16)
        return ELEMENT_BITS[self.a if operand == "a" else self.b]

    def fragment(self, operand: str) -> Fragment:
        """Registers of "a", "b" or "c" in a layout with one element per register."""
        return self.shape.fragment(operand, self.bits_of(operand))

    def coordinates(self, operand: str) -> dict[tuple[int, int], tuple[int, int]]:
        """(register, lane) -> (row, column), registers numbered as `fragment` says.

        >>> Dpas("f16", "f16", "f32").coordinates("b")[3, 5]
        (3, 5)
        """
        lanes = range(self.execution_size)
        if operand == "b":
            return {(k, n): (k, n) for k in range(self.k) for n in lanes}
        if operand == "c":
            return {(m, n): (m, n) for m in range(self.repeat_count) for n in lanes}
        return self._a_coordinates()

    def _a_coordinates(self) -> dict[tuple[int, int], tuple[int, int]]:
        packed = self.fragment("a").packed
        table = {}
        for i in range(self.repeat_count * self.k):
            element, sub = divmod(i, packed)
            register, lane = divmod(element, self.execution_size)
            table[register * packed + sub, lane] = divmod(i, self.k)
        return table

    def __str__(self) -> str:
        return (
            f"dpas {self.repeat_count}x{self.execution_size}x{self.k} "
            f"{self.a} x {self.b} -> {self.accumulator}"
        )


def operations_per_channel(a: str, b: str) -> int:
    """Elements of K in one 32-bit channel; 8 for 4- and 2-bit operands.

    >>> operations_per_channel("s8", "u4")
    4
    """
    return {32: 1, 16: 2, 8: 4, 4: 8, 2: 8}[max(ELEMENT_BITS[a], ELEMENT_BITS[b])]


def check_dpas(
    a: str,
    b: str,
    accumulator: str,
    target: Target,
    *,
    repeat_count: int = 8,
    subgroup_size: int | None = None,
    depth: int = SYSTOLIC_DEPTH,
) -> str | None:
    """Why `target` cannot multiply these types; None if it can.

    >>> from triton_xe.hardware.target import target
    >>> check_dpas("tf32", "tf32", "f32", target("dg2"))
    'dg2 has no tf32 DPAS'
    """
    reason = _combination_reason(a, b, accumulator) or _target_reason(a, b, target)
    if reason:
        return reason
    if not 1 <= repeat_count <= MAX_REPEAT_COUNT:
        return f"DPAS has 1 to 8 rows, not {repeat_count}"
    if depth != SYSTOLIC_DEPTH:
        return f"the systolic depth is 8, not {depth}"
    lanes = target.dpas_execution_size if subgroup_size is None else subgroup_size
    if lanes != target.dpas_execution_size:
        return f"DPAS on {target.name} needs subgroups of {target.dpas_execution_size}, not {lanes}"
    return None


def check_scaled_dpas(
    a: str, b: str, accumulator: str, target: Target, *, subgroup_size: int | None = None
) -> str | None:
    """Why `target` has no scaled DPAS of these types; None if it has.

    The instruction always has eight rows.

    >>> from triton_xe.hardware.target import target
    >>> check_scaled_dpas("e2m1", "e2m1", "f32", target("nvl-p"))
    'nvl-p has no fp4 DPAS; convert to fp8 first'
    """
    if not target.has_scaled_dpas:
        return f"{target.name} has no scaled DPAS; multiply by the scales first"
    if a in _INTEGER or a == "tf32":
        return f"the scaled DPAS multiplies floats of 4 to 16 bits, not {a}"
    if a == b == "e2m1" and not target.has_fp4_dpas:
        return f"{target.name} has no fp4 DPAS; convert to fp8 first"
    return check_dpas(a, b, accumulator, target, subgroup_size=subgroup_size)


def _combination_reason(a: str, b: str, accumulator: str) -> str | None:
    for name in (a, b):
        if name not in PRECISION:
            return f"DPAS has no operand type {name!r}; known: {', '.join(PRECISION)}"
    if a in _INTEGER and b in _INTEGER:
        allowed: tuple[str, ...] = ("i32",)
    elif a == b or (a in _FP8 and b in _FP8):
        allowed = _FLOAT_ACCUMULATORS[a]
    else:
        return f"DPAS cannot multiply {a} by {b}"
    if accumulator not in allowed:
        return f"DPAS of {a} by {b} accumulates in {' or '.join(allowed)}, not {accumulator}"
    return None


def _target_reason(a: str, b: str, target: Target) -> str | None:
    if not target.has_dpas:
        return f"{target.name} has no DPAS"
    if a == "tf32" and not target.has_tf32_dpas:
        return f"{target.name} has no tf32 DPAS"
    if (a in _FP8 or b in _FP8) and not target.has_fp8_dpas:
        return f"{target.name} has no fp8 DPAS; convert to f16 first"
    if a == "e2m1" and not target.has_fp4_dpas:
        return f"{target.name} has no fp4 DPAS; convert to f16 first"
    if a in _INTEGER and not target.has_mixed_integer_dpas and (ELEMENT_BITS[a], ELEMENT_BITS[b]) \
            not in ((8, 8), (4, 4)):
        return (f"{target.name} multiplies integers of 8 by 8 or of 4 by 4 bits, not {a} by {b}; "
                "extend the narrow ones first")
    return None
