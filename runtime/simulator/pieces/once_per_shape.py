"""Outline repeated vector code of large host functions, so that LLVM compiles each kind once.

LLVM's time grows faster than the code of a function, and kernels repeat the same work on many
elements.  Therefore vectors are stored in a frame in memory, and operations on them become pieces
(`cutter`).  Pieces that differ only in constants have one shape, and call one function:

    %x = (%x + %y) * 7   ->   call @xe.piece.3(ptr %frame, i64 64, i64 576, i32 7, i64 64)

Vectors are passed as their offsets in the frame.  The remaining function has only scalars and
calls.  A piece that is no longer than a call is inlined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.liveness import Path, Step
from triton_xe.llvm.records import Block, Function, Global, Instruction, Operand, constant
from triton_xe.llvm.types import I1, I8, I64, PTR, VOID, Type, array
from triton_xe.runtime.simulator.analysis.assign_offsets import LINE, assign_offsets
from triton_xe.runtime.simulator.library.symbols import piece_symbol
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pieces.cutter import (
    Cutter,
    Element,
    Item,
    Piece,
    Place,
    with_own_edges,
)
from triton_xe.runtime.simulator.pieces.stretches import outlined_stretches

LARGE = 12_000
"""Machine instructions from which on a function is split: half a second of LLVM's time."""
_MEMORY = Operand(PTR, "%pieces")
Key = tuple[object, ...]


def is_large(function: Function, costs: HostCosts) -> bool:
    """True if a function is split into pieces."""
    return sum(map(costs.cost, function.instructions())) > LARGE


def once_per_shape(function: Function, costs: HostCosts) -> tuple[list[Function], list[Global]]:
    """Split a host function; return it with the functions of its pieces, and their constants."""
    made = _Separated(function, costs)
    return made.functions(), list(made.constants.values())


@dataclass
class _Use:
    """A piece, its inputs, and its constants in the order of its shape."""

    piece: Piece
    leaves: list[Operand]
    constants: list[Operand]


@dataclass
class _Shape:
    """The function of all pieces that are equal up to constants."""

    name: str
    uses: list[_Use] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    """Indices of the constants that differ between pieces, and are parameters."""
    splats: set[int] = field(default_factory=set)
    """Indices of parameters that are splats in each piece, and are passed as scalars."""
    is_short: bool = False
    """True if a piece is no longer than its call, so that it is inlined."""


