"""Launch a compiled kernel by a Python function that is generated per kernel signature.

Triton passes every argument of the kernel, constants included, possibly nested in tuples.  The
function unpacks them by position and passes them to the device, without dictionary or string work
and imports.  On the simulator, where any address of the host would work, it checks that tensors are
on the right device.  A GPU's launch code checks tensors itself, so they are passed unchanged.
After a refusal, the argument is searched for and named.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from triton.runtime import _allocation

from triton_xe import knobs
from triton_xe.backend import devices
from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.hardware.rounding import bf16_bits
from triton_xe.runtime import arrays, observers
from triton_xe.runtime.debug_buffer import DebugBuffer
from triton_xe.runtime.native.arguments import make_direct_launcher

Launch = Callable[..., None]

_HEAD = (
    "def launch(gx, gy, gz, stream, function, packed, launch_metadata, enter_hook, exit_hook, {}):"
)


class XeLauncher:
    """Triton's `launcher_cls`: built once per kernel, called for each launch.

    The arguments of a call are those of `triton.compiler.CompiledKernel.run`; `function` is the
    `LoadedKernel` that `load_binary` returned.
    """

    def __new__(cls, src: Any, metadata: Any) -> Launch:  # type: ignore[misc]
        from triton.runtime.driver import driver

        signature = tuple(src.signature.values())
        names = tuple(str(name) for name in src.signature)
        on = devices.device(driver.active.get_current_device())
        sanitize = bool(getattr(metadata, "sanitize", False))
        if sanitize and not on.is_simulated:
            raise UnsupportedError(
                f"kernel {metadata.name!r}: sanitize=True is for simulated devices, and {on.name} "
                "is a real one; set TRITON_XE_DEVICE=sim"
            )
        cooperative = bool(getattr(metadata, "launch_cooperative_grid", False))
        recorder = None
        if knobs.record():
            from triton_xe.backend import recording

            recorder = recording.recorder_of(src, metadata, kernel_types(signature))
        launch = make_launch(
            metadata.name, names, signature, device_checks=not on.is_simulated, sanitize=sanitize,
            cooperative=cooperative,
            global_scratch=scratch(metadata, "global"),
            profile_scratch=scratch(metadata, "profile"),
            debug_sites=reporting_sites(metadata),
            record=recorder,
        )
        takes_more = cooperative or reporting_sites(metadata) or any(
            scratch(metadata, kind)[0] for kind in ("global", "profile"))
        as_is = sanitize or takes_more or recorder is not None
        return launch if as_is else make_direct(signature, launch)


def scratch(metadata: Any, kind: str) -> tuple[int, int]:
    """Bytes per program and alignment of the scratch `global` or `profile`; (0, 1) for none."""
    return (getattr(metadata, f"{kind}_scratch_size", 0),
            getattr(metadata, f"{kind}_scratch_align", 1))


def reporting_sites(metadata: Any) -> list[Any]:
    """Source locations of the kernel's prints and asserts; most kernels have none."""
    return list(getattr(metadata, "debug_sites", None) or ())


def make_direct(signature: tuple[Any, ...], general: Launch) -> Launch:
    """Return a launcher in C if all arguments are pointers and numbers, otherwise `general`.

    It passes unusual launches to `general`: hooks, a new queue, a refused argument, checks of the
    simulator.
    """
    types = [kind for kind in map(_native_type, signature) if kind is not None]
    if len(types) < len(signature):
        return general
    return make_direct_launcher(types, general)


_NATIVE_TYPES = {
    "constexpr": "constexpr", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32",
    "fp64": "f64", "i1": "i1", "u1": "i1", "i8": "i8", "u8": "i8", "i16": "i16", "u16": "i16",
    "i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64",
}


def _native_type(kind: Any) -> str | None:
    """The type for native launch code; None for an argument that becomes several values."""
    if not isinstance(kind, str):
        return None
    return "ptr" if kind.startswith("*") else _NATIVE_TYPES.get(kind)


