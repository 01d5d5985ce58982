"""Operators give on the simulated device what they give on the CPU, and stay on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def floats(device: str, *shape: int, seed: int = 0, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator).add(0.1).to(dtype).to(device)


def ints(device: str, *shape: int, high: int = 10) -> Any:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, high, shape, generator=generator).to(device)


UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1
floor frac isfinite isinf isnan lgamma log log10 log1p log2 logit neg positive rad2deg reciprocal
relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc i0 sum prod
mean std var median max min argmax argmin any all cumsum cumprod logcumsumexp logsumexp sort
unique argsort flatten ravel numel nonzero tril triu diag trace fliplr flipud t clone contiguous
float double half bfloat16 int long bool nan_to_num norm cov corrcoef aminmax cummax cummin diff
msort var_mean std_mean logdet det inverse matrix_exp pinverse cholesky_spd qr eigvalsh_spd
slogdet mode view_as_complex_pair conj nanmean nansum nanmedian count_nonzero hardshrink heaviside
""".split()
ALONG_ROWS = ("cumsum", "cumprod", "logcumsumexp", "logsumexp", "cummax", "cummin")


def unary(name: str) -> Callable[[str], Any]:
    def call(device: str) -> Any:
        x = floats(device, 4, 4).mul(0.8)
        if name in ALONG_ROWS:
            return getattr(torch, name)(x, 0)
        if name.endswith("_spd"):
            spd = x @ x.t() + torch.eye(4, device=device)
            return getattr(torch.linalg, name[:-4])(spd)
        if name == "view_as_complex_pair":
            return torch.view_as_real(torch.view_as_complex(x.view(4, 2, 2)) * 2j)
        if name == "heaviside":
            return torch.heaviside(x - 0.5, x)
        if name in ("acosh",):
            return torch.acosh(x + 1)
        if name == "qr":
            return torch.linalg.qr(x)[1].abs()
        return getattr(x, name)() if hasattr(x, name) else getattr(torch, name)(x)

    return call


BINARY = """
add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin eq ne
lt le gt ge isclose hypot logaddexp logaddexp2 nextafter copysign cross dist xlogy mm matmul kron
inner outer_row allclose equal
""".split()


def binary(name: str) -> Callable[[str], Any]:
    def call(device: str) -> Any:
        x, y = floats(device, 3, 3), floats(device, 3, 3, seed=1)
        if name == "outer_row":
            return torch.outer(x[0], y[0])
        return getattr(torch, name)(x, y)

    return call


IN_PLACE = "add_ sub_ mul_ div_ pow_ fmod_ clamp_ fill_ copysign_ eq_ remainder_".split()
IN_PLACE_UNARY = "zero_ abs_ neg_ exp_ sqrt_ sigmoid_ tanh_ relu_ round_ floor_ t_ tril_".split()


def in_place(name: str) -> Callable[[str], Any]:
    def call(device: str) -> Any:
        x = floats(device, 3, 3)
        pointer = x.data_ptr()
        if name in IN_PLACE:
            result = getattr(x, name)(0.5)
        else:
            result = getattr(x, name)()
        assert result is x
        assert x.data_ptr() == pointer
        return x

    return call


