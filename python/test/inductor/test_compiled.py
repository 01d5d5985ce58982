"""Compiled by Inductor for the simulated device, programs give what they give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import triton
import triton.language as tl

from .kinds import DYNAMIC, KINDS, OPTIONS, TUNED, WHOLE, Made, randn

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
CASES: dict[str, Callable[[], Made]] = dict(KINDS)
FAST = ("pointwise", "reductions", "scatter", "norm_backward", "in_place_views", "user_kernel",
        "promotion", "indexing", "written_slices")
RARER = ("flex_attention",)


def case(make: Callable[[], Made]) -> Callable[[], Made]:
    CASES[make.__name__] = make
    return make


def moved(value: Any, device: str) -> Any:
    """The same on a device, of its own: modules and tensors that need gradients are copies."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    return value


def results(function: Callable[..., Any], arguments: tuple[Any, ...], device: str) -> list[Any]:
    """What a function returns, and the gradients of its arguments if they need any."""
    placed = torch.utils._pytree.tree_map(lambda value: moved(value, device), arguments)
    outs, given = ([x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]
                   for tree in (function(*placed), placed))
    needing = [x for x in given if x.requires_grad]
    if needing:
        sum((x.float() * torch.linspace(0.5, 1.5, x.numel(), device=device).view(x.shape)).sum()
            for x in outs if x.requires_grad).backward()
    return [x.detach().cpu() for x in outs] + [
        x.grad.cpu() for x in needing if x.grad is not None]