def make_launch(
    kernel: str,
    names: tuple[str, ...],
    signature: tuple[Any, ...],
    *,
    device_checks: bool = False,
    sanitize: bool = False,
    cooperative: bool = False,
    global_scratch: tuple[int, int] = (0, 1),
    profile_scratch: tuple[int, int] = (0, 1),
    debug_sites: Sequence[Any] = (),
    record: Any = None,
) -> Launch:
    """Create the launch function of a kernel; `signature` has Triton's type of each argument.

    Scratch is (bytes per program, alignment).  A kernel that needs it takes its address as a
    further pointer after the user's arguments, global scratch first.  With `device_checks` the
    device takes tensors and refuses wrong ones with a `DeviceError`.  A kernel with `debug_sites`
    takes a buffer for its reports as the last pointer, and its launch waits for them.  `record` is
    the recorder of its launches, if there is one.
    """
    how = "stream=stream" + ", sanitize=True" * sanitize + ", cooperative=True" * cooperative
    writer = _Writer(device_checks, how, is_recorded=record is not None)
    for position, kind in enumerate(signature):
        writer.argument(f"a{position}", names[position], kind)
    writer.scratch("global", *global_scratch)
    writer.scratch("profile", *profile_scratch)
    if debug_sites:
        writer.reports()
    pointers = _Pointers(kernel, writer.names)
    scope: dict[str, Any] = {
        "Tensor": _tensor_class(), "DeviceError": DeviceError, "bf16_bits": bf16_bits,
        "pointer": pointers.pointer, "descriptor": pointers.descriptor,
        "allocate_global": _allocate_global, "allocate_profile": _allocate_profile,
        "record": record, "names": writer.names, "keep": observers.keep,
        "debug_buffer": functools.partial(_debug_buffer, kernel, debug_sites),
    }
    source = writer.source(tuple(f"a{i}" for i in range(len(signature))))
    exec(compile(source, f"<launch of {kernel}>", "exec"), scope)
    launch: Launch = scope["launch"]
    return launch