FACTORIES: dict[str, Callable[[str], Any]] = {
    "zeros": lambda d: torch.zeros(3, device=d),
    "ones": lambda d: torch.ones(2, 3, device=d, dtype=torch.float16),
    "full": lambda d: torch.full((3,), 7, device=d),
    "arange": lambda d: torch.arange(10, device=d),
    "arange_step": lambda d: torch.arange(1, 2, 0.25, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 7, device=d),
    "logspace": lambda d: torch.logspace(0, 1, 7, device=d),
    "eye": lambda d: torch.eye(3, 4, device=d),
    "tensor": lambda d: torch.tensor([[1.5, 2], [3, 4]], device=d),
    "tensor_scalar": lambda d: torch.tensor(3, device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "triu_indices": lambda d: torch.triu_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(8, device=d),
    "hamming_window": lambda d: torch.hamming_window(8, device=d),
    "kaiser_window": lambda d: torch.kaiser_window(8, device=d),
    "vander": lambda d: torch.vander(torch.arange(3, device=d)),
    "complex": lambda d: torch.complex(floats(d, 3), floats(d, 3)),
    "polar": lambda d: torch.polar(floats(d, 3), floats(d, 3)),
    "zeros_like": lambda d: torch.zeros_like(floats(d, 3)),
    "full_like": lambda d: torch.full_like(floats(d, 3), 2),
    "ones_like": lambda d: torch.ones_like(floats(d, 3, 4).t()),
    "new_zeros": lambda d: floats(d, 3).new_zeros(2, 2),
    "new_tensor": lambda d: floats(d, 3).new_tensor([1, 2]),
    "new_full": lambda d: floats(d, 3).new_full((2,), 5),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d).fill_(1),
    "empty_zero": lambda d: torch.empty(0, device=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(2.5, device=d),
    "cartesian_prod": lambda d: torch.cartesian_prod(ints(d, 3), ints(d, 2)),
    "meshgrid": lambda d: torch.meshgrid(ints(d, 3), ints(d, 2), indexing="ij"),
    "block_diag": lambda d: torch.block_diag(floats(d, 2, 2), floats(d, 1, 3)),
    "one_hot": lambda d: F.one_hot(ints(d, 5), 10),
    "from_numpy": lambda d: torch.from_numpy(__import__("numpy").arange(4)).to(d),
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:3, ::2],
    "select": lambda x: x[1],
    "newaxis": lambda x: x[:, None],
    "ellipsis": lambda x: x[..., -1],
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "t": lambda x: x.t(),
    "view": lambda x: x.view(2, 8),
    "view_dtype": lambda x: x.view(torch.int32),
    "view_bytes": lambda x: x.view(torch.uint8),
    "reshape": lambda x: x.reshape(8, -1),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(0, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "expand": lambda x: x[0].expand(3, 4),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "split": lambda x: x.split(2)[1],
    "split_sizes": lambda x: x.split([1, 3])[1],
    "chunk": lambda x: x.chunk(2)[1],
    "tensor_split": lambda x: x.tensor_split(3)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 2, 2))),
    "imag": lambda x: torch.view_as_complex(x.view(4, 2, 2)).imag,
    "data": lambda x: x.data,
}

