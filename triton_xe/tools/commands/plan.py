"""`triton-xe plan ATTR -t TYPE`: the memory messages that load or store a tile, and the reasons."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from triton_xe.errors import LayoutError
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import TARGETS, Target, row_name, target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, Encoding, to_linear_layout
from triton_xe.plan import (
    BlockLoadPlan,
    BlockPlan,
    GatherPlan,
    Objective,
    SurfaceFacts,
    fragment_of,
    plan_load,
    plan_store,
)
from triton_xe.plan.drawing import explain
from triton_xe.plan.steps import dump, plan_steps, tables
from triton_xe.tools.tensor_arguments import parse_tensor_type, read_encoding
from triton_xe.tools.terminal import paint_messages, wants_colour

HELP = "show how a tile is loaded or stored: messages, steps, guards"
EPILOG = """\
example:
  triton-xe plan "#ttg.dot_op<{opIdx = 1, parent = #xe.dpas<{repeatCount = 8, systolicDepth = 8,
      executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4],
      repCluster = [4, 2]}>, kWidth = 2}>" -t 'tensor<32x256xf16>' --target bmg
  triton-xe plan 4096x4096x4096 -t f16 --target pvc        tiles for a product MxNxK
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("encoding", metavar="ATTR",
                        help="layout attribute, as in a ttgir file; or MxNxK, for the best"
                        " subgroup tiles of a product")
    parser.add_argument("-t", "--type", required=True,
                        help="tensor type: tensor<32x256xf16>; for a product: f16, bf16, i8 or f32")
    parser.add_argument("--file", type=Path, help="ttgir file whose #aliases ATTR may use")
    parser.add_argument("--target", default="bmg", type=row_name, choices=list(TARGETS),
                        help="device")
    parser.add_argument("--transposed", action="store_true",
                        help="the tensor is the transpose of the matrix in memory")  # fmt: skip
    parser.add_argument("--store", action="store_true", help="plan a store, not a load")
    parser.add_argument("--objective", default=Objective.MESSAGES.value,
                        choices=[one.value for one in Objective],
                        help="quantity to minimise (default: messages)")  # fmt: skip
    parser.add_argument("--pitch", type=int, help="bytes from one memory row to the next")
    parser.add_argument("--width", type=int, help="bytes of a memory row")
    parser.add_argument("--height", type=int, help="memory rows")
    parser.add_argument("--alignment", type=int, default=1, help="bytes that divide the base")
    parser.add_argument("--in-bounds", action="store_true", help="no element is outside")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--svg", type=Path, help="also draw the plan into this file")


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; a refusal of 2D blocks is a result, not an error."""
    sizes = arguments.encoding.split("x")
    if len(sizes) == 3 and all(size.isdigit() and int(size) for size in sizes):
        print(recommendation(sizes, arguments.type, target(arguments.target)))
        return 0
    shape, bits = parse_tensor_type(arguments.type)
    encoding = read_encoding(arguments.encoding, arguments.file)
    plan = make_plan(arguments, encoding, shape, bits)
    if arguments.svg:
        write_svg(plan, arguments.svg)
    if arguments.json:
        print(as_json(plan))
    else:
        print(paint_messages(as_text(plan)) if wants_colour() else as_text(plan))
    if not arguments.json and isinstance(encoding, DotOperandEncoding):
        print_clusters(encoding, target(arguments.target))
    if not arguments.json and isinstance(plan, BlockPlan) and plan.moves:
        print_alternative(plan, arguments, encoding, shape)
    return 0


def recommendation(sizes: Sequence[str], element: str, device: Target) -> str:
    """The tiles for a product, and how the compiler groups the instructions of the first."""
    from triton_xe.model.rates import PRODUCTS
    from triton_xe.plan.subgroup_tiles import STEP, as_text, recommended

    m, n, k = map(int, sizes)
    found = recommended(m, n, k, element, device)
    return (f"{as_text(found)}\nDPAS and block loads of a subgroup for {STEP} of K; registers as"
            " estimated, of as many as the kernel is built for; time as predicted on"
            f" {PRODUCTS[device.product].label}")


def print_clusters(encoding: DotOperandEncoding, device: Target) -> None:
    """Print why the compiler groups a product's instructions as this layout does, or
    differently.
    """
    from triton_xe.lowering.layouts.dpas_choice import clusters_explained

    parent = encoding.parent
    if isinstance(parent, DpasEncoding) and device.has_dpas:
        name = {1: "tf32", 2: "f16"}.get(parent.ops_per_channel, "s8")
        dpas = Dpas(name, name, "i32" if name == "s8" else "f32", parent.repeat_count,
                    parent.execution_size)
        why = clusters_explained(parent, dpas, device)[2:]
        print(f"product: {why or 'grouped by what one load of A and one of B feed'}")


def print_alternative(
    plan: BlockPlan, arguments: argparse.Namespace, encoding: Encoding, shape: tuple[int, ...]
) -> None:
    """Print the plan for the other objective, if it differs."""
    other = next(one for one in Objective if one.value != arguments.objective)
    changed = argparse.Namespace(**(vars(arguments) | {"objective": other.value}))
    found = make_plan(changed, encoding, shape, plan.element_bits)
    if isinstance(found, BlockPlan) and found.shape != plan.shape:
        print(
            f"with --objective {other.value}: {len(found.messages)} messages {found.shape}, "
            f"{found.moves} moves"
        )


def make_plan(
    arguments: argparse.Namespace, encoding: Encoding, shape: tuple[int, ...], bits: int
) -> BlockPlan | GatherPlan:
    """The plan for the command line."""
    surface = SurfaceFacts(
        contiguous_dim=0 if arguments.transposed else 1,
        base_alignment=arguments.alignment,
        pitch_bytes=arguments.pitch,
        width_bytes=arguments.width,
        height=arguments.height,
        in_bounds=arguments.in_bounds,
    )
    return (plan_store if arguments.store else plan_load)(
        to_linear_layout(encoding, shape),
        surface,
        bits,
        target(arguments.target),
        fragment=fragment_of(encoding, bits),
        objective=Objective(arguments.objective),
    )


def as_text(plan: BlockPlan | GatherPlan) -> str:
    """The three steps of a block load, then messages, drawing and guards."""
    if isinstance(plan, BlockLoadPlan):
        return f"{dump(plan)}\n\n{tables(plan)}\n\n{explain(plan)}"
    return explain(plan)


def as_json(plan: BlockPlan | GatherPlan) -> str:
    data = plan.summary()
    if isinstance(plan, BlockLoadPlan):
        names = ("tile", "iterations", "loads")
        data["steps"] = {
            name: {"bases": layout.bases, "out_dims": layout.out_dims}
            for name, layout in zip(names, plan_steps(plan), strict=True)
        }
    return json.dumps(data, indent=2)


def write_svg(plan: BlockPlan | GatherPlan, file: Path) -> None:
    """Draw a block plan; `LayoutError` if there are no messages to draw."""
    from triton_xe.plan.svg import plan_svg

    if isinstance(plan, GatherPlan):
        raise LayoutError(f"there are no 2D block messages to draw: {plan.because}")
    file.write_text(plan_svg(plan))
