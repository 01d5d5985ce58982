"""Run C++ that Inductor writes (`cpp_wrapper`, AOTInductor) and its packages on a simulated device.

Such code launches through SYCL.  It is compiled with this package's headers (`shim/sycl.h`) before
torch's own.  A library provides what torch's XPU build has: guards, streams, C functions of
operators.  Kernels run in this process's simulator.  The library is built when it is first needed.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_uint32, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any

from triton_xe import knobs
from triton_xe.errors import UnsupportedError
from triton_xe.runtime import observers
from triton_xe.runtime.debug_buffer import DebugBuffer
from triton_xe.runtime.device import Grid
from triton_xe.runtime.torch_xpu import compilation
from triton_xe.spirv import NEEDS, attached

_INDUCTOR = "torch/csrc/inductor"
SHIMS = f"{_INDUCTOR}/aoti_torch/generated/c_shim_{{}}.h"
_SYCL = "#pragma once\n#include <sycl/sycl.hpp>\n"


def _generated(torch: compilation.Torch) -> dict[str, str]:
    """The headers that code is compiled with, and the functions of operators."""
    functions: dict[str, str] = {}
    for device in ("cpu", "cuda", "xpu"):
        file = torch.folder / "include" / SHIMS.format(device)
        text = file.read_text() if file.exists() else ""
        functions.update(re.findall(rf" aoti_torch_{device}_(\w+)\((.*?)\);", text, re.DOTALL))
    heads = {name: f"AOTI_TORCH_EXPORT AOTITorchError aoti_torch_xpu_{name}({given})"
             for name, given in functions.items()}
    declared = "".join(f"{head};\n" for head in heads.values())
    return {
        "sycl/sycl.hpp": (compilation.SOURCES / "sycl.h").read_text(),
        "level_zero/ze_api.h": _SYCL,
        f"{_INDUCTOR}/aoti_runtime/sycl_runtime_wrappers.h": _SYCL,
        SHIMS.format("xpu"): (
            f"#pragma once\n#include <{_INDUCTOR}/aoti_torch/c/shim.h>\n"
            f'extern "C" {{\n{declared}}}\n'),
        "c_shim_xpu.inc": "".join(
            _defined(name, head, functions[name]) for name, head in heads.items()),
    }


def _defined(name: str, head: str, given: str) -> str:
    """The definition of a function of an operator, which calls the operator by its name."""
    slots = ", ".join(re.findall(r"(\w+)(?:,|$)", given))
    return (f"{head} {{\n  const Slot slots[] = {{{slots}}};\n"
            f'  static const auto op = find("{name}");\n  return call(op, slots);\n}}\n')


WRAPPER = compilation.Recipe(
    "libtriton_xe_cpp.so", (("wrapper.cpp",),), ("sycl.h",),
    "what C++ of Inductor needs of the simulated xpu device", _generated)

_LOAD = CFUNCTYPE(c_int64, c_void_p, c_int64, c_char_p, c_void_p, c_int64)
_LAUNCH = CFUNCTYPE(
    c_int64, c_int64, POINTER(c_uint32), POINTER(c_void_p), c_void_p, c_void_p, c_int64)
_STREAM = CFUNCTYPE(c_void_p, c_int)


class _Callbacks(ctypes.Structure):
    _fields_ = (("load", _LOAD), ("launch", _LAUNCH), ("stream", _STREAM))


_C_TYPES: dict[str, Any] = {"ptr": ctypes.c_uint64, "i1": ctypes.c_uint8, "i8": ctypes.c_int8,
            "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
            "f32": ctypes.c_float, "f64": ctypes.c_double}
"""C types of arguments; 16-bit floats are passed as floats."""


class Kernel:
    """A kernel of a module, on one device, for launchers that know only its address."""

    def __init__(self, module: bytes, name: str, index: int) -> None:
        from triton.runtime.driver import driver

        self.name = name
        self.loaded, _, *self.facts = driver.active.utils.load_binary(name, module, 0, index)
        self.device = self.loaded.device
        needs = json.loads(attached(module, NEEDS) or "{}")
        self.scratch = [tuple(each) for each in needs.get("scratch", ())]
        self.sites = needs.get("sites", ())
        types = self.loaded.kernel.argument_types
        self.types = types[:len(types) - len(self.scratch) - bool(self.sites)]
        self.start = partial(self.device.launch, self.loaded.kernel)
        if knobs.record():
            self._record(module, types)

    def _record(self, module: bytes, types: tuple[str, ...]) -> None:
        """Launch through the recorder, if the kernel is to be recorded."""
        from triton_xe.runtime.recording.modules import recorder_of

        names, recorder = recorder_of(module, self.name, types)
        if recorder is not None:
            self.start = partial(recorder.launch, self.loaded, names)

    def launch_addressed(self, grid: Grid, addresses: Any, stream: int) -> None:
        """Launch with the arguments at these addresses."""
        if {"f16", "i16"} & set(self.types):  # bf16 is handed over as i16
            raise UnsupportedError(
                f"kernel {self.name!r} takes a number of 16 bits, which C++ of Inductor passes "
                "with 32; make it a float32, or a tensor")
        self.launch(grid, [
            _C_TYPES[kind].from_address(addresses[k]).value for k, kind in enumerate(self.types)
        ], stream)

    def launch(self, grid: Grid, values: list[Any], stream: int) -> None:
        """Launch with scratch memory and a buffer for reports, which are then printed."""
        if 0 in grid:
            return
        groups = grid[0] * grid[1] * grid[2]
        blocks = [self.device.allocate(groups * size, align) for size, align in self.scratch]
        reports = DebugBuffer(self.device, self.name, self.sites) if self.sites else None
        values += [each.pointer for each in (*blocks, *filter(None, (reports,)))]
        self.start(grid, values, stream=stream)
        if not observers.keep(blocks):
            for block in blocks:
                block.free()
        if reports:
            reports.report()


class _Runtime:
    """Functions that the library calls; its kernels are numbers, and never unloaded."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []

    def load(self, module: int, size: int, name: bytes) -> int:
        index = sys.modules["torch"].xpu.current_device()
        self.kernels.append(Kernel(ctypes.string_at(module, size), name.decode(), index))
        return len(self.kernels) - 1

    def launch(self, kernel: int, grid: Any, arguments: Any, stream: int | None) -> int:
        self.kernels[kernel].launch_addressed(
            (grid[0], grid[1], grid[2]), arguments, stream or 0)
        return 0

    @staticmethod
    def stream(index: int) -> int:
        return int(sys.modules["torch"]._C._xpu_getCurrentRawStream(index))