OTHERS: dict[str, Callable[[str], Any]] = {
    # joining, indexing, reordering
    "cat": lambda d: torch.cat([floats(d, 2, 3), floats(d, 1, 3)]),
    "stack": lambda d: torch.stack([floats(d, 3), floats(d, 3)]),
    "hstack": lambda d: torch.hstack([floats(d, 3), floats(d, 3)]),
    "where": lambda d: torch.where(floats(d, 3) > 0.5, floats(d, 3), 0.0),
    "where_index": lambda d: torch.where(ints(d, 5) > 3),
    "masked_fill": lambda d: floats(d, 4).masked_fill(ints(d, 4) > 3, 0),
    "masked_select": lambda d: floats(d, 8).masked_select(ints(d, 8) > 3),
    "masked_scatter": lambda d: floats(d, 4).masked_scatter(ints(d, 4) > 3, floats(d, 4)),
    "gather": lambda d: floats(d, 4, 4).gather(1, ints(d, 4, 2, high=4)),
    "scatter": lambda d: torch.zeros(4, 4, device=d).scatter(1, ints(d, 4, 1, high=4), 1.0),
    "scatter_add": lambda d: torch.zeros(4, device=d).scatter_add(
        0, ints(d, 9, high=4), floats(d, 9)),
    "scatter_reduce": lambda d: torch.zeros(4, device=d).scatter_reduce(
        0, ints(d, 9, high=4), floats(d, 9), "amax"),
    "index": lambda d: floats(d, 5, 2)[ints(d, 3, high=5)],
    "index_cpu": lambda d: floats(d, 5, 2)[torch.tensor([0, 2])],
    "index_mask": lambda d: floats(d, 5)[ints(d, 5) > 3],
    "index_put": lambda d: floats(d, 5).index_put_((ints(d, 2, high=5),), torch.ones(2, device=d)),
    "setitem": lambda d: set_item(floats(d, 5)),
    "index_select": lambda d: floats(d, 5, 2).index_select(0, ints(d, 3, high=5)),
    "index_add": lambda d: floats(d, 5).index_add(0, ints(d, 3, high=5), floats(d, 3)),
    "index_fill": lambda d: floats(d, 5).index_fill(0, ints(d, 2, high=5), 3.0),
    "index_copy": lambda d: floats(d, 5).index_copy(0, torch.arange(2, device=d), floats(d, 2)),
    "take": lambda d: floats(d, 5).take(ints(d, 3, high=5)),
    "take_along_dim": lambda d: floats(d, 5).take_along_dim(ints(d, 3, high=5)),
    "put": lambda d: floats(d, 5).put(torch.arange(2, device=d), floats(d, 2)),
    "roll": lambda d: floats(d, 5).roll(2),
    "rot90": lambda d: floats(d, 2, 3).rot90(),
    "flip": lambda d: floats(d, 2, 3).flip(1),
    "repeat": lambda d: floats(d, 2).repeat(3, 2),
    "repeat_interleave": lambda d: floats(d, 3).repeat_interleave(torch.tensor([1, 2, 0]).to(d)),
    "tile": lambda d: floats(d, 2).tile(3),
    "pad": lambda d: F.pad(floats(d, 2, 3), (1, 1)),
    "pad_reflect": lambda d: F.pad(floats(d, 1, 2, 5), (2, 1), mode="reflect"),
    "topk": lambda d: floats(d, 9).topk(3),
    "kthvalue": lambda d: floats(d, 9).kthvalue(3),
    "sort_stable": lambda d: ints(d, 9).sort(stable=True),
    "unique_counts": lambda d: ints(d, 9).unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda d: ints(d, 9).unique_consecutive(),
    "searchsorted": lambda d: torch.searchsorted(torch.arange(5.0, device=d), floats(d, 4)),
    "bucketize": lambda d: torch.bucketize(floats(d, 4), torch.arange(5.0, device=d)),
    "bincount": lambda d: ints(d, 9).bincount(),
    "histc": lambda d: floats(d, 9).histc(4),
    "isin": lambda d: torch.isin(ints(d, 9), torch.tensor([1, 2], device=d)),
    "clamp_tensor": lambda d: floats(d, 9).clamp(floats(d, 9) * 0.5, floats(d, 9) * 0.7),
    "lerp": lambda d: floats(d, 3).lerp(floats(d, 3, seed=2), 0.3),
    "addcmul": lambda d: floats(d, 3).addcmul(floats(d, 3), floats(d, 3), value=2),
    "addcdiv": lambda d: floats(d, 3).addcdiv(floats(d, 3), floats(d, 3), value=2),
    "cdist": lambda d: torch.cdist(floats(d, 3, 2), floats(d, 4, 2)),
    "einsum": lambda d: torch.einsum("ij,jk->ik", floats(d, 3, 2), floats(d, 2, 4)),
    "tensordot": lambda d: torch.tensordot(floats(d, 3, 2), floats(d, 2, 4), 1),
    "quantile": lambda d: floats(d, 9).quantile(0.3),
    "bitwise": lambda d: (ints(d, 4) & 3 | 8) ^ 1,
    "shift": lambda d: ints(d, 4) << 2 >> 1,
    "logical": lambda d: torch.logical_xor(ints(d, 4) > 3, ints(d, 4) > 5),
    "scalar_mix": lambda d: 2 - floats(d, 3) * 3 + torch.tensor(1.5),
    "promotion": lambda d: ints(d, 3) + floats(d, 3, dtype=torch.float16),
    "gcd": lambda d: torch.gcd(ints(d, 4), ints(d, 4) + 2),
    "to_dtype": lambda d: floats(d, 3).to(torch.float64).to(torch.int32),
    "to_channels_last": lambda d: floats(d, 1, 2, 3, 3).to(memory_format=torch.channels_last),
    "fp8": lambda d: floats(d, 4).to(torch.float8_e4m3fn).float(),
    "cumulative_trapezoid": lambda d: torch.cumulative_trapezoid(floats(d, 5)),
    "combinations": lambda d: torch.combinations(ints(d, 4)),
    "broadcast_tensors": lambda d: torch.broadcast_tensors(floats(d, 3, 1), floats(d, 4)),
    "foreach": lambda d: torch._foreach_add([floats(d, 3), floats(d, 2)], 1.0),
    "foreach_in_place": lambda d: foreach_in_place([floats(d, 3), floats(d, 2)]),
    "foreach_norm": lambda d: torch._foreach_norm([floats(d, 3), floats(d, 2)]),
    "item": lambda d: torch.tensor(floats(d, 3)[1].item()),
    "tolist": lambda d: torch.tensor(floats(d, 3).tolist()),
    "bool_value": lambda d: torch.tensor(bool((floats(d, 3) > 0).all())),
    # out=
    "out_empty": lambda d: torch.add(floats(d, 3), 1, out=torch.empty(0, device=d)),
    "out_same": lambda d: torch.mul(floats(d, 3), 2, out=torch.empty(3, device=d)),
    "out_view": lambda d: out_view(torch.zeros(2, 3, device=d), floats(d, 3)),
    "out_mm": lambda d: torch.mm(floats(d, 2, 3), floats(d, 3, 2), out=torch.empty(2, 2, device=d)),
    "out_sort": lambda d: torch.sort(floats(d, 5), out=(
        torch.empty(0, device=d), torch.empty(0, device=d, dtype=torch.int64))),
    "out_alias": lambda d: out_alias(floats(d, 4)),
    "out_grow": lambda d: torch.cat([floats(d, 3)] * 2, out=torch.empty(0, device=d)),
    # linear algebra
    "addmm": lambda d: torch.addmm(floats(d, 4), floats(d, 3, 2), floats(d, 2, 4)),
    "baddbmm": lambda d: torch.baddbmm(floats(d, 2, 3, 3), floats(d, 2, 3, 2), floats(d, 2, 2, 3)),
    "bmm": lambda d: torch.bmm(floats(d, 2, 3, 2), floats(d, 2, 2, 3)),
    "mv": lambda d: floats(d, 3, 2) @ floats(d, 2),
    "dot": lambda d: floats(d, 3).dot(floats(d, 3)),
    "half_mm": lambda d: floats(d, 8, 8).half() @ floats(d, 8, 8, seed=1).half(),
    "bf16_mm": lambda d: floats(d, 8, 8).bfloat16() @ floats(d, 8, 8, seed=1).bfloat16(),
    "int_mm": lambda d: ints(d, 3, 3) @ ints(d, 3, 3),
    "complex_mm": lambda d: torch.polar(floats(d, 2, 2), floats(d, 2, 2)) @ torch.polar(
        floats(d, 2, 2), floats(d, 2, 2)).conj().t(),
    "solve": lambda d: torch.linalg.solve(floats(d, 3, 3) + torch.eye(3, device=d), floats(d, 3)),
    "lstsq": lambda d: torch.linalg.lstsq(floats(d, 4, 2), floats(d, 4, 1)).solution,
    "svdvals": lambda d: torch.linalg.svdvals(floats(d, 3, 3)),
    "matrix_norm": lambda d: torch.linalg.matrix_norm(floats(d, 3, 3)),
    "vector_norm": lambda d: torch.linalg.vector_norm(floats(d, 3), 3),
    "matrix_power": lambda d: torch.linalg.matrix_power(floats(d, 3, 3), 3),
    "multi_dot": lambda d: torch.linalg.multi_dot(
        [floats(d, 2, 3), floats(d, 3, 4), floats(d, 4, 1)]),
    "lu_factor": lambda d: torch.linalg.lu_factor(floats(d, 3, 3)),
    "triangular": lambda d: torch.linalg.solve_triangular(
        torch.eye(3, device=d) * 2, floats(d, 3, 2), upper=True),
    "fft": lambda d: torch.fft.fft(floats(d, 8)),
    "irfft2": lambda d: torch.fft.irfft2(torch.fft.rfft2(floats(d, 4, 4))),
    "stft": lambda d: torch.stft(
        floats(d, 64), 16, return_complex=True, window=torch.ones(16, device=d)),
    # neural networks
    "linear": lambda d: F.linear(floats(d, 2, 3), floats(d, 4, 3), floats(d, 4)),
    "bilinear": lambda d: F.bilinear(
        floats(d, 2, 3), floats(d, 2, 2), floats(d, 4, 3, 2)),
    "conv1d": lambda d: F.conv1d(floats(d, 1, 2, 9), floats(d, 3, 2, 3)),
    "conv2d": lambda d: F.conv2d(floats(d, 1, 2, 9, 9), floats(d, 4, 2, 3, 3), padding=1, stride=2),
    "conv2d_groups": lambda d: F.conv2d(floats(d, 1, 4, 9, 9), floats(d, 4, 1, 3, 3), groups=4),
    "conv2d_same": lambda d: F.conv2d(floats(d, 1, 2, 9, 9), floats(d, 4, 2, 3, 3), padding="same"),
    "conv2d_channels_last": lambda d: F.conv2d(
        floats(d, 1, 2, 9, 9).to(memory_format=torch.channels_last), floats(d, 4, 2, 3, 3)),
    "conv3d": lambda d: F.conv3d(floats(d, 1, 2, 5, 5, 5), floats(d, 3, 2, 3, 3, 3)),
    "conv_transpose2d": lambda d: F.conv_transpose2d(floats(d, 1, 2, 4, 4), floats(d, 2, 3, 3, 3)),
    "max_pool2d": lambda d: F.max_pool2d(floats(d, 1, 2, 8, 8), 2, return_indices=True),
    "max_unpool2d": lambda d: F.max_unpool2d(
        *F.max_pool2d(floats(d, 1, 2, 8, 8), 2, return_indices=True), 2),
    "avg_pool2d": lambda d: F.avg_pool2d(floats(d, 1, 2, 8, 8), 2),
    "adaptive_avg_pool2d": lambda d: F.adaptive_avg_pool2d(floats(d, 1, 2, 8, 8), 3),
    "adaptive_max_pool1d": lambda d: F.adaptive_max_pool1d(floats(d, 1, 2, 8), 3),
    "interpolate": lambda d: F.interpolate(floats(d, 1, 2, 4, 4), scale_factor=2, mode="bilinear"),
    "interpolate_bicubic": lambda d: F.interpolate(floats(d, 1, 2, 4, 4), size=7, mode="bicubic"),
    "grid_sample": lambda d: F.grid_sample(
        floats(d, 1, 2, 4, 4), floats(d, 1, 3, 3, 2), align_corners=False),
    "affine_grid": lambda d: F.affine_grid(floats(d, 1, 2, 3), [1, 1, 4, 4], align_corners=False),
    "pixel_shuffle": lambda d: F.pixel_shuffle(floats(d, 1, 4, 2, 2), 2),
    "unfold": lambda d: F.unfold(floats(d, 1, 2, 4, 4), 2),
    "fold": lambda d: F.fold(floats(d, 1, 8, 9), (4, 4), 2),
    "batch_norm": lambda d: F.batch_norm(
        floats(d, 4, 3), torch.zeros(3, device=d), torch.ones(3, device=d), training=True),
    "instance_norm": lambda d: F.instance_norm(floats(d, 2, 3, 4)),
    "layer_norm": lambda d: F.layer_norm(floats(d, 2, 4), (4,), floats(d, 4), floats(d, 4)),
    "group_norm": lambda d: F.group_norm(floats(d, 2, 4, 3), 2),
    "rms_norm": lambda d: F.rms_norm(floats(d, 2, 4), (4,), floats(d, 4)),
    "local_response_norm": lambda d: F.local_response_norm(floats(d, 1, 4, 4, 4), 2),
    "normalize": lambda d: F.normalize(floats(d, 2, 4)),
    "weight_norm": lambda d: torch._weight_norm(floats(d, 3, 4), floats(d, 3, 1)),
    "softmax": lambda d: floats(d, 2, 4).softmax(-1),
    "log_softmax": lambda d: floats(d, 2, 4).log_softmax(-1),
    "gelu": lambda d: F.gelu(floats(d, 4)),
    "gelu_tanh": lambda d: F.gelu(floats(d, 4), approximate="tanh"),
    "silu": lambda d: F.silu(floats(d, 4)),
    "mish": lambda d: F.mish(floats(d, 4)),
    "elu": lambda d: F.elu(floats(d, 4) - 0.5),
    "celu": lambda d: F.celu(floats(d, 4) - 0.5),
    "selu": lambda d: F.selu(floats(d, 4) - 0.5),
    "leaky_relu": lambda d: F.leaky_relu(floats(d, 4) - 0.5),
    "prelu": lambda d: F.prelu(floats(d, 4) - 0.5, floats(d, 1)),
    "hardswish": lambda d: F.hardswish(floats(d, 4)),
    "hardtanh": lambda d: F.hardtanh(floats(d, 4)),
    "softplus": lambda d: F.softplus(floats(d, 4)),
    "softshrink": lambda d: F.softshrink(floats(d, 4)),
    "logsigmoid": lambda d: F.logsigmoid(floats(d, 4)),
    "glu": lambda d: F.glu(floats(d, 4)),
    "threshold": lambda d: F.threshold(floats(d, 4), 0.5, 0.0),
    "embedding": lambda d: F.embedding(ints(d, 3), floats(d, 10, 4)),
    "embedding_bag": lambda d: F.embedding_bag(ints(d, 2, 3), floats(d, 10, 4)),
    "cross_entropy": lambda d: F.cross_entropy(floats(d, 4, 10), ints(d, 4)),
    "nll_loss": lambda d: F.nll_loss(floats(d, 4, 10), ints(d, 4)),
    "mse_loss": lambda d: F.mse_loss(floats(d, 4), floats(d, 4, seed=1)),
    "l1_loss": lambda d: F.l1_loss(floats(d, 4), floats(d, 4, seed=1)),
    "huber_loss": lambda d: F.huber_loss(floats(d, 4), floats(d, 4, seed=1)),
    "smooth_l1_loss": lambda d: F.smooth_l1_loss(floats(d, 4), floats(d, 4, seed=1)),
    "kl_div": lambda d: F.kl_div(floats(d, 4).log(), floats(d, 4), reduction="sum"),
    "bce": lambda d: F.binary_cross_entropy(floats(d, 4) * 0.5, floats(d, 4) * 0.9),
    "bce_logits": lambda d: F.binary_cross_entropy_with_logits(floats(d, 4), floats(d, 4)),
    "ctc_loss": lambda d: F.ctc_loss(
        floats(d, 6, 2, 5).log_softmax(-1), ints(d, 2, 3, high=4) + 1, torch.tensor([6, 6]),
        torch.tensor([3, 3])),
    "triplet": lambda d: F.triplet_margin_loss(
        floats(d, 3, 4), floats(d, 3, 4, seed=1), floats(d, 3, 4, seed=2)),
    "cosine_similarity": lambda d: F.cosine_similarity(floats(d, 3, 4), floats(d, 3, 4, seed=1)),
    "sdpa": lambda d: F.scaled_dot_product_attention(
        floats(d, 2, 4, 8, 16), floats(d, 2, 4, 8, 16, seed=1), floats(d, 2, 4, 8, 16, seed=2)),
    "sdpa_causal": lambda d: F.scaled_dot_product_attention(
        floats(d, 2, 4, 8, 16), floats(d, 2, 4, 8, 16), floats(d, 2, 4, 8, 16), is_causal=True),
    "sdpa_bool_mask": lambda d: F.scaled_dot_product_attention(
        floats(d, 1, 2, 8, 16), floats(d, 1, 2, 8, 16), floats(d, 1, 2, 8, 16),
        attn_mask=torch.ones(8, 8, device=d, dtype=torch.bool).tril()),
    "sdpa_gqa": lambda d: F.scaled_dot_product_attention(
        floats(d, 1, 4, 8, 16), floats(d, 1, 2, 8, 16), floats(d, 1, 2, 8, 16), enable_gqa=True),
}

