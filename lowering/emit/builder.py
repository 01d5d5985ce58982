"""A builder that checks types, and avoids instructions that crash Intel's compiler.

Elements of shuffled vectors come from their sources.  Additions of zero and multiplications by one
are left out, and so are casts to the same type.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from triton_xe import llvm as ir
from triton_xe.llvm.builder import Number
from triton_xe.lowering.emit.types import I1, I64, bits_of
from triton_xe.lowering.emit.values import instruction_of

LONG = 4000
"""Instructions of a block from which on none is created twice.

Most index arithmetic of long code is a repetition.
"""
_ONCE = frozenset(("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "sext"))
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1}
"""Right operands that leave the left one as it is."""


def element_of(vector: ir.Operand, position: int) -> tuple[ir.Operand, int]:
    """The vector and the position that an element of shuffled vectors comes from.

        element_of(shufflevector(a, b, <0, 1, 2, 3>), 3) = (b, 1)    vectors of two elements
    """
    while (made := instruction_of(vector, "shufflevector")) is not None:
        first, second = made.operands
        position = made.indices[position]
        past = position - first.type.count
        vector, position = (first, position) if past < 0 else (second, past)
    return vector, position


def _whole(first: ir.Operand, second: ir.Operand, mask: Sequence[int]) -> ir.Operand | None:
    """The vector that a shuffle of shuffles restores; None if it is none.

        a = shufflevector(x, y, <0, 1, 2, 3>) ; shufflevector(a, a, <2, 3>)  ->  y
    """
    count, sources = first.type.count, set()
    for position, at in enumerate(mask):
        source, place = element_of(*(first, at) if at < count else (second, at - count))
        if place != position:
            return None
        sources.add(source)
    (source, *others) = sources
    return None if others or source.type.count != len(mask) else source


class Builder(ir.Builder):
    """Builder whose results know their instructions."""

    def __init__(self, function: ir.Function, block: ir.Block, prefix: str = "v") -> None:
        super().__init__(function, prefix)
        self.block = block
        self._labels = Counter(each.label for each in function.blocks)
        self._written: defaultdict[str, dict[Hashable, ir.Result]] = defaultdict(dict)

    def emit(self, i: ir.Instruction) -> ir.Result:
        """Append an instruction and name its result; in long blocks an equal one is reused.

        Bit operations are always created, because some are marked for the simulator's checks.
        """
        if len(self.block.instructions) < LONG or i.opcode not in _ONCE or i.type is I1:
            return self._new(i)
        known, key = self._written[self.block.label], (i.opcode, i.type, i.flags, *i.operands)
        if key not in known:
            known[key] = self._new(i)
        return known[key]

    def _new(self, i: ir.Instruction) -> ir.Result:
        self.count += 1
        i.result = f"%{self.prefix}{self.count}"
        self.append(i)
        made = ir.Result(i.type, i.result)
        made.instruction = i
        return made

    # --- blocks -------------------------------------------------------------------------------

    def append_block(self, hint: str) -> ir.Block:
        """Add an empty block to the function; `at_end` begins to write it."""
        label = f"%{hint}"
        known = self._labels[label]
        self._labels[label] += 1
        made = ir.Block(f"{label}.{known}" if known else label)
        self.function.blocks.append(made)
        return made

    def at_end(self, block: ir.Block) -> None:
        """Write at the end of a block."""
        self.block = block

    def branch(self, target: ir.Block) -> ir.Instruction:
        return self.append(ir.Instruction("br", ir.VOID, [], labels=[target.label]))

    def branch_if(
        self, condition: ir.Operand, then: ir.Block, otherwise: ir.Block
    ) -> ir.Instruction:
        labels = [then.label, otherwise.label]
        return self.append(ir.Instruction("br", ir.VOID, [condition], labels=labels))

    def merged(self, kind: ir.Type, *incoming: tuple[ir.Operand, ir.Block]) -> ir.Result:
        """The value of a phi; `add` gives it more."""
        made = self.emit(ir.Instruction("phi", kind, []))
        for value, block in incoming:
            self.join(made, value, block)
        return made

    def join(self, phi: ir.Operand, value: ir.Operand, block: ir.Block) -> None:
        """Add the value that a phi receives from a block."""
        made = instruction_of(phi, "phi")
        assert made is not None
        _require(phi.type, value.type)
        self.add_incoming(made, value, block.label)

    # --- arithmetic ---------------------------------------------------------------------------

    def binary(
        self, opcode: str, x: ir.Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> ir.Operand:
        """An instruction of two operands; the left one if the right one is neutral."""
        y = _like(x, y)
        if opcode in _NEUTRAL and y.integer_value() == _NEUTRAL[opcode]:
            return x
        return super().binary(opcode, x, y, flags)

    def cast(
        self, opcode: str, x: ir.Operand, t: ir.Type, flags: tuple[str, ...] = ()
    ) -> ir.Operand:
        """Convert to type `t`, as the base class; a value of that type is returned as it is."""
        if x.type.kind == "vec" and opcode != "bitcast":
            t = ir.with_elements(x.type, t.scalar)
        if x.type is t:
            return x
        if opcode == "zext" and (cut := instruction_of(x, "trunc", "sext")) is not None:
            return self._masked(cut, t)
        return super().cast(opcode, x, t, flags)

    def _masked(self, cut: ir.Instruction, t: ir.Type) -> ir.Operand:
        """Zero-extend what was truncated or sign-extended: a mask, as Intel's compiler crashes on
        bytes that are truncated and extended, and then shifted.
        """
        source, kept = cut.operands[0], (1 << bits_of(cut.type.scalar)) - 1
        if cut.opcode == "sext":
            source = self.sext(source, t)
        elif bits_of(source.type.scalar) > bits_of(t.scalar):
            source = self.trunc(source, t)
        masked = self.and_(source, kept)
        if masked.type is t:
            return masked
        return super().cast("zext", masked, t)

    def bitcast(self, x: ir.Operand, t: ir.Type) -> ir.Operand:
        return self.cast("bitcast", x, t)

    def select(
        self, condition: ir.Operand, x: ir.Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> ir.Operand:
        """Select element by element if LLVM would form a saturating difference with a constant.

        (x > 7 ? x - 7 : 0) of vectors crashes Intel's compiler.
        """
        y, test = _like(x, y), instruction_of(condition)
        if x.type.kind != "vec" or test is None or not any(
            (sum_ := instruction_of(arm, "add", "sub")) and sum_.operands[0] in test.operands
            for arm in (x, y)
        ):
            return super().select(condition, x, y, flags)
        made: ir.Operand = ir.undef(x.type)
        for k in range(x.type.count):
            bit, first, second = (self.extract(v, k) for v in (condition, x, y))
            made = self.insert(made, super().select(bit, first, second), k)
        return made

    def compare(
        self, opcode: str, predicate: str, x: ir.Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> ir.Operand:
        return super().compare(opcode, predicate, x, _like(x, y), flags)

    # --- vectors ------------------------------------------------------------------------------

    def insert(self, x: ir.Operand, element: ir.Operand, index: ir.Operand | int) -> ir.Operand:
        _require(x.type.scalar, element.type)
        return super().insert(x, element, index)

    def extract(self, x: ir.Operand, index: ir.Operand | int) -> ir.Operand:
        if x.type.kind != "vec":
            raise TypeError(f"an element of {x.type}")
        at = index.integer_value() if isinstance(index, ir.Operand) else index
        if at is None:
            return super().extract(x, index)
        vector, place = element_of(x, at)
        made = instruction_of(vector, "insertelement")
        if made is not None and made.operands[2].integer_value() == place:
            return made.operands[1]
        return super().extract(vector, place)

    def shuffle(
        self, x: ir.Operand, y: ir.Operand | None, indices: Sequence[int]
    ) -> ir.Operand:
        """Elements of two vectors, picked by constant positions."""
        y = x if y is None else y
        _require(x.type, y.type)
        if instruction_of(x, "shufflevector") and (whole := _whole(x, y, indices)):
            return whole
        kind = ir.vector(len(indices), x.type.scalar)
        return self.emit(ir.Instruction("shufflevector", kind, [x, y], indices=tuple(indices)))

    # --- memory -------------------------------------------------------------------------------

    def gep(
        self, t: ir.Type, base: ir.Operand, *indices: ir.Operand | int, flags: tuple[str, ...] = ()
    ) -> ir.Operand:
        """Advance `base` by an index in units of `t`, in its own address space."""
        operands = [base, *(ir.constant(I64, k) if isinstance(k, int) else k for k in indices)]
        return self.emit(ir.Instruction(
            "getelementptr", base.type, operands, flags=flags, element=t))

    def atomic(
        self, operation: str, pointer: ir.Operand, value: ir.Operand, scope: str
    ) -> ir.Operand:
        """Combine a value with memory, without an order; return the old value."""
        return self.emit(ir.Instruction(
            "atomicrmw", value.type, [pointer, value], extra=operation, orderings=_RELAXED,
            scope=scope, align=_alignment(value)))

    def compare_and_swap(
        self, pointer: ir.Operand, expected: ir.Operand, wanted: ir.Operand, scope: str
    ) -> ir.Operand:
        """Write a value if memory has the expected one: the old value, and if it was replaced."""
        return self.emit(ir.Instruction(
            "cmpxchg", ir.struct((wanted.type, I1)), [pointer, expected, wanted],
            orderings=_RELAXED * 2, scope=scope, align=_alignment(wanted)))


_RELAXED = ("monotonic",)


def _require(wanted: ir.Type, given: ir.Type) -> None:
    """Refuse an operand of another type: neither SPIR-V nor Intel's compiler would."""
    if wanted is not given:
        raise TypeError(f"an operand of type {given} where {wanted} is needed")


def _like(x: ir.Operand, y: Number) -> ir.Operand:
    """An operand, or a number as a constant, of the type of `x`."""
    if not isinstance(y, ir.Operand):
        return ir.constant(x.type, y)
    _require(x.type, y.type)
    return y


def _alignment(value: ir.Operand) -> int:
    return max(bits_of(value.type) // 8, 1)
