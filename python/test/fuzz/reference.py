"""Triton's language on blocks, said once more in torch: what a kernel's own text computes.

`compare` launches a kernel on the device, runs the same function here with this module in the place
of `triton.language`, program after program, and compares the whole storage of each tensor.  Blocks
are tensors of torch, scalars are numbers or tensors without axes, and numbers wrap as they do in
Triton.  What a load under a mask has no value for is a number of its own, which no answer may show.
"""

import math
import types
from dataclasses import dataclass

import torch
import triton

int1, int8, uint8, int16, int32, int64 = (
    torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
float16, bfloat16, float32, float64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
float8e5, float8e4nv = torch.float8_e5m2, torch.float8_e4m3fn
constexpr = object
UNKNOWN = 63
"""What a load finds where its mask is false and nothing else is given."""

_program: list[int] = [0, 0, 0]
_grid: list[int] = [1, 1, 1]


@dataclass(frozen=True)
class Element:
    element_ty: torch.dtype


@dataclass(frozen=True)
class Pointer:
    """Elements of a flat memory, by their positions."""

    memory: torch.Tensor
    at: object

    @property
    def dtype(self):
        return Element(self.memory.dtype)

    def __add__(self, offset):
        return Pointer(self.memory, self.at + offset)

    __radd__ = __add__

    def __sub__(self, offset):
        return Pointer(self.memory, self.at - offset)

    def __getitem__(self, index):
        return Pointer(self.memory, _block(self.at)[index])


def compare(kernel, grid, *arguments, tolerance=0, **options):
    """End the program where the kernel leaves other memory than its text says."""
    memories = {id(t): _flat(t) for t in arguments if isinstance(t, torch.Tensor)}
    placed = {i: memory.to("xpu") for i, memory in memories.items()}

    def on_device(t):
        if not isinstance(t, torch.Tensor):
            return t
        return placed[id(t)].as_strided(t.shape, t.stride(), t.storage_offset())
    kernel[grid](*map(on_device, arguments), **options)
    found = {i: memory.cpu() for i, memory in placed.items()}
    run(kernel, grid, *(Pointer(memories[id(t)], t.storage_offset())
                        if isinstance(t, torch.Tensor) else t for t in arguments))
    for i, t in enumerate(arguments):
        if isinstance(t, torch.Tensor):
            _compare(kernel.arg_names[i], found[id(t)], memories[id(t)], tolerance)


def run(kernel, grid, *arguments):
    """What the kernel's text does, with pointers into memory of the CPU."""
    function = plain(kernel)
    _grid[:] = [*grid, 1, 1][:3]
    for z in range(_grid[2]):
        for y in range(_grid[1]):
            for x in range(_grid[0]):
                _program[:] = [x, y, z]
                function(*arguments)


def plain(kernel):
    """The function under `triton.jit`, with this module for Triton's language."""
    if not isinstance(kernel, triton.JITFunction):
        return kernel
    function = kernel.fn
    names = {name: plain(value) if isinstance(value, triton.JITFunction) else value
             for name, value in function.__globals__.items()
             if name in function.__code__.co_names and value is not kernel}
    names["tl"] = LANGUAGE
    return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def _compare(name, found, wanted, tolerance):
    found, wanted = found.double(), wanted.double()
    right = ((found - wanted).abs() <= tolerance * (1 + wanted.abs())) | (found == wanted)
    wrong = ~(right | (found.isnan() & wanted.isnan()))
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise SystemExit(f"wrong: {int(wrong.sum())} of {wrong.numel()} elements of {name}, the "
                         f"first at {first}: {found[first].item()}, not {wanted[first].item()}")


def _flat(t):
    """All elements of the tensor's storage, copied."""
    count = t.untyped_storage().size() // t.element_size()
    return torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), 0, (count,)).clone()


def _block(value):
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


# -- programs and memory ---------------------------------------------------------------------------


def program_id(axis):
    return _program[axis]


def num_programs(axis):
    return _grid[axis]