RANDOM: dict[str, Callable[[str], Any]] = {
    "rand": lambda d: torch.rand(5, device=d),
    "randn": lambda d: torch.randn(5, device=d),
    "randint": lambda d: torch.randint(0, 9, (5,), device=d),
    "randperm": lambda d: torch.randperm(9, device=d),
    "normal": lambda d: torch.normal(0.0, 1.0, (5,), device=d),
    "normal_tensor": lambda d: torch.normal(floats(d, 5), floats(d, 5)),
    "bernoulli": lambda d: torch.bernoulli(floats(d, 5) * 0.9),
    "multinomial": lambda d: torch.multinomial(floats(d, 5), 3),
    "uniform_": lambda d: torch.empty(5, device=d).uniform_(),
    "exponential_": lambda d: torch.empty(5, device=d).exponential_(),
    "cauchy_": lambda d: torch.empty(5, device=d).cauchy_(),
    "geometric_": lambda d: torch.empty(5, device=d).geometric_(0.5),
    "log_normal_": lambda d: torch.empty(5, device=d).log_normal_(),
    "random_": lambda d: torch.empty(5, device=d).random_(100),
    "rand_like": lambda d: torch.rand_like(floats(d, 5)),
    "randn_like": lambda d: torch.randn_like(floats(d, 5)),
    "poisson": lambda d: torch.poisson(floats(d, 5)),
    "dropout": lambda d: F.dropout(floats(d, 9)),
    "dropout2d": lambda d: F.dropout2d(floats(d, 2, 3, 2, 2)),
    "alpha_dropout": lambda d: F.alpha_dropout(floats(d, 9), training=True),
    "rrelu": lambda d: F.rrelu(floats(d, 9) - 0.5, training=True),
    "gumbel_softmax": lambda d: F.gumbel_softmax(floats(d, 3, 4)),
    "gamma": lambda d: torch._standard_gamma(floats(d, 5)),
    "kaiming": lambda d: nn.init.kaiming_uniform_(torch.empty(3, 3, device=d)),
}


