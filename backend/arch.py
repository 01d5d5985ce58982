"""Find the device that an `arch` names; Triton, torch and Inductor spell it differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import TARGETS, Target, nearest, target


class Arch(str):
    """The `arch` of our targets: a device's name that is also a capability mapping.

    Inductor and Triton's `target_info` compare it as text.  Kernels written for Intel GPUs read
    `target.arch["has_fp64"]`, with the keys of `torch.xpu.get_device_capability()`.

    >>> Arch("dg2") == "dg2", Arch("dg2")["has_fp64"], Arch("dg2").get("absent", 0)
    (True, False, 0)
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return _capabilities(str(self))[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Look a capability up, as `dict.get` does."""
        return _capabilities(str(self)).get(key, default)


def _capabilities(name: str) -> dict[str, Any]:
    """torch's capability mapping for the device with this name."""
    found = target(name)
    return {
        "arch": found.name,
        "has_fp16": True,
        "has_fp64": found.has_fp64,
        "has_bfloat16_conversions": found.has_bf16_conversion,
        "has_subgroup_matrix_multiply_accumulate": found.has_dpas,
        "has_subgroup_matrix_multiply_accumulate_tensor_float32": found.has_tf32_dpas,
        "has_subgroup_2d_block_io": found.has_block_2d,
        "has_2d_block_io": found.has_block_2d,
        "sub_group_sizes": list(found.subgroup_sizes),
        "max_work_group_size": found.max_work_group_size,
    }


def device_name(arch: Any) -> str:
    """The name in `TARGETS` for an `arch`; `UnsupportedError` if it is not an Intel GPU.

    `arch` is a device name, or the capability mapping of `torch.xpu.get_device_capability`.  Its
    `architecture` is the 32-bit IP version of the GPU shifted left by 8.  The version has 10 bits
    of architecture, 8 of release, 6 of revision (the GMDID register).  On some builds it is 0 or
    absent.

    >>> device_name("bmg"), device_name({"architecture": 0x0500400000})
    ('bmg', 'bmg')
    """
    if isinstance(arch, str):
        return target(_spelling(arch)).name
    if isinstance(arch, Mapping):
        return _from_capability(arch)
    raise UnsupportedError(
        f"arch {arch!r} is not an Intel GPU; use a device name ({', '.join(TARGETS)}) "
        "or torch.xpu.get_device_capability()"
    )


def _spelling(name: str) -> str:
    """Normalize a name: `arl_h` and `ARL-H` are `arl-h`; `bmg-g21`, `ptl_h` lose their suffix."""
    plain = name.strip().lower().replace("_", "-")
    is_device = plain.partition("-no-")[0] in TARGETS
    return plain if is_device else plain.partition("-")[0]


def _from_capability(capability: Mapping[str, Any]) -> str:
    """Name of the device that a capability mapping of Triton describes, or of the nearest one."""
    for key in ("arch", "target_name", "name"):
        found = _by_name(str(capability.get(key) or ""))
        if found is not None:
            return found.name
    sizes = tuple(capability.get("sub_group_sizes") or ())
    ip_version = _ip_version(capability.get("architecture"))
    if not sizes and not any(ip_version):
        raise UnsupportedError(
            "this capability mapping names no Intel GPU: it has neither arch, name, architecture "
            "nor sub_group_sizes; pass a device name such as 'bmg'"
        )
    has = {feature: bool(capability.get(key, True)) for feature, key in _FEATURES.items()}
    return nearest(ip_version, sizes, **has)[0].name


_FEATURES = {  # arguments of `nearest`, with the keys of a capability mapping
    "dpas": "has_subgroup_matrix_multiply_accumulate", "block2d": "has_subgroup_2d_block_io",
    "fp64": "has_fp64",
}


def _by_name(text: str) -> Target | None:
    """The target of a device name, or of a product name such as `Intel(R) Arc(TM) B580
    Graphics`.
    """
    plain = text.lower().replace("(tm)", "").replace("(r)", "")
    if _spelling(plain).partition("-no-")[0] in TARGETS:
        return target(_spelling(plain))
    words = {t.name: t.product.lower().split() for t in TARGETS.values()}
    hits = [name for name, product in words.items() if product and product[-1] in plain.split()]
    return TARGETS[hits[0]] if len(hits) == 1 else None


def _ip_version(value: Any) -> tuple[int, int]:
    """Architecture and release from an `architecture` entry; zeros if it is unusable."""
    if not isinstance(value, int) or value <= 0:
        return (0, 0)
    register = value >> 8 if value >= 1 << 32 else value
    return (register >> 22 & 0x3FF, register >> 14 & 0xFF)
