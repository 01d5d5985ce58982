"""Write functions as arithmetic: values with operators, variables, `with` for control flow.

Count a word in memory, for example:

    w = Writer(Routine("count", I64, (("words", PTR), ("n", I64), ("word", I64))))
    words, found = Memory(w, w["words"]), w.variable(0)
    with w.range(0, w["n"]) as k, w.when(words[k] == w["word"]):
        found.value += 1
    w.ret(found.value)
    print(print_module([w.function]))

Operators append instructions, unless constants decide the result.  Integer comparisons, quotients
and shifts are unsigned; floating-point comparisons are ordered.  A Python number stands for a
constant, and a scalar next to a vector for a splat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from triton_xe.llvm import folding
from triton_xe.llvm.builder import Builder, Routine
from triton_xe.llvm.records import (
    TERMINATORS,
    Function,
    Instruction,
    Operand,
    constant,
)
from triton_xe.llvm.types import (
    I1,
    I8,
    I64,
    PTR,
    VOID,
    Type,
    integer,
    vector,
    with_elements,
)

_FLOATING = {"udiv": "fdiv", "eq": "oeq", "ne": "une", "ult": "olt", "ule": "ole", "ugt": "ogt",
             "uge": "oge"}


def _arithmetic(opcode: str) -> Callable[[Value, Term], Value]:
    """Create an operator that uses the floating-point opcode for floating-point operands."""

    def apply(x: Value, y: Term) -> Value:
        first, second = _pair(x, y)
        if x.type.scalar.kind == "float":
            return Value(x.w, x.w.b.binary(_FLOATING.get(opcode, f"f{opcode}"), first, second))
        known = folding.binary(opcode, first, second)
        return Value(x.w, x.w.b.binary(opcode, first, second) if known is None else known)

    return apply


def _comparison(predicate: str) -> Callable[[Value, Term], Value]:
    return lambda x, y: x.compare(predicate, y)


class Value:
    """A value of a function that is being written."""

    __slots__ = ("operand", "w")

    def __init__(self, w: Values, operand: Operand) -> None:
        self.w = w
        self.operand = operand

    @property
    def type(self) -> Type:
        return self.operand.type

    def __bool__(self) -> bool:
        raise TypeError("the function knows this value when it runs; use `when`")

    def __add__(self, other: Term) -> Value:
        """The sum; for a pointer, the pointer advanced by a number of bytes."""
        return self.moved(other) if self.type is PTR else _sum(self, other)

    __sub__ = _arithmetic("sub")
    __mul__ = _arithmetic("mul")
    __floordiv__ = __truediv__ = _arithmetic("udiv")
    __mod__ = _arithmetic("urem")
    __and__ = _arithmetic("and")
    __or__ = _arithmetic("or")
    __xor__ = _arithmetic("xor")
    __lshift__ = _arithmetic("shl")
    __rshift__ = _arithmetic("lshr")
    ashr = _arithmetic("ashr")
    __lt__ = _comparison("ult")
    __le__ = _comparison("ule")
    __gt__ = _comparison("ugt")
    __ge__ = _comparison("uge")
    __eq__ = _comparison("eq")  # type: ignore[assignment]
    __ne__ = _comparison("ne")  # type: ignore[assignment]

    def __invert__(self) -> Value:
        return self ^ -1

    def __neg__(self) -> Value:
        """Negate a floating-point number."""
        return Value(self.w, self.w.b.fneg(self.operand))

    def compare(self, predicate: str, other: Term) -> Value:
        x, y = _pair(self, other)
        if x.type.scalar.kind != "float":
            known = folding.comparison(predicate, x, y)
            return Value(self.w, self.w.b.icmp(predicate, x, y) if known is None else known)
        return Value(self.w, self.w.b.fcmp(_FLOATING.get(predicate, predicate), x, y))

    def __getitem__(self, index: Value | int) -> Value:
        """An element of a vector."""
        at = index.operand if isinstance(index, Value) else index
        return Value(self.w, self.w.b.extract(self.operand, at))

    def moved(self, nbytes: Term) -> Value:
        """The pointer advanced by so many bytes."""
        if isinstance(nbytes, Value):
            return Value(self.w, self.w.b.gep(I8, self.operand, nbytes.operand))
        return Value(self.w, self.w.b.at(self.operand, int(nbytes)))

    def has(self, bits: Value | int) -> Value:
        """True if one of the given bits is set."""
        return (self & bits) != 0

    def fits(self, bits: int) -> Value:
        """True if integers fit fewer bits: the bits above are all 0, or all 1."""
        return ((self >> bits) + 1 & (1 << self.type.scalar.bits - bits) - 1) <= 1

    def to(self, t: Type) -> Value:
        """Convert to numbers of another width; integers are zero-extended."""
        if self.type.scalar is t:
            return self
        wider = self.type.scalar.bits < t.bits
        if t.kind == "float":
            return self.converted("fpext" if wider else "fptrunc", t)
        return self.converted("zext" if wider else "trunc", t)

    def signed(self, t: Type) -> Value:
        return self if self.type.scalar is t else self.converted("sext", t)

    def as_bits(self, t: Type) -> Value:
        """Reinterpret the bits as elements of another type of that width."""
        return Value(self.w, self.w.b.bitcast(self.operand, with_elements(self.type, t)))

    def pointer(self) -> Value:
        return self.converted("inttoptr", PTR)

    def integer(self) -> Value:
        """A pointer as a number."""
        return self.converted("ptrtoint", I64)

    def converted(self, opcode: str, t: Type) -> Value:
        known = folding.resized(opcode, self.operand, t)
        return Value(self.w, self.w.b.cast(opcode, self.operand, t) if known is None else known)

    def shuffled(self, other: Value | None, indices: Sequence[int]) -> Value:
        """Elements of this vector, then of another, by number."""
        y = None if other is None else other.operand
        return Value(self.w, self.w.b.shuffle(self.operand, y, indices))

    @property
    def bits(self) -> Value:
        """A vector of flags as an integer, one bit each."""
        given = self.w.given_as.get(self.operand.text)
        if given is not None:
            return given
        return Value(self.w, self.w.b.bitcast(self.operand, integer(self.type.count)))

    def every(self) -> Value:
        """True if all of a vector of flags are set."""
        return self.bits == -1

    def lowest(self) -> Value:
        """The number of the lowest set bit, in 64 bits."""
        return self.w.intrinsic("cttz", self, self.w.term(1, I1)).to(I64)


_sum = _arithmetic("add")
Term = Value | int | float


def _pair(x: Value, y: Term) -> tuple[Operand, Operand]:
    """Both as operands of one instruction."""
    if not isinstance(y, Value):
        return x.operand, constant(x.type, y)
    count = max(x.type.count, y.type.count)
    return x.w.spread(x, count).operand, x.w.spread(y, count).operand


class Variable:
    """A mutable value."""

    def __init__(self, w: Writer, slot: Value, t: Type) -> None:
        self.w, self.slot, self.type = w, slot, t

    @property
    def value(self) -> Value:
        return Value(self.w, self.w.b.load(self.type, self.slot.operand))

    @value.setter
    def value(self, value: Term) -> None:
        self.w.b.store(self.w.term(value, self.type).operand, self.slot.operand)


class Memory:
    """Memory as numbered elements of one type: `m[3]`, `m[k] = x`.

    A narrower x is zero-extended; a pointer is stored as 64 bits.
    """

    def __init__(self, w: Writer, base: Value, t: Type = I64) -> None:
        self.w, self.base, self.type = w, base, t

    def address(self, index: Term) -> Value:
        at = index.operand if isinstance(index, Value) else int(index)
        return Value(self.w, self.w.b.gep(self.type, self.base.operand, at))

    @property
    def volatile(self) -> Value:
        """The first element, loaded anew at each use."""
        return Value(self.w, self.w.b.load(self.type, self.base.operand, volatile=True))

    def __getitem__(self, index: Term) -> Value:
        return self.w.load(self.type, self.address(index))

    def __setitem__(self, index: Term, value: Term) -> None:
        x = self.w.term(value, self.type)
        self.w.store(x if x.type is PTR else x.to(self.type), self.address(index))

    def follow(self, index: Term, t: Type = I64) -> Memory:
        """The memory that the pointer in element `index` points to."""
        return Memory(self.w, self.w.load(PTR, self.address(index)), t)

    def row(self, index: Value, words: int) -> Memory:
        """Record `index`, in an array of records of so many elements."""
        return Memory(self.w, self.address(index * words), self.type)


class Values:
    """Factory of values, based on a builder."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.given_as: dict[str, Value] = {}
        """Arguments of flags -> the integers as which they are passed."""

    def wrap(self, x: Operand) -> Value:
        """The operand as a value of these formulas."""
        return Value(self, x)

    def term(self, x: Term, t: Type) -> Value:
        """A value unchanged; a number as a constant."""
        return x if isinstance(x, Value) else Value(self, constant(t, x))

    def spread(self, x: Value, count: int) -> Value:
        """Broadcast a scalar to a vector."""
        if count == x.type.count:
            return x
        return Value(self, self.b.broadcast(x.operand, count))

    def select(self, condition: Value, x: Term, y: Term, t: Type = I64) -> Value:
        """x if the condition holds, else y; two numbers are of type `t`."""
        t = next((v.type for v in (x, y) if isinstance(v, Value)), t)
        first, second = self.term(x, t), self.term(y, t)
        known = folding.number(condition.operand)
        if known is not None:
            count = max(v.type.count for v in (condition, first, second))
            return self.spread(first if known else second, count)
        count = max(condition.type.count, first.type.count, second.type.count)
        first, second = self.spread(first, count), self.spread(second, count)
        return Value(self, self.b.select(condition.operand, first.operand, second.operand))

    def largest(self, first: Value, *others: Value) -> Value:
        for other in others:
            first = self.select(first > other, first, other)
        return first

    def intrinsic(self, name: str, first: Value, *others: Term) -> Value:
        """Call `llvm.<name>` for the type of its first argument, which is also that of numbers."""
        terms = [self.term(x, first.type).operand for x in others]
        return Value(self, self.b.intrinsic(name, first.operand, *terms))

    def call(self, callee: Routine | str, *arguments: Term, result: Type = VOID) -> Value:
        """Call a routine, or a function of that name and result."""
        if isinstance(callee, Routine):
            given = (a.operand if isinstance(a, Value) else a for a in arguments)
            return Value(self, self.b.invoke(callee, *given))
        operands = [self.term(a, I64).operand for a in arguments]
        return Value(self, self.b.call(callee, result, operands))

    def load(self, t: Type, address: Value, *, align: int = 0, ordering: str = "") -> Value:
        return Value(self, self.b.load(t, address.operand, align=align, ordering=ordering))

    def store(self, value: Value, address: Value, *, align: int = 0) -> None:
        self.b.store(value.operand, address.operand, align=align)

    def pack(self, t: Type, elements: Iterable[Value]) -> Value:
        """Build a vector of these elements."""
        return Value(self, self.b.pack(t, (x.operand for x in elements)))


