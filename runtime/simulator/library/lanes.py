"""Accesses and moves that the host's instructions do lane by lane."""

from __future__ import annotations

from triton_xe.runtime.simulator.ir import (
    I1,
    I32,
    PTR,
    VOID,
    Function,
    Operand,
    define,
    integer,
    vector,
)
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu


def gather(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """Inactive lanes keep the third argument; no host gathers elements below 32 bits."""
    word = vector(lanes, integer(bits))
    b = define(symbol("gather", bits, lanes), word, [
        ("from", vector(lanes, PTR)), ("mask", vector(lanes, I1)), ("other", word)])
    source, mask, other = b.arguments
    scratch = b.alloca(word)
    b.store(other, scratch)

    def element(k: int) -> Operand:
        active, own = b.extract(mask, k), b.gep(word.scalar, scratch, k)
        return b.load(word.scalar, b.select(active, b.extract(source, k), own), align=1)

    b.ret(b.pack(word, map(element, range(lanes))))
    return [b.function]


def scatter(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """In lane order; inactive lanes write to a scratch element."""
    word = vector(lanes, integer(bits))
    b = define(symbol("scatter", bits, lanes), VOID, [
        ("to", vector(lanes, PTR)), ("mask", vector(lanes, I1)), ("value", word)])
    target, mask, value = b.arguments
    scratch = b.alloca(word.scalar)
    for k in range(lanes):
        address = b.select(b.extract(mask, k), b.extract(target, k), scratch)
        b.store(b.extract(value, k), address, align=1)
    b.ret()
    return [b.function]


def shuffle(host: HostCpu, bits: int, lanes: int) -> list[Function]:
    """Indirect register read: the index is taken modulo the subgroup size."""
    word = vector(lanes, integer(bits))
    b = define(symbol("shuffle", bits, lanes), word, [
        ("value", word), ("lane", vector(lanes, I32))])
    value, lane = b.arguments
    memory = b.alloca(word)
    b.store(value, memory)
    lane = b.and_(lane, lanes - 1)

    def element(k: int) -> Operand:
        return b.load(word.scalar, b.gep(word.scalar, memory, b.extract(lane, k)))

    b.ret(b.pack(word, map(element, range(lanes))))
    return [b.function]
