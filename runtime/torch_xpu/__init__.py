"""`device="xpu"` on torch's CPU build: real XPU tensors over host memory, for the simulator.

torch runs `autoload` at the end of `import torch` (entry-point group `torch.backends`).  What it
does follows from `triton_xe.runtime.selection`, and from whether the small C++ library that
registers the device with torch has been built (once per torch version, into the cache folder):

- no simulator on this machine: nothing at all;
- a torch with XPU support of its own: its graphs are kept by what compiles here (`graph_keys`);
- library built: it is loaded and `torch.xpu` works from the first line on;
- not built, and `TRITON_XE_DEVICE=sim...` asks for the simulator: it is built there and then,
  with a line on stderr, since the user said that this program is about simulated devices;
- not built, and the simulator is only the default: `import torch` stays fast and torch stays as it
  is, save for one function: the first use of `device="xpu"` builds and loads the library.  A
  program that never says "xpu" never pays, and one that does needs no setup step.

`python -m triton_xe.runtime.torch_xpu` builds ahead of time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.collector import paused_collector

if TYPE_CHECKING:
    from triton_xe.runtime.torch_xpu.library import Allocation, Library, Unwritten


def autoload() -> None:
    """Give torch the simulated device, where it is wanted.  Never raises: warns once instead."""
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
    """Say at the first use of "xpu" why there is none, not that torch was built without it."""
    from triton_xe.errors import DeviceError

    def refuse() -> None:
        raise DeviceError(why)

    torch.xpu._lazy_init = refuse


def is_loaded() -> bool:
    """True if this process has the simulated device."""
    activation = sys.modules.get("triton_xe.runtime.torch_xpu.activation")
    return activation is not None and bool(activation.is_loaded())


def build() -> Path:
    """Build the library if need be; returns its path.  `DeviceError` without a C++ compiler."""
    from triton_xe.runtime.torch_xpu import compilation

    return compilation.build()


def allocation_of(pointer: int, *, freed: bool = False) -> Allocation | None:
    """The live block of simulated device memory that holds `pointer`: (base, size, device).

    With `freed`, the freed block whose memory is still held back, so that nothing else has it.
    """
    library = loaded()
    return library.allocation_of(pointer, freed=freed) if library else None


def unwritten_of(pointer: int) -> Unwritten | None:
    """The map of the block that holds `pointer`, while nothing has written some of it."""
    library = loaded()
    return library.unwritten_of(pointer) if library else None


_tracks = False
"""True if any launch has asked to follow what is written."""


def has_maps() -> bool:
    """True if there are blocks of which something is unwritten."""
    library = loaded()
    if library is None or not library.functions.xe_maps():
        return False
    if not _tracks:
        track_writes()
    return True


def mark_block(pointer: int) -> None:
    """Take all of the block that holds `pointer` as written."""
    library = loaded()
    if library is not None:
        library.functions.xe_mark_block(pointer)


def track_writes() -> None:
    """Let blocks that are allocated from now on tell what of them is unwritten."""
    global _tracks
    library = loaded()
    if library is not None:
        _tracks = True
        from triton_xe.runtime.surroundings import REASONS, Reason

        REASONS[Reason.MAPPED] = 1
        library.functions.xe_track_writes()


def loaded() -> Library | None:
    """What runs the simulated device of this process, if it has one."""
    activation: Any = sys.modules.get("triton_xe.runtime.torch_xpu.activation")
    found: Library | None = None if activation is None else activation.library()
    return found
