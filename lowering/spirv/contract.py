"""Fused multiplications and additions, chosen here and not by the compilers further down.

The LLVM text marks what may be fused with `contract`.  A product with one use, an addition or
subtraction of its own block, becomes part of it:

    p = fmul contract a, b;  s = fadd contract p, c     ->    s = llvm.fma(a, b, c)

The rest loses its marks: Intel's compiler and the simulator's round alike, for they fuse nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_MARK = " contract "
_FLAGS = "(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc) )*"
_TYPE = r"(<\d+ x (?:half|float|double)>|half|float|double)"
_ARITHMETIC = re.compile(rf"(\s*)(%\S+) = (fadd|fsub|fmul) {_FLAGS}{_TYPE} (.*)$")
_NAME = re.compile(r"%(?:\"[^\"]*\"|[\w.$-]+)")
_LABEL = re.compile(r"[^\s=]+:")
_OPENING, _CLOSING = "<([{", ">)]}"
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True)
class _Product:
    """A marked multiplication: its line and operands."""

    line: int
    left: str
    right: str


def contracted(text: str) -> str:
    """The module with its marked products fused, and without marks."""
    if _MARK not in text:
        return text
    head, *functions = re.split("^(?=define )", text, flags=re.MULTILINE)
    used: dict[str, str] = {}
    done = [_function(body, used) if _MARK in body else body for body in functions]
    missing = [f"{line}\n" for name, line in used.items() if not _declared(text, name)]
    return "".join([head, *missing, *done])


def _declared(text: str, name: str) -> bool:
    return re.search(rf'^declare [^@]*@"?{re.escape(name)}"?\(', text, re.MULTILINE) is not None


def _function(body: str, used: dict[str, str]) -> str:
    uses = Counter(_NAME.findall(body))
    products: dict[str, _Product] = {}
    lines: list[str | None] = [*body.split("\n")]
    for number, line in enumerate(body.split("\n")):
        if _LABEL.match(line):
            products.clear()
        found = _ARITHMETIC.match(line) if _MARK in line else None
        if found is None:
            continue
        lines[number] = line.replace(_MARK, " ", 1)
        indent, name, opcode, kind, rest = found.groups()
        first, second, *attached = _operands(rest)
        if opcode == "fmul":
            if uses[name] == 2:
                products[name] = _Product(number, first, second)
            continue
        product = products.pop(first, None)
        other = second
        if product is None:
            product, other = products.pop(second, None), first
        if product is None:
            continue
        lines[product.line] = None
        negated = None if opcode == "fadd" else "sum" if other == second else "product"
        made = _fused(name, kind, product, other, negated)
        lines[number] = ", ".join(["\n".join(indent + text for text in made), *attached])
        used.setdefault(*_declaration(kind))
    return "\n".join(line for line in lines if line is not None)


def _fused(
    name: str, kind: str, product: _Product, other: str, negated: str | None
) -> list[str]:
    """The instructions of +-(left * right) +- other, under the sum's name."""
    left, before = product.left, []
    if negated is not None:
        minus = f'%"{name[1:].strip(chr(34))}.minus"'
        before = [f"{minus} = fneg {kind} {other if negated == 'sum' else left}"]
        left, other = (left, minus) if negated == "sum" else (minus, other)
    function, _ = _declaration(kind)
    arguments = ", ".join(f"{kind} {x}" for x in (left, product.right, other))
    return [*before, f"{name} = call {kind} @{function}({arguments})"]


def _declaration(kind: str) -> tuple[str, str]:
    """Name and declaration of the fused operation on a type."""
    count, _, element = kind.strip("<>").rpartition(" x ")
    name = f"llvm.fma.{f'v{count}' if count else ''}{_SUFFIX[element]}"
    return name, f"declare {kind} @{name}({kind}, {kind}, {kind})"


def _operands(text: str) -> list[str]:
    """What commas outside of brackets and strings separate."""
    if "<" not in text and "(" not in text:
        return text.split(", ")
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 2
    return [*parts, text[start:]]


__all__ = ["contracted"]
