"""2D block messages: which shapes each device has, and which register holds each element.

A 2D block message moves a rectangle of a surface (base, width, height, pitch) between memory and
the registers of one subgroup.  Intel's graphics compiler (IGC) encodes illegal shapes without a
diagnostic.  These tables are therefore the only check: a shape that `check_*` refuses must never be
emitted.

Sources: IGC's list of supported variants of SPV_INTEL_2d_block_io, and the surface rules of
Intel's Triton backend.  The rules of block-2D messages are from the vISA documentation, probed with
ocloc 26.27.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target

SUBGROUP_SIZE = 16
"""2D block messages are specified for subgroups of 16 lanes only."""
ELEMENT_BITS = (8, 16, 32, 64)
MATRIX_BITS = (8, 16, 32)
"""Sizes of the elements of matrices: of 64 bits, a row for 16 lanes is two messages wide."""
GRF_BYTES = 64
"""Bytes of a register on every device that has 2D block messages."""
MAX_RESULT_REGISTERS = 32
MAX_HEIGHT = 32
MAX_STORE_HEIGHT = 8
MAX_ROW_BYTES = 64
"""Most bytes of one row of the rectangle: element bytes * width * blocks."""
LONG_ROW_BYTES = 256
"""Bytes of a row that prefetches of Xe3P may have instead (oneDNN, `block_2d_utils.hpp`)."""
MAX_SURFACE = 1 << 24
"""Exclusive limit of width and pitch (bytes) and height (rows); hardware truncates larger
values.
"""
MIN_SURFACE_BYTES = 64
"""Minimum width and pitch."""
BASE_ALIGNMENT = 64
"""Bases that are aligned less than their device needs are rounded down to a multiple of this."""
OFFSET_BYTES = 4
"""Granularity of x and of the surface width in bytes."""

MAX_OFFSET = 511
"""Largest immediate offset that a message adds to x or y: a signed field of 10 bits."""

_XE2 = (20,)
_XE3P = (35,)


@dataclass(frozen=True)
class BlockShape:
    """One message: `blocks` rectangles side by side, each `width` elements by `height` rows.

    >>> str(BlockShape(16, 16, 32, blocks=2))
    'd16 16x32 v2'
    """

    element_bits: int
    width: int
    height: int
    blocks: int = 1
    transpose: bool = False
    vnni: bool = False

    def __post_init__(self) -> None:
        if self.element_bits not in ELEMENT_BITS:
            raise LegalityError(f"2D block elements have 8 to 64 bits, not {self.element_bits}")
        for name in ("width", "height", "blocks"):
            value = getattr(self, name)
            if value < 1:
                raise LegalityError(f"{name} of a 2D block is at least 1, not {value}")
        if self.transpose and self.vnni:
            raise LegalityError("a 2D block load transposes or packs (VNNI), not both")

    @property
    def element_bytes(self) -> int:
        return self.element_bits // 8

    @property
    def row_bytes(self) -> int:
        """Bytes of one row over all blocks."""
        return self.element_bytes * self.width * self.blocks

    @property
    def payload_bytes(self) -> int:
        """Bytes of the surface the message covers."""
        return self.row_bytes * self.height

    @property
    def block_stride_bytes(self) -> int:
        """Distance of two blocks in the result: padded width and height, in whole registers."""
        block = self.element_bytes * _power_of_2(self.width) * _power_of_2(self.height)
        return -(-block // GRF_BYTES) * GRF_BYTES

    @property
    def result_bytes(self) -> int:
        return self.block_stride_bytes * self.blocks

    @property
    def registers(self) -> int:
        """Registers (64 bytes) of the result."""
        return self.result_bytes // GRF_BYTES

    @property
    def packing(self) -> int:
        """Rows in one 32-bit element of a VNNI result; 1 otherwise."""
        return 32 // self.element_bits if self.vnni else 1

    def __str__(self) -> str:
        mode = " transpose" if self.transpose else " vnni" if self.vnni else ""
        return f"d{self.element_bits} {self.width}x{self.height} v{self.blocks}{mode}"


def _power_of_2(value: int) -> int:
    return 1 << (value - 1).bit_length()


_Row = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
_ALL = (1, 2, 4, 8, 16, 32)

# (element bits, widths, heights, blocks)
_PLAIN: tuple[_Row, ...] = (
    (8, (4,), (1, 2, 4, 8), (1,)), (8, (4,), (16, 32), (1, 2, 4)),
    (8, (8,), (1, 2, 4), (1,)), (8, (8,), (8, 16, 32), (1, 2, 4)),
    (8, (16,), (1, 4, 8, 16, 32), (1, 2, 4)), (8, (16,), (2,), (1,)),
    (8, (32,), _ALL, (1, 2)), (8, (64,), _ALL, (1,)),
    (16, (2,), (1, 2, 4, 8), (1,)), (16, (2,), (16, 32), (1, 2, 4)),
    (16, (4,), (1, 2, 4), (1,)), (16, (4,), (8, 16, 32), (1, 2, 4)),
    (16, (8,), (1, 2), (1,)), (16, (8,), (4, 8, 16, 32), (1, 2, 4)),
    (16, (16,), _ALL, (1, 2)), (16, (32,), _ALL, (1,)),
    (32, (1, 2, 4, 8), _ALL, (1, 2)), (32, (16,), _ALL, (1,)),
    (64, (8,), (2, 4, 8, 16, 32), (1,)), (64, (4,), (4, 8, 16, 32), (1,)),
    (64, (2,), (8, 16, 32), (1,)), (64, (1,), (16, 32), (1,)),
)  # fmt: skip
_VNNI: tuple[_Row, ...] = (
    (8, (4, 8, 16), (4, 8, 16, 32), (1, 2, 4)),
    (16, (2, 4, 8), (2, 4, 8, 16, 32), (1, 2, 4)), (16, (16,), (2, 4, 8, 16, 32), (1, 2)),
)  # fmt: skip
_VNNI_XE2: tuple[_Row, ...] = (
    (8, (32,), (4, 8, 16, 32), (1, 2)), (8, (64,), (4, 8, 16, 32), (1,)),
    (16, (32,), (2, 4, 8, 16), (1,)),
)  # fmt: skip
_TRANSPOSE: tuple[_Row, ...] = ((32, (1, 2, 4, 8), _ALL, (1,)), (64, (2, 4), (8,), (1,)))
_TRANSPOSE_XE3P: tuple[_Row, ...] = (
    (32, (16,), _ALL, (1,)), (64, (8,), (8,), (1,)), (64, (2, 4, 8), (16,), (1,)),
)  # fmt: skip
_STORE: tuple[_Row, ...] = (
    (8, (4, 8, 16, 32, 64), (1, 2, 4, 8), (1,)), (16, (2, 4, 8, 16, 32), (1, 2, 4, 8), (1,)),
    (32, (1, 2, 4, 8, 16), (1, 2, 4, 8), (1,)), (64, (1, 2, 4, 8), (1, 2, 4, 8), (1,)),
)  # fmt: skip
_PREFETCH: tuple[_Row, ...] = (
    (8, (4, 8, 16), _ALL, (1, 2, 4)), (8, (32,), _ALL, (1, 2)), (8, (64,), _ALL, (1,)),
    (16, (2, 4, 8), _ALL, (1, 2, 4)), (16, (16,), _ALL, (1, 2)), (16, (32,), _ALL, (1,)),
    (32, (1, 2, 4, 8), _ALL, (1, 2)), (32, (16,), _ALL, (1,)), (64, (1, 2, 4, 8), _ALL, (1,)),
)  # fmt: skip
_PREFETCH_XE3P: tuple[_Row, ...] = tuple(
    (bits, (LONG_ROW_BYTES * 8 // bits // blocks,), _ALL, (blocks,))
    for bits in ELEMENT_BITS for blocks in (1, 2, 4))


def _shapes(
    rows: Iterable[_Row], transpose: bool = False, vnni: bool = False
) -> Iterator[BlockShape]:
    for bits, widths, heights, blocks in rows:
        for width in widths:
            for height in heights:
                for v in blocks:
                    yield BlockShape(bits, width, height, v, transpose, vnni)


def _load_shapes(
    rows: Iterable[_Row], transpose: bool = False, vnni: bool = False
) -> frozenset[BlockShape]:
    shapes = _shapes(rows, transpose, vnni)
    return frozenset(s for s in shapes if s.registers <= MAX_RESULT_REGISTERS)


_LOADS = (
    _load_shapes(_PLAIN) | _load_shapes(_VNNI, vnni=True) | _load_shapes(_TRANSPOSE, transpose=True)
)
_LOADS_SINCE = {
    _XE2: _load_shapes(_VNNI_XE2, vnni=True),
    _XE3P: _load_shapes(_TRANSPOSE_XE3P, transpose=True),
}
_STORES, _PREFETCHES = frozenset(_shapes(_STORE)), frozenset(_shapes(_PREFETCH))
_PREFETCHES_XE3P = _PREFETCHES.union(_shapes(_PREFETCH_XE3P))


@cache
def message_tables(ip_version: tuple[int, ...]) -> Mapping[str, frozenset[BlockShape]]:
    """Legal shapes of each operation on devices of an IP version."""
    added = [more for since, more in _LOADS_SINCE.items() if ip_version >= since]
    prefetches = _PREFETCHES_XE3P if ip_version >= _XE3P else _PREFETCHES
    return {"load": _LOADS.union(*added), "store": _STORES, "prefetch": prefetches}


def legal_shapes(operation: str, target: Target) -> frozenset[BlockShape]:
    """All shapes of "load", "store" or "prefetch" on `target`; none where it has no 2D blocks."""
    if not target.has_block_2d:
        return frozenset()
    return message_tables(target.ip_version)[operation]


def _check(operation: str, shape: BlockShape, target: Target) -> str | None:
    """Why `target` cannot load, store or prefetch `shape`; None if it can.

    >>> from triton_xe.hardware.target import target
    >>> check_load(BlockShape(16, 16, 16, transpose=True), target("bmg"))
    'd16 16x16 v1 transpose: bmg transposes 32- and 64-bit elements only'
    """
    if shape in legal_shapes(operation, target):
        return None
    reason = _common_reason(shape, target) or _REASONS[operation](shape, target)
    return f"{shape}: {reason}"


check_load, check_store = partial(_check, "load"), partial(_check, "store")
check_prefetch = partial(_check, "prefetch")


def _common_reason(shape: BlockShape, target: Target) -> str | None:
    if not target.has_block_2d:
        return f"{target.name} has no 2D block messages"
    if shape.row_bytes > MAX_ROW_BYTES:
        return f"a row of {shape.row_bytes} bytes is over the limit of {MAX_ROW_BYTES}"
    for name in ("width", "height", "blocks"):
        value = getattr(shape, name)
        if value & (value - 1):
            return f"{name} {value} is not a power of 2"
    if shape.height > MAX_HEIGHT:
        return f"height {shape.height} is over the limit of {MAX_HEIGHT} rows"
    return None


def _load_reason(shape: BlockShape, target: Target) -> str:
    if shape.registers > MAX_RESULT_REGISTERS:
        return (f"a result of {shape.registers} registers is over the limit of "
                f"{MAX_RESULT_REGISTERS}")
    if shape.transpose:
        return _transpose_reason(shape, target)
    if shape.vnni and shape.element_bits > 16:
        return "only 8- and 16-bit elements are packed (VNNI)"
    if shape.vnni and shape.height % shape.packing:
        return f"VNNI needs a height that is a multiple of {shape.packing}"
    return f"{target.name} has no such {'VNNI' if shape.vnni else 'plain'} load"


def _transpose_reason(shape: BlockShape, target: Target) -> str:
    if shape.element_bits < 32:
        return f"{target.name} transposes 32- and 64-bit elements only"
    if shape.blocks > 1:
        return "a transposing load has one block"
    if shape.element_bits == 64 and shape.height not in (8, 16):
        return "a 64-bit transposing load has 8 or 16 rows"
    return f"{target.name} has no transposing load of this width"


def _store_reason(shape: BlockShape, target: Target) -> str:
    if shape.transpose or shape.vnni:
        return "a store neither transposes nor packs"
    if shape.blocks > 1:
        return "a store has one block"
    if shape.height > MAX_STORE_HEIGHT:
        return f"height {shape.height} is over the limit of {MAX_STORE_HEIGHT} rows of a store"
    return f"a row of {shape.row_bytes} bytes is less than {OFFSET_BYTES}"


def _prefetch_reason(shape: BlockShape, target: Target) -> str:
    if shape.transpose or shape.vnni:
        return "a prefetch neither transposes nor packs"
    return f"{target.name} has no such prefetch"


_REASONS = {"load": _load_reason, "store": _store_reason, "prefetch": _prefetch_reason}


class Relation(Enum):
    """Relation between the amount of a guard and its bound."""

    MULTIPLE_OF = "is a multiple of"
    AT_LEAST = "is at least"
    BELOW = "is below"


@dataclass(frozen=True)
class Guard:
    """A condition that is proven at compile time, or tested before the fast version of an access
    runs.

    In a rule, `amount` is "base", "width", "pitch" (bytes), "height" (rows) or "x" (elements), and
    `bound` is a number or "width".  The compiler replaces them with the values that compute them.
    `what` describes the condition in remarks.

    >>> str(Guard("pitch", Relation.MULTIPLE_OF, 16))
    'pitch is a multiple of 16 bytes'
    """

    amount: Any
    relation: Relation
    bound: Any = 0
    what: str = ""

    def __hash__(self) -> int:
        return hash((self.amount, self.bound))

    def holds(self, amounts: Mapping[str, int]) -> bool:
        """True if a surface with these amounts satisfies the rule."""
        amount, bound = amounts[self.amount], amounts.get(self.bound, self.bound)
        if self.relation is Relation.MULTIPLE_OF:
            return amount % bound == 0
        return amount >= bound if self.relation is Relation.AT_LEAST else amount < bound

    def __str__(self) -> str:
        if isinstance(self.bound, str):
            return f"{self.amount} {self.relation.value} the {self.bound}"
        unit = {"height": "row", "x": "element"}.get(self.amount, "byte")
        return f"{self.amount} {self.relation.value} {self.bound} {unit}{'s' * (self.bound != 1)}"

    @property
    def broken(self) -> str:
        """Sentence that says that the guard does not hold."""
        return str(self).replace(" is ", " is not ", 1)


class Alignment(NamedTuple):
    """Bytes that bases and pitches of surfaces are multiples of."""

    base: int
    pitch: int


ALIGNED = Alignment(BASE_ALIGNMENT, 16)
"""Alignment that suffices on every device."""
_ALIGNMENTS: Mapping[tuple[int, ...], Alignment] = {_XE3P: Alignment(4, 4)}
"""First IP version -> alignment that suffices since (oneDNN, `hw_utils.hpp`:
`block2DBaseAlignment`, `block2DMinAlignment`)."""


def alignment(target: Target) -> Alignment:
    """The alignment that suffices on a device.

    >>> from triton_xe.hardware.target import target
    >>> alignment(target("cri"))
    Alignment(base=4, pitch=4)
    """
    return next((each for since, each in _ALIGNMENTS.items() if target.ip_version >= since),
                ALIGNED)


def surface_rules(
    element_bits: int, x_unit: int, folded: bool = False, needed: Alignment = ALIGNED
) -> Iterator[Guard]:
    """All rules for a surface read in units of `element_bits`, with x a multiple of `x_unit`
    elements.

    With `folded`, the base is rounded down to an aligned address and the remainder is added to x.
    """
    unit = max(OFFSET_BYTES, element_bits // 8)
    yield Guard("base", Relation.MULTIPLE_OF, unit if folded else needed.base)
    yield Guard("pitch", Relation.MULTIPLE_OF, needed.pitch)
    yield Guard("pitch", Relation.AT_LEAST, MIN_SURFACE_BYTES)
    yield Guard("pitch", Relation.BELOW, MAX_SURFACE)
    yield Guard("pitch", Relation.AT_LEAST, "width")
    yield Guard("width", Relation.MULTIPLE_OF, unit)
    yield Guard("width", Relation.AT_LEAST, MIN_SURFACE_BYTES)
    yield Guard("width", Relation.BELOW, MAX_SURFACE)
    yield Guard("height", Relation.AT_LEAST, 1)
    yield Guard("height", Relation.BELOW, MAX_SURFACE)
    if x_unit > 1:
        yield Guard("x", Relation.MULTIPLE_OF, x_unit)
    if folded:
        yield Guard("x", Relation.AT_LEAST, 0)


def x_unit(element_bits: int, message_bits: int) -> int:
    """Elements that x must be a multiple of, for messages of elements of `message_bits`."""
    return max(1, 8 * max(OFFSET_BYTES, message_bits // 8) // element_bits)


def check_surface(
    *,
    width_bytes: int,
    height: int,
    pitch_bytes: int,
    base: int = 0,
    element_bits: int = 32,
    x: int = 0,
    needed: Alignment = ALIGNED,
) -> str | None:
    """Why a surface (and an x offset in elements) cannot be addressed; None if it can.

    >>> check_surface(width_bytes=128, height=8, pitch_bytes=130)
    'pitch of 130 bytes is not a multiple of 16'
    """
    amounts = {"base": base, "width": width_bytes, "pitch": pitch_bytes, "height": height, "x": x}
    rules = surface_rules(element_bits, x_unit(element_bits, element_bits), needed=needed)
    broken = next((rule for rule in rules if not rule.holds(amounts)), None)
    if broken is None:
        return None
    match broken.amount:
        case "base":
            return f"base is not {broken.bound}-byte aligned"
        case "height":
            return f"height of {height} rows is not in 1..2^24-1"
        case "x":
            return (f"x = {x} elements of {element_bits} bits is not a multiple of "
                    f"{OFFSET_BYTES} bytes")
    bound = f"the width of {width_bytes}" if broken.bound == "width" else str(broken.bound)
    fails = {
        Relation.MULTIPLE_OF: f"not a multiple of {bound}",
        Relation.AT_LEAST: f"less than {bound}",
        Relation.BELOW: "not below 2^24",
    }
    return f"{broken.amount} of {amounts[broken.amount]} bytes is {fails[broken.relation]}"


READ_CACHE: Mapping[str, int] = {
    "default": 0, "uc.uc": 1, "uc.ca": 2, "ca.uc": 3, "ca.ca": 4, "st.uc": 5, "st.ca": 6, "ri": 7,
}  # fmt: skip
"""L1.L3 policy of a load or prefetch -> code.  uc uncached, ca cached, st streaming, ri last use
("ri" leaves L3 to the device)."""
READ_CACHE_XE1: Mapping[str, int] = {"ri.ca": 7}
READ_CACHE_XE2: Mapping[str, int] = {"ri.ri": 7, "uc.cc": 8, "ca.cc": 9}
READ_CACHE_XE3P: Mapping[str, int] = {
    "default": 0, "uc.uc": 18, "uc.ca": 21, "ca.uc": 22, "ca.ca": 25, "st.uc": 26, "st.ca": 29,
    "ri": 10, "ri.ri": 10, "uc.cc": 8, "ca.cc": 9,
}  # fmt: skip
"""Xe3P has three levels.  The codes of two levels bypass its L3 there, and 7 crashes IGC 2.40. What
is cached beyond L1 is cached in L2 and L3, as IGC does by itself for prefetches.
"""
WRITE_CACHE: Mapping[str, int] = {
    "default": 0, "uc.uc": 1, "uc.wb": 2, "wt.uc": 3, "wt.wb": 4, "st.uc": 5, "st.wb": 6,
    "wb.wb": 7,
}  # fmt: skip
"""L1.L3 policy of a store -> code.  wb write-back, wt write-through."""
WRITE_CACHE_XE3P: Mapping[str, int] = {
    "default": 0, "uc.uc": 18, "uc.wb": 21, "wt.uc": 22, "wt.wb": 25, "st.uc": 26, "st.wb": 28,
    "wb.wb": 30,
}  # fmt: skip
"""The second level means L2 and L3, but L2 alone for "st.wb" and "wb.wb"."""


def cache_codes(target: Target, *, write: bool = False) -> Mapping[str, int]:
    """Every cache policy of `target` with its code."""
    if target.ip_version >= _XE3P:
        return WRITE_CACHE_XE3P if write else READ_CACHE_XE3P
    if write:
        return WRITE_CACHE
    return {**READ_CACHE, **(READ_CACHE_XE2 if target.ip_version >= _XE2 else READ_CACHE_XE1)}


def cache_code(policy: str, target: Target, *, write: bool = False) -> int:
    """The cache-control operand for `policy`; `LegalityError` lists what `target` has."""
    codes = cache_codes(target, write=write)
    if policy not in codes:
        access = "write" if write else "read"
        raise LegalityError(
            f"{target.name} has no {access} cache policy {policy!r}; known: {', '.join(codes)}"
        )
    return codes[policy]


Bit = tuple[str, int] | None
"""Meaning of one bit of a byte address in the result: ("byte" | "x" | "y", weight); None:
padding.
"""


def result_bits(shape: BlockShape) -> tuple[Bit, ...]:
    """The bits of a byte address inside the result, lowest first; x in elements, y in rows.

    >>> result_bits(BlockShape(16, 2, 2, vnni=True))
    (('byte', 1), ('y', 1), ('x', 1), None, None, None)
    """
    xs = _X_BITS[: (shape.width - 1).bit_length()]
    ys = _Y_BITS[: (shape.height - 1).bit_length()]
    block = _BYTE_BITS[: _log2(shape.element_bits) - 3]
    if shape.transpose:
        block += ys + xs
    elif shape.vnni:
        packed = _log2(shape.packing)
        block += ys[:packed] + xs + ys[packed:]
    else:
        block += xs + ys
    if len(block) < _GRF_BITS:
        block += (None,) * (_GRF_BITS - len(block))
    if shape.blocks == 1:
        return block
    return block + tuple(("x", shape.width << i) for i in range(_log2(shape.blocks)))


def _bits(name: str, count: int) -> tuple[Bit, ...]:
    return tuple((name, 1 << i) for i in range(count))


def _log2(value: int) -> int:
    return value.bit_length() - 1


_GRF_BITS = _log2(GRF_BYTES)
_BYTE_BITS, _X_BITS, _Y_BITS = _bits("byte", 3), _bits("x", 24), _bits("y", 24)


def has_offsets(target: Target) -> bool:
    """True if messages take immediate offsets; otherwise each further message copies the
    payload.
    """
    return target.ip_version >= _XE2