@case
def pointwise() -> Made:
    def f(x: Any, y: Any) -> Any:
        return (torch.erf(x) * y.sigmoid() + torch.where(x > 0, x.log1p(), y.exp2()),
                torch.atan2(x, y).clamp(-1, 1), (x // 0.3).to(torch.int32) ^ 5)
    return f, (randn(17, 33), randn(33))


@case
def reductions() -> Made:
    def f(x: Any) -> Any:
        return x.sum(0), x.amax(1), x.argmin(1), x.var(1), (x > 0).all(), x.prod(1).tanh()
    return f, (randn(13, 300),)


@case
def scatter() -> Made:
    def f(x: Any, at: Any) -> Any:
        out = torch.zeros(20, 8, device=x.device).index_add(0, at, x)
        return (out, out.index_put((at[:3],), x[:3], accumulate=True),
                torch.gather(x, 0, at[:, None]))
    return f, (randn(40, 8), torch.randint(0, 20, (40,)))


@case
def norm_backward() -> Made:
    def f(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(F.layer_norm(x, (65,), w, b)) + F.rms_norm(x, (65,), w)
    return f, (randn(9, 65, grad=True), randn(65, grad=True), randn(65, grad=True))


@case
def in_place_views() -> Made:
    def f(x: Any) -> Any:
        y = x + 1
        y.unsqueeze_(1).transpose_(0, 2).squeeze_()
        return y.t_().mul_(2), y.as_strided((2, 2), (1, 2), 1) + 1
    return f, (randn(4, 5),)


@triton.jit
def _scaled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 3, at < n)


@case
def user_kernel() -> Made:
    def f(x: Any) -> Any:
        y = x.cos()
        if not x.is_xpu:
            return y * 3 + 1
        out = torch.empty_like(y)
        _scaled[(triton.cdiv(y.numel(), 64),)](y, out, y.numel(), BLOCK=64)
        return out + 1
    return f, (randn(130),)


@case
def softmax() -> Made:
    return lambda x: (x.softmax(-1), x.log_softmax(0), x.logsumexp(1)), (randn(7, 1000, grad=True),)


@case
def scans() -> Made:
    return lambda x: (x.cumsum(1), x.cumprod(0), x.cummax(1)[0], x.logcumsumexp(1)), (randn(6, 70),)


@case
def sorting() -> Made:
    return lambda x: (*x.sort(dim=1, stable=True), *x.topk(5), x.median(1)[0]), (randn(5, 40),)


@case
def gather_backward() -> Made:
    def f(x: Any, at: Any) -> Any:
        return x[at], x.take_along_dim(at[:, None] % 3, 1)
    return f, (randn(20, 3, grad=True), torch.randint(0, 20, (20,)))


@case
def convolution() -> Made:
    def f(x: Any, w: Any, t: Any) -> Any:
        return F.conv_transpose2d(F.conv2d(x, w, padding=1, stride=2).relu(), t)
    x = randn(2, 3, 16, 16).to(memory_format=torch.channels_last).requires_grad_()
    return f, (x, randn(8, 3, 3, 3, grad=True), randn(8, 4, 2, 2, grad=True))


@case
def pooling() -> Made:
    def f(x: Any) -> Any:
        return (F.max_pool2d(x, 3, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 3),
                F.interpolate(x, scale_factor=2, mode="bilinear"))
    return f, (randn(2, 3, 12, 12, grad=True),)


def _block(x: Any, qkv: Any, proj: Any, up: Any, down: Any) -> Any:
    y = F.layer_norm(x, x.shape[-1:])
    q, k, v = ((y @ qkv).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    x = x + y @ proj
    return x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ up) @ down


@case
def gpt_block() -> Made:
    weights = [randn(32, 96), randn(32, 32), randn(32, 128), randn(128, 32)]
    return _block, (randn(2, 16, 32, grad=True), *((0.2 * w).requires_grad_() for w in weights))


@case
def resnet_block() -> Made:
    def f(x: Any, a: Any, b: Any, scale: Any, shift: Any) -> Any:
        y = F.relu(F.batch_norm(F.conv2d(x, a, padding=1), None, None, scale, shift, True))
        return F.relu(F.batch_norm(F.conv2d(y, b, padding=1), None, None, scale, shift, True) + x)
    return f, (randn(2, 8, 8, 8, grad=True), randn(8, 8, 3, 3, grad=True),
               randn(8, 8, 3, 3, grad=True), randn(8, grad=True), randn(8, grad=True))


@case
def attention() -> Made:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), (
        randn(1, 4, 33, 16, grad=True), randn(1, 2, 40, 16, grad=True),
        randn(1, 2, 40, 16, grad=True))


@case
def flex_attention() -> Made:
    from torch.nn.attention.flex_attention import flex_attention as flex

    def f(q: Any, k: Any, v: Any) -> Any:
        def bias(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return torch.where(i >= j, score + (i - j) * 0.01, -float("inf"))
        return flex(q, k, v, score_mod=bias)
    return f, tuple(randn(1, 2, 256, 64).half() for _ in range(3))


@case
def vmap() -> Made:
    def f(x: Any, w: Any) -> Any:
        loss = lambda row: (row @ w).tanh().sum()  # noqa: E731
        return torch.vmap(torch.func.grad(loss))(x), torch.vmap(torch.outer)(x, x)
    return f, (randn(6, 5), randn(5, 3))


@case
def dynamic_shapes() -> Made:
    def f(x: Any) -> Any:
        return (x * x.shape[0]).reshape(-1, 2).sum(1), torch.arange(x.shape[0], device=x.device)
    return f, (randn(14, 6),)


@case
def casts() -> Made:
    def f(x: Any) -> Any:
        return (x.half().float(), x.bfloat16() * 2, x.to(torch.int8), x.double().sqrt(),
                x.to(torch.float8_e4m3fn).float(), x.to(torch.float8_e5m2).float())
    return f, (randn(50).abs(),)


@case
def integers() -> Made:
    def f(x: Any, y: Any) -> Any:
        return x // y, x % y, x << 2, x >> 1, torch.bitwise_and(x, y), x.abs().float().rsqrt()
    return f, (torch.randint(-99, 99, (64,)), torch.randint(1, 9, (64,)))


@case
def broadcasting() -> Made:
    return lambda x, y: (x[:, None] * y + x.T[0], torch.einsum("ij,kj->ik", x, y)), (
        randn(8, 8), randn(5, 8))


@case
def cat_and_split() -> Made:
    def f(x: Any) -> Any:
        a, b = x.split(3, 1)
        return (torch.cat([b.sin(), a, F.pad(b, (1, 2))], 1), x.roll(1),
                torch.stack([a[:, :2], b[:, :2]]))
    return f, (randn(4, 6, grad=True),)


@case
def embedding() -> Made:
    return lambda at, w: F.embedding(at, w).sum(1), (
        torch.randint(0, 30, (4, 7)), randn(30, 8, grad=True))


@case
def losses() -> Made:
    def f(x: Any, target: Any) -> Any:
        return F.cross_entropy(x, target, label_smoothing=0.1), F.nll_loss(x.log_softmax(1), target)
    return f, (randn(10, 50, grad=True), torch.randint(0, 50, (10,)))


@case
def fft_fallback() -> Made:
    return lambda x: (torch.fft.irfft(torch.fft.rfft(x) * 2) + x.sin(), torch.fft.rfft2(x).abs(),
                      torch.view_as_real(torch.fft.ihfftn(x.reshape(4, 2, 2, 8)))), (randn(4, 32),)


@case
def autotuned_product() -> Made:
    return lambda x, y: (x @ y).relu(), (randn(64, 64), randn(64, 64))


@case
def half_product() -> Made:
    return lambda x, y, b: torch.addmm(b, x, y).float().softmax(1), (
        randn(32, 64).half(), randn(64, 32).half(), randn(32).half())


@case
def decomposed_product() -> Made:
    return torch.mm, (randn(32, 2048) * 0.1, randn(2048, 32) * 0.1)


@case
def welford() -> Made:
    return lambda x: torch.var_mean(x, dim=(0, 2), keepdim=True), (randn(6, 5, 700),)


@case
def unfold_and_bucketize() -> Made:
    return lambda x, edges: (x.unfold(1, 4, 2).sum(-1), torch.bucketize(x, edges)), (
        randn(5, 20), torch.linspace(-2, 2, 9))


@case
def foreach() -> Made:
    return lambda *xs: torch._foreach_lerp(
        torch._foreach_mul(xs[:3], 2.0), xs[3:], 0.25), tuple(randn(4 + k % 3) for k in range(6))


@case
def mutated_arguments() -> Made:
    def f(x: Any, y: Any) -> Any:
        x.add_(y)
        y[2:4] = x[:2] * 5
        return x, y
    return f, (randn(6), randn(6))


@case
def control_flow() -> Made:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))
    return f, (randn(9),)


