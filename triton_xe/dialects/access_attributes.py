"""Attributes of the XeGPU dialect: cache hints, scopes, descriptor attributes, lane maps.

    #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
    #xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>
    #xegpu.scattered
    #xegpu.cache_hint<cached>

Source: the XeGPU RFC ("XeGPU Dialect" and "XeGPU Attributes to support Work Item Level semantics").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

SUBGROUP_SIZES = (8, 16, 32)
"""Numbers of work-items that a subgroup may have, over all Xe GPUs."""
CHUNK_SIZES = (1, 2, 3, 4, 8)
"""Numbers of consecutive elements that one work-item of a scattered access may touch."""


class KeywordAttr(Data[str]):
    """One of a fixed set of keywords."""

    keywords: ClassVar[tuple[str, ...]]
    synonyms: ClassVar[dict[str, str]] = {}
    """Other spellings that are read, and the keyword of each."""

    @classmethod
    def parse_keyword(cls, parser: AttrParser) -> str:
        text = parser.parse_identifier_or_str_literal()
        text = cls.synonyms.get(text, text)
        if text not in cls.keywords:
            parser.raise_error(f"{cls.name} is one of {', '.join(cls.keywords)}, not {text}")
        return text

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return cls.parse_keyword(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    def verify(self) -> None:
        if self.data not in self.keywords:
            raise VerifyException(
                f"{self.name} is one of {', '.join(self.keywords)}, not {self.data}"
            )


LOAD_HINTS = ("cached", "uncached", "streaming", "read_invalidate")
STORE_HINTS = ("uncached", "write_through", "write_back", "streaming")


@irdl_attr_definition
class CacheHintAttr(KeywordAttr):
    """Cache behaviour of an access at one cache level.

    `streaming` data is cached but evicted first.  `read_invalidate` drops the line after the read.
    `write_through` passes writes on to the next level; `write_back` does so when the line is
    evicted.
    """

    name = "xegpu.cache_hint"
    keywords = (*LOAD_HINTS, "write_through", "write_back")
    synonyms: ClassVar = {"read_invaldiate": "read_invalidate"}


@irdl_attr_definition
class MemoryScopeAttr(KeywordAttr):
    """Memory of a tensor: global memory, or shared local memory (SLM)."""

    name = "xegpu.memory_scope"
    keywords = ("global", "slm")


@irdl_attr_definition
class FenceScopeAttr(KeywordAttr):
    """Threads for which a fence orders memory accesses."""

    name = "xegpu.fence_scope"
    keywords = ("workgroup", "gpu")


@irdl_attr_definition
class MemoryKindAttr(KeywordAttr):
    """Memory that a fence orders: global, or shared local memory."""

    name = "xegpu.memory_kind"
    keywords = ("global", "shared")


FLOAT_ATOMICS = ("addf", "maximumf", "minimumf", "mulf", "maxnumf", "minnumf")
INTEGER_ATOMICS = ("addi", "maxs", "maxu", "mins", "minu", "muli", "ori", "andi", "xori")


@irdl_attr_definition
class AtomicKindAttr(KeywordAttr):
    """The operation of an atomic access; the names are those of MLIR's arith dialect."""

    name = "xegpu.atomic_kind"
    keywords = (*FLOAT_ATOMICS, *INTEGER_ATOMICS, "assign")


