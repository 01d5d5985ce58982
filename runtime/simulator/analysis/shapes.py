"""Find how each value varies over the lanes of a subgroup, before any host code is written.

A value is *uniform* (one value for all lanes), *tabled* (a uniform base plus constants known per
lane: `base + table[element][lane]`), or *wide* (anything).  Tables make contiguous accesses visible
and keep index arithmetic scalar.  Sums agree with them modulo 2^bits.  A value that is extended
(`sext`, `zext`) or shifted right stays tabled only if no lane's sum wraps around.  That holds for
additions marked `nsw`, and if the bits of the base leave room for the table.

The lattice is bottom (unknown yet) > uniform or tabled > wide; loops are solved optimistically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe import llvm as ir
from triton_xe.intrinsics import Uniformity, find, opencl, spirv
from triton_xe.llvm import Block, Function, Instruction, Module, Operand, Type
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import solve
from triton_xe.runtime.simulator.analysis.calls import is_lane_helper

Table = NDArray[np.int64]

_BITS = {opencl.SUB_GROUP_ID: 0xFF, opencl.GROUP_ID: 0x7FFFFFFF}
"""Bits of ids that may be one."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Shape of a value: a base, and a `table` (elements x lanes) of constants added to it.

    `table` is None for wide values, and for uniform ones without constants.  `bits` are the bits of
    the base that may be one, of one element, within the type's width.
    """

    uniform: bool
    table: Table | None = None
    bits: int = -1
    exact: bool = False
    """True if no lane's sum wraps around as a signed number."""

    @property
    def wide(self) -> bool:
        return not self.uniform and self.table is None

    @cached_property
    def same_in_all_lanes(self) -> bool:
        """True if a subgroup has one value, known or not."""
        return self.uniform or (self.pure and self.table is not None and _constant(self.table))

    @property
    def pure(self) -> bool:
        """True if the value is known completely: its base is zero."""
        return self.bits == 0 and self.table is not None

    def same(self, other: Shape) -> bool:
        if (self.uniform, self.bits, self.exact) != (other.uniform, other.bits, other.exact):
            return False
        if self.table is None or other.table is None:
            return self.table is other.table
        return bool(np.array_equal(self.table, other.table))


WIDE = Shape(False)
UNIFORM = Shape(True)


def is_integral(t: Type) -> bool:
    return t.scalar.kind in ("int", "ptr")


def mask_of(t: Type) -> int:
    return (1 << t.scalar.bits) - 1


def tabled(table: Table, bits: int, t: Type, exact: bool = False) -> Shape:
    """A tabled value, or a uniform one when the table is all zero and the base is not."""
    bits &= mask_of(t)
    if bits and not table.any():
        return Shape(True, None, bits)
    if bits and _constant(table):
        return WIDE  # a uniform value hidden in a sum: correct, and too rare to treat
    return Shape(False, table, bits, exact)


def never_wraps(shapes: Sequence[Shape]) -> bool:
    """True if the values are known, the same in all lanes, or exact sums."""
    return all(s.exact or s.uniform or s.pure for s in shapes)


def has_room(table: Table, bits: int, t: Type, *, signed: bool) -> bool:
    """True if the sums of a base with these bits and a table do not wrap around.

    Either no bit is carried out of the table, or the largest sum is below the largest number.
    """
    half, most = 1 << (t.scalar.bits - 1), int(table.max())
    natural = int(table.min()) >= 0
    if natural and (not bits or most < bits & -bits):
        return True
    return (natural or signed) and bits < half and bits + most < half


