"""Lowering of tl.inline_asm_elementwise: vISA text (SPV_INTEL_inline_assembly), element by element.

The constraints are those of the Intel Graphics Compiler, `=rw,rw` for one register each.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import ElementwiseInlineAsmOp
from triton_xe.errors import UnsupportedError
from triton_xe.llvm.records import escaped
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.types import scalar_type

_LANGUAGES = {"r f l h d q b": "PTX, NVIDIA's assembly", "v s": "AMD's assembly"}
"""By the constraints that only they have."""


def _check_language(constraints: str) -> None:
    """Refuse assembly of another vendor, which the driver would take for vISA and choke on."""
    codes = {code.strip().lstrip("=&+") for code in constraints.split(",")}
    for letters, language in _LANGUAGES.items():
        if codes & set(letters.split()):
            raise UnsupportedError(
                f"tl.inline_asm_elementwise: constraints {constraints!r} are those of {language}; "
                "no Intel GPU runs that. Write it with Triton's operations, at least where "
                "triton.language.target_info.is_cuda() is false; vISA takes '=rw,rw'"
            )


@lowers(ElementwiseInlineAsmOp)
def lower_inline_assembly(em: Emitter, op: ElementwiseInlineAsmOp) -> None:
    text, constraints = op.asm_string.data, op.constraints.data
    _check_language(constraints)
    packed = int(op.packed_element.value.data)
    if packed != 1:
        raise UnsupportedError(
            f"tl.inline_asm_elementwise with pack={packed}: vISA text works on whole subgroups, "
            "so give one element at a time (pack=1)"
        )
    if len(op.res) != 1:
        raise UnsupportedError(
            f"tl.inline_asm_elementwise with {len(op.res)} results: inline assembly has one "
            "result in SPIR-V as LLVM writes it; write the text once for each result"
        )
    (result,) = op.res
    returned = scalar_type(result.type)
    pure = bool(op.pure.value.data)
    effect = "" if pure else "sideeffect "
    assembly = f'{effect}"{escaped(text)}" , "{constraints}"'

    def write(values: list[ir.Operand]) -> ir.Operand:
        return em.b.emit(ir.Instruction(
            "call", returned, values, callee=ir.ASSEMBLY, extra=assembly))

    if not isinstance(result.type, TensorType):
        em.bind(result, write([em.scalar(v) for v in op.arguments]))
        return
    sources = [em.registers(v) for v in op.arguments]
    made = [write([s.register(em, r) for s in sources])
            for r in range(len(em.view(result).registers))]
    em.bind(result, from_scalars(em, returned, made))
