"""Divisions and roots that are correctly rounded."""

from __future__ import annotations

from triton_xe.lowering.emit.maths.terms import Operand, Term
from triton_xe.lowering.emit.types import FLOAT


def _note(x: Term) -> None:
    """Note that fp32 divisions and roots of this module must be correctly rounded."""
    if x.kind == FLOAT:
        x.em.state.facts["precise"] = True


def exact_root(x: Term) -> Term:
    """The correctly rounded square root."""
    _note(x)
    return x.intrinsic("sqrt")


def exact_quotient(a: Term, b: Operand) -> Term:
    """The correctly rounded quotient."""
    _note(a)
    return a / b
