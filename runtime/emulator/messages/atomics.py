"""Atomic messages: channels act one after another, in order of threads and channels.

Operations: IGC, documentation/visa/instructions/LSC_UNTYPED.md, "atomic".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from triton_xe.intrinsics.definitions.conversions import bf16_to_float, float_to_bf16
from triton_xe.runtime.emulator.channels import Running, execution_mask
from triton_xe.runtime.emulator.memory import Memories, Place, fault
from triton_xe.runtime.emulator.messages.lsc import (
    Lsc,
    addresses_of,
    check_lengths,
    chosen_channels,
    register_part,
    target_of,
)
from triton_xe.runtime.emulator.registers import UNSIGNED, Array, Threads

Step = Callable[[Threads, Running], Any]
Action = Callable[[Array, Array, Array, Array], Array]
"""Changes values by accesses; `which` says to which value each goes.  Returns their old values."""
_SIGNED: Mapping[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}
_FLOAT: Mapping[int, Any] = {2: np.float16, 4: np.float32, 8: np.float64}
_UPDATES: Mapping[str, Callable[[Array, Array, Array], Array]] = {
    "iinc": lambda old, x, y: old + 1, "idec": lambda old, x, y: old - 1,
    "load": lambda old, x, y: old, "store": lambda old, x, y: x,
    "iadd": lambda old, x, y: old + x, "isub": lambda old, x, y: old - x,
    "smin": lambda old, x, y: np.minimum(old, x), "smax": lambda old, x, y: np.maximum(old, x),
    "umin": lambda old, x, y: np.minimum(old, x), "umax": lambda old, x, y: np.maximum(old, x),
    "fadd": lambda old, x, y: old + x, "fsub": lambda old, x, y: old - x,
    "fmin": lambda old, x, y: np.fmin(old, x), "fmax": lambda old, x, y: np.fmax(old, x),
    "and": lambda old, x, y: old & x, "or": lambda old, x, y: old | x,
    "xor": lambda old, x, y: old ^ x,
}  # fmt: skip
"""Operation -> new value from the old one and the operands."""
_OPERANDS: Mapping[str, int] = {"iinc": 0, "idec": 0, "load": 0, "icas": 2, "fcas": 2, "bfcas": 2}
"""Operands of a channel, if they are not one."""


def atomic(message: Lsc) -> Step:
    """The function that executes an atomic message; the old values go to the destination."""
    name = message.operation.removeprefix("atomic_")
    check_lengths(message, _OPERANDS.get(name, 1))
    if name.endswith("cas"):
        act: Action = partial(_exchange, bf16_to_float if name == "bfcas" else np.asarray)
    else:
        act = partial(_update, _on_bf16(_UPDATES[name[1:]]) if name.startswith("bf") else (
            _UPDATES[name]))
    width, size = message.instruction.width, message.memory_bytes
    dtype = (_FLOAT if name[0] == "f" else _SIGNED if name in ("smin", "smax") else UNSIGNED)[size]
    mask, addresses = execution_mask(message.instruction), addresses_of(message, width)
    target, operands = target_of(message), _operands(message, size, dtype)
    result = None if message.result_at is None else register_part(
        message.result_at, message.register_bytes, width)
    register = UNSIGNED[message.register_bytes]

    def run(threads: Threads, running: Running) -> None:
        where = target(threads, running)
        at = where.addresses(addresses(threads))
        chosen = chosen_channels(mask, threads, running, at.shape)
        kept = np.ones(at.shape, bool) if chosen is None else chosen
        x, y = (each(threads)[kept] for each in operands)
        owners = where.place.owners(at)
        place = where.place if owners is None else Place(where.place.bank, owners[kept])
        old = _in_order(threads.memories, place, at[kept], x, y, act)
        if result is not None:
            bits = old.view(UNSIGNED[size])
            threads.views[register][:, result][kept] = bits
            threads.note_polls(threads.memories.pc, np.nonzero(kept)[0], bits)

    return run


def _on_bf16(update: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    """An update of the bits of bf16 numbers, rounded to nearest even."""
    return lambda *bits: float_to_bf16(update(*map(bf16_to_float, bits)))


def _operands(message: Lsc, size: int, dtype: Any) -> tuple[Callable[[Threads], Array], ...]:
    """The two operands, (threads, channels); zeros where the message has fewer."""
    width, register = message.instruction.width, UNSIGNED[message.register_bytes]
    present = message.instruction.sources[1].registers * message.grf_bytes

    def operand(first: int) -> Callable[[Threads], Array]:
        if message.data_at is None or first >= present:
            return lambda threads: np.zeros((threads.count, width), dtype)
        part = register_part(message.data_at + first, message.register_bytes, width)
        return lambda threads: np.ascontiguousarray(
            threads.views[register][:, part].astype(UNSIGNED[size])).view(dtype)

    return operand(0), operand(message.component_stride)


def _in_order(
    memories: Memories, place: Place, addresses: Array, x: Array, y: Array, act: Action
) -> Array:
    """Change memory; accesses of one address act in their order.  Returns the old values."""
    if (misaligned := addresses[addresses % x.itemsize != 0]).size:
        raise fault("misaligned", f"an atomic message accesses {x.itemsize} bytes at "
                                  f"{int(misaligned[0]):#x}, which is not aligned to its size")
    keys = addresses if place.owner is None else addresses | place.owner << 32
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    here = place if place.owner is None else Place(place.bank, place.owner[first])
    values = memories.read(here, addresses[first], None, x.dtype)
    old = act(values, which, x, y)
    memories.write(here, addresses[first], None, values)
    memories.bytes_moved[memories.pc] += 2 * x.itemsize * (len(addresses) - len(first))
    return old


def _update(
    update: Callable[[Array, Array, Array], Array], values: Array, which: Array, x: Array, y: Array
) -> Array:
    """Update values in turns, each by one access."""
    old = np.zeros(len(which), x.dtype)
    for turn in _turns(which):
        chosen = which[turn]
        old[turn] = values[chosen]
        values[chosen] = update(old[turn], x[turn], y[turn])
    return old


def _exchange(
    number: Callable[[Array], Array], values: Array, which: Array, x: Array, y: Array
) -> Array:
    """Exchange values whose numbers equal those of `x`.

    A round ends for each value with the first access that changes it.
    """
    order, old = np.arange(len(which)), np.zeros(len(which), x.dtype)
    left = np.ones(len(which), bool)
    while left.any():
        equal = np.flatnonzero(left & (number(values)[which] == number(x)))
        changed, first = np.unique(which[equal], return_index=True)
        last = np.full(len(values), len(which))
        last[changed] = equal[first]
        acting = left & (order <= last[which])
        old[acting] = values[which[acting]]
        values[changed] = y[equal[first]]
        left &= ~acting
    return old


def _turns(which: Array) -> Iterator[Array]:
    """Positions in rounds: the n-th round has the n-th access of each address."""
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which)
    starts = np.cumsum(counts) - counts
    for turn in range(int(counts.max(initial=0))):
        yield order[starts[counts > turn] + turn]
