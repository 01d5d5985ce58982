"""Reduce the kernels that torch compiles and times when it tunes a product or attention.

The simulated device's clock does not model prefetch distance.  Choices that differ only in
`num_stages` of two and more stay choices, but the first of them is compiled and timed for all.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Choice = TypeVar("Choice")


def adjust(module: Any, has_clock: Callable[[], bool]) -> None:
    """Adjust `torch._inductor.select_algorithm`; before 2.12 it has other parts."""
    if not hasattr(module, "use_pipelined_autotuning"):
        return
    selector = module.AlgorithmSelectorCache
    make, time_all = selector.make_precompile_fn, selector.benchmark_choices.__func__

    def alike(choices: Iterable[Any]) -> dict[Any, list[Any]]:
        return grouped(choices, lambda choice: _code_of(choice) if has_clock() and isinstance(
            choice, module.TritonTemplateCaller) else None)

    @functools.wraps(make)
    def make_precompile_fn(
        self: Any, choices: list[Any], name: str, inputs_key: str, *given: Any, **named: Any
    ) -> Callable[[], dict[Any, float]]:
        compiled: Callable[[], dict[Any, float]] = make(
            self, list(alike(choices)), name, inputs_key, *given, **named)
        return compiled

    @functools.wraps(time_all)
    def benchmark_choices(
        cls: Any, choices: Sequence[Any], *given: Any, **named: Any
    ) -> dict[Any, float]:
        groups = alike(choices)
        times = time_all(cls, list(groups), *given, **named)
        by_choice = {each: times[first] for first, group in groups.items() for each in group}
        return {choice: by_choice[choice] for choice in choices}

    selector.make_precompile_fn = make_precompile_fn
    selector.benchmark_choices = classmethod(benchmark_choices)


def grouped(
    choices: Iterable[Choice], key: Callable[[Choice], str | None]
) -> dict[Choice, list[Choice]]:
    """Group items by key: first item -> all items with its key; items without a key stay single.

        >>> grouped(["a1", "b", "a2"], lambda each: each[0] if len(each) > 1 else None)
        {'a1': ['a1', 'a2'], 'b': ['b']}
    """
    groups: dict[Choice, list[Choice]] = {}
    firsts: dict[str, Choice] = {}
    for choice in choices:
        common = key(choice)
        first = choice if common is None else firsts.setdefault(common, choice)
        groups.setdefault(first, []).append(choice)
    return groups


def for_the_clock(code: str, kernel_name: str) -> str:
    """The code without the differences that the clock does not model.

    >>> for_the_clock("@template(num_stages=5, num_warps=4)\\ndef mm_3(): pass", "mm_3")
    '@template(num_stages=2, num_warps=4)\\ndef kernel(): pass'
    """
    named = re.sub(rf"\b{re.escape(kernel_name)}\b", "kernel", code)
    return re.sub(r"\bnum_stages=(\d+)", lambda n: f"num_stages={min(2, int(n[1]))}", named)


def _code_of(choice: Any) -> str:
    return for_the_clock(Path(choice.bmreq.module_path).read_text(), choice.bmreq.kernel_name)
