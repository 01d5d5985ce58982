"""A seeded sample of torch's own operator database, compiled, against the CPU."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
SAMPLE, SEED = 40, 0


def database() -> list[object]:
    """Operators with one tensor of fixed shape as their result; the sample of this seed."""
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    fixed = [op for op in op_db if torch.float32 in op.dtypes and not op.name.startswith((
        "empty", "new_empty", "linalg", "sparse", "rand", "multinomial", "normal", "bernoulli",
        "nn.functional.dropout", "nn.functional.alpha_dropout", "nn.functional.feature_alpha",
        "nn.functional.rrelu", "nn.functional.fractional", "nonzero", "unique", "masked_select"))]
    return random.Random(SEED).sample(fixed, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(SAMPLE))
def test_compiled_operators_agree_with_the_cpu(index: int) -> None:
    operator = database()[index]
    sample = next(iter(operator.sample_inputs("cpu", torch.float32)), None)
    if sample is None:
        pytest.skip(f"{operator.name} has no sample")
    want = operator(sample.input, *sample.args, **sample.kwargs)
    placed = sample.transform(lambda x: x.to("xpu") if isinstance(x, torch.Tensor) else x)
    got = torch.compile(lambda x, *args: operator(x, *args, **placed.kwargs))(
        placed.input, *placed.args)
    torch.testing.assert_close(
        torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.cpu(), got), want,
        rtol=1e-3, atol=1e-3, equal_nan=True, check_stride=False)
