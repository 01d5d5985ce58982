"""Recommend tiles of work-groups and subgroups for a product MxNxK, by predicted time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.hardware.dpas import SYSTOLIC_DEPTH, Dpas
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, to_linear_layout
from triton_xe.model.gemm import Shape, Tile, candidates, gemm
from triton_xe.model.rates import PRODUCTS, Rates
from triton_xe.model.time import predict
from triton_xe.plan import BlockPlan, SurfaceFacts, fragment_of, plan_load

ADDRESSES = 16
"""Registers for descriptors of A, B, C and of prefetches, and for the loop."""
STEP = 32
"""Rows of B in an iteration of the K loop, as in `examples.matmul`."""
ACCUMULATORS = {"s8": "i32", "u8": "i32"}
NAMES = {"i8": "s8", "f32": "tf32", "tf32": "tf32", "f16": "f16", "bf16": "bf16"}


@dataclass(frozen=True)
class Choice:
    """One tiling of a product; counts are per subgroup in an iteration of `STEP` rows of B."""

    tile: Tile
    needed: int
    products: int
    loads: int
    microseconds: float
    bound: str

    @property
    def row(self) -> tuple[str, ...]:
        t = self.tile
        return (f"{t.m}x{t.n}", f"{t.sub_m}x{t.sub_n}", str(t.subgroups),
                f"{self.needed} of {t.registers}", str(self.products), str(self.loads),
                f"{self.microseconds:.1f}", self.bound)


HEADER = ("work-group", "subgroup", "subgroups", "registers", "DPAS", "loads", "us", "bound by")


def registers_needed(tile: Tile, dpas: Dpas, device: Target) -> int:
    """Registers that a subgroup needs: C, A and B of one iteration, and addresses.

    >>> from triton_xe.hardware.target import target
    >>> registers_needed(Tile(256, 256, 32, 64), Dpas("f16", "f16", "f32"), target("bmg"))
    240
    """
    bits = (tile.sub_m * tile.sub_n * dpas.bits_of("c") + STEP * (
        tile.sub_m * dpas.bits_of("a") + tile.sub_n * dpas.bits_of("b")))
    return -(-bits // (8 * device.grf_bytes)) + ADDRESSES


def recommended(m: int, n: int, k: int, element: str, device: Target) -> list[Choice]:
    """Tiles that fit the registers, in order of predicted time."""
    known = [r for r in PRODUCTS.values() if r.device.name == device.name]
    if not known or not device.has_dpas:
        raise UnsupportedError(f"{device.name} has no matrix unit")
    name = NAMES.get(element)
    if name is None:
        raise LegalityError(f"products of {element}: choose one of {', '.join(NAMES)}")
    dpas = Dpas(name, name, ACCUMULATORS.get(name, "f32"), 8, device.dpas_execution_size)
    size = dpas.bits_of("a") / 8
    rates = min(known, key=lambda r: r.product != device.product)
    found = _choices(Shape(m, n, k, size, size, dpas.bits_of("c") / 8), dpas, rates)
    return sorted(found, key=lambda choice: choice.microseconds)


def _choices(shape: Shape, dpas: Dpas, rates: Rates) -> Iterator[Choice]:
    device = rates.device
    for tile in candidates(shape):
        needed = registers_needed(tile, dpas, device)
        mode = next((r for r in device.grf_modes if r >= max(needed, 128)), None)
        most = mode and device.eus_per_core * device.threads_per_eu[mode]
        if mode is None or tile.subgroups > min(most or 0, 32 * 16 // device.subgroup_size):
            continue
        tile = replace(tile, registers=mode)
        time = predict(gemm(shape, tile, rates.lanes), rates)
        count = tile.sub_m * tile.sub_n * STEP // (8 * dpas.execution_size * dpas.k)
        yield Choice(tile, needed, count, _loads(tile, dpas, device), time.us, time.bound)


def _loads(tile: Tile, dpas: Dpas, device: Target) -> int:
    """Block loads of A and B in one iteration."""
    parent = DpasEncoding(
        dpas.repeat_count, SYSTOLIC_DEPTH, dpas.execution_size, dpas.operations_per_channel,
        dpas.execution_size, (1, 1),
        (tile.sub_m // dpas.repeat_count, tile.sub_n // dpas.execution_size))
    total = 0
    for index, sizes in enumerate(((tile.sub_m, STEP), (STEP, tile.sub_n))):
        bits = dpas.bits_of("ab"[index])
        encoding = DotOperandEncoding(index, parent, dpas.fragment("ab"[index]).packed)
        plan = plan_load(to_linear_layout(encoding, sizes), SurfaceFacts(), bits, device,
                         fragment=fragment_of(encoding, bits))
        total += len(plan.messages) if isinstance(plan, BlockPlan) else 0
    return total


def as_text(found: list[Choice], most: int = 8) -> str:
    """Print the first `most` choices as a table."""
    rows = [HEADER, *(choice.row for choice in found[:most])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(
        cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
