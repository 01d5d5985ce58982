"""Devices: their instruction sets, sizes and limits.

Sources: the IP versions and capability flags of Intel's compute runtime (NEO) and graphics compiler
(IGC), probed with ocloc 26.27.  The example machines are from Intel's product pages.  Their PCI
device ids are in NEO's `shared/source/dll/devices/devices_base.inl`.

Xe3P (`cri`, `nvl-p`): register files and threads are from IGC's `visa/G4_Kernel.cpp` and the
`ze_info` of ocloc's binaries.  Shared memory is from NEO's `hw_info_cri.cpp` and
`hw_info_nvlp.cpp`.  Matrix types are from oneDNN's `ngen_core.hpp`, scaled ones by `nativeBDPAS` in
its `problem.hpp`.  No such card was sold when this was written: cores, clocks and memory of the
example machines are assumed (`triton_xe.model.rates` marks them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from triton_xe.errors import UnsupportedError


class Target(NamedTuple):
    """One device type.  Sizes in bytes, `threads_per_eu` by register file (registers per thread).

    >>> target("bmg").subgroup_size
    16
    """

    name: str
    ip_version: tuple[int, ...]
    architecture: str
    grf_bytes: int
    subgroup_sizes: tuple[int, ...]
    subgroup_size: int
    """Lanes of a warp in kernels for this device; equals the DPAS execution size."""
    dpas_execution_size: int
    """8 or 16; 0 if the device has no matrix unit."""
    has_block_2d: bool
    has_fp64: bool
    has_bf16_conversion: bool
    has_tf32_dpas: bool
    has_fp8_dpas: bool
    has_fp4_dpas: bool
    has_mixed_integer_dpas: bool
    """True if one operand may have 8 bits and the other 4 or 2; else both have 8, or both 4."""
    has_scaled_dpas: bool
    """True if DPAS exists with E8M0 scales (`bdpas`)."""
    has_16_bit_atomics: bool
    """True if fp16 and bf16 in global memory are added to by one message."""
    max_slm_bytes: int
    max_work_group_size: int
    grf_modes: tuple[int, ...]
    eus_per_core: int
    threads_per_eu: Mapping[int, int]
    address_bits: int = 48
    """Bits of a GPU address (NEO, `hw_info_*.cpp`: `gpuAddressSpace`)."""
    has_named_barrier: bool = True
    has_fp8_conversion: bool = False
    large_file: int = 256
    """Registers per thread for kernels that do not fit the small register file."""
    binaries_of: str = ""
    """Device whose binaries this one runs; empty if only its own."""
    # one example machine, for simulated devices
    product: str = ""
    xe_cores: int = 1
    slices: int = 1
    clock_mhz: int = 1000
    memory: str = "LPDDR5"
    memory_bytes: int = 8 << 30
    memory_clock_mhz: int = 1000
    memory_bus_bits: int = 128
    last_level_cache_bytes: int = 8 << 20
    is_integrated: bool = False
    device_id: int = 0
    """PCI device id of the example machine."""
    stepping: int = 0
    """Last number of the IP version."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Target({self.name!r})"

    @property
    def has_dpas(self) -> bool:
        return self.dpas_execution_size > 0

    @property
    def has_int64(self) -> bool:
        """True if integers of 64 bits are added by one instruction, from Xe-HPC on.

        Source: IGC, Platform.hpp: `hasNoInt64Inst`.
        """
        return self.grf_bytes == 64


_XE2_GRF = (128, 256)
_XE3_GRF = (32, 64, 96, 128, 160, 192, 256)
_TWO = {128: 8, 256: 4}
_XE3_THREADS = {32: 10, 64: 10, 96: 10, 128: 8, 160: 6, 192: 5, 256: 4}
_CRI_THREADS = {32: 8, 64: 8, 96: 8, 128: 8, 160: 6, 192: 5, 256: 4, 512: 4}
"""An engine holds 2048 registers, twice as many as others: 512 leave as many threads as 256."""


