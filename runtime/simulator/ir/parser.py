"""Read LLVM IR text, as LLVM 22 prints it, into `ir.Module`.

The text is first parsed, verified and printed again by LLVM itself, so only LLVM's own spelling
has to be understood.  Grammar: the LLVM Language Reference, restricted to what a triton-xe kernel
module contains; anything else is an `UnsupportedError` that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.ir import Block, Function, Instruction, Operand, Type
from triton_xe.spirv import FALLBACK_NODE, SOURCE_NODE, UNFILLED_NODE

_TOKEN = re.compile(
    r'[%@]"[^"]*"|[%@][-\w$.]+|c?"[^"]*"|![\w.]*|#\d+|0x[HKMLR]?[0-9A-Fa-f]+'
    r"|[-+]?\d+\.\d+(?:e[-+]?\d+)?|-?\d+|[A-Za-z_][\w.]*|\.\.\.|[()\[\]{}<>,=*:|]"
)
_BINARY = frozenset(
    "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split()
)
_CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast "
    "addrspacecast".split()
)
_FLAGS = frozenset(
    "nuw nsw exact disjoint nneg samesign fast nnan ninf nsz arcp contract afn reassoc inbounds "
    "nusw inreg".split()
)
_CONVENTIONS = frozenset("spir_func spir_kernel fastcc ccc coldcc tail musttail notail".split())
_PAREN_ATTRIBUTES = frozenset("align dereferenceable dereferenceable_or_null range".split())
_TYPE_WORD = re.compile(r"i\d+$|half$|bfloat$|float$|double$|ptr$|void$|label$|token$|metadata$")
_ORDERINGS = frozenset("monotonic acquire release acq_rel seq_cst unordered".split())
_WORDS = {t.kind: t for t in (ir.VOID, ir.LABEL, ir.TOKEN, ir.METADATA)}
_ATTACHED = re.compile(r"(?:^|!)([A-Za-z][\w.]*) !(\d+)")


def parse_module(text: str) -> ir.Module:
    """The module printed as `text`; `UnsupportedError` names the first line not understood."""
    return _ModuleReader(text).read()


class _Line:
    """The tokens of one line and a position in them."""

    def __init__(self, text: str, number: int, types: dict[str, Type]) -> None:
        self.text = text
        self.number = number
        self.tokens = _TOKEN.findall(text)
        self.at = 0
        self.types = types

    def fail(self, why: str) -> NoReturn:
        raise UnsupportedError(
            f"the simulator cannot read line {self.number} of the LLVM module ({why}): "
            f"{self.text.strip()[:160]}"
        )

    @property
    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        if self.at >= len(self.tokens):
            self.fail("it ends too early")
        self.at += 1
        return str(self.tokens[self.at - 1])

    def accept(self, token: str) -> bool:
        if self.peek == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, found {self.peek!r}")

    def take_while(self, words: frozenset[str]) -> tuple[str, ...]:
        found = []
        while self.peek in words:
            found.append(self.take())
        return tuple(found)

    def skip_parens(self) -> None:
        depth = 0
        while True:
            token = self.take()
            depth += (token == "(") - (token == ")")
            if depth == 0:
                return

    def starts_type(self) -> bool:
        token = self.peek
        return bool(_TYPE_WORD.match(token)) or token in ("<", "[", "{") or token in self.types

    def type(self) -> Type:
        token = self.take()
        if token == "<":
            if self.accept("{"):
                self.fail("a packed struct")
            return self._sequence(">", "vec")
        if token == "[":
            return self._sequence("]", "array")
        if token == "{":
            fields = []
            while not self.accept("}"):
                fields.append(self.type())
                self.accept(",")
            return ir.struct(tuple(fields))
        if token == "ptr":
            return ir.pointer(self._address_space())
        if token[0] == "i" and token[1:].isdigit():
            return ir.integer(int(token[1:]))
        if token in ("half", "bfloat", "float", "double"):
            return ir.floating(token)
        if token in _WORDS:
            return _WORDS[token]
        if token in self.types:
            return self.types[token]
        self.fail(f"unknown type {token!r}")

    def _address_space(self) -> int:
        if not self.accept("addrspace"):
            return 0
        self.expect("(")
        space = int(self.take())
        self.expect(")")
        return space

    def _sequence(self, close: str, kind: str) -> Type:
        count = int(self.take())
        self.expect("x")
        elem = self.type()
        self.expect(close)
        return ir.vector(count, elem) if kind == "vec" else ir.array(count, elem)

    def attributes(self) -> None:
        """Skip parameter and return attributes up to a type or value."""
        while self.peek and not self.starts_type():
            token = self.peek
            if token[0] in "%@-\"0123456789(),!" or token in (
                "true", "false", "null", "undef", "poison", "zeroinitializer", "splat", "none",
                "getelementptr", "ptrtoint", "inttoptr", "addrspacecast", "bitcast",
            ):
                return
            self.take()
            if self.peek == "(":
                self.skip_parens()
            elif token == "align" and self.peek.isdigit():
                self.take()

    def typed_operand(self) -> Operand:
        t = self.type()
        self.attributes()
        return self.operand(t)

    def operand(self, t: Type) -> Operand:
        token = self.take()
        if token[0] == "%":
            return Operand(t, token)
        if token == "splat":
            self.expect("(")
            element = self.typed_operand()
            self.expect(")")
            return ir.splat(element, t.count)
        if token in ("<", "{", "["):
            return self._aggregate(t, {"<": ">", "{": "}", "[": "]"}[token], token)
        if token in ("getelementptr", "ptrtoint", "inttoptr", "addrspacecast", "bitcast"):
            return self._expression(t, token)
        if token in ("zeroinitializer", "undef", "poison") and t.kind in ("vec", "struct"):
            parts = t.fields if t.kind == "struct" else (t.scalar,) * t.count
            return Operand(t, token, elements=tuple(_default(p, token) for p in parts))
        if token == "asm":
            self.fail("inline assembly")
        return Operand(t, token)

    def _aggregate(self, t: Type, close: str, opening: str) -> Operand:
        parts = []
        while not self.accept(close):
            parts.append(self.typed_operand())
            self.accept(",")
        inner = ", ".join(f"{p.type.text} {p.text}" for p in parts)
        return Operand(t, f"{opening}{inner}{close}", elements=tuple(parts))

    def _expression(self, t: Type, opcode: str) -> Operand:
        self.take_while(_FLAGS)
        self.expect("(")
        if opcode == "getelementptr":
            element = self.type()
            self.expect(",")
            parts = [self.typed_operand()]
            while self.accept(","):
                parts.append(self.typed_operand())
            inner = Instruction(opcode, t, parts, element=element)
        else:
            parts = [self.typed_operand()]
            self.expect("to")
            self.type()
            inner = Instruction(opcode, t, parts)
        self.expect(")")
        return Operand(t, opcode, expression=inner)


def _default(t: Type, token: str) -> Operand:
    if token != "zeroinitializer" or t.kind in ("vec", "struct", "array"):
        return Operand(t, token)
    zero = {"int": "0", "float": "0.0", "ptr": "null"}[t.kind]
    return Operand(t, "false" if t == ir.I1 else zero)


class _ModuleReader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.at = 0
        self.types: dict[str, Type] = {}
        self.module = ir.Module({}, {}, {})
        self.versions: list[tuple[Instruction, int]] = []
        """Branches between two versions, and the metadata that says which is which."""

    def read(self) -> ir.Module:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith("define "):
                self._function()
            elif line.startswith("@"):
                self._global(line)
            elif line.startswith("!"):
                self._metadata(line)
            elif line.startswith("%"):
                self._named_type(line)
            self.at += 1
        for branch, node in self.versions:
            branch.fallback = branch.labels[self.module.integers(node)[0]]
        return self.module

    def _named_type(self, text: str) -> None:
        line = _Line(text, self.at + 1, self.types)
        name = line.take()
        line.expect("=")
        line.expect("type")
        self.types[name] = line.type()

    def _metadata(self, line: str) -> None:
        head, _, body = line.partition(" = ")
        if head[1:].isdigit():
            self.module.metadata[int(head[1:])] = body

    def _global(self, text: str) -> None:
        line = _Line(text, self.at + 1, self.types)
        name = line.take()
        line.expect("=")
        space = 0
        while line.peek not in ("global", "constant"):
            if line.peek == "addrspace":
                space = line._address_space()
            else:
                line.take()
        constant = line.take() == "constant"
        t = line.type()
        if not line.peek or line.peek == ",":
            initializer = "external"
        else:
            initializer = re.sub(
                r" addrspace\(\d+\)", "",
                text.split(t_text(text), 1)[-1].split(", align")[0].strip() or "undef",
            ) if t.kind == "array" else line.operand(t).text
        self.module.globals[name] = ir.Global(name, t, space, initializer, constant)

    def _function(self) -> None:
        header = _Line(self.lines[self.at], self.at + 1, self.types)
        words = header.tokens
        kernel, internal = "spir_kernel" in words, "internal" in words or "private" in words
        while not header.starts_type():
            header.take()
            if header.peek == "(":
                header.skip_parens()
        result = header.type()
        name = header.take().strip('@"')
        parameters = self._parameters(header)
        function = Function(name, result, parameters, [], kernel, internal,
                            self._attachments(header))
        self._body(function)
        self.module.functions[name] = function

    @staticmethod
    def _parameters(line: _Line) -> list[tuple[str, Type]]:
        line.expect("(")
        found: list[tuple[str, Type]] = []
        while not line.accept(")"):
            t = line.type()
            line.attributes()
            name = line.take() if line.peek.startswith("%") else f"%{len(found)}"
            found.append((name, t))
            line.accept(",")
        return found

    @staticmethod
    def _attachments(line: _Line) -> dict[str, int]:
        found: dict[str, int] = {}
        while line.peek not in ("{", ""):
            token = line.take()
            if token.startswith("!") and line.peek.startswith("!") and line.peek[1:].isdigit():
                found[token[1:]] = int(line.take()[1:])
        return found

    def _body(self, function: Function) -> None:
        unnamed = sum(p[0][1:].isdigit() for p in function.parameters)
        block = Block(f"%{unnamed}")
        while True:
            self.at += 1
            text = self.lines[self.at]
            if text.startswith("}"):
                break
            if not text.strip() or text.lstrip().startswith((";", "#dbg")):
                continue
            if text[0] not in " \t":
                if block.instructions:
                    function.blocks.append(block)
                block = Block("%" + text[: text.index(":")])
                continue
            if text.lstrip().startswith("switch"):
                while "]" not in text.split("[", 1)[1]:
                    self.at += 1
                    text += " " + self.lines[self.at].strip()
            block.instructions.append(self._instruction(text))
        function.blocks.append(block)

    def _instruction(self, text: str) -> Instruction:
        text, _, tail = text.partition(", !")
        nodes = {name: int(number) for name, number in _ATTACHED.findall(tail)}
        line = _Line(text, self.at + 1, self.types)
        result = None
        if line.peek.startswith("%"):
            result = line.take()
            line.expect("=")
        instruction = _read_instruction(line)
        instruction.result = result
        instruction.line = line.number
        instruction.debug = nodes.get(SOURCE_NODE, nodes.get("dbg"))
        instruction.unfilled = UNFILLED_NODE in nodes
        if FALLBACK_NODE in nodes:
            self.versions.append((instruction, nodes[FALLBACK_NODE]))
        return instruction


def t_text(text: str) -> str:
    """The array type of a global's definition, as printed."""
    found = re.search(r"(?:global|constant) (\[.*?\]) ", text + " ")
    return found.group(1) if found else "\0"


