"""Write the functions of a module of LLVM IR as SPIR-V, for Intel's compiler.

Each instruction is written as it is read, in one pass; operands that a later instruction defines
get their id at the first use.  A construct without a form here raises `UnsupportedError`.

LLVM's integers of one bit are booleans in SPIR-V, which has other instructions for them.

Computations without a use are left out, and equal ones are written once.  One instruction composes
a vector of known elements.  Both modules and the code of Intel's compiler are shorter for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import dropwhile

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.llvm import Function, Instruction, Module
from triton_xe.llvm.syntax import llvm_type, write_instruction
from triton_xe.lowering.spirv import calls
from triton_xe.lowering.spirv import spirv_tables as tables
from triton_xe.lowering.spirv.module_writer import ModuleWriter, add, encoded, refuse
from triton_xe.lowering.spirv.spirv_tables import Op
from triton_xe.lowering.spirv.value_writer import ValueWriter
from triton_xe.spirv import ROLLED_LABEL

BF16 = ir.floating("bfloat")
LONGEST = 16
"""Elements of the longest vectors of OpenCL; Intel's compiler takes longer ones, too."""
_ROLLED = re.compile(rf"%{ROLLED_LABEL}(\.\d+)?$")
_DO_NOT_UNROLL = 2


def write_module(module: Module) -> bytes:
    """The module as SPIR-V; `UnsupportedError` if an instruction has no form in it."""
    w = ModuleWriter(module)
    for function in module.functions.values():
        if _assembly(function) is None:
            FunctionWriter(w, _without_empty_entry(function)).write()
    return w.finish()


def _without_empty_entry(function: Function) -> Function:
    """Begin with the second block if the first only leads there: blocks cost IGC time."""
    first, *rest = function.blocks
    empty = [i.opcode for i in first.instructions] == ["br"] and first.successors == [
        block.label for block in rest[:1]]
    if not empty or rest[0].phis or function.predecessors[rest[0].label] != [first.label]:
        return function
    return replace(function, blocks=rest)


def _assembly(function: Function | None) -> Instruction | None:
    """The inline assembly that is all of an internal function, written where it is called."""
    if function is None or not function.is_internal or len(function.blocks) != 1:
        return None
    first, *others = function.blocks[0].instructions
    alone = [i.opcode for i in others] == ["ret"] and first.callee == ir.ASSEMBLY
    if not alone or first.operands != function.arguments:
        return None
    return first if others[0].operands in ([], [first.value]) else None


