"""Track undefined bits of a kernel's values in shadow values that the kernel computes.

A load whose mask is false in a lane, and that has no value for such lanes, leaves the lane's
register undefined.  So does an atomic whose mask is false. `instrument` gives every value that
may have such bits a *shadow*: an integer of the same shape whose set bits are undefined. Shadows
follow arithmetic bit by bit if that is cheap; otherwise an undefined operand makes the whole result
undefined. The result of a select or a logical operation is defined again if the other operand
decides it. That includes a branch in a function that combines values (`inline_helpers`). Undefined
bits are *used* by a store that is not masked off, an address, a mask, a branch, an atomic: there
the sanitizer reports them.

Some kernels take the exclusive or of two such values, as sorts do to exchange elements.  There the
shadow of an undefined element is a tag, some bits that distinguish it from others: the tag of `x ^
(x ^ y)` is that of `y`.  A comparison treats all bits of such an element as undefined.

The instructions added are the simulator's own, `xe.shadow.*` (see `definedness_rules`), and
ordinary ones.  Values that no such load reaches have no shadow and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from triton_xe import llvm as ir
from triton_xe.hardware.dpas import MAX_REPEAT_COUNT
from triton_xe.intrinsics import Family, find, genisa, llvm, own
from triton_xe.llvm import Block, Builder, Function, Instruction, Operand, Type, folding
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import readers, solve
from triton_xe.llvm.values import Value, Values
from triton_xe.runtime.simulator.analysis import sources
from triton_xe.runtime.simulator.analysis.calls import argument, is_lane_helper
from triton_xe.runtime.simulator.analysis.numbers import (
    by_lanes,
    is_block,
    makes_numbers,
)
from triton_xe.runtime.simulator.analysis.private_arrays import private_pointers
from triton_xe.runtime.simulator.analysis.provenance import Read, read_for
from triton_xe.runtime.simulator.sanitizer.plan import (
    BROKEN,
    NONE,
    Cause,
    Origin,
    Origins,
    Undefined,
    Use,
)
from triton_xe.spirv import FITS_NODE, INSIDE_NODE, PROMISE_NODE, RANGE_NODE

ORIGIN, USE, BLOCK, DPAS, SLM = (
    row.name for row in (own.SHADOW_ORIGIN, own.SHADOW_USE, own.SHADOW_BLOCK, own.SHADOW_DPAS,
                         own.SHADOW_SLM))
_LOAD, _STORE = genisa.PREDICATED_LOAD, genisa.PREDICATED_STORE
_FROM_MEMORY = (Family.BLOCK_2D, Family.PAYLOAD, Family.ATOMIC)
SHARED = "*"
"""Key of the origins of shared memory."""
_OR = ir.constant(ir.I8, genisa.WAVE_OPERATIONS.index("or"))


def _is_load(i: Instruction) -> bool:
    """True if a result is read from memory without a mask."""
    return i.opcode == "load" or find(i.callee) is genisa.SIMD_BLOCK_READ


def shadow_type(t: Type) -> Type:
    """Integers of the same width as the elements of `t`."""
    if t.kind == "vec":
        return ir.vector_or_scalar(t.count, shadow_type(t.scalar))
    return ir.I64 if t.kind == "ptr" else t if t.kind == "int" else ir.integer(t.bits)


def instrument(
    function: Function, plan: Undefined, *, helpers: dict[str, Function],
    entry: Callable[[Operand], int],
) -> Function:
    """The function with shadows and checks; itself if no load in it leaves lanes undefined.

    `helpers` are the functions of the module by name.  `entry` returns the kernel argument that an
    address is computed from.
    """
    made = _Shadows(function, plan, helpers, entry)
    some = any(made.begins(i) or _is_assumption(i) for i in function.instructions())
    return made.run() if some else function


class _Shadows(Values):
    def __init__(
        self, function: Function, plan: Undefined, helpers: dict[str, Function],
        entry: Callable[[Operand], int],
    ) -> None:
        super().__init__(Builder(function, "xe.u"))
        self.function = function
        self.plan = plan
        self.helpers = helpers
        self.entry = entry
        self.pointers = private_pointers(function)
        self.facts = Facts(function)
        self.loads = frozenset(name for name, i in self.facts.makers.items()
                               if loads_global(i) and by_lanes(i))
        self.taint: dict[str, Origins] = {}
        """Origins that reach each value, and each memory (see `_memory`)."""
        self.numbers: dict[int, int] = {}
        self.has_tags = False
        self.others: dict[str, Operand] = {}
        """Shadows that equal those of other values, by name."""
        self.reads: dict[int, Read] = {}
        """Loads that the operands of operations that may fail come from, by number."""
        self.structs: dict[str, Instruction] = {}
        """Calls that return several values."""

    def run(self) -> Function:
        """Find instructions that may leave bits undefined, spread their origins, and rewrite."""
        known = sources.Sources(self.facts, self._read_by)
        for i in self.function.instructions():
            why = self.begins(i)
            if why is not None:
                number = self.numbers[id(i)] = len(self.plan.origins)
                read = None if why.is_load else self._read_for(i.operands[why is Cause.DIVISION])
                if read is not None:
                    self.reads[number] = read
                load = i if why.is_load else None if read is None else read.load
                entry = -1 if load is None else self.entry(load.operands[0])
                source = indices = -1
                if why is Cause.GATHER:
                    source = known.argument(known.shared.get(id(i)))
                    indices = known.argument(i.operands[0])
                self.plan.origins.append(Origin(i.line, why, entry, i.debug, source, indices))
            elif i.opcode == "call" and i.type.kind == "struct" and i.result is not None:
                self.structs[i.result] = i
        instructions = list(self.function.instructions())
        solve(instructions, self._spread, readers({i: self._read(i) for i in instructions}),
              self.taint)
        self.has_tags = any(map(self._exchanges, self.function.instructions()))
        blocks = [self._rewrite(b) for b in self.function.blocks]
        ir.substitute(blocks, self.others)  # in phis of loops, for example
        return replace(self.function, blocks=blocks)

    def _read_by(self, i: Instruction) -> int | None:
        return self.entry(i.operands[0]) if loads_global(i) else None

    def _loses_bits(self, i: Instruction) -> bool:
        """True if it narrows an integer of a tensor to an index, or to a part of one."""
        if i.opcode != "trunc" or i.type.scalar.bits < 16:
            return False
        value, read = i.operands[0], self._read_for(i.operands[0])
        if read is None or not sources.is_moved_from(value, read.load, self.facts):
            return False
        size = self.plan.integers.get(self.entry(read.load.operands[0]), 0)
        return value.type.scalar.size == size and sources.is_index(i.value.text, self.facts)

    def _read_for(self, operand: Operand) -> Read | None:
        return read_for(operand, self.facts, self.loads)

    def _exchanges(self, i: Instruction) -> bool:
        """True if it takes the exclusive or of values that one masked load may leave undefined."""
        return i.opcode == "xor" and i.type.scalar is not ir.I1 and any(
            self.plan.origins[k].why is Cause.MASKED
            for k in self._of(i.operands[0]) & self._of(i.operands[1]))

    def begins(self, i: Instruction) -> Cause | None:
        """Reason why a result may be undefined although no operand is; None if it cannot."""
        if self.reads_suspect(i):
            return Cause.UNWRITTEN
        if self.reads_part(i):
            return Cause.PART
        if i.unfilled or i.defines:
            return _CONDITIONS.get(i.defines, Cause.MASKED)
        if is_masked_atomic(i):
            return Cause.ATOMIC
        if i.opcode in _DIVISIONS:
            return None if i.operands[1].local is None else Cause.DIVISION
        if i.opcode in _CASTS:
            return Cause.CAST
        if self._loses_bits(i):
            return Cause.LOST
        return Cause.NAN if self.plan.finite and makes_numbers(i) else None

    def reads_suspect(self, i: Instruction) -> bool:
        """True if it loads from a block with unwritten bytes."""
        return loads_global(i) and self.entry(i.operands[0]) in self.plan.suspects

    def reads_part(self, i: Instruction) -> bool:
        """True if it loads integers narrower than those of its tensor, lane by lane."""
        if i.type.scalar.kind != "int" or not loads_global(i) or not by_lanes(i):
            return False
        return i.type.scalar.size < self.plan.integers.get(self.entry(i.operands[0]), 0)

    # --- which values may be undefined ------------------------------------------------------------

    def _of(self, *operands: Operand) -> Origins:
        """Origins of the undefined bits that any of the operands may have."""
        return NONE.union(*(self.taint.get(o.local or "", NONE) for o in operands))

    def _array(self, pointer: str | None) -> str | None:
        """The private array that a pointer, by name, points into."""
        found = self.pointers.get(pointer or "")
        return found[0] if found else None

    def _memory(self, pointer: Operand) -> str | None:
        """Key in `taint` of the memory that a pointer points into, if origins pass through it."""
        array = self._array(pointer.local)
        return f"*{array}" if array is not None else SHARED if pointer.type.space == 3 else None

    def _read(self, i: Instruction) -> list[str]:
        """Values and memory of which an instruction passes origins on."""
        memory = self._memory(i.operands[0]) if _is_load(i) else None
        return [*i.locals(), *(o.text for o in self._sources(i)), *([memory] if memory else [])]

    def _spread(self, i: Instruction) -> tuple[str, Origins] | None:
        """The value or memory that an instruction writes, and the origins that reach it."""
        if i.opcode == "store" or find(i.callee) is genisa.SIMD_BLOCK_WRITE:
            value, pointer = i.operands if i.opcode == "store" else reversed(i.operands[:2])
            target, found = self._memory(pointer), self._of(value)
        else:
            target, found = (i.result, self._result(i)) if i.type.kind != "struct" else (None, NONE)
        if target is None or not found:
            return None
        return target, found | self.taint.get(target, NONE)

    def _result(self, i: Instruction) -> Origins:
        """Origins that may make the result of `i` undefined."""
        if id(i) in self.numbers:
            why = self.plan.origins[self.numbers[id(i)]].why
            rest = [] if why.is_load else i.operands
            if find(i.callee) is _LOAD:
                rest = [argument(i, "other")]
            return self._of(*rest) | {self.numbers[id(i)]}
        if i.opcode == "alloca" or i.result in self.pointers:
            return NONE
        known = find(i.callee)
        if _is_load(i):
            return self.taint.get(self._memory(i.operands[0]) or "", NONE)
        if i.opcode in ir.ACCESSES:
            return NONE
        if known is _LOAD:
            return self._of(argument(i, "other"))
        if known.family in _FROM_MEMORY or self._touches_memory(i):
            return NONE
        return self._of(*self._sources(i))

    def _sources(self, i: Instruction) -> list[Operand]:
        """Operands that a result depends on; for one of several results, those of the call."""
        call = self.structs.get(i.operands[0].local or "") if i.opcode == "extractvalue" else None
        if call is None:
            return i.operands
        return [] if self._touches_memory(call) else call.operands

    def _touches_memory(self, i: Instruction) -> bool:
        """True for a call of a lane helper that reads or writes memory."""
        if i.opcode != "call" or not is_lane_helper(i.callee):
            return False
        target = self.helpers.get(i.callee)
        return target is None or any(x.opcode in ir.ACCESSES for x in target.instructions())

    # --- writing ----------------------------------------------------------------------------------

    def _rewrite(self, block: Block) -> Block:
        """Insert checks before, and shadows after, the instructions of a block."""
        b, count = self.b, len(block.phis)
        b.block = Block(block.label, block.instructions[:count])
        for i in block.phis:
            if i.result in self.taint:
                b.append(Instruction(
                    "phi", shadow_type(i.type), [self.shadow(o).operand for o in i.operands],
                    _shadow_name(i.result or ""), labels=list(i.labels), line=i.line,
                    debug=i.debug))
        for i in block.instructions[count:]:
            first = len(b.block.instructions)
            self._checks(i)
            b.append(i)
            self._follow(i)
            for new in b.block.instructions[first:]:
                new.line, new.debug = i.line, i.debug
        return b.block

    def _follow(self, i: Instruction) -> None:
        """Append the instructions that compute the shadow of a result, or store that of a value."""
        name = _shadow_name(i.result or "")
        if i.opcode == "alloca" and f"*{i.result}" in self.taint:
            self.b.append(replace(i, result=name))
        elif f"*{self._array(i.result)}" in self.taint:
            first = i.operands[0]
            moved = Operand(first.type, _shadow_name(first.text))
            self.b.append(replace(i, operands=[moved, *i.operands[1:]], result=name))
        elif i.result in self.taint:
            value = self._result_shadow(i)
            last = self.b.block.instructions[-1]
            if last.result != value.operand.text:
                self.others[name] = value.operand
                return
            last.result = name
        elif i.opcode == "store" or find(i.callee) is genisa.SIMD_BLOCK_WRITE:
            self._follow_store(i)

    def _result_shadow(self, i: Instruction) -> Value:
        """Write the shadow of a result, from its operands and its own failure."""
        number = self.numbers.get(id(i))
        if number is None or self.plan.origins[number].why.is_load:
            return _RULES.get(i.opcode, _Shadows._any_operand)(self, i)
        t = shadow_type(i.type)
        bad = self._goes_wrong(i, self.plan.origins[number].why)
        self._note(ORIGIN, [self._operand_address(number, bad), (~self.lane(bad)).operand], number)
        found = bad.signed(t.scalar)
        if not self._of(*i.operands):
            return found
        return found | _RULES.get(i.opcode, _Shadows._any_operand)(self, i)

    def _operand_address(self, number: int, bad: Value) -> Operand:
        """Address that the operand of a failing operation was loaded from; 1 if unknown."""
        read = self.reads.get(number)
        if read is None:
            return ir.constant(ir.I64, 1)
        if read.element is None and bad.type.lanes == read.load.type.lanes:
            at = self._bad_address(bad, read.load)
        else:
            at = self._address(read.load) + (read.element or 0) * read.load.type.scalar.size
        masked = find(read.load.callee) is _LOAD
        return (self.select(self.wrap(read.load.operands[2]), at, 1) if masked else at).operand

    def _goes_wrong(self, i: Instruction, why: Cause) -> Value:
        """Flag per element: true if an operation has no defined result."""
        o = [self.wrap(x) for x in i.operands]
        if i.defines:
            return ~self.wrap(i.value)
        if why is Cause.DIVISION:
            return o[1] == 0
        if why is Cause.CAST:
            return ~self._in_range(i, o[0])
        if why is Cause.LOST:
            return ~o[0].fits(i.type.scalar.bits)
        bad = self._is_nan(self.wrap(i.value))
        for x in o:
            if x.type.scalar.kind == "float" and not x.operand.is_undefined:
                bad = bad & ~self._is_nan(x)
        return bad

    def _is_nan(self, x: Value) -> Value:
        return x.compare("uno", x)

    def _in_range(self, i: Instruction, x: Value) -> Value:
        """True if a number, truncated, is in the range of an integer type."""
        if x.type.scalar.bits < 32:
            x = x.to(ir.F32)
        bits, signed = i.type.scalar.bits, i.opcode == "fptosi"
        low, high = (-float(1 << bits - 1), float(1 << bits - 1)) if signed else (
            0.0, float(1 << bits))
        exact = bits <= (24 if x.type.scalar.bits == 32 else 53)
        above = x.compare("ogt", low - 1) if exact or not signed else x.compare("oge", low)
        return above & x.compare("olt", high)

    def shadow(self, operand: Operand) -> Value:
        """Shadow of an operand: bits that are set where it is undefined; 0 if it cannot be."""
        t = shadow_type(operand.type)
        if operand.local is not None and operand.local in self.taint:
            name = _shadow_name(operand.local)
            return self.wrap(self.others.get(name) or Operand(t, name))
        return self.term(0, t)

    def same(
        self, i: Instruction, operands: Sequence[Value | Operand], *, opcode: str = "",
        callee: str = "",
    ) -> Value:
        """The operation of `i`, or another one with its fields, for a shadow of its result."""
        given = [o.operand if isinstance(o, Value) else o for o in operands]
        return Value(self, self.b.emit(Instruction(
            opcode or i.opcode, shadow_type(i.type), given, callee=callee or i.callee,
            indices=i.indices, align=i.align)))

    def any(self, s: Value) -> Value:
        """Flag per element: true if a bit is set."""
        return s if s.type.scalar is ir.I1 else s != 0

    def full(self, s: Value, t: Type) -> Value:
        """All bits of the elements of a shadow of type `t` in which a bit of `s` is set."""
        found = self.any(s)
        if found.type.lanes != t.lanes:
            found = self.spread(self.lane(found), t.count)
        return found.signed(t.scalar)

    def lane(self, s: Value) -> Value:
        """True if a bit of any element is set."""
        found = self.any(s)
        if found.type.lanes == 1:
            return found
        return reduce(or_, [found[k] for k in range(found.type.lanes)])

    def either(self, i: Instruction, found: Value, *others: Operand) -> Value:
        """Shadow of the result of `i`, all undefined if any operand is."""
        for o in others:
            if self._of(o):
                found = found | self.full(self.shadow(o), shadow_type(i.type))
        return found

    # --- results ----------------------------------------------------------------------------------

    def _any_operand(self, i: Instruction) -> Value:
        first, *rest = (o for o in self._sources(i) if self._of(o))
        return self.either(i, self.full(self.shadow(first), shadow_type(i.type)), *rest)

    def _moved(self, i: Instruction) -> Value:
        """Apply the move to the shadows of the values that it moves."""
        moved = i.operands[:_MOVED.get(i.opcode)]
        return self.same(i, [*(self.shadow(o) for o in moved), *i.operands[len(moved):]])

    def _cast(self, i: Instruction) -> Value:
        s, t = self.shadow(i.operands[0]), shadow_type(i.type)
        if s.type == t:
            return s
        return self.same(i, [s]) if i.opcode in ("bitcast", "sext") else s.to(t.scalar)

    def _bits(self, operand: Operand) -> Value:
        """Undefined bits of an operand; a tag counts as all bits."""
        s = self.shadow(operand)
        tagged = self.has_tags and s.type.scalar is not ir.I1 and self._of(operand)
        return self.full(s, s.type) if tagged else s

    def _both(self, i: Instruction) -> Value:
        a, b = (self._bits(o) for o in i.operands[:2])
        return a | b

    def _xor(self, i: Instruction) -> Value:
        """Shadow of an exclusive or: equal tags cancel.

        -1 is an undefined element without a tag.
        """
        if not self.has_tags or i.type.scalar is ir.I1:
            return self._both(i)
        a, b = (self.shadow(o) for o in i.operands)
        return self.select((a == -1) | (b == -1), -1, a ^ b, a.type)

    def _decided(self, i: Instruction) -> Value:
        """Shadow of `and` and `or`: a defined 0 or 1 of one side decides."""
        (a, sa), (b, sb) = ((Value(self, o), self.shadow(o)) for o in i.operands)
        if i.opcode == "or":
            a, b = ~a, ~b
        return sa & sb | a & sb | b & sa

    def _carry(self, i: Instruction) -> Value:
        """Shadow of sums and products: undefined from the lowest undefined bit up.

        If a factor is 0, a product is defined.  A constant factor moves bits up by its trailing
        zeros.
        """
        a, b = i.operands
        if self.has_tags:
            return self._carried_tag(i)
        first, second = self.shadow(a), self.shadow(b)
        factor = folding.number(b) if i.opcode == "mul" else None
        if factor:
            power = factor & -factor
            found = first << power.bit_length() - 1
            return found if power == factor else self._upward(found)
        found = self._upward(first | second)
        if i.opcode != "mul":
            return found
        zeros = [(Value(self, x) | own) == 0 for x, own, other in (
            (a, first, b), (b, second, a)) if self._of(other)]
        return self.select(reduce(or_, zeros), 0, found)

    def _upward(self, s: Value) -> Value:
        """Set all bits above the lowest one that is set."""
        return s | self.term(0, s.type) - s

    def _carried_tag(self, i: Instruction) -> Value:
        """Shadow of sums and products where shadows may be tags, which 0 and 1 leave unchanged."""
        found = self._upward(self._both(i))
        shadows = [self.shadow(o) for o in i.operands]
        a, b = (Value(self, o) | x for o, x in zip(i.operands, shadows, strict=True))
        if i.opcode != "sub":
            same = int(i.opcode == "mul")
            found = self.select(a == same, shadows[1], self.select(b == same, shadows[0], found))
        return found if i.opcode != "mul" else self.select((a == 0) | (b == 0), 0, found)

    def _shift(self, i: Instruction) -> Value:
        value, amount = i.operands
        return self.either(i, self.same(i, [self.shadow(value), amount]), amount)

    def _compare(self, i: Instruction) -> Value:
        """Undefined if the undefined bits can change the result."""
        if i.operands[0].type.scalar.kind != "int":
            return self._any_operand(i)
        if i.extra not in ("eq", "ne"):
            ends = [self._ends(o, signed=i.extra[0] == "s") for o in i.operands]
            (low, high), (other_low, other_high) = ends
            return low.compare(i.extra, other_high) ^ high.compare(i.extra, other_low)
        s = self._both(i)
        a, b = (Value(self, o) for o in i.operands)
        return ((a ^ b) & ~s == 0) & self.any(s)

    def _ends(self, o: Operand, signed: bool) -> tuple[Value, Value]:
        """The smallest and the largest number that an operand may be."""
        value, s = Value(self, o), self._bits(o)
        sign = s & (-1 << o.type.scalar.bits - 1) if signed else 0
        return value & ~s | sign, (value | s) ^ sign

    def _select(self, i: Instruction) -> Value:
        condition, a, b = i.operands
        return self.either(i, self.same(i, [condition, self.shadow(a), self.shadow(b)]), condition)

    def _load(self, i: Instruction) -> Value:
        address = i.operands[0]
        if id(i) in self.numbers:
            return self._part(i) if self.reads_part(i) else self._unwritten(i)
        if self._array(address.local) is not None:
            return self.same(i, [Operand(address.type, _shadow_name(address.text))])
        return self.same(i, [self._slm_shadow(address)])

    def _slm_shadow(self, pointer: Operand) -> Operand:
        return self.b.call(SLM, ir.PTR, [pointer])

    def _follow_store(self, i: Instruction) -> None:
        """Store the shadow of a value at the shadow of its address."""
        at = 1 if i.opcode == "store" else 0
        pointer, value = i.operands[at], i.operands[1 - at]
        if self._memory(pointer) not in self.taint:
            return
        is_shared = self._memory(pointer) == SHARED
        moved = self._slm_shadow(pointer) if is_shared else Operand(
            pointer.type, _shadow_name(pointer.text))
        shadow = self.shadow(value).operand
        operands = [shadow, moved] if at else [moved, shadow, *i.operands[2:]]
        self.b.append(Instruction(i.opcode, ir.VOID, operands, callee=i.callee, align=i.align))

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, i: Instruction) -> Value:
        """Write the shadow of a call's result, by the family of the intrinsic."""
        known, t, o = find(i.callee), shadow_type(i.type), i.operands
        if self.reads_suspect(i):
            return self._unwritten(i)
        if self.reads_part(i):
            return self._part(i)
        if i.unfilled or known is _LOAD:
            return self._masked_load(i)
        if is_masked_atomic(i):
            self._note(ORIGIN, [o[0], o[-1]], self.numbers[id(i)])
            return self.select(Value(self, o[-1]), 0, -1, t)
        if known is genisa.SIMD_BLOCK_READ:
            return self.same(i, [self._slm_shadow(o[0])])
        if known is genisa.DPAS:
            return self.same(i, [*(self.shadow(x) for x in o[:3]), *o[3:]], callee=DPAS)
        if known is genisa.SCALED_DPAS:
            rows = ir.constant(ir.I32, MAX_REPEAT_COUNT)
            factors: list[Value | Operand] = [self.shadow(x) for x in o[:3]]
            factors += [*o[5:], rows, rows]
            return self.either(i, self.same(i, factors, callee=DPAS), *o[3:5])
        if known.family is Family.SHUFFLE:
            at = known.positions["value"]
            rest = o[:at] + o[at + 1:]
            return self.either(i, self.same(i, [*o[:at], self.shadow(o[at]), *o[at + 1:]]), *rest)
        if known.family is Family.REDUCTION and not known.is_builtin:
            return self.full(self.same(i, [self.shadow(o[0]), _OR, *o[2:]]), t)
        if known.family in (Family.REDUCTION, Family.VOTE):
            lane = self.lane(self.shadow(next(x for x in o if self._of(x))))
            whole = self.b.call(genisa.WAVE_ALL.name, ir.I1, [lane.operand, _OR])
            return self.full(Value(self, whole), t)
        return self._any_operand(i)

    def _unwritten(self, i: Instruction) -> Value:
        """Load the map of unwritten bytes like the data, and note the lanes that need them.

        A 2D block has no address per lane, so that its origin is not recorded.
        """
        number, masked = self.numbers[id(i)], find(i.callee) is _LOAD
        operands, mask = list(i.operands), i.operands[2] if masked else ir.TRUE
        if masked:
            operands[3] = (self.term(-1, shadow_type(i.type)) if i.unfilled
                           else self.shadow(i.operands[3])).operand
        found = Value(self, self.b.emit(replace(
            i, type=shadow_type(i.type), operands=operands, result=None, unfilled=False,
            shadow=True)))
        if not is_block(i):
            defined = ~self.lane(found) | ~Value(self, mask)
            self._note(ORIGIN, [self._bad_address(found, i).operand, defined.operand], number)
        return found

    def _part(self, i: Instruction) -> Value:
        """Shadow of a load of narrower integers than its tensor's.

        An element is undefined, all of it, unless it begins where an element of the tensor begins.
        """
        t, whole = shadow_type(i.type), self.plan.integers[self.entry(i.operands[0])]
        bad = (self._element_addresses(i) & whole - 1) != 0
        masked = find(i.callee) is _LOAD
        mask = self.wrap(i.operands[2]) if masked else self.term(1, ir.I1)
        self._note(ORIGIN, [self._bad_address(bad, i).operand, (~(self.lane(bad) & mask)).operand],
                   self.numbers[id(i)])
        found = bad.signed(t.scalar)
        if not masked:
            return found
        missing = -1 if i.unfilled else self.shadow(i.operands[3])
        return self.select(mask, found, missing, t)

    def _bad_address(self, found: Value, i: Instruction) -> Value:
        """Address of the first undefined element of a load."""
        bad, size = self.any(found), i.type.scalar.size
        step = self.term(0, ir.I64)
        for k in range(bad.type.lanes - 1, -1, -1) if bad.type.lanes > 1 else ():
            step = self.select(bad[k], k * size, step)
        return self._address(i) + step

    def _address(self, i: Instruction) -> Value:
        """Address of a load, as an integer."""
        at = self.wrap(i.operands[0])
        return at.integer() if at.type.kind == "ptr" else at

    def _element_addresses(self, i: Instruction) -> Value:
        """Address of each element of a load."""
        at, t = self._address(i), i.type
        steps = [k * t.scalar.size for k in range(t.lanes)]
        return at if t.lanes == 1 else self.spread(at, t.lanes) + self.wrap(
            ir.integers(ir.I64, steps))

    def _masked_load(self, i: Instruction) -> Value:
        mask = Value(self, i.operands[2])
        if i.unfilled:
            self._note(ORIGIN, [i.operands[0], i.operands[2]], self.numbers[id(i)])
        missing: Value | int = self._missing(i) if i.unfilled else self.shadow(i.operands[3])
        return self.select(mask, 0, missing, shadow_type(i.type))

    def _missing(self, i: Instruction) -> Value | int:
        """Shadow of a masked element: all bits, or a tag computed from its address."""
        t = shadow_type(i.type)
        if not self.has_tags or t.scalar is ir.I1:
            return -1
        bits = t.scalar.bits
        number = self._element_addresses(i) // t.scalar.size
        mixed = (number * 0x9E3779B97F4A7C15 >> 65 - bits).to(t.scalar)
        return mixed & (1 << bits - 1) - 1 | 1

    # --- uses -------------------------------------------------------------------------------------

    def _checks(self, i: Instruction) -> None:
        """Report undefined bits that `i` would use."""
        known, o = find(i.callee), i.operands
        if _is_assumption(i):
            read = self._read_for(o[0])
            at = [] if read is None else [read.load.operands[0]]
            self._note(USE, [(~self.wrap(o[0])).operand, ir.TRUE, *at], len(self.plan.uses))
            self.plan.uses.append(Use(BROKEN, NONE, -1 if read is None else self.entry(at[0])))
        elif i.opcode in ("br", "switch") and o:
            self._use("a branch on", o[0])
        elif i.opcode in ("load", "store"):
            if self._array(o[-1].local) is None:
                self._use(f"a {i.opcode} through", o[-1])
                if i.opcode == "store" and o[-1].type.space != 3:
                    self._use("a store of", o[0], at=o[-1])
        elif i.opcode in ir.ATOMICS or known.family is Family.ATOMIC:
            self._use("an atomic on", *o)
        elif known is _LOAD or i.unfilled:
            self._use("the mask of a load made of", o[2])
            self._use("a load through", o[0], active=o[2])
        elif known is _STORE:
            self._use("the mask of a store made of", o[3])
            self._use("a store through", o[0], active=o[3])
            self._use("a store of", o[1], active=o[3], at=o[0])
        elif known.family in (Family.BLOCK_2D, Family.PAYLOAD):
            self._check_block(i)
        elif known.family is Family.BLOCK_1D:
            self._use("a block access through", o[0])
            if known.has("value") and o[0].type.space != 3:
                self._use("a store of", o[1], at=o[0])
        elif known is own.REPORT:
            self._use("a report on", o[-1])
        elif self._touches_memory(i):
            # a helper's last argument, if it is an i1, is true in lanes that take part
            self._use("an atomic on", o[-1])
            self._use("an atomic on", *o[:-1], active=o[-1] if o[-1].type == ir.I1 else None)
        elif i.opcode == "call" and not known.known and i.callee not in self.helpers:
            self._use(f"a call of {i.callee} with", *o)

    def _check_block(self, i: Instruction) -> None:
        """Report undefined bits in the surface, position or stored value of a 2D block."""
        value = next((o for o in reversed(i.operands) if self._of(o)), None)
        if value is None:
            return
        written = find(i.callee).has("value") and value is i.operands[-1]
        self._use("the surface or position of a 2D block made of",
                  *(i.operands[:-1] if written else i.operands))
        if written and not self._only_moved(value):
            self._note_use(BLOCK, "a store of", value,
                           [*i.operands[:-1], self.shadow(value).operand])

    def _use(
        self, what: str, *operands: Operand, active: Operand | None = None,
        at: Operand | None = None,
    ) -> None:
        """Check operands in active lanes; `at` is the address to which a store writes them."""
        rest = [active or ir.TRUE]
        if at is not None:
            rest.append(at)
        for o in operands:
            if self._of(o) and not (at is not None and self._only_moved(o)):
                self._note_use(USE, what, o, [self.shadow(o).operand, *rest], at)

    def _only_moved(self, stored: Operand) -> bool:
        """True if a value may be stored although it has parts of integers, because it is a copy."""
        return all(self.plan.origins[k].why in (Cause.PART, Cause.LOST) for k in self._of(stored))

    def _note_use(
        self, callee: str, what: str, value: Operand, operands: list[Operand],
        at: Operand | None = None,
    ) -> None:
        self._note(callee, operands, len(self.plan.uses))
        entry = -1 if at is None else self.entry(at)
        self.plan.uses.append(Use(what, self._of(value), entry))

    def _note(self, callee: str, operands: list[Operand], number: int) -> None:
        """Insert a check, or a record of an origin, with its number."""
        self.b.call(callee, ir.VOID, [ir.constant(ir.I32, number), *operands])


