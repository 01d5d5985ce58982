"""Common parts of the ops of XeTile and XeGPU: syntax, index lists, cache hints, addresses.

    xegpu.load_nd %tile {L1_hint = cached, transpose = [1, 0], packed} : !type -> vector<...>
    xegpu.create_nd_tdesc %base, %y, 0, %height, 64, %pitch, 1 : i64, index, i32, index -> ...

Attribute dictionaries print keywords and lists without quotes or types, as the RFC does, and may
precede the operands.  `into` and `to` are read for `->`.  Offsets, sizes and strides are one flat
list in which every entry is a value or a number.  Numbers are stored in `static_*` properties, with
MLIR's marker (the least i64) in the position of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Self, cast

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
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrConstraint, operand_def, opt_prop_def, var_operand_def
from xdsl.irdl.constraints import VerificationContext
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.access_attributes import (
    STORE_HINTS,
    CacheHintAttr,
    KeywordAttr,
    parse_int_list,
)
from triton_xe.dialects.text.assembly import FieldOp, parse_operand_list, print_type_after, resolve
from triton_xe.errors import LegalityError

Index = SSAValue | int
"""An offset, size or stride: a value, or a number known when the program is compiled."""


# Types of operands


class TypeConstraint(AttrConstraint):
    """Constraint that `accepts` takes the type; `rule` describes it."""

    def __init__(self, rule: str, accepts: Callable[[Attribute], bool]) -> None:
        self.rule = rule
        self.accepts = accepts

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not self.accepts(attr):
            raise VerifyException(f"{self.rule}, not {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> TypeConstraint:
        return self


def is_index(type_: Attribute, widths: tuple[int, ...]) -> bool:
    """True if a type is index, or an integer of one of these widths."""
    integer = isinstance(type_, IntegerType) and type_.bitwidth in widths
    return integer or isinstance(type_, IndexType)


def _is_address(type_: Attribute) -> bool:
    pointer = isinstance(type_, MemRefType) or type_.name in ("tt.ptr", "llvm.ptr")
    return pointer or is_index(type_, (64,))


ADDRESS = TypeConstraint(
    "a base address is a memref, i64, ui64, index, !tt.ptr or !llvm.ptr", _is_address
)
INDEX = TypeConstraint(
    "an offset, size, stride or count is index, i32 or i64", lambda type_: is_index(type_, (32, 64))
)


def show_vector(shape: Iterable[int], element: Attribute) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


def with_result_of_acc(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Fields of a product, with the type of `acc` as result type if none is given."""
    if given.get("result_type") is None:
        if given.get("acc") is None:
            raise LegalityError(f"{name} without acc needs a result type")
        given["result_type"] = given["acc"].type
    return given


# Attribute dictionaries


@lru_cache(maxsize=4096)
def static_array(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=4096)
def static_values(array: DenseArrayBase) -> tuple[int, ...]:
    return tuple(cast("DenseArrayBase[IntegerType]", array).get_values())


_RESERVED = frozenset({
    "L1_hint", "L2_hint", "L3_hint", "memory_scope", "transpose", "inner_blocks",
    "transpose_bit_width", "chunk_size_per_lane", "packed", "sg_map_a", "sg_map_b", "sg_map_c",
    "xe.valid", "xe.base_alignment", "xe.gather", "xe.transposed",
})  # fmt: skip
"""Properties of some ops, which are therefore refused as attributes of other ops."""
_SYNONYMS = {"L1": "L1_hint", "L2": "L2_hint", "L3": "L3_hint"}

Entries = dict[str, Attribute]


def _parse_dictionary(parser: Parser, op: type[TileOp], properties: Entries) -> Entries:
    """Parse an optional dictionary: the op's properties into `properties`; return the other
    entries.
    """
    known = op.get_irdl_definition().properties
    attributes: Entries = {}

    def entry() -> None:
        name = parser.parse_identifier_or_str_literal()
        name = _SYNONYMS.get(name, name)
        if name in _RESERVED and name not in known:
            parser.raise_error(f"{op.name} has no {name}")
        into = properties if name in known else attributes
        if name in into:
            parser.raise_error(f"{name} is given twice")
        if parser.parse_optional_punctuation("=") is None:
            into[name] = UnitAttr()
        elif name in known:
            into[name] = _parse_property(parser, known[name].constr)
        else:
            into[name] = parser.parse_attribute()

    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, entry)
    return attributes


