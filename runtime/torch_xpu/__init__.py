"""`device="xpu"` on torch's CPU build: real XPU tensors over host memory, for the simulator.

torch runs `autoload` at the end of `import torch` (entry-point group `torch.backends`).  It depends
on `triton_xe.runtime.selection`, and on whether the small C++ library that registers the device
with torch has been built:

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
from typing import Any

from triton_xe import knobs
from triton_xe.collector import paused_collector


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
            _start_chosen_device(torch)
    except Exception as error:
        import warnings

        text = " ".join(str(error).split()) or type(error).__name__
        _refuse_use(torch, f"no simulated xpu device: {text}")
        warnings.warn(f"triton-xe: no simulated xpu device: {text}", RuntimeWarning, stacklevel=2)


def _start_chosen_device(torch: Any) -> None:
    """Start the simulated device if that is selected; for a real GPU refuse this torch."""
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
