"""Kinds of programs that Inductor compiles: each makes a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import triton
import triton.language as tl

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
Made = tuple[Callable[..., Any], tuple[Any, ...]]


def randn(*shape: int, grad: bool = False, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


def ints(*shape: int, low: int = 0, high: int = 9, dtype: Any = torch.int64) -> Any:
    return torch.randint(low, high, shape, dtype=dtype)


def module(make: Callable[[], Any], *inputs: Any) -> Made:
    """A layer as a function of its parameters, which have gradients, and of its inputs."""
    layer = make()
    names = {name: x.detach().clone().requires_grad_() for name, x in layer.named_parameters()}

    def call(parameters: Any, *given: Any) -> Any:
        return torch.func.functional_call(layer, parameters, given)
    return call, (names, *inputs)


class Clipped(torch.autograd.Function):
    """The identity, whose gradient is clipped."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.clamp(-1, 1)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def _tuned(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sigmoid(tl.load(x + at, at < n)), at < n)


def _launch_tuned(x: Any) -> Any:
    if not x.is_xpu:
        return x.sigmoid() + 1
    out = torch.empty_like(x)
    _tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out + 1


def _rotated(x: Any) -> Any:
    angles = torch.outer(torch.arange(x.shape[-2], device=x.device).float(),
                         0.5 ** torch.arange(x.shape[-1] // 2, device=x.device))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def _llama(x: Any, q: Any, kv: Any, up: Any, down: Any) -> Any:
    y = F.rms_norm(x, x.shape[-1:])
    query = (y @ q).unflatten(-1, (4, -1)).transpose(1, 2)
    key, value = (y @ kv).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(
        _rotated(query), _rotated(key), value, is_causal=True, enable_gqa=True)
    x = x + y.transpose(1, 2).flatten(2)
    gate, wide = (F.rms_norm(x, x.shape[-1:]) @ up).chunk(2, -1)
    return x + (F.silu(gate) * wide) @ down


def _experts(x: Any, router: Any, weights: Any) -> Any:
    share, chosen = (x @ router).softmax(-1).topk(2)
    return (torch.einsum("td,tkdf->tkf", x, weights[chosen]) * share[..., None]).sum(1)


def _cached(cache: Any, key: Any, at: Any, query: Any) -> Any:
    cache.index_copy_(1, at, key)
    return (query @ cache.transpose(1, 2)).softmax(-1) @ cache


def _quantized(x: Any, w: Any) -> Any:
    scale = x.abs().amax(1, keepdim=True) / 127
    return torch._int_mm((x / scale).round().to(torch.int8), w).float() * scale


def _eighths(x: Any) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


def _flex(block_mask: bool, **options: Any) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def f(q: Any, k: Any, v: Any) -> Any:
        mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 40), None, None,
                                 q.shape[2], k.shape[2], device=q.device) if block_mask else None
        return flex_attention(q, k, v, block_mask=mask, score_mod=None if block_mask else (
            lambda score, b, h, i, j: score + 0.1 * (i - j)), **options)
    return f


def _flex_or_products(q: Any, k: Any, v: Any) -> Any:
    """Attention with a bias; on the CPU, where flex attention has no backward, by products."""
    if q.is_xpu:
        return _flex(False)(q, k, v)
    at = torch.arange(128)
    return ((q @ k.mT) / 4 + 0.1 * (at[:, None] - at)).softmax(-1) @ v


def _qkv(heads: int = 2, keys: int = 2, **options: Any) -> tuple[Any, ...]:
    return (randn(1, heads, 128, 16, **options), *(
        randn(1, keys, 128, 16, **options) for _ in range(2)))


def _attributes(tree: Any) -> Any:
    return {"sum": tree["a"] + tree["b"][0], "rest": [x * 2 for x in tree["b"]]}


def _broken(x: Any) -> Any:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() if float(y.sum()) < 1e9 else y