def load(pointer, mask=None, other=None, **_):
    at = _block(pointer.at)
    if mask is None:
        return pointer.memory[at]
    mask = _block(mask).bool()
    at, mask = torch.broadcast_tensors(at, mask)
    filler = _block(UNKNOWN if other is None else other).to(pointer.memory.dtype)
    return torch.where(mask, pointer.memory[torch.where(mask, at, 0)], filler)


def store(pointer, value, mask=None, **_):
    at = _block(pointer.at)
    value = _block(value).to(pointer.memory.dtype).expand(at.shape)
    mask = torch.ones_like(at, dtype=torch.bool) if mask is None else _block(mask).bool().expand(
        at.shape)
    pointer.memory[at[mask]] = value[mask]


def _atomic(change):
    def atomic(pointer, value, mask=None, **_):
        at = _block(pointer.at)
        value = _block(value).to(pointer.memory.dtype).expand(at.shape)
        mask = (torch.ones_like(at, dtype=torch.bool) if mask is None
                else _block(mask).bool().expand(at.shape))
        before = torch.zeros_like(value)
        for i in mask.reshape(-1).nonzero()[:, 0].tolist():
            place = int(at.reshape(-1)[i])
            before.view(-1)[i] = pointer.memory[place]
            pointer.memory[place] = change(pointer.memory[place], value.reshape(-1)[i])
        return before
    return atomic


atomic_add = _atomic(lambda a, b: a + b)
atomic_max, atomic_min = _atomic(torch.maximum), _atomic(torch.minimum)
atomic_and, atomic_or, atomic_xor = (
    _atomic(lambda a, b: a & b), _atomic(lambda a, b: a | b), _atomic(lambda a, b: a ^ b))
atomic_xchg = _atomic(lambda a, b: b)


def atomic_cas(pointer, wanted, value, **_):
    at = _block(pointer.at)
    dtype = pointer.memory.dtype
    wanted, value = (_block(x).to(dtype).expand(at.shape) for x in (wanted, value))
    before = pointer.memory[at]
    pointer.memory[at] = torch.where(before == wanted, value, before)
    return before


def debug_barrier():
    pass


class Descriptor:
    """A box of a tensor: what lies outside of it reads as zero or NaN, and is not stored."""

    def __init__(self, pointer, shape, strides, block_shape, padding_option="zero"):
        self.pointer, self.shape, self.strides = pointer, shape, strides
        self.block_shape, self.dtype = block_shape, pointer.memory.dtype
        self.padding = math.nan if padding_option == "nan" else 0

    def _at(self, indices):
        rank = len(self.shape)
        inside = torch.ones((), dtype=torch.bool)
        at = torch.zeros((), dtype=torch.int64)
        for axis, index in enumerate(indices):
            index = index.view(*(-1 if d == axis else 1 for d in range(rank)))
            inside = inside & (index >= 0) & (index < self.shape[axis])
            at = at + index * self.strides[axis]
        return Pointer(self.pointer.memory, self.pointer.at + at), inside

    def _box(self, offsets):
        return [int(o) + torch.arange(n) for o, n in zip(offsets, self.block_shape, strict=True)]

    def load(self, offsets):
        return load(*self._at(self._box(offsets)), other=self.padding)

    def store(self, offsets, value):
        pointer, inside = self._at(self._box(offsets))
        store(pointer, value.view(self.block_shape), inside)

    def gather(self, rows, column):
        return load(*self._at([rows.long(), int(column) + torch.arange(self.block_shape[1])]),
                    other=self.padding)

    def scatter(self, value, rows, column):
        at, inside = self._at([rows.long(), int(column) + torch.arange(self.block_shape[1])])
        store(at, value, inside)

    def atomic_add(self, offsets, value):
        pointer, inside = self._at(self._box(offsets))
        atomic_add(pointer, value.view(self.block_shape), inside)


make_tensor_descriptor = Descriptor

# -- element by element ----------------------------------------------------------------------------


def arange(start, end):
    return torch.arange(start, end, dtype=torch.int32)