class _Writer:
    """Writes the source of a launch function: statements that check arguments, values to pass."""

    def __init__(self, device_checks: bool, how: str, *, is_recorded: bool = False) -> None:
        self.device_checks = device_checks
        self.how = how
        """Keyword arguments of the device's launch."""
        self.is_recorded = is_recorded
        self.lines: list[str] = []
        self.values: list[str] = []
        self.names: list[str] = []
        """Values of each of the kernel's parameters; a descriptor has several."""
        self.device_checked: list[tuple[str, str]] = []
        """(expression, name) of each pointer that the device checks."""
        self.tensors: list[tuple[int, str, str]] = []
        """(index among the kernel's parameters, name, expression) of each tensor."""
        self.lines_after: list[str] = []

    def source(self, parameters: tuple[str, ...]) -> str:
        """The launch function's text."""
        values = "".join(f"{value}, " for value in self.values)
        refused = [
            f"        pointer({value}, {name!r}, function)" for value, name in self.device_checked]
        return "\n".join((
            _HEAD.format("".join(f"{name}, " for name in parameters)),
            "    if gx * gy * gz == 0:",
            "        return",
            "    index = function.index",
            *self.lines,
            "    if enter_hook is not None and getattr(enter_hook, 'calls', True):",
            "        enter_hook(launch_metadata)",
            "    try:",
            f"        {self._start()}(gx, gy, gz), ({values}), "
            f"{self.how}{self._naming()})",
            "    except DeviceError as error:",
            *refused,
            "        raise",
            *self.lines_after,
            "    if exit_hook is not None and getattr(exit_hook, 'calls', True):",
            "        exit_hook(launch_metadata)",
        ))

    def _start(self) -> str:
        if self.is_recorded:
            return "record.launch(function, names, "
        return "function.device.launch(function.kernel, "

    def _naming(self) -> str:
        """Keyword argument with the names of tensors, for the simulator's checks."""
        if not self.tensors or (self.device_checks and not self.is_recorded):
            return ""
        names = tuple((k, name) for k, name, _ in self.tensors)
        return f", tensors=({names!r}, ({''.join(f'{value}, ' for *_, value in self.tensors)}))"

    def scratch(self, name: str, size: int, align: int) -> None:
        """Allocate memory for each program, if the kernel needs any."""
        if size:
            self.lines.append(
                f"    {name}_scratch = allocate_{name}(gx * gy * gz * {size}, {align}, stream)")
            self._pass(f"{name}_scratch", f"{name}_scratch.data_ptr()")
            self.lines_after.append(f"    keep({name}_scratch)")

    def reports(self) -> None:
        """Allocate a buffer for prints and asserts, which is read after the kernel."""
        self.lines.append("    reports = debug_buffer(function.device, stream)")
        self._pass("reports", "reports.pointer")
        self.lines_after.append("    reports.report()")

    def argument(self, expression: str, name: str, kind: Any) -> None:
        """Add one argument: a constant is dropped, a tuple or descriptor becomes several values."""
        if isinstance(kind, (tuple, list)):
            for i, inner in enumerate(kind):
                self.argument(f"{expression}[{i}]", f"{name}[{i}]", inner)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self._descriptor(expression, name, kind)
        elif kind.startswith("*"):
            self._pointer(expression, name)
        else:
            self._pass(name, _scalar(expression, kind))

    def _pass(self, name: str, value: str) -> None:
        self.names.append(name)
        self.values.append(value)

    def _local(self) -> str:
        return f"v{len(self.lines)}"

    def _pointer(self, expression: str, name: str) -> None:
        """Write the address of a pointer argument: directly for tensors of this device."""
        if self.device_checks:
            self.device_checked.append((expression, name))
            self._tensor(name, expression, expression)
            return
        local = self._local()
        self.lines.append(
            f"    {local} = {expression}.data_ptr() if type({expression}) is Tensor "
            f"and {expression}.is_xpu and {expression}.get_device() == index "
            f"else pointer({expression}, {name!r}, function)"
        )
        self._tensor(name, expression, local)

    def _tensor(self, name: str, tensor: str, value: str) -> None:
        self.tensors.append((len(self.names), name, tensor))
        self._pass(name, value)

    def _descriptor(self, expression: str, name: str, kind: str) -> None:
        """Add pointer, shape and strides as i64, two flags, then shape and strides again."""
        rank = _rank(kind)
        local = self._local()
        self.lines.append(f"    {local} = descriptor({expression}, {name!r}, function, {rank})")
        self._tensor(f"{name}.base", f"{expression}.base", f"*{local}")
        dims = [f"{name}.{part}[{k}]" for part in ("shape", "strides") for k in range(rank)]
        self.names += [*dims, f"{name}.padding", f"{name}.round_f32_to_tf32", *dims]


def _scalar(expression: str, kind: str) -> str:
    """Python source that converts an argument to what a parameter of a type takes."""
    if kind == "bf16":
        return f"bf16_bits({expression})"
    if kind in ("i1", "u1"):
        return f"(1 if {expression} else 0)"
    return expression


def _tensor_class() -> type:
    """`torch.Tensor` if torch is loaded; launches without torch take the general path."""
    torch = sys.modules.get("torch")
    return torch.Tensor if torch is not None else XeLauncher


