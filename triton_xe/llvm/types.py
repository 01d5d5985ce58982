"""LLVM types: one object per type, compared by identity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics.mangling import suffix

_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


@dataclass(frozen=True, eq=False)
class Type:
    """An LLVM type; create one with `integer`, `floating`, `pointer`, `vector`, `array`, `struct`.

    `kind` is one of int, float, ptr, vec, array, struct, void, label, token, metadata. `bits` is
    the width of an int, float or pointer.  `space` is the address space of a pointer, and `count`
    the length of a vector or array.
    """

    kind: str
    bits: int = 0
    name: str = ""
    count: int = 0
    elem: Type | None = None
    fields: tuple[Type, ...] = ()
    space: int = 0

    @cached_property
    def scalar(self) -> Type:
        """The element type of a vector, else the type itself."""
        return self.elem if self.kind == "vec" and self.elem is not None else self

    @cached_property
    def lanes(self) -> int:
        """Elements per work-item: the count of a vector, else 1."""
        return self.count if self.kind == "vec" else 1

    @cached_property
    def size(self) -> int:
        """Bytes in memory, without padding of vectors to powers of two."""
        if self.kind in ("int", "float", "ptr"):
            return max(1, (self.bits + 7) // 8)
        if self.kind in ("vec", "array") and self.elem is not None:
            return self.count * self.elem.size
        if self.kind == "struct":
            return struct_offsets(self)[-1]
        raise UnsupportedError(f"the simulator cannot take the size of type {self.kind}")

    @cached_property
    def text(self) -> str:
        """The host spelling: every pointer is a plain `ptr`."""
        if self.kind in ("int", "float"):
            return self.name
        if self.elem is not None and self.kind in ("vec", "array"):
            mark = "<>" if self.kind == "vec" else "[]"
            return f"{mark[0]}{self.count} x {self.elem.text}{mark[1]}"
        if self.kind == "struct":
            return "{ " + ", ".join(f.text for f in self.fields) + " }"
        return self.kind

    @cached_property
    def mangled(self) -> str:
        """The suffix that LLVM gives overloaded intrinsics: `v16f32`, `p0`, `i64`."""
        return suffix(self.text)

    @cached_property
    def spelled(self) -> str:
        """LLVM's own spelling, in which pointers have address spaces."""
        if self.kind == "ptr" and self.space:
            return f"ptr addrspace({self.space})"
        if self.elem is not None and self.kind in ("vec", "array"):
            mark = "<>" if self.kind == "vec" else "[]"
            return f"{mark[0]}{self.count} x {self.elem.spelled}{mark[1]}"
        if self.kind == "struct":
            return "{ " + ", ".join(f.spelled for f in self.fields) + " }"
        return self.text

    def __str__(self) -> str:
        return self.spelled


@cache
def integer(bits: int) -> Type:
    return Type("int", bits, f"i{bits}")


@cache
def floating(name: str) -> Type:
    return Type("float", _FLOAT_BITS[name], name)


@cache
def pointer(space: int = 0) -> Type:
    return Type("ptr", 64, space=space)


@cache
def vector(count: int, elem: Type) -> Type:
    return Type("vec", count=count, elem=elem)


@cache
def array(count: int, elem: Type) -> Type:
    return Type("array", count=count, elem=elem)


@cache
def struct(fields: tuple[Type, ...]) -> Type:
    return Type("struct", fields=fields)


def vector_or_scalar(count: int, t: Type) -> Type:
    """`count` elements of the scalar type `t`: a vector, or `t` itself for 1."""
    return vector(count, t) if count > 1 else t


def with_elements(t: Type, scalar: Type) -> Type:
    """`t` with another scalar type: a vector of as many elements, or the scalar itself."""
    return vector(t.count, scalar) if t.kind == "vec" else scalar


VOID, LABEL, TOKEN, METADATA = (Type(kind) for kind in ("void", "label", "token", "metadata"))
I1, I8, I16, I32, I64 = (integer(b) for b in (1, 8, 16, 32, 64))
F16, F32, F64 = (floating(n) for n in ("half", "float", "double"))
PTR = pointer()


def struct_offsets(t: Type) -> tuple[int, ...]:
    """Byte offset of each field, then the padded size; natural alignment."""
    offset, widest, offsets = 0, 1, []
    for f in t.fields:
        align = max(1, f.scalar.size if f.kind == "vec" else _align(f))
        offset = -(-offset // align) * align
        offsets.append(offset)
        offset += f.size
        widest = max(widest, align)
    return (*offsets, -(-offset // widest) * widest)


def _align(t: Type) -> int:
    if t.kind == "array" and t.elem is not None:
        return _align(t.elem)
    if t.kind == "struct":
        return max((_align(f) for f in t.fields), default=1)
    return t.size