def parse_int_list(parser: AttrParser) -> tuple[int, ...]:
    """`[1, 16]`."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


@lru_cache(maxsize=4096)
def int_array(values: tuple[int, ...]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(value) for value in values])


def ints(array: ArrayAttr[IntAttr]) -> tuple[int, ...]:
    return tuple(entry.data for entry in array.data)


@irdl_attr_definition
class SgMapAttr(ParametrizedAttribute):
    """Distribution of a tensor over the work-items of a subgroup.

    The work-items form a grid of `wi_layout` rows by columns.  Each step gives every work-item a
    rectangle of `wi_data` elements; steps repeat until the tensor is covered.
    """

    name = "xegpu.sg_map"
    wi_layout: ArrayAttr[IntAttr]
    wi_data: ArrayAttr[IntAttr]

    @property
    def layout(self) -> tuple[int, int]:
        rows, columns = self.wi_layout.data
        return rows.data, columns.data

    @property
    def data(self) -> tuple[int, int]:
        rows, columns = self.wi_data.data
        return rows.data, columns.data

    @property
    def lanes(self) -> int:
        """Work-items of the subgroup."""
        rows, columns = self.layout
        return rows * columns

    @property
    def data_size(self) -> int:
        """Elements of one work-item in one step (wi_data_size)."""
        rows, columns = self.data
        return rows * columns

    def verify(self) -> None:
        for name, array in (("wi_layout", self.wi_layout), ("wi_data", self.wi_data)):
            values = ints(array)
            if len(values) != 2 or min(values) < 1:
                raise VerifyException(
                    f"sg_map: {name} is two positive numbers, rows and columns, not {list(values)}"
                )
        if self.lanes not in SUBGROUP_SIZES:
            raise VerifyException(
                f"sg_map: wi_layout {list(self.layout)} has {self.lanes} work-items; their product"
                f" is the subgroup size, one of {', '.join(map(str, SUBGROUP_SIZES))}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[ArrayAttr[IntAttr]]:
        with parser.in_angle_brackets():
            parser.parse_keyword("wi_layout")
            parser.parse_punctuation("=")
            layout = parse_int_list(parser)
            parser.parse_punctuation(",")
            parser.parse_keyword("wi_data")
            parser.parse_punctuation("=")
            return int_array(layout), int_array(parse_int_list(parser))

    def print_parameters(self, printer: Printer) -> None:
        layout, data = list(ints(self.wi_layout)), list(ints(self.wi_data))
        printer.print_string(f"<wi_layout = {layout}, wi_data = {data}>")


@lru_cache(maxsize=256)
def sg_map(wi_layout: tuple[int, int], wi_data: tuple[int, int]) -> SgMapAttr:
    """The attribute of a layout and data of work-items.

    >>> print(sg_map((1, 16), (2, 1)))
    #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
    """
    return SgMapAttr(int_array(wi_layout), int_array(wi_data))


@irdl_attr_definition
class ScatteredAttr(ParametrizedAttribute):
    """Abbreviation of `#xegpu.tdesc_attr<scattered = true>`."""

    name = "xegpu.scattered"


@irdl_attr_definition
class TdescAttr(ParametrizedAttribute):
    """Properties of a tensor descriptor besides shape and element type.

    - memory_scope: global (default) or slm.
    - boundary_check: elements outside the base tensor read as zero and are not written; default
      true.
    - array_length: number of blocks side by side along the innermost dimension; default 1.
    - scattered: one offset per work-item instead of a block; default false.
    - chunk_size_per_lane: consecutive elements per work-item of a scattered descriptor.  The
      default 0 means the size that the descriptor's shape gives.
    """

    name = "xegpu.tdesc_attr"
    memory_scope: MemoryScopeAttr
    array_length: IntAttr
    boundary_check: IntAttr
    scattered: IntAttr
    chunk_size: IntAttr

    def verify(self) -> None:
        if self.array_length.data < 1:
            raise VerifyException(
                f"tdesc_attr: array_length is at least 1, not {self.array_length.data}"
            )
        for flag in ("boundary_check", "scattered"):
            if getattr(self, flag).data not in (0, 1):
                raise VerifyException(f"tdesc_attr: {flag} is true or false")
        if self.chunk_size.data and self.chunk_size.data not in CHUNK_SIZES:
            raise VerifyException(
                f"tdesc_attr: chunk_size_per_lane is one of {', '.join(map(str, CHUNK_SIZES))},"
                f" not {self.chunk_size.data}"
            )
        if self.chunk_size.data > 1 and not self.scattered.data:
            raise VerifyException(
                "tdesc_attr: chunk_size_per_lane needs scattered = true; a block has no chunks"
            )

    @property
    def entries(self) -> dict[str, Any]:
        """The entries that differ from their defaults."""
        values = {
            "memory_scope": self.memory_scope.data,
            "array_length": self.array_length.data,
            "boundary_check": bool(self.boundary_check.data),
            "scattered": bool(self.scattered.data),
            "chunk_size_per_lane": self.chunk_size.data,
        }
        return {name: value for name, value in values.items() if value != _DEFAULTS[name]}

    def fields(self) -> list[str]:
        """The entries as text."""
        return [
            f"{name} = {str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.entries.items()
        ]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found: dict[str, Any] = {}
        with parser.in_angle_brackets():
            while parse_optional_field(parser, found):
                if parser.parse_optional_punctuation(",") is None:
                    break
        return tdesc_attr(**found).parameters

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(self.fields())}>")


@lru_cache(maxsize=256)
def tdesc_attr(
    memory_scope: str = "global",
    array_length: int = 1,
    boundary_check: bool = True,
    scattered: bool = False,
    chunk_size_per_lane: int = 0,
) -> TdescAttr:
    """The attribute of these properties.

    >>> print(tdesc_attr(memory_scope="slm", boundary_check=False))
    #xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>
    """
    return TdescAttr(
        MemoryScopeAttr(memory_scope), IntAttr(array_length), IntAttr(int(boundary_check)),
        IntAttr(int(scattered)), IntAttr(chunk_size_per_lane),
    )  # fmt: skip


_DEFAULTS = {
    "memory_scope": "global",
    "array_length": 1,
    "boundary_check": True,
    "scattered": False,
    "chunk_size_per_lane": 0,
}


def parse_optional_field(parser: AttrParser, found: dict[str, Any]) -> bool:
    """Read one `name = value` of a tdesc_attr into `found`; False if there is none."""
    name = parser.parse_optional_identifier()
    if name is None:
        return False
    if name in found:
        parser.raise_error(f"{name} is given twice")
    if name not in _DEFAULTS:
        parser.raise_error(
            f"a tensor_desc has memory_scope, array_length, boundary_check, scattered and"
            f" chunk_size_per_lane, not {name}"
        )
    parser.parse_punctuation("=")
    match _DEFAULTS[name]:
        case bool():
            found[name] = parser.parse_boolean()
        case int():
            found[name] = parser.parse_integer()
        case _:
            found[name] = MemoryScopeAttr.parse_keyword(parser)
    return True