class _Pointers:
    """Converts arguments that are not plain tensors to addresses, and names them in errors.

    Examples are parameters, subclasses, wrappers, buffers and arrays of other libraries.
    """

    def __init__(self, kernel: str, parameters: list[str]) -> None:
        self.kernel = kernel
        self._parameters = parameters
        self._outputs: frozenset[str] | None = None
        """Names of the parameters that the kernel stores to, computed on demand."""

    def pointer(self, value: Any, name: str, function: devices.LoadedKernel) -> int:
        """The address of `value`; `ValueError` names the argument if it is on another device."""
        if value is None or isinstance(value, int):
            return value or 0
        if not hasattr(value, "data_ptr"):
            return self._array(value, name, function)
        where, address = getattr(value, "device", None), int(value.data_ptr())
        is_null = not address and getattr(where, "type", "") == "cpu"  # an empty tensor
        if where is not None and hasattr(where, "type") and not is_null:
            self._check_device(name, value, where, function.index)
        return address

    def _array(self, value: Any, name: str, function: devices.LoadedKernel) -> int:
        """The address of another library's array, which is registered with the device."""
        try:
            found = arrays.find(value)
        except DeviceError as error:
            self._refuse(name, f"cannot be used: {error}")
        if found is None:
            self._refuse(name, f"is {type(value).__name__}, neither a tensor nor an array")
        if not found.is_writable and name in self._output_names(function):
            self._refuse(name, "is a read-only array, and the kernel stores to it; pass a copy")
        function.device.borrow(found.low, found.high)
        return found.address

    def _output_names(self, function: devices.LoadedKernel) -> frozenset[str]:
        if self._outputs is None:
            from triton_xe.runtime.simulator.interface import KernelSource

            source = KernelSource.from_binary(function.binary, self.kernel, function.device.target)
            self._outputs = frozenset(self._parameters[k] for k in source.parsed.written_arguments)
        return self._outputs

    def descriptor(
        self, value: Any, name: str, function: devices.LoadedKernel, rank: int
    ) -> tuple[int, ...]:
        """The values of a host tensor descriptor, in the order of `decompose_descriptor`."""
        if len(value.shape) != rank or len(value.strides) != rank:
            self._refuse(name, f"has rank {len(value.shape)}, but was compiled for rank {rank}")
        if value.strides[-1] != 1:
            self._refuse(name, "needs a last dimension with stride 1")
        base = self.pointer(value.base, f"{name}.base", function)
        dims = (*value.shape, *value.strides)
        flags = (int(value.padding == "nan"), int(value.round_f32_to_tf32))
        return (base, *dims, *flags, *dims)

    def _check_device(self, name: str, value: Any, where: Any, index: int) -> None:
        if where.type == "xpu" and where.index in (None, index):
            return
        hint = f"move it with .to('xpu:{index}')"
        if where.type == "xpu":
            hint += f", or make xpu:{where.index} the current device"
        self._refuse(name, f"is a tensor on {where}, but the kernel runs on xpu:{index}; {hint}")

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise ValueError(f"kernel {self.kernel!r}: argument {name!r} {what}")


def _debug_buffer(kernel: str, sites: Sequence[Any], device: Any, stream: int) -> DebugBuffer:
    if not device.is_simulated:
        device.refuse_recording(kernel, stream)
    return DebugBuffer(device, kernel, sites)


def _allocate_global(size: int, align: int, stream: int) -> Any:
    return _allocation._allocator.get()(size, align, stream)


def _allocate_profile(size: int, align: int, stream: int) -> Any:
    allocate = _allocation._profile_allocator.get()
    if not isinstance(allocate, _allocation.NullAllocator):
        return allocate(size, align, stream)
    from triton.runtime.driver import driver

    return driver.active.allocate_default_profile_scratch(size, align, stream)


def kernel_types(signature: tuple[Any, ...]) -> Iterator[str]:
    """Triton's types of the values that a kernel takes; tuples and descriptors are flattened.

    >>> list(kernel_types(("*fp32", "constexpr", ("i32", "fp16"))))
    ['*fp32', 'i32', 'fp16']
    """
    for kind in signature:
        if isinstance(kind, (tuple, list)):
            yield from kernel_types(tuple(kind))
        elif kind.startswith("tensordesc"):
            rank = _rank(kind)
            element = kind.partition("<")[2].partition("[")[0]
            yield from (f"*{element}", *["i64"] * 2 * rank, "i1", "i1")
            yield from ("i32",) * rank + ("i64",) * rank
        elif kind != "constexpr":
            yield kind


def _rank(kind: str) -> int:
    """Number of dimensions of a host descriptor's tensor: that of the block in its type.

    >>> _rank("tensordesc<fp16[16, 32]>")
    2
    """
    return kind.partition("[")[2].partition("]")[0].count(",") + 1