class _Separated:
    """Splits one function."""

    def __init__(self, function: Function, costs: HostCosts) -> None:
        self.function, self.costs = function, costs
        blocks = with_own_edges(function.blocks)
        self.blocks = Facts(replace(function, blocks=blocks)).order
        self.cutter = Cutter(self.blocks, costs)
        self.constants: dict[str, Global] = {}
        self.shapes: dict[Key, _Shape] = {}
        self.shape_of: dict[Piece, tuple[_Shape, _Use]] = {}
        self.count = 0

    def functions(self) -> list[Function]:
        """The remaining function, and the functions of shapes that are not inlined."""
        items = self._items()
        for row in items.values():
            for item in row:
                if isinstance(item, Piece):
                    self._note(item)
        for shape in self.shapes.values():
            first = shape.uses[0].constants
            shape.given = [k for k in range(len(first)) if any(
                use.constants[k].text != first[k].text for use in shape.uses)]
            shape.splats = {k for k in shape.given if all(
                use.constants[k].is_splat for use in shape.uses)}
            shape.is_short = self._is_short(shape)
        self.offsets, nbytes = self._offsets(items)
        own = [self._function(shape) for shape in self.shapes.values()
               if not shape.is_short]
        return [*outlined_stretches(self._rest(items, nbytes), self._attributes), *own]

    @property
    def _attributes(self) -> str:
        """Attributes of the functions that the split one calls."""
        return (f'noinline nounwind alignstack({self.costs.width}) '
                '"min-legal-vector-width"="512" "prefer-vector-width"="512"')

    # --- pieces -------------------------------------------------------------------------------

    def _items(self) -> dict[str, list[Item]]:
        """Cut the blocks into items, with copies to the phis of vectors of their successors."""
        cutter = self.cutter
        for name, t in self.function.parameters:
            if t.kind == "vec":
                cutter.root(Operand(t, name))
        phis = {b.label: [i for i in b.phis if i.type.kind == "vec"] for b in self.blocks}
        for i in (i for each in phis.values() for i in each):
            cutter.root(i.value)
        items = {b.label: cutter.cut(b) for b in self.blocks}
        for block in self.blocks:
            row = items[block.label]
            last = row.pop()
            row += self._copies(block.label, [
                i for label in dict.fromkeys(block.successors) for i in phis[label]])
            row.append(last)
        return items

    def _copies(self, label: str, phis: Sequence[Instruction]) -> Iterator[Piece]:
        """Copies of values to phis at the end of a block.

        A phi that another phi reads is copied to a temporary first.
        """
        cutter, later = self.cutter, list[Piece]()
        targets = {str(i.result) for i in phis}
        for i in phis:
            to = str(i.result)
            for x, source in zip(i.operands, i.labels, strict=True):
                place = cutter.places.get(x.text)
                if source != label or x.is_undefined or place == Place(to):
                    continue
                if place is None or place.root not in targets:
                    later.append(cutter.copied(x, to))
                    continue
                self.count += 1
                between = Operand(x.type, f"{to}.between.{self.count}")
                yield cutter.copied(x, cutter.root(between))
                later.append(cutter.copied(between, to))
        yield from later

    def _note(self, piece: Piece) -> None:
        """Assign a piece to the shape that it has."""
        use = _Use(piece, [], [])
        key = _key(use)
        name = piece_symbol(self.function.name, len(self.shapes))
        shape = self.shapes.setdefault(key, _Shape(name))
        shape.uses.append(use)
        self.shape_of[piece] = shape, use

    def _is_short(self, shape: _Shape) -> bool:
        """True if the work of a shape costs no more than a call of it."""
        use = shape.uses[0]
        moved = [x.type for x in use.leaves if x.type.kind == "vec"]
        moved += [use.piece.value.type] if use.piece.to and use.piece.value is not None else []
        own = sum(map(self.costs.cost, use.piece.body)) + sum(map(self.costs.registers, moved))
        return own <= 2 + len(use.leaves) + len(shape.given) + bool(use.piece.to)

    # --- memory -------------------------------------------------------------------------------

    def _offsets(self, items: dict[str, list[Item]]) -> tuple[dict[str, int], int]:
        """Frame offset of each root."""
        cutter = self.cutter

        def roots(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(cutter.places[x].root for x in names if x in cutter.places)

        def step(item: Item) -> Step:
            if isinstance(item, Element):
                return Step((item.of.root,))
            if isinstance(item, Piece):
                return Step(roots(x.text for x in item.inputs()), (item.to,) if item.to else ())
            if item.opcode == "phi":
                return Step(())
            return Step(roots(item.locals()), roots(iter([item.result or ""])))

        entry = Step((), roots(name for name, _ in self.function.parameters))
        paths = [Path(b.label, [*([] if k else [entry]), *map(step, items[b.label])], b.successors)
                 for k, b in enumerate(self.blocks)]
        return assign_offsets(paths, {x: t.size for x, t in cutter.types.items()})

    # --- the remaining function ---------------------------------------------------------------

    def _rest(self, items: dict[str, list[Item]], nbytes: int) -> Function:
        """The remaining function, of scalars and calls."""
        self.b = b = Builder(replace(self.function, blocks=[]), "piece")
        for block in self.blocks:
            b.start(block.label)
            if block is self.blocks[0]:
                self._entry(nbytes)
            for item in items[block.label]:
                self._write(item)
        return b.function

    def _entry(self, nbytes: int) -> None:
        """Create the frame, and store vector parameters in it."""
        area = Instruction("alloca", PTR, [], _MEMORY.text, element=array(max(1, nbytes), I8),
                           align=LINE)
        self.b.append(area)
        for name, t in self.function.parameters:
            if t.kind == "vec":
                self._keep(Operand(t, name))

    def _write(self, item: Item) -> None:
        """Write a load of an element, a piece, or an operation with operands from the frame."""
        if isinstance(item, Element):
            at = self._at(item.of)
            x = item.result
            if x.type is I1:
                self._named("trunc", x, [self.b.load(I8, at)])
            else:
                self._named("load", x, [at], align=x.type.size)
        elif isinstance(item, Piece):
            self._write_piece(item)
        elif item.opcode == "phi":
            if item.type.kind != "vec":
                self.b.append(item)
        else:
            given = [self._kept_operand(o) for o in item.operands]
            self.b.append(item.with_operands(given))
            if item.type.kind == "vec":
                self._keep(item.value)

    def _named(self, opcode: str, result: Operand, operands: list[Operand], align: int = 0) -> None:
        self.b.append(Instruction(opcode, result.type, operands, result.text, align=align))

    def _kept_operand(self, x: Operand) -> Operand:
        """An operand in the remaining function: recomputed, loaded from the frame, or unchanged."""
        if x.text in self.cutter.cheap:
            names = self._body(self.b, self.cutter.cheap[x.text], {})
            return names[x.text]
        place = self.cutter.places.get(x.text)
        return x if place is None else self.b.load(
            x.type, self._at(place), align=x.type.scalar.size)

    def _keep(self, x: Operand) -> None:
        """Store a vector to the frame, if anything loads it."""
        place = self.cutter.places[x.text]
        if place.root in self.offsets:
            self.b.store(x, self._at(place), align=LINE)

    def _at(self, place: Place) -> Operand:
        return self.b.at(_MEMORY, self.offsets[place.root] + place.offset)

    def _offset(self, place: Place) -> Operand:
        return constant(I64, self.offsets[place.root] + place.offset)

    def _write_piece(self, piece: Piece) -> None:
        """Write a piece: its body if that is short, else a call of its shape's function."""
        shape, use = self.shape_of[piece]
        if shape.is_short:
            names = {x.text: self._kept_operand(x) for x in use.leaves}
            names = self._body(self.b, piece.body, names)
            self._finish(piece, names)
            return
        operands = [_MEMORY]
        for x in use.leaves:
            place = self.cutter.places.get(x.text)
            operands.append(x if place is None else self._offset(place))
        operands += [self._constant(use.constants[k], shape, k) for k in shape.given]
        result: Type = VOID
        if piece.to is not None:
            operands.append(self._offset(Place(piece.to)))
        elif piece.value is not None:
            result = piece.value.type
        name = None if result is VOID else str(piece.value)
        self.b.append(Instruction("call", result, operands, name, callee=shape.name))

    def _finish(self, piece: Piece, names: dict[str, Operand]) -> None:
        """Store the result of a piece, or give it its name."""
        if piece.value is None:
            return
        x = names.get(piece.value.text, piece.value)
        if piece.to is not None:
            if piece.to in self.offsets:
                self.b.store(x, self._at(Place(piece.to)), align=LINE)
        else:
            last = self.b.block.instructions[-1]
            assert last.result == x.text
            last.result = piece.value.text

    def _constant(self, x: Operand, shape: _Shape, k: int) -> Operand:
        """Argument for a constant: a scalar, or the address of a vector."""
        if x.type.kind != "vec":
            return x
        if k in shape.splats:
            return _element(x)
        found = self.constants.get(x.type.text + x.text)
        if found is None:
            found = Global(
                f"@{self.function.name}.constant.{len(self.constants)}", x.type, 0, x.text, True)
            self.constants[x.type.text + x.text] = found
        return Operand(PTR, found.name)

    # --- functions of pieces ------------------------------------------------------------------

    def _function(self, shape: _Shape) -> Function:
        """The function that computes the pieces of one shape, with operands in frame memory."""
        use = shape.uses[0]
        piece, b = use.piece, Builder(Function(
            shape.name, VOID, [], [Block("%entry")], is_internal=True,
            attributes=self._attributes))
        made = b.function
        names: dict[str, Operand] = {}

        def parameter(t: Type) -> Operand:
            made.parameters.append((f"%a{len(made.parameters)}", t))
            return made.arguments[-1]

        frame = parameter(PTR)

        def place() -> Operand:
            return b.gep(I8, frame, parameter(I64))

        for x in use.leaves:
            if x.type.kind == "vec":
                names[x.text] = b.load(x.type, place(), align=x.type.scalar.size)
            else:
                names[x.text] = parameter(x.type)
        constants: dict[int, Operand] = {}
        for k in shape.given:
            x = use.constants[k]
            if x.type.kind != "vec":
                constants[k] = parameter(x.type)
            elif k in shape.splats:
                constants[k] = b.broadcast(parameter(x.type.scalar), x.type.count)
            else:
                constants[k] = b.load(x.type, parameter(PTR), align=x.type.scalar.size)
        names = self._body(b, piece.body, names, constants)
        value = piece.value
        if piece.to is not None and value is not None:
            x = names.get(value.text) or constants.get(len(use.constants) - 1, value)
            b.store(x, place(), align=LINE)
            b.ret()
        elif value is not None:
            made.result = value.type
            b.ret(names[value.text])
        else:
            b.ret()
        return made

    def _body(
        self, b: Builder, body: Sequence[Instruction], names: dict[str, Operand],
        constants: dict[int, Operand] | None = None,
    ) -> dict[str, Operand]:
        """Write operations; parameters replace their constants, by number."""
        names, number, given = dict(names), 0, constants or {}

        def operand(o: Operand, is_given: bool) -> Operand:
            nonlocal number
            if o.local is not None:
                return names.get(o.text, o)
            if not is_given:
                return o
            number += 1
            return given.get(number - 1, o)

        for i in body:
            made = i.with_operands([operand(o, _is_given(i, k)) for k, o in enumerate(i.operands)])
            if i.type is VOID:
                b.append(made)
            else:
                names[str(i.result)] = b.emit(made)
        return names


def _element(x: Operand) -> Operand:
    """The scalar that all elements of a constant vector equal."""
    if x.elements:
        return x.elements[0]
    return Operand(x.type.scalar, {"zeroinitializer": "null" if x.type.scalar.kind == "ptr" else (
        "0" if x.type.scalar.kind == "int" else "0.0")}[x.text])


def _key(use: _Use) -> Key:
    """Key of a piece's shape: all but names and constants.

    The names of its inputs and its constants are appended to `use`.
    """
    numbers: dict[str, int] = {}
    leaves: dict[str, int] = {}

    def operand(o: Operand, is_given: bool) -> object:
        if o.local is None:
            if not is_given:
                return o.type.text, o.text
            use.constants.append(o)
            return o.type.text
        if o.text in numbers:
            return numbers[o.text]
        if o.text not in leaves:
            leaves[o.text] = len(leaves)
            use.leaves.append(o)
        return o.type.text, leaves[o.text]

    def instruction(i: Instruction) -> Key:
        found = (i.opcode, i.type.text, i.flags, i.extra, i.element, i.indices, i.callee,
                 i.align, i.aligns, i.orderings, i.attributes,
                 *[operand(o, _is_given(i, k)) for k, o in enumerate(i.operands)])
        if i.result is not None:
            numbers[i.result] = len(numbers)
        return found

    piece = use.piece
    rows = [instruction(i) for i in piece.body]
    value = None if piece.value is None else operand(piece.value, True)
    return (*rows, value, piece.to is None)


def _is_given(i: Instruction, k: int) -> bool:
    """True if the constant at an operand may be a parameter of the piece's function."""
    o = i.operands[k]
    if o.local is not None or o.is_undefined or o.expression is not None:
        return False
    if o.type.scalar is I1 or o.type.kind not in ("int", "float", "ptr", "vec"):
        return False
    if i.opcode in ("extractelement", "insertelement") and k == len(i.operands) - 1:
        return False
    if i.opcode == "call" and i.callee.startswith("llvm.") and o.type.kind != "vec":
        return False
    return not (i.opcode == "getelementptr" and i.element is not None
                and i.element.kind == "struct")