class ShapeAnalysis:
    """Shapes of all values of a module's functions; of one subgroup, if its number is given."""

    def __init__(self, module: Module, lanes: int, sub_group: int | None = None) -> None:
        self.module = module
        self.lanes = lanes
        self.sub_group = sub_group
        self.values: dict[str, dict[str, Shape]] = {name: {} for name in module.functions}
        self.users = {name: Facts(f).users for name, f in module.functions.items()}
        self.arguments: dict[str, list[Shape | None]] = {
            name: [UNIFORM if f.is_kernel else None] * len(f.parameters)
            for name, f in module.functions.items()
        }
        self.returns: dict[str, Shape | None] = {name: None for name in module.functions}
        self._solve()

    def of(self, function: Function, operand: Operand) -> Shape:
        shape = self._operand(self.values[function.name], operand)
        return WIDE if shape is None else shape

    def _solve(self) -> None:
        """Solve each function until no call changes what another one is given or returns."""
        functions = [f for f in self.module.functions.values() if not is_lane_helper(f.name)]
        before = None
        while before != (now := self._between(functions)):
            before = now
            for function in functions:
                if all(a is not None for a in self.arguments[function.name]):
                    self._solve_function(function)

    def _between(self, functions: Sequence[Function]) -> list[list[Shape | None]]:
        """Shapes that calls pass to functions, and that these return."""
        return [[*self.arguments[f.name], self.returns[f.name]]
                for f in functions if not f.is_kernel]

    def _solve_function(self, function: Function) -> None:
        given = zip(function.parameters, self.arguments[function.name], strict=True)
        values = {name: shape for (name, _), shape in given if shape is not None}
        self.values[function.name] = values

        def rule(i: Instruction) -> tuple[str, Shape] | None:
            shape = self._instruction(function, i, values)
            return None if shape is None or i.result is None else (i.result, shape)

        solve(list(function.instructions()), rule, self.users[function.name], values, Shape.same)

    def _instruction(
        self, function: Function, i: Instruction, values: dict[str, Shape]
    ) -> Shape | None:
        """Shape of a result; None if there is none, or an operand's is not known yet."""
        if i.opcode == "phi":
            return self._phi(i, values)
        shapes = [self._operand(values, o) for o in i.operands]
        if i.opcode == "ret":
            self._note_return(function, shapes[0] if shapes else UNIFORM)
            return None
        known = [s for s in shapes if s is not None]
        if len(known) < len(shapes):
            return None
        if i.opcode == "call":
            return self._call(i, known)
        if i.result is None:
            return None
        return transfer(i, known, self.lanes)

    def _note_return(self, function: Function, shape: Shape | None) -> None:
        """Merge a returned shape into that of the function: uniform or wide."""
        if shape is None:
            return
        old = self.returns[function.name]
        uniform = shape.same_in_all_lanes and (old is None or old.uniform)
        self.returns[function.name] = UNIFORM if uniform else WIDE

    def _operand(self, values: dict[str, Shape], operand: Operand) -> Shape | None:
        if operand.local is not None:
            return values.get(operand.local)
        return constant_shape(operand, self.lanes)

    def _phi(self, i: Instruction, values: dict[str, Shape]) -> Shape | None:
        """Join of the incoming shapes; widened if it changes in a later visit."""
        found: Shape | None = None
        for operand in i.operands:
            shape = self._operand(values, operand)
            if shape is None or operand.is_undefined:
                continue
            shape = shape if found is None else join(found, shape, i.type)
            found = shape
        if found is None:
            return None
        old = values.get(i.result or "")
        if old is not None and old.wide:
            return WIDE
        if old is not None and found.bits != old.bits:
            bits = (found.bits | old.bits) & mask_of(i.type) if is_integral(i.type) else -1
            low = (bits & -bits) if bits else 0
            found = Shape(found.uniform, found.table, mask_of(i.type) & ~(low - 1) if low else 0,
                          found.exact)
        return found

    def _call(self, i: Instruction, shapes: list[Shape]) -> Shape | None:
        """Shape of a call's result; None if it is not known yet."""
        callee = i.callee
        target = self.module.functions.get(callee)
        if target is not None and not is_lane_helper(target.name):
            return self._internal_call(target, shapes)
        if i.result is None:
            return None
        known = find(callee)
        if known is opencl.LANE_ID:
            return Shape(False, np.arange(self.lanes, dtype=np.int64)[None, :], 0)
        if known is opencl.LOCAL_ID:
            return self._local_id(i)
        if known is opencl.SUB_GROUP_ID and self.sub_group is not None:
            return Shape(False, np.full((1, self.lanes), self.sub_group, np.int64), 0)
        if known in _BITS:
            return Shape(True, None, _BITS[known])
        if known.uniformity in (Uniformity.GROUP, Uniformity.SUBGROUP):
            return UNIFORM
        if known.uniformity is Uniformity.OPERATION:
            operation = i.operands[known.positions["operation"]].integer_value()
            return UNIFORM if operation == spirv.REDUCE else WIDE
        if known.uniformity is Uniformity.INDEXED:
            if shapes[known.positions["index"]].same_in_all_lanes:
                return UNIFORM
        return WIDE if known.uniformity is Uniformity.LANE else _all_uniform(shapes)

    def _local_id(self, i: Instruction) -> Shape:
        """Shape of a work-item's number in its group, which counts up along the lanes in x."""
        if i.operands[0].integer_value() != 0:
            return UNIFORM
        if self.sub_group is not None:
            first = self.sub_group * self.lanes
            return Shape(False, first + np.arange(self.lanes, dtype=np.int64)[None, :], 0)
        base = 0xFFFF & ~(self.lanes - 1)
        return tabled(np.arange(self.lanes, dtype=np.int64)[None, :], base, i.type)

    def _internal_call(self, target: Function, shapes: list[Shape]) -> Shape | None:
        """Merge shapes of arguments into those of parameters; return that of the result, if known.
        """
        arguments = self.arguments[target.name]
        for k, shape in enumerate(shapes):
            old = arguments[k]
            uniform = shape.same_in_all_lanes and (old is None or old.uniform)
            arguments[k] = UNIFORM if uniform else WIDE
        return self.returns[target.name]