def _read_instruction(line: _Line) -> Instruction:
    opcode = line.take()
    if opcode in _CONVENTIONS:
        line.take_while(_CONVENTIONS)
        opcode = line.take()
    if opcode in _BINARY:
        flags = tuple(f for f in line.take_while(_FLAGS) if f != "contract")
        left = line.typed_operand()
        line.expect(",")
        return Instruction(opcode, left.type, [left, line.operand(left.type)], flags=flags)
    if opcode in _CASTS:
        flags = line.take_while(_FLAGS)
        operand = line.typed_operand()
        line.expect("to")
        return Instruction(opcode, line.type(), [operand], flags=flags)
    reader = _READERS.get(opcode)
    if reader is None:
        line.fail(f"unknown instruction {opcode!r}")
    return reader(line)


def _compare(opcode: str, line: _Line) -> Instruction:
    flags = line.take_while(_FLAGS)
    predicate = line.take()
    left = line.typed_operand()
    line.expect(",")
    right = line.operand(left.type)
    t = ir.like(left.type.lanes, ir.I1) if left.type.kind == "vec" else ir.I1
    return Instruction(opcode, t, [left, right], flags=flags, extra=predicate)


def _listed(opcode: str, result: Callable[[list[Operand]], Type]) -> Callable[[_Line], Instruction]:
    """An instruction that is flags and operands."""

    def read(line: _Line) -> Instruction:
        flags = line.take_while(_FLAGS)
        operands = _operand_list(line)
        return Instruction(opcode, result(operands), operands, flags=flags)

    return read