def loads_global(i: Instruction) -> bool:
    """True if it loads from global memory, and is no atomic."""
    known = find(i.callee)
    if i.opcode == "call":
        reads = known in (_LOAD, genisa.SIMD_BLOCK_READ) or is_block(i)
        return reads and i.operands[0].type.space != 3
    return i.opcode == "load" and i.operands[0].type.space == 1 and not i.orderings


def is_masked_atomic(i: Instruction) -> bool:
    """True for an atomic of the lanes whose last operand is true, with a result."""
    return (i.opcode == "call" and i.result is not None and find(i.callee).family is Family.HELPER
            and find(i.callee).has("address") and i.operands[-1].type == ir.I1
            and i.operands[-1].local is not None)


_CONDITIONS = {FITS_NODE: Cause.SHIFT, PROMISE_NODE: Cause.PROMISE, INSIDE_NODE: Cause.GATHER,
               RANGE_NODE: Cause.CAST}
_DIVISIONS = frozenset(("sdiv", "udiv", "srem", "urem"))
_CASTS = frozenset(("fptosi", "fptoui"))


def _is_assumption(i: Instruction) -> bool:
    return i.opcode == "call" and find(i.callee) is llvm.ASSUME and i.operands[0] != ir.TRUE


def _shadow_name(name: str) -> str:
    """Name of the shadow of a value."""
    return name[:-1] + '.u"' if name.endswith('"') else name + ".u"


_MOVED = {"extractelement": 1, "insertelement": 2}
"""Number of operands of a move that are values; for other moves, all are."""
_RULES: dict[str, Callable[[_Shadows, Instruction], Value]] = {
    **dict.fromkeys("extractelement insertelement shufflevector freeze".split(), _Shadows._moved),
    **dict.fromkeys("zext sext trunc bitcast ptrtoint inttoptr addrspacecast".split(),
                    _Shadows._cast),
    **dict.fromkeys(("add", "sub", "mul"), _Shadows._carry),
    **dict.fromkeys(("shl", "lshr", "ashr"), _Shadows._shift),
    **dict.fromkeys(("and", "or"), _Shadows._decided),
    "xor": _Shadows._xor,
    "icmp": _Shadows._compare,
    "select": _Shadows._select,
    "load": _Shadows._load,
    "call": _Shadows._call,
}
