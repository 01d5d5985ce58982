"""Write vISA for functions on pairs of fp16 (`triton_xe.lowering.emit.maths.pairs`).

Four registers of 64 bytes have 128 fp16 values, two in each dword of a lane.  "One" operand has 32
values, which are used four times.  Integers are converted by their bits: 0x6400 | n is 1024 + n.

| function | arguments | result |
|---|---|---|
| add, sub, mul | four dwords; four or one | of each fp16 value |
| both | one dword each | of each fp16 value: sum, difference, product, minimum, a * b + c |
| plus | four dwords | each plus a constant, which is in the name |
| plus, less, from | four dwords; twice four or one | a * b + c, a * b - c, c - a * b |
| fp8 | four dwords | two dwords with the 8-bit floats of all values |
| bits | eight words; their rotation | 1024 + the last bits of each word |
| rows | words of eight rows in lanes; their rotation | like bits |
| in_order | words; their shifts to the right | like rows |
| in_turns | words; shifts; lane 0: mask of the last bits, lane 1: 0x6400 | like rows |
| nibbles | a word | 1024 + each of its eight nibbles |
"""

from __future__ import annotations

FOUR, ONE = "<4 x i32>", "i32"
_MOVED = (".decl T v_type=G type=UD num_elts=64 align=GRF",
          ".decl V v_type=G type=UW num_elts=128 alias=<T,0>")


def arguments_of(name: str) -> tuple[str, ...]:
    """Types of the arguments of the function `name`."""
    kind, _, how = name.partition(".")
    if kind in ("both", "zip"):
        return (ONE,) * (3 if how == "plus" else 2)
    if how.count("_") == 2:
        return FOUR, *(ONE if given == "one" else FOUR for given in how.split("_")[1:])
    if kind in ("in_order", "in_turns"):
        return (ONE, ONE) if kind == "in_order" else (ONE, ONE, ONE)
    if kind in ("bits", "rows"):
        return (FOUR, FOUR, FOUR) if kind == "bits" else (ONE, FOUR)
    if kind in ("plus", "fp8"):
        return (FOUR,)
    if kind == "nibbles":
        return (ONE,)
    return FOUR, ONE if how == "by_one" else FOUR


def result_of(name: str) -> str:
    """Type of the result of the function `name`."""
    kind = name.partition(".")[0]
    return "<2 x i32>" if kind in ("zip", "fp8") else ONE if kind == "both" else FOUR


def body_of(name: str) -> str:
    """Write the vISA of the function `name`."""
    kind, _, how = name.partition(".")
    if how.count("_") == 2:
        return "\n".join(_fused(kind, *how.split("_")[1:])) + "\n"
    lines = {"bits": _bits, "rows": _bits, "plus": _plus, "nibbles": _nibbles,
             "both": _both, "zip": _zip, "fp8": _fp8,
             "in_order": _in_order, "in_turns": _in_turns}.get(
        kind, _arithmetic)(kind, how)
    return "\n".join(lines) + "\n"


def _alias(name: str, kind: str, count: int, number: int) -> str:
    return f".decl {name} v_type=G type={kind} num_elts={count} alias=<${number},0>"


_HALVES = ".decl H v_type=G type=HF num_elts=128 alias=<$0,0>"
_WORDS = ".decl U v_type=G type=UW num_elts=128 alias=<$0,0>"


def _arithmetic(kind: str, how: str) -> list[str]:
    """Body of an operation on 128 values."""
    one = how == "by_one"
    sign, opcode = ("(-)", "add") if kind == "sub" else ("", kind)
    return [
        _HALVES, _alias("A", "HF", 128, 1), _alias("B", "HF", 32 if one else 128, 2),
        *(f"{opcode} (M1_NM, 32) H({r},0)<1> A({r},0)<1;1,0> {sign}B({0 if one else r},0)<1;1,0>"
          for r in range(4))]


