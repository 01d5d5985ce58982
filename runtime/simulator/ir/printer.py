"""Write records as LLVM text: the one place of the simulator that does.

Pointers lose their address spaces, as the host has one; what is called and not defined in the
module is declared from the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from triton_xe.runtime.simulator.ir.records import (
    Block,
    Function,
    Global,
    Instruction,
    quoted,
    undefined_calls,
)


def print_module(functions: Iterable[Function], variables: Iterable[Global] = ()) -> str:
    """A module of these functions and global variables."""
    functions = list(functions)
    return "\n\n".join([
        *map(print_global, variables),
        *(_declaration(name, i) for name, i in sorted(undefined_calls(functions).items())),
        *map(print_function, functions),
    ]) + "\n"


def print_global(variable: Global) -> str:
    kind = "constant" if variable.is_constant else "global"
    initializer = variable.initializer if variable.initializer != "external" else "undef"
    return f"{variable.name} = internal {kind} {variable.type.text} {initializer}"


def _declaration(name: str, call: Instruction) -> str:
    types = ", ".join([o.type.text for o in call.operands])
    attributes = "" if name.startswith("llvm.") else " nounwind"
    return f"declare {call.type.text} @{quoted(name)}({types}){attributes}"


def print_function(function: Function) -> str:
    parameters = ", ".join(
        f"{t.text} {_with_space(function.parameter_attributes.get(name, ''))}{name}"
        for name, t in function.parameters
    )
    linkage = "internal " if function.is_internal else ""
    attributes = _with_space(function.attributes)
    lines = [f"define {linkage}{function.result.text} @{quoted(function.name)}({parameters}) "
             f"{attributes}{{"]
    for block in function.blocks:
        lines.append(_head(block))
        lines += map(print_instruction, block.instructions)
    lines.append("}")
    return "\n".join(lines)


def _head(block: Block) -> str:
    return f"{block.label[1:]}:"


def print_instruction(i: Instruction) -> str:
    """One indented line."""
    write = _WRITERS.get(i.opcode)
    right = write(i) if write is not None else _binary(i)
    return f"  {i.result} = {right}" if i.result is not None else f"  {right}"


def _with_space(text: str) -> str:
    return f"{text} " if text else ""


def _flags(i: Instruction) -> str:
    return "".join([f" {f}" for f in i.flags]) if i.flags else ""


def _binary(i: Instruction) -> str:
    a, b = i.operands
    return f"{i.opcode}{_flags(i)} {a.type.text} {a.text}, {b.text}"


def _compare(i: Instruction) -> str:
    a, b = i.operands
    return f"{i.opcode}{_flags(i)} {i.extra} {a.type.text} {a.text}, {b.text}"


def _unary(i: Instruction) -> str:
    (a,) = i.operands
    return f"{i.opcode}{_flags(i)} {a.type.text} {a.text}"


def _cast(i: Instruction) -> str:
    (a,) = i.operands
    opcode = i.opcode if i.opcode != "addrspacecast" else "bitcast"
    return f"{opcode}{_flags(i)} {a.type.text} {a.text} to {i.type.text}"


def _typed(i: Instruction) -> str:
    return ", ".join([f"{o.type.text} {o.text}" for o in i.operands])


def _listed(i: Instruction) -> str:
    """select, extractelement, insertelement"""
    return f"{i.opcode}{_flags(i)} {_typed(i)}"


def _aligned(i: Instruction) -> str:
    return f", align {i.align}" if i.align else ""


def _ordered(i: Instruction) -> str:
    scope = f' syncscope("{i.scope}")' if i.scope else ""
    return scope + "".join([f" {o}" for o in i.orderings])


def _load(i: Instruction) -> str:
    atomic = " atomic" if i.orderings else ""
    (p,) = i.operands
    return f"load{atomic}{_flags(i)} {i.type.text}, ptr {p.text}{_ordered(i)}{_aligned(i)}"


def _store(i: Instruction) -> str:
    atomic = " atomic" if i.orderings else ""
    return f"store{atomic}{_flags(i)} {_typed(i)}{_ordered(i)}{_aligned(i)}"


def _alloca(i: Instruction) -> str:
    assert i.element is not None
    count = f", {_typed(i)}" if i.operands else ""
    return f"alloca {i.element.text}{count}{_aligned(i)}"


def _getelementptr(i: Instruction) -> str:
    assert i.element is not None
    return f"getelementptr{_flags(i)} {i.element.text}, {_typed(i)}"


@lru_cache(maxsize=4096)
def _mask(indices: tuple[int, ...]) -> str:
    items = ", ".join(["i32 poison" if k < 0 else f"i32 {k}" for k in indices])
    return f"<{len(indices)} x i32> <{items}>"


def _shufflevector(i: Instruction) -> str:
    return f"shufflevector {_typed(i)}, {_mask(i.indices)}"


def _indexed(i: Instruction) -> str:
    """extractvalue, insertvalue"""
    return f"{i.opcode} {_typed(i)}{''.join([f', {k}' for k in i.indices])}"


def _phi(i: Instruction) -> str:
    pairs = zip(i.operands, i.labels, strict=True)
    return f"phi {i.type.text} " + ", ".join([f"[{o.text}, {label}]" for o, label in pairs])


def _branch(i: Instruction) -> str:
    if not i.operands:
        return f"br label {i.labels[0]}"
    return f"br i1 {i.operands[0].text}, label {i.labels[0]}, label {i.labels[1]}"


def _switch(i: Instruction) -> str:
    value, *cases = i.operands
    inner = " ".join([f"{o.type.text} {o.text}, label {label}"
                      for o, label in zip(cases, i.labels[1:], strict=True)])
    return f"switch {value.type.text} {value.text}, label {i.labels[0]} [{inner}]"


def _ret(i: Instruction) -> str:
    return f"ret {_typed(i)}" if i.operands else "ret void"


def _call(i: Instruction) -> str:
    if any(i.aligns):
        arguments = ", ".join([
            f"{o.type.text} align {n} {o.text}" if n else f"{o.type.text} {o.text}"
            for o, n in zip(i.operands, i.aligns, strict=True)
        ])
    else:
        arguments = _typed(i)
    callee = i.callee if i.callee[0] == "%" else "@" + quoted(i.callee)
    return f"call{_flags(i)} {_with_space(i.attributes)}{i.type.text} {callee}({arguments})"


def _atomicrmw(i: Instruction) -> str:
    return f"atomicrmw{_flags(i)} {i.extra} {_typed(i)}{_ordered(i)}{_aligned(i)}"


def _cmpxchg(i: Instruction) -> str:
    return f"cmpxchg{_flags(i)} {_typed(i)}{_ordered(i)}{_aligned(i)}"


def _fence(i: Instruction) -> str:
    return f"fence{_ordered(i)}"


def _unreachable(i: Instruction) -> str:
    return "unreachable"


_WRITERS: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(("icmp", "fcmp"), _compare),
    **dict.fromkeys(("fneg", "freeze"), _unary),
    **dict.fromkeys(
        ("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp",
         "ptrtoint", "inttoptr", "bitcast", "addrspacecast"), _cast),
    **dict.fromkeys(("select", "extractelement", "insertelement"), _listed),
    **dict.fromkeys(("extractvalue", "insertvalue"), _indexed),
    "load": _load,
    "store": _store,
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "shufflevector": _shufflevector,
    "phi": _phi,
    "br": _branch,
    "switch": _switch,
    "ret": _ret,
    "call": _call,
    "atomicrmw": _atomicrmw,
    "cmpxchg": _cmpxchg,
    "fence": _fence,
    "unreachable": _unreachable,
}
