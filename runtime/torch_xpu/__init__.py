"""`device="xpu"` on torch's CPU build: real XPU tensors over host memory, for the simulator.

torch runs `autoload` at the end of `import torch` (entry-point group `torch.backends`).  It depends
on `triton_xe.runtime.selection`, and on whether the small C++ library that registers the device
with torch has been built (once per torch version, into the cache folder):

- no simulator on this machine: nothing is done.
- torch has XPU support of its own: cached graphs are keyed by this compiler too (`graph_keys`).
- library built: it is loaded, and `torch.xpu` works at once.
- not built, and `TRITON_XE_DEVICE=sim...` asks for the simulator: it is built at once, with a line
  on stderr.
- not built, and the simulator is only the default: the first use of `device="xpu"` builds and loads
  the library.  Until then `import torch` stays fast, and only one function of torch is replaced.

`python -m triton_xe.runtime.torch_xpu` builds ahead of time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.collector import paused_collector
from triton_xe.runtime.observers import Observer

if TYPE_CHECKING:
    from triton_xe.runtime.torch_xpu.library import Allocation, Library, Unwritten


def autoload() -> None:
    """Give torch the simulated device, if it is wanted.  Never raises: warns once instead."""
    torch = sys.modules["torch"]
    knobs.record_torch_too()
    if torch._C._has_xpu:
        from triton_xe.runtime.torch_xpu import graph_keys

        graph_keys.adjust_when_imported()
        return
    try:
        with paused_collector():
            _start_what_is_chosen(torch)
    except Exception as error:
        import warnings

        text = " ".join(str(error).split()) or type(error).__name__
        _refuse_use(torch, f"no simulated xpu device: {text}")
        warnings.warn(f"triton-xe: no simulated xpu device: {text}", RuntimeWarning, stacklevel=2)


def _start_what_is_chosen(torch: Any) -> None:
    from triton_xe.runtime import selection

    chosen = selection.select()
    if chosen.kind == "gpu":
        _refuse_use(torch, _NOT_FOR_GPU.format(reason=chosen.reason, torch=torch.__version__))
    if chosen.kind == "sim":
        from triton_xe.runtime.torch_xpu import activation

        activation.start(chosen)


_NOT_FOR_GPU = (
    "{reason}, but this torch ({torch}) cannot use Intel GPUs: install torch's XPU build and run "
    "`triton-xe setup`, or simulate one with TRITON_XE_DEVICE=sim")


def _refuse_use(torch: Any, why: str) -> None:
    """Raise the true reason at the first use of "xpu", instead of torch's own."""
    from triton_xe.errors import DeviceError

    def refuse() -> None:
        raise DeviceError(why)

    torch.xpu._lazy_init = refuse


def is_loaded() -> bool:
    """True if this process has the simulated device."""
    activation = sys.modules.get("triton_xe.runtime.torch_xpu.activation")
    return activation is not None and bool(activation.is_loaded())


def build() -> Path:
    """Build the library if needed, and return its path.  `DeviceError` without a C++ compiler."""
    from triton_xe.runtime.torch_xpu import compilation

    return compilation.build()


def allocation_of(pointer: int, *, freed: bool = False) -> Allocation | None:
    """The live block of simulated device memory that contains `pointer`: (base, size, device).

    With `freed`, the freed block whose memory has not been reused yet.
    """
    library = loaded()
    return library.allocation_of(pointer, freed=freed) if library else None


def unwritten_of(pointer: int) -> Unwritten | None:
    """The map of unwritten bytes of the block that contains `pointer`, until all are written."""
    library = loaded()
    return library.unwritten_of(pointer) if library else None


unwritten_maps = Observer()
"""Active once a launch has requested to track unwritten memory."""


def has_maps() -> bool:
    """True if some block has unwritten bytes."""
    library = loaded()
    if library is None or not library.functions.xe_maps():
        return False
    if not unwritten_maps.is_active:
        track_writes()
    return True


def mark_block(pointer: int) -> None:
    """Mark all of the block that contains `pointer` as written."""
    library = loaded()
    if library is not None:
        library.functions.xe_mark_block(pointer)


def track_writes() -> None:
    """Track which bytes are unwritten, for blocks that are allocated from here on."""
    library = loaded()
    if library is not None:
        unwritten_maps.is_active = True
        library.functions.xe_track_writes()


def loaded() -> Library | None:
    """The library of this process's simulated device; None without one."""
    activation: Any = sys.modules.get("triton_xe.runtime.torch_xpu.activation")
    found: Library | None = None if activation is None else activation.library()
    return found
