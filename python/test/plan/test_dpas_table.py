"""DPAS: accepted combinations, operand types, and the operands' places in the registers."""

from __future__ import annotations

import pytest

from triton_xe.errors import LegalityError
from triton_xe.hardware.dpas import Dpas, Fragment, check_dpas
from triton_xe.hardware.target import target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, to_linear_layout
from triton_xe.plan import fragment_of

XMX = ("dg2", "arl-h", "pvc", "bmg", "lnl", "ptl")


@pytest.mark.parametrize(
    ("a", "b", "accumulator", "devices"),
    [
        ("f16", "f16", "f32", XMX),
        ("f16", "f16", "f16", XMX),
        ("bf16", "bf16", "bf16", XMX),
        ("tf32", "tf32", "f32", XMX[2:]),
        ("s8", "u8", "i32", XMX),
        ("u8", "s4", "i32", XMX),
        ("s2", "u4", "i32", XMX),
        ("f16", "bf16", "f32", ()),
        ("f16", "f16", "bf16", ()),
        ("s8", "s8", "f32", ()),
        ("f16", "s8", "f32", ()),
        ("bf8", "hf8", "f32", ()),
        ("e2m1", "e2m1", "f32", ()),
        ("f64", "f64", "f64", ()),
    ],
)
def test_combinations(a: str, b: str, accumulator: str, devices: tuple[str, ...]) -> None:
    for name in (*XMX, "mtl"):
        reason = check_dpas(a, b, accumulator, target(name))
        assert (reason is None) == (name in devices), (name, reason)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"repeat_count": 16}, "DPAS has 1 to 8 rows, not 16"),
        ({"depth": 4}, "the systolic depth is 8, not 4"),
        ({"subgroup_size": 32}, "DPAS on bmg needs subgroups of 16, not 32"),
    ],
)
def test_parameters(options: dict[str, int], reason: str) -> None:
    assert check_dpas("f16", "f16", "f32", target("bmg"), **options) == reason


@pytest.mark.parametrize(
    ("dpas", "k", "types"),
    [
        (Dpas("f16", "f16", "f32"), 16, ("<8 x float>", "<8 x i16>", "<8 x i32>")),
        (Dpas("bf16", "bf16", "bf16", 4), 16, ("<4 x i16>", "<4 x i16>", "<8 x i32>")),
        (Dpas("tf32", "tf32", "f32"), 8, ("<8 x float>", "<4 x i32>", "<8 x i32>")),
        (Dpas("tf32", "tf32", "f32", 1), 8, ("<1 x float>", "<1 x i32>", "<8 x i32>")),
        (Dpas("s8", "u8", "i32"), 32, ("<8 x i32>", "<8 x i16>", "<8 x i32>")),
        (Dpas("s4", "s4", "i32"), 64, ("<8 x i32>", "<8 x i16>", "<8 x i32>")),
        (Dpas("s4", "s8", "i32"), 32, ("<8 x i32>", "<8 x i8>", "<8 x i32>")),
        (Dpas("s8", "s4", "i32"), 32, ("<8 x i32>", "<8 x i16>", "<4 x i32>")),
        (Dpas("f16", "f16", "f32", 8, 8), 16, ("<8 x float>", "<8 x i32>", "<8 x i32>")),
        (Dpas("s8", "s8", "i32", 8, 8), 32, ("<8 x i32>", "<8 x i32>", "<8 x i32>")),
    ],
    ids=str,
)
def test_operand_types(dpas: Dpas, k: int, types: tuple[str, str, str]) -> None:
    assert dpas.k == k
    assert dpas.llvm_types == types


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("kind", ["f16", "s8", "tf32"])
@pytest.mark.parametrize("repeat", [2, 8])
def test_fragments_are_the_encodings(size: int, kind: str, repeat: int) -> None:
    """One instruction's registers, as the table and as `#xe.dpas` have them."""
    accumulator = "i32" if kind == "s8" else "f32"
    dpas = Dpas(kind, kind, accumulator, repeat, size)
    operations = dpas.operations_per_channel
    parent = DpasEncoding(repeat, 8, size, operations, size, (1, 1), (1, 1))
    shapes = {"a": (repeat, dpas.k), "b": (dpas.k, size), "c": (repeat, size)}
    for operand, shape in shapes.items():
        width = parent.expected_k_width("ab".index(operand)) if operand != "c" else 0
        encoding = (
            parent if operand == "c" else DotOperandEncoding("ab".index(operand), parent, width)
        )
        fragment = dpas.fragment(operand)
        bits = 32 // operations if operand != "c" else 32
        assert fragment_of(encoding, bits) == fragment
        layout = to_linear_layout(encoding, shape)
        assert layout.in_dims["register"] == fragment.registers
        for (register, lane), place in dpas.coordinates(operand).items():
            index = {"register": register, "lane": lane, "warp": 0, "block": 0}
            assert tuple(layout.apply(index).values()) == place


def test_no_fragment_for_converted_elements() -> None:
    """8-bit elements in a 16-bit operand's layout are converted first, one by one."""
    parent = DpasEncoding(8, 8, 16, 2, 16, (1, 1), (1, 1))
    assert fragment_of(DotOperandEncoding(0, parent, 1), 8) is None


def test_bad_values() -> None:
    with pytest.raises(LegalityError, match="accumulates in f32 or f16, not i32"):
        Dpas("f16", "f16", "i32")
    with pytest.raises(LegalityError, match="8 or 16 wide, not 32"):
        Dpas("f16", "f16", "f32", execution_size=32)
    with pytest.raises(LegalityError, match="power of 2 of registers, not 3"):
        Fragment(3)
    with pytest.raises(LegalityError, match="operands a, b and c, not 'd'"):
        Dpas("f16", "f16", "f32").fragment("d")
