"""Reads the text of an MLIR attribute into names, numbers, lists and encodings, with columns.

Only the notation is read here; `Encoding.read` knows the entries of each attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from triton_xe.errors import LayoutError
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, dim_names

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+)(?::\s*i\d+\b)?|(?P<attribute>#[A-Za-z_][\w.$-]*)|(?P<word>[A-Za-z_]\w*)"
    r'|"(?P<string>[^"]*)"|(?P<mark>:\+|->|[<>{}\[\](),=:]))'
)


@dataclass(frozen=True)
class Item:
    """A value and its column.

    The value is a number, a truth value, a word, a list of items, `Fields` or an encoding.
    """

    value: Any
    column: int


@dataclass
class Fields:
    """The entries of a `{...}`; a missing entry, or one of another type, is an error.

    Columns count from 1.
    """

    entries: dict[str, Item]
    column: int
    mnemonic: str = ""
    paddings: tuple[tuple[int, int], ...] = ()
    """`[interval:+padding, ...]` in front of the `{`, for padded layouts."""
    used: set[str] = field(default_factory=set)
    name_columns: dict[str, int] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.entries

    def item(self, name: str) -> Item:
        self.used.add(name)
        if name not in self.entries:
            known = ", ".join(self.entries) or "nothing"
            fail(self.column, f"{name} of #{self.mnemonic}", known)
        return self.entries[name]

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        return _integer(self.item(name), name)

    def boolean(self, name: str, default: bool | None = None) -> bool:
        if default is not None and not self.has(name):
            return default
        return self.typed(name, bool, "true or false")

    def word(self, name: str, known: Sequence[str]) -> str:
        """Entry `name`, which must be one of `known`."""
        item = self.item(name)
        if item.value not in known:
            fail(item.column, f"{' or '.join(known)} for {name}", show(item.value))
        return str(item.value)

    def integers(self, name: str) -> tuple[int, ...]:
        return _integers(self.item(name), name)

    def bases(self, name: str) -> BlockBases:
        """Entry `name`, a list of lists."""
        return tuple(_integers(inner, name) for inner in self.typed(name, list, "a list of bases"))

    def layout(self, dims: Sequence[str], optional: Sequence[str] = ()) -> LinearLayout:
        """Layout with the bases of `dims`, onto dim0, dim1, ...; an error if no basis gives the
        rank.
        """
        left_out = [name for name in optional if not self.has(name)]
        bases = {name: () if name in left_out else self.bases(name) for name in dims}
        ranks = {len(vector) for vectors in bases.values() for vector in vectors}
        rank = self.integer("rank") if self.has("rank") else (ranks.pop() if ranks else 0)
        if not rank:
            fail(self.column, "at least one basis, to know the rank", "none")
        return LinearLayout(bases, dim_names(rank))

    def nested(self, name: str) -> Fields:
        """Entry `name`, a `{...}`."""
        found: Fields = self.typed(name, Fields, "'{'")
        found.mnemonic = self.mnemonic
        return found

    def typed(self, name: str, wanted: type, expected: str) -> Any:
        """Entry `name`, an instance of `wanted`; `expected` describes it in the error."""
        item = self.item(name)
        if not isinstance(item.value, wanted):
            fail(item.column, f"{expected} for {name}", show(item.value))
        return item.value

    def block_bases(self, rank: int) -> BlockBases:
        """`CGALayout`, or the older CTAsPerCGA, CTASplitNum, CTAOrder; one block without them."""
        if self.has("CGALayout"):
            return self.bases("CGALayout")
        if not self.has("CTAsPerCGA"):
            return ()
        ctas, split = self.integers("CTAsPerCGA"), self.integers("CTASplitNum")
        order = self.integers("CTAOrder") if self.has("CTAOrder") else tuple(reversed(range(rank)))
        if not len(ctas) == len(split) == len(order) == rank:
            fail(self.item("CTAsPerCGA").column, f"{rank} numbers of blocks", show(list(ctas)))
        return split_blocks(ctas, split, order)

    def finish(self) -> None:
        """Refuse entries that were not read."""
        for name in self.entries:
            if name not in self.used:
                fail(self.name_columns[name], f"no entry {name!r} in #{self.mnemonic}", name)


def split_blocks(
    ctas_per_cga: tuple[int, ...], split: tuple[int, ...], order: tuple[int, ...]
) -> BlockBases:
    """Bases of blocks counted along `order`: first those that split a dim, then those that share
    it.
    """
    result: list[tuple[int, ...]] = []
    rank = len(order)
    for dim in order:
        if split[dim] < 1 or ctas_per_cga[dim] % split[dim]:
            raise LayoutError(f"CTASplitNum {list(split)} does not divide {list(ctas_per_cga)}")
        pieces = 1
        while pieces < ctas_per_cga[dim]:
            step = pieces if pieces < split[dim] else 0
            result.append(tuple(step if i == dim else 0 for i in range(rank)))
            pieces *= 2
        if pieces != ctas_per_cga[dim]:
            raise LayoutError(f"CTAsPerCGA must be powers of two, got {list(ctas_per_cga)}")
    return tuple(result)


def fail(column: int, expected: str, found: str) -> NoReturn:
    raise LayoutError(f"column {column}: expected {expected}, found {found}")


def show(value: object) -> str:
    if isinstance(value, Item):
        return show(value.value)
    if isinstance(value, Fields):
        return "{...}"
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _integer(item: Item, name: str) -> int:
    if isinstance(item.value, bool) or not isinstance(item.value, int):
        fail(item.column, f"a number for {name}", show(item.value))
    return item.value


def _integers(item: Item, name: str) -> tuple[int, ...]:
    if not isinstance(item.value, list):
        fail(item.column, f"a list of numbers for {name}", show(item.value))
    return tuple(_integer(inner, name) for inner in item.value)


Builder = Callable[[Fields], Any]
"""Function from the entries of an attribute to its encoding."""


class AttributeReader:
    """Recursive descent over the text; `peek` is the current token, at `column`."""

    def __init__(
        self,
        text: str,
        aliases: Mapping[str, str],
        builders: Mapping[str, Builder],
        depth: int = 0,
    ) -> None:
        self.text, self.aliases, self.builders, self.depth = text, aliases, builders, depth
        self.position = 0
        self.token, self.peek, self.column = "", "", 1
        self.advance()

    def advance(self) -> str:
        """Step to the next token and return the one stepped over."""
        taken = self.peek
        rest = self.text[self.position :]
        self.column = self.position + len(rest) - len(rest.lstrip()) + 1
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            if rest.strip():
                fail(self.column, "MLIR attribute text", repr(rest.strip()[0]))
            self.token, self.peek = "end", "the end"
            return taken
        self.token = match.lastgroup or ""
        self.peek = match.group(self.token)
        self.position = match.end()
        return taken

    def fail(self, expected: str) -> NoReturn:
        fail(self.column, expected, self.peek if self.token == "end" else repr(self.peek))

    def is_next(self, mark: str) -> bool:
        """True if the next token is this punctuation mark."""
        return self.token == "mark" and self.peek == mark

    def expect(self, mark: str) -> None:
        if not self.is_next(mark):
            self.fail(repr(mark))
        self.advance()

    def number(self) -> int:
        if self.token != "number":
            self.fail("a number")
        return int(self.advance())

    def value(self) -> Item:
        column = self.column
        if self.token == "number":
            return Item(int(self.advance()), column)
        if self.token == "string":
            return Item(self.advance(), column)
        if self.token == "attribute":
            return Item(self.attribute(), column)
        if self.token == "word" and self.peek in ("true", "false"):
            return Item(self.advance() == "true", column)
        if self.token == "word" and re.fullmatch(r"[a-z]+[A-Z\d]\w*", self.peek):
            return Item(self.advance(), column)
        if self.is_next("["):
            return Item(self.list(self.value), column)
        if self.is_next("{"):
            return Item(self.fields(""), column)
        self.fail("a number, '[', '{', '#', true or false")

    def list(self, element: Callable[[], Item]) -> list[Item]:
        self.expect("[")
        result: list[Item] = []
        while not self.is_next("]"):
            if result:
                self._comma("]")
            result.append(element())
        self.advance()
        return result

    def _comma(self, closing: str) -> None:
        if not self.is_next(","):
            self.fail(f"',' or {closing!r}")
        self.advance()

    def fields(self, mnemonic: str) -> Fields:
        result = Fields({}, self.column, mnemonic)
        self.expect("{")
        while not self.is_next("}"):
            if result.entries:
                self._comma("}")
            self._entry(result)
        self.advance()
        return result

    def _entry(self, fields: Fields) -> None:
        if self.token != "word":
            self.fail("a name")
        if self.peek in fields.entries:
            self.fail(f"{self.peek!r} only once")
        column, name = self.column, self.advance()
        self.expect("=")
        fields.name_columns[name] = column
        fields.entries[name] = self.value()

    def interval(self) -> Item:
        """`interval:+padding` as a list of the two."""
        column = self.column
        first = Item(self.number(), column)
        self.expect(":+")
        return Item([first, Item(self.number(), self.column)], column)

    def attribute(self) -> Any:
        if self.token != "attribute":
            self.fail("an attribute such as #ttg.blocked<...>")
        column, name = self.column, self.peek
        self.advance()
        builder = self.builders.get(name.removeprefix("#"))
        if builder is None:
            return self._alias(name, column)
        fields = self._body(name.removeprefix("#"))
        try:
            result = builder(fields)
        except LayoutError as error:
            if str(error).startswith("column "):
                raise
            raise LayoutError(f"column {column}: {error}") from None
        fields.finish()
        return result

    def _body(self, mnemonic: str) -> Fields:
        if not self.is_next("<"):
            return Fields({}, self.column, mnemonic)
        self.advance()
        paddings: tuple[tuple[int, ...], ...] = ()
        if self.is_next("["):
            paddings = tuple(_integers(item, "interval") for item in self.list(self.interval))
            if self.is_next(","):
                self.advance()
        fields = self._entries_without_braces(mnemonic)
        while self.is_next(","):
            self.advance()
            self._entry(fields)
        fields.paddings = tuple((interval, padding) for interval, padding in paddings)
        self.expect(">")
        return fields

    def _entries_without_braces(self, mnemonic: str) -> Fields:
        """The `{...}` of most attributes, or the notation that replaces it in some."""
        fields = Fields({}, self.column, mnemonic)
        if self.is_next(">"):
            return fields
        if self.token != "word":
            return self.fields(mnemonic)
        self._entry(fields)
        return fields

    def _alias(self, name: str, column: int) -> Any:
        text = self.aliases.get(name)
        if text is None:
            known = [f"#{mnemonic}" for mnemonic in self.builders] + list(self.aliases)
            fail(column, f"one of {', '.join(known)}", repr(name))
        if self.depth > 32:
            fail(column, "an alias that ends", f"{name!r}, which refers to itself")
        try:
            return AttributeReader(text, self.aliases, self.builders, self.depth + 1).whole()
        except LayoutError as error:
            raise LayoutError(f"column {column}: in {name}: {error}") from None

    def whole(self) -> Any:
        result = self.attribute()
        if self.token != "end":
            self.fail("the end")
        return result
