"""The main job, as `make demo` runs it: a matmul on device "xpu", with a description of its code.

Run: python -m examples.demo [--size 1024] [--layout AB|ABt|AtB] [--descriptor]
"""

import argparse
import time

import torch
import triton

from examples import matmul, matmul_descriptor
from triton_xe.backend.devices import device, selection
from triton_xe.tools.loop_counts import main_loop
from triton_xe.tools.plan_picture import describe, draw

BLOCKS = (256, 256, 32)
WARPS = 32


def seconds(call) -> float:
    """Wall time of a call and of all the device work it starts."""
    begin = time.perf_counter()
    call()
    torch.xpu.synchronize()
    return time.perf_counter() - begin


def show_device() -> None:
    on = device(0)
    what = "simulated on this machine's CPU" if on.is_simulated else "a real GPU"
    print(f"Device   {on.name}: {what}, because {selection().reason}.")
    print(f"         {on.target.xe_cores} Xe cores, {on.target.subgroup_size} lanes per warp; "
          "TRITON_XE_DEVICE=gpu|sim|sim:pvc|... chooses another.")


def show_plans(kernel) -> None:
    print("\nBlock-load plans (tile of one warp; numbers are messages):")
    for plan in kernel.metadata.plan_summary:
        print(f"\n  {plan.get('operand', plan['op'])}: {describe(plan)}")
        print("".join(f"    {line}\n" for line in draw(plan).splitlines()), end="")


def show_loop(kernel) -> None:
    counts = main_loop(kernel.asm["llir"])
    print(f"\nK loop   {counts.dpas} DPAS, {counts.block_loads} block loads, "
          f"{counts.prefetches} prefetches, {counts.gathers} gathers per warp and pass")


def show_result(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    reference = a.cpu().double() @ b.cpu().double()
    error = (c.cpu().double() - reference).abs().max().item()
    against_torch = (c.cpu().float() - torch.matmul(a, b).cpu().float()).abs().max().item()
    print(f"Result   largest error {error:.4f} against float64, {against_torch:.4f} against torch "
          f"(values up to {reference.abs().max().item():.0f})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--layout", default="AB", choices=["AB", "ABt", "AtB", "AtBt"])
    parser.add_argument("--descriptor", action="store_true", help="tl.make_tensor_descriptor")
    arguments = parser.parse_args()
    size = arguments.size
    module = matmul_descriptor if arguments.descriptor else matmul

    show_device()
    a, b = matmul.operands(size, size, size, arguments.layout)
    print(f"\nKernel   {module.__name__}: {size}x{size}x{size}, {arguments.layout}, float16, "
          f"blocks {'x'.join(map(str, BLOCKS))}, {WARPS} warps (Triton {triton.__version__}, "
          "unmodified)")

    def run():
        return module.launch(a, b, "", None, BLOCKS, 4, {"num_warps": WARPS})

    first = seconds(run)
    c, kernel = run()
    best = min(seconds(run) for _ in range(10))
    show_plans(kernel)
    show_loop(kernel)
    show_result(c, a, b)
    print(f"Rate     {2 * size**3 / best / 1e9:.1f} GFLOP/s ({best * 1e3:.1f} ms per launch; "
          f"compiling and loading took {first - best:.2f} s and are not counted)")


if __name__ == "__main__":
    main()
