"""Symbols of library functions: the family, and all that a function's code depends on.

    >>> symbol("block_read", 16, 32, 8, 2, "vnni")
    'xe.block_read.16.32.8.2.vnni'
    >>> parts("xe.block_read.16.32.8.2.vnni")
    ('block_read', (16, 32, 8, 2, 'vnni'))
"""

from __future__ import annotations

_PREFIX, _PIECE = "xe.", ".piece."
Parameter = int | str


def symbol(family: str, *parameters: Parameter) -> str:
    return _PREFIX + ".".join([family, *map(str, parameters)])


def is_symbol(name: str) -> bool:
    return name.startswith(_PREFIX)


def parts(name: str) -> tuple[str, tuple[Parameter, ...]]:
    """Family and parameters of a symbol, the inverse of `symbol`."""
    family, *rest = name.removeprefix(_PREFIX).split(".")
    return family, tuple(int(word) if word.isdigit() else word for word in rest)


def piece_symbol(function: str, number: int) -> str:
    """Name of a function that computes pieces of another one (`pieces`)."""
    return f"{function}{_PIECE}{number}"