def _operand_list(line: _Line) -> list[Operand]:
    found = [line.typed_operand()]
    while line.accept(","):
        if line.peek == "align":
            line.at -= 1
            break
        found.append(line.typed_operand())
    return found


def _alignment(line: _Line) -> int:
    while line.accept(","):
        if line.accept("align"):
            return int(line.take())
        line.take()
    return 0


def _access(opcode: str) -> Callable[[_Line], Instruction]:
    """A load or a store, which are not atomic in kernels."""

    def read(line: _Line) -> Instruction:
        flags = line.take_while(frozenset({"atomic", "volatile"}))
        if "atomic" in flags:
            line.fail(f"an atomic {opcode}")
        t = ir.VOID
        if opcode == "load":
            t = line.type()
            line.expect(",")
        operands = _operand_list(line)
        return Instruction(opcode, t, operands, flags=flags, align=_alignment(line))

    return read


def _alloca(line: _Line) -> Instruction:
    line.accept("inalloca")
    element = line.type()
    count = 1
    if line.peek == "," and line.tokens[line.at + 1] != "align":
        line.take()
        value = line.typed_operand().integer_value()
        if value is None:
            line.fail("an alloca of variable size")
        count = value
    t = element if count == 1 else ir.array(count, element)
    return Instruction("alloca", ir.pointer(), [], element=t, align=_alignment(line))


