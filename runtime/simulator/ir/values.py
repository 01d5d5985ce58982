"""Write functions as arithmetic: values with operators, variables, `with` for control flow.

How often a word is in memory, for example:

    w = Writer(Routine("count", I64, (("words", PTR), ("n", I64), ("word", I64))))
    words, found = Memory(w, w["words"]), w.variable(0)
    with w.range(0, w["n"]) as k, w.when(words[k] == w["word"]):
        found.value += 1
    w.ret(found.value)
    print(print_module([w.function]))

Operators append instructions.  Comparisons and shifts are unsigned; a Python number stands for a
constant, and a scalar beside a vector for that value in every element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triton_xe.runtime.simulator.ir.builder import Builder, Routine
from triton_xe.runtime.simulator.ir.records import (
    TERMINATORS,
    Function,
    Instruction,
    Operand,
    constant,
)
from triton_xe.runtime.simulator.ir.types import (
    I1,
    I64,
    PTR,
    VOID,
    Type,
    integer,
    vector,
)


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

    def _binary(self, opcode: str, other: Term) -> Value:
        x, y = _pair(self, other)
        return Value(self.w, self.w.b.binary(opcode, x, y))

    def compare(self, predicate: str, other: Term) -> Value:
        x, y = _pair(self, other)
        return Value(self.w, self.w.b.icmp(predicate, x, y))

    def __add__(self, other: Term) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Term) -> Value:
        return self._binary("sub", other)

    def __mul__(self, other: Term) -> Value:
        return self._binary("mul", other)

    def __floordiv__(self, other: Term) -> Value:
        return self._binary("udiv", other)

    def __and__(self, other: Term) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Term) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Term) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Term) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Term) -> Value:
        return self._binary("lshr", other)

    def __invert__(self) -> Value:
        return self._binary("xor", -1)

    def __eq__(self, other: Term) -> Value:  # type: ignore[override]
        return self.compare("eq", other)

    def __ne__(self, other: Term) -> Value:  # type: ignore[override]
        return self.compare("ne", other)

    def __lt__(self, other: Term) -> Value:
        return self.compare("ult", other)

    def __le__(self, other: Term) -> Value:
        return self.compare("ule", other)

    def __gt__(self, other: Term) -> Value:
        return self.compare("ugt", other)

    def __ge__(self, other: Term) -> Value:
        return self.compare("uge", other)

    def __getitem__(self, index: Value | int) -> Value:
        """An element of a vector."""
        at = index.operand if isinstance(index, Value) else index
        return Value(self.w, self.w.b.extract(self.operand, at))

    def has(self, bits: int) -> Value:
        """Whether one of some bits is set."""
        return (self & bits) != 0

    def to(self, t: Type) -> Value:
        """As integers of another width, zero-extended."""
        if self.type.scalar is t:
            return self
        opcode = "zext" if self.type.scalar.bits < t.bits else "trunc"
        return self._cast(opcode, t)

    def signed(self, t: Type) -> Value:
        return self if self.type.scalar is t else self._cast("sext", t)

    def pointer(self) -> Value:
        return self._cast("inttoptr", PTR)

    def integer(self) -> Value:
        """A pointer as a number."""
        return self._cast("ptrtoint", I64)

    def _cast(self, opcode: str, t: Type) -> Value:
        return Value(self.w, self.w.b.cast(opcode, self.operand, t))

    @property
    def bits(self) -> Value:
        """A vector of flags as an integer."""
        return Value(self.w, self.w.b.bitcast(self.operand, integer(self.type.count)))

    def every(self) -> Value:
        """Whether all of a vector of flags are set."""
        return self.bits == -1

    def lowest(self) -> Value:
        """The number of the lowest set bit, in 64 bits."""
        b = self.w.b
        return Value(self.w, b.intrinsic("cttz", self.operand, constant(I1, 1))).to(I64)


Term = Value | int


def _pair(x: Value, y: Term) -> tuple[Operand, Operand]:
    """Both as operands of one instruction."""
    if not isinstance(y, Value):
        return x.operand, constant(x.type, y)
    count = max(x.type.count, y.type.count)
    return x.w.spread(x, count).operand, x.w.spread(y, count).operand


class Variable:
    """A value that may be set anew."""

    def __init__(self, w: Writer, slot: Value, t: Type) -> None:
        self.w, self.slot, self.type = w, slot, t

    @property
    def value(self) -> Value:
        return Value(self.w, self.w.b.load(self.type, self.slot.operand))

    @value.setter
    def value(self, value: Term) -> None:
        self.w.b.store(self.w.term(value, self.type).operand, self.slot.operand)


class Memory:
    """Memory as numbered elements of one type: `m[3]`, `m[k] = x`; a narrower x is extended."""

    def __init__(self, w: Writer, base: Value, t: Type = I64) -> None:
        self.w, self.base, self.type = w, base, t

    def address(self, index: Term) -> Value:
        at = index.operand if isinstance(index, Value) else int(index)
        return Value(self.w, self.w.b.gep(self.type, self.base.operand, at))

    def __getitem__(self, index: Term) -> Value:
        return self.w.load(self.type, self.address(index))

    def __setitem__(self, index: Term, value: Term) -> None:
        self.w.store(self.w.term(value, self.type).to(self.type), self.address(index))

    def follow(self, index: Term, t: Type = I64) -> Memory:
        """What the pointer of that number points to."""
        return Memory(self.w, self.w.load(PTR, self.address(index)), t)

    def row(self, index: Value, words: int) -> Memory:
        """The record of that number, among records of so many elements."""
        return Memory(self.w, self.address(index * words), self.type)


class Values:
    """Makes values with a builder."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def of(self, x: Operand) -> Value:
        return Value(self, x)

    def term(self, x: Term, t: Type) -> Value:
        """A value as it is; a number as a constant."""
        return x if isinstance(x, Value) else Value(self, constant(t, x))

    def spread(self, x: Value, count: int) -> Value:
        """A scalar as a vector of so many equal elements."""
        if count == x.type.count:
            return x
        return Value(self, self.b.broadcast(x.operand, count))

    def select(self, condition: Value, x: Term, y: Term, t: Type = I64) -> Value:
        """x where the condition holds, else y; two numbers are of type `t`."""
        t = next((v.type for v in (x, y) if isinstance(v, Value)), t)
        first, second = self.term(x, t), self.term(y, t)
        count = max(condition.type.count, first.type.count, second.type.count)
        first, second = self.spread(first, count), self.spread(second, count)
        return Value(self, self.b.select(condition.operand, first.operand, second.operand))

    def largest(self, first: Value, *others: Value) -> Value:
        for other in others:
            first = self.select(first > other, first, other)
        return first


