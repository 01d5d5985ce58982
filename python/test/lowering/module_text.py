"""Small ttgir modules for tests of the passes: layouts by name, one function, values by name."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from triton_xe.lowering.facts.affine import Iteration, LastIteration, Misalignment, Remainder
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.import_ttgir import import_ttgir

LAYOUTS = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16],
                         warpsPerCTA = [4, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
"""


def attributes(*, warps: int = 4) -> str:
    """The attributes of a ttgir module for bmg, with `module` before them."""
    return (f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
            'ttg.target = "xpu:bmg", "ttg.threads-per-warp" = 16 : i32}')


def module_of(body: str, arguments: str = "") -> ModuleOp:
    """A module with one function, `body` being its operations without the return."""
    return import_ttgir(
        f"{LAYOUTS}\n{attributes()} {{\n"
        f"tt.func public @f({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"
    )


def named(module: ModuleOp, name: str) -> SSAValue:
    """The value that the text calls `%name`."""
    for op in module.walk():
        values = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
        for value in values:
            if value.name_hint == name:
                return value
    raise AssertionError(f"no value %{name}")


def operation(module: ModuleOp, name: str) -> Operation:
    """The only operation of that name."""
    (found,) = [op for op in module.walk() if op.name == name]
    return found


def poly_text(poly: Poly) -> str:
    """A polynomial with the names of its values, terms in alphabetical order."""
    terms = []
    for monomial, coefficient in poly.terms.items():
        factors = sorted(_symbol_text(s) for s in monomial)
        scale = [] if coefficient == 1 and factors else [str(coefficient)]
        terms.append("*".join(scale + factors))
    return " + ".join(sorted(terms)) or "0"


def _symbol_text(symbol: object) -> str:
    if isinstance(symbol, SSAValue):
        return str(symbol.name_hint)
    if isinstance(symbol, Remainder):
        return f"({poly_text(symbol.value)} % {poly_text(symbol.modulus)})"
    if isinstance(symbol, Iteration):
        return "iteration"
    if isinstance(symbol, Misalignment):
        return f"({symbol.base.name_hint} % 64)"
    assert isinstance(symbol, LastIteration)
    return "last"
