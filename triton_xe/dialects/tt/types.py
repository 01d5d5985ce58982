"""Types and attributes of dialect `tt`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import element_type, with_element_type

GLOBAL = "global"
"""Address space that libtriton does not print in a pointer type."""

ADDRESS_SPACES = (GLOBAL, "constant", "descriptor")


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<f32>`, or with an address space other than global `!tt.ptr<f32, "constant">`."""

    name = "tt.ptr"
    pointee: Attribute
    address_space: StringAttr

    def __init__(self, pointee: Attribute, address_space: str = GLOBAL) -> None:
        super().__init__(pointee, StringAttr(address_space))

    def verify(self) -> None:
        if self.address_space.data not in ADDRESS_SPACES:
            raise VerifyException(f"no address space '{self.address_space.data}'")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            space = GLOBAL
            if parser.parse_optional_punctuation(",") is not None:
                space = parser.parse_str_literal()
        return [pointee, StringAttr(space)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            if self.address_space.data != GLOBAL:
                printer.print_string(f', "{self.address_space.data}"')


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """`!tt.tensordesc<64x32xf16>`: block shape, element type, optional shared layout."""

    name = "tt.tensordesc"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    shared_layout: Attribute

    def __init__(
        self,
        shape: Sequence[int],
        element_type: Attribute,
        shared_layout: Attribute | None = None,
    ) -> None:
        dims = ArrayAttr([IntAttr(n) for n in shape])
        super().__init__(dims, element_type, shared_layout or NoneAttr())

    def get_shape(self) -> tuple[int, ...]:
        return tuple(n.data for n in self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            layout: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(",") is not None:
                layout = parser.parse_attribute()
        return [ArrayAttr([IntAttr(n) for n in shape]), element, layout]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{n}x" for n in self.get_shape()))
            printer.print_attribute(self.element_type)
            if not isinstance(self.shared_layout, NoneAttr):
                printer.print_string(", ")
                printer.print_attribute(self.shared_layout)


@irdl_attr_definition
class CachePolicyAttr(Data[tuple[str, str]]):
    """`#tt.cache_policy<cache_modifier = ca, eviction_policy = evict_last>`: hints of a message."""

    name = "tt.cache_policy"

    MODIFIERS: ClassVar = ("none", "ca", "cg", "wb", "cs", "wt", "cv")
    EVICTIONS: ClassVar = ("evict_normal", "evict_first", "evict_last")

    @property
    def cache_modifier(self) -> str:
        return self.data[0]

    @property
    def eviction_policy(self) -> str:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, str]:
        with parser.in_angle_brackets():
            parser.parse_keyword("cache_modifier")
            parser.parse_punctuation("=")
            modifier = parser.parse_keyword_in(cls.MODIFIERS)
            parser.parse_punctuation(",")
            parser.parse_keyword("eviction_policy")
            parser.parse_punctuation("=")
            eviction = parser.parse_keyword_in(cls.EVICTIONS)
        return modifier, eviction

    def print_parameter(self, printer: Printer) -> None:
        modifier, eviction = self.data
        printer.print_string(f"<cache_modifier = {modifier}, eviction_policy = {eviction}>")


@lru_cache(maxsize=4096)
def pointee_type(type_: Attribute) -> Attribute:
    """Type that a pointer, or a tensor of pointers, points to: a scalar, or a tensor of scalars."""
    pointer = element_type(type_)
    if not isinstance(pointer, PointerType):
        raise VerifyException(f"{type_} is no pointer")
    return with_element_type(type_, pointer.pointee)
