"""What the ops of XeTile and XeGPU share: index lists, attribute dictionaries, address types.

Offsets, sizes and strides are one flat list in which every entry is a value or a number:

    xegpu.create_nd_tdesc %base, %y, 0, %height, 64, %pitch, 1 : i64, index, i32, index -> ...

Numbers live in `static_*` properties, with MLIR's marker (the least i64) where a value goes.
Attribute dictionaries write keywords and lists bare, as the RFC does: `{L1_hint = cached,
transpose = [1, 0], packed}`.  `into` and `to` are read for `->`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrConstraint, IRDLOperation
from xdsl.irdl.constraints import VerificationContext
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import (
    AtomicKindAttr,
    CacheHintAttr,
    FenceScopeAttr,
    KeywordAttr,
    MemoryKindAttr,
    MemoryScopeAttr,
    parse_int_list,
)
from triton_xe.dialects.text.assembly import (
    parse_operand_list,
    parse_type_list,
    print_type_after,
    property_names,
    resolve,
)

Index = SSAValue | int
"""An offset, size or stride: a value, or a number known when the program is compiled."""

POINTER_TYPES = ("tt.ptr", "llvm.ptr")


class AddressConstraint(AttrConstraint):
    """A base address: memref, 64-bit integer, index or pointer."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if isinstance(attr, MemRefType | IndexType) or attr.name in POINTER_TYPES:
            return
        if isinstance(attr, IntegerType) and attr.bitwidth == 64:
            return
        raise VerifyException(
            f"a base address is a memref, i64, ui64, index, !tt.ptr or !llvm.ptr, not {attr}"
        )

    def mapping_type_vars(self, type_var_mapping: Any) -> AddressConstraint:
        return self


def is_index_like(attr: Attribute) -> bool:
    return isinstance(attr, IndexType) or (
        isinstance(attr, IntegerType) and attr.bitwidth in (32, 64)
    )


class IndexConstraint(AttrConstraint):
    """An offset, size or stride: index, or an integer of 32 or 64 bits."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not is_index_like(attr):
            raise VerifyException(
                f"an offset, size, stride or count is index, i32 or i64, not {attr}"
            )

    def mapping_type_vars(self, type_var_mapping: Any) -> IndexConstraint:
        return self


@lru_cache(maxsize=4096)
def static_array(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=4096)
def static_values(array: DenseArrayBase) -> tuple[int, ...]:
    return tuple(cast("DenseArrayBase[IntegerType]", array).get_values())


def split_indices(indices: Sequence[Index], values: list[SSAValue]) -> DenseArrayBase:
    """The `static_*` property of `indices`; the values among them are appended to `values`."""
    numbers = []
    for index in indices:
        if isinstance(index, int):
            numbers.append(index)
        else:
            numbers.append(DYNAMIC_INDEX)
            values.append(index)
    return static_array(tuple(numbers))


def join_indices(array: DenseArrayBase, values: Iterator[SSAValue]) -> tuple[Index, ...]:
    """The inverse of `split_indices`; takes as many values as the property has markers."""
    return tuple(
        next(values) if number == DYNAMIC_INDEX else number for number in static_values(array)
    )


def verify_value_count(name: str, values: Sequence[SSAValue], *arrays: DenseArrayBase) -> None:
    expected = sum(static_values(array).count(DYNAMIC_INDEX) for array in arrays)
    if expected != len(values):
        raise VerifyException(
            f"{name}: the static arrays leave {expected} entries to values, but there are"
            f" {len(values)}"
        )


UnresolvedIndex = UnresolvedOperand | int


def parse_index_list(parser: Parser) -> list[UnresolvedIndex]:
    """`, %a, 4, ...` up to the attribute dictionary or the colon; may be empty."""
    indices: list[UnresolvedIndex] = []
    while parser.parse_optional_punctuation(",") is not None:
        number = parser.parse_optional_integer(allow_boolean=False)
        indices.append(parser.parse_unresolved_operand() if number is None else number)
    return indices


def resolve_indices(
    parser: Parser, indices: Sequence[UnresolvedIndex], types: Sequence[Attribute]
) -> list[Index]:
    """Give each value its type; the types are those of the values only, in their order."""
    count = sum(not isinstance(index, int) for index in indices)
    if count != len(types):
        parser.raise_error(f"{count} values in the index list, but {len(types)} types for them")
    remaining = iter(types)
    return [
        index if isinstance(index, int) else parser.resolve_operand(index, next(remaining))
        for index in indices
    ]


def print_indices(printer: Printer, indices: Iterable[Index]) -> None:
    for index in indices:
        printer.print_string(", ")
        if isinstance(index, int):
            printer.print_string(str(index))
        else:
            printer.print_operand(index)


def parse_arrow(parser: Parser) -> None:
    """`->`, or one of the RFC's words for it."""
    if parser.parse_optional_keyword_in(("into", "to")) is None:
        parser.parse_punctuation("->")


def _keyword_reader(attr: type[KeywordAttr]) -> Callable[[Parser], Attribute]:
    return lambda parser: attr(attr.parse_keyword(parser))


def _int_list(parser: Parser) -> Attribute:
    return static_array(parse_int_list(parser))


def _int(parser: Parser) -> Attribute:
    value = IntegerAttr(parser.parse_integer(), i32)
    if parser.parse_optional_punctuation(":") is not None:
        parser.parse_type()
    return value