def _with_error_message(call: Callable[..., int]) -> Callable[..., int]:
    """Add two arguments to a call: a buffer for its error message, and the size of the buffer."""
    def called(*arguments: Any) -> int:
        *given, message, size = arguments
        try:
            return call(*given)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".encode()[:size - 1]
            ctypes.memmove(message, text + b"\0", len(text) + 1)
            return -1
    return called


@cache
def start() -> Path:
    """Load the library, built first if needed; return the folder of its headers."""
    path = compilation.build(WRAPPER)
    library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    runtime = _Runtime()
    callbacks = _Callbacks(
        _LOAD(_with_error_message(runtime.load)), _LAUNCH(_with_error_message(runtime.launch)),
        _STREAM(runtime.stream))
    library.xe_cpp_start(callbacks)
    _kept.append((library, callbacks))
    return path.parent / "include"


_kept: list[Any] = []
"""Objects that C++ code uses, and which must therefore stay alive."""


def adjust_builder(module: Any) -> None:
    """Use the headers of a simulated device for xpu code, instead of an installed SYCL."""
    original = module.get_cpp_torch_device_options

    def options(device_type: str, *arguments: Any, **named: Any) -> Any:
        if device_type != "xpu":
            return original(device_type, *arguments, **named)
        include = start()
        definitions, folders, flags, *rest = original("cpu", *arguments, **named)
        return [*definitions, " USE_XPU"], folders, [*flags, f"I{include}"], *rest

    module.get_cpp_torch_device_options = options


def adjust_packages(module: Any) -> None:
    """Load the library before a package that needs it."""
    package = sys.modules["torch"]._C._aoti
    package.AOTIModelPackageLoader = loader_of(package.AOTIModelPackageLoader)


def loader_of(original: Any) -> Any:
    """Wrap torch's loader of packages, so that the library is loaded first."""
    class AOTIModelPackageLoader(original):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            start()
            super().__init__(*arguments, **named)

    return AOTIModelPackageLoader
