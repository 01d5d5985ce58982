"""The host CPU, limited by `TRITON_XE_HOST_CPU`."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import pytest

from triton_xe.errors import DeviceError
from triton_xe.runtime.simulator.run.host_cpu import host_cpu, limited_features, this_machine

ZEN_3 = dict.fromkeys(
    "64bit avx avx2 bmi bmi2 clwb cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf "
    "sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 xsave".split(), True) | {"avx512f": False}


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    this_machine.cache_clear()
    yield
    this_machine.cache_clear()


def test_a_level_has_its_features_and_no_more() -> None:
    features = limited_features("znver3", "x86-64-v3", ZEN_3).split(",")
    assert {"+avx2", "+fma", "-avx512f", "-clwb", "-sse4a"} <= set(features)
    lower = limited_features("znver3", "x86-64-v2", ZEN_3).split(",")
    assert {"+sse4.2", "-avx2", "-fma"} <= set(lower)
    assert len(features) == len(lower) == len(ZEN_3)


@pytest.mark.parametrize(("level", "words"), [
    ("x86-64-v4", "needs avx512bw, .* which this CPU .znver3. lacks: set a lower level"),
    ("zen", "no level of x86-64: set one of x86-64, x86-64-v2"),
])
def test_what_the_cpu_lacks_is_refused(level: str, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        limited_features("znver3", level, ZEN_3)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
def test_the_variable_limits_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_HOST_CPU", "x86-64-v2")
    limited = host_cpu()
    assert (limited.name, limited.vector_bytes) == ("x86-64-v2", 16)
    assert not limited.has("avx2")
