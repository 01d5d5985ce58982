"""What a row of the table of intrinsics says, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from functools import cached_property
from typing import Any

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target
from triton_xe.intrinsics.mangling import itanium, suffix


class Effect(Flag):
    """What a call does besides its result."""

    NONE = 0
    READS = auto()
    """Reads memory that other work-items see."""
    WRITES = auto()
    """Writes memory that other work-items see."""
    PRIVATE = auto()
    """Reads or writes memory of its work-item alone."""
    ORDERS = auto()
    """Orders accesses to global memory between work-groups: an atomic, or a fence."""
    ARRIVES = auto()
    """Lets subgroups go on that wait."""
    BARRIER = auto()
    """Waits for the other subgroups of the work-group."""
    CONVERGENT = auto()
    """Has to be executed by all lanes together: it exchanges values, or is one message."""
    VOLATILE = auto()
    """Two calls with equal arguments differ."""


ANYTHING = ~Effect.NONE


class Uniformity(Enum):
    """When a result is one value for all lanes of a subgroup."""

    ELEMENTWISE = "where all arguments are"
    GROUP = "always, and for the whole work-group"
    SUBGROUP = "always"
    INDEXED = "where all arguments are, or the argument `index` is"
    OPERATION = "where the argument `operation` is a reduction"
    LANE = "never"


class Family(Enum):
    """Rows that the same code reads; their arguments of one name mean the same."""

    ID = "ids and sizes of work-items"
    MATHS = "functions of each element"
    CONVERSION = "conversions of each element"
    SHUFFLE = "moves of `value` between lanes"
    REDUCTION = "reductions and scans of `value` over lanes"
    VOTE = "truth values of all lanes"
    MASKED = "accesses of each lane with a mask"
    BLOCK_1D = "consecutive memory to or from the registers"
    BLOCK_2D = "rectangles of a surface to or from the registers"
    PAYLOAD = "descriptors of 2D blocks"
    DPAS = "products of matrices"
    ATOMIC = "accesses that order others"
    BARRIER = "barriers"
    FENCE = "fences"
    HINT = "what may be left out"
    HELPER = "functions of the module that run lane by lane"
    SHADOW = "the sanitizer's own calls"
    UNKNOWN = "anything"


@dataclass(frozen=True)
class Parameter:
    """An argument: its type, and whether it is a constant, or one value for all lanes."""

    name: str
    type: str
    constant: bool = False
    uniform: bool = False

    @classmethod
    def read(cls, text: str) -> Parameter:
        """Read `name: type`, with `=` before a constant and `~` before a uniform argument."""
        name, kind = text.strip().split(": ")
        return cls(name.lstrip("=~"), kind, name[0] == "=", name[0] in "=~")


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One row.

    `signature` is `result (name: type, ...)`.  Types are i1 to i64, u32 (an i32 whose builtin is
    unsigned), f32, void, p, p1, p3 (pointers by address space); a capital letter stands for a
    type that calls choose.  `overloads` are the types that an intrinsic's symbol ends with; the
    symbol of a builtin spells all its arguments.

    >>> from triton_xe.intrinsics.genisa import PREDICATED_LOAD
    >>> PREDICATED_LOAD.symbol("half", ["ptr addrspace(1)", "i64", "i1", "half"])
    'llvm.genx.GenISA.PredicatedLoad.f16.p1.f16'
    """

    name: str
    signature: str
    family: Family
    source: str
    effects: Effect = Effect.NONE
    uniformity: Uniformity = Uniformity.ELEMENTWISE
    overloads: str = ""
    definition: Callable[..., Any] | None = field(default=None, repr=False)
    """What it computes, on numpy arrays; memory is an array too."""
    combines: str = ""
    """What a reduction does with two lanes' values, in the words of LLVM's `atomicrmw`; `min` and
    `max` of OpenCL go by the type."""
    ulp: float = 0
    """Largest error of an fp32 result, in units in the last place."""
    available: Callable[[Target], Any] = field(default=lambda target: True, repr=False)
    """Whether a device has it."""

    @cached_property
    def result(self) -> str:
        return self.signature.split(" ")[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        inside = self.signature.partition("(")[2].rstrip(")")
        return tuple(Parameter.read(p) for p in inside.split(",") if p)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Number of each argument by its name."""
        return {p.name: k for k, p in enumerate(self.parameters)}

    @cached_property
    def result_like(self) -> int:
        """Number of the argument whose type is that of the result."""
        return [p.type for p in self.parameters].index(self.result)

    def has(self, parameter: str) -> bool:
        return parameter in self.positions

    @property
    def known(self) -> bool:
        return self.family is not Family.UNKNOWN

    @property
    def pure(self) -> bool:
        """Whether the result depends on the arguments, ids and lanes alone, and that is all."""
        return not self.effects & ~Effect.CONVERGENT

    @cached_property
    def is_builtin(self) -> bool:
        """Whether the symbol is that of an OpenCL or SPIR-V builtin."""
        return not self.name.startswith(("llvm.", "xe."))

    @cached_property
    def _suffixes(self) -> tuple[int | str, ...]:
        """What the symbol ends with: -1 for the result's type, a number for an argument's."""
        types = [p.type for p in self.parameters]
        return tuple(
            (-1 if part == self.result else types.index(part)) if part.isupper() else part
            for part in self.overloads.split()
        )

    def symbol(self, result: object, arguments: Sequence[object], *, unsigned: bool = False) -> str:
        """The name of the function of these types, which `str` spells as LLVM does."""
        if self.is_builtin:
            signs = tuple(unsigned or p.type == "u32" for p in self.parameters)
            return itanium(self.name, tuple(map(str, arguments)), signs)
        parts = [
            part if isinstance(part, str) else suffix(str(result if part < 0 else arguments[part]))
            for part in self._suffixes
        ]
        return ".".join((self.name, *parts))

    def check(self, result: object, arguments: Sequence[object]) -> None:
        """Raise `LegalityError` where a declaration of these types is not of this signature."""
        given = [suffix(str(t)) for t in (result, *arguments)]
        wanted = [self.result, *(p.type for p in self.parameters)]
        bound: dict[str, str] = {}
        for want, have in zip(wanted, given, strict=False):
            want = _EXACT.get(want, want)
            if (bound.setdefault(want, have) if want.isupper() else want) != have:
                break
        else:
            if len(wanted) == len(given):
                return
        raise LegalityError(f"{self.name} is {self.signature}, not {given[0]} ({given[1:]})")


_EXACT = {"void": "isVoid", "u32": "i32", "p": "p0"}
UNKNOWN = Intrinsic("", "R ()", Family.UNKNOWN, "", ANYTHING, Uniformity.LANE)
"""What is said of a function that the table does not have: it may do anything."""
