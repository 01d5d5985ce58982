"""Decoded instructions: what `libiga64` reports about each, as immutable records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Region = tuple[int, int, int]
"""Vertical stride, width and horizontal stride in elements, `<v;w,h>` of the assembly."""


@dataclass(frozen=True)
class Operand:
    """A source or destination; fields that its kind does not have keep their defaults."""

    kind: str
    """"register", "indirect" (through a0), "immediate", "label", "macro" (with `extra`), or
    "payload" (the registers of a message)."""
    type: str = ""
    file: str = ""
    """Register file: r, acc, a, f, cr, sr, s, null ..."""
    number: int = 0
    sub: int = 0
    """Subregister, in elements of the type; 16-bit units in flags and address registers."""
    region: Region | None = None
    modifiers: str = ""
    """"n" negates, "a" takes the absolute value; negated last."""
    value: str = ""
    offset: tuple[int, ...] = (0,)
    """Immediate offset of an indirect operand (bytes) or a message's address."""
    target: str = ""
    extra: str = "nomme"
    """The register of more exponent bits, in macros of division and square root."""
    saturate: bool = False
    registers: int = 0
    surface: str = ""
    surface_index: int = 0
    scale: int = 1
    """Factor of a message's addresses, before their base and offset are added."""
    is_signed: bool = False
    """True if addresses of 32 bits are signed."""

    @property
    def is_null(self) -> bool:
        return self.file == "null"


_KINDS: Mapping[str, str] = {
    "RD": "register", "RI": "indirect", "IM": "immediate", "LB": "label", "RM": "macro",
    "DA": "payload", "AD": "payload",
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """One native instruction."""

    pc: int
    op: str
    subop: str
    width: int
    """Channels, 1 to 32."""
    first_channel: int
    no_mask: bool
    """True for `(W)`: it runs in all channels of the thread, whatever the branches taken."""
    predicate: str | None
    """"" (each channel's bit) or a horizontal form such as "any16h"; None without predicate."""
    inverted: bool
    flag: tuple[int, int]
    """Number and 16-bit half of the flag register."""
    condition: str
    destination: Operand | None
    sources: tuple[Operand, ...]
    options: frozenset[str]
    distance: str
    """Scoreboard: in-order dependence, "I@1"."""
    token: tuple[int, str] | None
    """Scoreboard: number and kind ("", ".dst", ".src") of an out-of-order dependence."""

    @property
    def name(self) -> str:
        return f"{self.op}.{self.subop}" if self.subop else self.op

    @property
    def is_end(self) -> bool:
        """True if the thread ends with it."""
        return "EOT" in self.options

    @property
    def writes_accumulator(self) -> bool:
        return "AccWrEn" in self.options


def instruction_of(element: Mapping[str, Any]) -> Instruction:
    """The instruction that an element of IGA's JSON describes."""
    predicate, flag = element.get("pred"), element.get("freg", {})
    token, destination = element.get("sbid"), element.get("dst")
    return Instruction(
        element["pc"], element["op"], str(element.get("subop", "")), element.get("es", 1),
        element.get("eo", 0), bool(element.get("wren")),
        None if predicate is None else str(predicate.get("func", "")).lstrip("."),
        bool(predicate and predicate.get("inv")), (flag.get("r", 0), flag.get("sr", 0)),
        element.get("fm", {}).get("cond", ""),
        None if destination is None else _operand(destination),
        tuple(_operand(source) for source in element.get("srcs", ())),
        frozenset(element.get("opts", ())), element.get("regDist", ""),
        None if token is None else (token["id"], token["func"]),
    )


def _operand(fields: Mapping[str, Any]) -> Operand:
    """Read an operand from the fields of the disassembler."""
    register = fields.get("reg") or fields.get("areg") or {}
    offset = fields.get("aoff", 0)
    return Operand(
        _KINDS[fields["kind"]], fields.get("type", ""), register.get("rn", ""),
        register.get("r", 0), register.get("sr", 0), _region(fields.get("rgn")),
        fields.get("mods", ""), fields.get("value", ""),
        tuple(offset) if isinstance(offset, list) else (offset,), fields.get("target", ""),
        fields.get("mme", "nomme"), bool(fields.get("sat")),
        fields.get("alen", fields.get("len", 0)), fields.get("stype", ""), fields.get("soff", 0),
    )


def _region(fields: Mapping[str, int] | None) -> Region | None:
    """The region; of ternary operands IGA writes `<v;h>` and `<h>` only, destinations `<h>`.

    An indirect source without a vertical stride (`<w,h>`) takes an address for each row: -1.
    """
    if fields is None:
        return None
    vertical, width, step = fields.get("v"), fields.get("w"), fields.get("h", 0)
    if vertical is None and width is None:
        return step, 1, 0
    if width is None:
        width = vertical // step if vertical and step else 1
    return -1 if vertical is None else vertical, width, step