def set_item(x: Any) -> Any:
    x[1] = 5
    x[2:4] = x[:2].clone()
    x[x > 4] = -1
    return x


def out_view(matrix: Any, row: Any) -> Any:
    torch.add(row, 1, out=matrix[1])
    return matrix


def out_alias(x: Any) -> Any:
    torch.add(x[:2], x[2:], out=x[:2])
    return x


def foreach_in_place(tensors: list[Any]) -> list[Any]:
    torch._foreach_mul_(tensors, 2.0)
    return tensors


def modules() -> dict[str, tuple[Callable[[], Any], Callable[[str], tuple[Any, ...]]]]:
    return {
        "LSTM": (lambda: nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True),
                 lambda d: (floats(d, 2, 3, 4),)),
        "GRU": (lambda: nn.GRU(4, 5), lambda d: (floats(d, 3, 2, 4),)),
        "RNN": (lambda: nn.RNN(4, 5), lambda d: (floats(d, 3, 2, 4),)),
        "LSTMCell": (lambda: nn.LSTMCell(4, 5), lambda d: (floats(d, 2, 4),)),
        "GRUCell": (lambda: nn.GRUCell(4, 5, bias=False), lambda d: (floats(d, 2, 4),)),
        "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True),
                               lambda d: (floats(d, 2, 3, 8),) * 3),
        "TransformerEncoderLayer": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
            lambda d: (floats(d, 2, 3, 8),)),
        "Conv": (lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.LazyLinear(5)), lambda d: (floats(d, 2, 3, 8, 8),)),
    }


