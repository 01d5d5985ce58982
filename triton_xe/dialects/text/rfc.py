"""Read XeTile and XeGPU as the RFCs write them.

The RFCs' examples are fragments: they use undefined values and attributes, types lack their `!`,
and spellings vary.  `normalized` rewrites such text to this project's syntax, as one function
around the ops.  Its arguments are the values that the fragment uses but does not define:

>>> print(normalized("%r = XeGPU.load_nd %t : tensor_desc<8x16xbf16> into vector<8x16xbf16>").text)
func.func @example(%t: !xegpu.tensor_desc<8x16xbf16>) { \
%r = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>
func.return }
<BLANKLINE>

If the text has functions, only their statements of XeTile and XeGPU and the types are rewritten.
Every statement stays in its line.  The rewrites are listed in the docstrings of
`triton_xe.dialects.xegpu` and `.xetile`, under "Spelling" and "Operands".  In a fragment, a value
that is used with another type than that of its definition becomes a new argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from triton_xe.errors import UnsupportedError


@dataclass(frozen=True)
class Statement:
    """One op of the text: `result = op operands {entries} : types -> result_type`."""

    op: str
    result: str | None = None
    kind: str | None = None
    operands: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    result_type: str | None = None


@dataclass(frozen=True)
class Normalized:
    """Text in this project's syntax, and by line what was rewritten."""

    text: str
    notes: tuple[str, ...] = ()


_COMMENT = re.compile(r"//.*|\(default\)")
_NOTATION = re.compile(
    r"\bXe(?:GPU|Gpu|Tile)\.\w|(?<![!\w.])(?:tensor_desc|tile)<|=\s*!?xegpu\.(?:sg_map|tdesc_attr)<"
)
_FUNCTION = re.compile(r"\bfunc\b")
_RFC_OP = re.compile(r"(?:%\w+\s*=\s*)?[xX]e(?:GPU|Gpu|gpu|Tile|tile)\.\w+")


def is_rfc_notation(text: str) -> bool:
    """True if a text has names or types that only the RFCs use."""
    return _NOTATION.search(_COMMENT.sub("", text)) is not None


def normalized(
    text: str, name: str = "", aliases: Mapping[str, str] | None = None
) -> Normalized:
    """Rewrite a text to this project's syntax; `aliases` defines attributes such as
    "tdesc_attr".
    """
    known = {"scattered": "#xegpu.scattered", "Scattered": "#xegpu.scattered", **(aliases or {})}
    whole = _FUNCTION.search(_COMMENT.sub("", text)) is not None
    writer: _Writer = _InPlace() if whole else _Writer()
    lines: dict[int, str] = {}
    notes: list[str] = []
    for number, piece in _pieces(text):
        at = f"{name}:{number}:1: " if name else ""
        try:
            made = _rewritten(piece, known, writer)
        except UnsupportedError as error:
            raise UnsupportedError(f"{at}{error}") from error
        except (IndexError, ValueError) as error:
            raise UnsupportedError(f"{at}operands or types are missing: {piece}") from error
        lines[number] = made
        if "".join(made.split()) != "".join(piece.split()):
            notes.append(f"line {number}: {piece} -> {made or 'used where it is named'}")
    body = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    return Normalized(f"{writer.head()}{body}\n{writer.tail()}", tuple(notes))


def _rewritten(piece: str, known: dict[str, str], writer: _Writer) -> str:
    alias = re.match(r"#(\w+)\s*=\s*(.*)", piece, re.DOTALL)
    if alias and "xegpu." in alias[2]:
        known[alias[1]] = _attribute(alias[2])
        return ""
    if isinstance(writer, _InPlace) and not _RFC_OP.match(piece):
        return _types_in(piece)
    statements = _fix(_parse(_substitute(piece, known), writer.member))
    return " ".join(writer.statement(statement) for statement in statements)