def full(shape, value, dtype):
    return torch.full(tuple(shape), value, dtype=dtype)


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def where(condition, a, b):
    if isinstance(a, Pointer):
        return Pointer(a.memory, torch.where(condition, _block(a.at), _block(b.at)))
    return torch.where(_block(condition).bool(), a, b)


def _pair(function):
    def of(a, b):
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
            like = a if isinstance(a, torch.Tensor) else b
            a, b = (x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=like.dtype)
                    for x in (a, b))
        return function(_block(a), _block(b))
    return of


maximum, minimum = _pair(torch.maximum), _pair(torch.minimum)
abs, floor = torch.abs, torch.floor
exp, exp2, log, sqrt = torch.exp, torch.exp2, torch.log, torch.sqrt


def clamp(x, low, high):
    return x.clamp(low, high)


def cdiv(a, b):
    return (a + b - 1) // b


def cast(x, dtype, bitcast=False):
    return x.view(dtype) if bitcast else x.to(dtype)


# -- shapes ----------------------------------------------------------------------------------------


def trans(x, *order):
    return permute(x, *(order or (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)))


def permute(x, *order):
    return x.permute(order[0] if isinstance(order[0], tuple) else order)


def reshape(x, *shape, **_):
    return x.reshape(shape[0] if isinstance(shape[0], tuple) else shape)


def ravel(x):
    return x.reshape(-1)


def expand_dims(x, axis):
    return _block(x).unsqueeze(axis)


def broadcast_to(x, *shape):
    shape = shape[0] if isinstance(shape[0], tuple) else shape
    if isinstance(x, Pointer):
        return Pointer(x.memory, _block(x.at).expand(shape))
    return _block(x).expand(shape)


def join(a, b):
    return torch.stack((a, b), -1)


def split(x):
    return x[..., 0], x[..., 1]


def interleave(a, b):
    return torch.stack((a, b), -1).flatten(-2)


def cat(a, b, can_reorder=False, dim=0):
    return torch.cat((a, b), dim)


def flip(x, dim=None):
    return x.flip(-1 if dim is None else dim)


def gather(x, index, axis):
    return torch.gather(x, axis, index.long())


# -- along an axis ---------------------------------------------------------------------------------


def _sum_type(x, dtype):
    if dtype is not None:
        return dtype
    small = not x.dtype.is_floating_point and x.dtype != torch.int64
    return torch.int32 if small else x.dtype


def sum(x, axis=None, keep_dims=False, dtype=None):
    dtype = _sum_type(x, dtype)
    return (x.sum(dtype=dtype) if axis is None else x.sum(axis, keepdim=keep_dims, dtype=dtype))


def _extreme(values, places):
    def of(x, axis=None, return_indices=False, keep_dims=False, **_):
        if axis is None:
            return values(x)
        best = values(x, axis, keepdim=True)
        if not return_indices:
            return best if keep_dims else best.squeeze(axis)
        first = places(x, axis)
        return best.squeeze(axis), first
    return of


def _first(best):
    """The first position of the extreme."""
    def of(x, axis):
        count = x.shape[axis]
        shape = [count if d == axis % x.ndim else 1 for d in range(x.ndim)]
        places = torch.arange(count).view(shape).expand(x.shape)
        return torch.where(x == best(x, axis, keepdim=True), places, count).amin(axis).int()
    return of


max, min = _extreme(torch.amax, _first(torch.amax)), _extreme(torch.amin, _first(torch.amin))


def argmax(x, axis, keep_dims=False):
    first = _first(torch.amax)(x, axis)
    return first.unsqueeze(axis) if keep_dims else first


def argmin(x, axis, keep_dims=False):
    first = _first(torch.amin)(x, axis)
    return first.unsqueeze(axis) if keep_dims else first


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


