"""Adjustments of torch's compilers and timers (`adjustments` lists all).

- Benchmarking: Inductor times a kernel over hundreds of launches, and `torch.utils.benchmark` by
  the host's clock.  On the simulator one launch is timed, by the device's clock.
- Inductor tunes a product also with blocks of oneDNN.  Configurations of products that must spill
  are not tried, and neither are those of sorts.
- Torch 2.8 expects Triton 3.4.
"""

from __future__ import annotations

import ast
import copyreg
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.hardware.target import Target, target

if TYPE_CHECKING:
    from triton_xe.runtime.device import Clock

FOLDERS = tuple(f"{Path(__file__).parents[2] / name}/" for name in (
    "backend", "lowering", "runtime", "triton_xe"))
"""Folders of this package's sources: in a checkout, and installed."""
NOTHING_MS = 1e-4
"""Milliseconds that a clock advances by at most if it is only read."""


def benchmark(
    self: Any, call: Callable[[], Any], *_: Any, return_mode: str = "min", **__: Any
) -> float | list[float]:
    """Milliseconds of one call after one warm-up call; the signature is Inductor's."""
    taken = _time_of(call)
    return [taken] if return_mode == "all" else taken


def _time_of(call: Callable[[], Any]) -> float:
    """Milliseconds of a call: predicted for a simulated device, else those of a second call."""
    clock = _device_clock()
    if clock is not None:
        return clock.time_of(call)
    call()
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def _device_clock() -> Clock | None:
    """The clock of torch's current device."""
    if not knobs.device_clock():
        return None
    from triton_xe.runtime.simulator.interface import clock_of

    return clock_of(_current_target(), sys.modules["torch"].xpu.current_device())


def adjust_timer(module: Any) -> None:
    """Run a statement that launches kernels once, and compute further runs from the clock."""
    by_host = module.Timer._timeit

    def timeit(self: Any, number: int) -> float:
        timer = self._timer
        clock = _device_clock()
        if clock is None or not number or getattr(timer, "timer", None) is not module.timer:
            return float(by_host(self, number))
        start = clock.now_ms()
        if not hasattr(self, "_has_run"):
            self._has_run = timer.timeit(1)
        if clock.now_ms() - start > NOTHING_MS:
            self._uses_device = True
        if not hasattr(self, "_uses_device"):
            return float(by_host(self, number))
        timer.timer = lambda: clock.now_ms() * 1e-3
        try:
            with clock.without_running():
                return float(timer.timeit(1)) * number
        finally:
            timer.timer = module.timer

    module.Timer._timeit = timeit


def adjust_benchmarking(module: Any) -> None:
    """Replace the timing of calls on a device, also where passes call it directly."""
    if hasattr(module, "register_benchmarker"):  # since 2.12
        module.register_benchmarker("xpu", benchmark, override=True)
    if not sys.modules["torch"].cuda.is_available():
        type(module.benchmarker).benchmark_gpu = benchmark


def adjust_config(module: Any) -> None:
    """Disable the static launcher before 2.11, where it is for CUDA alone."""
    if torch_version() < (2, 11) and hasattr(module, "use_static_triton_launcher"):
        module.use_static_triton_launcher = False


def torch_version() -> tuple[int, int]:
    major, minor, *_ = sys.modules["torch"].__version__.split(".")
    return int(major), int(minor)


BLOCKS = ((256, 256, 32, 32), (128, 256, 128, 32), (128, 128, 64, 32), (64, 64, 64, 16))
"""Blocks of M, N and K, and warps, which oneDNN chooses for fp16 on Arc B580, and torch omits.

`python -m benchmarks.catalog` prints them.  For 64 x 64 torch allows 16 warps, oneDNN has 32.
"""


def adjust_products(module: Any) -> None:
    """Try `BLOCKS` for products, and nothing whose sums leave no registers for operands."""
    heuristic = module.XPUConfigHeuristic
    scaled, make = heuristic._scale_mm_configs, heuristic.__init__

    def with_blocks(self: Any) -> None:
        make(self)
        self.mm_configs = [*self.mm_configs, *(
            module.GemmConfig(*blocks, 3, warps) for *blocks, warps in BLOCKS)]

    def without_spilling(*arguments: Any, **named: Any) -> list[Any]:
        found: list[Any] = scaled(*arguments, **named)
        device = _current_target()
        kept = [each for each in found if sums_fit(
            each.block_m * each.block_n, each.num_warps, device)] or found
        if knobs.debug() and len(kept) < len(found):
            print(f"triton-xe: {len(found) - len(kept)} of {len(found)} configurations of a "
                  "product are not tried: their sums fill the registers", file=sys.stderr)
        return kept

    heuristic._scale_mm_configs, heuristic.__init__ = without_spilling, with_blocks


