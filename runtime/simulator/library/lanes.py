"""Accesses and moves that the host executes lane by lane."""

from __future__ import annotations

from triton_xe.runtime.simulator.ir import I32, Function, integer, vector
from triton_xe.runtime.simulator.ir.builder import Routine
from triton_xe.runtime.simulator.ir.values import Memory, Writer
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