def _parse_property(parser: Parser, constraint: AttrConstraint) -> Attribute:
    """Parse a keyword, `[8, 16]` or a number if the property is one of these, otherwise an
    attribute.
    """
    for base in constraint.get_bases() or ():
        if issubclass(base, KeywordAttr):
            return base(base.parse_keyword(parser))
        if base is DenseArrayBase:
            return static_array(parse_int_list(parser))
        if base is IntegerAttr:
            value = IntegerAttr(parser.parse_integer(), i32)
            if parser.parse_optional_punctuation(":") is not None:
                parser.parse_type()
            return value
    return parser.parse_attribute()


def _print_entry(printer: Printer, name: str, attr: Attribute, inherent: bool) -> None:
    printer.print_identifier_or_string_literal(name)
    if isinstance(attr, UnitAttr):
        return
    printer.print_string(" = ")
    match attr:
        case KeywordAttr() if inherent:
            printer.print_string(attr.data)
        case DenseArrayBase() if inherent:
            printer.print_string(str(list(static_values(attr))))
        case IntegerAttr() if inherent:
            printer.print_string(str(attr.value.data))
        case _:
            printer.print_attribute(attr)


# Ops


class TileOp(FieldOp):
    """`%a, %b, 4 {...} : types -> type`, without the arrow if the op has no result."""

    LISTS: ClassVar[tuple[str, ...]] = ()
    """Lists of values and numbers that follow the first operand; each has a `static_` property."""
    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """Other properties that are not printed in the dictionary."""
    LAST_AS_RESULT: ClassVar = False
    """True if the last operand's type may be left out when it equals that of the result."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls.parse_rest(parser, {})

    @classmethod
    def parse_rest(cls, parser: Parser, properties: Entries) -> Self:
        """Parse everything after `properties`, which are already read."""
        fields = cls.get_irdl_definition()
        attributes = _parse_dictionary(parser, cls, properties)
        operands: list[UnresolvedOperand | int] = []
        types: list[Attribute] = []
        results: list[Attribute] = []
        if fields.operands:
            operands = _parse_operands(parser, numbers=bool(cls.LISTS))
            attributes |= _parse_dictionary(parser, cls, properties)
            parser.parse_punctuation(":")
            types += parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if fields.results:
            _parse_arrow(parser)
            results.append(parser.parse_type())
        if cls.LAST_AS_RESULT and len(operands) == len(types) + 1 == 3:
            types += results
        values = _resolve(parser, operands, types)
        if cls.LISTS:
            lists = cls.lists_of(parser, values[1:], results[0])
            del values[1:]
            for name, indices in zip(cls.LISTS, lists, strict=True):
                properties[f"static_{name}"] = _split(indices, values)
        return cls.create(
            operands=values, result_types=results, properties=properties, attributes=attributes
        )

    @classmethod
    def lists_of(
        cls, parser: Parser, flat: list[Index], result: Attribute
    ) -> Sequence[Sequence[Index]]:
        """Split the flat list after the first operand into the op's lists."""
        return (flat,)

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.shown_operands(), lambda shown: _print_index(printer, shown))
        hidden = (*self.HIDDEN, *(f"static_{name}" for name in self.LISTS))
        entries = [
            (name, attr, True) for name, attr in self.properties.items() if name not in hidden
        ]
        entries += [(name, attr, False) for name, attr in self.attributes.items()]
        if entries:
            printer.print_string(" {")
            printer.print_list(entries, lambda entry: _print_entry(printer, *entry))
            printer.print_string("}")
        if self.operands:
            print_type_after(printer, ":", *self.operand_types)
        if self.results:
            print_type_after(printer, "->", *self.result_types)

    def shown_operands(self) -> Iterable[Index]:
        return self.operands

    def verify_vector(
        self, what: str, vector: Attribute, shapes: Sequence[tuple[int, ...]], element: Attribute
    ) -> None:
        """Refuse `vector` unless it has one of `shapes` and the element type."""
        held = vector.get_shape() if isinstance(vector, VectorType) else None
        if held not in shapes or get_element_type_or_self(vector) != element:
            allowed = " or ".join(show_vector(shape, element) for shape in shapes)
            self.refuse(f"{what} is {allowed}, not {vector}")

    def verify_memref(self, base: Attribute, rank: int, element: Attribute) -> None:
        """Refuse a memref that cannot contain blocks of `rank` dimensions and such elements."""
        if not isinstance(base, MemRefType):
            return
        if base.get_num_dims() != rank:
            self.refuse(f"{rank}D blocks are in {rank}D memrefs, not in {base}")
        if base.element_type != element:
            self.refuse(f"the memref holds {base.element_type}, the blocks {element}")
        strides = base.get_strides()
        if strides is not None and strides[-1] not in (None, 1, DYNAMIC_INDEX):
            self.refuse(
                f"the innermost dimension of {base} is not contiguous; its stride must be 1"
            )


