"""The options of one compilation, for Triton's front end, its runtime and `triton.Config`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from triton_xe.errors import OptionError, UnsupportedError, not_this_configuration
from triton_xe.hardware.target import Target, target

GRF_MODES = ("default", "auto")
OPERANDS = ("", "a", "b")
"""Values of `line_prefetches`."""


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _refuse(why: str) -> NoReturn:
    raise not_this_configuration(UnsupportedError(why))


@dataclass(frozen=True)
class XeOptions:
    """Options of a launch or a `triton.Config`; frozen, and hashed into the kernel's cache key.

    - `arch` is a name of `TARGETS`.
    - `grf_mode` is the register file per thread: `default` lets this compiler choose, `auto` lets
      Intel's compiler choose, and a number such as `256` fixes it.  `small` and `large` are the
      device's least and most.
    - `maxnreg` is the CUDA spelling of the same request and selects the next larger mode.
    - `generate_native_code` requests `asm["zebin"]`, which is built on a machine with a GPU of
      `arch`, for the driver and device that `native_identity` names.  `cpp_wrapper` is the format
      that C++ code of Inductor launches.
    - `guards`: with "launch", the conditions of the fast version are tested before each launch; if
      they fail, a general version is launched.  With "kernel", the kernel contains both versions
      and tests the conditions itself.  Native code always does that.
    - `sanitize` checks every access of the launch, on a simulated device only.  With
      `tests_promises` the kernel of a checked launch tests promises such as `tl.max_contiguous`.
    - `split_barriers` keeps the subgroups of large work-groups together in loops of products, so
      that they find each other's loads in the cache.
    - `line_prefetches` names an operand of products, "a" or "b".  In loops, lanes prefetch it, each
      a cache line, instead of 2D messages.
    - `locates_all` gives every instruction of the LLVM IR its line, not only those that reports of
      the simulator need.
    """

    arch: str
    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    warp_size: int = 16
    grf_mode: str = "default"
    guards: str = "launch"
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    debug: bool = False
    sanitize: bool = False
    tests_promises: bool = False
    split_barriers: bool = False
    line_prefetches: str = ""
    locates_all: bool = False
    sanitize_overflow: bool = True
    launch_cooperative_grid: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4b15", "fp8e4nv", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None
    generate_native_code: bool = False
    native_identity: str = ""
    cpp_wrapper: str = ""
    backend_name: str = "intel"

    def __post_init__(self) -> None:
        device = target(self.arch)
        for name in ("num_warps", "num_stages", "num_ctas", "warp_size"):
            if not isinstance(getattr(self, name), int):
                raise OptionError(f"{name} must be an integer, not {getattr(self, name)!r}")
        if not _is_power_of_two(self.num_warps):
            raise OptionError(f"num_warps must be a power of 2, not {self.num_warps}")
        if self.num_stages < 0:
            raise OptionError(f"num_stages must not be negative, but is {self.num_stages}")
        if self.line_prefetches not in OPERANDS:
            raise OptionError(f"line_prefetches is one of {', '.join(map(repr, OPERANDS))}, not "
                              f"{self.line_prefetches!r}")
        if self.num_ctas != 1:
            _refuse(f"num_ctas={self.num_ctas} is not supported: Intel GPUs have no clusters of "
                    "work-groups; use num_ctas=1")
        if self.warp_size not in device.subgroup_sizes:
            _refuse(f"warp_size={self.warp_size} is not a sub-group size of {self.arch}; "
                    f"it has {', '.join(map(str, device.subgroup_sizes))}")
        self._check_grf_mode(device)

    def _check_grf_mode(self, device: Target) -> None:
        allowed = (*GRF_MODES, *map(str, device.grf_modes))
        if self.grf_mode not in allowed:
            _refuse(f"grf_mode={self.grf_mode!r} does not exist on {self.arch}; "
                    f"use one of {', '.join(allowed)}")

    def hash(self) -> str:
        """Digest of every field."""
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


FIELDS = tuple(f.name for f in dataclasses.fields(XeOptions))


def options_for(device: Target, requested: Mapping[str, Any]) -> XeOptions:
    """Defaults of `device`, overridden by the request; unknown keys and `None` values are ignored.

    `warp_size` follows the device, because a target's value is not a request (Inductor always says
    32). Without tf32 in the matrix unit, fp32 is multiplied exactly even if `tf32` is requested:
    the language treats it as a permission to round.
    """
    values: dict[str, Any] = {"arch": device.name, "warp_size": device.subgroup_size}
    if not device.has_tf32_dpas:
        values["default_dot_input_precision"] = "ieee"
    values.update({k: requested[k] for k in FIELDS if requested.get(k) is not None})
    for name in ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes",
                 "allowed_dot_input_precisions"):
        if name in values:
            values[name] = tuple(values[name])
    values["extern_libs"] = _pairs(values.get("extern_libs"))
    values["grf_mode"] = _grf_mode(device, values)
    return XeOptions(**values)


def _pairs(libraries: Any) -> tuple[tuple[str, str], ...]:
    items = libraries.items() if isinstance(libraries, Mapping) else libraries or ()
    return tuple((str(name), str(path)) for name, path in items)


def _grf_mode(device: Target, values: Mapping[str, Any]) -> str:
    """The requested mode; `maxnreg` selects the smallest mode with at least that many registers."""
    mode = str(values.get("grf_mode", "default"))
    mode = {"small": str(device.grf_modes[0]), "large": str(device.grf_modes[-1])}.get(mode, mode)
    limit = values.get("maxnreg")
    if limit is None or mode != "default":
        return mode
    return str(next((m for m in device.grf_modes if m >= limit), device.grf_modes[-1]))
