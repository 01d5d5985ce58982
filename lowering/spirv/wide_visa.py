"""vISA for the functions of 32-bit elements (`triton_xe.lowering.emit.maths.wide`).

Four elements are in four consecutive registers of 64 bytes; an instruction takes two registers.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_xe.lowering.spirv import scans_visa
from triton_xe.lowering.spirv.visa import function
from triton_xe.spirv import AFTER, INITIAL, PREVIOUS, PRODUCT, RUN, SCALES, SCAN, WIDE

_DECLARED = """.decl F v_type=G type=F num_elts=64 alias=<$0,0>
.decl U v_type=G type=UD num_elts=64 alias=<$0,0>
"""
_GIVEN = ".decl X v_type=G type=F num_elts=64 alias=<$1,0>\n"
_HALVES = """.decl W v_type=G type=UW num_elts=128 alias=<$1,0>
.decl T v_type=G type=UW num_elts=64 align=GRF
.decl H v_type=G type=HF num_elts=64 alias=<T,0>
"""
_PACKED = """.decl R v_type=G type=HF num_elts=128 alias=<$0,0>
.decl X v_type=G type=F num_elts=64 alias=<$1,0>
.decl Y v_type=G type=F num_elts=64 alias=<$2,0>
"""
LOG2_E = 0x3fb8aa3b
_OF_ONE: dict[str, tuple[str, ...]] = {
    "exp2": ("exp (M1_NM, 32) F({r},0)<1> X({r},0)<1;1,0>",),
    "exp": (f"mul (M1_NM, 32) F({{r}},0)<1> X({{r}},0)<1;1,0> {LOG2_E:#x}:f",
            "exp (M1_NM, 32) F({r},0)<1> F({r},0)<1;1,0>"),
    "tf32": ("fcvt (M1_NM, 32) U({r},0)<1> X({r},0)<1;1,0>",),
}
_WIDENED = "mov (M1_NM, 32) F({r},0)<1> H({half},0)<1;1,0>"
_SHARED = ".decl Y v_type=G type=F num_elts=1 alias=<$2,0>\n"
_BY_ONE = {"less": ("add", "(-)"), "times": ("mul", "")}
"""The instruction on each element and one number, and the sign of that."""
_OF_PAIRS = {
    "low": ("mov (M1_NM, 32) T({half},0)<1> W({r},0)<2;1,0>", _WIDENED),
    "high": ("mov (M1_NM, 32) T({half},0)<1> W({r},1)<2;1,0>", _WIDENED),
}
_WORDS = ".decl D v_type=G type=UD num_elts=64 alias=<$1,0>\n"
_OF_WORDS = {
    "bf16_low": ("shl (M1_NM, 32) U({r},0)<1> D({r},0)<1;1,0> 0x10:uw",),
    "bf16_high": ("and (M1_NM, 32) U({r},0)<1> D({r},0)<1;1,0> 0xffff0000:ud",),
}
_BYTES_GIVEN = """.decl S v_type=G type=D num_elts=256 alias=<$0,0>
.decl B v_type=G type={kind} num_elts=256 alias=<$1,0>
"""
_OF_BYTES = {"signed_bytes": "B", "unsigned_bytes": "UB"}
_FROM_BYTES = "mov (M1_NM, 32) S({into},0)<1> B({r},{byte})<4;1,0>\n"
_PACKED_BYTES = """.decl R v_type=G type=B num_elts=256 alias=<$0,0>
.decl X v_type=G type=B num_elts=1024 alias=<$1,0>
"""
_TO_BYTES = tuple(f"mov (M1_NM, 32) R({r},{byte})<4> X({4 * byte + r},0)<4;1,0>"
                  for byte in range(4) for r in (0, 2))
_TO_PAIRS = ("mov (M1_NM, 32) R({r},0)<2> X({r},0)<1;1,0>",
             "mov (M1_NM, 32) R({r},1)<2> Y({r},0)<1;1,0>")
_ROUNDED = """.decl T v_type=G type=UW num_elts=64 align=GRF
.decl B v_type=G type=BF num_elts=64 alias=<T,0>
"""
_TO_BF16 = ("mov (M1_NM, 32) B({half},0)<1> X({r},0)<1;1,0>",
            "shl (M1_NM, 32) U({r},0)<1> T({half},0)<1;1,0> 0x10:uw")
_APART = """.decl D v_type=G type=UW num_elts=128 alias=<$0,0>
.decl W v_type=G type=UW num_elts=128 alias=<$1,0>
"""
_HALF = "mov (M1_NM, 32) D({into},0)<1> W({r},{half})<2;1,0>"
_WORDS_GIVEN = ("low", "high", "bf16_low", "bf16_high", "rows")
_TYPES = dict.fromkeys(_WORDS_GIVEN, ("i32",)) | {
    "pack": ("float", "float"), "bytes": ("i64",)}
_APART_IN_BYTES = """.decl D v_type=G type=UB num_elts=256 alias=<$0,0>
.decl W v_type=G type=UW num_elts=128 alias=<$1,0>
.decl T v_type=G type=UW num_elts=256 align=GRF
.decl B v_type=G type=UB num_elts=512 alias=<T,0>
"""
_SPREAD = "mov (M1_NM, 16) T({into},0)<2> W({r},{word})<4;1,0>"
"""A word of each lane's four, one in a dword: of more IGC spreads bytes by one instruction each."""
_BYTE = "mov (M1_NM, 32) D({into},{start})<1> B({r},{byte})<{size};1,0>"
_OF_WORDS_OF_BYTES = """.decl D v_type=G type=UB num_elts=256 alias=<$0,0>
.decl B v_type=G type=UB num_elts={size} alias=<$1,0>
"""
FILL = "fill_"
_PRODUCT_VISA = """.decl D v_type=G type={kind} num_elts=128 alias=<$0,0>
.decl A v_type=G type=UD num_elts=64 alias=<$2,0>
.decl B v_type=G type=UD num_elts=128 alias=<$3,0>
.decl S v_type=G type=UB num_elts=256 alias=<$4,0>
.decl T v_type=G type=UB num_elts=256 alias=<$5,0>
bdpas.{b}.{a}.8.8 (M1, 16) D.0 D.0 B.0 A.0 T({t},{column}) S({s},{row})
"""
_VISA_TYPES: Mapping[str, str] = {
    "float": "F", "half": "HF", "i16": "BF", "f16": "hf", "bf16": "bf"}
