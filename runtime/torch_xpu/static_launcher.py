"""Inductor's launcher of kernels that it caches with their graphs, on a simulated device.

A graph in torch's cache contains its kernels: their sources are neither loaded nor compiled.  They
are launched as Triton's own launcher does, so that arguments are checked and named. torch's key has
only its own version and Triton's.  Therefore kernels are compiled again if this package, the device
or their code has changed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triton_xe import knobs
from triton_xe.runtime import checked_files
from triton_xe.runtime.torch_xpu import graph_keys

_ORIGIN = "xe_origin"
"""Attribute of a kernel with the data that this package caches in addition to torch's."""


def adjust(module: Any) -> None:
    """Adjust `torch._inductor.runtime.static_triton_launcher`; xpu has one since torch 2.11."""
    kind = getattr(module, "StaticallyLaunchedXpuKernel", None)
    if kind is None:
        return
    make, load, state = kind.__init__, kind.load_kernel, kind.__getstate__

    def made(self: Any, kernel: Any) -> None:
        make(self, kernel)
        setattr(self, _ORIGIN, origin_of(kernel))

    def load_kernel(self: Any, device: int) -> None:
        origin = getattr(self, _ORIGIN, None)
        if origin is None or knobs.record():
            load(self, device)
        elif self.function is None:
            _load(self, origin, device)

    def without_functions(self: Any) -> dict[str, Any]:
        return {name: value for name, value in state(self).items() if name != "run"}

    kind.__init__, kind.load_kernel, kind.__getstate__ = made, load_kernel, without_functions


def origin_of(kernel: Any) -> dict[str, Any]:
    """Data for Triton's launcher of a compiled kernel, and for `_is_current`."""
    signature = {name: each for name, each in kernel.src.signature.items() if each != "constexpr"}
    return {
        "signature": signature,
        "metadata": kernel.metadata._asdict(),
        "digest": _digest(kernel.asm["zebin"]),
        "compiler": graph_keys.compiler_of(kernel.metadata.target),
    }


def _load(kernel: Any, origin: dict[str, Any], device: int) -> None:
    """Load a kernel, and let it be launched as Triton launches kernels."""
    from triton.runtime.driver import driver

    binary = Path(kernel.cubin_path).read_bytes()
    _, function, kernel.n_regs, kernel.n_spills, _ = driver.active.utils.load_binary(
        kernel.name, binary, kernel.shared, device)
    launch = driver.active.launcher_cls(
        SimpleNamespace(signature=origin["signature"]), SimpleNamespace(**origin["metadata"]))

    def run(x: int, y: int, z: int, stream: int, *arguments: Any) -> None:
        launch(x, y, z, stream, function, None, None, None, None, *arguments)

    kernel.run, kernel.module, kernel.function = run, None, function
    kernel.cubin_path = kernel.cubin_raw = None


def drop_outdated_kernels(module: Any) -> None:
    """Let `torch._inductor.triton_bundler` drop cached kernels that are not current."""
    bundler = module.TritonBundler
    load: Callable[[Any], list[str]] | None = getattr(bundler, "load_autotuners", None)
    if load is None:
        return

    def load_autotuners(found: Any) -> list[str]:
        kept = _current(found or ())
        if knobs.debug() and len(kept) < len(found or ()):
            print(f"triton-xe: {len(found) - len(kept)} of {len(found)} kernels of a kept graph "
                  "are compiled anew", file=sys.stderr)
        return load(kept)

    bundler.load_autotuners = staticmethod(load_autotuners)


def _current(found: Sequence[Any]) -> list[Any]:
    """Kernels that are unchanged, and that the current compiler would produce."""
    if knobs.debug() or not found:
        return []
    from triton.runtime.driver import driver

    compiler = graph_keys.compiler_of(driver.active.get_current_target())
    return [each for each in found
            if all(_is_current(result, compiler) for result in each.kernel.compile_results)]


def _is_current(result: Any, compiler: str) -> bool:
    """True if this compiler built torch's cached kernel, and its file is unchanged."""
    origin = getattr(result.kernel, _ORIGIN, None)
    if origin is None:  # torch cached it before this attribute existed
        return False
    return bool(origin["compiler"] == compiler) and _is_intact(result, origin["digest"])


def _is_intact(result: Any, digest: str) -> bool:
    """True if the file of torch's cached kernel has the digest."""
    caching = sys.modules["torch._inductor.runtime.triton_heuristics"]
    folder = caching.triton_cache_dir(result.compile_meta.get("device", 0))
    key = caching.triton_hash_to_path_key(result.kernel.hash)
    data = checked_files.read_own(Path(folder, key, f"{result.kernel.name}.zebin"))
    return data is not None and _digest(data) == digest


def _digest(binary: bytes) -> str:
    return hashlib.blake2b(binary, digest_size=16).hexdigest()