def _looped(x: Any) -> Any:
    return torch.while_loop(
        lambda k, y: k < 3, lambda k, y: (k + 1, y * 1.5 + k),
        (torch.zeros((), dtype=torch.int64, device=x.device), x))


def _trained_norm(x: Any, mean: Any, variance: Any) -> Any:
    return F.batch_norm(x, mean, variance, training=True, momentum=0.3), mean + 1, variance * 2


def _mixed(x: Any, a: Any, b: Any) -> Any:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return F.gelu(x @ a) @ b


def _checkpointed(x: Any, w: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: F.gelu(y @ w).tanh(), x, use_reentrant=False)


def _loss(x: Any) -> Any:
    return (x.sin() * x.pow(3)).sum()


KINDS: dict[str, Callable[[], Made]] = {
    "activations": lambda: (lambda x: (
        F.relu6(x), F.hardswish(x), F.mish(x), F.softplus(x), F.elu(x), F.selu(x), F.celu(x),
        F.leaky_relu(x), F.hardtanh(x), F.logsigmoid(x), F.softsign(x), F.gelu(
            x, approximate="tanh")), (randn(70, grad=True),)),
    "special_functions": lambda: (lambda x: (
        x.lgamma(), x.digamma(), x.expm1(), (x / 4).erfinv(), x.sinc(), torch.special.i0e(x),
        torch.special.bessel_j0(x), x.erfc(), x.asinh(), (x + 1).acosh()), (
        torch.rand(50) * 3 + 0.1,)),
    "rounding": lambda: (lambda x, y: (
        x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.fmod(y), x.remainder(y),
        x.copysign(y), x.round(decimals=2)), (randn(64) * 5, randn(64))),
    "not_numbers": lambda: (lambda x: (
        x.isnan(), x.isinf(), x.nan_to_num(1, 2, 3), x.nansum(), x.nanmean(), x.signbit(),
        torch.fmax(x, x.flip(0)), torch.maximum(x, x.flip(0))), (
        torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), -0.0, 2.0]),)),
    "clamps": lambda: (lambda x, a, b: (
        x.clamp(a, a + 1), x.clamp_min(0.1), x.where(x > a, b), x.heaviside(b)), (
        randn(20, 6), randn(6), randn(20, 6))),
    "logic": lambda: (lambda x, y: (
        x & y, x ^ y, ~x, x.logical_or(y), (x & y).any(1), x.all(0), x.count_nonzero(1)), (
        randn(9, 11) > 0, randn(9, 11) > 0)),
    "promotion": lambda: (lambda a, b, c, d: (a + b, b * c, a / b, c + 1, d * 2.5, a > c, d + a), (
        ints(12, dtype=torch.int32), randn(12, dtype=torch.half), randn(12), randn(12) > 0)),
    "doubles": lambda: (lambda x: ((x.exp() / 3).sum(1), x.std(0), x.cumsum(1), x @ x.T), (
        randn(12, 40, dtype=torch.float64),)),
    "bfloat16_chain": lambda: (lambda x, w: F.rms_norm((x * 2).tanh() + x, (64,), w).sum(0), (
        randn(8, 64, dtype=torch.bfloat16), randn(64, dtype=torch.bfloat16))),
    "half_chain": lambda: (lambda x: (x.softmax(-1), x.exp() - 1, (x @ x.T).amax(1)), (
        randn(16, 32, dtype=torch.half),)),
    "bytes": lambda: (lambda x, y: (x + y, x * y, x // 3, -x, x.sum(0), x >> 1, y.float() / 2), (
        ints(8, 20, high=255, dtype=torch.uint8), ints(8, 20, high=255, dtype=torch.uint8))),
    "long_integers": lambda: (lambda x, y: (x * y, x // y, x % y, x.sum(), x.cumsum(0), x.gcd(y)), (
        ints(40, low=-2**40, high=2**40), ints(40, low=1, high=2**20))),
    "scalars": lambda: (lambda x, y: (x + y, (y * 3).exp(), x.mean() * y, y.expand(3, 3) + 1), (
        randn(5, 4, grad=True), torch.tensor(0.3))),
    "empty_tensors": lambda: (lambda x, y: (x + 1, x.sum(0), torch.cat([x, y]), x.sum(), x @ y.T), (
        randn(0, 6), randn(3, 6))),
    "fused_arithmetic": lambda: (lambda x, y, z: (
        torch.lerp(x, y, 0.3), torch.addcmul(x, y, z, value=2), torch.addcdiv(x, y, z.abs() + 1),
        torch.hypot(x, y), torch.logaddexp(x, y), x.pow(2) + y.square().rsqrt()), (
        randn(30, grad=True), randn(30, grad=True), randn(30))),
    "permuted": lambda: (lambda x: (
        x.permute(2, 0, 1) + 1, x.mT.contiguous() * 2, x.movedim(0, -1).reshape(-1).cos()), (
        randn(5, 18, 33, grad=True),)),
    "strided": lambda: (lambda x, y: (
        x[::2, 1::3] * 2, x[:, -3:] + y.expand(10, 3), x[..., None, :].sum(0)), (
        randn(10, 14, grad=True), randn(1, 3))),
    "flips": lambda: (lambda x: (x.flip(0), x.rot90(), x.roll((1, -2), (0, 1)), x.fliplr()), (
        randn(6, 7, grad=True),)),
    "triangles": lambda: (lambda x: (
        x.tril(-1), x.triu(1), x.diagonal().sum(), torch.diag_embed(x[0]), x.trace(),
        torch.eye(7, device=x.device) + x), (randn(7, 7, grad=True),)),
    "ranges": lambda: (lambda x: (
        torch.arange(0, 20, 3, device=x.device) + x[0], torch.linspace(0, 1, 9, device=x.device),
        torch.full((3,), 2.5, device=x.device) * x[0], torch.ones_like(x).cumsum(0)), (randn(5),)),
    "repeats": lambda: (lambda x: (
        x.repeat(2, 3), x.repeat_interleave(2, 1), x.tile(2), x.expand(2, -1, -1).sum(0)), (
        randn(4, 5, grad=True),)),
    "grids": lambda: (lambda x, y: (
        *torch.meshgrid(x, y, indexing="ij"), torch.cartesian_prod(x, y), torch.outer(x, y)), (
        randn(4), randn(5))),
    "indexing": lambda: (lambda x, at: (
        x.index_select(0, at), x.index_copy(0, at[:2], x[:2] + 5), x.index_fill(1, at[:1], 3.0),
        x[at, at], x.take(at), x[:, None, at].sum(1)), (randn(9, 9), torch.tensor([3, 1, 7, 5]))),
    "scatters": lambda: (lambda x, at, y: (
        x.scatter(1, at, y), x.scatter_add(1, at, y), x.scatter_reduce(1, at, y, "amax"),
        x.scatter_reduce(1, at, y, "mean", include_self=False), x.slice_scatter(y[:, :2], 1, 3, 5),
        x.select_scatter(y[:, 0], 1, 2), x.diagonal_scatter(y[:, 1])), (
        randn(5, 8), torch.rand(5, 8).argsort(1)[:, :6], randn(5, 6))),
    "masks": lambda: (lambda x, mask: (
        x.masked_fill(mask, -1), torch.where(mask, x, 0.0).sum(1), x * mask, F.threshold(x, 0, 9)),
        (randn(6, 9, grad=True), randn(6, 9) > 0)),
    "pieces": lambda: (lambda x: (
        *x.chunk(3, 1), *x.unbind(0)[:2], *x.tensor_split(4, 1), x.narrow(1, 2, 3).sum(),
        x.unflatten(1, (2, -1)).flatten(), torch.hstack([x, x]), torch.dstack([x, x])), (
        randn(4, 10, grad=True),)),
    "padding": lambda: (lambda x: (
        F.pad(x, (2, 1, 1, 2), "reflect"), F.pad(x, (1, 1, 2, 2), "replicate"),
        F.pad(x, (1, 2), "constant", 3.0), F.pad(x, (2, 2, 1, 1), "circular")), (
        randn(2, 3, 6, 7, grad=True),)),
    "shuffled_pixels": lambda: (lambda x: (
        F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)), (
        randn(1, 8, 4, 6, grad=True),)),
    "one_hot": lambda: (lambda at, w: (
        F.one_hot(at, 9), F.embedding_bag(at, w, mode="mean"), w[at].amax(1)), (
        ints(4, 5), randn(9, 6))),
    "searches": lambda: (lambda x, edges: (
        torch.searchsorted(edges, x), torch.searchsorted(edges, x, right=True),
        torch.isin(x.round(), torch.arange(3, device=x.device))), (
        randn(33), torch.linspace(-2, 2, 17))),
    "extremes": lambda: (lambda x: (
        *x.aminmax(dim=1), x.argmax(), x.argmin(0), *x.max(1), *x.min(0), x.amax((0, 1))), (
        randn(15, 40),)),
    "vector_norms": lambda: (lambda x: (
        x.norm(p=1, dim=1), x.norm(), torch.linalg.vector_norm(x, float("inf"), 0),
        F.normalize(x), F.cosine_similarity(x, x.flip(0)), torch.dist(x, x + 1)), (
        randn(12, 50, grad=True),)),
    "moments": lambda: (lambda x: (
        x.mean((0, 2)), x.std(1, keepdim=True), *torch.var_mean(x, 2, correction=0),
        *torch.std_mean(x, (0, 1))), (randn(5, 12, 30, grad=True),)),
    "long_reduction": lambda: (lambda x: (x.sum(), x.square().mean(), x.argmax(), x.prod()), (
        torch.rand(1, 120_000) * 0.01 + 0.995,)),
    "outer_reduction": lambda: (lambda x: (x.sum(0), x.amax(0), x.var(0)), (randn(3000, 9),)),
    "integer_reduction": lambda: (lambda x: (
        x.sum(1), x.prod(1), x.amax(0), x.max(1)[1], x.bool().sum(), x.float().mean()), (
        ints(11, 17, low=-3, high=4, dtype=torch.int32),)),
    "more_scans": lambda: (lambda x: (
        x.cummin(1)[0], x.flip(1).cumsum(1).flip(1), x.diff(), torch.trapezoid(x), x.cumsum(0)), (
        randn(6, 90),)),
    "order_statistics": lambda: (lambda x: (
        x.quantile(0.3, 1), x.kthvalue(4, 1)[0], x.argsort(dim=1, stable=True), x.topk(3, 0)[0],
        x.sort(descending=True)[0], x.nanmedian(), x.histc(5, -2, 2)), (randn(7, 31),)),
    "distances": lambda: (lambda x, y: (torch.cdist(x, y), F.pairwise_distance(x[:5], y)), (
        randn(8, 6, grad=True), randn(5, 6, grad=True))),
    "batch_norm_with_statistics": lambda: (_trained_norm, (
        randn(6, 4, 5, 5), torch.zeros(4), torch.ones(4))),
    "batch_norm_evaluated": lambda: (lambda x, m, v, w: F.batch_norm(x, m, v, w).relu(), (
        randn(3, 4, 6, 6), randn(4), torch.rand(4) + 0.5, randn(4))),
    "group_norm": lambda: (lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)), (
        randn(2, 8, 5, 5, grad=True), randn(8, grad=True), randn(8, grad=True))),
    "other_norms": lambda: (lambda x: (
        F.instance_norm(x), F.local_response_norm(x, 3), F.layer_norm(x, x.shape[1:])), (
        randn(2, 6, 7, 5, grad=True),)),
    "batched_products": lambda: (lambda x, y, b: (
        torch.bmm(x, y), torch.baddbmm(b, x, y, beta=0.5), x @ y[0], torch.matmul(x[0, 0], y)), (
        randn(3, 8, 12, grad=True), randn(3, 12, 7, grad=True), randn(3, 8, 7))),
    "sum_of_products": lambda: (lambda a, b, c, d: a @ b + c @ d, tuple(
        randn(24, 24) for _ in range(4))),
    "linear_in_bfloat16": lambda: (lambda x, w, b: F.relu(F.linear(x, w, b)).float(), (
        randn(5, 7, 16, dtype=torch.bfloat16), randn(24, 16, dtype=torch.bfloat16),
        randn(24, dtype=torch.bfloat16))),
    "contractions": lambda: (lambda x, y, z: (
        torch.einsum("bhid,bhjd->bhij", x, y), torch.einsum("bhid,de->bihe", x, z),
        torch.tensordot(x, z, ([3], [0])), torch.kron(z[:2, :2], z[:3, :2])), (
        randn(2, 3, 5, 8, grad=True), randn(2, 3, 6, 8), randn(8, 4, grad=True))),
    "integer_product": lambda: (_quantized, (
        randn(32, 64), ints(64, 48, low=-9, dtype=torch.int8))),
    "vectors": lambda: (lambda x, y, a: (
        a @ x, x.dot(x), torch.addr(a, y, x), torch.linalg.multi_dot([a.T, y[:, None]]),
        torch.linalg.cross(x[:3], y[:3])), (randn(6), randn(5), randn(5, 6))),
    "linear_algebra": lambda: (lambda x: (
        torch.linalg.inv(x), torch.linalg.cholesky(x @ x.T), torch.linalg.solve(x, x[:, 0]),
        torch.linalg.det(x), x.matrix_exp()), (randn(5, 5) + 3 * torch.eye(5),)),
    "tuned_addmm": lambda: (lambda b, x, y: F.gelu(torch.addmm(b, x, y)), (
        randn(48), randn(40, 64), randn(64, 48))),
    "tuned_bmm": lambda: (lambda x, y: torch.bmm(x, y) * 2, (randn(3, 33, 32), randn(3, 32, 65))),
    "tuned_half": lambda: (lambda x, y: (x @ y.T).relu() + 1, (
        randn(65, 48, dtype=torch.half), randn(33, 48, dtype=torch.half))),
    "tuned_dynamic": lambda: (lambda x, y: (x @ y).sigmoid(), (randn(37, 32), randn(32, 48))),
    "tuned_convolution": lambda: (lambda x, w: F.conv2d(x, w, padding=1), (
        randn(1, 16, 8, 8), randn(16, 16, 3, 3))),
    "convolutions_1d_and_3d": lambda: (lambda x, a, y, b: (
        F.conv1d(x, a, stride=2, padding=1), F.conv3d(y, b, padding=1)), (
        randn(2, 4, 15, grad=True), randn(6, 4, 3, grad=True), randn(1, 2, 4, 5, 6, grad=True),
        randn(3, 2, 3, 3, 3, grad=True))),
    "grouped_convolutions": lambda: (lambda x, a, b: F.conv2d(
        F.relu6(F.conv2d(x, a, groups=8, padding=1)), b, groups=2, dilation=2), (
        randn(2, 8, 9, 9).to(memory_format=torch.channels_last).requires_grad_(),
        randn(8, 1, 3, 3, grad=True), randn(4, 4, 2, 2, grad=True))),
    "more_pooling": lambda: (lambda x: (
        F.adaptive_max_pool2d(x, 3), F.lp_pool2d(x.abs(), 2, 2), F.avg_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, 2, 1, 1, 2), F.adaptive_avg_pool2d(x, (2, 5))), (
        randn(2, 3, 11, 13, grad=True),)),
    "interpolation": lambda: (lambda x: (
        F.interpolate(x, scale_factor=2, mode="nearest"), F.interpolate(
            x, (9, 5), mode="bicubic", align_corners=True), F.interpolate(
            x, (4, 9), mode="bilinear", antialias=True)), (randn(1, 2, 6, 7, grad=True),)),
    "sampled_grid": lambda: (lambda x, at: F.grid_sample(x, at, align_corners=False), (
        randn(1, 3, 6, 6, grad=True), torch.rand(1, 4, 5, 2) * 2 - 1)),
    "unfolded": lambda: (lambda x: F.fold(F.unfold(x, 3, padding=1) * 2, (6, 6), 3, padding=1), (
        randn(1, 2, 6, 6, grad=True),)),
    "lstm": lambda: module(lambda: nn.LSTM(6, 5, batch_first=True), randn(2, 4, 6)),
    "gru_cell": lambda: module(lambda: nn.GRUCell(6, 5), randn(3, 6), randn(3, 5)),
    "multihead_attention": lambda: module(
        lambda: nn.MultiheadAttention(16, 4, batch_first=True), *(randn(2, 5, 16),) * 3),
    "transformer_layer": lambda: module(
        lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True),
        randn(2, 6, 16)),
    "residual_mlp": lambda: module(lambda: nn.Sequential(
        nn.Linear(12, 24), nn.SiLU(), nn.LayerNorm(24), nn.Linear(24, 3)), randn(7, 12)),
    "llama_block": lambda: (_llama, (randn(2, 16, 32, grad=True), *(
        (0.2 * w).requires_grad_() for w in (
            randn(32, 32), randn(32, 32), randn(32, 96), randn(48, 32))))),
    "experts": lambda: (_experts, (
        randn(12, 16, grad=True), randn(16, 4, grad=True), randn(4, 16, 8, grad=True))),
    "key_value_cache": lambda: (_cached, (
        randn(2, 16, 8), randn(2, 3, 8), torch.tensor([4, 5, 6]), randn(2, 3, 8))),
    "masked_attention": lambda: (lambda q, k, v, mask: F.scaled_dot_product_attention(
        q, k, v, mask), (randn(2, 2, 9, 16, grad=True), randn(2, 2, 11, 16, grad=True),
                         randn(2, 2, 11, 16, grad=True), randn(9, 11) > -1)),
    "attention_in_half": lambda: (lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True), tuple(randn(1, 2, 32, 16, dtype=torch.half) for _ in range(3))),
    "flex_with_blocks": lambda: (_flex(True), _qkv()),
    "flex_backward": lambda: (_flex_or_products, _qkv(grad=True)),
    "flex_grouped": lambda: (_flex(False, enable_gqa=True), _qkv(4, 2)),
    "regression_losses": lambda: (lambda x, y: (
        F.mse_loss(x, y), F.l1_loss(x, y), F.huber_loss(x, y), F.smooth_l1_loss(x, y, beta=0.5),
        F.poisson_nll_loss(x, y.square())), (randn(9, 5, grad=True), randn(9, 5))),
    "class_losses": lambda: (lambda x, at, y: (
        F.cross_entropy(x, at, ignore_index=2), F.binary_cross_entropy_with_logits(x, y),
        F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        F.multi_margin_loss(x, at)), (randn(8, 6, grad=True), ints(8, high=6), torch.rand(8, 6))),
    "embedding_losses": lambda: (lambda x, y, z: (
        F.triplet_margin_loss(x, y, z), F.cosine_embedding_loss(x, y, z[:, 0].sign()),
        F.margin_ranking_loss(x[:, 0], y[:, 0], z[:, 0].sign())), tuple(
        randn(6, 8, grad=True) for _ in range(3))),
    "bags_of_embeddings": lambda: (lambda at, w, ends: tuple(
        F.embedding_bag(at, w, ends, mode=mode, include_last_offset=True)
        for mode in ("sum", "mean", "max")), (
            ints(12), randn(9, 8, grad=True), torch.tensor([0, 4, 12]))),
    "own_gradient": lambda: (lambda x: Clipped.apply(x * 3).square(), (randn(20, grad=True),)),
    "checkpointed": lambda: (_checkpointed, (randn(6, 8, grad=True), randn(8, 8, grad=True))),
    "forward_derivative": lambda: (lambda x, t: torch.func.jvp(
        lambda y: y.sin() * y.exp(), (x,), (t,)), (randn(12), randn(12))),
    "jacobian": lambda: (lambda x, w: torch.func.jacrev(lambda y: (w @ y).tanh())(x), (
        randn(5), randn(4, 5))),
    "hessian": lambda: (lambda x: torch.func.hessian(_loss)(x), (randn(6),)),
    "vectorized_layers": lambda: (lambda x, w: torch.vmap(F.conv1d, in_dims=(0, 0))(x, w), (
        randn(3, 2, 4, 9), randn(3, 5, 4, 3))),
    "autocast": lambda: (_mixed, (randn(6, 16), randn(16, 12), 0.1 * randn(12, 8))),
    "detached": lambda: (lambda x: x.detach() * x + x.sin().detach(), (randn(9, grad=True),)),
    "trees_of_arguments": lambda: (_attributes, ({"a": randn(4), "b": [randn(4), randn(4)]},)),
    "graph_break": lambda: (_broken, (randn(10),)),
    "while_loop": lambda: (_looped, (randn(5),)),
    "sizes_of_results": lambda: (lambda x: (x.nonzero() * 2, x[x > 0].sin(), x.unique()), (
        ints(30, low=-3, high=3).float(),)),
    "dynamic_pieces": lambda: (lambda x, y: (
        torch.cat([x, y[: x.shape[0] // 2]]), x[1:].amax(1), y.sum(0) / y.shape[0],
        F.pad(x, (0, x.shape[0]))), (randn(14, 6), randn(20, 6))),
    "dynamic_product": lambda: (lambda x, y: F.softmax(x @ y, -1) * x.shape[0], (
        randn(13, 8, grad=True), randn(8, 11, grad=True))),
    "numbers_as_arguments": lambda: (lambda x, k, scale: (x[:k] * scale, x.view(-1, k).sum(1)), (
        randn(24), 6, 2.5)),
    "aliases": lambda: (lambda x, y: (x, x[1:], y.add_(1), y.view(-1)[:3], x.T), (
        randn(3, 4), randn(3, 4))),
    "written_slices": lambda: (lambda x: (
        x[1:3].zero_(), x[:, 0].add_(2), x.diagonal().mul_(3), x), (randn(5, 5),)),
    "complex_products": lambda: (lambda x: (
        torch.view_as_real(x @ x.mH), torch.view_as_real((x * 1j).exp()), x.angle(),
        torch.polar(x.abs(), x.angle()).real), (torch.randn(5, 5, dtype=torch.complex64),)),
    "combined_reductions": lambda: (lambda x, y, z: (x.sum(0), y.amax(1), z.tanh(), x.mean(1)), (
        randn(10, 12), randn(20, 21), randn(8, 30))),
    "descended": lambda: (lambda x: (x.sin().sum(1), x.softmax(0)), (randn(33, 65),)),
    "frozen": lambda: (lambda x: F.linear(x, torch.ones(4, 8, device=x.device)).relu(), (
        randn(5, 8),)),
    "eight_bit_floats": lambda: (_eighths, (randn(9, 64),)),
    "tuned_kernel_of_a_user": lambda: (_launch_tuned, (randn(500),)),
    "two_kernels_at_once": lambda: (lambda x, y: (x.sum(), (y * 2).cos(), x @ y), (
        randn(16, 16), randn(16, 16))),
}
TUNED = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: TUNED for name in KINDS if name.startswith("tuned_") and "user" not in name},
    "tuned_convolution": {"max_autotune": True, "max_autotune_conv_backends": "TRITON"},
    "combined_reductions": {"combo_kernels": True, "combo_kernel_peak_memory_pct_threshold": None},
    "descended": {"coordinate_descent_tuning": True, "max_autotune_pointwise": True},
    "frozen": {"freezing": True},
}
DYNAMIC = {"dynamic_shapes", *(name for name in KINDS if "dynamic" in name)}
WHOLE = set(KINDS) - {"graph_break", "order_statistics", "sizes_of_results"}
"""Kinds that are one graph."""