def _types_in(piece: str) -> str:
    """Rewrite the types in text that is not an op of the dialects."""
    for pattern, replacement in _ELEMENTS[-3:]:
        piece = re.sub(pattern, replacement, piece)
    return re.sub(r"\buint_?(\d+)\b", r"ui\1", piece)


_START = re.compile(
    r"(%\w+(:\d+)?\s*=|#\w+\s*=|[A-Za-z]\w*\.\w+\b|\}|\^|module\b|func\b|return\b|\")"
)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The statements of the text with the number of their first line, comments removed."""
    piece, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        line = _COMMENT.sub("", line).strip()
        if _START.match(line):
            if piece:
                yield first, piece
            piece, first = line, number
        elif line:
            piece, first = f"{piece} {line}".lstrip(), first or number
    if piece:
        yield first, piece


def _attribute(text: str) -> str:
    """Rewrite `!xegpu.tdesc_attr< memory_scope=slm>` and `xegpu.sg_map<...>` to attributes."""
    text = re.sub(r"\s*=\s*", " = ", text.strip().lstrip("!#"))
    return "#" + re.sub(r"<\s+", "<", text)


def _substitute(piece: str, known: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in known:
            raise UnsupportedError(
                f"the text names #{name} but does not define it; write #{name} = #xegpu... above"
            )
        return known[name]

    return re.sub(r"(?<!\w)#([A-Za-z_]\w*)(?![\w.<])", value, piece)


_TYPE = re.compile(
    r"(?<![%\w.])!?(memref|tile|tensor_desc|[vV]ector|XeGPU\.nbarrier|nbarrier|index|"
    r"(?:u?int_?|[usi]?i)\d+|Uint8_t|any)(?![\w.])"
)


def _parse(piece: str, member: str) -> Statement:
    """Parse a statement; `member` joins the name of several values and the number of one."""
    head = re.match(r"(?:(%\w+)\s*=\s*)?(\w+\.\w+)(.*)", piece, re.DOTALL)
    if head is None:
        raise UnsupportedError(f"not an op of XeTile or XeGPU: {piece}")
    rest, entries = _take_dictionary(head[3])
    rest = re.sub(r"(%\w+):(\d+)", partial(_expand, member), rest)
    kind, rest = _take_kind(rest)
    operands, types = _split_types(rest)
    loose = re.findall(r"\w+\s*=\s*(?:\[[^]]*\]|\w+)", operands)
    operands = re.sub(r"\w+\s*=\s*(?:\[[^]]*\]|\w+)", "", operands)
    parts = re.split(r"->|\binto\b|\bto\b", types, maxsplit=1)
    return Statement(
        op=head[2],
        result=head[1],
        kind=kind,
        operands=tuple(
            name if name[0] in "%-" or name[0].isdigit() else f"%{name}"
            for name in re.findall(r"%\w+(?:#\d+)?|[A-Za-z_]\w*|-?\d+", operands)
        ),
        entries=(*entries, *loose),
        types=_types(parts[0]),
        result_type=_types(parts[1])[0] if len(parts) == 2 else None,
    )


def _take_dictionary(text: str) -> tuple[str, tuple[str, ...]]:
    """Split off the entries of `{...}`; a stray brace is dropped."""
    found = re.search(r"\{(.*?)\}", text, re.DOTALL)
    if found is None:
        return text.replace("}", ""), ()
    rest = text[: found.start()] + " " + text[found.end() :]
    body = re.sub(r">\s+#", ">, #", found[1])
    return rest, tuple(_split(body))


def _expand(member: str, match: re.Match[str]) -> str:
    if int(match[2]) > MOST_PARTS:
        raise UnsupportedError(f"{match[0]}: a value has at most {MOST_PARTS} parts here")
    return ", ".join(f"{match[1]}{member}{i}" for i in range(int(match[2])))


MOST_PARTS = 64
"""Largest n in `%name:n`; a block has only a few dimensions."""


def _take_kind(text: str) -> tuple[str | None, str]:
    """Split off the kind of an atomic op, in any kind of quotation marks."""
    found = re.search(r"[“”\"](\w+)[“”\"]\s*,?", text)
    return (found[1], text.replace(found[0], "")) if found else (None, text)


def _split_types(text: str) -> tuple[str, str]:
    """Split operands and types at the colon or, if that is missing, before the first type."""
    colon = text.find(":")
    if colon >= 0:
        return text[:colon], text[colon + 1 :]
    found = _TYPE.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets; empty parts are dropped."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<[({") - (char in ">])}" and text[i - 1 : i + 1] != "->")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


_ELEMENTS = (
    (r"\bVector\b", "vector"), (r"\s*<\s*", "<"), (r"(\d)\s*x\s*(?=[\da-z])", r"\1x"),
    (r"(\d)(?=(?:float|bf16)\b)", r"\1x"), (r"(?<=x)b16\b", "bf16"),
    (r"\b(\d*x?)fp(16|32)\b", r"\1f\2"), (r"float\b", "f32"), (r"Uint8_t", "ui8"),
    (r"uint_?(\d+)", r"ui\1"), (r"(?<![u\w])int(\d+)", r"i\1"), (r"(?<=x)xf", "f"),
    (r"(?<![\w.!])tensor_desc<", "!xegpu.tensor_desc<"), (r"(?<![\w.!])tile<", "!xetile.tile<"),
    (r"!?(XeGPU\.)?\bnbarrier\b", "!xegpu.nbarrier"),
)  # fmt: skip


def _types(text: str) -> tuple[str, ...]:
    for pattern, replacement in _ELEMENTS:
        text = re.sub(pattern, replacement, text)
    return tuple(_split(re.sub(r"xfp(\d+)", r"xf\1", text)))


_NAMES = {
    "creat_nbarrier": "alloc_nbarrier", "update_offsets": "update_offset",
    "load_2D": "load_nd", "store_2D": "store_nd", "prefetch_2D": "prefetch_nd",
}  # fmt: skip
_FIRST_XEGPU = ("load_2D", "store_2D", "prefetch_2D", "init_tile")


def _fix(statement: Statement) -> tuple[Statement, ...]:
    """Correct the deviations of the RFC's examples from its text."""
    dialect, name = statement.op.split(".")
    if dialect.lower() not in ("xegpu", "xetile"):
        return (statement,)
    if name in ("load_scalar", "store_scalar"):
        types = tuple("f32" if type_ == "any" else type_ for type_ in statement.types)
        result = "f32" if statement.result_type == "any" else statement.result_type
        statement = replace(statement, types=types, result_type=result)
    if name in ("load_1d", "store_1d"):
        return _as_1d_block(statement)
    if name in _FIRST_XEGPU and (dialect != "XeTile" or name.endswith("2D")):
        statement, *after = _as_descriptors(statement)
        return _named(statement), *after
    return (_named(statement),)


