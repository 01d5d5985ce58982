"""The host CPU as LLVM names it, and the features that generated code depends on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property

import llvmlite.binding as llvm

from triton_xe import knobs
from triton_xe.errors import DeviceError


@dataclass(frozen=True)
class HostCpu:
    """The host's `triple`, `name` and `features`, which select LLVM's target machine."""

    triple: str
    name: str
    features: str

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self._features

    @cached_property
    def _features(self) -> frozenset[str]:
        return frozenset(self.features.split(","))

    @cached_property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register in use."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def has_mask_registers(self) -> bool:
        """True if a mask of lanes is a register of its own, not a vector."""
        return self.has("avx512f")

    @property
    def is_amd(self) -> bool:
        """True for AMD's CPUs, from Zen on."""
        return self.name.startswith("znver")

    @property
    def float_bank(self) -> str:
        """Register class of a floating-point number in inline assembly."""
        return "x" if self.triple.startswith("x86_64") else "w"

    @property
    def vector_registers(self) -> int:
        return 16 if self.triple.startswith("x86_64") and not self.has("avx512f") else 32


_PREFERENCES = ",-prefer-256-bit,+fast-dpwssd"
"""64-byte vectors; and undivided VPDPWSSD, which LLVM would split in long chains."""

_ADDED_BY_LEVEL = {
    "x86-64": "64bit cmov cx8 fxsr mmx sse sse2",
    "x86-64-v2": "crc32 cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3",
    "x86-64-v3": "avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""LLVM's names of the features that each level adds.

Source: x86-64 psABI 1.0, table 3.1, "Micro-Architecture Levels".
"""


def _features_of_level(level: str) -> set[str]:
    """LLVM's features of a level of x86-64, with those of lower levels."""
    levels = list(_ADDED_BY_LEVEL)
    lower = levels[:levels.index(level) + 1]
    return {feature for one in lower for feature in _ADDED_BY_LEVEL[one].split()}


def limited_features(name: str, level: str, available: Mapping[str, bool]) -> str:
    """The features of a level as LLVM takes them; refuse what `available` lacks."""
    if level not in _ADDED_BY_LEVEL:
        raise DeviceError(
            f"TRITON_XE_HOST_CPU={level} is no level of x86-64: set one of "
            f"{', '.join(_ADDED_BY_LEVEL)}, or unset it for all of this CPU ({name})")
    kept = _features_of_level(level)
    missing = sorted(feature for feature in kept if not available.get(feature))
    if missing:
        raise DeviceError(
            f"TRITON_XE_HOST_CPU={level} needs {', '.join(missing)}, which this CPU ({name}) "
            "lacks: set a lower level, or unset it")
    return ",".join(("+" if feature in kept else "-") + feature for feature in sorted(available))


_other: HostCpu | None = None


@contextmanager
def generate_for(host: HostCpu) -> Iterator[None]:
    """Generate code for another CPU, which cannot run here: to read it, or to compile it."""
    global _other
    before, _other = _other, host
    try:
        yield
    finally:
        _other = before


def host_cpu() -> HostCpu:
    """The CPU for which code is generated: this machine, except in `generate_for`."""
    return _other or this_machine()


@cache
def this_machine() -> HostCpu:
    """This machine, limited to the level of x86-64 in `TRITON_XE_HOST_CPU`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    available = llvm.get_host_cpu_features()
    triple, name, level = llvm.get_process_triple(), llvm.get_host_cpu_name(), knobs.host_cpu()
    features = limited_features(name, level, available) if level else available.flatten()
    if triple.startswith("x86_64"):
        features += _PREFERENCES
    return HostCpu(triple, level or name, features)


_IMPRECISE = frozenset({"_ZGVdN8v_cbrtf"})
"""Off by 2.9 units in the last place, where OpenCL allows 2."""


def vector_math_symbol(
    host: HostCpu, name: str, bits: int, count: int, operands: int
) -> str | None:
    """glibc's vector function (libmvec) for `count` elements, if this machine has it."""
    if not host.triple.startswith("x86_64"):
        return None
    letter = {512: "e", 256: "d"}.get(bits * count)
    if letter is None:
        return None
    suffix = "f" if bits == 32 else ""
    symbol = f"_ZGV{letter}N{count}{'v' * operands}_{name}{suffix}"
    return symbol if symbol not in _IMPRECISE and in_libmvec(symbol) else None


@cache
def in_libmvec(symbol: str) -> bool:
    """True if libmvec has a function; the library is then loaded for compiled code."""
    try:
        library = ctypes.CDLL("libmvec.so.1")
        getattr(library, symbol)
    except (OSError, AttributeError):
        return False
    llvm.load_library_permanently("libmvec.so.1")
    return True
