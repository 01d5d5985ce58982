"""Launch code generated per signature: one native call packs the arguments and launches.

llvmlite compiles, for a tuple of argument types, a function with Python's fast calling convention
(METH_FASTCALL) that reads the Python objects, checks them, calls zeKernelSetArgumentValue for each
and zeCommandListAppendLaunchKernel, all by address.  It holds Python's lock throughout, which makes
"set all arguments, then launch" one step for every other thread.  `make_direct_launcher` gives the
same in the form in which Triton calls a launcher.

`make_launcher` gives `launch(list, x, y, z, *arguments) -> status`: `list` is a command list handle
or 0 for the device's own; a pointer argument is an int, None (null), or anything with `data_ptr()`.
Status 0 is success, a positive one a Level Zero code, a negative one a refused argument, which
`explain` turns into a sentence.  Wrong Python types raise what Python's own conversions raise.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero import launch_steps as steps
from triton_xe.runtime.level_zero.machine_code import compile_text
from triton_xe.runtime.level_zero.raw import api

Launch = Callable[..., int]
DirectLaunch = Callable[..., Any]

_BYTES = {"ptr": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4,
          "f64": 8, "slm": 8}
_METH_FASTCALL = 0x80
_CALLS = sys.intern("calls")


class _MethodDefinition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_lock = threading.Lock()
_compiled: dict[tuple[Any, ...], tuple[_MethodDefinition, Any]] = {}
_shared: dict[str, Any] = {}


def signature_digest(argument_types: Sequence[str]) -> int:
    """A number for a tuple of argument types; bf16 travels as i16.

    >>> signature_digest(["bf16"]) == signature_digest(["i16"]) != signature_digest(["i32"])
    True
    """
    text = ",".join("i16" if each == "bf16" else each for each in argument_types)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")


def kernel_state(kernel: int, device_state: int, argument_types: Sequence[str]) -> bytearray:
    """The memory that the launch functions of one kernel share; `close_state` ends its use."""
    head = struct.pack("<QQQQ", kernel, device_state, signature_digest(argument_types), 0)
    return bytearray(head + bytes(8 * len(argument_types)))


def close_state(state: bytearray) -> None:
    """Make the launch functions of a kernel refuse."""
    struct.pack_into("<Q", state, 0, 0)


def make_launcher(
    state: bytearray,
    argument_types: Sequence[str],
    positions: Sequence[int] | None = None,
    total: int | None = None,
) -> Launch:
    """The launch function of a kernel.

    `state`: made by `kernel_state` for this kernel.  `positions`: where each kernel argument stands
    among the `total` values given after the grid (the others are ignored, such as constants of the
    signature); by default they are the values in order.
    """
    types = tuple(argument_types)
    places = tuple(range(len(types)) if positions is None else positions)
    given = len(types) if total is None else total
    unknown = [each for each in types if each not in _BYTES]
    if unknown:
        raise DeviceError(f"cannot pass arguments of type {unknown[0]!r} to a kernel")
    if len(places) != len(types) or any(not 0 <= p < given for p in places):
        raise DeviceError(f"{len(types)} arguments cannot come from positions {places} of {given}")
    if len(state) != 8 * (steps.LAST + len(types)):
        raise DeviceError(f"the state of this kernel is not made for {len(types)} arguments")
    made: Launch = _function(_Plan(types, places, given), state)
    return made


def make_direct_launcher(
    argument_types: Sequence[str],
    positions: Sequence[int],
    total: int,
    handle_type: type[int],
    general: DirectLaunch,
) -> DirectLaunch:
    """A launcher with the arguments that Triton gives one, in a single native call.

    `(gx, gy, gz, stream, function, packed, launch_metadata, enter_hook, exit_hook, *arguments)`:
    `function` is a `handle_type`, whose number is a kernel's `state_address`.  A launch with hooks,
    on a queue that is not known yet, of a kernel with other parameter types, or with an argument
    that is refused is left to `general`, which is called with the same arguments.
    """
    plan = _Plan(tuple(argument_types), tuple(positions), total, handle_type)
    made: DirectLaunch = _function(plan, general)
    return made


def state_address(state: bytearray) -> int:
    """Where a kernel's state is in memory; it stays there as long as the object lives."""
    return ctypes.addressof(ctypes.c_char.from_buffer(state))