def _named(statement: Statement) -> Statement:
    """Rewrite the op's name, entries, operands and types to this project's spelling and order."""
    dialect, name = statement.op.split(".")
    name = _NAMES.get(name, name)
    if name == "alloc_nbarrier" and statement.result is not None:
        name = "init_nbarrier"
    entries = tuple(_entry(entry) for entry in statement.entries)
    statement = replace(statement, op=f"{dialect.lower()}.{name}", entries=entries)
    fix = _FIXES.get(name)
    return fix(statement) if fix else statement


def _as_descriptors(statement: Statement) -> tuple[Statement, ...]:
    """Rewrite tiles of the first XeGPU to tensor descriptors of its successor.

    Its loads have 3D results if no data moves (VNNI_AXIS = 0), or after a transpose of pairs.  They
    become a load of the 2D vector and a cast.
    """
    name = statement.op.split(".")[1]
    types = tuple(_descriptor(type_) for type_ in statement.types)
    result_type = statement.result_type and _descriptor(statement.result_type)
    name = "create_nd_tdesc" if name == "init_tile" else name
    statement = replace(statement, op=f"xegpu.{name}", types=types, result_type=result_type)
    turned = "Transpose = TRUE" in statement.entries
    along_rows = any(entry.startswith("VNNI_AXIS = 0") for entry in statement.entries)
    along_columns = "VNNI_AXIS = 1" in statement.entries
    entries = ("transpose = [1, 0]",) if turned else ("packed",) if along_columns else ()
    if not along_rows and not (turned and along_columns):
        return (replace(statement, entries=entries),)
    if turned:
        entries = (*entries, "transpose_bit_width = 32")
    flat = re.fullmatch(r"vector<(\d+)x(\d+)x(\d+)x(\w+)>", result_type or "")
    if flat is None:
        raise UnsupportedError(f"{statement.op} with VNNI_AXIS gives a 3D vector")
    plain = f"vector<{flat[1]}x{int(flat[2]) * int(flat[3])}x{flat[4]}>"
    block = f"{statement.result}_block"
    load = replace(statement, result=block, result_type=plain, entries=entries)
    cast = Statement(
        op="vector.shape_cast",
        result=statement.result,
        operands=(block,),
        types=(plain,),
        result_type=result_type,
    )
    return load, cast


