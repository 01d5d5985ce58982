"""Which bits of a kernel's values are undefined, computed beside them by the kernel itself.

A load whose mask is false in a lane, and that has no value for such lanes, leaves the lane's
register undefined.  `instrument` gives every value that may hold such bits a *shadow*: an integer
of the same shape whose set bits are undefined.  Shadows follow arithmetic bit by bit where that is
cheap, else an undefined operand makes the whole result undefined; a choice or a logical operation
whose other operand decides makes it defined again, also a branch in a function that combines values
(`inline_helpers`).  Undefined bits are *used* by a store that is not masked off, an address, a
mask, a branch, an atomic: there the sanitizer reports them.

The instructions added are the simulator's own, `xe.shadow.*` (see `undefined_rules`), and ordinary
ones; values that no such load reaches have no shadow and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from triton_xe.intrinsics import Family, find, genisa, own
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import argument, is_lane_helper
from triton_xe.runtime.simulator.analysis.private_arrays import private_pointers
from triton_xe.runtime.simulator.ir import Block, Function, Instruction, Operand, Type

ORIGIN, USE, BLOCK, DPAS, SLM = (
    row.name for row in (own.SHADOW_ORIGIN, own.SHADOW_USE, own.SHADOW_BLOCK, own.SHADOW_DPAS,
                         own.SHADOW_SLM))
_LOAD, _STORE = genisa.PREDICATED_LOAD, genisa.PREDICATED_STORE
Origins = frozenset[int]
NONE: Origins = frozenset()
_FROM_MEMORY = (Family.BLOCK_2D, Family.PAYLOAD, Family.ATOMIC)
_ACCESSES = frozenset("load store atomicrmw cmpxchg".split())


@dataclass
class Undefined:
    """What the reports of one kernel's undefined values need."""

    origins: list[int] = field(default_factory=list)
    """Line of each load that can leave registers undefined."""
    entries: list[int] = field(default_factory=list)
    """The kernel argument each of them reads, or -1."""
    uses: list[tuple[str, Origins]] = field(default_factory=list)
    """What each check is about: words for the use, and the loads its value may come from."""


def shadow_type(t: Type) -> Type:
    """Integers as wide as the bits of `t`."""
    if t.kind == "vec":
        return ir.like(t.count, shadow_type(t.scalar))
    return ir.I64 if t.kind == "ptr" else t if t.kind == "int" else ir.integer(t.bits)


def constant(t: Type, value: int) -> Operand:
    """`value` in every element."""
    scalar = t.scalar
    text = ("true" if value & 1 else "false") if scalar.bits == 1 else str(value)
    one = Operand(scalar, text)
    if t.kind != "vec":
        return one
    return Operand(t, f"splat ({scalar.text} {text})", elements=(one,) * t.count)


_OR = constant(ir.I8, genisa.WAVE_OPERATIONS.index("or"))


def instrument(
    function: Function, plan: Undefined, *, helpers: dict[str, Function],
    entry: Callable[[Operand], int],
) -> Function:
    """The function with shadows and checks; itself when no load in it leaves lanes undefined.

    `helpers` are the functions of the module by name, `entry` tells the kernel argument that an
    address comes from.
    """
    if not any(i.unfilled for i in function.instructions()):
        return function
    return _Shadows(function, plan, helpers, entry).run()


