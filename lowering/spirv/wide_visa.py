"""vISA for the functions of 32-bit elements (`triton_xe.lowering.emit.maths.wide`).

Four elements lie in four registers of 64 bytes, one behind the other; an instruction takes two.
"""

from __future__ import annotations

from triton_xe.lowering.spirv.visa import function
from triton_xe.spirv import WIDE

_DECLARED = """.decl F v_type=G type=F num_elts=64 alias=<$0,0>
.decl U v_type=G type=UD num_elts=64 alias=<$0,0>
"""
_GIVEN = ".decl X v_type=G type=F num_elts=64 alias=<$1,0>\n"
LOG2_E = 0x3fb8aa3b
_OF_ONE = {
    "exp2": ("exp (M1_NM, 32) F({r},0)<1> X({r},0)<1;1,0>",),
    "exp": (f"mul (M1_NM, 32) F({{r}},0)<1> X({{r}},0)<1;1,0> {LOG2_E:#x}:f",
            "exp (M1_NM, 32) F({r},0)<1> F({r},0)<1;1,0>"),
    "tf32": ("fcvt (M1_NM, 32) U({r},0)<1> X({r},0)<1;1,0>",),
}
FILL = "fill_"
_KINDS = {"float": "<4 x float>", "i32": "<4 x i32>"}


def definition(symbol: str) -> str:
    """The definition of a function; its name says which it is."""
    name, kind = symbol.removeprefix(WIDE).split(".")
    given = [] if name.startswith(FILL) else [_KINDS["float"]]
    return function(symbol, _KINDS[kind], given, body_of(name))


def body_of(name: str) -> str:
    """The vISA of a function."""
    if name.startswith(FILL):
        declared, lines = _DECLARED, (f"mov (M1_NM, 32) U({{r}},0)<1> 0x{name[len(FILL):]}:ud",)
    else:
        declared, lines = _DECLARED + _GIVEN, _OF_ONE[name]
    return declared + "".join(f"{line.format(r=r)}\n" for line in lines for r in (0, 2))
