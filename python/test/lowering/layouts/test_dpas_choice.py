"""How warps share a dot, for all sizes: nothing computed twice where that can be avoided."""

import itertools

import pytest

from triton_xe.hardware.dpas import Dpas
from triton_xe.layout import to_linear_layout
from triton_xe.lowering.layouts.dpas_choice import dpas_encoding, operand_encoding

POWERS = (8, 16, 32, 64, 128, 256)
DOTS = {
    "f16": Dpas("f16", "f16", "f32"),
    "tf32": Dpas("tf32", "tf32", "f32"),
    "s8": Dpas("s8", "s8", "i32"),
    "f16 on 8 lanes": Dpas("f16", "f16", "f32", 8, 8),
}


@pytest.mark.parametrize("dpas", DOTS.values(), ids=DOTS)
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_every_element_has_an_owner_and_warps_do_not_repeat_work(dpas, warps):
    for m, n in itertools.product(POWERS, POWERS[1:]):
        encoding = dpas_encoding(m, n, warps, dpas)
        rows, columns = encoding.warps_per_cta
        assert rows * columns == warps
        layout = to_linear_layout(encoding, (m, n))
        assert layout.is_surjective
        tiles = (m // dpas.repeat_count) * (n // dpas.execution_size)
        idle = sum(1 for base in layout.bases["warp"] if not any(base))
        assert idle == max(0, (warps // tiles).bit_length() - 1)


@pytest.mark.parametrize("dpas", DOTS.values(), ids=DOTS)
def test_a_warp_owns_one_rectangle(dpas):
    for m, n, warps in itertools.product(POWERS, POWERS[1:], (4, 16)):
        layout = to_linear_layout(dpas_encoding(m, n, warps, dpas), (m, n))
        held = {(0, 0)}
        for dy, dx in layout.bases["register"] + layout.bases["lane"]:
            held |= {(y ^ dy, x ^ dx) for y, x in held}
        rows, columns = (max(p[d] for p in held) + 1 for d in (0, 1))
        assert len(held) == rows * columns


def test_shares_are_as_square_as_the_instruction_allows():
    f16 = DOTS["f16"]
    assert dpas_encoding(256, 256, 32, f16).warps_per_cta == (8, 4)
    assert dpas_encoding(128, 128, 8, f16).warps_per_cta == (4, 2)
    assert dpas_encoding(8, 512, 4, f16).warps_per_cta == (1, 4)
    assert dpas_encoding(512, 16, 4, f16).warps_per_cta == (4, 1)


@pytest.mark.parametrize(("m", "n", "warps", "k", "expected"), [
    (64, 128, 8, 64, (1, 8)), (128, 128, 8, 16, (1, 8)), (128, 128, 8, 32, (2, 4)),
    (256, 128, 16, 32, (4, 4)), (512, 128, 8, 32, (1, 8)),
], ids=["fit", "short rows", "fill the file", "twice", "sums alone fill it"])
def test_columns_are_shared_first_as_long_as_rows_fit(
    m: int, n: int, warps: int, k: int, expected: tuple[int, int]
) -> None:
    made = dpas_encoding(m, n, warps, DOTS["f16"], "columns", k)
    assert made.warps_per_cta == expected


@pytest.mark.parametrize("dpas", DOTS.values(), ids=DOTS)
@pytest.mark.parametrize("index", [0, 1])
def test_operands_cover_their_block(dpas, index):
    encoding = dpas_encoding(64, 64, 4, dpas)
    shape = ((64, 2 * dpas.k), (2 * dpas.k, 64))[index]
    layout = to_linear_layout(operand_encoding(index, encoding, dpas), shape)
    assert layout.is_surjective
    copies = [base for base in layout.bases["warp"] if not any(base)]
    assert len(copies) == encoding.warps_per_cta[1 - index].bit_length() - 1
