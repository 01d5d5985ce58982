"""What Triton itself drops without a word, or ends without a reason, is refused in a sentence."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel
from triton.compiler.errors import CompilationError

from triton_xe.backend import refusals


@triton.jit
def fill(x, value):
    tl.store(x + tl.program_id(0), value)


@triton.jit
def factorial(n):
    if n <= 1:
        return n
    return n * factorial(n - 1)


@triton.jit
def even(n):
    return odd(n - 1)


@triton.jit
def odd(n):
    return even(n - 1)


@triton.jit
def power(x, n: tl.constexpr):
    if n == 0:
        return x * 0 + 1
    else:
        return x * power(x, n - 1)


@triton.jit
def calls(x, WHICH: tl.constexpr):
    if WHICH == "constants":
        tl.store(x, factorial(5))
    elif WHICH == "two":
        tl.store(x, even(tl.load(x)))
    elif WHICH == "itself":
        calls(x, WHICH)
    else:
        tl.store(x, power(tl.load(x), 5))


@triton.jit
def wrong_below(x, depth: tl.constexpr):
    if depth == 0:
        return x + nothing_of_this_name  # noqa: F821
    else:
        return wrong_below(x, depth - 1)


@triton.jit
def calls_wrong(x, DEPTH: tl.constexpr):
    tl.store(x, wrong_below(tl.load(x), DEPTH))


def test_a_grid_of_four_dimensions_is_refused():
    x = np.zeros(4, np.int32)
    compiled = fill[(4, 1, 1)](x, 3)
    assert (x == 3).all()
    for launch in (fill, compiled):
        with pytest.raises(ValueError, match=r"kernel 'fill': the grid \(2, 1, 1, 2\) has 4 "
                                             r"dimensions, and a launch has at most three; "):
            launch[(2, 1, 1, 2)](x, 5)
    with pytest.raises(ValueError, match="4 dimensions"):
        fill[lambda meta: [1, 1, 1, 1]](x, 5)
    assert (x == 3).all()


def test_launch_hooks_are_told_of_launches_as_before():
    x, told = np.zeros(4, np.int32), []
    fill[(4,)](x, 3)
    hook = triton.knobs.runtime.launch_enter_hook
    tell = lambda metadata: told.append(metadata.get()["name"])  # noqa: E731
    hook.add(tell)
    try:
        fill[(4,)](x, 3)
    finally:
        hook.remove(tell)
    assert told == ["fill"]


def test_kernels_of_other_backends_stay_what_they_are():
    class Other:
        target = GPUTarget("cuda", 80, 32)

    kernel = CompiledKernel.__new__(CompiledKernel)
    made = refusals.as_xe_kernels(lambda kernel: setattr(kernel, "metadata", Other))
    made(kernel)
    kernel.module = None
    assert type(kernel) is CompiledKernel


@pytest.mark.parametrize(("which", "circle"), [
    ("constants", "factorial -> factorial"), ("two", "even -> odd -> even"),
    ("itself", "calls -> calls"),
])
def test_recursion_is_refused_with_its_circle_and_the_reason(which, circle):
    x = np.ones(4, np.int32)
    with pytest.raises(CompilationError, match=f"(?s)def calls.*\\^\n{circle}: a function of a "
                                               "kernel cannot call itself, because .*; write a "
                                               "loop, or") as caught:
        calls[(1,)](x, which)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_recursion_over_constants_that_ends_is_compiled():
    x = np.full(1, 3, np.int32)
    calls[(1,)](x, "ends")
    assert x[0] == 243


def test_an_error_below_many_calls_is_reported_at_once():
    """Triton walks causes and contexts of errors, which are the same: twice for each call."""
    with pytest.raises(CompilationError) as caught:
        calls_wrong[(1,)](np.ones(4, np.int32), 30)
    error = caught.value
    while error.__cause__:
        error = error.__cause__
    assert "nothing_of_this_name is not defined" in str(error)
