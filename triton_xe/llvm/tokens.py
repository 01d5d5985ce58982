"""The tokens of a line of LLVM IR text, and the types and operands in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.llvm import Operand, Type

_TOKEN = re.compile(
    r'[%@]"[^"]*"|[%@][-\w$.]+|c?"[^"]*"|![\w.]*|#\d+|0x[HKMLR]?[0-9A-Fa-f]+'
    r"|[-+]?\d+\.\d+(?:e[-+]?\d+)?|-?\d+|[A-Za-z_][\w.]*|\.\.\.|[()\[\]{}<>,=*:|]"
)
_INTEGER = re.compile(r"i\d+$")
_PLAIN = re.compile(r"[-\w$.]+")
TYPES = {t.text: t for t in (
    ir.VOID, ir.LABEL, ir.TOKEN, ir.METADATA, ir.F16, ir.floating("bfloat"), ir.F32, ir.F64)}
"""Types that are words, besides integers."""
_EXPRESSIONS = frozenset("getelementptr ptrtoint inttoptr addrspacecast bitcast".split())
_STARTS_VALUE = _EXPRESSIONS | set(
    "true false null undef poison zeroinitializer splat none".split())


class Line:
    """The tokens of one line and a position in them."""

    def __init__(
        self, text: str, number: int, types: dict[str, Type],
        expression: Callable[[Line, Type, str], Operand],
    ) -> None:
        self.text = text
        self.number = number
        self.tokens = _TOKEN.findall(text)
        self.at = 0
        self.types = types
        self.expression = expression
        """Reads a constant expression after its opcode."""

    def fail(self, why: str) -> NoReturn:
        raise UnsupportedError(
            f"cannot read line {self.number} of the LLVM module ({why}): "
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
        return token in self.types or token in ("<", "[", "{", "ptr") or bool(
            _INTEGER.match(token))

    def type(self) -> Type:
        t = self._type()
        while self.peek == "*":  # llvmlite's pointers have the types of what they point to
            self.take()
            t = ir.pointer()
        return t

    def label(self) -> str:
        """A label, with quotes only if it needs them."""
        token = self.take()
        name = token[2:-1]
        return f"%{name}" if token[1] == '"' and _PLAIN.fullmatch(name) else token

    def alignment(self) -> int:
        """The alignment after a comma, 0 if there is none."""
        while self.accept(","):
            if self.accept("align"):
                return int(self.take())
            self.take()
        return 0

    def _type(self) -> Type:
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
            return ir.pointer(self.address_space())
        if _INTEGER.match(token):
            return ir.integer(int(token[1:]))
        if token in self.types:
            return self.types[token]
        self.fail(f"unknown type {token!r}")

    def address_space(self) -> int:
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
            if token[0] in "%@-\"0123456789(),!" or token in _STARTS_VALUE:
                return
            self.take()
            if self.peek == "(":
                self.skip_parens()
            elif token == "align" and self.peek.isdigit():
                self.take()

    def operands(self) -> list[Operand]:
        """Typed operands, up to what else may follow a comma: an alignment, numbers of fields."""
        found = [self.typed_operand()]
        while self.peek == "," and self.tokens[self.at + 1][0] not in "a0123456789":
            self.take()
            found.append(self.typed_operand())
        return found

    def typed_operand(self) -> Operand:
        t = self.type()
        self.attributes()
        return self.operand(t)

    def operand(self, t: Type) -> Operand:
        token = self.take()
        if token[0] == "%":
            return Operand(t, token)
        if token[0] == "@":
            return Operand(t, token.replace('"', ""))
        if token == "splat":
            self.expect("(")
            element = self.typed_operand()
            self.expect(")")
            return ir.splat(element, t.count)
        if token in ("<", "{", "["):
            return self._aggregate(t, {"<": ">", "{": "}", "[": "]"}[token], token)
        if token in _EXPRESSIONS:
            return self.expression(self, t, token)
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


def _default(t: Type, token: str) -> Operand:
    if token != "zeroinitializer" or t.kind in ("vec", "struct", "array"):
        return Operand(t, token)
    zero = {"int": "0", "float": "0.0", "ptr": "null"}[t.kind]
    return Operand(t, "false" if t == ir.I1 else zero)