def _parse_operands(parser: Parser, numbers: bool) -> list[UnresolvedOperand | int]:
    if not numbers:
        return [*parse_operand_list(parser)]
    operands: list[UnresolvedOperand | int] = [parser.parse_unresolved_operand()]
    while parser.parse_optional_punctuation(",") is not None:
        number = parser.parse_optional_integer(allow_boolean=False)
        operands.append(parser.parse_unresolved_operand() if number is None else number)
    return operands


def _resolve(
    parser: Parser, operands: Sequence[UnresolvedOperand | int], types: Sequence[Attribute]
) -> list[Any]:
    """Give each value its type; `types` has those of the values only, in their order."""
    named = [operand for operand in operands if not isinstance(operand, int)]
    if len(named) < len(operands) and len(named) != len(types):
        parser.raise_error(
            f"{len(named) - 1} values in the index list, but {len(types) - 1} types for them"
        )
    values = iter(resolve(parser, named, types))
    return [operand if isinstance(operand, int) else next(values) for operand in operands]


def _parse_arrow(parser: Parser) -> None:
    """Parse `->`, or one of the RFC's words for it."""
    if parser.parse_optional_keyword_in(("into", "to")) is None:
        parser.parse_punctuation("->")


def _print_index(printer: Printer, index: Index) -> None:
    if isinstance(index, int):
        printer.print_string(str(index))
    else:
        printer.print_operand(index)


class IndexedOp(TileOp):
    """An op on one value and lists of offsets, sizes or strides."""

    LISTS: ClassVar[tuple[str, ...]] = ("offsets",)

    indices = var_operand_def(INDEX)

    def __init__(self, **given: Any) -> None:
        """Build as `FieldOp`, with the lists by their names."""
        values: list[SSAValue] = []
        for name in self.LISTS:
            given[f"static_{name}"] = _split(given.pop(name, ()), values)
        super().__init__(indices=values, **given)

    @property
    def static_lists(self) -> tuple[tuple[int, ...], ...]:
        """The lists, with a marker in the position of each value."""
        arrays = (self.properties[f"static_{name}"] for name in self.LISTS)
        return tuple(static_values(cast("DenseArrayBase", array)) for array in arrays)

    @property
    def index_lists(self) -> tuple[tuple[Index, ...], ...]:
        lists = self.static_lists
        if not any(DYNAMIC_INDEX in numbers for numbers in lists):
            return lists
        values = iter(self.indices)
        return tuple(_filled(numbers, values) for numbers in lists)

    @property
    def offsets(self) -> tuple[Index, ...]:
        """The first list."""
        numbers = static_values(cast("DenseArrayBase", self.properties[f"static_{self.LISTS[0]}"]))
        if DYNAMIC_INDEX not in numbers:
            return numbers
        return _filled(numbers, iter(self.indices))

    def verify_indices(self) -> None:
        expected = sum(numbers.count(DYNAMIC_INDEX) for numbers in self.static_lists)
        if expected != len(self.indices):
            self.refuse(
                f"the static arrays leave {expected} entries to values, but there are"
                f" {len(self.indices)}"
            )

    def shown_operands(self) -> Iterable[Index]:
        return (self.operands[0], *chain.from_iterable(self.index_lists))


