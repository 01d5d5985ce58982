"""`triton-xe convert FROM TO -t TYPE`: the cost of a layout conversion, and the reason."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from triton_xe.hardware.target import TARGETS, row_name, target
from triton_xe.layout import to_linear_layout
from triton_xe.plan.conversion import Conversion, plan_conversion
from triton_xe.tools.tensor_arguments import parse_tensor_type, read_encoding
from triton_xe.tools.terminal import bold, wants_colour

HELP = "show what changing a tensor's layout costs"
EPILOG = """\
example:
  triton-xe convert "#ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [16, 1],
      warpsPerCTA = [1, 1], order = [1, 0]}>" "#ttg.blocked<{sizePerThread = [16, 1],
      threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [0, 1]}>" -t 'tensor<16x16xf32>'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="layout attribute, as in a ttgir file")
    parser.add_argument("result", metavar="TO", help="layout attribute to convert to")
    parser.add_argument("-t", "--type", required=True, help="tensor type: tensor<256x32xf16>")
    parser.add_argument("--file", type=Path, help="ttgir file whose #aliases may be used")
    parser.add_argument("--target", default="bmg", type=row_name, choices=list(TARGETS),
                        help="device")
    parser.add_argument("--json", action="store_true", help="print the costs as JSON")


def run(arguments: argparse.Namespace) -> int:
    shape, bits = parse_tensor_type(arguments.type)
    layouts = [
        to_linear_layout(read_encoding(text, arguments.file), shape)
        for text in (arguments.source, arguments.result)
    ]
    plan = plan_conversion(layouts[0], layouts[1], bits, target(arguments.target))
    if arguments.json:
        print(json.dumps(costs(plan)))
        return 0
    first, *others = explain(plan)
    print("\n".join([bold(first) if wants_colour() else first, *others]))
    return 0


def costs(plan: Conversion) -> dict[str, object]:
    """The numbers of the plan; shuffles, selects and messages per lane."""
    result: dict[str, object] = {
        "kind": plan.kind.value,
        "reason": plan.reason,
        "shuffles": plan.n_shuffles,
        "selects": plan.n_selects,
        "stores": plan.n_stores,
        "loads": plan.n_loads,
        "barriers": plan.n_barriers,
        "turns": plan.n_turns,
        "slm_bytes": plan.slm_bytes,
    }
    if plan.shared:
        result["vector"] = plan.shared.vector
        result["bank_conflicts"] = [plan.shared.store.conflicts, plan.shared.load.conflicts]
    return result


def explain(plan: Conversion) -> Iterator[str]:
    """Describe the plan in words."""
    yield f"{plan.kind.value}: {plan.reason}"
    if plan.shared:
        trip = plan.shared
        bits = trip.vector * plan.element_bits
        yield f"  {plan.n_stores} stores and {plan.n_loads} loads of {bits} bits per lane"
        turns = f" in {plan.n_turns} turns" if plan.turns else ""
        yield f"  {plan.n_barriers} barriers, {trip.bytes} bytes of shared local memory{turns}"
        conflicts = max(trip.store.conflicts, trip.load.conflicts)
        yield "  no bank conflicts" if conflicts == 1 else f"  {conflicts}-way bank conflicts"
        yield "  memory order:"
        yield from (f"   {line}" for line in str(trip.order).splitlines())
    elif plan.lanes and (plan.n_shuffles or plan.n_selects):
        kind = "xor" if plan.lanes.is_xor else "indexed"
        yield f"  {plan.n_shuffles} {kind} shuffles, {plan.n_selects} selects per lane"
        for name, swaps in (("before", plan.lanes.before), ("after", plan.lanes.after)):
            for swap in swaps:
                masks = [("lane", swap.lanes), ("warp", swap.warps)]
                where = ", ".join(f"{dim} & {mask:#b}" for dim, mask in masks if mask)
                pair = f"registers r and r ^ {swap.registers}"
                yield f"  {name}: exchange {pair} where the parity of {where} is odd"
