"""Add this compiler to the keys of torch's cached graphs.

Without CUDA, torch's keys contain neither Triton nor the device.  A graph that another version of
this package compiled, or for another device, would be found and run, kernels included.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from typing import Any

from triton_xe.runtime.torch_xpu import adjustments

CACHE = "torch._inductor.codecache"


def adjust_when_imported() -> None:
    """Adjust torch's cache keys when torch is imported; for a torch with XPU support of its own."""
    adjustments.adjust({CACHE: "graph_keys.adjust"})


def adjust(module: Any) -> None:
    """Adjust `torch._inductor.codecache`."""
    made: Callable[[], dict[str, Any]] = module.CacheBase.get_system
    if hasattr(made, "torchs_own"):
        return

    @functools.cache
    def get_system() -> dict[str, Any]:
        found = made()
        if not sys.modules["torch"].xpu.is_available():
            return found
        from triton.runtime.driver import driver

        try:
            target = driver.active.get_current_target()
        except RuntimeError:  # then nothing is compiled for xpu either
            return found
        named = f"{found['hash']}-{compiler_of(target)}"
        return {**found, "hash": hashlib.sha256(named.encode()).hexdigest()}

    get_system.torchs_own = made  # type: ignore[attr-defined]
    module.CacheBase.get_system = staticmethod(get_system)


def compiler_of(target: Any) -> str:
    """Key of everything that a kernel depends on besides its source and its options."""
    import triton
    from triton._C.libtriton import get_cache_invalidating_env_vars
    from triton.compiler.compiler import make_backend

    backend = make_backend(target)
    settings = sorted(get_cache_invalidating_env_vars().items())
    return f"{triton.__version__}-{backend.hash()}-{backend.parse_options({}).hash()}-{settings}"
