"""Names of library functions; each spells out everything its code depends on."""

from __future__ import annotations

from triton_xe.hardware.dpas import Dpas


def block_read_name(bits: int, width: int, height: int, blocks: int, mode: str) -> str:
    return f"xe_block_read_{bits}_{width}x{height}x{blocks}_{mode}"


def tile_name(bits: int, width: int, height: int, blocks: int, mode: str) -> str:
    return f"xe_tile_{bits}_{width}x{height}x{blocks}_{mode}"


def block_write_name(bits: int, width: int, height: int) -> str:
    return f"xe_block_write_{bits}_{width}x{height}"


def prepare_name(role: str) -> str:
    return f"xe_prepare_{role}"


def dpas_roles(shape: Dpas) -> tuple[str, str]:
    """How A and B are prepared: rows of fp32 or i16, and rows of fp32 or pairs of i16.

    `<a or b>_<type>_<rows>x<columns>_<bytes prepared>`
    """
    rows, k, columns, unit = (
        shape.repeat_count, shape.k, shape.execution_size, 4 if shape.is_float else 2)
    return (f"a_{shape.a}_{rows}x{k}_{rows * k * unit}",
            f"b_{shape.b}_{k}x{columns}_{k * columns * unit}")


def dpas_name(
    shape: Dpas, accumulator: str, form: str, steps: int, ahead: bool = False
) -> str:
    kind = "f32" if shape.is_float else "i16"
    size = f"{shape.repeat_count}x{shape.k}x{shape.execution_size}"
    return f"xe_dpas_{kind}_{accumulator}_{size}_{form}{steps}{'_ahead' if ahead else ''}"


DPAS_UNROLLED = 4
"""Units of K (32 bits of A) per pass of a native DPAS: it hides the loop's end, and stays small."""
ROWS_PER_PASS = 2
"""Rows that each pass reads ahead for a later block read."""


def dpas_rows_ahead(shape: Dpas, steps: int) -> int:
    """Rows that a native DPAS of so many steps reads ahead."""
    units = shape.k if shape.is_float else shape.k // 2
    return ROWS_PER_PASS * steps * (units // DPAS_UNROLLED)
