"""Types and constants of `count` elements of a lane in the text of LLVM IR."""

from __future__ import annotations


def kind_of(scalar: str, count: int) -> str:
    """The type of one scalar, or of a vector of several."""
    return scalar if count == 1 else f"<{count} x {scalar}>"


def all_are(scalar: str, value: object, count: int) -> str:
    """A constant whose elements are all equal."""
    return str(value) if count == 1 else f"splat ({scalar} {value})"