class Writer(Values):
    """A function that is being written, its arguments by name."""

    def __init__(self, routine: Routine) -> None:
        super().__init__(routine.define())
        self.routine = routine
        self.function: Function = self.b.function
        self.arguments = {name: Value(self, a) for (name, _), a in zip(
            routine.parameters, self.b.arguments, strict=True)}
        self._leaves: Instruction | None = None

    def __getitem__(self, name: str) -> Value:
        return self.arguments[name]

    # --- memory, calls ----------------------------------------------------------------------------

    def load(self, t: Type, address: Value, *, align: int = 0) -> Value:
        return Value(self, self.b.load(t, address.operand, align=align))

    def store(self, value: Value, address: Value, *, align: int = 0) -> None:
        self.b.store(value.operand, address.operand, align=align)

    def space(self, t: Type) -> Value:
        """The address of memory of this call."""
        name = self.b.name()
        alloca = Instruction("alloca", PTR, [], name, element=t)
        self.function.blocks[0].instructions.insert(0, alloca)
        return Value(self, alloca.value)

    def variable(self, first: Term, t: Type = I64) -> Variable:
        """A variable, of type `t` where it begins as a number."""
        value = self.term(first, t)
        made = Variable(self, self.space(value.type), value.type)
        made.value = value
        return made

    def call(self, routine: Routine, *arguments: Term) -> Value:
        given = (a.operand if isinstance(a, Value) else a for a in arguments)
        return Value(self, self.b.invoke(routine, *given))

    def intrinsic(self, name: str, result: Type, *arguments: Value) -> Value:
        return Value(self, self.b.call(f"llvm.{name}", result, [a.operand for a in arguments]))

    def gather(self, t: Type, pointers: Value, mask: Value) -> Value:
        """The elements of type `t` that each of several pointers points to; 0 where masked off."""
        count, none = pointers.type.count, constant(vector(pointers.type.count, t), 0)
        return self.intrinsic(f"masked.gather.v{count}{t.mangled}.v{count}p0", none.type,
                              pointers, mask, Value(self, none))

    def scatter(self, value: Value, pointers: Value, mask: Value) -> None:
        name = f"masked.scatter.{value.type.mangled}.{pointers.type.mangled}"
        self.intrinsic(name, VOID, value, pointers, mask)

    def ret(self, value: Term | None = None) -> None:
        result = None if value is None else self.term(value, self.routine.result).operand
        self.b.ret(result)

    # --- control ----------------------------------------------------------------------------------

    def unlikely(self, condition: Value) -> Value:
        return self.intrinsic("expect.i1", I1, condition, self.term(0, I1))

    def _end(self, label: str) -> Instruction | None:
        """Go on at a label, unless the block has returned."""
        block = self.b.block.instructions
        if block and block[-1].opcode in TERMINATORS:
            return None
        self.b.br(label)
        return self.b.block.instructions[-1]

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What is written inside happens if the condition holds."""
        b = self.b
        then, after = b.label("then"), b.label("after")
        b.cond_br(condition.operand, then, after)
        b.start(then)
        yield
        self._leaves = self._end(after)
        b.start(after)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Right after a `when`: what happens else."""
        join = self.b.label("join")
        assert not self.b.block.instructions
        if self._leaves is not None:
            self._leaves.labels = [join]
        yield
        self._end(join)
        self.b.start(join)

    @contextmanager
    def loop(self, condition: Callable[[], Value]) -> Iterator[None]:
        """While the condition holds, asked before each pass."""
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
    def range(self, first: Term, end: Term) -> Iterator[Value]:
        """For each 64-bit number from `first` up to `end`."""
        k = self.variable(first)
        with self.loop(lambda: k.value < end):
            now = k.value
            yield now
            k.value = now + 1

    @contextmanager
    def chain(self, first: Value) -> Iterator[tuple[Value, Variable]]:
        """While it is not 0: an index, and the variable to leave the next one in."""
        slot = self.variable(first)
        with self.loop(lambda: slot.value != 0):
            yield slot.value, slot