def sums_fit(elements: int, num_warps: int, device: Target) -> bool:
    """True if a loop can carry the fp32 sums of a block of a product.

    >>> sums_fit(128 * 128, 8, target("bmg")), sums_fit(128 * 128, 4, target("bmg"))
    (True, False)
    """
    from triton_xe.hardware.register_file import MOST_CARRIED

    return 4 * elements < MOST_CARRIED * num_warps * device.grf_bytes


PER_LANE = 8
"""Elements of a sort per lane, each with its index.

With more, a sort is no faster, spills, and takes Intel's compiler ten times as long.
"""


def adjust_sorts(module: Any) -> None:
    """Give a sort one configuration: the smallest block, on as many warps as it fills."""
    make = module.CachingAutotuner.__init__

    def made(self: Any, fn: Any, triton_meta: Any, configs: list[Any], *given: Any,
             size_hints: dict[str, int] | None = None, **named: Any) -> None:
        if triton_meta["device"].type == "xpu" and size_hints and "x" in size_hints and _sorts(fn):
            row = math.prod(size for name, size in size_hints.items() if name.startswith("r"))
            configs = [for_sort(configs, row, _current_target().subgroup_size)]
        make(self, fn, triton_meta, configs, *given, size_hints=size_hints, **named)

    module.CachingAutotuner.__init__ = made


def _sorts(fn: Any) -> bool:
    """True if a kernel calls Inductor's sort; one that Triton interprets has nothing to compile."""
    return "sort_with_index" in getattr(fn, "src", "") and hasattr(fn, "parse") and any(
        isinstance(node, ast.Attribute) and node.attr == "sort_with_index"
        for node in ast.walk(fn.parse()))


def for_sort(configs: Sequence[Any], row: int, lanes: int) -> Any:
    """The smallest configuration that fills a warp, with the warps that it fills."""
    full = PER_LANE * lanes
    sizes = {row * config.kwargs["XBLOCK"]: config for config in configs}
    size = min((n for n in sizes if n >= full), default=max(sizes))
    chosen = sizes[size]
    chosen.num_warps = min(32, max(1, size // full))
    return chosen


def _current_target() -> Target:
    import torch

    name: str = getattr(torch.xpu.get_device_properties(), "target_name")  # noqa: B009
    return target(name)


def adjust_descriptors(module: Any) -> None:
    """Make torch trace `TensorDescriptor`, as for devices with messages for it."""
    module._device_supports_tma = lambda: True


def adjust_tracing(module: Any) -> None:
    """Make torch's tracing skip frames of Triton and of this package."""
    module.SKIP_DIRS += ["triton/compiler/", *FOLDERS]
    module._recompile_re()


def adjust_frames(module: Any) -> None:
    """Make tracing skip the launch of a kernel, but not `triton.cdiv` in the same file."""
    from triton.runtime.jit import JITFunction

    for kind in JITFunction.__mro__[:-1]:
        for each in vars(kind).values():
            if isinstance(each, FunctionType):
                module.skip_code(each.__code__)


def adjust_functions(module: Any) -> None:
    """Make tracing skip all functions that compile a kernel."""
    compile_kernel = module.JITFunction._do_compile

    def untraced(*arguments: Any, **named: Any) -> Any:
        dynamo = sys.modules.get("torch._dynamo")
        call = dynamo.disable(compile_kernel) if dynamo else compile_kernel
        return call(*arguments, **named)

    module.JITFunction._do_compile = untraced


def adjust_compiler(module: Any) -> None:
    """Give torch 2.8 the functions of Triton 3.4: `triton_key`, and some without a lock."""
    if sys.modules["torch"].__version__.startswith("2.8."):
        from triton.runtime.cache import triton_key

        module.triton_key = triton_key
        copyreg.pickle(type(threading.RLock()), lambda _: (threading.RLock, ()))