def _fused(kind: str, second: str, third: str) -> list[str]:
    """Body of a multiply-add of 128 values."""
    first, last = {"less": ("", "(-)"), "from": ("(-)", "")}.get(kind, ("", ""))
    sizes = [32 if given == "one" else 128 for given in (second, third)]
    steps = [size // 128 for size in sizes]
    return [
        _HALVES, _alias("A", "HF", 128, 1),
        *(_alias(name, "HF", size, n) for name, size, n in zip("BC", sizes, (2, 3), strict=True)),
        *(f"mad (M1_NM, 32) H({r},0)<1> {first}A({r},0)<1;1,0>"
          f" B({r * steps[0]},0)<1;1,0> {last}C({r * steps[1]},0)<1;1,0>" for r in range(4))]


def _plus(kind: str, how: str) -> list[str]:
    return [_HALVES, _alias("A", "HF", 128, 1),
            *(f"add (M1_NM, 32) H({r},0)<1> A({r},0)<1;1,0> 0x{how}:hf" for r in range(4))]


def _both(kind: str, how: str) -> list[str]:
    """Body of an operation on the values of one register."""
    given = ["A", "(-)B" if how == "sub" else "B", "C"][: 3 if how == "plus" else 2]
    opcode = {"plus": "mad", "sub": "add"}.get(how, how)
    operands = " ".join(f"{name}(0,0)<1;1,0>" for name in given)
    return [_alias("H", "HF", 32, 0), *(_alias(name, "HF", 32, n) for n, name in enumerate("ABC"[
            : len(given)], 1)), f"{opcode} (M1_NM, 32) H(0,0)<1> {operands}"]


def _zip(kind: str, how: str) -> list[str]:
    """Join the lower halves of two dwords, and their upper halves."""
    return [_alias("U", "UW", 64, 0), _alias("A", "UW", 32, 1), _alias("B", "UW", 32, 2),
            *(f"mov (M1_NM, 32) U(0,{n})<2> {name}(0,0)<1;16,2>" for n, name in enumerate("AB"))]


def _fp8(kind: str, how: str) -> list[str]:
    """Round fp16 to 8-bit floats, and pack the bytes."""
    lines = [_alias("R", "UB", 128, 0), _alias("A", "HF", 128, 1), _alias("B", "UW", 128, 1),
             ".decl T v_type=G type=UW num_elts=32 align=GRF",
             ".decl H v_type=G type=HF num_elts=32 alias=<T,0>",
             ".decl V v_type=G type=UB num_elts=64 alias=<T,0>",
             ".decl S v_type=G type=UW num_elts=32 align=GRF",
             ".decl F v_type=G type=HF num_elts=32 alias=<S,0>",
             ".decl U v_type=G type=UW num_elts=32 align=GRF",
             ".decl P v_type=P num_elts=32", ".decl Q v_type=P num_elts=32"]
    rounded, byte = (_upper, 1) if how == "f8E5M2" else (_rebiased, 0)
    for r in range(4):
        lines += [f"cmp.ne (M1_NM, 32) P A({r},0)<1;1,0> A({r},0)<1;1,0>", *rounded(r),
                  *(f"mov (M1_NM, 16) R({r // 2},{2 * (r % 2) + k})<4> V(0,{2 * k + byte})<4;1,0>"
                    for k in (0, 1))]
    return lines


def _upper(r: int) -> list[str]:
    """fp8e5 is the upper byte: add half of its last unit, minus one if its last bit is 0.

    Limits keep the sum from the exponent of infinity.  The other bits of NaN are set.
    """
    return [f"min (M1_NM, 32) H(0,0)<1> A({r},0)<1;1,0> 0x7b00:hf",
            "max (M1_NM, 32) H(0,0)<1> H(0,0)<1;1,0> 0xfb00:hf",
            "shr (M1_NM, 32) S(0,0)<1> T(0,0)<1;1,0> 0x8:uw",
            "and (M1_NM, 32) S(0,0)<1> S(0,0)<1;1,0> 0x1:uw",
            "add3 (M1_NM, 32) T(0,0)<1> T(0,0)<1;1,0> S(0,0)<1;1,0> 0x7f:uw",
            f"(P) or (M1_NM, 32) T(0,0)<1> B({r},0)<1;1,0> 0x7f00:uw"]


def _rebiased(r: int) -> list[str]:
    """fp8e4nv has 7 bits less than fp16, and an exponent that is less by 8.

    Below 2^-6 it counts in units of 2^-9, like fp16 from 2 on.  The sign comes last.
    """
    return [f"and (M1_NM, 32) T(0,0)<1> B({r},0)<1;1,0> 0x7fff:uw",
            "min (M1_NM, 32) H(0,0)<1> H(0,0)<1;1,0> 0x5f00:hf",
            "cmp.lt (M1_NM, 32) Q H(0,0)<1;1,0> 0x2400:hf",
            "add (M1_NM, 32) F(0,0)<1> H(0,0)<1;1,0> 0x4000:hf",
            "shr (M1_NM, 32) U(0,0)<1> T(0,0)<1;1,0> 0x7:uw",
            "and (M1_NM, 32) U(0,0)<1> U(0,0)<1;1,0> 0x1:uw",
            "add3 (M1_NM, 32) T(0,0)<1> T(0,0)<1;1,0> U(0,0)<1;1,0> 0xe03f:uw",
            "shr (M1_NM, 32) T(0,0)<1> T(0,0)<1;1,0> 0x7:uw",
            "(Q) add (M1_NM, 32) T(0,0)<1> S(0,0)<1;1,0> 0xc000:uw",
            "(P) mov (M1_NM, 32) T(0,0)<1> 0x7f:uw",
            f"shr (M1_NM, 32) S(0,0)<1> B({r},0)<1;1,0> 0x8:uw",
            "bfn.xf8 (M1_NM, 32) T(0,0)<1> 0x80:uw S(0,0)<1;1,0> T(0,0)<1;1,0>"]


def _masked(r: int, bits: int, source: str) -> str:
    """Instruction that converts the last bits of words to fp16: `bfn.xf8` is a & b | c."""
    mask = (1 << bits) - 1
    return f"bfn.xf8 (M1_NM, 32) U({r},0)<1> 0x{mask:x}:uw {source}<1;1,0> 0x6400:uw"


def _bits(kind: str, how: str) -> list[str]:
    """Convert two words at a time; the bits of the second move to the upper half.

    In `rows`, lane 2 * k + n has row k of columns 8 * n to 8 * n + 7.
    """
    given = [("A", 64), ("B", 64), ("S", 64)] if kind == "bits" else [("A", 16), ("S", 64)]
    lines = [_WORDS, *(_alias(name, "UD", count, i + 1) for i, (name, count) in enumerate(given)),
             ".decl T v_type=G type=UD num_elts=128 align=GRF",
             ".decl V v_type=G type=UW num_elts=256 alias=<T,0>"]
    for r in range(4):
        source = f"A(0,{4 * r})<1;8,0>" if kind == "rows" else (
            f"{'AB'[r // 2]}({2 * r % 4},0)<1;1,0>")
        lines += [
            f"ror (M1_NM, 32) T({2 * r},0)<1> {source} S(0,0)<1;1,0>",
            f"mov (M1_NM, 16) V({2 * r},1)<2> V({2 * r + 1},1)<2;1,0>",
            _masked(r, int(how), f"V({2 * r},0)")]
    return lines


def _in_order(kind: str, how: str) -> list[str]:
    """Like `rows`, but lanes 0 to 3 of 8 have bit fields of the lower half, 4 to 7 of the upper.

    The halves of two rows are combined, so that one move extracts both fields of a lane.  The
    distance is equal for the upper and the lower halves.
    """
    lines = [_WORDS, _alias("A", "UW", 32, 1), _alias("S", "UD", 16, 2),
             ".decl D v_type=G type=UW num_elts=32 align=GRF",
             ".decl E v_type=G type=UD num_elts=16 alias=<D,0>", *_MOVED]
    lines += [f"mov (M1_NM, 16) D(0,{p})<2> A(0,{4 * p})<8;4,1>" for p in (0, 1)]
    lines += [f"shr (M1_NM, 32) T({r},0)<1> E(0,{4 * r})<1;4,0> S(0,0)<0;4,1>" for r in (0, 2)]
    return lines + [_masked(r, int(how), f"V({r},0)") for r in range(4)]


def _in_turns(kind: str, how: str) -> list[str]:
    """Like `rows`, but even lanes have bit fields of the lower half, odd lanes of the upper.

    The halves of two rows are combined; those of even lanes are moved to every other position, then
    those of odd lanes.
    """
    lines = [_WORDS, ".decl R v_type=G type=UD num_elts=64 alias=<$0,0>",
             _alias("A", "UW", 32, 1), _alias("S", "UD", 16, 2), _alias("K", "UD", 16, 3),
             ".decl D v_type=G type=UW num_elts=32 align=GRF",
             ".decl E v_type=G type=UD num_elts=16 alias=<D,0>",
             ".decl T v_type=G type=UD num_elts=64 align=GRF"]
    lines += [f"mov (M1_NM, 16) D(0,{p})<2> A(0,{4 * p})<8;4,1>" for p in (0, 1)]
    lines += [f"shr (M1_NM, 32) T({2 * h},0)<1> E(0,{h})<2;4,0> S(0,0)<0;4,2>" for h in (0, 1)]
    return lines + [
        f"bfn.xf8 (M1_NM, 16) R({2 * r},{h})<2> T({2 * h + r},0)<1;1,0> K(0,0)<0;1,0> K(0,1)<0;1,0>"
        for r in (0, 1) for h in (0, 1)]


def _nibbles(kind: str, how: str) -> list[str]:
    """Unpack the two nibbles of a byte b to adjacent words: b and b << 12, then masked."""
    lines = [_WORDS, ".decl D v_type=G type=UD num_elts=64 alias=<$0,0>",
             _alias("B", "UB", 64, 1)]
    for r in range(4):
        lines += [f"mul (M1_NM, 16) D({r},0)<1> B(0,{r})<4;1,0> 0x1001:uw",
                  _masked(r, 4, f"U({r},0)")]
    return lines