@case
def complex_numbers() -> Made:
    return lambda x: (torch.view_as_real(x * x.conj()), x.abs()), (
        torch.randn(5, 4, dtype=torch.complex64),)


OPTIONS |= {
    "autotuned_product": TUNED,
    "decomposed_product": TUNED | {"triton.num_decompose_k_splits": 2},
    "pointwise": {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
    "reductions": {"triton.multi_kernel": 0, "split_reductions": True},
    "foreach": {"combo_kernels": True},
    "softmax": {"triton.persistent_reductions": False},
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in FAST else
                 pytest.mark.rest if name in RARER else pytest.mark.slow) for name in CASES])
def test_as_on_the_cpu(name: str) -> None:
    import torch._inductor.config as config

    function, arguments = CASES[name]()
    want = results(function, arguments, "cpu")
    options = {key: value for key, value in OPTIONS.get(name, {}).items()
               if "peak_memory" not in key or hasattr(config, key)}
    with config.patch(options), torch._dynamo.config.patch(
            capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True, allow_rnn=True):
        got = results(torch.compile(
            function, fullgraph=name in WHOLE or name not in KINDS, dynamic=name in DYNAMIC),
            arguments, "xpu")
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        limit = 2e-2 if x.dtype in (torch.half, torch.bfloat16) else 1e-3
        torch.testing.assert_close(x, y, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD", "RMSprop", "Adagrad"])
def test_training_with_autocast_and_a_compiled_optimizer(optimizer: str) -> None:
    def train(device: str, compiled: bool, *, autocast: bool = False, steps: int = 3) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
        model = model.to(device)
        stepper = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
        forward = torch.compile(model) if compiled else model
        step = torch.compile(stepper.step) if compiled else stepper.step
        for batch in torch.randn(steps, 8, 16):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
                loss = forward(batch.to(device)).float().square().mean()
            loss.backward()
            step()
            stepper.zero_grad()
        return torch.cat([p.detach().cpu().flatten() for p in model.parameters()])
    moved = (train("cpu", False) - train("cpu", False, steps=0)).norm()
    assert (train("xpu", True) - train("cpu", False)).norm() < 1e-3 * moved
    # fused code rounds less often to bf16, and optimizers make much of gradients that are nearly 0
    assert (train("xpu", True, autocast=True) - train("cpu", False, autocast=True)).norm() < (
        0.2 * moved)


@pytest.mark.slow
def test_random_numbers_have_their_distribution() -> None:
    def f(x: Any) -> Any:
        return F.dropout(x, 0.25), torch.rand_like(x), torch.randn_like(x)

    dropped, uniform, normal = torch.compile(f)(torch.ones(1 << 16, device="xpu"))
    assert abs((dropped == 0).float().mean() - 0.25) < 0.01
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.std() - 1) < 0.02


