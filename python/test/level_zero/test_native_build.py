"""Which of two builds is used: decided alike for Intel's driver and its offline compiler."""

from __future__ import annotations

import pytest

from python.test.level_zero.conftest import native_binary
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import target
from triton_xe.runtime.level_zero.native_build import build, file_to_try
from triton_xe.runtime.spirv_reader import EntryPoint

LARGE = RegisterFile(256)
REFUSED = None
"""Spills of a build that the compiler refuses."""


class Refusal(DeviceError):
    """The compiler refuses to build."""


@pytest.mark.parametrize(("small", "large", "larger", "flags", "builds"), [
    (0, 0, LARGE, "-x", 1),
    (64, 0, LARGE, f"-x {LARGE.flag}", 2),
    (64, 63, LARGE, f"-x {LARGE.flag}", 2),
    (64, 64, LARGE, "-x", 2),
    (64, REFUSED, LARGE, "-x", 2),
    (REFUSED, 64, LARGE, f"-x {LARGE.flag}", 2),
    (64, 0, None, "-x", 1),
])
def test_the_build_that_spills_less_is_used(
    small: int | None, large: int | None, larger: RegisterFile | None, flags: str, builds: int
) -> None:
    asked = []

    def once(flags: str) -> tuple[bytes, str]:
        asked.append(flags)
        is_large = LARGE.flag in flags
        spills = large if is_large else small
        if spills is REFUSED:
            raise Refusal("too many registers")
        return native_binary("k", 256 if is_large else 128, spills), f"object of {flags}"

    built = build(once, "-x", larger, lambda error: isinstance(error, Refusal))
    is_large = LARGE.flag in flags
    assert (built.flags, built.made, len(asked)) == (flags, f"object of {flags}", builds)
    assert (built.spills, built.registers) == ((large, 256) if is_large else (small, 128))
    assert built.spills_at_128 == (small if is_large and small is not REFUSED else 0)


@pytest.mark.parametrize("is_small", [True, False])
def test_other_errors_of_a_build_are_raised(is_small: bool) -> None:
    def once(flags: str) -> tuple[bytes, None]:
        if (LARGE.flag in flags) != is_small:
            raise DeviceError("the driver is lost")
        return native_binary("k", 128, 64), None

    with pytest.raises(DeviceError, match="lost"):
        build(once, "", LARGE, lambda error: isinstance(error, Refusal))


@pytest.mark.parametrize(("group", "subgroup", "device", "file"), [
    ((512, 1, 1), 16, "bmg", LARGE), ((16, 33, 1), 16, "bmg", None),
    ((1024, 1, 1), 32, "bmg", LARGE), ((0, 0, 0), 0, "bmg", LARGE),
    ((512, 1, 1), 8, "dg2", LARGE),
])
def test_the_larger_file_must_leave_threads_for_a_work_group(
    group: tuple[int, int, int], subgroup: int, device: str, file: RegisterFile | None
) -> None:
    assert file_to_try(EntryPoint("k", (), subgroup, group), "", target(device)) == file