def _xe(name: str, ip: tuple[int, ...], architecture: str, **kw: Any) -> Target:
    base: dict[str, Any] = dict(
        grf_bytes=64, subgroup_sizes=(16, 32), subgroup_size=16, dpas_execution_size=16,
        has_block_2d=True, has_fp64=True, has_bf16_conversion=True, has_tf32_dpas=True,
        has_fp8_dpas=False, has_fp4_dpas=False, has_mixed_integer_dpas=True,
        has_scaled_dpas=False, has_16_bit_atomics=False, max_slm_bytes=128 << 10,
        max_work_group_size=1024, grf_modes=_XE2_GRF, eus_per_core=8, threads_per_eu=_TWO,
    )
    return Target(name=name, ip_version=ip, architecture=architecture, **(base | kw))


_XE3: dict[str, Any] = dict(
    grf_modes=_XE3_GRF, threads_per_eu=_XE3_THREADS, has_fp8_conversion=True,
)
_SMALL_XE3: dict[str, Any] = _XE3 | dict(
    binaries_of="ptl", slices=1, memory_bytes=16 << 30, memory_clock_mhz=4800, is_integrated=True,
)
_XE3P: dict[str, Any] = _XE3 | dict(
    has_fp8_dpas=True, has_scaled_dpas=True, has_16_bit_atomics=True, has_mixed_integer_dpas=False)
_HPG: dict[str, Any] = dict(
    grf_bytes=32, subgroup_sizes=(8, 16, 32), subgroup_size=8, dpas_execution_size=8,
    has_block_2d=False, has_tf32_dpas=False, max_slm_bytes=64 << 10, eus_per_core=16,
    has_named_barrier=False,
)

TARGETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        _xe("dg2", (12, 55), "Xe-HPG", **(_HPG | dict(has_fp64=False)), product="Arc A770",
            xe_cores=32, slices=8, clock_mhz=2100, memory="GDDR6", memory_bytes=16 << 30,
            memory_clock_mhz=8750, memory_bus_bits=256, last_level_cache_bytes=16 << 20,
            device_id=0x56A0, stepping=8),
        _xe("mtl", (12, 70), "Xe-LPG", **(_HPG | dict(dpas_execution_size=0,
            has_bf16_conversion=False)), product="Arc Graphics (Meteor Lake)", xe_cores=8, slices=2,
            clock_mhz=2250, is_integrated=True, device_id=0x7D55, stepping=4),
        _xe("arl-h", (12, 74), "Xe-LPG+", **_HPG,
            product="Arc 140T", xe_cores=8, slices=2, clock_mhz=2350, is_integrated=True,
            device_id=0x7D51, stepping=4),
        _xe("pvc", (12, 60), "Xe-HPC", address_bits=57, product="Data Center GPU Max 1100",
            xe_cores=56, slices=7, clock_mhz=1550, memory="HBM2e", memory_bytes=48 << 30,
            memory_clock_mhz=1600, memory_bus_bits=3072, last_level_cache_bytes=208 << 20,
            device_id=0x0BDA, stepping=7),
        _xe("bmg", (20, 1), "Xe2-HPG", product="Arc B580", xe_cores=20, slices=5, clock_mhz=2670,
            memory="GDDR6", memory_bytes=12 << 30, memory_clock_mhz=9500, memory_bus_bits=192,
            last_level_cache_bytes=18 << 20, device_id=0xE20B, stepping=0),
        _xe("bmg-g31", (20, 2), "Xe2-HPG", binaries_of="bmg", product="Arc Pro B70", xe_cores=32,
            slices=8, clock_mhz=2800, memory="GDDR6", memory_bytes=32 << 30, memory_clock_mhz=9500,
            memory_bus_bits=256, last_level_cache_bytes=24 << 20, device_id=0xE223),
        _xe("lnl", (20, 4), "Xe2-LPG", product="Arc 140V", xe_cores=8, slices=2, clock_mhz=2050,
            memory_bytes=16 << 30, memory_clock_mhz=4266, memory_bus_bits=128,
            is_integrated=True, device_id=0x64A0, stepping=4),
        _xe("ptl", (30, 0), "Xe3-LPG", product="Arc B390", xe_cores=12, slices=2, clock_mhz=2500,
            memory_bytes=16 << 30, memory_clock_mhz=4800, memory_bus_bits=128, **_XE3,
            is_integrated=True, device_id=0xB080, stepping=4),
        _xe("wcl", (30, 3), "Xe3-LPG", **_SMALL_XE3, product="Arc Graphics (Wildcat Lake)",
            xe_cores=2, clock_mhz=2500, memory_bus_bits=64, device_id=0xFD80, stepping=1),
        _xe("nvl-s", (30, 4), "Xe3-LPG", **_SMALL_XE3, product="Arc Graphics (Nova Lake S)",
            xe_cores=2, clock_mhz=2500, device_id=0xD740, stepping=4),
        _xe("nvl-u", (30, 5), "Xe3-LPG", **_SMALL_XE3, product="Arc Graphics (Nova Lake U)",
            xe_cores=4, clock_mhz=2500, device_id=0xD741, stepping=4),
        _xe("nvl-p", (35, 10), "Xe3P-LPG", **(_XE3P | dict(
            grf_modes=(*_XE3_GRF, 320, 448, 512),
            threads_per_eu=_XE3_THREADS | {320: 3, 448: 2, 512: 2})),
            max_slm_bytes=192 << 10, product="Arc Graphics (Nova Lake P)", xe_cores=12, slices=2,
            clock_mhz=2500, memory_bytes=32 << 30, memory_clock_mhz=4800, is_integrated=True,
            device_id=0xD750, stepping=4),
        _xe("cri", (35, 11), "Xe3P-XPC", **(_XE3P | dict(
            grf_modes=(*_XE3_GRF, 512), threads_per_eu=_CRI_THREADS)), large_file=512,
            has_fp4_dpas=True, max_slm_bytes=384 << 10, address_bits=57, product="Crescent Island",
            xe_cores=32, slices=8, clock_mhz=2500, memory_bytes=160 << 30, memory_clock_mhz=4800,
            memory_bus_bits=640, last_level_cache_bytes=24 << 20, device_id=0x674C),
    )
}


_FEATURES_OFF: Mapping[str, Mapping[str, Any]] = {
    "dpas": dict(dpas_execution_size=0, has_tf32_dpas=False, has_fp8_dpas=False,
                 has_fp4_dpas=False, has_scaled_dpas=False),
    "block2d": dict(has_block_2d=False),
    "fp64": dict(has_fp64=False),
}
"""Features that a device may lack although it has the other instructions of its target."""
_NO = "-no-"
ALIASES: Mapping[str, str] = {
    "b70": "bmg-g31", "bmg-g21": "bmg", "ptl-h": "ptl", "ptl-u": "ptl", "nvl-hx": "nvl-s",
    "nvl-ul": "nvl-s", "nvl-h": "nvl-u", "arl-s": "mtl", "arl-u": "mtl", "mtl-u": "mtl",
}  # fmt: skip
"""Other names of devices, those of `ocloc` among them -> the row."""


def row_name(name: str) -> str:
    """The name of a device's row in `TARGETS`; a name that is none stays as it is.

    >>> row_name("b70")
    'bmg-g31'
    """
    return ALIASES.get(name, name)


def target(name: str) -> Target:
    """The device called `name`; `UnsupportedError` lists the known ones.

    >>> target("pvc-no-dpas").has_dpas
    False
    """
    if name in TARGETS:
        return TARGETS[name]
    base, *lacking = name.split(_NO)
    if not is_target(name):
        raise UnsupportedError(f"unknown Intel GPU {name!r}; {known_names(name)}")
    found = TARGETS[row_name(base)]
    for feature in lacking:
        found = found._replace(**_FEATURES_OFF[feature])
    return found._replace(name=_NO.join([found.name, *lacking]))


