"""Torch's processes that compile: when they start, what they import first, and what they get.

torch starts them with the first graph that it compiles.  Each imports torch and Triton anew, three
seconds of a processor, beside a program that may find all of its kernels in the caches.  So where
there are compiled graphs from before, they start when the first graph is not among them; that is
before the graph is differentiated and optimised, which takes as long as they do to start.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_put_off: list[Callable[[], None]] = []
"""What starts workers, while they are put off."""


def adjust(module: Any) -> None:
    """`torch._inductor.async_compile`."""
    put_off(module)
    import_before_fork(module)


def put_off(module: Any) -> None:
    """Of `torch._inductor.async_compile`: not at the beginning of a compilation."""
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
    """Of `torch._inductor.async_compile`: workers are forks, and need the compiler at once."""
    set_up = module.pre_fork_setup

    @functools.wraps(set_up)
    def pre_fork_setup() -> None:
        set_up()
        importlib.import_module("triton_xe.lowering.pipeline")

    module.pre_fork_setup = pre_fork_setup


def start_for_new_graphs(module: Any) -> None:
    """Of `torch._functorch._aot_autograd.autograd_cache`: a graph that is not in the cache."""
    load = module.AOTAutogradCache.try_load

    @functools.wraps(load)
    def try_load(*arguments: Any, **named: Any) -> Any:
        found = load(*arguments, **named)
        if (found[0] if isinstance(found, tuple) else found) is None:
            start()
        return found

    module.AOTAutogradCache.try_load = staticmethod(try_load)


def start_for_code(module: Any) -> None:
    """Of `torch._inductor.compile_fx`: code is written for a graph, wherever it comes from."""
    write = module.fx_codegen_and_compile

    @functools.wraps(write)
    def fx_codegen_and_compile(*arguments: Any, **named: Any) -> Any:
        start()
        return write(*arguments, **named)

    module.fx_codegen_and_compile = fx_codegen_and_compile


def start() -> None:
    """Start the workers that were put off, if any were."""
    if _put_off:
        _put_off.pop()()


def _has_graphs() -> bool:
    """True if this user has compiled graphs before, by what torch keeps of them."""
    folder = Path(sys.modules["torch._inductor.runtime.cache_dir_utils"].cache_dir())
    return any((folder / name).is_dir() for name in ("aotautograd", "fxgraph"))
