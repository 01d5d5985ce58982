"""What is compiled and timed of the kernels among which Inductor tunes."""

from __future__ import annotations

from concurrent.futures import Future
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


def selector(timed: list[Any]) -> Any:
    """The part of `torch._inductor.select_algorithm` that is adjusted."""

    class Cache:
        def make_precompile_fn(self, *_: Any) -> None:
            raise AssertionError("not called here")

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


@pytest.mark.parametrize("ready", [0, 2, 9])
def test_each_choice_is_compiled_once_here_or_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: int
) -> None:
    here, there, asked = [], [], []

    class Workers:
        def use_process_pool(self) -> bool:
            asked.append(1)
            return len(asked) > ready

        def triton(self, name: str, source: str) -> Any:
            there.append(name)
            assert name in source
            done: Future[Any] = Future()
            done.set_result(None)
            return SimpleNamespace(future=done)

    def compile_here(request: Any) -> None:
        here.append(request.kernel_name)
        raise RuntimeError("is told when the choice is timed")

    import torch._dynamo.utils as utils
    import torch._inductor.async_compile as async_compile

    monkeypatch.setattr(async_compile, "AsyncCompile", Workers)
    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 2)
    monkeypatch.setattr(choices, "_compile_here", compile_here)
    before = utils.counters["inductor"]["select_algorithm_precompile"]
    assert choices._compile([Kernel(tmp_path, n, 64, n) for n in range(6)]) == {}
    assert sorted(here + there) == [f"mm_{n}" for n in range(6)]
    assert bool(there) == (ready < 6)
    assert here == sorted(here)
    assert here[0] == "mm_0"
    assert utils.counters["inductor"]["select_algorithm_precompile"] == before + 1


@pytest.mark.slow
def test_a_product_is_tuned(xpu: None) -> None:
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    a, b = (torch.randn(64, 64).to("xpu") for _ in range(2))
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    counters.clear()
    with fresh_cache():
        tuned = torch.compile(lambda a, b: torch.mm(torch.mm(a, b), b), options=options)(a, b)
    assert counters["inductor"]["select_algorithm_precompile"] == 1
    torch.testing.assert_close(tuned, a @ b @ b, atol=1e-3, rtol=1e-4)