class Writer(Values):
    """A function that is being written, its arguments by name."""

    def __init__(
        self, routine: Routine, attributes: str = "nounwind", *, internal: bool = False
    ) -> None:
        super().__init__(routine.define(attributes, internal=internal))
        self.routine = routine
        self.function: Function = self.b.function
        self.arguments = {name: Value(self, a) for (name, *_), a in zip(
            routine.parameters, routine.received(self.b), strict=True)}
        self.given_as = {self[name].operand.text: Value(self, a) for (name, *_), a in zip(
            routine.parameters, self.b.arguments, strict=True) if a.type != self[name].type}
        self._leaves: Instruction | None = None
        self._decided: bool | None = None
        """The condition of the last `when`, if it is constant."""

    def __getitem__(self, name: str) -> Value:
        return self.arguments[name]

    # --- memory, calls ----------------------------------------------------------------------------

    def space(self, t: Type, *, align: int = 0) -> Value:
        """Allocate memory for this call."""
        name = self.b.name()
        alloca = Instruction("alloca", PTR, [], name, element=t, align=align)
        self.function.blocks[0].instructions.insert(0, alloca)
        return Value(self, alloca.value)

    def variable(self, first: Term, t: Type = I64) -> Variable:
        """A variable, of type `t` if its initial value is a number."""
        value = self.term(first, t)
        made = Variable(self, self.space(value.type), value.type)
        made.value = value
        return made

    def fill(self, address: Value, byte: int, nbytes: Term) -> None:
        self.b.fill(address.operand, byte, self.term(nbytes, I64).operand)

    def copy(self, target: Value, source: Value, nbytes: Value) -> None:
        self.b.copy(target.operand, source.operand, nbytes.operand)

    def first_to_set(self, address: Value, value: Term) -> Value:
        """Set a word to `value` if it is 0; true if it was."""
        new = self.term(value, I64).operand
        pair = self.b.cmpxchg(address.operand, constant(I64, 0), new)
        return Value(self, self.b.extract_value(pair, 1))

    def gather(self, t: Type, pointers: Value, mask: Value) -> Value:
        """The elements of type `t` that each of several pointers points to; 0 where masked off."""
        count, none = pointers.type.count, constant(vector(pointers.type.count, t), 0)
        return self.call(f"llvm.masked.gather.v{count}{t.mangled}.v{count}p0", pointers, mask,
                         Value(self, none), result=none.type)

    def scatter(self, value: Value, pointers: Value, mask: Value) -> None:
        name = f"llvm.masked.scatter.{value.type.mangled}.{pointers.type.mangled}"
        self.call(name, value, pointers, mask)

    def ret(self, value: Term | None = None) -> None:
        result = None if value is None else self.term(value, self.routine.result).operand
        self.b.ret(result)

    def finish(self, value: Term | None = None) -> list[Function]:
        """Return, and list the function."""
        self.ret(value)
        return [self.function]

    # --- control ----------------------------------------------------------------------------------

    def unlikely(self, condition: Value) -> Value:
        if folding.number(condition.operand) is not None:
            return condition
        return self.intrinsic("expect", condition, 0)

    def _end(self, label: str) -> Instruction | None:
        """Branch to a label, unless the block has returned."""
        block = self.b.block.instructions
        if block and block[-1].opcode in TERMINATORS:
            return None
        self.b.br(label)
        return self.b.block.instructions[-1]

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Write a block that runs if the condition holds."""
        b, known = self.b, folding.number(condition.operand)
        if known is not None:
            with self._written(bool(known)):
                yield
            self._decided = bool(known)
            return
        then, after = b.label("then"), b.label("after")
        b.cond_br(condition.operand, then, after)
        b.start(then)
        yield
        self._leaves, self._decided = self._end(after), None
        b.start(after)

    @contextmanager
    def _written(self, is_reached: bool) -> Iterator[None]:
        """Write what is inside in line, or leave it out."""
        b, blocks, block = self.b, len(self.function.blocks), self.b.block
        if not is_reached:
            b.start(b.label("never"))
        yield
        if not is_reached:
            del self.function.blocks[blocks:]
            b.block = block
        elif b.block.instructions and b.block.instructions[-1].opcode in TERMINATORS:
            b.start(b.label("never"))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Write the else block right after a `when`."""
        if self._decided is not None:
            with self._written(not self._decided):
                yield
            return
        join = self.b.label("join")
        assert not self.b.block.instructions
        if self._leaves is not None:
            self._leaves.labels = [join]
        yield
        self._end(join)
        self.b.start(join)

    @contextmanager
    def loop(self, condition: Callable[[], Value]) -> Iterator[None]:
        """Loop while the condition holds, tested before each iteration."""
        b = self.b
        head, body, after = b.label("head"), b.label("body"), b.label("after")
        b.br(head)
        b.start(head)
        b.cond_br(condition().operand, body, after)
        b.start(body)
        yield
        self._end(head)
        b.start(after)

    @contextmanager
    def range(self, first: Term, end: Term, step: int = 1) -> Iterator[Value]:
        """Loop over 64-bit numbers from `first` up to `end`, by `step`."""
        k = self.variable(first)
        with self.loop(lambda: k.value < end):
            now = k.value
            yield now
            k.value = now + step

    @contextmanager
    def chain(self, first: Value) -> Iterator[tuple[Value, Variable]]:
        """Loop until the index is 0: yield the index, and a variable for the next one."""
        slot = self.variable(first)
        with self.loop(lambda: slot.value != 0):
            yield slot.value, slot