def _getelementptr(line: _Line) -> Instruction:
    flags = line.take_while(_FLAGS)
    element = line.type()
    line.expect(",")
    operands = _operand_list(line)
    return Instruction("getelementptr", operands[0].type, operands, flags=flags, element=element)


def _shufflevector(line: _Line) -> Instruction:
    left, right, mask = _operand_list(line)
    indices = tuple(
        -1 if e.is_undefined else int(e.text) for e in (mask.elements or ())
    )
    return Instruction("shufflevector", ir.vector(mask.type.count, left.type.scalar),
                       [left, right], indices=indices)


def _extractvalue(line: _Line) -> Instruction:
    operand = line.typed_operand()
    indices = _indices(line)
    t = operand.type
    for i in indices:
        t = t.fields[i] if t.kind == "struct" else t.elem or t
    return Instruction("extractvalue", t, [operand], indices=indices)


def _insertvalue(line: _Line) -> Instruction:
    operand = line.typed_operand()
    line.expect(",")
    value = line.typed_operand()
    return Instruction("insertvalue", operand.type, [operand, value], indices=_indices(line))


def _indices(line: _Line) -> tuple[int, ...]:
    found = []
    while line.accept(","):
        found.append(int(line.take()))
    return tuple(found)


def _phi(line: _Line) -> Instruction:
    line.take_while(_FLAGS)
    t = line.type()
    operands, labels = [], []
    while line.accept("["):
        operands.append(line.operand(t))
        line.expect(",")
        labels.append(line.take())
        line.expect("]")
        line.accept(",")
    return Instruction("phi", t, operands, labels=labels)


