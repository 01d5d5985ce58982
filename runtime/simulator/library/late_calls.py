"""Compile functions of the checks when they are first called.

Of the 40 functions that a checked kernel may call, accesses without faults call about ten, and all
of them take LLVM 2 s.  Therefore a call of one function by another goes through a variable:

    call void @xe.san.touch(ptr %c)  ->  call void @late.0(ptr %c)

    @late.0.name = internal constant [13 x i8] c"xe.san.touch\\00"
    @late.0.code = internal global ptr null
    define internal void @late.0(ptr %a0) {
    find:    %v1 = load ptr, ptr @late.0.code
             br i1 (%v1 == null), label %missing, label %found
    missing: call void @xe_san_bind(ptr @late.0.code, ptr @late.0.name)
             br label %find
    found:   call void %v1(ptr %a0)
             ret void
    }

The host's function `xe_san_bind` compiles the named one, and writes its address to the variable.
"""

from __future__ import annotations

from triton_xe.llvm import I8, PTR, VOID, Function, Global, Instruction, Operand, array, define
from triton_xe.llvm.records import undefined_calls
from triton_xe.runtime.simulator.library.symbols import is_symbol
from triton_xe.runtime.simulator.sanitizer.state import BIND


def bind_late(functions: list[Function]) -> list[Global]:
    """Redirect calls of library functions that are not in the list to functions that compile them.

    Those functions are appended to the list; their variables are returned.
    """
    variables, late = list[Global](), dict[str, Function]()
    for name, call in undefined_calls(functions).items():
        if is_symbol(name):
            code, spelled = _variables(f"@late.{len(late)}", name)
            late[name] = _indirect_call(f"late.{len(late)}", call, code.address, spelled.address)
            variables += code, spelled
    for function in functions:
        for i in function.instructions():
            if i.opcode == "call" and i.callee in late:
                i.callee = late[i.callee].name
    functions += late.values()
    return variables


def _variables(prefix: str, name: str) -> tuple[Global, Global]:
    """The address of a function, null until it is compiled, and the function's name."""
    text = array(len(name) + 1, I8)
    return (Global(f"{prefix}.code", PTR, 0, "null", is_constant=False),
            Global(f"{prefix}.name", text, 0, f'c"{name}\\00"', is_constant=True))


def _indirect_call(own: str, call: Instruction, code: Operand, name: Operand) -> Function:
    """A function that looks up the callee by name at its first call, and then calls it."""
    parameters = [(f"a{k}", x.type) for k, x in enumerate(call.operands)]
    b = define(own, call.type, parameters, attributes="nounwind noinline", internal=True)
    find, missing, found = (f"%{label}" for label in ("find", "missing", "found"))
    b.br(find)
    b.start(find)
    callee = b.load(PTR, code)
    b.cond_br(b.icmp("eq", callee, b.zero(PTR)), missing, found)
    b.start(missing)
    b.invoke(BIND, code, name)
    b.br(find)
    b.start(found)
    result = b.call(callee, call.type, b.arguments)
    b.ret(None if call.type is VOID else result)
    return b.function
