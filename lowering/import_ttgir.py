"""First stage of the Python compiler: libtriton's ttgir text becomes xDSL operations."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from triton_xe.dialects.text.reader import read_verified_module


def import_ttgir(text: str) -> ModuleOp:
    """Parse and verify ttgir text; `op.location` is each op's source location in Python.

    Raise `UnsupportedError` for an unknown operation.
    """
    return read_verified_module(text, name="ttgir")