def _branch(line: _Line) -> Instruction:
    if line.accept("label"):
        return Instruction("br", ir.VOID, [], labels=[line.take()])
    condition = line.typed_operand()
    labels = []
    while line.accept(","):
        line.expect("label")
        labels.append(line.take())
    return Instruction("br", ir.VOID, [condition], labels=labels)


def _switch(line: _Line) -> Instruction:
    value = line.typed_operand()
    line.expect(",")
    line.expect("label")
    labels, operands = [line.take()], [value]
    line.expect("[")
    while not line.accept("]"):
        operands.append(line.typed_operand())
        line.expect(",")
        line.expect("label")
        labels.append(line.take())
    return Instruction("switch", ir.VOID, operands, labels=labels)


def _ret(line: _Line) -> Instruction:
    if line.accept("void"):
        return Instruction("ret", ir.VOID, [])
    return Instruction("ret", ir.VOID, [line.typed_operand()])


def _call(line: _Line) -> Instruction:
    flags = line.take_while(_FLAGS)
    line.take_while(_CONVENTIONS)
    line.attributes()
    t = line.type()
    if line.peek == "(":
        line.skip_parens()
    callee = line.take()
    if callee == ir.ASSEMBLY:
        while line.peek not in ("(", ""):
            line.take()
        callee = "@" + ir.ASSEMBLY
    if not callee.startswith("@"):
        line.fail("an indirect call")
    line.expect("(")
    operands = []
    while not line.accept(")"):
        operands.append(line.typed_operand())
        line.accept(",")
    return Instruction("call", t, operands, flags=flags, callee=callee.strip("@").strip('"'))


def _atomic(opcode: str) -> Callable[[_Line], Instruction]:
    def read(line: _Line) -> Instruction:
        flags = line.take_while(frozenset({"weak", "volatile"}))
        operation = line.take() if opcode == "atomicrmw" else ""
        operands = _operand_list(line)
        scope, orderings = _ordering(line)
        t = operands[-1].type
        return Instruction(
            opcode, t if operation else ir.struct((t, ir.I1)), operands, flags=flags,
            extra=operation, scope=scope, orderings=orderings, align=_alignment(line))

    return read


def _ordering(line: _Line) -> tuple[str, tuple[str, ...]]:
    """The scope, "" if none is stated, and the orderings."""
    scope = ""
    if line.accept("syncscope"):
        line.expect("(")
        scope = line.take().strip('"')
        line.expect(")")
    return scope, line.take_while(_ORDERINGS)


def _fence(line: _Line) -> Instruction:
    line.fail("an LLVM fence, which real devices drop; call the memory barrier builtin instead")


_READERS: dict[str, Callable[[_Line], Instruction]] = {
    "icmp": lambda line: _compare("icmp", line),
    "fcmp": lambda line: _compare("fcmp", line),
    "fneg": _listed("fneg", lambda o: o[0].type),
    "freeze": _listed("freeze", lambda o: o[0].type),
    "select": _listed("select", lambda o: o[1].type),
    "extractelement": _listed("extractelement", lambda o: o[0].type.scalar),
    "insertelement": _listed("insertelement", lambda o: o[0].type),
    "load": _access("load"),
    "store": _access("store"),
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "shufflevector": _shufflevector,
    "extractvalue": _extractvalue,
    "insertvalue": _insertvalue,
    "phi": _phi,
    "br": _branch,
    "switch": _switch,
    "ret": _ret,
    "call": _call,
    "atomicrmw": _atomic("atomicrmw"),
    "cmpxchg": _atomic("cmpxchg"),
    "fence": _fence,
    "unreachable": lambda line: Instruction("unreachable", ir.VOID, []),
}