def read_tensors(
    device_state: Any,
    library: str,
    tensor: type,
    parameter: type,
    sample: Any,
    xpu_index: int | None = None,
) -> bool:
    """Let launches read addresses of torch's tensors through torch's C interface in `library`.

    `aoti_torch_get_data_ptr` takes the address of a C++ tensor, which is the handle inside the
    Python object; `sample._cdata` tells the handle, and so where it is.  False when this torch has
    no such function or the object looks otherwise: then launches call `data_ptr()`.

    `xpu_index`: the number that torch gives this device.  Then the driver is not asked about
    tensors of torch's XPU devices; None when they may be something else than memory of the driver.
    """
    try:
        torch = ctypes.CDLL(library)
        read = torch.aoti_torch_get_data_ptr
        readers = (torch.aoti_torch_get_device_type, torch.aoti_torch_get_device_index)
        xpu = int(torch.aoti_torch_device_type_xpu())
    except (AttributeError, OSError):
        return False
    place = _place_of(sample, int(sample._cdata))
    if place is None:
        return False
    found = ctypes.c_uint64()
    status = read(ctypes.c_void_p(id(sample) + place), ctypes.byref(found))
    if status or found.value != sample.data_ptr():
        return False
    device_state[steps.TENSOR_PLACE] = place
    addresses = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (read, *readers)]
    device_state[steps.TENSOR_READER : steps.TENSOR_READER + 3] = addresses
    if xpu_index is not None:
        device_state[steps.XPU_TYPE], device_state[steps.XPU_INDEX] = xpu, xpu_index
    device_state[steps.TENSOR_TYPE], device_state[steps.PARAMETER_TYPE] = id(tensor), id(parameter)
    return True


def _place_of(value: Any, word: int) -> int | None:
    """Where in an object's memory a 64-bit word is; None unless it is there exactly once."""
    size = type(value).__basicsize__
    data = ctypes.string_at(id(value), size)
    found = [at for at in range(0, size - 7, 8) if data[at : at + 8] == struct.pack("<Q", word)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class _Plan:
    """What decides the code of a launch function; `handle_type` makes it a direct one."""

    types: tuple[str, ...]
    places: tuple[int, ...]
    given: int
    handle_type: type | None = None

    @property
    def first(self) -> int:
        return steps.FIRST if self.handle_type is None else steps.DIRECT_FIRST


def explain(status: int, kernel: str, values: Sequence[Any], expected: int) -> str:
    """The sentence for a negative status of a launch."""
    kind, index = -status >> steps.KIND_SHIFT, -status & ((1 << steps.KIND_SHIFT) - 1)
    what = f"cannot launch kernel {kernel!r}"
    where = f"{what}: argument {index}"
    is_value = index < len(values) and kind in (steps.BAD_RANGE, steps.PLAIN_MEMORY)
    shown = values[index] if is_value else None
    shown = hex(shown) if kind == steps.PLAIN_MEMORY and isinstance(shown, int) else shown
    return {
        steps.BAD_COUNT: f"{what}: it takes {expected} arguments, got {len(values)}",
        steps.PLAIN_MEMORY: f"{where} ({shown!r}) points to plain host memory, which the GPU "
        "cannot read, or to freed memory; pass a tensor on device 'xpu', or memory allocated for "
        "the device",
        steps.OTHER_DEVICE: f"{where} points to the memory of another GPU; copy the tensor to "
        "this device first",
        steps.BAD_RANGE: f"{where} ({shown!r}) does not fit the type of the parameter",
        steps.BAD_GRID: f"{what}: grid size {'xyz'[index % 3]} is not between 0 and 2**31 - 1",
        steps.CLOSED: f"{what}: it or its device is closed, or this process was made by fork() "
        "after the device was used; use the 'spawn' method of multiprocessing",
    }[kind]


def _function(plan: _Plan, bound: Any) -> Any:
    """The compiled function of a plan, with `bound` as what it gets as `self`."""
    definition = _definition(plan)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.POINTER(_MethodDefinition), ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.byref(definition), bound, None)


