"""Integer polynomials over the scalars of a kernel, for the analysis of addresses.

A symbol is any hashable object: an SSA value, or one of the derived symbols of `affine`.
Coefficients have no width; `affine` checks that a kernel's arithmetic does not wrap around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from triton_xe.hardware.block_2d import Guard, Relation

Symbol = Hashable


class Monomial(tuple[Symbol, ...]):
    """A product of symbols.

    Products in another order are equal.  The order as written is preserved, so that results do not
    depend on addresses of Python objects.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if tuple.__eq__(self, other) is True:
            return isinstance(other, Monomial)
        return (isinstance(other, Monomial) and len(self) == len(other) > 1
                and Counter(self) == Counter(other))

    def __hash__(self) -> int:
        """Hash of the factors in any order; powers of the same symbols differ."""
        return hash((len(self), sum(map(hash, self)))) if len(self) > 1 else tuple.__hash__(self)


_ONE = Monomial()
MAX_TERMS, MAX_DEGREE = 32, 8


@dataclass(frozen=True, eq=False)
class Poly:
    """A sum of integer coefficients times products of symbols.

    >>> (Poly.symbol("k") * 32 + 4).constant_part
    4
    """

    terms: Mapping[Monomial, int]

    @staticmethod
    def constant(value: int) -> Poly:
        return Poly({_ONE: value} if value else {})

    @staticmethod
    def symbol(symbol: Symbol) -> Poly:
        return Poly({Monomial((symbol,)): 1})

    @property
    def constant_part(self) -> int:
        return self.terms.get(_ONE, 0)

    @property
    def as_constant(self) -> int | None:
        """The value, when no symbol occurs."""
        if not self.terms:
            return 0
        return self.terms.get(_ONE) if len(self.terms) == 1 else None

    @property
    def is_small(self) -> bool:
        """True if a polynomial has few terms: products of sums grow without bound."""
        terms = self.terms
        return not terms or (len(terms) <= MAX_TERMS and max(map(len, terms)) <= MAX_DEGREE)

    @property
    def symbols(self) -> set[Symbol]:
        return {symbol for monomial in self.terms for symbol in monomial}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Poly | int) -> Poly:
        return self._plus(other, 1)

    def _plus(self, other: Poly | int, factor: int) -> Poly:
        """Add `factor` times another polynomial or number."""
        added = other.terms if isinstance(other, Poly) else {_ONE: other}
        if not added:
            return self
        out = dict(self.terms)
        for monomial, coefficient in added.items():
            total = out.get(monomial, 0) + coefficient * factor
            if total:
                out[monomial] = total
            else:
                out.pop(monomial, None)
        return Poly(out)

    def __neg__(self) -> Poly:
        return Poly({monomial: -c for monomial, c in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self._plus(other, -1)

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return Poly({m: c * other for m, c in self.terms.items()} if other else {})
        out: dict[Monomial, int] = {}
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                product = Monomial(left + right)
                out[product] = out.get(product, 0) + c * d
        return Poly({monomial: c for monomial, c in out.items() if c})

    def substitute(self, replaced: Mapping[Symbol, Poly]) -> Poly:
        """The polynomial with some symbols replaced."""
        out = Poly({})
        for monomial, coefficient in self.terms.items():
            term = Poly.constant(coefficient)
            for symbol in monomial:
                term = term * replaced.get(symbol, Poly.symbol(symbol))
            out += term
        return out

    def divide(self, divisor: Poly) -> tuple[Poly, Poly]:
        """Return (quotient, rest) with self = quotient * divisor + rest.

        The divisor must be one term, else all is rest.  Terms that it divides are the quotient.
        """
        if len(divisor.terms) != 1:
            return Poly({}), self
        ((by, factor),) = divisor.terms.items()
        quotient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            left = _divide_monomial(monomial, by)
            if left is None or coefficient % factor:
                rest[monomial] = coefficient
            else:
                quotient[left] = coefficient // factor
        return Poly(quotient), Poly(rest)

    def split(self, has: Callable[[Symbol], bool]) -> tuple[Poly, Poly]:
        """Return the terms with a symbol for which `has` is true, and the other terms."""
        inside = {m: c for m, c in self.terms.items() if any(has(s) for s in m)}
        return Poly(inside), Poly({m: c for m, c in self.terms.items() if m not in inside})

    def terms_by_sign(self) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
        """Return the terms that are added, and those that are taken away, by their factors."""
        return ({m: c for m, c in self.terms.items() if c > 0},
                {m: -c for m, c in self.terms.items() if c < 0})


def at_least(left: Poly, right: Poly, what: str) -> Guard:
    """Guard for left >= right; `what` describes it in refusals."""
    return Guard(left, Relation.AT_LEAST, right, what)


def _divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    """Divide a monomial by another; None if it is no multiple."""
    left = list(monomial)
    for symbol in by:
        if symbol not in left:
            return None
        left.remove(symbol)
    return Monomial(left)
