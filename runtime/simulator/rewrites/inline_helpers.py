"""Inline pure functions of a module, with `select` instead of branches.

The sanitizer inlines helpers that run lane by lane, so that it tracks undefined bits through them
as in straight code.  Only the side that a branch takes counts, and a branch on undefined bits makes
the values that depend on it undefined.  A helper with a loop, a memory access or a call of another
helper stays a call.  Any undefined operand makes all results of such a call undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.llvm import (
    Block,
    Function,
    Instruction,
    Module,
    Operand,
    substitute,
)
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.analysis.calls import is_lane_helper
from triton_xe.spirv import has_visa

_PURE = BINARY | CASTS - {"ptrtoint", "inttoptr", "addrspacecast"} | set(
    "icmp fcmp fneg select freeze phi br ret insertvalue extractvalue extractelement insertelement "
    "shufflevector".split())
_SUBGROUP_FAMILIES = frozenset({
    Family.MATHS, Family.CONVERSION, Family.SHUFFLE, Family.REDUCTION, Family.ID, Family.DPAS})
"""Families that functions with a vISA form may call; all lanes run them at once."""
Names = dict[str, Operand]


def inline_helpers(
    function: Function, helpers: Mapping[str, Function],
    is_helper: Callable[[str], bool] = is_lane_helper,
    calls: frozenset[Family] = frozenset({Family.MATHS}),
) -> Function:
    """Inline calls of functions for which `is_helper` is true, if `can_inline` allows it.

    `calls` are the families of functions that an inlined function may call.
    """
    known = {name: f for name, f in helpers.items() if is_helper(name) and can_inline(f, calls)}
    if not any(i.callee in known for i in function.instructions()):
        return function
    split_structs = _used_by_fields(function)
    values: Names = {}
    parts: dict[str, dict[int, Operand]] = {}
    blocks = []
    for count, block in enumerate(function.blocks):
        body: list[Instruction] = []
        for k, i in enumerate(block.instructions):
            held = parts.get(i.operands[0].local or "") if i.opcode == "extractvalue" else None
            if held is not None and i.result is not None:
                values[i.result] = held[i.indices[0]]
            elif i.callee in known and (i.type.kind != "struct" or i.result in split_structs):
                copy = _Copy(i, f"{count}.{k}", body)
                returned = copy.write(known[i.callee])
                if i.result is None:
                    continue
                if i.type.kind == "struct":
                    parts[i.result] = returned
                else:
                    values[i.result] = returned[-1]
            else:
                body.append(i)
        blocks.append(Block(block.label, body))
    substitute(blocks, values)
    return replace(function, blocks=blocks)


def can_inline(
    helper: Function, calls: frozenset[Family] = frozenset({Family.MATHS})
) -> bool:
    """True if a helper has neither loops nor memory accesses, and one return with a value."""
    returns = [i for i in helper.instructions() if i.opcode == "ret"]
    all_run = len(helper.reverse_postorder()) == len(helper.blocks)
    if helper.loops() or not all_run or len(returns) != 1 or not returns[0].operands:
        return False
    if any(i.opcode not in _PURE and not _is_call_of(i, calls) for i in helper.instructions()):
        return False
    if any(i.type.kind == "struct" and i.opcode != "insertvalue" for i in helper.instructions()
           if i.result is not None):
        return False
    return helper.result.kind != "struct" or _fields(helper, returns[0].operands[0]) is not None


def _is_call_of(i: Instruction, families: frozenset[Family]) -> bool:
    return i.opcode == "call" and find(i.callee).family in families


def _fields(helper: Function, value: Operand) -> dict[int, Operand] | None:
    """Values that a chain of insertvalue inserts into each field."""
    made = {i.result: i for i in helper.instructions() if i.opcode == "insertvalue"}
    found: dict[int, Operand] = {}
    while value.local is not None:
        step = made.get(value.local)
        if step is None or len(step.indices) != 1:
            return None
        found.setdefault(step.indices[0], step.operands[1])
        value = step.operands[0]
    return found if value.is_undefined else None


def _used_by_fields(function: Function) -> set[str]:
    """Results that are structs, and that only `extractvalue` uses."""
    whole = {name for i in function.instructions() if i.opcode != "extractvalue"
             for name in i.locals()}
    structs = {i.result for i in function.instructions() if i.type.kind == "struct"}
    return {name for name in structs if name is not None} - whole


def inline_visa_functions(module: Module) -> Module:
    """Inline functions that have a vISA form in SPIR-V (`has_visa`)."""
    if not any(map(has_visa, module.functions)):
        return module
    return replace(module, functions={
        name: inline_helpers(function, module.functions, has_visa, _SUBGROUP_FAMILIES)
        for name, function in module.functions.items() if not has_visa(name)})


class _Copy:
    """Copies the instructions of a helper to `body`, in place of one call."""

    def __init__(self, call: Instruction, number: str, body: list[Instruction]) -> None:
        self.call = call
        self.number = number
        self.body = body
        self.values: Names = {}
        self.count = 0

    def write(self, helper: Function) -> dict[int, Operand]:
        """Write the copy; return the fields of the result, or the result as field -1."""
        for (name, _), operand in zip(helper.parameters, self.call.operands, strict=True):
            self.values[name] = operand
        order = Facts(helper).order
        taken: dict[str, Operand] = {order[0].label: ir.TRUE}
        edges: dict[tuple[str, str], Operand] = {}
        returned: dict[int, Operand] = {}
        for block in order:
            if block.label not in taken:
                taken[block.label] = self._disjunction([e for (_, to), e in edges.items()
                                                if to == block.label])
            for i in block.instructions:
                if i.opcode == "phi":
                    self._choose(i, block.label, edges)
                elif i.opcode == "ret":
                    (value,) = i.operands
                    fields = {-1: value} if value.type.kind != "struct" else (
                        _fields(helper, value) or {})
                    returned = {k: self._mapped(o) for k, o in fields.items()}
                elif i.opcode == "br":
                    self._leave(i, block.label, taken[block.label], edges)
                elif i.opcode != "insertvalue":
                    self._copy(i)
        return returned

    def _mapped(self, operand: Operand) -> Operand:
        """The caller's operand for an operand of the helper."""
        return self.values.get(operand.local or "", operand)

    def _name(self, name: str) -> str:
        return f'%"xe.in{self.number}.{name.strip("%").strip(chr(34))}"'

    def _emit(self, i: Instruction) -> Operand:
        assert i.result is not None
        self.body.append(replace(i, line=self.call.line, debug=self.call.debug))
        return i.value

    def _copy(self, i: Instruction) -> None:
        operands = [self._mapped(o) for o in i.operands]
        name = self._name(i.result or "")
        self.values[i.result or ""] = self._emit(replace(i, operands=operands, result=name))

    def _new(self, opcode: str, t: ir.Type, *operands: Operand) -> Operand:
        self.count += 1
        return self._emit(Instruction(opcode, t, list(operands), self._name(f"new{self.count}")))

    def _disjunction(self, conditions: list[Operand]) -> Operand:
        """The disjunction of conditions."""
        found, *rest = conditions
        for other in rest:
            found = self._new("or", ir.I1, found, other)
        return found

    def _leave(
        self, i: Instruction, label: str, here: Operand, edges: dict[tuple[str, str], Operand]
    ) -> None:
        """Compute when the edges that leave a block are taken; `here`: when the block runs."""
        if not i.operands or len(set(i.labels)) == 1:
            edges[label, i.labels[0]] = here
            return
        condition = self._mapped(i.operands[0])
        other = self._new("xor", ir.I1, condition, ir.TRUE)
        for to, taken in zip(i.labels, (condition, other), strict=True):
            edges[label, to] = self._new("and", ir.I1, here, taken)

    def _choose(
        self, i: Instruction, label: str, edges: dict[tuple[str, str], Operand]
    ) -> None:
        """Compute a phi: the value of the edge that is taken."""
        values = [self._mapped(o) for o in i.operands]
        found = values[0]
        for source, value in zip(i.labels[1:], values[1:], strict=True):
            found = self._new("select", i.type, edges[source, label], value, found)
        self.values[i.result or ""] = found