_KINDS = {"float": "<4 x float>", "i32": "<4 x i32>", "i16": "<8 x i16>", "i8": "<16 x i8>",
          "i64": "<2 x i64>"}


_SCANS = {SCAN: scans_visa.definition, RUN: scans_visa.run_definition,
          AFTER: scans_visa.after_definition, PREVIOUS: scans_visa.previous_definition}
"""Prefixes of functions of scans, and what defines those."""


def definition(symbol: str) -> str:
    """The definition of a function; its name says which it is."""
    name, kind = symbol.removeprefix(WIDE).split(".")
    for prefix, define in _SCANS.items():
        if name.startswith(prefix):
            return define(symbol)
    if name.startswith(INITIAL):
        bits, length = name.removeprefix(INITIAL).split("_")
        return function(symbol, f"<{length} x {kind}>", [], _filled(bits, int(length)))
    if name.startswith(PRODUCT):
        sums = f"<8 x {kind}>"
        types = (sums, "<8 x i16>", "<8 x i32>", "<16 x i8>", "<16 x i8>")
        return function(symbol, sums, types, _product(name, kind))
    if name.startswith(SCALES):
        count, size = _words_of(name)
        return function(symbol, _KINDS[kind], [f"<{count} x i{8 * size}>"], body_of(name))
    if name in _OF_BYTES:
        return function(symbol, f"<16 x {kind}>", ["<4 x i32>"], body_of(name))
    if name == "pack_bytes":
        return function(symbol, _KINDS[kind], ["<16 x i32>"], body_of(name))
    if name in _BY_ONE:
        return function(symbol, _KINDS[kind], (_KINDS[kind], kind), body_of(name), shared=(1,))
    given = () if name.startswith(FILL) else _TYPES.get(name, ("float",))
    return function(symbol, _KINDS[kind], [_KINDS[k] for k in given], body_of(name))


