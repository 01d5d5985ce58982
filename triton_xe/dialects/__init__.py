"""The dialects of every stage, imported when first used.

`context()` returns an xDSL context with them, and with the dialects of xDSL that they use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.ir import Dialect

_OWN_DIALECTS = {
    "tt": ("triton_xe.dialects.tt", "TT"),
    "ttg": ("triton_xe.dialects.ttg", "TTG"),
    "tti": ("triton_xe.dialects.tti", "TTI"),
    "xe": ("triton_xe.dialects.xe", "Xe"),
    "xetile": ("triton_xe.dialects.xetile", "XeTile"),
    "xegpu": ("triton_xe.dialects.xegpu", "XeGPU"),
}
_SHARED = {
    "builtin": ("xdsl.dialects.builtin", "Builtin"),
    "arith": ("triton_xe.dialects.arith_ext", "Arith"),
    "cf": ("xdsl.dialects.cf", "Cf"),
    "func": ("xdsl.dialects.func", "Func"),
    "gpu": ("triton_xe.dialects.gpu_ext", "GPU"),
    "llvm": ("triton_xe.dialects.llvm_ext", "LLVM"),
    "math": ("triton_xe.dialects.math_ext", "Math"),
    "memref": ("xdsl.dialects.memref", "MemRef"),
    "scf": ("xdsl.dialects.scf", "Scf"),
    "ub": ("xdsl.dialects.ub", "UB"),
    "vector": ("triton_xe.dialects.vector_ext", "Vector"),
}


def _loader(module: str, name: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        dialect = getattr(import_module(module), name)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


OWN_DIALECTS = {name: _loader(*where) for name, where in _OWN_DIALECTS.items()}


def context() -> Context:
    """Return a context with all dialects; each is imported when the text first names it."""
    ctx = Context()
    for name, where in (_SHARED | _OWN_DIALECTS).items():
        ctx.register_dialect(name, _loader(*where))
    return ctx
