"""First stage of the Python compiler: libtriton's ttgir text becomes xDSL operations."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from triton_xe.dialects.text.reader import read_verified_module


def import_ttgir(text: str) -> ModuleOp:
    """The verified module of a ttgir text; `op.location` holds each op's place in Python.

    Raises UnsupportedError for an operation that is not known here.
    """
    return read_verified_module(text, name="ttgir")