class FunctionWriter(ValueWriter):
    """Writes one function."""

    def __init__(self, module: ModuleWriter, function: Function) -> None:
        super().__init__(module, function)
        self.elements: dict[str, tuple[int | None, ...]] = {}
        """The known elements of vectors."""
        self.consumed: set[str] = set()
        """Vectors whose elements are in later ones."""

    def write(self) -> None:
        m, f = self.m, self.f
        result = m.callees.get(f.name)
        if result is None:
            result = m.callees[f.name] = self.new()
        kind = m.signature(f.result, [t for _, t in f.parameters])
        add(m.bodies, Op.FUNCTION, self.type(f.result), result, m.control(f.name), kind)
        for name, t in f.parameters:
            add(m.bodies, Op.FUNCTION_PARAMETER, self.type(t), self.ids[name])
        self._announce(result)
        self.uses = _uses(f)
        for block in self._ordered():
            self._block(block)
        add(m.bodies, Op.LABEL, self.ids[f.blocks[0].label])
        m.bodies += self.head
        m.bodies += self.words
        add(m.bodies, Op.FUNCTION_END)

    def _announce(self, result: int) -> None:
        """Declare an entry point with its modes, or the linkage."""
        m, f = self.m, self.f
        if not f.is_kernel:
            if not f.is_internal:
                m.decorate(result, tables.LINKAGE, *encoded(f.name), tables.EXPORT)
            return
        m.entry_points.append((tables.KERNEL, f.name, result))
        size = m.module.metadata_integers(f, "reqd_work_group_size")
        if size:
            add(m.modes, Op.EXECUTION_MODE, result, tables.LOCAL_SIZE, *size)
        lanes = m.module.metadata_integers(f, "intel_reqd_sub_group_size")
        if lanes:
            m.need(tables.SUBGROUP_DISPATCH)
            add(m.modes, Op.EXECUTION_MODE, result, tables.SUBGROUP_SIZE, *lanes)
        add(m.modes, Op.EXECUTION_MODE, result, tables.CONTRACTION_OFF)

    def _ordered(self) -> list[ir.Block]:
        """The blocks, each after the one that dominates it."""
        f, done = self.f, set[str]()
        for block in f.blocks:
            if done and done.isdisjoint(f.predecessors[block.label]):
                named = {b.label: b for b in f.blocks}
                order = dict.fromkeys([*f.reverse_postorder(), *named])
                return [named[label] for label in order]
            done.add(block.label)
        return f.blocks

    def _block(self, block: ir.Block) -> None:
        self.begin(block.label)
        if block is not self.f.blocks[0]:
            add(self.words, Op.LABEL, self.ids[block.label])
        last = block.instructions[-1]
        for i in block.instructions:
            if not self.uses[i.result] and i.is_pure:
                continue
            if i is last:
                self._flush()
            self.instruction(i)

    def instruction(self, i: Instruction) -> None:
        form = _FORMS.get(i.opcode)
        try:
            if form is None:
                refuse(f"the instruction {i.opcode}")
            form(self, i)
        except UnsupportedError as error:
            is_located = i.line or i.debug is not None
            where = self.m.module.location(i.line, i.debug) if is_located else (
                write_instruction(i, llvm_type).strip())
            raise UnsupportedError(f"{error} (@{self.f.name}, {where})") from None

    # --- arithmetic -------------------------------------------------------------------------------

    def binary(self, i: Instruction) -> None:
        a, b = i.operands
        opcode = tables.BINARY[i.opcode]
        if i.type.scalar is ir.I1:
            opcode = tables.LOGICAL.get(i.opcode) or refuse(f"{i.opcode} of bits")
        elif i.type.scalar is BF16:
            refuse(f"{i.opcode} of bf16")
        x, y = self.value(a), self.value(b)
        if i.flags and i.type.scalar.kind == "float":
            self.define(i, opcode, x, y)
            self.fast(i)
        else:
            self.compute(i, opcode, x, y)

    def unary(self, i: Instruction) -> None:
        self.compute(i, Op.F_NEGATE, self.value(i.operands[0]))

    def cast(self, i: Instruction) -> None:
        (value,), opcode = i.operands, i.opcode
        if BF16 in (value.type.scalar, i.type.scalar) and opcode != "bitcast":
            refuse(f"{opcode} of bf16")
        if value.type.scalar is ir.I1 and opcode != "bitcast":
            self._from_bits(i)
        elif i.type.scalar is ir.I1 and opcode == "trunc":
            one = self.made(Op.BITWISE_AND, value.type, self.value(value),
                           self.m.number(value.type, 1))
            self.compute(i, Op.I_NOT_EQUAL, one, self.constant(ir.zero(value.type)))
        elif opcode == "bitcast" and (i.type is value.type or i.type.kind == "ptr"):
            self.rename(i, self.value(value))
        elif opcode == "bitcast" and self._join(i):
            return
        elif ir.I1 in (i.type.scalar, value.type.scalar):
            refuse(f"{opcode} from {value.type} to {i.type}")
        else:
            self.compute(i, tables.CASTS[opcode], self.value(value))

    def _from_bits(self, i: Instruction) -> None:
        """Extend or convert bits, by a choice between two integers."""
        (value,) = i.operands
        is_integer = i.opcode in ("zext", "sext")
        kind = i.type if is_integer else ir.with_elements(i.type, ir.I32)
        yes = -1 if i.opcode in ("sext", "sitofp") else 1
        operands = (self.value(value), self.m.number(kind, yes), self.constant(ir.zero(kind)))
        if is_integer:
            self.compute(i, Op.SELECT, *operands)
        else:
            self.compute(i, tables.CASTS[i.opcode], self.made(Op.SELECT, kind, *operands))

    def address_cast(self, i: Instruction) -> None:
        source, target = i.operands[0].type.space, i.type.space
        opcode = {target: Op.PTR_CAST_TO_GENERIC, source: Op.GENERIC_CAST_TO_PTR}.get(
            tables.GENERIC)
        if opcode is None:
            refuse(f"a cast from address space {source} to {target}")
        self.compute(i, opcode, self.value(i.operands[0]))

    def compare(self, i: Instruction) -> None:
        (a, b), t = i.operands, i.operands[0].type
        x, y, opcode = self.value(a), self.value(b), tables.COMPARISONS[i.opcode, i.extra]
        if t.scalar is ir.I1:
            if i.extra not in ("eq", "ne"):
                wide = ir.with_elements(t, ir.I8)
                x, y = (self.made(Op.SELECT, wide, each, self.m.number(wide, (
                    -1 if i.extra[0] == "s" else 1)), self.constant(ir.zero(wide)))
                        for each in (x, y))
            else:
                opcode = Op.LOGICAL_EQUAL if i.extra == "eq" else Op.LOGICAL_NOT_EQUAL
        elif t.kind == "ptr":
            x, y = (self.made(Op.CONVERT_PTR_TO_U, ir.I64, each) for each in (x, y))
        self.compute(i, opcode, x, y)

    def select(self, i: Instruction) -> None:
        self.compute(i, Op.SELECT, *map(self.value, i.operands))

    def freeze(self, i: Instruction) -> None:
        self.rename(i, self.value(i.operands[0]))

    # --- vectors and structs ----------------------------------------------------------------------

    def extract_element(self, i: Instruction) -> None:
        vector, index = i.operands
        place = index.integer_value()
        if place is None:
            self.compute(i, Op.VECTOR_EXTRACT_DYNAMIC, self.value(vector), self.value(index))
        else:
            self.compute(i, Op.COMPOSITE_EXTRACT, self.value(vector), place)

    def insert_element(self, i: Instruction) -> None:
        """Insert an element; the last one of a vector composes it, and others wait for that."""
        vector, element, index = i.operands
        place = index.integer_value()
        if place is None:
            self.compute(i, Op.VECTOR_INSERT_DYNAMIC, *map(self.value, i.operands))
            return
        known = self.elements.get(vector.text, (None,) * i.type.count)
        known = (*known[:place], self.value(element), *known[place + 1 :])
        self.consumed.add(vector.text)
        self._know(i, known)

    def _know(self, i: Instruction, known: tuple[int | None, ...]) -> None:
        """Write a vector of these elements; one with one use waits for that."""
        assert i.result is not None
        self.elements[i.result] = known
        if self.uses[i.result] == 1 and i.result not in self.ids:
            self.ids.waiting[i.result] = i
        else:
            self.write_waiting(i)

    def write_waiting(self, i: Instruction) -> None:
        """Compose a vector of known elements; insert an element into another one."""
        known = self.elements[i.result or ""]
        scalars = [scalar for scalar in known if scalar is not None]
        if len(scalars) == len(known):
            self.compute(i, Op.COMPOSITE_CONSTRUCT, *scalars)
        else:
            vector, element, index = i.operands
            self.compute(i, Op.COMPOSITE_INSERT, self.value(element), self.value(vector),
                         index.integer_value() or 0)

    def _flush(self) -> None:
        """Write the vectors that wait for a use, unless their elements are in others."""
        for name in [n for n in self.ids.waiting if n not in self.consumed]:
            self.ids[name]
        self.ids.waiting.clear()

    def shuffle(self, i: Instruction) -> None:
        a, b = i.operands
        none = (None,) * a.type.count
        both = (*self.elements.get(a.text, none), *self.elements.get(b.text, none))
        known = tuple([None if k < 0 else both[k] for k in i.indices])
        if None not in known:
            self.consumed |= {a.text, b.text}
            self._know(i, known)
            return
        self.compute(i, Op.VECTOR_SHUFFLE, self.value(a), self.value(b),
                     *[k & 0xFFFFFFFF for k in i.indices])

    def _join(self, i: Instruction) -> bool:
        """Reinterpret known elements of a long vector as wider ones, group by group.

        Intel's compiler writes more instructions for a vector that is longer than SPIR-V's.
        """
        (value,), t = i.operands, i.type
        known, each = self.elements.get(value.text, (None,)), value.type.scalar
        ratio = t.scalar.bits // each.bits if each.bits else 0
        if ratio < 2 or len(known) <= LONGEST or None in known:
            return False
        self.consumed.add(value.text)
        group = ir.vector(ratio, each)
        joined = [self.made(Op.BITCAST, t.scalar, self.made(
            Op.COMPOSITE_CONSTRUCT, group, *known[k : k + ratio]))  # type: ignore[arg-type]
            for k in range(0, len(known), ratio)]
        self.define(i, Op.COMPOSITE_CONSTRUCT, *joined)
        return True

    def extract_value(self, i: Instruction) -> None:
        self.compute(i, Op.COMPOSITE_EXTRACT, self.value(i.operands[0]), *i.indices)

    def insert_value(self, i: Instruction) -> None:
        whole, part = i.operands
        self.compute(i, Op.COMPOSITE_INSERT, self.value(part), self.value(whole), *i.indices)

    # --- memory -----------------------------------------------------------------------------------

    def alloca(self, i: Instruction) -> None:
        assert i.element is not None
        if self.label != self.f.blocks[0].label:
            refuse("an alloca after the first block")
        variable = self.new()
        add(self.head, Op.VARIABLE, self.m.pointer(0, i.element), variable, tables.STORAGE[0])
        if i.align:
            self.m.decorate(variable, tables.ALIGNMENT, i.align)
        assert i.result is not None
        add(self.words, Op.BITCAST, self.type(i.type), self.ids[i.result], variable)

    def load(self, i: Instruction) -> None:
        if i.orderings:
            refuse("an atomic load")
        self.define(i, Op.LOAD, self.at(i.operands[0], i.type), *_access(i))

    def store(self, i: Instruction) -> None:
        if i.orderings:
            refuse("an atomic store")
        value, address = i.operands
        stored = self.value(value)
        add(self.words, Op.STORE, self.at(address, value.type), stored, *_access(i))

    def address(self, i: Instruction) -> None:
        base, *indices = i.operands
        element = found = i.element or ir.I8
        if i.type.kind != "ptr":
            refuse("vectors of pointers")
        for index in indices[1:]:
            place = index.integer_value() or 0
            found = found.fields[place] if found.kind == "struct" else found.elem or ir.I8
        opcode = Op.IN_BOUNDS_PTR_ACCESS_CHAIN if "inbounds" in i.flags else Op.PTR_ACCESS_CHAIN
        start, places = self.at(base, element), map(self.value, indices)
        if found is ir.I8:
            self.compute(i, opcode, start, *places)
            return
        made = self.new()
        add(self.words, opcode, self.m.pointer(i.type.space, found), made, start, *places)
        self.define(i, Op.BITCAST, made)

    # --- atomics ----------------------------------------------------------------------------------

    def _order(self, i: Instruction) -> list[int]:
        """The scope, and the semantics for each ordering."""
        if i.scope not in tables.SCOPES:
            refuse(f"the scope {i.scope}")
        return [self.m.number(ir.I32, n) for n in (
            tables.SCOPES[i.scope], *(tables.SEMANTICS[o] for o in i.orderings))]

    def atomic(self, i: Instruction) -> None:
        address, value = i.operands
        if i.extra not in tables.ATOMICS:
            refuse(f"atomicrmw {i.extra}")
        self.need_atomic(i)
        self.define(i, tables.ATOMICS[i.extra], self.at(address, value.type), *self._order(i),
                    self.value(value))

    def need_atomic(self, i: Instruction) -> None:
        """Declare the capability of an atomic operation."""
        kind = i.operands[1].type
        if i.extra in ("fadd", "fmin", "fmax"):
            self.m.need(tables.ATOMIC_FLOATS[i.extra == "fadd", kind.text])
        elif kind.bits == 64:
            self.m.need(tables.INT64_ATOMICS)

    def compare_exchange(self, i: Instruction) -> None:
        address, expected, new = i.operands
        if expected.type.bits == 64:
            self.m.need(tables.INT64_ATOMICS)
        wanted = self.value(expected)
        old = self.made(Op.ATOMIC_COMPARE_EXCHANGE, expected.type,
                       self.at(address, expected.type), *self._order(i), self.value(new), wanted)
        same = self.made(Op.I_EQUAL, ir.I1, old, wanted)
        self.define(i, Op.COMPOSITE_CONSTRUCT, old, same)

    # --- control ----------------------------------------------------------------------------------

    def phi(self, i: Instruction) -> None:
        incoming = (x for o, label in zip(i.operands, i.labels, strict=True)
                    for x in (self.value(o), self.ids[label]))
        self.define(i, Op.PHI, *incoming)

    def branch(self, i: Instruction) -> None:
        self._mark_rolled()
        labels = [self.ids[label] for label in i.labels]
        if len(labels) == 1:
            add(self.words, Op.BRANCH, *labels)
        else:
            add(self.words, Op.BRANCH_CONDITIONAL, self.value(i.operands[0]), *labels)

    def _mark_rolled(self) -> None:
        """Tell Intel's compiler not to unroll a loop that begins in a block of this name.

        The hint is before the terminator of the first block.
        """
        if not _ROLLED.match(self.label):
            return
        for block in dropwhile(lambda b: b.label != self.label, self.f.blocks):
            others = {*block.successors} - {self.label}
            if self.label in block.successors and len(others) == 1:
                add(self.words, Op.LOOP_MERGE, self.ids[others.pop()], self.ids[block.label],
                    _DO_NOT_UNROLL)
                return

    def switch(self, i: Instruction) -> None:
        value, *cases = i.operands
        first, *others = (self.ids[label] for label in i.labels)
        words: list[int] = []
        for case, label in zip(cases, others, strict=True):
            number = case.integer_value()
            if number is None or case.type.bits < 8:
                refuse("this switch")
            number &= (1 << case.type.bits) - 1
            words += [number & 0xFFFFFFFF, *([number >> 32] if case.type.bits > 32 else ()), label]
        add(self.words, Op.SWITCH, self.value(value), first, *words)

    def ret(self, i: Instruction) -> None:
        if i.operands:
            add(self.words, Op.RETURN_VALUE, self.value(i.operands[0]))
        else:
            add(self.words, Op.RETURN)

    def unreachable(self, i: Instruction) -> None:
        add(self.words, Op.UNREACHABLE)

    def call(self, i: Instruction) -> None:
        body = i if i.callee == ir.ASSEMBLY else _assembly(self.m.module.functions.get(i.callee))
        if body is not None:
            self.define(i, Op.ASM_CALL, self.m.assembly(body), *map(self.value, i.operands))
            return
        form = None if i.callee in self.m.module.functions else calls.form_of(i.callee)
        if form is None:
            self.define(i, Op.FUNCTION_CALL, self.m.callee(i), *map(self.value, i.operands))
        else:
            form(self, i)


