"""Delay torch's compile workers until something has to be compiled, and import the compiler first.

torch starts the workers with the first graph that it compiles.  Each imports torch and Triton anew,
three seconds of a processor, even if all kernels of the program are in the caches.  If the cache
has graphs of earlier runs, the workers start only when a graph is not in it.  That is early enough:
the graph is then differentiated and optimised, which takes as long as their start.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_put_off: list[Callable[[], None]] = []
"""Functions that start workers whose start is delayed."""


def adjust(module: Any) -> None:
    """Adjust `torch._inductor.async_compile`."""
    put_off(module)
    import_before_fork(module)


def put_off(module: Any) -> None:
    """Delay the workers of `torch._inductor.async_compile` past the beginning of a compilation."""
    if not hasattr(module, "maybe_warm_pool"):
        return
    compiler = module.AsyncCompile
    warm, wake = module.maybe_warm_pool, compiler.wakeup
    use, wait = compiler.use_process_pool, compiler.wait_pool_ready

    def late(begin: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(begin)
        def begin_late() -> None:
            if not _put_off and not module._pool_set and _has_graphs():
                _put_off.append(warm)
            if not _put_off:
                begin()

        return begin_late

    def use_process_pool() -> bool:
        return not _put_off and bool(use())

    def wait_pool_ready(*arguments: Any, **named: Any) -> None:
        start()
        wait(*arguments, **named)

    module.maybe_warm_pool = late(warm)
    compiler.wakeup = staticmethod(late(wake))
    compiler.use_process_pool = staticmethod(use_process_pool)
    compiler.wait_pool_ready = staticmethod(wait_pool_ready)


def import_before_fork(module: Any) -> None:
    """Import the compiler before `torch._inductor.async_compile` forks its workers."""
    set_up = module.pre_fork_setup

    @functools.wraps(set_up)
    def pre_fork_setup() -> None:
        set_up()
        importlib.import_module("triton_xe.lowering.pipeline")

    module.pre_fork_setup = pre_fork_setup


def start_for_new_graphs(module: Any) -> None:
    """Start workers if a graph is not in `torch._functorch._aot_autograd.autograd_cache`."""
    load = module.AOTAutogradCache.try_load

    @functools.wraps(load)
    def try_load(*arguments: Any, **named: Any) -> Any:
        found = load(*arguments, **named)
        if (found[0] if isinstance(found, tuple) else found) is None:
            start()
        return found

    module.AOTAutogradCache.try_load = staticmethod(try_load)


def start_for_code(module: Any) -> None:
    """Start workers when `torch._inductor.compile_fx` generates code for any graph."""
    write = module.fx_codegen_and_compile

    @functools.wraps(write)
    def fx_codegen_and_compile(*arguments: Any, **named: Any) -> Any:
        start()
        return write(*arguments, **named)

    module.fx_codegen_and_compile = fx_codegen_and_compile


def start() -> None:
    """Start the workers whose start was delayed, if any."""
    if _put_off:
        _put_off.pop()()


def _has_graphs() -> bool:
    """True if torch's cache has graphs of this user from earlier runs."""
    folder = Path(sys.modules["torch._inductor.runtime.cache_dir_utils"].cache_dir())
    return any((folder / name).is_dir() for name in ("aotautograd", "fxgraph"))
