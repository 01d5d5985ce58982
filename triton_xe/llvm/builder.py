"""Build functions of LLVM instructions; results get names automatically.

A function that adds a vector to another, for example:

    b = define("add_row", VOID, [("to", PTR), ("from", PTR)], attributes="nounwind")
    to, source = b.arguments
    row = vector(16, F32)
    b.store(b.fadd(b.load(row, to), b.load(row, source, align=64)), to, align=64)
    b.ret()
    print(print_module([b.function]))

`values.Writer` adds operators, variables and structured control flow.

Where an operand is expected, a Python number stands for a constant of the other operand's type (in
every element of a vector).  Everything is appended to `b.block`; `start(label)` begins another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from triton_xe.llvm.records import (
    Block,
    Function,
    Instruction,
    Operand,
    constant,
    constant_vector,
    poison,
    zero,
)
from triton_xe.llvm.types import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Type,
    integer,
    struct,
    vector,
    with_elements,
)

Number = Operand | int | float
Parameter = tuple[str, Type] | tuple[str, Type, str]
"""Name without %, type, attributes."""


def define(
    name: str, result: Type, parameters: Sequence[Parameter] = (),
    *, attributes: str = "nounwind", internal: bool = False,
) -> Builder:
    """Define a function; return a builder at its entry.

    A parameter is a name without %, a type, and perhaps attributes.
    """
    types = [(f"%{p[0]}", p[1]) for p in parameters]
    spelled = {f"%{p[0]}": p[2] for p in parameters if len(p) > 2}
    made = Function(name, result, types, [Block("%entry")], is_internal=internal,
                    attributes=attributes, parameter_attributes=spelled)
    return Builder(made)


def _binary(opcode: str) -> Callable[[Builder, Operand, Number], Operand]:
    return lambda b, x, y: b.binary(opcode, x, y)


def _cast(opcode: str) -> Callable[[Builder, Operand, Type], Operand]:
    return lambda b, x, t: b.cast(opcode, x, t)


class Routine(NamedTuple):
    """Symbol, result and parameters of a function that generated code calls.

    Lane masks are passed as an integer, because as a vector they would take a byte each on the
    stack.
    """

    symbol: str
    result: Type
    parameters: tuple[Parameter, ...]

    def define(self, attributes: str = "nounwind", *, internal: bool = False) -> Builder:
        """A builder at the entry of the function itself."""
        parameters = [(p[0], _parameter_type(p[1]), *p[2:]) for p in self.parameters]
        return define(self.symbol, self.result, parameters, attributes=attributes,
                      internal=internal)

    def received(self, b: Builder) -> list[Operand]:
        """The arguments in the function, converted from how they are passed to their types."""
        return [b.bitcast(a, p[1]) for a, p in zip(b.arguments, self.parameters, strict=True)]


def _parameter_type(t: Type) -> Type:
    return integer(t.count) if t.kind == "vec" and t.scalar is I1 else t


class Builder:
    """Appends instructions to `block`, a block of `function`."""

    def __init__(self, function: Function, prefix: str = "v") -> None:
        self.function = function
        self.block = function.blocks[-1] if function.blocks else Block("")
        self.prefix = prefix
        self.count = 0

    # --- names, blocks ------------------------------------------------------------------------

    @property
    def arguments(self) -> list[Operand]:
        return self.function.arguments

    def name(self) -> str:
        self.count += 1
        return f"%{self.prefix}{self.count}"

    def label(self, hint: str = "b") -> str:
        """A new label, for a block that `start` begins later."""
        self.count += 1
        return f"%{hint}{self.count}"

    def start(self, label: str) -> None:
        """Begin a block, and append to it from here on."""
        self.block = Block(label)
        self.function.blocks.append(self.block)

    def append(self, i: Instruction) -> Instruction:
        self.block.instructions.append(i)
        return i

    def emit(self, i: Instruction) -> Operand:
        """Append an instruction and name its result."""
        self.count += 1
        name = i.result = f"%{self.prefix}{self.count}"
        self.block.instructions.append(i)
        return Operand(i.type, name)

    # --- arithmetic ---------------------------------------------------------------------------

    def binary(
        self, opcode: str, x: Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> Operand:
        return self.emit(Instruction(opcode, x.type, [x, _as_operand(y, x)], flags=flags))

    add = _binary("add")
    sub = _binary("sub")
    mul = _binary("mul")
    udiv = _binary("udiv")
    sdiv = _binary("sdiv")
    urem = _binary("urem")
    srem = _binary("srem")
    shl = _binary("shl")
    lshr = _binary("lshr")
    ashr = _binary("ashr")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    fadd = _binary("fadd")
    fsub = _binary("fsub")
    fmul = _binary("fmul")
    fdiv = _binary("fdiv")

    def not_(self, x: Operand) -> Operand:
        return self.binary("xor", x, -1)

    def fneg(self, x: Operand) -> Operand:
        return self.emit(Instruction("fneg", x.type, [x]))

    def freeze(self, x: Operand) -> Operand:
        return self.emit(Instruction("freeze", x.type, [x]))

    def icmp(self, predicate: str, x: Operand, y: Number) -> Operand:
        return self.compare("icmp", predicate, x, y)

    def fcmp(self, predicate: str, x: Operand, y: Number) -> Operand:
        return self.compare("fcmp", predicate, x, y)

    def compare(
        self, opcode: str, predicate: str, x: Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> Operand:
        t = with_elements(x.type, I1)
        operands = [x, _as_operand(y, x)]
        return self.emit(Instruction(opcode, t, operands, flags=flags, extra=predicate))

    def select(
        self, condition: Operand, x: Operand, y: Number, flags: tuple[str, ...] = ()
    ) -> Operand:
        operands = [condition, x, _as_operand(y, x)]
        return self.emit(Instruction("select", x.type, operands, flags=flags))

    # --- casts --------------------------------------------------------------------------------

    def cast(self, opcode: str, x: Operand, t: Type, flags: tuple[str, ...] = ()) -> Operand:
        """Convert to type `t`; for vectors, `t` may be the element type, except for a bitcast."""
        if opcode != "bitcast" and x.type.kind == "vec" != t.kind:
            t = with_elements(x.type, t)
        return self.emit(Instruction(opcode, t, [x], flags=flags))

    trunc = _cast("trunc")
    zext = _cast("zext")
    sext = _cast("sext")
    fptrunc = _cast("fptrunc")
    fpext = _cast("fpext")
    inttoptr = _cast("inttoptr")
    sitofp = _cast("sitofp")
    uitofp = _cast("uitofp")
    fptosi = _cast("fptosi")
    fptoui = _cast("fptoui")

    def ptrtoint(self, x: Operand, t: Type = I64) -> Operand:
        return self.cast("ptrtoint", x, t)

    def bitcast(self, x: Operand, t: Type) -> Operand:
        """Reinterpret the bits as type `t`, which must be the whole vector type for vectors."""
        return x if x.type is t else self.emit(Instruction("bitcast", t, [x]))

    # --- memory -------------------------------------------------------------------------------

    def alloca(self, t: Type, count: Operand | None = None, *, align: int = 0) -> Operand:
        operands = [] if count is None else [count]
        return self.emit(Instruction("alloca", PTR, operands, element=t, align=align))

    def load(
        self, t: Type, address: Operand, *, align: int = 0, volatile: bool = False,
        ordering: str = "",
    ) -> Operand:
        return self.emit(Instruction(
            "load", t, [address], flags=_VOLATILE if volatile else (), align=align,
            orderings=(ordering,) if ordering else ()))

    def store(
        self, value: Operand, address: Operand, *, align: int = 0, ordering: str = ""
    ) -> Instruction:
        return self.append(Instruction("store", VOID, [value, address], align=align,
                                       orderings=(ordering,) if ordering else ()))

    def gep(
        self, t: Type, base: Operand, *indices: Operand | int, flags: tuple[str, ...] = ()
    ) -> Operand:
        """Advance `base` by an index in units of `t`; a Python number is a 64-bit index."""
        operands = [base, *(_index(k) for k in indices)]
        count = next((o.type.count for o in operands if o.type.kind == "vec"), 0)
        result = vector(count, PTR) if count else PTR
        return self.emit(Instruction("getelementptr", result, operands, flags=flags, element=t))

    def at(self, pointer: Operand, offset: int) -> Operand:
        """The pointer `offset` bytes further on."""
        return pointer if offset == 0 else self.gep(I8, pointer, offset)

    def copy(self, target: Operand, source: Operand, nbytes: Number, align: int = 1) -> None:
        self._memory("llvm.memcpy.p0.p0.i64", [target, source, _index(nbytes)], (align, align))

    def fill(self, target: Operand, byte: int, nbytes: Number, align: int = 1) -> None:
        operands = [target, constant(I8, byte), _index(nbytes)]
        self._memory("llvm.memset.p0.i64", operands, (align,))

    def _memory(self, callee: str, operands: list[Operand], aligns: tuple[int, ...]) -> None:
        i = Instruction("call", VOID, [*operands, constant(I1, 0)], callee=callee)
        i.aligns = aligns + (0,) * (4 - len(aligns))
        self.append(i)

    def atomicrmw(
        self, operation: str, address: Operand, value: Operand, ordering: str = "seq_cst", *,
        align: int = 0,
    ) -> Operand:
        return self.emit(Instruction("atomicrmw", value.type, [address, value], extra=operation,
                                     orderings=(ordering,), align=align))

    def cmpxchg(
        self, address: Operand, expected: Operand, value: Operand, ordering: str = "seq_cst", *,
        align: int = 0,
    ) -> Operand:
        """Compare and swap; the result is a struct of the old value, and true if it was swapped."""
        return self.emit(Instruction(
            "cmpxchg", struct((value.type, I1)), [address, expected, value],
            orderings=(ordering, ordering), align=align))

    def fence(self, ordering: str = "seq_cst") -> None:
        self.append(Instruction("fence", VOID, [], orderings=(ordering,)))

    # --- vectors and structs ------------------------------------------------------------------

    def zero(self, t: Type) -> Operand:
        return zero(t)

    def shuffle(self, x: Operand, y: Operand | None, indices: Sequence[int]) -> Operand:
        """Select elements by index: those of x, followed by those of y; -1 is undefined.

        Elements of a constant are a constant: in a store, LLVM 22.1 has no code for their shuffle.
        """
        t = vector(len(indices), x.type.scalar)
        if y is None and x.elements and min(indices) >= 0:
            return constant_vector([x.elements[k] for k in indices])
        other = poison(x.type) if y is None else y
        return self.emit(Instruction("shufflevector", t, [x, other], indices=tuple(indices)))

    def extract(self, x: Operand, index: Operand | int) -> Operand:
        return self.emit(Instruction("extractelement", x.type.scalar, [x, _element(index)]))

    def insert(self, x: Operand, element: Operand, index: Operand | int) -> Operand:
        return self.emit(Instruction("insertelement", x.type, [x, element, _element(index)]))

    def broadcast(self, scalar: Operand, count: int) -> Operand:
        t = vector(count, scalar.type)
        if scalar.is_constant and scalar.text[0] != "@":
            return constant(t, scalar.text)
        return self.shuffle(self.insert(poison(t), scalar, 0), None, (0,) * count)

    def pack(self, t: Type, elements: Iterable[Operand]) -> Operand:
        """Build a vector of these elements by inserting each."""
        x = poison(t)
        for k, element in enumerate(elements):
            x = self.insert(x, element, k)
        return x

    def extract_value(self, x: Operand, *indices: int) -> Operand:
        t = x.type
        for k in indices:
            t = t.fields[k]
        return self.emit(Instruction("extractvalue", t, [x], indices=indices))

    def insert_value(self, x: Operand, value: Operand, *indices: int) -> Operand:
        return self.emit(Instruction("insertvalue", x.type, [x, value], indices=indices))

    # --- calls --------------------------------------------------------------------------------

    def call(
        self, callee: str | Operand, result: Type, arguments: Sequence[Operand] = (), *,
        flags: tuple[str, ...] = (), attributes: str = "", aligns: tuple[int, ...] = (),
    ) -> Operand:
        """Call a function by name (it is declared on printing), or through a pointer.

        Returns an operand of type void where there is no result.
        """
        name = callee if isinstance(callee, str) else callee.text
        i = Instruction("call", result, list(arguments), flags=flags, callee=name,
                        attributes=attributes, aligns=aligns)
        if result is not VOID:
            return self.emit(i)
        self.append(i)
        return Operand(VOID, "void")

    def invoke(self, routine: Routine, *arguments: Number) -> Operand:
        """Call a routine; numbers become constants of the parameters' types."""
        given = (a if isinstance(a, Operand) else constant(p[1], a)
                 for a, p in zip(arguments, routine.parameters, strict=True))
        operands = [self.bitcast(a, _parameter_type(a.type)) for a in given]
        return self.call(routine.symbol, routine.result, operands)

    def intrinsic(
        self, name: str, *arguments: Operand, result: Type | None = None,
        flags: tuple[str, ...] = (),
    ) -> Operand:
        """Call `llvm.<name>` for the type of its first argument: `intrinsic("smax", x, y)`."""
        first = arguments[0].type
        return self.call(f"llvm.{name}.{first.mangled}", result or first, arguments, flags=flags)

    # --- control ------------------------------------------------------------------------------

    def phi(self, t: Type, *incoming: tuple[Operand, str]) -> Instruction:
        """Append a phi to the current block; `add_incoming` adds more values."""
        i = Instruction("phi", t, [v for v, _ in incoming], labels=[x for _, x in incoming])
        self.emit(i)
        return i

    @staticmethod
    def add_incoming(phi: Instruction, value: Operand, label: str) -> None:
        """Add the value that a phi receives from the block `label`."""
        phi.operands.append(value)
        phi.labels.append(label)

    def br(self, label: str) -> None:
        self.append(Instruction("br", VOID, [], labels=[label]))

    def cond_br(self, condition: Operand, then: str, otherwise: str) -> None:
        self.append(Instruction("br", VOID, [condition], labels=[then, otherwise]))

    def switch(self, value: Operand, default: str, cases: Sequence[tuple[int, str]]) -> None:
        operands = [value, *(constant(value.type, k) for k, _ in cases)]
        labels = [default, *(label for _, label in cases)]
        self.append(Instruction("switch", VOID, operands, labels=labels))

    def ret(self, value: Operand | None = None) -> None:
        self.append(Instruction("ret", VOID, [] if value is None else [value]))

    def unreachable(self) -> None:
        self.append(Instruction("unreachable", VOID, []))


_VOLATILE = ("volatile",)


def _as_operand(x: Number, other: Operand) -> Operand:
    return x if isinstance(x, Operand) else constant(other.type, x)


def _index(x: Number) -> Operand:
    return x if isinstance(x, Operand) else constant(I64, x)


def _element(x: Operand | int) -> Operand:
    return x if isinstance(x, Operand) else constant(I32, x)
