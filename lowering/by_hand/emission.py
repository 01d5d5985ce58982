"""LLVM IR of operations that only programs written by hand have."""

from __future__ import annotations

from importlib import import_module


def register() -> None:
    """Add their lowerings to the emitter's table, which each module does when it is imported."""
    for module in ("barriers", "scattered", "vector_dialect"):
        import_module(f"triton_xe.lowering.by_hand.{module}")