def without_wraps(module: Module) -> Module:
    """The module, with the promise that no sum wraps around before it is extended."""
    def promised(i: Instruction) -> Instruction:
        return replace(i, flags=(*i.flags, "nsw")) if i.opcode in ("sext", "zext") else i

    return replace(module, functions={
        name: replace(f, blocks=[Block(b.label, [*map(promised, b.instructions)])
                                 for b in f.blocks])
        for name, f in module.functions.items()})


def _all_uniform(shapes: list[Shape]) -> Shape:
    """Uniform if all shapes are, else wide."""
    return UNIFORM if all(s.same_in_all_lanes for s in shapes) else WIDE


def _constant(table: Table) -> bool:
    return bool((table == table[:, :1]).all())


def join(a: Shape, b: Shape, t: Type) -> Shape:
    """The shape of a value that is one or the other; both are scalar-based or it is wide."""
    if a.same(b):
        return a
    if not is_integral(t):
        return UNIFORM if a.uniform and b.uniform else WIDE
    if a.wide or b.wide:
        return WIDE
    (ta, bits_a), (tb, bits_b) = _parts(a, t, 1), _parts(b, t, 1)
    sizes = np.broadcast_shapes(ta.shape, tb.shape)
    ta, tb = np.broadcast_to(ta, sizes), np.broadcast_to(tb, sizes)
    if not np.array_equal(ta, tb):
        return WIDE
    bits = (bits_a | bits_b) & mask_of(t)
    if not ta.any():
        return Shape(True, None, bits)
    return Shape(False, ta, bits, never_wraps((a, b)))


def _parts(shape: Shape, t: Type, lanes: int) -> tuple[Table, int]:
    """(table, base bits) of an operand; a constant equal in all lanes belongs to the base."""
    if shape.table is None or shape.same_in_all_lanes:
        bits = shape.bits if shape.table is None else _or_bits(shape.table, t)
        return np.zeros((t.lanes, lanes), np.int64), bits & mask_of(t)
    return shape.table, shape.bits & mask_of(t)


def _table(shape: Shape, elements: int, lanes: int) -> Table:
    if shape.table is not None:
        return shape.table
    return np.zeros((elements, lanes), np.int64)


_constants: dict[tuple[str, Type, int], Shape] = {}


def constant_shape(operand: Operand, lanes: int) -> Shape:
    """Integer constants are pure tables; every other constant is uniform."""
    if not is_integral(operand.type):
        return UNIFORM
    if operand.elements and not operand.text.startswith("splat"):
        return _constant_shape(operand, lanes)
    key = (operand.text, operand.type, lanes)
    found = _constants.get(key)
    if found is None:
        found = _constants[key] = _constant_shape(operand, lanes)
    return found


def _constant_shape(operand: Operand, lanes: int) -> Shape:
    parts = operand.elements or (operand,)
    values = [0 if p.is_undefined else p.integer_value() for p in parts]
    if any(v is None for v in values) or operand.type.scalar.kind == "ptr":
        return UNIFORM
    column = np.array([_signed(int(v or 0), operand.type) for v in values], np.int64)
    return Shape(False, np.repeat(column[:, None], lanes, axis=1), 0)


def _signed(value: int, t: Type) -> int:
    bits = t.scalar.bits
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def normalise(table: Table, t: Type) -> Table:
    """Two's complement wrap to the width of `t`; i1 as 0 and 1."""
    bits = t.scalar.bits
    if bits == 1:
        return table & 1
    if bits >= 64:
        return table
    shift = np.int64(64 - bits)
    return (table << shift) >> shift


