"""The support library: one small LLVM module per function, generated when first called.

A function's symbol contains all parameters that its code depends on (`names`), so that each is
compiled once per host and cached (`run.jit`).  `source(symbol, host)` gives the module's text and
the functions it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.errors import UnsupportedError
from triton_xe.llvm import Function, Global, undefined_calls
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.library import (
    blocks,
    dpas,
    half,
    lanes,
    launches,
    maths,
    together,
)
from triton_xe.runtime.simulator.library.late_calls import bind_late
from triton_xe.runtime.simulator.library.symbols import is_symbol, parts
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pieces.once_per_shape import is_large, once_per_shape
from triton_xe.runtime.simulator.rewrites.flags_in_memory import flags_in_memory
from triton_xe.runtime.simulator.rewrites.hidden_addresses import hidden_addresses
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer import functions as sanitizer
from triton_xe.runtime.simulator.trace import library as trace


@dataclass(frozen=True)
class Source:
    """LLVM text of a library function and the library functions it calls."""

    text: str
    helpers: tuple[str, ...] = ()


_FAMILIES: dict[str, Callable[..., list[Function]]] = {
    "gather": lanes.gather,
    "scatter": lanes.scatter,
    "shuffle": lanes.shuffle,
    "trap": launches.trap,
    "stopped": launches.stopped,
    "cold": launches.cold,
    "frame": launches.frame,
    "run": launches.run,
    "together": together.together,
    "block_read": blocks.block_read,
    "block_write": blocks.block_write,
    "prepare_a": dpas.prepare_a,
    "prepare_b": dpas.prepare_b,
    "dpas": dpas.dpas,
    "scaled_dpas": dpas.scaled_dpas,
    "math": maths.function,
    "san": sanitizer.function,
    "trace": trace.function,
}


def source(name: str, host: HostCpu) -> Source:
    """The module that defines `name`."""
    if name in half.NAMED_BY_LLVM:
        return _printed(half.NAMED_BY_LLVM[name](host), host)
    family, parameters = parts(name)
    if not is_symbol(name) or family not in _FAMILIES:
        raise UnsupportedError(f"the simulator has no library function {name}")
    return _printed(_FAMILIES[family](host, *parameters), host, late=family == "san")


def _printed(written: list[Function], host: HostCpu, *, late: bool = False) -> Source:
    """The module of these functions; `late`: what they call is compiled when first called."""
    costs = HostCosts.for_host(host, [])
    functions, constants = list[Function](), list[Global]()
    for function in written:
        apart = ([function], []) if not is_large(function, costs) else (
            once_per_shape(function, costs))
        functions += [hidden_addresses(flags_in_memory(f), host) for f in apart[0]]
        constants += apart[1]
    called = undefined_calls(functions)
    helpers = tuple(name for name in sorted(called) if is_symbol(name))
    if late:
        constants += bind_late(functions)
    return Source(print_module(functions, constants), helpers)