def _words_of(name: str) -> tuple[int, int]:
    """The number of words of which a function arranges the bytes, and the bytes of one."""
    count, size = name.removeprefix(SCALES).split("x")
    return int(count), int(size)


def _filled(bits: str, count: int) -> str:
    """The vISA that fills `count` registers with a number."""
    return f".decl U v_type=G type=UD num_elts={16 * count} alias=<$0,0>\n" + "".join(
        f"mov (M1_NM, 32) U({r},0)<1> 0x{bits}:ud\n" for r in range(0, count, 2))


def _product(name: str, kind: str) -> str:
    """The vISA of a product; the sums are in the registers of the result."""
    names = ("a", "b", "s", "row", "t", "column")
    parts = [_VISA_TYPES.get(each, each) for each in name.removeprefix(PRODUCT).split("_")]
    return _PRODUCT_VISA.format(kind=_VISA_TYPES[kind], **dict(zip(names, parts, strict=True)))


def body_of(name: str) -> str:
    """The vISA of a function."""
    lines: tuple[str, ...]
    if name in _OF_BYTES:
        return _BYTES_GIVEN.format(kind=_OF_BYTES[name]) + "".join(
            _FROM_BYTES.format(into=4 * byte + r, r=r, byte=byte)
            for byte in range(4) for r in (0, 2))
    if name == "pack_bytes":
        return _PACKED_BYTES + "".join(f"{line}\n" for line in _TO_BYTES)
    if name == "rows":
        return _APART + "".join(
            _HALF.format(into=r + half, r=r, half=half)
            + "\n" for half in (0, 1) for r in (0, 2))
    if name == "bytes":
        spread = [_SPREAD.format(into=2 * word + e, r=2 * e, word=word)
                  for word in range(4) for e in (0, 1)]
        apart = [_BYTE.format(
            into=row // 2, start=row % 2 * 32, r=row // 2 * 2, byte=row % 2, size=4)
            for row in range(8)]
        return _APART_IN_BYTES + "".join(f"{line}\n" for line in (*spread, *apart))
    if name.startswith(SCALES):
        count, size = _words_of(name)
        return _OF_WORDS_OF_BYTES.format(size=16 * size * count) + "".join(
            _BYTE.format(into=byte // 2 * 2 + pair, start=byte % 2 * 32, r=pair * size // 2,
                         byte=byte, size=size) + "\n"
            for byte in range(size) for pair in range(count // 2))
    if name.startswith(FILL):
        declared, lines = "", (f"mov (M1_NM, 32) U({{r}},0)<1> 0x{name[len(FILL):]}:ud",)
    elif name in _BY_ONE:
        opcode, sign = _BY_ONE[name]
        declared = _GIVEN + _SHARED
        lines = (f"{opcode} (M1_NM, 32) F({{r}},0)<1> X({{r}},0)<1;1,0> {sign}Y(0,0)<0;1,0>",)
    elif name == "pack":
        declared, lines = _PACKED, _TO_PAIRS
    elif name == "bf16":
        declared, lines = _GIVEN + _ROUNDED, _TO_BF16
    elif name in _OF_WORDS:
        declared, lines = _WORDS, _OF_WORDS[name]
    elif name in _OF_PAIRS:
        declared, lines = _HALVES, _OF_PAIRS[name]
    else:
        declared, lines = _GIVEN, _OF_ONE[name]
    return _DECLARED + declared + "".join(
        f"{line.format(r=r, half=r // 2)}\n" for line in lines for r in (0, 2))
