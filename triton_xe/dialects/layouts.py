"""Layout attributes: MLIR's spelling of the encodings in `triton_xe.layout`.

There is one attribute class per mnemonic.  The attribute stores the text between its angle
brackets, in libtriton's spelling with aliases expanded.  `encoding` is the dataclass of that text,
created on first use.  Equal layouts of one class therefore have equal text.
"""

from __future__ import annotations

import re
from abc import ABC
from functools import lru_cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from triton_xe.errors import LayoutError

if TYPE_CHECKING:
    from triton_xe.layout.encodings import Encoding

_ALIAS = re.compile(r"#[A-Za-z_]\w*(?![\w.<])")


class LayoutAttr(Data[str], ABC):
    """Layout of a tensor or of a shared buffer."""

    @property
    def text(self) -> str:
        """The attribute's text, `#ttg.blocked<{...}>`."""
        return f"#{self.name}<{self.data}>"

    @property
    def encoding(self) -> Encoding:
        return _encoding(self.text)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return expand_aliases(parser, parser._parse_dialect_symbol_body())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def expand_aliases(parser: AttrParser, text: str) -> str:
    """Replace each `#alias` in `text` by its attribute."""
    return _ALIAS.sub(lambda alias: str(_alias_target(parser, alias[0])), text)


def _alias_target(parser: AttrParser, alias: str) -> Attribute:
    attr = parser.attribute_aliases.get(alias)
    if attr is None:
        parser.raise_error(f"undefined symbol alias '{alias}'")
    return attr


@lru_cache(maxsize=1024)
def _encoding(text: str) -> Encoding:
    from triton_xe.layout import parse_encoding

    return parse_encoding(text)


@irdl_attr_definition
class DpasAttr(LayoutAttr):
    """The layout of a DPAS accumulator; `#ttg.dot_op` with it as parent is that of an operand."""

    name = "xe.dpas"


def _layout(mnemonic: str) -> type[LayoutAttr]:
    name = "".join(word.title() for word in mnemonic.split("_"))
    return irdl_attr_definition(type(f"{name}Attr", (LayoutAttr,), {"name": f"ttg.{mnemonic}"}))


TTG_LAYOUTS: list[type[LayoutAttr]] = [
    _layout(mnemonic)
    for mnemonic in (
        "blocked", "slice", "dot_op", "linear", "generic_linear", "swizzled_shared",
        "padded_shared", "shared_linear", "nvmma_shared", "amd_rotating_shared", "nvidia_mma",
        "amd_mfma", "amd_wmma", "partitioned_shared",
    )
]  # fmt: skip
"""Attribute classes of all layouts, including those of other vendors' matrix units."""
_CLASSES: dict[str, type[LayoutAttr]] = {
    **{cls.name: cls for cls in TTG_LAYOUTS}, DpasAttr.name: DpasAttr
}  # fmt: skip
_TEXT = re.compile(r"#([\w.]+)<(.*)>", re.DOTALL)


@lru_cache(maxsize=1024)
def layout_attr(encoding: Encoding | str) -> LayoutAttr:
    """Return the attribute of an encoding, or of an encoding's text."""
    match = _TEXT.fullmatch(str(encoding))
    cls = _CLASSES.get(match[1]) if match else None
    if match is None or cls is None:
        raise LayoutError(f"'{encoding}' is no layout that the IR can name")
    return cls(match[2])


def encoding_of(type_: Attribute) -> Encoding:
    """Return the encoding of a tensor type; raise `LayoutError` if the type has none."""
    if type(type_) is TensorType and isinstance(type_.encoding, LayoutAttr):
        return type_.encoding.encoding
    raise LayoutError(f"{type_} has no layout")