class _Shadows:
    def __init__(
        self, function: Function, plan: Undefined, helpers: dict[str, Function],
        entry: Callable[[Operand], int],
    ) -> None:
        self.function = function
        self.plan = plan
        self.helpers = helpers
        self.entry = entry
        self.pointers = private_pointers(function)
        self.taint: dict[str, Origins] = {}
        self.arrays: dict[str, Origins] = {}
        self.slm: Origins = NONE
        self.numbers: dict[int, int] = {}
        self.structs: dict[str, Instruction] = {}
        """Calls that return several values."""
        self.block: list[Instruction] = []
        self.current = Instruction("", ir.VOID, [])
        self.count = 0

    def run(self) -> Function:
        for i in self.function.instructions():
            if i.unfilled:
                self.numbers[id(i)] = len(self.plan.origins)
                self.plan.origins.append(i.line)
                self.plan.entries.append(self.entry(i.operands[0]))
            elif i.opcode == "call" and i.type.kind == "struct" and i.result is not None:
                self.structs[i.result] = i
        changed = True
        while changed:
            changed = any([self._spread(i) for i in self.function.instructions()])
        return replace(self.function, blocks=[self._rewrite(b) for b in self.function.blocks])

    # --- which values may be undefined ------------------------------------------------------------

    def _of(self, *operands: Operand) -> Origins:
        return NONE.union(*(self.taint.get(o.local or "", NONE) for o in operands))

    def _array(self, pointer: Operand) -> str | None:
        found = self.pointers.get(pointer.local or "")
        return found[0] if found else None

    def _spread(self, i: Instruction) -> bool:
        if i.opcode == "store" or find(i.callee) is genisa.SIMD_BLOCK_WRITE:
            value, pointer = i.operands if i.opcode == "store" else reversed(i.operands[:2])
            return self._spread_store(self._of(value), pointer)
        if i.result is None or i.type.kind == "struct":
            return False
        found = self._result(i)
        if found <= self.taint.get(i.result, NONE):
            return False
        self.taint[i.result] = found | self.taint.get(i.result, NONE)
        return True

    def _spread_store(self, value: Origins, pointer: Operand) -> bool:
        array = self._array(pointer)
        if array is not None:
            old = self.arrays.get(array, NONE)
            self.arrays[array] = old | value
            return not value <= old
        if pointer.type.space != 3 or value <= self.slm:
            return False
        self.slm |= value
        return True

    def _result(self, i: Instruction) -> Origins:
        if i.unfilled:
            return frozenset((self.numbers[id(i)],))
        if i.opcode == "alloca" or i.result in self.pointers:
            return NONE
        known = find(i.callee)
        if i.opcode == "load" or known is genisa.SIMD_BLOCK_READ:
            array = self._array(i.operands[0])
            if array is not None:
                return self.arrays.get(array, NONE)
            return self.slm if i.operands[0].type.space == 3 else NONE
        if i.opcode in _ACCESSES:
            return NONE
        if known is _LOAD:
            return self._of(argument(i, "other"))
        if known.family in _FROM_MEMORY or self._touches_memory(i):
            return NONE
        return self._of(*self._sources(i))

    def _sources(self, i: Instruction) -> list[Operand]:
        """The operands that a result depends on; for one of several results, those of the call."""
        call = self.structs.get(i.operands[0].local or "") if i.opcode == "extractvalue" else None
        if call is None:
            return i.operands
        return [] if self._touches_memory(call) else call.operands

    def _touches_memory(self, i: Instruction) -> bool:
        """A call of a lane helper that reads or writes memory."""
        if i.opcode != "call" or not is_lane_helper(i.callee):
            return False
        target = self.helpers.get(i.callee)
        return target is None or any(x.opcode in _ACCESSES for x in target.instructions())

    # --- writing ----------------------------------------------------------------------------------

    def _rewrite(self, block: Block) -> Block:
        self.block = []
        phis = [i for i in block.instructions if i.opcode == "phi"]
        self.block += phis
        for i in phis:
            if i.result in self.taint:
                self._define(i, "phi", [self.shadow(o) for o in i.operands], labels=list(i.labels))
        for i in block.instructions[len(phis):]:
            self.current = i
            self._checks(i)
            self.block.append(i)
            if i.result in self.arrays and i.opcode == "alloca":
                self.block.append(replace(i, result=_named(i.result or "")))
            elif self._array_of_result(i) in self.arrays:
                self._pointer(i)
            elif i.result in self.taint:
                self._follow(i)
            elif i.opcode == "store" or find(i.callee) is genisa.SIMD_BLOCK_WRITE:
                self._follow_store(i)
        return Block(block.label, self.block)

    def _array_of_result(self, i: Instruction) -> str | None:
        found = self.pointers.get(i.result or "")
        return found[0] if found else None

    def _pointer(self, i: Instruction) -> None:
        """The same step into the array of shadows."""
        first = i.operands[0]
        moved = Operand(first.type, _named(first.text))
        self.block.append(replace(i, operands=[moved, *i.operands[1:]],
                                  result=_named(i.result or "")))

    def shadow(self, operand: Operand) -> Operand:
        t = shadow_type(operand.type)
        if operand.local is not None and operand.local in self.taint:
            return Operand(t, _named(operand.local))
        return constant(t, 0)

    def new(self, opcode: str, t: Type, operands: list[Operand], *, extra: str = "",
            callee: str = "", indices: tuple[int, ...] = ()) -> Operand:
        self.count += 1
        name = f"%xe.u{self.count}"
        self.block.append(Instruction(
            opcode, t, operands, name, extra=extra, callee=callee, indices=indices,
            line=self.current.line, debug=self.current.debug))
        return Operand(t, name)

    def _define(
        self, i: Instruction, opcode: str, operands: list[Operand], *,
        labels: list[str] | None = None, callee: str = "", align: int = 0,
        indices: tuple[int, ...] = (), extra: str = "",
    ) -> None:
        """The shadow of the result of `i`."""
        self.block.append(Instruction(
            opcode, shadow_type(i.type), operands, _named(i.result or ""), labels=labels or [],
            callee=callee, align=align, indices=indices, extra=extra, line=i.line, debug=i.debug))

    def _bind(self, i: Instruction, value: Operand) -> None:
        self._define(i, "or", [value, constant(value.type, 0)])

    def both(self, opcode: str, a: Operand, b: Operand) -> Operand:
        return self.new(opcode, a.type, [a, b])

    def any(self, s: Operand) -> Operand:
        """Per element, whether a bit is set."""
        if s.type.scalar == ir.I1:
            return s
        t = ir.like(s.type.lanes, ir.I1)
        return self.new("icmp", t, [s, constant(s.type, 0)], extra="ne")

    def full(self, s: Operand, t: Type) -> Operand:
        """All bits of the elements of a shadow of type `t` in which a bit of `s` is set."""
        found = self.any(s)
        if found.type.lanes != t.lanes:
            found = self.lane(found)
            if t.lanes > 1:
                none = constant(ir.like(t.lanes, ir.I1), 0)
                first = self.new("insertelement", none.type, [none, found, constant(ir.I32, 0)])
                found = self.new("shufflevector", none.type, [first, first],
                                 indices=(0,) * t.lanes)
        return found if t.scalar == ir.I1 else self.new("sext", t, [found])

    def lane(self, s: Operand) -> Operand:
        """Whether a bit of any element is set."""
        found = self.any(s)
        if found.type.lanes == 1:
            return found
        parts = [self.new("extractelement", ir.I1, [found, constant(ir.I32, k)])
                 for k in range(found.type.lanes)]
        while len(parts) > 1:
            parts = [self.both("or", *pair) if len(pair) == 2 else pair[0]
                     for pair in (parts[k : k + 2] for k in range(0, len(parts), 2))]
        return parts[0]

    # --- results ----------------------------------------------------------------------------------

    def _follow(self, i: Instruction) -> None:
        rule = _RULES.get(i.opcode)
        if i.opcode == "call":
            self._call(i)
        elif rule is not None:
            rule(self, i)
        else:
            self._any_operand(i)

    def _any_operand(self, i: Instruction) -> None:
        t = shadow_type(i.type)
        found = [self.full(self.shadow(o), t) for o in self._sources(i) if self._of(o)]
        total = found[0]
        for other in found[1:]:
            total = self.both("or", total, other)
        self._bind(i, total)

    def _same(self, i: Instruction) -> None:
        """Moves bits: the same operation on the shadows."""
        shadows = [self.shadow(o) if self._holds_value(i, k) else o
                   for k, o in enumerate(i.operands)]
        self._define(i, i.opcode, shadows, indices=i.indices)

    @staticmethod
    def _holds_value(i: Instruction, k: int) -> bool:
        return not (i.opcode == "extractelement" and k == 1) and not (
            i.opcode == "insertelement" and k == 2)

    def _cast(self, i: Instruction) -> None:
        s, t = self.shadow(i.operands[0]), shadow_type(i.type)
        if s.type == t:
            self._bind(i, s)
        elif i.opcode == "bitcast":
            self._define(i, "bitcast", [s])
        else:
            opcode = i.opcode if i.opcode in ("zext", "sext", "trunc") else (
                "trunc" if t.scalar.bits < s.type.scalar.bits else "zext")
            self._define(i, opcode, [s])

    def _or_shadows(self, i: Instruction) -> Operand:
        return self.both("or", *(self.shadow(o) for o in i.operands[:2]))

    def _xor(self, i: Instruction) -> None:
        self._bind(i, self._or_shadows(i))

    def _and(self, i: Instruction) -> None:
        self._decided(i, by_one=False)

    def _or(self, i: Instruction) -> None:
        self._decided(i, by_one=True)

    def _decided(self, i: Instruction, *, by_one: bool) -> None:
        """A defined 0 (of `and`) or 1 (of `or`) of one side decides."""
        (a, sa), (b, sb) = ((o, self.shadow(o)) for o in i.operands)
        if by_one:
            ones = constant(sa.type, -1)
            a, b = self.both("xor", a, ones), self.both("xor", b, ones)
        both = self.both("and", sa, sb)
        left, right = self.both("and", a, sb), self.both("and", b, sa)
        self._bind(i, self.both("or", both, self.both("or", left, right)))

    def _carry(self, i: Instruction) -> None:
        """Undefined from the lowest undefined bit of the operands up."""
        s = self._or_shadows(i)
        upward = self.both("or", s, self.both("sub", constant(s.type, 0), s))
        if i.opcode != "mul":
            self._bind(i, upward)
            return
        t = ir.like(s.type.lanes, ir.I1)
        zero = constant(s.type, 0)
        nothing = [
            self.new("icmp", t, [self.both("or", o, self.shadow(o)), zero], extra="eq")
            for o in i.operands
        ]
        known = self.both("or", *nothing)
        self._define(i, "select", [known, zero, upward])

    def _shift(self, i: Instruction) -> None:
        value, amount = i.operands
        t = shadow_type(i.type)
        moved = self.new(i.opcode, t, [self.shadow(value), amount])
        if self._of(amount):
            moved = self.both("or", moved, self.full(self.shadow(amount), t))
        self._bind(i, moved)

    def _compare(self, i: Instruction) -> None:
        t = i.operands[0].type
        if i.extra not in ("eq", "ne") or t.scalar.kind != "int":
            self._any_operand(i)
            return
        s = self._or_shadows(i)
        flags = ir.like(t.lanes, ir.I1)
        odd = self.both("xor", *i.operands)
        sure = self.both("and", odd, self.both("xor", s, constant(s.type, -1)))
        open_ = self.new("icmp", flags, [sure, constant(s.type, 0)], extra="eq")
        self._bind(i, self.both("and", open_, self.any(s)))

    def _select(self, i: Instruction) -> None:
        condition, a, b = i.operands
        t = shadow_type(i.type)
        found = self.new("select", t, [condition, self.shadow(a), self.shadow(b)])
        if self._of(condition):
            found = self.both("or", found, self.full(self.shadow(condition), t))
        self._bind(i, found)

    def _load(self, i: Instruction) -> None:
        address = i.operands[0]
        if self._array(address) is not None:
            address = Operand(address.type, _named(address.text))
        else:
            address = self._slm_shadow(address)
        self._define(i, "load", [address], align=i.align)

    def _slm_shadow(self, pointer: Operand) -> Operand:
        return self.new("call", ir.pointer(), [pointer], callee=SLM)

    def _follow_store(self, i: Instruction) -> None:
        at = 1 if i.opcode == "store" else 0
        pointer, value = i.operands[at], i.operands[1 - at]
        if self._array(pointer) in self.arrays:
            moved = Operand(pointer.type, _named(pointer.text))
        elif pointer.type.space == 3 and self.slm:
            moved = self._slm_shadow(pointer)
        else:
            return
        shadow = self.shadow(value)
        operands = [shadow, moved] if at else [moved, shadow, *i.operands[2:]]
        self.block.append(Instruction(
            i.opcode, ir.VOID, operands, callee=i.callee, align=i.align, line=i.line,
            debug=i.debug))

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, i: Instruction) -> None:
        known, t = find(i.callee), shadow_type(i.type)
        if i.unfilled or known is _LOAD:
            self._masked_load(i)
        elif known is genisa.SIMD_BLOCK_READ:
            self._define(i, "call", [self._slm_shadow(i.operands[0])], callee=i.callee)
        elif known is genisa.DPAS:
            self._define(i, "call", [*(self.shadow(o) for o in i.operands[:3]), *i.operands[3:]],
                         callee=DPAS)
        elif known.family is Family.SHUFFLE:
            self._move(i)
        elif known.family is Family.REDUCTION and not known.is_builtin:
            joined = self.new("call", t, [self.shadow(i.operands[0]), _OR, *i.operands[2:]],
                              callee=i.callee)
            self._bind(i, self.full(joined, t))
        elif known.family in (Family.REDUCTION, Family.VOTE):
            held = next(o for o in i.operands if self._of(o))
            lane = self.lane(self.shadow(held))
            whole = self.new("call", ir.I1, [lane, _OR], callee=genisa.WAVE_ALL.name)
            self._bind(i, self.full(whole, t))
        else:
            self._any_operand(i)

    def _masked_load(self, i: Instruction) -> None:
        t = shadow_type(i.type)
        mask = i.operands[2]
        missing = constant(t, -1) if i.unfilled else self.shadow(i.operands[3])
        self._define(i, "select", [mask, constant(t, 0), missing])
        if i.unfilled:
            self.block.append(Instruction(
                "call", ir.VOID, [i.operands[0], mask], callee=ORIGIN,
                extra=str(self.numbers[id(i)]), line=i.line, debug=i.debug))

    def _move(self, i: Instruction) -> None:
        at = find(i.callee).positions["value"]
        operands = list(i.operands)
        operands[at] = self.shadow(operands[at])
        t = shadow_type(i.type)
        moved = self.new("call", t, operands, callee=i.callee)
        for k, o in enumerate(i.operands):
            if k != at and self._of(o):
                moved = self.both("or", moved, self.full(self.shadow(o), t))
        self._bind(i, moved)

    # --- uses -------------------------------------------------------------------------------------

    def _checks(self, i: Instruction) -> None:
        """Report undefined bits where `i` would act on them."""
        if i.opcode in ("br", "switch") and i.operands:
            self._use(i, "a branch on", i.operands[0])
        elif i.opcode in ("load", "store"):
            self._check_access(i)
        elif i.opcode in _ACCESSES:
            for o in i.operands:
                self._use(i, "an atomic on", o)
        elif i.opcode == "call":
            self._check_call(i)

    def _check_access(self, i: Instruction) -> None:
        pointer = i.operands[-1]
        if self._array(pointer) is not None:
            return
        self._use(i, f"a {i.opcode} through", pointer)
        if i.opcode == "store" and pointer.type.space != 3:
            self._use(i, "a store of", i.operands[0])

    def _check_call(self, i: Instruction) -> None:
        known, o = find(i.callee), i.operands
        if known is _LOAD:
            self._use(i, "the mask of a load made of", o[2])
            self._use(i, "a load through", o[0], o[2])
        elif known is _STORE:
            self._use(i, "the mask of a store made of", o[3])
            self._use(i, "a store through", o[0], o[3])
            self._use(i, "a store of", o[1], o[3])
        elif known.family in (Family.BLOCK_2D, Family.PAYLOAD):
            self._check_block(i)
        elif known.family is Family.BLOCK_1D:
            self._use(i, "a block access through", o[0])
            if known.has("value") and o[0].type.space != 3:
                self._use(i, "a store of", o[1])
        elif known.family is Family.ATOMIC:
            for operand in o:
                self._use(i, "an atomic on", operand)
        elif i.unfilled:
            self._use(i, "the mask of a load made of", o[2])
            self._use(i, "a load through", o[0], o[2])
        elif self._touches_memory(i):
            self._check_helper(i)
        elif not known.known and i.callee not in self.helpers:
            for operand in o:
                self._use(i, f"a call of {i.callee} with", operand)

    def _check_helper(self, i: Instruction) -> None:
        """A helper's last argument tells, where it is an i1, whether the lane takes part."""
        last = i.operands[-1]
        active = last if last.type == ir.I1 else None
        what = "a report on" if find(i.callee) is own.REPORT else "an atomic on"
        self._use(i, what, last)
        if find(i.callee) is not own.REPORT:
            for o in i.operands[:-1]:
                self._use(i, what, o, active)

    def _check_block(self, i: Instruction) -> None:
        value = next((o for o in reversed(i.operands) if self._of(o)), None)
        if value is None:
            return
        written = find(i.callee).has("value") and value is i.operands[-1]
        for o in i.operands[:-1] if written else i.operands:
            self._use(i, "the surface or place of a 2D block made of", o)
        if written:
            self._note(i, BLOCK, "a store of", value,
                       [*i.operands[:-1], self.shadow(value)])

    def _use(
        self, i: Instruction, what: str, operand: Operand, active: Operand | None = None
    ) -> None:
        if not self._of(operand):
            return
        operands = [self.shadow(operand)] if active is None else [self.shadow(operand), active]
        self._note(i, USE, what, operand, operands)

    def _note(
        self, i: Instruction, callee: str, what: str, value: Operand, operands: list[Operand]
    ) -> None:
        number = len(self.plan.uses)
        self.plan.uses.append((what, self._of(value)))
        self.block.append(Instruction(
            "call", ir.VOID, operands, callee=callee, extra=str(number), attributes=i.callee,
            line=i.line, debug=i.debug))


def _named(name: str) -> str:
    """The shadow of a value, by name."""
    return name[:-1] + '.u"' if name.endswith('"') else name + ".u"


_RULES: dict[str, Callable[[_Shadows, Instruction], None]] = {
    **dict.fromkeys("extractelement insertelement shufflevector freeze".split(), _Shadows._same),
    **dict.fromkeys("zext sext trunc bitcast ptrtoint inttoptr addrspacecast".split(),
                    _Shadows._cast),
    **dict.fromkeys("add sub mul".split(), _Shadows._carry),
    **dict.fromkeys("shl lshr ashr".split(), _Shadows._shift),
    "and": _Shadows._and,
    "or": _Shadows._or,
    "xor": _Shadows._xor,
    "icmp": _Shadows._compare,
    "select": _Shadows._select,
    "load": _Shadows._load,
}

__all__ = ["Undefined", "constant", "instrument", "shadow_type"]