_READERS: dict[str, Callable[[Parser], Attribute]] = {
    "L1_hint": _keyword_reader(CacheHintAttr),
    "L2_hint": _keyword_reader(CacheHintAttr),
    "L3_hint": _keyword_reader(CacheHintAttr),
    "memory_scope": _keyword_reader(MemoryScopeAttr),
    "scope": _keyword_reader(FenceScopeAttr),
    "memory_kind": _keyword_reader(MemoryKindAttr),
    "kind": _keyword_reader(AtomicKindAttr),
    "transpose": _int_list,
    "inner_blocks": _int_list,
    "transpose_bit_width": _int,
    "chunk_size_per_lane": _int,
    "xe.valid": _int_list,
    "xe.base_alignment": _int,
}
RESERVED = frozenset(_READERS) - {"scope", "memory_kind", "kind"} | {
    "packed", "sg_map_a", "sg_map_b", "sg_map_c", "xe.gather", "xe.transposed", "xe.at_use",
}  # fmt: skip
"""Names that mean something on some op, and so are refused on the others."""
_SYNONYMS = {"L1": "L1_hint", "L2": "L2_hint", "L3": "L3_hint"}

Entries = dict[str, Attribute]


def parse_attr_dict(parser: Parser, op: type[Operation]) -> tuple[Entries, Entries]:
    """Read an optional dictionary; returns (properties, attributes)."""
    known = property_names(op)
    properties: Entries = {}
    attributes: Entries = {}

    def entry() -> None:
        name = parser.parse_identifier_or_str_literal()
        name = _SYNONYMS.get(name, name)
        if name in RESERVED - known:
            parser.raise_error(f"{op.name} has no {name}")
        into = properties if name in known else attributes
        if name in into:
            parser.raise_error(f"{name} is given twice")
        into[name] = _parse_entry(parser, name, name in known)

    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, entry)
    return properties, attributes


def _parse_entry(parser: Parser, name: str, inherent: bool) -> Attribute:
    if parser.parse_optional_punctuation("=") is None:
        return UnitAttr()
    if inherent and name in _READERS:
        return _READERS[name](parser)
    return parser.parse_attribute()


def print_attr_dict(printer: Printer, op: Operation, elided: Iterable[str] = ()) -> None:
    """Print properties, then attributes, as ` {...}`; nothing when there are none."""
    hidden = set(elided)
    shown = [(name, attr) for name, attr in op.properties.items() if name not in hidden]
    if not shown and not op.attributes:
        return
    printer.print_string(" {")
    printer.print_list(shown, lambda item: _print_property(printer, *item))
    if op.attributes:
        printer.print_string(", " if shown else "")
        printer.print_list(op.attributes.items(), lambda item: _print_attribute(printer, *item))
    printer.print_string("}")


def _print_property(printer: Printer, name: str, attr: Attribute) -> None:
    if isinstance(attr, KeywordAttr):
        printer.print_string(f"{name} = {attr.data}")
    elif isinstance(attr, DenseArrayBase):
        printer.print_string(f"{name} = {list(static_values(attr))}")
    elif isinstance(attr, IntegerAttr):
        printer.print_string(f"{name} = {attr.value.data}")
    else:
        _print_attribute(printer, name, attr)


def _print_attribute(printer: Printer, name: str, attr: Attribute) -> None:
    printer.print_identifier_or_string_literal(name)
    if not isinstance(attr, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(attr)


def print_types(printer: Printer, *types: Attribute) -> None:
    printer.print_string(" : ")
    printer.print_list(types, printer.print_attribute)


_Op = TypeVar("_Op", bound=Operation)


def parse_usual(
    cls: type[_Op], parser: Parser, given: Mapping[str, Attribute] | None = None
) -> _Op:
    """`%a, %b {...} : types -> type` without the arrow where the op has no result.

    The dictionary may stand before the operands too; `given` properties were read before it.
    """
    early, _ = parse_attr_dict(parser, cls)
    operands = parse_operand_list(parser)
    properties, attributes = parse_attr_dict(parser, cls)
    parser.parse_punctuation(":")
    types = parse_type_list(parser)
    results: tuple[Attribute, ...] = ()
    if issubclass(cls, IRDLOperation) and cls.get_irdl_definition().results:
        parse_arrow(parser)
        results = (parser.parse_type(),)
    return cls.create(
        operands=resolve(parser, operands, types), result_types=results,
        properties={**(given or {}), **early, **properties}, attributes=attributes,
    )


def print_usual(printer: Printer, op: Operation, elided: Iterable[str] = ()) -> None:
    """The inverse of `parse_usual`."""
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_operand)
    print_attr_dict(printer, op, elided)
    print_types(printer, *(operand.type for operand in op.operands))
    for result in op.results:
        print_type_after(printer, "->", result.type)


class UsualSyntax(IRDLOperation):
    """Operands, dictionary, operand types and, if there is one, the result's type."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return parse_usual(cls, parser)

    def print(self, printer: Printer) -> None:
        print_usual(printer, self)


def show_shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def show_vector(shape: Iterable[int], element: Attribute) -> str:
    return f"vector<{show_shape(shape)}x{element}>"


def verify_vector(
    name: str, what: str, vector: Attribute, shapes: Sequence[tuple[int, ...]], element: Attribute
) -> None:
    """Refuse `vector` unless it has one of `shapes` and the element type."""
    if (
        isinstance(vector, VectorType)
        and vector.element_type == element
        and vector.get_shape() in shapes
    ):
        return
    allowed = " or ".join(show_vector(shape, element) for shape in shapes)
    raise VerifyException(f"{name}: {what} is {allowed}, not {vector}")