def reduce(values, axis, combine, keep_dims=False):
    combine = plain(combine)
    parts = [x.unbind(axis) for x in _tuple(values)]
    total = tuple(p[0] for p in parts)
    for i in range(1, len(parts[0])):
        total = _tuple(combine(*total, *(p[i] for p in parts)))
    total = tuple(t.unsqueeze(axis) if keep_dims else t for t in total)
    return total if isinstance(values, tuple) else total[0]


def associative_scan(values, axis, combine, reverse=False):
    combine = plain(combine)
    parts = [x.unbind(axis) for x in _tuple(values)]
    order = range(len(parts[0]))
    order = list(reversed(order)) if reverse else list(order)
    total = tuple(p[order[0]] for p in parts)
    seen = [total]
    for i in order[1:]:
        total = _tuple(combine(*total, *(p[i] for p in parts)))
        seen.append(total)
    seen = seen[::-1] if reverse else seen
    made = tuple(torch.stack([s[j] for s in seen], axis) for j in range(len(parts)))
    return made if isinstance(values, tuple) else made[0]


def xor_sum(x, axis, keep_dims=False):
    total = x.select(axis, 0)
    for i in range(1, x.shape[axis]):
        total = total ^ x.select(axis, i)
    return total.unsqueeze(axis) if keep_dims else total


def reduce_or(x, axis, keep_dims=False):
    total = x.select(axis, 0)
    for i in range(1, x.shape[axis]):
        total = total | x.select(axis, i)
    return total.unsqueeze(axis) if keep_dims else total


def cumsum(x, axis=0, reverse=False, dtype=None):
    dtype = _sum_type(x, dtype)
    return (x.flip(axis).cumsum(axis, dtype=dtype).flip(axis) if reverse
            else x.cumsum(axis, dtype=dtype))


def cumprod(x, axis=0, reverse=False):
    return (x.flip(axis).cumprod(axis, dtype=x.dtype).flip(axis) if reverse
            else x.cumprod(axis, dtype=x.dtype))


def sort(x, dim=None, descending=False):
    return x.sort(-1 if dim is None else dim, descending=bool(descending)).values


def topk(x, k, dim=None):
    return x.sort(-1 if dim is None else dim, descending=True).values[..., :k]


def histogram(x, bins, mask=None):
    x = x if mask is None else x[mask]
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins).int()


# -- products --------------------------------------------------------------------------------------


def dot(a, b, acc=None, input_precision=None, out_dtype=None, allow_tf32=None,
        max_num_imprecise_acc=None):
    whole = not a.dtype.is_floating_point
    made = (a.long() @ b.long()).int() if whole else a.double() @ b.double()
    made = made if acc is None else made + acc
    return made.to(acc.dtype if acc is not None else torch.int32 if whole
                   else out_dtype or torch.float32)


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _unscaled(x, scale, kind, axis, pack):
    """The operand, and the axis of its scales last in both."""
    if kind == "e2m1":
        low, high = E2M1[(x & 15).long()], E2M1[(x >> 4).long()]
        packed = axis if pack else 1 - axis
        x = torch.stack((low, high), packed + 1).flatten(packed, packed + 1)
    elif x.dtype == torch.uint8:
        x = x.view({"e4m3": float8e4nv, "e5m2": float8e5}[kind])
    x = x.double()
    if scale is None:
        return x
    powers = torch.where(scale == 255, math.nan, torch.exp2(scale.double() - 127))
    wide = powers.repeat_interleave(32, 1)
    return x * (wide if axis == 1 else wide.t())


def dot_scaled(a, a_scale, a_format, b, b_scale, b_format, acc=None, fast_math=False,
               lhs_k_pack=True, rhs_k_pack=True, out_dtype=torch.float32):
    made = (_unscaled(a, a_scale, a_format, 1, lhs_k_pack)
            @ _unscaled(b, b_scale, b_format, 0, rhs_k_pack))
    return (made if acc is None else made + acc).to(out_dtype)


LANGUAGE = types.SimpleNamespace(**{n: v for n, v in globals().items() if not n.startswith("_")})
LANGUAGE.range = lambda *bounds, **_: range(*bounds)
LANGUAGE.static_range = LANGUAGE.range
