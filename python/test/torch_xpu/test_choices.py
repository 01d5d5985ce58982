"""What is compiled and timed of the kernels among which Inductor tunes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from triton_xe.runtime.torch_xpu import choices


class Kernel:
    """A choice of a template with this many stages; `tile` is the rest of its code."""

    def __init__(self, folder: Path, number: int, tile: int, stages: int) -> None:
        path = folder / f"{number}.py"
        path.write_text(f"@template(num_stages={stages})\ndef mm_{number}(): {tile}\n")
        self.name = f"mm_{number}"
        self.bmreq = SimpleNamespace(module_path=str(path), kernel_name=self.name)


class Library:
    """A choice that is no template."""

    name = "library"


def selector(timed: list[Any], compiled: list[Any] | None = None) -> Any:
    """The part of `torch._inductor.select_algorithm` that is adjusted."""

    class Cache:
        def make_precompile_fn(self, given: list[Any], *_: Any) -> None:
            assert compiled is not None
            compiled.extend(given)

        @classmethod
        def benchmark_choices(cls, given: list[Any]) -> dict[Any, float]:
            timed.extend(given)
            return {each: float(n) for n, each in enumerate(given)}

    return SimpleNamespace(AlgorithmSelectorCache=Cache, TritonTemplateCaller=Kernel,
                           use_pipelined_autotuning=lambda: False)


@pytest.mark.parametrize(("has_clock", "first"), [
    (True, ["mm_0", "mm_2", "library", "mm_4"]),
    (False, ["mm_0", "mm_1", "mm_2", "library", "mm_3", "mm_4"])])
def test_what_the_clock_cannot_tell_apart_is_timed_once(
    tmp_path: Path, has_clock: bool, first: list[str]
) -> None:
    timed: list[Any] = []
    module = selector(timed)
    choices.adjust(module, lambda: has_clock)
    made: list[Any] = [Kernel(tmp_path, n, tile, stages) for n, (tile, stages) in enumerate(
        [(64, 4), (64, 2), (64, 1), (64, 3), (32, 2)])]
    made.insert(3, Library())
    times = module.AlgorithmSelectorCache.benchmark_choices(made)
    assert [each.name for each in timed] == first
    assert list(times) == made
    if has_clock:
        assert times[made[0]] == times[made[1]] == times[made[4]] == min(times.values())


def test_first_choices_are_compiled(tmp_path: Path) -> None:
    compiled: list[Any] = []
    module = selector([], compiled)
    choices.adjust(module, lambda: True)
    module.AlgorithmSelectorCache().make_precompile_fn(
        [Kernel(tmp_path, n, 64, stages) for n, stages in enumerate((4, 2, 1))], "mm", "inputs")
    assert [each.name for each in compiled] == ["mm_0", "mm_2"]


@pytest.mark.slow
def test_a_product_is_tuned(xpu: None) -> None:
    from torch._inductor.utils import fresh_cache

    a, b = (torch.randn(64, 64).to("xpu") for _ in range(2))
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    with fresh_cache():
        tuned = torch.compile(lambda a, b: torch.mm(torch.mm(a, b), b), options=options)(a, b)
    torch.testing.assert_close(tuned, a @ b @ b, atol=1e-3, rtol=1e-4)
