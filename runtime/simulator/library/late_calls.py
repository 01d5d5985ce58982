"""Compile functions of the checks when they are first called.

Of the 40 functions that a checked kernel may call, accesses without faults call about ten, and all
of them take LLVM 2 s.  Therefore a call of one function by another goes through a variable,
whose first value is a function that compiles the callee:

    call void @xe.san.touch(ptr %c)  ->  %late1 = load ptr, ptr @late.0.code
                                         call void %late1(ptr %c)

    @late.0.name = internal constant [13 x i8] c"xe.san.touch\\00"
    @late.0.code = internal global ptr @late.0
    define internal void @late.0(ptr %a0) {
      call void @xe_san_bind(ptr @late.0.code, ptr @late.0.name)
      %v1 = load ptr, ptr @late.0.code
      call void %v1(ptr %a0)
      ret void
    }

The host's function `xe_san_bind` compiles the named one, and writes its address to the variable.
"""

from __future__ import annotations

from itertools import count

from triton_xe.llvm import I8, PTR, VOID, Function, Global, Instruction, Operand, array, define
from triton_xe.llvm.records import undefined_calls
from triton_xe.runtime.simulator.library.symbols import is_symbol
from triton_xe.runtime.simulator.sanitizer.state import BIND


def bind_late(functions: list[Function]) -> list[Global]:
    """Call library functions that are not in the list through variables, and return these.

    The functions that compile them are appended to the list.
    """
    variables, late = list[Global](), dict[str, Operand]()
    stubs, names = list[Function](), count()
    for name, call in undefined_calls(functions).items():
        if is_symbol(name):
            code, spelled = _variables(f"late.{len(late)}", name)
            stubs.append(_stub(f"late.{len(late)}", call, code.address, spelled.address))
            late[name] = code.address
            variables += code, spelled
    for block in (block for function in functions for block in function.blocks):
        made = list[Instruction]()
        for i in block.instructions:
            if i.callee in late:
                made.append(Instruction("load", PTR, [late[i.callee]], f"%late{next(names)}"))
                i.callee = made[-1].value.text
            made.append(i)
        block.instructions = made
    functions += stubs
    return variables


def _variables(stub: str, name: str) -> tuple[Global, Global]:
    """The address of a function, at first that of its stub, and the function's name."""
    text = array(len(name) + 1, I8)
    return (Global(f"@{stub}.code", PTR, 0, f"@{stub}", is_constant=False),
            Global(f"@{stub}.name", text, 0, f'c"{name}\\00"', is_constant=True))


def _stub(own: str, call: Instruction, code: Operand, name: Operand) -> Function:
    """A function that lets the host compile the callee, and then calls it."""
    parameters = [(f"a{k}", x.type) for k, x in enumerate(call.operands)]
    b = define(own, call.type, parameters, attributes="nounwind noinline", internal=True)
    b.invoke(BIND, code, name)
    result = b.call(b.load(PTR, code), call.type, b.arguments)
    b.ret(None if call.type is VOID else result)
    return b.function
