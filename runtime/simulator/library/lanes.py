"""Accesses and moves that the host executes lane by lane."""

from __future__ import annotations

from triton_xe.llvm import I32, PTR, VOID, Function, Type, integer, vector
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Value, Writer
from triton_xe.runtime.simulator.library import names
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu


def gather(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """Gather; inactive lanes keep the third argument.  No host gathers elements below 32 bits."""
    w = Writer(names.gather(bits, lanes))
    word = w["other"].type
    scratch = Memory(w, w.space(word), word.scalar)
    w.store(w["other"], scratch.base)
    return w.finish(w.pack(word, (
        w.load(word.scalar, w.select(w["mask"][k], w["from"][k], scratch.address(k)), align=1)
        for k in range(lanes))))


def scatter(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """Store in lane order; inactive lanes write to a scratch element."""
    w = Writer(names.scatter(bits, lanes))
    scratch = w.space(integer(bits))
    for k in range(lanes):
        w.store(w["value"][k], w.select(w["mask"][k], w["to"][k], scratch), align=1)
    return w.finish()


def shuffle(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """Indirect register read: the index is taken modulo the subgroup size."""
    word = vector(lanes, integer(bits))
    w = Writer(Routine(symbol("shuffle", bits, lanes), word, (
        ("value", word), ("lane", vector(lanes, I32)))))
    memory = Memory(w, w.space(word), word.scalar)
    w.store(w["value"], memory.base)
    lane = w["lane"] & lanes - 1
    return w.finish(w.pack(word, (memory[lane[k]] for k in range(lanes))))


_INLINED = "nounwind alwaysinline"


def load_parts(scalar: Type, width: int, count: int) -> Function:
    """A function, to be inlined, that loads `width` elements at each of `count` addresses.

    `count` is a power of two.
    """
    part, whole = vector(width, scalar), vector(width * count, scalar)
    name = symbol("load_parts", scalar.mangled, width, count)
    w = Writer(Routine(name, whole, (("from", vector(count, PTR)),)), _INLINED, internal=True)
    addresses = [w["from"][k] for k in range(count)]
    if width == 1:
        elements = [w.load(scalar, at, align=scalar.size) for at in addresses]
        return w.finish(w.pack(whole, elements))[0]
    parts = [w.load(part, at, align=scalar.size) for at in addresses]
    while len(parts) > 1:
        parts = [_joined(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return w.finish(parts[0])[0]


def _joined(x: Value, y: Value) -> Value:
    return x.shuffled(y, range(2 * x.type.count))


def store_parts(scalar: Type, width: int, count: int) -> Function:
    """A function, to be inlined, that stores `width` elements at each of `count` addresses."""
    whole = vector(width * count, scalar)
    name = symbol("store_parts", scalar.mangled, width, count)
    parameters = ("to", vector(count, PTR)), ("value", whole)
    w = Writer(Routine(name, VOID, parameters), _INLINED, internal=True)
    value = w["value"]
    for k in range(count):
        part = value[k] if width == 1 else value.shuffled(None, range(k * width, (k + 1) * width))
        w.store(part, w["to"][k], align=scalar.size)
    return w.finish()[0]
