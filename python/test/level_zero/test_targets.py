"""IP versions of devices and the targets they get."""

from __future__ import annotations

import pytest

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import TARGETS, by_ip_version


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_found_by_its_ip_version(name: str) -> None:
    assert by_ip_version(TARGETS[name].ip_version) == (TARGETS[name], True)


@pytest.mark.parametrize(
    ("ip_version", "name", "known"),
    [
        ((12, 56, 5), "dg2", True), ((12, 57, 0), "dg2", True), ((12, 71, 4), "mtl", True),
        ((20, 2, 0), "bmg", True), ((20, 4, 4), "lnl", True), ((20, 9, 0), "lnl", False),
        ((30, 0, 4), "ptl", True), ((30, 4, 4), "ptl", False), ((35, 11, 0), "ptl", False),
    ],
)
def test_relatives_and_newer_devices(
    ip_version: tuple[int, ...], name: str, known: bool
) -> None:
    found, is_known = by_ip_version(ip_version)
    assert (found.name, is_known) == (name, known)


def test_ponte_vecchio_without_matrix_unit() -> None:
    found, _ = by_ip_version((12, 61, 7))
    assert not found.has_dpas
    assert not found.has_tf32_dpas
    assert found.has_block_2d


@pytest.mark.parametrize("ip_version", [(9, 0, 9), (12, 0, 0), (12, 10, 0)])
def test_older_devices_are_refused(ip_version: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match="older than Xe-HPG"):
        by_ip_version(ip_version)