class PlacedOp(IndexedOp):
    """An op that describes a part of a base tensor; its lists are of that tensor."""

    base = operand_def(ADDRESS)
    gather = opt_prop_def(UnitAttr, prop_name="xe.gather")
    base_alignment = opt_prop_def(IntegerAttr, prop_name="xe.base_alignment")

    def verify_alignment(self) -> None:
        """Refuse an alignment that is no power of 2."""
        known = 1 if self.base_alignment is None else self.base_alignment.value.data
        if known.bit_count() != 1:
            self.refuse(f"xe.base_alignment is a power of 2, not {known}")


def _filled(numbers: tuple[int, ...], values: Iterator[SSAValue]) -> tuple[Index, ...]:
    """Replace each marker by a value."""
    return tuple([next(values) if number == DYNAMIC_INDEX else number for number in numbers])


def _split(indices: Sequence[Index], values: list[SSAValue]) -> DenseArrayBase:
    """Create the `static_*` property of `indices`; append the values among them to `values`."""
    values += (index for index in indices if not isinstance(index, int))
    return static_array(
        tuple(index if isinstance(index, int) else DYNAMIC_INDEX for index in indices)
    )


# Cache hints

HINTS = ("L1_hint", "L2_hint", "L3_hint")
_HINT_FIELDS = ("l1_hint", "l2_hint", "l3_hint")
_CODES = {
    "cached": "ca", "uncached": "uc", "streaming": "st", "read_invalidate": "ri",
    "write_through": "wt", "write_back": "wb",
}  # fmt: skip


class HintedOp(TileOp):
    """An access with cache hints; `ALLOWED_HINTS` are those of its direction."""

    ALLOWED_HINTS: ClassVar[tuple[str, ...]] = ()

    l1_hint = opt_prop_def(CacheHintAttr, prop_name="L1_hint")
    l2_hint = opt_prop_def(CacheHintAttr, prop_name="L2_hint")
    l3_hint = opt_prop_def(CacheHintAttr, prop_name="L3_hint")

    def __init__(self, **given: Any) -> None:
        """Build as `FieldOp`, with the hints printed first."""
        hints = {name: given.pop(name) for name in _HINT_FIELDS if name in given}
        super().__init__(**hints, **given)

    @property
    def cache_hints(self) -> tuple[str | None, str | None, str | None]:
        """Hints for L1, L2 and L3; None if the hardware decides."""
        one, two, three = (
            None if attr is None else attr.data
            for attr in (self.l1_hint, self.l2_hint, self.l3_hint)
        )
        return one, two, three

    @property
    def cache_policy(self) -> str:
        """The hints as a cache policy of `hardware.block_2d.cache_code`, such as "uc.ca".

        It is "default" without hints.  Messages have codes for L1 and L3, so L2_hint counts if
        L3_hint is missing.  A level without a hint caches (loads) or writes back (stores).
        """
        l1, l2, l3 = self.cache_hints
        if l1 is None and l2 is None and l3 is None:
            return "default"
        outer = l3 or l2
        if l1 == "read_invalidate" and outer is None:
            return "ri"
        usual = "write_back" if self.ALLOWED_HINTS is STORE_HINTS else "cached"
        return f"{_CODES[l1 or usual]}.{_CODES[outer or usual]}"

    def verify_hints(self) -> None:
        """Refuse hints of the other direction, and properties of other ops."""
        for name in _RESERVED & self.attributes.keys():
            raise VerifyException(f"{self.name} has no {name}")
        for name, hint in zip(HINTS, self.cache_hints, strict=True):
            if hint is not None and hint not in self.ALLOWED_HINTS:
                self.refuse(f"{name} is one of {', '.join(self.ALLOWED_HINTS)}, not {hint}")