def _descriptor(type_: str) -> str:
    found = re.match(r"!xetile\.tile<(\w+)", type_)
    return f"!xegpu.tensor_desc<{found[1]}>" if found else type_


def _as_1d_block(statement: Statement) -> tuple[Statement, ...]:
    """Rewrite load_1d and store_1d with a descriptor of their own; offsets count elements."""
    load = statement.result_type is not None
    vector = statement.result_type or statement.types[0]
    desc_type = f"!xegpu.tensor_desc<{vector.removeprefix('vector<')[:-1]}, boundary_check = false>"
    place = slice(0, 2) if load else slice(1, 3)
    desc = f"{statement.operands[place][0]}_desc"
    make = Statement(
        op="xegpu.create_nd_tdesc",
        result=desc,
        operands=statement.operands[place],
        types=statement.types[place],
        result_type=desc_type,
    )
    if load:
        access = replace(statement, op="xegpu.load_nd", operands=(desc,), types=(desc_type,))
    else:
        operands = (statement.operands[0], desc)
        access = replace(
            statement, op="xegpu.store_nd", operands=operands, types=(vector, desc_type)
        )
    return make, access


def _entry(entry: str) -> str:
    if re.fullmatch(r"[Tt]ranspose\s*=\s*(TRUE|true)", entry):
        return "transpose"
    return re.sub(r"\s*=\s*", " = ", entry, count=1)


def _fix_dpas(statement: Statement) -> Statement:
    """Put C last, with its type, and name the sg_maps."""
    operands, types = statement.operands, statement.types
    if len(operands) == 3 and len(types) == 3 and types[0] == statement.result_type != types[2]:
        operands, types = (*operands[1:], operands[0]), (*types[1:], types[0])
    if len(operands) == 3 and len(types) == 2 and statement.result_type:
        types = (*types, statement.result_type)
    entries = statement.entries
    if len(entries) == 3 and all(entry.startswith("#") for entry in entries):
        entries = tuple(f"sg_map_{x} = {e}" for x, e in zip("abc", entries, strict=True))
    return replace(statement, operands=operands, types=types, entries=entries)


def _fix_store_scatter(statement: Statement) -> Statement:
    value, *others = statement.types
    others.sort(key=lambda type_: not type_.startswith("!xegpu"))
    return replace(statement, types=(value, *others))


def _fix_store(statement: Statement) -> Statement:
    """Put the value before the tile, elements in the vector's type, and both types before any
    arrow.
    """
    if statement.result_type is None:
        return statement
    value, tile = statement.types[0], statement.result_type
    element = re.search(r"x([a-z]+\d+)[,>]", tile)
    if element and re.fullmatch(r"vector<[\dx]+>", value):
        value = f"{value[:-1]}x{element[1]}>"
    return replace(
        statement, operands=statement.operands[::-1], types=(value, tile), result_type=None
    )


