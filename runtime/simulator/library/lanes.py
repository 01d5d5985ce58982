"""Accesses and moves that the host executes lane by lane."""

from __future__ import annotations

from functools import cache

from triton_xe.llvm import I1, I32, I64, PTR, VOID, Function, Type, constant, integer, vector
from triton_xe.llvm.builder import Parameter, Routine
from triton_xe.llvm.records import ASSEMBLY
from triton_xe.llvm.values import Memory, Value, Writer
from triton_xe.runtime.simulator.library import names
from triton_xe.runtime.simulator.library.parts import joined
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
_HIDDEN = f'{ASSEMBLY} "", "=r,0"'
"""Returns its operand, which LLVM does not know then."""


@cache
def load_parts(scalar: Type, width: int, count: int, *, spaced: bool = False) -> Function:
    """A function, to be inlined, that loads `width` elements at each of `count` addresses.

    `count` is a power of two.  `spaced` addresses have equal distances.
    """
    part, whole = vector(width, scalar), vector(width * count, scalar)
    w, addresses = _at_addresses("load_parts", whole, scalar, width, count, spaced=spaced)
    if width == 1:
        elements = [w.load(scalar, at, align=scalar.size) for at in addresses]
        return w.finish(w.pack(whole, elements))[0]
    return w.finish(joined([w.load(part, at, align=scalar.size) for at in addresses]))[0]


def _at_addresses(
    family: str, result: Type, scalar: Type, width: int, count: int, *parameters: Parameter,
    spaced: bool,
) -> tuple[Writer, list[Value]]:
    """The writer of a function that accesses `count` addresses, and these."""
    at = (("first", PTR), ("step", I64)) if spaced else (("at", vector(count, PTR)),)
    name = symbol(family, scalar.mangled, width, count, *["spaced"] * spaced)
    w = Writer(Routine(name, result, (*at, *parameters)), _INLINED, internal=True)
    return w, [w["first"] + w["step"] * k if spaced else w["at"][k] for k in range(count)]


@cache
def store_parts(scalar: Type, width: int, count: int, *, spaced: bool = False) -> Function:
    """A function, to be inlined, that stores `width` elements at each of `count` addresses."""
    whole = "value", vector(width * count, scalar)
    w, addresses = _at_addresses("store_parts", VOID, scalar, width, count, whole, spaced=spaced)
    value = w["value"]
    for k, at in enumerate(addresses):
        part = value[k] if width == 1 else value.shuffled(None, range(k * width, (k + 1) * width))
        w.store(part, at, align=scalar.size)
    return w.finish()[0]


@cache
def masked_access(flat: Type, lanes: int, *, is_load: bool) -> Function:
    """A function, to be inlined, that loads or stores a vector of so many lanes, each with a mask.

    It tests if all lanes are active, because hosts without mask registers expand masks to bytes or
    words, which takes longer than the access.  A load has the given value where masked off.
    """
    result, family = (flat, "load_masked") if is_load else (VOID, "store_masked")
    w = Writer(Routine(symbol(family, flat.mangled, lanes), result, (
        ("at", PTR), ("mask", vector(lanes, I1)), ("value", flat))), _INLINED, internal=True)
    at, mask, value = w.arguments.values()
    align, each = flat.scalar.size, flat.count // lanes
    with w.when(mask.every()):
        if is_load:
            w.ret(w.load(flat, at, align=align))
        else:
            w.store(value, at, align=align)
            w.ret()
    if each > 1:
        mask = mask.shuffled(None, [k // each for k in range(flat.count)])
    if is_load:
        return w.finish(w.wrap(w.b.call(
            f"llvm.masked.load.{flat.mangled}.p0", flat,
            [at.operand, mask.operand, value.operand], aligns=(align, 0, 0))))[0]
    w.b.call(f"llvm.masked.store.{flat.mangled}.p0", VOID,
             [value.operand, at.operand, mask.operand], aligns=(0, align, 0))
    return w.finish()[0]


@cache
def store_where(flat: Type) -> Function:
    """A function, to be inlined, that stores the elements of a vector whose mask is true.

    LLVM does not know its mask.  If a known mask has one element, LLVM 22.1 stores all bytes of the
    integer from which the element is truncated.  Only hosts with AVX-512 truncate in stores.
    """
    w = Writer(Routine(symbol("store_where", flat.mangled), VOID, (
        ("at", PTR), ("mask", vector(flat.count, I1)), ("value", flat))), _INLINED, internal=True)
    true = w.wrap(w.b.call(_HIDDEN, I32, [constant(I32, 1)])).to(I1)
    mask = w["mask"] & w.spread(true, flat.count)
    w.b.call(f"llvm.masked.store.{flat.mangled}.p0", VOID,
             [w["value"].operand, w["at"].operand, mask.operand], aligns=(0, flat.scalar.size, 0))
    return w.finish()[0]
