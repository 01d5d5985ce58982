"""Functions of the module that are written as LLVM text.

Divergent control flow, and instructions that llvmlite cannot build, live in small internal
functions.  One whose name starts with `__xe_lane_` runs on its own in each lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from triton_xe.lowering.emit.emitter import Emitter

LANE = "__xe_lane_"


class TextFunction(ir.Function):
    """A function whose definition is given as text."""

    def __init__(
        self, module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type], body: str
    ) -> None:
        super().__init__(module, ir.FunctionType(result, arguments), name)
        self.calling_convention = "spir_func"
        self._body = body

    def __str__(self) -> str:
        kinds = ", ".join(f"{a.type} %a{i}" for i, a in enumerate(self.args))
        result = self.ftype.return_type
        return (
            f"define internal spir_func {result} @{self.name}({kinds}) alwaysinline\n"
            f"{{\n{self._body}}}\n"
        )


def call_text(
    em: Emitter, name: str, result: ir.Type, arguments: Sequence[ir.Value], body: str
) -> ir.Value:
    """Call the function `name`, written from `body` when it is called first.

    The arguments are %a0, %a1 ... in the body.  Equal names must mean equal bodies.
    """
    if name not in em.state.llvm.globals:
        TextFunction(em.state.llvm, name, result, [a.type for a in arguments], body)
    called = em.b.call(em.state.llvm.globals[name], arguments)
    called.cconv = "spir_func"
    return called


__all__ = ["LANE", "TextFunction", "call_text"]
