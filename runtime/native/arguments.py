"""What compiled launch code is told of arguments, on a GPU and on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triton_xe.errors import DeviceError
from triton_xe.runtime import native

Launch = Callable[..., None]

LETTERS = {
    "constexpr": "x", "ptr": "P", "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "f16": "e", "bf16": "E", "f32": "f", "f64": "d", "slm": "s",
}
"""Types of the values that a launch is given, as letters of a format (see `launch.c`); `constexpr`
is no argument of the kernel."""


def format_of(types: Sequence[str]) -> bytes:
    """The format of values of these types."""
    unknown = [each for each in types if each not in LETTERS]
    if unknown:
        raise DeviceError(f"cannot pass arguments of type {unknown[0]!r} to a kernel")
    return "".join(LETTERS[each] for each in types).encode()


def make_direct_launcher(types: Sequence[str], general: Launch) -> Launch:
    """A launcher with the arguments that Triton gives one, in a single native call.

    `(gx, gy, gz, stream, function, packed, launch_metadata, enter_hook, exit_hook, *values)`:
    `function.launch_state` is a `KernelState`, or the simulator's `Simulated`.  A launch with
    hooks, on a queue that is not known yet, of a kernel with other parameter types, with an
    argument that is refused, or that somebody wants to know of is left to `general`, which is
    called with the same arguments.
    """
    if native.launch is None or len(types) > native.launch.MOST_ARGUMENTS:
        return general
    made: Launch = native.launch.make_launcher(None, format_of(types), general)
    return made


def read_tensors(tensor: type, parameter: type) -> None:
    """Read torch's tensors through the C interface of DLPack, where this torch has it.

    Of other tensors, and of all where it has not, a GPU's launch code asks for `data_ptr()`, and
    the simulator's leaves them to Python.
    """
    exchange = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if native.launch is not None and exchange is not None:
        native.launch.read_tensors(tensor, parameter, exchange)
