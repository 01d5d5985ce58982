"""Builder of the most frequent instructions, which takes half the time of llvmlite's.

It creates the same instructions as `ir.IRBuilder`, with two exceptions.  Elements of shuffled
vectors come from their sources.  Additions of zero and multiplications by one are left out.
Types are mostly the same object, and are compared only if they are not.  An instruction gets its
fields at once, instead of through four constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from triton_xe.lowering.emit.types import I1, number, vector_of


def _set_fields(
    block: ir.Block, instruction: Any, type_: ir.Type, opname: str, operands: Any,
    flags: Sequence[str] = (),
) -> Any:
    """Set the fields of a new instruction, and return it."""
    instruction.parent, instruction.type = block, type_
    instruction._name = block.scope.register("", True)
    instruction.opname, instruction.operands = opname, operands
    instruction.flags, instruction.metadata = list(flags), {}
    return instruction


_new = object.__new__


def element_of(vector: Any, position: int) -> tuple[Any, int]:
    """The vector and the position that an element of shuffled vectors comes from.

        element_of(shufflevector(a, b, <0, 1, 2, 3>), 3) = (b, 1)    vectors of two elements
    """
    while type(vector) is kinds.ShuffleVector:
        first, second, mask = vector.operands
        position = mask.constant[position].constant
        past = position - first.type.count
        vector, position = (first, position) if past < 0 else (second, past)
    return vector, position


def _whole(first: Any, second: Any, mask: ir.Constant) -> Any:
    """The vector that a shuffle of shuffles restores; None if it is none.

        a = shufflevector(x, y, <0, 1, 2, 3>) ; shufflevector(a, a, <2, 3>)  ->  y
    """
    count, sources = first.type.count, set()
    for position, each in enumerate(mask.constant):
        at = each.constant
        source, place = element_of(*(first, at) if at < count else (second, at - count))
        if place != position:
            return None
        sources.add(source)
    (source, *others) = sources
    return None if others or source.type.count != mask.type.count else source


class QuickBuilder(ir.IRBuilder):
    """Writes plain instructions without a name of their own quickly."""

    def extract_element(self, vector: Any, idx: Any, name: str = "") -> Any:
        if name or not isinstance(vector.type, ir.VectorType):
            return super().extract_element(vector, idx, name)
        if type(idx) is ir.Constant:
            vector, position = element_of(vector, idx.constant)
            idx = number(position)
        made = _set_fields(self._block, _new(kinds.ExtractElement), vector.type.element,
                     "extractelement", [vector, idx])
        self._insert(made)
        return made

    def insert_element(self, vector: Any, value: Any, idx: Any, name: str = "") -> Any:
        kind = vector.type
        if name or not isinstance(kind, ir.VectorType) or value.type != kind.element:
            return super().insert_element(vector, value, idx, name)
        made = _set_fields(self._block, _new(kinds.InsertElement), kind, "insertelement",
                     [vector, value, idx])
        self._insert(made)
        return made

    def shuffle(self, first: Any, second: Any, mask: ir.Constant, most: int) -> Any:
        """`shuffle_vector` with a mask whose largest position is known."""
        kind = first.type
        if most >= 2 * kind.count or second.type != kind:
            return self.shuffle_vector(first, second, mask)
        if type(first) is kinds.ShuffleVector and (whole := _whole(first, second, mask)):
            return whole
        result = vector_of(kind.element, mask.type.count)
        made = _set_fields(self._block, _new(kinds.ShuffleVector), result, "shufflevector",
                     [first, second, mask])
        self._insert(made)
        return made

    def call(self, fn: Any, args: Sequence[Any], name: str = "", **more: Any) -> Any:
        if name or more or not isinstance(fn, ir.Function) or fn.ftype.var_arg or any(
                a.type is not kind and a.type != kind
                for a, kind in zip(args, fn.ftype.args, strict=True)):
            return super().call(fn, args, name, **more)
        made = _set_fields(self._block, _new(kinds.CallInstr), fn.ftype.return_type, "call",
                     [fn, *args])
        made.cconv, made.tail = fn.calling_convention, ""
        made.fastmath, made.attributes, made.arg_attributes = _NO_FLAGS, _NO_ATTRIBUTES, {}
        self._insert(made)
        return made

    def _icmp(self, prefix: str, cmpop: str, lhs: Any, rhs: Any, name: str) -> Any:
        test = _TESTS.get(cmpop)
        if name or test is None:
            return super()._icmp(prefix, cmpop, lhs, rhs, name)
        kind = lhs.type
        bits = vector_of(I1, kind.count) if isinstance(kind, ir.VectorType) else I1
        made = _set_fields(self._block, _new(kinds.ICMPInstr), bits, "icmp", [lhs, rhs])
        made.op = test if cmpop in ("==", "!=") else prefix + test
        self._insert(made)
        return made

    def select(
        self, cond: Any, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()
    ) -> Any:
        if name or lhs.type != rhs.type:
            return super().select(cond, lhs, rhs, name, flags)
        made = _set_fields(
            self._block, _new(kinds.SelectInstr), lhs.type, "select", [cond, lhs, rhs], flags)
        self._insert(made)
        return made


_NO_FLAGS, _NO_ATTRIBUTES = kinds.FastMathFlags(), kinds.CallInstrAttributes()
_TESTS = {">": "gt", "<": "lt", "==": "eq", "!=": "ne", ">=": "ge", "<=": "le"}


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1}
"""Right operands that leave the left one as it is."""


def _binary(opname: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes `opname` quickly; named or wrongly typed ones are left to `plain`."""
    neutral = _NEUTRAL.get(opname)

    def write(self: QuickBuilder, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        kind = lhs.type
        if neutral is not None and type(rhs) is ir.Constant and rhs.constant == neutral:
            return lhs
        if name or (kind is not rhs.type and kind != rhs.type):
            return plain(self, lhs, rhs, name, flags)
        made = _set_fields(self._block, _new(ir.Instruction), kind, opname, (lhs, rhs), flags)
        self._insert(made)
        return made

    return write


def _cast(opname: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes the cast `opname` quickly; named ones are left to `plain`."""
    def write(self: QuickBuilder, val: Any, typ: ir.Type, name: str = "") -> Any:
        if val.type is typ or val.type == typ:
            return val
        if name:
            return plain(self, val, typ, name)
        made = _set_fields(self._block, _new(kinds.CastInstr), typ, opname, [val])
        self._insert(made)
        return made

    return write


for _method in ("add", "sub", "mul", "and_", "or_", "xor", "shl", "lshr", "ashr", "udiv", "sdiv",
                "urem", "srem", "fadd", "fsub", "fmul", "fdiv"):
    setattr(QuickBuilder, _method, _binary(_method.rstrip("_"), getattr(ir.IRBuilder, _method)))
for _method in ("trunc", "zext", "sext", "fptrunc", "fpext", "bitcast", "inttoptr", "ptrtoint",
                "sitofp", "uitofp", "fptosi", "fptoui"):
    setattr(QuickBuilder, _method, _cast(_method, getattr(ir.IRBuilder, _method)))