@pytest.mark.slow
def test_a_compiled_function_in_a_graph() -> None:
    f = torch.compile(lambda x: (x.sin() * 2).sum(1) + 1)
    x = torch.randn(16, 16, device="xpu")
    f(x)
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        out = f(x)
    for _ in range(2):
        x.copy_(torch.randn(16, 16))
        graph.replay()
        torch.testing.assert_close(out.cpu(), (x.cpu().sin() * 2).sum(1) + 1)


@pytest.mark.slow
def test_block_pointers_are_refused_in_a_sentence() -> None:
    import torch._inductor.config as config

    with config.patch({"triton.use_block_ptr": True}), pytest.raises(
            Exception, match="Block pointers have been removed in favor of the tensor descriptor"):
        torch.compile(lambda x: (x + 1).sum(0))(torch.randn(64, 64, device="xpu"))


@triton.jit
def _doubled(x, out, ROWS: tl.constexpr):
    at = tl.program_id(0) * ROWS
    out.store([at, 0], x.load([at, 0]) * 2)


@pytest.mark.slow
def test_host_descriptors_made_in_a_compiled_function_and_given_to_one() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    def doubled(x: Any) -> Any:
        out = torch.empty_like(x)
        ends = (TensorDescriptor.from_tensor(each, [16, 64]) for each in (x, out))
        _doubled[(4,)](*ends, ROWS=16)
        return out + 1

    def launch(x: Any, out: Any, y: Any) -> Any:
        _doubled[(4,)](x, out, ROWS=16)
        return y.sin()

    x, y = torch.randn(2, 64, 64, device="xpu")
    torch.testing.assert_close(
        torch.compile(doubled, fullgraph=True)(x).cpu(), x.cpu() * 2 + 1)
    out = torch.empty_like(x)
    given = (TensorDescriptor.from_tensor(each, [16, 64]) for each in (x, out))
    torch.testing.assert_close(torch.compile(launch)(*given, y).cpu(), y.cpu().sin())
    torch.testing.assert_close(out.cpu(), x.cpu() * 2)


@pytest.mark.slow
def test_cooperative_reductions() -> None:
    import torch._inductor.config as config

    def f(x: Any) -> Any:
        return x.sum(-1), x.var(-1), x.argmax(-1), x.softmax(-1)

    x = torch.randn(3, 70000)
    with config.patch({"triton.force_cooperative_reductions": True}):
        got, (code, *_) = torch._inductor.utils.run_and_get_code(torch.compile(f), x.to("xpu"))
    assert "x_grid_barrier" in code
    for each, want in zip(got, f(x), strict=True):
        torch.testing.assert_close(each.cpu(), want, rtol=1e-4, atol=1e-4)
