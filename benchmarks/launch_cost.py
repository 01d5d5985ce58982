"""Host time of one kernel launch: our part, and the driver's.

    python -m benchmarks.launch_cost [--device bmg | --gpu] [--repeat 300] [--record]

A kernel with 5 pointers and 9 integers is launched repeatedly.

The whole call is `kernel[grid](...)`.  `floor` is the time with a launcher that does nothing, so
that of Triton itself.  `ours` is what our launcher adds, without the driver's append (the call with
an empty grid, minus the floor).  `driver` is what the append adds; it is more than in a loop of its
own, because Triton's code has evicted it from the caches.  `call` is the sum.  `without ours` is
the ratio for a launcher without cost.  The goals are `call / floor` at most 1.25, and at most 2 us
of ours.

The launch function alone: `ours` has driver calls that do nothing.  `arguments` has the real calls
that set the arguments, and `launch` also the real one that appends the kernel.  `nothing` is a
Python function that ignores its arguments.

Without --gpu this runs on Intel's driver with its simulated command stream, where the driver's work
on the host is real.  The stream's own recording of submissions, which does not exist on a GPU, is
switched off; --record leaves it on.  Each figure is the best of many short rounds.  Those of floor,
ours and call alternate, so that a busy machine slows them equally.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import triton
import triton.language as tl

from triton_xe.tools import intel

GOAL, OURS_GOAL_US = 1.25, 2.0
POINTERS, INTEGERS = 5, 9
TYPES = ("ptr",) * POINTERS + ("i32",) * INTEGERS
LAUNCHES = 100


@triton.jit
def many_arguments(a, b, c, d, e, n0, n1, n2, n3, n4, n5, n6, n7, n8, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8
    total = tl.load(b + index, mask=inside) + tl.load(c + index, mask=inside)
    total += tl.load(d + index, mask=inside) + tl.load(e + index, mask=inside)
    tl.store(a + index, total, mask=inside)


class Tensor:
    """Replaces a tensor if torch is not loaded."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def data_ptr(self) -> int:
        return self.pointer


class FloatTensor(Tensor):
    """A `Tensor` with an element type, which Triton reads."""

    dtype = "fp32"


def microseconds(action: Callable[..., Any], values: Sequence[Any], repeat: int) -> float:
    """Best time of one call, over rounds of LAUNCHES calls."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            action(*values)
        best = min(best, time.perf_counter() - start)
    return best / LAUNCHES * 1e6


def ours(values: Sequence[Any], repeat: int) -> float:
    """Time of the compiled launch function if every driver call does nothing, and all memory is
    known.
    """
    from triton_xe.runtime import native
    from triton_xe.runtime.level_zero import launcher

    if native.launch is None:
        return float("nan")
    handle = 1 << 32
    nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value  # of the lower half: 0
    device = native.launch.Device(*[nothing] * 4)
    device.list = handle
    device.remember(0, (1 << 64) - 1)
    kernel = launcher.kernel_state(device, handle, TYPES)
    launch = launcher.make_launcher(device, kernel, "no driver", TYPES)
    return microseconds(launch, (0, 16, 1, 1, *values), repeat)


def measure(repeat: int) -> dict[str, dict[str, float]]:
    """All figures, for pointers given as integers and as objects with data_ptr()."""
    from triton_xe.runtime.level_zero.device import open_devices
    from triton_xe.tools import sample_kernel

    (device, *_) = open_devices()
    text = sample_kernel.many_arguments(POINTERS, INTEGERS, device.target.subgroup_size)
    kernel = device.load(sample_kernel.to_spirv(text), "many_arguments")
    buffers = [device.allocate(4096) for _ in range(POINTERS)]
    integers = list(range(INTEGERS))
    found = {}
    for label, pointers in (
        ("pointers as integers", [b.pointer for b in buffers]),
        ("pointers as tensors", [Tensor(b.pointer) for b in buffers]),
    ):
        values = [*pointers, *integers]
        row = {"nothing": microseconds(lambda *_: 0, (0, 16, 1, 1, *values), repeat)}
        row["ours"] = ours(values, repeat)
        row["arguments"] = microseconds(kernel.start, (0, 0, 1, 1, *values), repeat)
        row["launch"] = microseconds(kernel.start, (0, 16, 1, 1, *values), repeat)
        device.synchronize()
        found[label] = row
    found["the whole call"] = whole_call(repeat)
    return found


def whole_call(repeat: int) -> dict[str, float]:
    """Microseconds of `kernel[grid](...)`; with torch, on its tensors over memory of the driver."""
    from triton_xe.backend import devices

    on: Any = devices.device(0)
    memory = [on.allocate(4096, kind="host") for _ in range(POINTERS)]
    values = [*tensors_over(memory), *(1000 + 7 * n for n in range(INTEGERS))]
    some, none = many_arguments[(4,)], many_arguments[(0,)]
    kernel = some(*values, BLOCK=256)
    ours = kernel.run
    found = {"floor": float("inf"), "empty": float("inf"), "call": float("inf")}
    kinds = [("floor", lambda *_: None, some), ("empty", ours, none), ("call", ours, some)]
    for number in range(repeat):
        for name, launcher, start in kinds[number % 3 :] + kinds[: number % 3]:
            kernel._run = launcher
            spent = microseconds(lambda start=start: start(*values, BLOCK=256), (), 1)
            found[name] = min(found[name], spent)
        on.synchronize()
    return {
        "floor": found["floor"], "ours": found["empty"] - found["floor"],
        "driver": found["call"] - found["empty"], "call": found["call"],
        "call / floor": found["call"] / found["floor"],
        "without ours": 1 + (found["call"] - found["empty"]) / found["floor"],
    }


def tensors_over(memory: Sequence[Any]) -> list[Any]:
    """A float32 tensor over each block of memory, of torch when it is installed."""
    try:
        import torch
    except ImportError:
        return [FloatTensor(block.pointer) for block in memory]
    blocks = [(ctypes.c_uint8 * block.nbytes).from_address(block.pointer) for block in memory]
    return [torch.frombuffer(block, dtype=torch.float32) for block in blocks]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="bmg", help="device that the driver acts as")
    parser.add_argument("--gpu", action="store_true", help="use the real GPU of this machine")
    parser.add_argument("--repeat", type=int, default=300)
    parser.add_argument("--record", action="store_true", help="let the simulated stream record")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here or options.gpu:
        found = measure(options.repeat)
    else:
        found = on_simulated_stream(options.device, options.repeat, record=options.record)
    if found and options.json:
        print(json.dumps(found))
    elif found:
        for label, row in found.items():
            cells = ", ".join(f"{name} {value:.2f}" for name, value in row.items())
            print(f"one launch, {label}, microseconds: {cells}")
        print(f"goals: call / floor at most {GOAL}, ours at most {OURS_GOAL_US}")


def on_simulated_stream(
    device: str, repeat: int, *, record: bool = False
) -> dict[str, dict[str, float]]:
    """The figures from a child process on Intel's driver; empty when it is not installed."""
    reason = intel.driver_available()
    if reason:
        print(f"launch cost not measured: {reason}")
        return {}
    session = intel.level_zero_environment(device)
    chosen = {"TRITON_XE_DEVICE": "gpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    chosen |= {} if record else intel.without_recording()
    done = session.run(
        __file__, "--here", "--json", "--repeat", str(repeat), extra=chosen, timeout=300
    )
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
