"""Build native code with the register file that spills less.

Intel's driver and its offline compiler are asked in the same way.  `native_cache` stores the
result, so that each of them is asked once for a module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Generic, TypeVar

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import RegisterFile, larger_file, with_256_registers
from triton_xe.hardware.target import Target
from triton_xe.runtime.level_zero.zebin import KernelFacts, kernel_facts, loses_stores
from triton_xe.runtime.spirv_reader import EntryPoint

T = TypeVar("T")


@dataclass(frozen=True)
class Built(Generic[T]):
    """Native code with the flags that it was built with, and the compiler's own object for it."""

    native: bytes
    flags: str
    made: T
    spills_at_128: int = 0
    """Spilled bytes of the build with 128 registers that this build replaces, otherwise 0."""

    @cached_property
    def facts(self) -> dict[str, KernelFacts]:
        return kernel_facts(self.native)

    @property
    def spills(self) -> int:
        """Spilled bytes of a thread, of all kernels."""
        return sum(facts.spill_size for facts in self.facts.values())

    @property
    def registers(self) -> int:
        return max(facts.grf_count for facts in self.facts.values())


def file_to_try(entry: EntryPoint, flags: str, device: Target) -> RegisterFile | None:
    """The register file for a kernel that spills with these flags, if there is a larger one."""
    warps = -(-prod(entry.group_size) // (entry.subgroup_size or device.subgroup_size))
    return larger_file(flags, warps, device)


def build(
    once: Callable[[str], tuple[bytes, T]], flags: str, larger: RegisterFile | None,
    is_refusal: Callable[[DeviceError], bool],
) -> Built[T]:
    """Build with these flags, and with the larger file if that spills or is refused.

    `once` returns the native code for flags, and the compiler's own object for it.  The second
    build is used if it spills less.
    """
    if larger is None:
        return _without_lost_stores(once, flags)
    wide = f"{flags} {larger.flag}".strip()
    try:
        small = _without_lost_stores(once, flags)
    except DeviceError as error:
        if not is_refusal(error):
            raise
        if knobs.debug():
            print(f"triton-xe: built with more registers: {error}", file=sys.stderr)
        return _without_lost_stores(once, wide)
    if not small.spills or small.registers >= (larger.registers or 0):
        return small
    try:
        large = _without_lost_stores(once, wide)
    except DeviceError as error:
        if not is_refusal(error):
            raise
        return small
    if large.spills >= small.spills:
        return small
    return replace(large, spills_at_128=small.spills)


def _without_lost_stores(once: Callable[[str], tuple[bytes, T]], flags: str) -> Built[T]:
    """Build with these flags, or with 256 registers if the code would lose stores."""
    native, made = once(flags)
    if loses_stores(native):
        return _without_lost_stores(once, with_256_registers(flags))
    return Built(native, flags, made)