def is_target(name: str) -> bool:
    """True if `target` knows the name."""
    base, *lacking = name.split(_NO)
    return row_name(base) in TARGETS and all(feature in _FEATURES_OFF for feature in lacking)


def without(found: Target, **has: bool) -> Target:
    """Return the target whose name says which of `dpas`, `block2d` and `fp64` the device lacks.

    >>> without(target("ptl"), dpas=True, block2d=False).name
    'ptl-no-block2d'
    """
    had = {"dpas": found.has_dpas, "block2d": found.has_block_2d, "fp64": found.has_fp64}
    lacking = [feature for feature, is_there in has.items() if had[feature] and not is_there]
    return target(_NO.join([found.name, *lacking]))


def known_names(wanted: str) -> str:
    """List the devices, and suggest the one that an unknown name may have meant.

    >>> known_names("b580").partition(";")[0]
    'did you mean bmg (Arc B580)?'
    """
    from difflib import get_close_matches

    known = f"known: {', '.join(TARGETS)}"
    words = {word.lower(): name for name, each in TARGETS.items() for word in each.product.split()
             if any(letter.isdigit() for letter in word)}
    product = words.get(wanted.lower())
    near = [product] if product else get_close_matches(wanted, TARGETS) or [
        name for word, name in words.items() if word[0] == wanted[:1].lower()]
    if not near:
        return known
    found = TARGETS[near[0]]
    return f"did you mean {found.name} ({found.product})?; {known}"


_FIRST_XE = (12, 55)
BY_RELEASE = {t.ip_version: t.name for t in TARGETS.values()} | {
    (12, 56): "dg2", (12, 57): "dg2", (12, 61): "pvc-no-dpas", (12, 71): "mtl", (30, 1): "ptl",
}
_BY_GENERATION = {20: "lnl", 30: "ptl", 35: "nvl-p"}
"""Device whose instructions an unlisted release has, by generation."""


def by_ip_version(ip_version: tuple[int, ...]) -> tuple[Target, bool]:
    """Return the target for an IP version, and True if this very device is known.

    A newer device gets the newest target, because it has those instructions too unless its driver
    says otherwise (`without`).  Raise `UnsupportedError` for a device older than Xe-HPG.
    """
    release = (ip_version[0], ip_version[1])
    if release < _FIRST_XE:
        raise UnsupportedError(
            f"IP version {'.'.join(map(str, ip_version))} is older than Xe-HPG (12.55): its "
            "kernels cannot be compiled; use an Arc, Data Center GPU Max or newer Core Ultra GPU"
        )
    name = BY_RELEASE.get(release)
    if name is not None:
        return target(name), True
    generation = max((g for g in _BY_GENERATION if g <= release[0]), default=0)
    return TARGETS[_BY_GENERATION.get(generation, "mtl")], False


def releases_of(name: str) -> tuple[tuple[int, int], ...]:
    """The releases (major, minor of the IP version) of a device, and of those that run its code.

    >>> releases_of("bmg")
    ((20, 1), (20, 2))
    """
    served = {name, *(t.name for t in TARGETS.values() if t.binaries_of == name)}
    return tuple(sorted({(r[0], r[1]) for r, held in BY_RELEASE.items() if held in served}))


def nearest(
    ip_version: tuple[int, ...], subgroup_sizes: tuple[int, ...], **has: bool
) -> tuple[Target, bool]:
    """Return the target whose code a device runs, and True if this very device is known.

    For an unknown device, `has` says which of `without`'s features it has.

    >>> nearest((36, 1, 0), (16, 32), dpas=True, block2d=False, fp64=True)[0].name
    'nvl-p-no-block2d'
    """
    if any(ip_version):
        found, is_known = by_ip_version(ip_version)
    else:
        found, is_known = TARGETS["bmg" if min(subgroup_sizes) == 16 else "dg2"], False
    return (found if is_known else without(found, **has)), is_known
