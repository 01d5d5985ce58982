"""The host CPU, as LLVM names it, and what the native forms need to know about it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm


@dataclass(frozen=True)
class HostCpu:
    """`triple`, `name` and `features` make LLVM's target machine."""

    triple: str
    name: str
    features: str

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register in use."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def is_amd(self) -> bool:
        """One of AMD's, from Zen on."""
        return self.name.startswith("znver")

    @property
    def float_bank(self) -> str:
        """The register class of a number in floating point, as inline assembly spells it."""
        return "x" if self.triple.startswith("x86_64") else "w"

    @property
    def vector_registers(self) -> int:
        return 16 if self.triple.startswith("x86_64") and not self.has("avx512f") else 32


_PREFERENCES = ",-prefer-256-bit,+fast-dpwssd"
"""64-byte vectors; and VPDPWSSD whole, which LLVM would split where chains of it are long."""


@cache
def host_cpu() -> HostCpu:
    """This machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    triple = llvm.get_process_triple()
    if triple.startswith("x86_64"):
        features += _PREFERENCES
    return HostCpu(triple, llvm.get_host_cpu_name(), features)


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
    """Whether the function exists; then calls of it can be compiled."""
    try:
        library = ctypes.CDLL("libmvec.so.1")
        getattr(library, symbol)
    except (OSError, AttributeError):
        return False
    llvm.load_library_permanently("libmvec.so.1")
    return True
