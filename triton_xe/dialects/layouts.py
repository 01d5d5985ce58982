"""Layout attributes: MLIR's spelling of the encodings in `triton_xe.layout`.

One attribute class per mnemonic.  The attribute holds the text between its angle brackets, in
libtriton's spelling with aliases expanded; `encoding` is the dataclass that text describes, made
on first use.  Equal layouts of one class thus have equal text.
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
    """A tensor's or a shared buffer's layout."""

    @property
    def text(self) -> str:
        """`#ttg.blocked<{...}>`"""
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
    """`text` with each `#alias` replaced by what it stands for."""
    return _ALIAS.sub(lambda alias: str(_aliased(parser, alias[0])), text)


def _aliased(parser: AttrParser, alias: str) -> Attribute:
    attr = parser.attribute_aliases.get(alias)
    if attr is None:
        parser.raise_error(f"undefined symbol alias '{alias}'")
    return attr


@lru_cache(maxsize=1024)
def _encoding(text: str) -> Encoding:
    from triton_xe.layout import parse_encoding

    return parse_encoding(text)


@irdl_attr_definition
class BlockedAttr(LayoutAttr):
    name = "ttg.blocked"


@irdl_attr_definition
class SliceAttr(LayoutAttr):
    name = "ttg.slice"


@irdl_attr_definition
class DotOperandAttr(LayoutAttr):
    name = "ttg.dot_op"


@irdl_attr_definition
class LinearAttr(LayoutAttr):
    name = "ttg.linear"


@irdl_attr_definition
class GenericLinearAttr(LayoutAttr):
    name = "ttg.generic_linear"


@irdl_attr_definition
class SwizzledSharedAttr(LayoutAttr):
    name = "ttg.swizzled_shared"


@irdl_attr_definition
class PaddedSharedAttr(LayoutAttr):
    name = "ttg.padded_shared"


@irdl_attr_definition
class SharedLinearAttr(LayoutAttr):
    name = "ttg.shared_linear"


@irdl_attr_definition
class NvmmaSharedAttr(LayoutAttr):
    """What stock passes may give a tensor descriptor; no message of this backend uses it."""

    name = "ttg.nvmma_shared"


@irdl_attr_definition
class DpasAttr(LayoutAttr):
    """The layout of a DPAS accumulator; `#ttg.dot_op` with it as parent is that of an operand."""

    name = "xe.dpas"


TTG_LAYOUTS: list[type[LayoutAttr]] = [
    BlockedAttr,
    SliceAttr,
    DotOperandAttr,
    LinearAttr,
    GenericLinearAttr,
    SwizzledSharedAttr,
    PaddedSharedAttr,
    SharedLinearAttr,
    NvmmaSharedAttr,
]

_ALL: list[type[LayoutAttr]] = [*TTG_LAYOUTS, DpasAttr]
_CLASSES: dict[str, type[LayoutAttr]] = {cls.name: cls for cls in _ALL}
_TEXT = re.compile(r"#([\w.]+)<(.*)>", re.DOTALL)


@lru_cache(maxsize=1024)
def layout_attr(encoding: Encoding | str) -> LayoutAttr:
    """The attribute of an encoding, or of an encoding's text."""
    match = _TEXT.fullmatch(str(encoding))
    cls = _CLASSES.get(match[1]) if match else None
    if match is None or cls is None:
        raise LayoutError(f"'{encoding}' is no layout that the IR can name")
    return cls(match[2])


def encoding_of(type_: Attribute) -> Encoding:
    """The encoding of a tensor type; a LayoutError when the type has none."""
    if isinstance(type_, TensorType) and isinstance(type_.encoding, LayoutAttr):
        return type_.encoding.encoding
    raise LayoutError(f"{type_} has no layout")
