"""The arguments of a simulated launch, as a GPU's launch code takes or refuses them."""

from __future__ import annotations

import numpy as np
import pytest

from triton_xe.errors import DeviceError
from triton_xe.runtime.simulator.run.launch import pack_arguments


@pytest.mark.parametrize(
    ("kind", "value", "packed"),
    [
        ("i1", True, b"\1"), ("i8", -128, b"\x80"), ("i8", 255, b"\xff"), ("i32", -1, b"\xff" * 4),
        ("i32", 2**32 - 1, b"\xff" * 4), ("i64", 2**64 - 1, b"\xff" * 8),
        ("i16", np.int8(-2), b"\xfe\xff"),
        ("ptr", 2**64 - 1, b"\xff" * 8), ("f32", 1, b"\0\0\x80\x3f"),
        ("f16", -0.5, b"\0\xb8"), ("f64", 1.5, b"\0\0\0\0\0\0\xf8\x3f"),
        ("f16", 65519.0, b"\xff\x7b"), ("f16", -65520.0, b"\0\xfc"),
        ("f32", np.float64(3.5e38), b"\0\0\x80\x7f"), ("f32", -np.inf, b"\0\0\x80\xff"),
    ],
)
def test_what_fits_is_packed(kind: str, value: int, packed: bytes) -> None:
    assert bytes(pack_arguments("k", (kind,), [value])) == packed.ljust(8, b"\0")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("i1", 2), ("i1", -1), ("i8", 256), ("i8", -129), ("i32", 2**32), ("i32", -(2**31) - 1),
     ("i64", 2**64), ("ptr", 2**64)],
)
def test_what_does_not_fit_is_refused(kind: str, value: int) -> None:
    with pytest.raises(DeviceError, match=r"argument 1 \(-?\d+\) does not fit the type"):
        pack_arguments("k", ("i32", kind), [0, value])


def test_a_fraction_is_no_integer() -> None:
    with pytest.raises(TypeError):
        pack_arguments("k", ("i32",), [1.5])