def _definition(plan: _Plan) -> _MethodDefinition:
    path = api().path
    with _lock:
        if path not in _shared:
            _shared[path] = compile_text(steps.shared_text())
        key = (plan, path)
        if key not in _compiled:
            engine = compile_text(_launch_text(plan))
            definition = _MethodDefinition(
                b"launch", engine.get_function_address("launch"), _METH_FASTCALL, None
            )
            _compiled[key] = (definition, engine)
        return _compiled[key][0]


def _launch_text(plan: _Plan) -> str:
    """The function of one signature: read every argument, then set every one, then launch.

    Each step answers 0 or the final status; the first that is not 0 ends the launch.
    """
    frame = "ptr %frame"
    calls = [_first_step(plan)]
    calls += [
        f"@{kind}(ptr %args, i64 {plan.first + place}, ptr %a{index}, {frame})"
        for index, (kind, place) in enumerate(zip(plan.types, plan.places, strict=True))
    ]
    calls += [
        f"@{_setter(kind)}({frame}, i64 {index}, i64 {_BYTES[kind]}, ptr %a{index})"
        for index, kind in enumerate(plan.types)
    ]
    calls.append(f"@enqueue({frame})")
    blocks, answers = [], []
    for number, call in enumerate(calls):
        name, _, operands = call[1:].partition("(")
        blocks.append(
            f"  %s{number} = call i64 {_step(name)}({operands}\n"
            f"  %z{number} = icmp eq i64 %s{number}, 0\n"
            f"  br i1 %z{number}, label %step{number + 1}, label %leave\n"
            f"step{number + 1}:"
        )
        answers.append(f"[%s{number}, %{f'step{number}' if number else 'entry'}]")
    slots = "\n".join(f"  %a{index} = alloca i64" for index in range(len(plan.types)))
    last = f"{_step('answer')}(i64 %status)"
    if plan.handle_type is not None:
        last = f"{_step('finish')}(ptr %self, ptr %args, i64 %nargs, i64 %status)"
    return f"""
define ptr @launch(ptr %self, ptr %args, i64 %nargs) {{
entry:
  %frame = alloca [{steps.FRAME_WORDS} x i64]
{slots}
{chr(10).join(blocks)}
  br label %leave
leave:
  %status = phi i64 {", ".join(answers)}, [0, %step{len(calls)}]
  %object = call ptr {last}
  ret ptr %object
}}
"""


def _first_step(plan: _Plan) -> str:
    expected = plan.first + plan.given
    if plan.handle_type is None:
        return f"@begin(ptr %self, ptr %args, i64 %nargs, i64 {expected}, ptr %frame)"
    digest = signature_digest(plan.types)
    return (
        f"@direct(ptr %args, i64 %nargs, i64 {expected}, i64 {id(plan.handle_type)}, "
        f"i64 {digest}, ptr inttoptr (i64 {id(_CALLS)} to ptr), ptr %frame)"
    )


def _step(name: str) -> str:
    """A compiled step as a constant address."""
    address = _shared[api().path].get_function_address(f"xe_{name}")
    return f"inttoptr (i64 {address} to ptr)"


def _setter(kind: str) -> str:
    """Pointers are set at every launch: the driver must look up the allocation again."""
    return {"ptr": "set_always", "slm": "set_slm"}.get(kind, "set")