def transfer(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    """Shape of a result from the shapes of its operands."""
    if i.opcode == "load":
        private = i.operands[0].type.space == 0
        return WIDE if private else _all_uniform(shapes)
    if i.opcode in ("atomicrmw", "cmpxchg"):
        return WIDE
    rule = RULES.get(i.opcode)
    integral = all(is_integral(o.type) for o in i.operands) and is_integral(i.type)
    if rule is not None and integral and not any(s.wide for s in shapes):
        return rule(i, shapes, lanes)
    return _all_uniform(shapes)


def _tables(i: Instruction, shapes: list[Shape], lanes: int) -> list[Table]:
    return [_table(s, o.type.lanes, lanes) for s, o in zip(shapes, i.operands, strict=True)]


def _or_bits(table: Table, t: Type) -> int:
    return int(np.bitwise_or.reduce(table, axis=None)) & mask_of(t)


def _const_of(shape: Shape) -> int | None:
    """The one integer a pure constant has in all lanes and elements."""
    if shape.pure and shape.table is not None and (shape.table == shape.table.flat[0]).all():
        return int(shape.table.flat[0])
    return None


def _carry_bits(a: int, b: int, t: Type) -> int:
    """Bits that a sum of bases with these bits may set."""
    if not a or not b:
        return a | b
    low = min(a & -a, b & -b)
    high = 1 << ((a + b).bit_length())
    return (high - 1) & ~(low - 1) & mask_of(t)


def _binary(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    a, b = shapes
    t = i.type
    if a.pure and b.pure:
        left, right = _tables(i, shapes, lanes)
        result = fold_binary(i.opcode, left, right, t)
        return WIDE if result is None else Shape(False, result, 0)
    (ta, bits_a), (tb, bits_b) = (_parts(s, t, lanes) for s in shapes)
    op, exact = i.opcode, "nsw" in i.flags and never_wraps(shapes)
    if op == "or" and "disjoint" in i.flags:
        op = "add"
    if op == "add":
        return _sum(ta + tb, _carry_bits(bits_a, bits_b, t), t, exact, has_base=a.pure or b.pure)
    if op == "sub":
        low = (bits_a | bits_b) & -(bits_a | bits_b)
        bits = mask_of(t) & ~(low - 1) if bits_b else bits_a
        return _sum(ta - tb, bits, t, exact, has_base=b.pure)
    if op in ("or", "xor"):
        if (bits_a | bits_b) & (_or_bits(ta, t) | _or_bits(tb, t)):
            return _bits_by_constant(op, ta, bits_a, _const_of(b), t) or _all_uniform(shapes)
        return tabled(normalise(ta | tb if op == "or" else ta ^ tb, t), bits_a | bits_b, t)
    if op in ("and", "mul") and a.same_in_all_lanes:
        (ta, bits_a), b = (tb, bits_b), a
    constant = _const_of(b)
    if constant is None:
        return _all_uniform(shapes)
    return _by_constant(op, ta, bits_a, constant, t, shapes, exact=exact)


def _sum(
    constants: Table, bits: int, t: Type, exact: bool, *, has_base: bool = False
) -> Shape:
    """A tabled value; `exact` if the operation has `nsw`, and its operands do not wrap around.

    The base may wrap around still, unless it is that of an operand (`has_base`), or between values
    of lanes; and so may the constants.
    """
    table = normalise(constants, t)
    kept = exact and (has_base or int(table.min()) <= 0 <= int(table.max())) and bool(
        (table == constants).all())
    return tabled(table, bits, t, kept or has_room(table, bits, t, signed=True))


def _bits_by_constant(
    op: str, table: Table, bits: int, constant: int | None, t: Type
) -> Shape | None:
    """Bitwise operation with a constant that changes bits of the table and none of the base."""
    if constant is None or bits & (_or_bits(table, t) | constant):
        return None
    changed = table | constant if op == "or" else table ^ constant
    return tabled(normalise(changed - constant, t), bits | constant, t)


def _by_constant(
    op: str, table: Table, bits: int, constant: int, t: Type, shapes: list[Shape], *, exact: bool
) -> Shape:
    """Shape of base + table, combined with a constant."""
    low = (bits & -bits) if bits else 0
    if op == "and":
        if bits & _or_bits(table, t):
            return _all_uniform(shapes)
        return tabled(normalise(table & constant, t), bits & constant, t)
    if op == "shl" and 0 <= constant < t.scalar.bits:
        return _sum(table << constant, bits << constant & mask_of(t), t, exact)
    if op == "mul":
        span = (1 << (bits.bit_length() + abs(constant).bit_length())) - 1 if constant > 0 else -1
        step = low * (constant & -constant)
        bits = span & ~(step - 1) & mask_of(t) if step else 0
        return _sum(table * constant, bits, t, exact)
    return _divide_by_constant(op, table, bits, constant, t, shapes)


def _divide_by_constant(
    op: str, table: Table, bits: int, constant: int, t: Type, shapes: list[Shape]
) -> Shape:
    """Right shifts, quotients and remainders by powers of two."""
    shift = constant
    if op in ("udiv", "urem", "sdiv", "srem"):
        if constant <= 0 or constant & (constant - 1):
            return _all_uniform(shapes)
        shift = constant.bit_length() - 1
    signed = op in ("ashr", "sdiv", "srem") and bits >> (t.scalar.bits - 1)
    if not 0 <= shift < t.scalar.bits or (table < 0).any() or signed:
        return _all_uniform(shapes)
    below = (1 << shift) - 1
    if op in ("urem", "srem"):
        if bits & _or_bits(table, t):
            return _all_uniform(shapes)
        return tabled(table & below, bits & below, t)
    if table.any() and (bits & below or not has_room(table, bits, t, signed=False)):
        return _all_uniform(shapes)
    return tabled(table >> shift, bits >> shift, t)


def fold_binary(op: str, a: Table, b: Table, t: Type) -> Table | None:
    """The exact result on known integers; None when undefined or not foldable."""
    mask = mask_of(t)
    if op in ("udiv", "urem", "sdiv", "srem"):
        if (b == 0).any():
            return None
        ua, ub = _unsigned(a, t), _unsigned(b, t)
        if op in ("udiv", "urem"):
            return normalise((ua // ub if op == "udiv" else ua % ub).astype(np.int64), t)
        quotient: Table = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
        return normalise(quotient if op == "sdiv" else a - quotient * b, t)
    if op in ("shl", "lshr", "ashr"):
        if (b < 0).any() or (b >= t.scalar.bits).any():
            return None
        if op == "lshr":
            return normalise((_unsigned(a, t) >> b.astype(np.uint64)).astype(np.int64), t)
        return normalise(a << b if op == "shl" else a >> b, t)
    folds: dict[str, Any] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }
    return normalise(folds[op](a, b), t) if op in folds and mask else None


def _unsigned(a: Table, t: Type) -> NDArray[np.uint64]:
    return a.astype(np.uint64) & np.uint64(mask_of(t))


def _compare(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    """A table if both operands are tables."""
    if not (shapes[0].pure and shapes[1].pure) or i.operands[0].type.scalar.kind == "ptr":
        return _all_uniform(shapes)
    a, b = _tables(i, shapes, lanes)
    if i.extra[0] == "u":
        t = i.operands[0].type
        ua, ub = _unsigned(a, t), _unsigned(b, t)
        result = _COMPARE[i.extra[1:]](ua, ub)
    else:
        result = _COMPARE[i.extra.lstrip("s") if i.extra[0] == "s" else i.extra](a, b)
    return Shape(False, result.astype(np.int64), 0)


_COMPARE: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal,
    "lt": np.less, "le": np.less_equal,
}


def _select(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    condition, a, b = shapes
    if condition.pure and a.pure and b.pure:
        tc, ta, tb = _tables(i, shapes, lanes)
        return Shape(False, np.where(tc != 0, ta, tb), 0)
    if condition.same_in_all_lanes and condition.wide is False:
        return join(a, b, i.type)
    return WIDE


def _extension(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    """Shape of an extension or truncation, if base + table cannot wrap in between."""
    (shape,) = shapes
    source, target = i.operands[0].type, i.type
    table = _table(shape, source.lanes, lanes)
    if shape.pure:
        if i.opcode == "zext":
            table = _unsigned(table, source).astype(np.int64)
        elif i.opcode == "sext" and source.scalar.bits == 1:
            table = -table
        return Shape(False, normalise(table, target), 0)
    table, given = _parts(shape, source, lanes)
    bits = given
    if source.scalar.bits == 1 or (i.opcode == "zext" and (table < 0).any()):
        return _all_uniform(shapes)
    if i.opcode == "sext" and bits >> (source.scalar.bits - 1):
        bits |= mask_of(target) & ~mask_of(source)
    if i.opcode == "trunc" and target.scalar.bits == 1:
        return _all_uniform(shapes)
    exact = "nsw" in i.flags or (never_wraps(shapes) and (i.opcode == "sext" or "nneg" in i.flags))
    if table.any() and i.opcode != "trunc" and not exact and not has_room(
            table, given, source, signed=i.opcode == "sext"):
        return _all_uniform(shapes)
    return tabled(normalise(table, target), bits & mask_of(target), target,
                  i.opcode != "trunc")


def _same(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    if i.type.lanes != i.operands[0].type.lanes or i.type.scalar.bits != 64:
        return shapes[0] if i.opcode == "freeze" else _all_uniform(shapes)
    return shapes[0]


def _pointer_step(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    """Shape of a `getelementptr`; uniform or wide if its offsets could wrap."""
    if any(o.type.lanes != 1 for o in i.operands):
        return _all_uniform(shapes)
    table = _parts(shapes[0], i.type, lanes)[0]
    for k, scale in gep_steps(i)[1]:
        step, bits = _parts(shapes[k], i.operands[k].type, lanes)
        if step.any() and i.operands[k].type.scalar.bits < 64 and not (
                never_wraps([shapes[k]]) or has_room(step, bits, i.operands[k].type, signed=True)):
            return _all_uniform(shapes)
        table = table + step * scale
    return tabled(table, mask_of(i.type), i.type)


def gep_steps(i: Instruction) -> tuple[int, list[tuple[int, int]]]:
    """Bytes that fields of structs add, and (operand number, bytes per unit) of every index."""
    total, scales, t = 0, list[tuple[int, int]](), i.element
    for k in range(1, len(i.operands)):
        if t is not None and t.kind == "struct" and k > 1:
            field = i.operands[k].integer_value() or 0
            total += ir.struct_offsets(t)[field]
            t = t.fields[field]
            continue
        t = t if k == 1 or t is None else t.elem
        if t is not None:
            scales.append((k, t.size))
    return total, scales


def _pieces(
    operands: Sequence[Operand], shapes: Sequence[Shape], lanes: int
) -> tuple[list[Table], int]:
    """Tables and base bits of operands together; if all are known, exact and without bases."""
    pairs = list(zip(shapes, operands, strict=True))
    if all(s.pure for s in shapes):
        return [_table(s, o.type.lanes, lanes) for s, o in pairs], 0
    parts = [_parts(s, o.type, lanes) for s, o in pairs]
    return [table for table, _ in parts], reduce(or_, (bits for _, bits in parts))


def _extract(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    index = i.operands[1].integer_value()
    if index is None:
        return _all_uniform(shapes)
    (table,), bits = _pieces(i.operands[:1], shapes[:1], lanes)
    return tabled(table[index : index + 1], bits, i.type, never_wraps(shapes[:1]))


def _insert(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    index = i.operands[2].integer_value()
    if index is None:
        return _all_uniform(shapes)
    vector = Shape(False, None, 0) if i.operands[0].is_undefined else shapes[0]
    (table, row), bits = _pieces(i.operands[:2], [vector, shapes[1]], lanes)
    table = table.copy()
    table[index] = row[0]
    return tabled(table, bits, i.type, never_wraps((vector, shapes[1])))


def _shuffle(i: Instruction, shapes: list[Shape], lanes: int) -> Shape:
    tables, bits = _pieces(i.operands, shapes, lanes)
    table = np.concatenate(tables)[[max(0, k) for k in i.indices]]
    return tabled(table, bits, i.type, never_wraps(shapes))


RULES: dict[str, Callable[[Instruction, list[Shape], int], Shape]] = {
    name: rule for names, rule in (
        ("add sub mul udiv sdiv urem srem shl lshr ashr and or xor", _binary),
        ("icmp", _compare), ("select", _select), ("zext sext trunc", _extension),
        ("freeze ptrtoint inttoptr addrspacecast bitcast", _same),
        ("getelementptr", _pointer_step), ("extractelement", _extract),
        ("insertelement", _insert), ("shufflevector", _shuffle),
    ) for name in names.split()
}
"""Rules for the shape of a result by opcode, from those of its operands and the lanes."""