def _uses(function: Function) -> Counter[str | None]:
    """The uses of each value, without those of computations that are not used themselves."""
    found: Counter[str | None] = Counter(
        [o.text for i in function.instructions() for o in i.operands])
    found.subtract([i.operands[0].text for i in function.instructions()
                    if i.opcode == "shufflevector" and i.operands[0] == i.operands[1]])
    for block in reversed(function.blocks):
        for i in reversed(block.instructions):
            if not found[i.result] and i.is_pure:
                found.subtract({o.text for o in i.operands})
    return found


def _access(i: Instruction) -> tuple[int, ...]:
    """The memory operands of a load or store."""
    volatile = tables.VOLATILE if "volatile" in i.flags else 0
    if i.align:
        return volatile | tables.ALIGNED, i.align
    return (volatile,) if volatile else ()


_Form = Callable[[FunctionWriter, Instruction], None]
_FORMS: dict[str, _Form] = {
    **dict.fromkeys(tables.BINARY, FunctionWriter.binary),
    **dict.fromkeys(tables.CASTS, FunctionWriter.cast),
    "fneg": FunctionWriter.unary,
    "addrspacecast": FunctionWriter.address_cast,
    "icmp": FunctionWriter.compare,
    "fcmp": FunctionWriter.compare,
    "select": FunctionWriter.select,
    "freeze": FunctionWriter.freeze,
    "extractelement": FunctionWriter.extract_element,
    "insertelement": FunctionWriter.insert_element,
    "shufflevector": FunctionWriter.shuffle,
    "extractvalue": FunctionWriter.extract_value,
    "insertvalue": FunctionWriter.insert_value,
    "alloca": FunctionWriter.alloca,
    "load": FunctionWriter.load,
    "store": FunctionWriter.store,
    "getelementptr": FunctionWriter.address,
    "atomicrmw": FunctionWriter.atomic,
    "cmpxchg": FunctionWriter.compare_exchange,
    "phi": FunctionWriter.phi,
    "br": FunctionWriter.branch,
    "switch": FunctionWriter.switch,
    "ret": FunctionWriter.ret,
    "unreachable": FunctionWriter.unreachable,
    "call": FunctionWriter.call,
}
"""Methods that write an instruction, by opcode."""