CASES: dict[str, Callable[[str], Any]] = {
    **{f"unary-{name}": unary(name) for name in UNARY},
    **{f"binary-{name}": binary(name) for name in BINARY},
    **{f"in-place-{name}": in_place(name) for name in IN_PLACE + IN_PLACE_UNARY},
    **{f"factory-{name}": call for name, call in FACTORIES.items()},
    **{f"view-{name}": (lambda d, call=call: call(floats(d, 4, 4)))
       for name, call in VIEWS.items()},
    **{f"other-{name}": call for name, call in OTHERS.items()},
}


def tensors_of(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in tensors_of(part)]
    return [torch.tensor(value)]


ON_CPU = ("unary-numel", "binary-allclose", "binary-equal", "other-item", "other-tolist",
          "other-bool_value")


def check_equal(name: str, got: Any, want: Any) -> None:
    results, expected = tensors_of(got), tensors_of(want)
    assert len(results) == len(expected)
    for x, y in zip(results, expected, strict=True):
        assert x.device.type == ("cpu" if name in ON_CPU else "xpu")
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.stride() == y.stride() or x.numel() < 2
        torch.testing.assert_close(x.cpu(), y, equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_operator_agrees_with_cpu(name: str, xpu: None) -> None:
    check_equal(name, CASES[name]("xpu"), CASES[name]("cpu"))


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_memory(name: str, xpu: None) -> None:
    base = floats("xpu", 4, 4)
    view = VIEWS[name](base)
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    if view.dtype == torch.float32:
        view.fill_(7.0)
        assert (base == 7.0).any()


@pytest.mark.parametrize("name", RANDOM)
def test_random_operator_follows_the_device_generator(name: str, xpu: None) -> None:
    cpu_state = torch.random.default_generator.get_state()
    torch.xpu.manual_seed(5)
    first = RANDOM[name]("xpu")
    torch.xpu.manual_seed(5)
    second = RANDOM[name]("xpu")
    third = RANDOM[name]("xpu")
    assert first.device.type == "xpu"
    assert torch.equal(first, second)
    assert name == "poisson" or not torch.equal(second, third)
    assert torch.equal(cpu_state, torch.random.default_generator.get_state())


@pytest.mark.parametrize("name", modules())
def test_module_trains_as_on_cpu(name: str, xpu: None) -> None:
    make, inputs = modules()[name]
    gradients = []
    for device in ("cpu", "xpu"):
        torch.manual_seed(0)
        module = make()
        module(*inputs("cpu"))  # lazy modules learn their shapes
        module = module.to(device)
        output = tensors_of(module(*inputs(device)))[0]
        output.square().sum().backward()
        gradients.append([p.grad for p in module.parameters()])
    for want, got in zip(*gradients, strict=True):
        assert got.device.type == "xpu"
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_train_as_on_cpu(kind: str, xpu: None) -> None:
    rnn = torch.nn.utils.rnn
    found = []
    for device in ("cpu", "xpu"):
        torch.manual_seed(0)
        module = getattr(torch.nn, kind)(5, 7, 2, batch_first=True, bidirectional=True).to(device)
        x = floats("cpu", 3, 6, 5).to(device).requires_grad_()
        packed = rnn.pack_padded_sequence(x, [4, 6, 2], batch_first=True, enforce_sorted=False)
        assert packed.batch_sizes.device.type == "cpu"
        padded, lengths = rnn.pad_packed_sequence(module(packed)[0], batch_first=True)
        assert lengths.tolist() == [4, 6, 2]
        padded.square().sum().backward()
        found.append([padded.cpu(), x.grad.cpu(), *(p.grad.cpu() for p in module.parameters())])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop",
              "Rprop", "ASGD", "LBFGS")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_steps_as_on_cpu(name: str, xpu: None) -> None:
    ends = []
    for device in ("cpu", "xpu"):
        weight = floats(device, 4, 4).requires_grad_()
        optimizer = getattr(torch.optim, name)([weight], lr=0.1)

        def loss(optimizer: Any = optimizer, weight: Any = weight, device: str = device) -> Any:
            optimizer.zero_grad()
            value = (weight @ floats(device, 4, 2, seed=3)).square().sum()
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(loss)
        ends.append(weight.detach().cpu())
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["fused", "foreach"])
def test_optimizer_variants(kind: str, xpu: None) -> None:
    weight = floats("xpu", 4, 4).requires_grad_()
    before = weight.detach().clone()
    optimizer = torch.optim.Adam([weight], lr=0.1, **{kind: True})
    weight.square().sum().backward()
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before - 0.1, rtol=1e-3, atol=1e-4)


def test_a_result_that_is_left_conjugated(xpu: None) -> None:
    torch.manual_seed(0)
    factors, pivots = torch.linalg.lu_factor(torch.randn(3, 3, dtype=torch.complex64))
    right = torch.randn(4, 3, dtype=torch.complex64)
    want = torch.linalg.lu_solve(factors, pivots, right, left=False)
    placed = [each.to("xpu") for each in (factors, pivots, right)]
    out = torch.empty(4, 3, dtype=torch.complex64, device="xpu")
    torch.linalg.lu_solve(*placed, left=False, out=out)
    torch.testing.assert_close(out.cpu(), want)