def _fix_update(statement: Statement) -> Statement:
    """Add one type per offset, and a result."""
    types = statement.types + statement.types[-1:] * (
        len(statement.operands) - len(statement.types)
    )
    result = statement.result or f"{statement.operands[0]}_moved"
    return replace(
        statement, types=types, result=result, result_type=statement.result_type or types[0]
    )


def _fix_atomic(statement: Statement) -> Statement:
    return replace(statement, result_type=statement.result_type or statement.types[0])


def _fix_barrier(statement: Statement) -> Statement:
    return replace(statement, types=statement.types or ("!xegpu.nbarrier",))


_FIXES = {
    "dpas": _fix_dpas,
    "store_scatter": _fix_store_scatter,
    "store_tile": _fix_store,
    "store_nd": _fix_store,
    "update_tile_offset": _fix_update,
    "atomic_rmw": _fix_atomic,
    "nbarrier_arrive": _fix_barrier,
    "nbarrier_wait": _fix_barrier,
}


@dataclass
class _Writer:
    """Names and types of values while statements are written."""

    arguments: dict[str, str] = field(default_factory=dict)
    current: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name in the text -> (name written, type)."""
    names: set[str] = field(default_factory=set)

    member: ClassVar[str] = "_"

    def head(self) -> str:
        """Text before the statements, in the line of the first."""
        arguments = ", ".join(f"{name}: {type_}" for name, type_ in self.arguments.items())
        return f"func.func @example({arguments}) {{ "

    def tail(self) -> str:
        return "func.return }\n"

    def statement(self, statement: Statement) -> str:
        named = [operand for operand in statement.operands if operand.startswith("%")]
        if len(named) != len(statement.types):
            raise UnsupportedError(
                f"{statement.op}: {len(named)} operands but {len(statement.types)} types"
            )
        given = iter(statement.types)
        operands = [
            self._use(name, next(given)) if name.startswith("%") else name
            for name in statement.operands
        ]
        left = ""
        if statement.result is not None and statement.result_type is not None:
            left = f"{self._define(statement.result, statement.result_type)} = "
        if not statement.op.startswith(("xegpu.", "xetile.")):
            types = ", ".join(statement.types)
            call = f'"{statement.op}"({", ".join(operands)})'
            return f"{left}{call} : ({types}) -> ({statement.result_type or ''})"
        return left + statement.op + _tail(statement, operands)

    def _use(self, name: str, type_: str) -> str:
        if name in self.current and self.current[name][1] == type_:
            return self.current[name][0]
        written = self._fresh(name)
        self.arguments[written] = type_
        self.current[name] = written, type_
        return written

    def _define(self, name: str, type_: str) -> str:
        written = self._fresh(name)
        self.current[name] = written, type_
        return written

    def _fresh(self, name: str) -> str:
        written, count = name, 1
        while written in self.names:
            count += 1
            written = f"{name}_{count}"
        self.names.add(written)
        return written


class _InPlace(_Writer):
    """Writer for text that defines its values and functions itself."""

    member: ClassVar[str] = "#"

    def head(self) -> str:
        return ""

    def tail(self) -> str:
        return ""

    def _use(self, name: str, type_: str) -> str:
        return name

    def _define(self, name: str, type_: str) -> str:
        return name


def _tail(statement: Statement, operands: list[str]) -> str:
    kind = f' "{statement.kind}",' if statement.kind else ""
    values = f" {', '.join(operands)}" if operands else ""
    entries = f" {{{', '.join(statement.entries)}}}" if statement.entries else ""
    types = f" : {', '.join(statement.types)}" if statement.types else ""
    arrow = f" -> {statement.result_type}" if statement.result_type else ""
    return kind + values + entries + types + arrow
