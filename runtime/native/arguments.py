"""Formats of kernel arguments for the compiled launch code, on a GPU and on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triton_xe.errors import DeviceError
from triton_xe.runtime import native

Launch = Callable[..., None]

LETTERS = {
    "constexpr": "x", "ptr": "P", "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "f16": "e", "bf16": "E", "f32": "f", "f64": "d", "slm": "s",
}
"""Argument types as letters of a format (see `launch.c`); a `constexpr` is not passed to the
kernel.
"""


def format_of(types: Sequence[str]) -> bytes:
    """Return the format of values of these types."""
    unknown = [each for each in types if each not in LETTERS]
    if unknown:
        raise DeviceError(f"cannot pass arguments of type {unknown[0]!r} to a kernel")
    return "".join(LETTERS[each] for each in types).encode()


def make_direct_launcher(types: Sequence[str], general: Launch) -> Launch:
    """Create a launcher with the arguments that Triton passes, in a single native call.

    `(gx, gy, gz, stream, function, packed, launch_metadata, enter_hook, exit_hook, *values)`:
    `function.launch_state` is a `KernelState`, or the simulator's `Simulated`.  The native code
    leaves some launches to `general`, which it calls with the same arguments.  These are launches
    with hooks, on a queue that is not known yet, or of a kernel with other parameter types.
    Launches with an argument that is refused, or observed by a recorder, are too.
    """
    if native.launch is None or len(types) > native.launch.MOST_ARGUMENTS:
        return general
    made: Launch = native.launch.make_launcher(None, format_of(types), general)
    return made


def read_tensors(tensor: type, parameter: type) -> None:
    """Read torch's tensors through the C interface of DLPack, if this torch has it.

    For other tensors, a GPU's launch code calls `data_ptr()`, and the simulator's calls Python.
    """
    exchange = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if native.launch is not None and exchange is not None:
        native.launch.read_tensors(tensor, parameter, exchange)
