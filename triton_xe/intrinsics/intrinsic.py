"""A row of the table of intrinsics, and its properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from triton_xe.errors import LegalityError
from triton_xe.hardware.target import Target
from triton_xe.intrinsics.mangling import itanium, suffix


class Effect(Flag):
    """Side effects of a call."""

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
    """Releases subgroups that wait."""
    BARRIER = auto()
    """Waits for the other subgroups of the work-group."""
    CONVERGENT = auto()
    """Must be executed by all lanes together, because it exchanges values or is one message."""
    VOLATILE = auto()
    """Two calls with equal arguments may have different results."""


ANYTHING = ~Effect.NONE


class Uniformity(Enum):
    """Conditions under which a result is equal in all lanes of a subgroup."""

    ELEMENTWISE = "where all arguments are"
    GROUP = "always, and for the whole work-group"
    SUBGROUP = "always"
    INDEXED = "where all arguments are, or the argument `index` is"
    OPERATION = "where the argument `operation` is a reduction"
    LANE = "never"


class Family(Enum):
    """Rows that the same code handles; their arguments of equal name have equal meaning."""

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


class Parameter(NamedTuple):
    """An argument: its name and type, and flags for constants and for values equal in all lanes."""

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
    """One row of the table.

    `signature` is `result (name: type, ...)`.  Types are i1 to i64, u32 (an i32 whose builtin is
    unsigned), f32, void, p, p1, p3 (pointers by address space).  A capital letter is a type that
    calls choose.  `overloads` are the types at the end of an intrinsic's symbol; the symbol of a
    builtin spells all its arguments.

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
    defined_by: str = ""
    """Name of the definition in `triton_xe.intrinsics.definitions`: module.function, or
    module.TABLE.key.
    """
    combines: str = ""
    """Operation that a reduction applies to the values of two lanes, named as in LLVM's
    `atomicrmw`.

    For `min` and `max` of OpenCL the type decides between signed, unsigned and floating point.
    """
    ulp: float = 0
    """Largest error of an fp32 result, in units in the last place."""
    available: Callable[[Target], Any] = field(default=lambda target: True, repr=False)
    """True for the devices that have it."""

    @cached_property
    def definition(self) -> Callable[..., Any] | None:
        """Function that computes the result on numpy arrays; memory is an array too.

        It is imported at its first use, because a compilation uses neither it nor numpy.
        """
        if not self.defined_by:
            return None
        module, name, *key = self.defined_by.split(".", 2)
        found = getattr(import_module(f"triton_xe.intrinsics.definitions.{module}"), name)
        return found[key[0]] if key else found

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
        """True if the result depends only on arguments, ids and lanes, and the call has no side
        effects.
        """
        return not self.effects & ~Effect.CONVERGENT

    @cached_property
    def is_builtin(self) -> bool:
        """True if the symbol is that of an OpenCL or SPIR-V builtin."""
        return not self.name.startswith(("llvm.", "xe."))

    @cached_property
    def _suffixes(self) -> tuple[int | str, ...]:
        """Type suffixes of the symbol: -1 for the result's type, a number for an argument's."""
        types = [p.type for p in self.parameters]
        return tuple(
            (-1 if part == self.result else types.index(part)) if part.isupper() else part
            for part in self.overloads.split()
        )

    def symbol(self, result: object, arguments: Sequence[object], *, unsigned: bool = False) -> str:
        """Name of the function for these types, which `str` must spell as LLVM does."""
        if self.is_builtin:
            signs = tuple(unsigned or p.type == "u32" for p in self.parameters)
            return itanium(self.name, tuple(map(str, arguments)), signs)
        parts = [
            part if isinstance(part, str) else suffix(str(result if part < 0 else arguments[part]))
            for part in self._suffixes
        ]
        return ".".join((self.name, *parts))

    def check(self, result: object, arguments: Sequence[object]) -> None:
        """Raise `LegalityError` if a declaration of these types does not match the signature."""
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
"""Row of a function that is not in the table; it may have any effect."""
