"""Functions of torch's operators, compiled by Inductor: views, casts, reductions, scatters, writes.

Each line is run while it is drawn, on the CPU, which knows the shapes.  Numbers are quarters up to
64, or small integers, so that answers are exact in any order; what rounds comes last.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from .draw import Draw

torch.set_num_threads(1)  # children are forked, which more threads do not survive
LARGEST, ELEMENTS = 64, 30_000
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 33, 64, 65, 100, 130, 257)
TAILS = ("({x}).softmax(-1)", "({x}).exp().log1p()", "F.layer_norm({x}, ({x}).shape[-1:])",
         "F.gelu({x})", "({x}).std(-1, correction=0)", "({x}).logsumexp(0)",
         "({x}).sigmoid() * ({x}).tanh()", "(({x}).abs() + 1).rsqrt()", "({x}).cos().mean(0)",
         "F.rms_norm({x}, ({x}).shape[-1:])", "F.log_softmax({x}, 0)", "({x}).half()",
         "({x}).bfloat16()", "F.normalize({x}, dim=-1)", "torch.nn.functional.silu({x}).sum(-1)")
"""What ends a graph, and rounds."""


@dataclass
class Graph:
    """Lines of a function, and what each name holds on the CPU."""

    draw: Draw
    values: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)

    def scope(self) -> dict[str, Any]:
        return {"torch": torch, "F": torch.nn.functional, **self.values}

    def input(self, text: str) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = text
        self.values[name] = eval(text, self.scope())
        return name

    def add(self, text: str) -> str | None:
        """A line that computes this, brought back to exact numbers; nothing where it cannot be."""
        try:
            value = eval(text, self.scope())
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        if not isinstance(value, torch.Tensor) or not 0 < value.numel() <= ELEMENTS:
            return None
        if value.dtype != torch.bool and not torch.equal(value.clamp(-LARGEST, LARGEST), value):
            text = f"({text}).clamp(-{LARGEST}, {LARGEST})"
            value = eval(text, self.scope())
        if value.is_floating_point() and not torch.equal((value * 4).round() / 4, value):
            text = f"({text}).mul(4).round().div(4)"
        name = f"v{len(self.lines)}"
        self.values[name] = eval(text, self.scope())
        self.lines.append(f"{name} = {text}")
        return name

    def pick(self, floating: bool | None = None) -> str:
        names = [n for n, v in self.values.items()
                 if floating is None or v.is_floating_point() == floating]
        return self.draw.choice(names[-6:] if self.draw.yes(0.8) else names)

    def shaped(self, like: str, floating: bool = True) -> str:
        """Another value in the shape of this one, or in one that broadcasts to it."""
        shape = list(self.values[like].shape)
        same = [n for n, v in self.values.items()
                if v.is_floating_point() == floating and list(v.shape) == shape and n != like]
        if same and self.draw.yes(0.7):
            return self.draw.choice(same)
        other = self.pick(floating)
        shape = [1 if self.draw.yes(0.25) else size for size in shape]
        return self.resized(other, shape)

    def resized(self, name: str, shape: list[int]) -> str:
        size, count = self.values[name].numel(), math.prod(shape)
        at = f"torch.arange({count}, device={name}.device)"
        return f"{name}.flatten()[({at} * {self.draw.some(1, 1, 3, 7)}) % {size}].view({shape})"

    def dim(self, name: str) -> int:
        rank = self.values[name].dim()
        return self.draw.randrange(-rank, rank) if rank else 0


def _pointwise(g: Graph) -> str:
    x = g.pick(True)
    y = g.shaped(x)
    c = g.draw.randint(-6, 6) / 2
    return g.draw.some(
        f"{x} + {y}", f"{x} - {y} * 2", f"{x} * {y}", f"torch.maximum({x}, {y})", f"{x}.abs()",
        f"torch.where({x} > {c}, {x}, {y})", f"{x}.relu() - {y}", f"({x} + {c}).floor()",
        f"torch.remainder({x}, {abs(c) + 1})", f"torch.fmod({x}, {abs(c) + 1})", f"{x}.round()",
        f"{x}.trunc() + {y}", f"{x}.frac()", f"{x}.sign() * {y}", f"{x}.clamp({c}, {c + 3})",
        f"F.leaky_relu({x}, 0.5)", f"F.hardtanh({x}, {c - 1}, {c})", f"{x}.square() / 4",
        f"torch.lerp({x}, {y}, 0.5)", f"torch.addcmul({x}, {y}, {y}, value=2)", f"{x}.neg() ** 2",
        f"torch.copysign({x}, {y})", f"torch.heaviside({x}, {y})", f"F.threshold({x}, {c}, 1.5)",
        f"torch.minimum({x}, {y}).half().float()", f"({x} * 0.5).bfloat16().float()",
        f"torch.clamp({x}, min={y})", f"{x}.masked_fill({y} > 0, {c})", f"F.relu6({x})",
        f"torch.ldexp({x}, ({y} > 0).int())",
        f"torch.nextafter({x}.detach(), {y}.detach()) - {x}",
        f"torch.rsub({x}, {y}, alpha=2)", f"torch.dist({x}, {x}) + {y}", f"{x} // {abs(c) + 0.5}")


def _integers(g: Graph) -> str:
    i = g.pick(False)
    j = g.shaped(i, False)
    if g.values[i].dtype == torch.bool:
        i = f"{i}.to(torch.{g.draw.some('int32', 'int64', 'int8')})"
    c = g.draw.randint(1, 9)
    return g.draw.some(
        f"{i} + {j}", f"{i} * {j}", f"{i} // {c}", f"{i} % {c}", f"{i} // ({j} % 5 + 6)",
        f"torch.div({i}, {c}, rounding_mode='trunc')", f"torch.fmod({i}, {c})", f"{i} ^ {j}",
        f"{i} & {c}", f"~{i}", f"{i} << 1", f"{i} >> 1", f"{i} == {j}", f"{i} < {j}",
        f"({i} > {c}) | ({j} > 0)", f"{i}.float()", f"({i} * 0.25).float()", f"{i}.to(torch.int8)",
        f"{i}.to(torch.uint8).int()", f"torch.gcd({i}, {j})", f"-{i}", f"{i}.abs()", f"{i}.bool()",
        f"torch.where({i} > {j}, {i}, {c})", f"{i}.to(torch.int16)", f"{i}.clamp(0, {c})",
        f"torch.floor_divide(-({i}), {c})", f"({i} / 4).floor().float()", f"{i}.sum(-1)",
        f"torch.bitwise_left_shift({i}, 2)", f"{i}.half().float()", f"{i}.sign()")


def _reduction(g: Graph) -> str:
    x, dim, keep = g.pick(True), None, g.draw.yes()
    dim = g.dim(x)
    flat = f"{x}.clamp(-1, 1).round()"
    return g.draw.some(
        f"{x}.sum({dim}, keepdim={keep})", f"{x}.sum()", f"{x}.amax({dim}, keepdim={keep})",
        f"{x}.amin({dim})", f"{x}.argmax({dim}, keepdim={keep})", f"{x}.argmin({dim})",
        f"{x}.max({dim}).values", f"{x}.min({dim}).indices", f"({x} > 0).any({dim})",
        f"({x} > -9).all({dim}, keepdim={keep})", f"{flat}.prod({dim})", f"{x}.abs().max()",
        f"{x}.cumsum({dim})", f"{x}.cummax({dim}).values", f"{x}.sort({dim}).values",
        f"{x}.sort({dim}, stable=True, descending={keep}).indices", f"{x}.norm(1, {dim})",
        f"{x}.topk(min(3, {x}.shape[{dim}]), {dim}).values", f"{x}.count_nonzero({dim})",
        f"({x} > 0).sum({dim})", f"{flat}.cumprod({dim})", f"{x}.argmax()", f"{x}.aminmax().max",
        f"{x}.median({dim}).values", f"{x}.sum((0, -1))", f"{x}.nansum({dim}, keepdim={keep})",
        f"{x}.flatten().cumsum(0)", f"{x}.mean({dim}) * 4",
        f"torch.argsort({x}, dim={dim}, stable=True)")


def _view(g: Graph) -> str:
    x = g.pick(True) if g.draw.yes(0.8) else g.pick()
    rank, dim, other = g.values[x].dim(), g.dim(x), g.dim(x)
    size = g.values[x].shape[dim] if rank else 1
    order = list(range(rank))
    g.draw.shuffle(order)
    n = g.draw.randint(1, 3)
    start = g.draw.randrange(size)
    return g.draw.some(
        f"{x}.permute({order})", f"{x}.transpose({dim}, {other}).reshape(-1)", f"{x}.unsqueeze(0)",
        f"{x}.transpose({dim}, {other}).contiguous()", f"{x}.flip({dim})", f"{x}.roll({n}, {dim})",
        f"{x}.narrow({dim}, {start}, {size - start})", f"{x}.select({dim}, {start})",
        f"{x}[..., ::{n}]", f"{x}[{start % g.values[x].shape[0] if rank else '...'}:]",
        f"torch.cat([{x}, {x}], {dim})", f"torch.stack([{x}, {x}], {dim})", f"{x}.unsqueeze(-1)",
        f"torch.cat([{x}.flip({dim}), {x}, {x}.narrow({dim}, {start}, 1)], {dim})",
        f"F.pad({x}, ({n}, {n - 1}), value=0.5)", f"{x}.repeat_interleave({n}, {dim})",
        f"{x}[None].expand(3, {'-1, ' * rank})", f"{x}.chunk(2, {dim})[-1]",
        f"{x}.tril({n - 2})", f"{x}.triu()",
        f"{x}.diagonal(0, 0, -1)", f"{x}.unfold({dim}, {n}, {g.draw.randint(1, 3)})",
        f"{x}.repeat({n}, *[1] * {rank})", f"{x}.movedim({dim}, {other})", f"{x}.flatten()",
        f"torch.tensor_split({x}, 3, {dim})[0]", f"{x}.swapaxes({dim}, {other})[..., 1:]",
        f"F.pad({x}[None], (1, 1), mode='reflect')[0]", f"torch.diag_embed({x})", f"{x}.squeeze()",
        f"F.pad({x}[None], (2, 1), mode='replicate')[0]", f"torch.block_diag({x}, {x})",
        f"{x}.as_strided(({max(1, size // 2)}, 2), (1, 1))", f"torch.rot90({x}, 1, (0, -1))")


def _indexed(g: Graph) -> str:
    x, i = g.pick(True), g.pick(False)
    rank, dim = g.values[x].dim(), g.dim(x)
    size = g.values[x].shape[dim] if rank else 1
    at = f"({i}.long() % {size})"
    row = f"{at}.flatten()"
    same = f"({g.resized(i, list(g.values[x].shape))}.long() % {size})"
    base = f"torch.zeros_like({x})"
    return g.draw.some(
        f"{x}.index_select({dim}, {row})", f"{x}.gather({dim}, {same})", f"{x}[{same}[0]]",
        f"{x}.scatter({dim}, {same} * 0 + {g.draw.randrange(size)}, 1.5)", f"{x}.take({same})",
        f"{base}.scatter_add({dim}, {same}, {x})", f"F.embedding({at}, {x})",
        f"{base}.index_add({dim}, torch.arange({size}, device={x}.device).flip(0) // 2, {x})",
        f"{base}.index_put(({same}.flatten()[:{max(1, size // 2)}],), {x}[0], accumulate=True)",
        f"F.one_hot({at}, {size}).float()", f"torch.bincount({row}, minlength={size})[:{size}]",
        f"{x}.index_fill({dim}, {row}, 0.5)", f"torch.bucketize({x}, {x}.flatten().sort().values)",
        f"torch.searchsorted({x}.sort(-1).values, {x})", f"{x}.masked_fill({same} > 2, -1)",
        f"{base}.scatter_reduce({dim}, {same}, {x}, 'amax')", f"torch.take_along_dim({x}, {same}, "
        f"{dim})", f"{x}[..., {row} % {x}.shape[-1]]", f"{x}.put({same}.flatten()[:1], {x}.sum())")


def _planes(g: Graph) -> str:
    """Windows over pictures, and products."""
    x = g.pick(True)
    n, c, h, w = 2, g.draw.randint(1, 3), g.draw.randint(4, 12), g.draw.randint(4, 17)
    picture = g.resized(x, [n, c, h, w])
    if g.draw.yes(0.4):
        picture += ".contiguous(memory_format=torch.channels_last)"
    k = g.draw.randint(2, 3)
    weight = g.resized(g.pick(True), [c + 1, c, k, k])
    left, right = g.resized(x, [h, w]), g.resized(g.pick(True), [w, g.draw.choice(SIZES)])
    return g.draw.some(
        f"F.max_pool2d({picture}, {k}, {g.draw.randint(1, 3)}, 1)", f"{left} @ {right}",
        f"F.avg_pool2d({picture}, 2, ceil_mode=True) * 4", f"F.pixel_unshuffle({picture}, 2)",
        f"F.interpolate({picture}, scale_factor=2)", f"F.unfold({picture}, {k}, padding=1)",
        f"F.conv2d({picture}.round() / 4, {weight}.round(), padding=1)", f"{picture}.sum((2, 3))",
        f"F.adaptive_max_pool2d({picture}, 3)", f"F.pad({picture}, (1, 2, 1, 0), mode='circular')",
        f"torch.einsum('ij,jk->ki', {left}, {right})", f"({left} / 4) @ {right} + 1",
        f"torch.baddbmm({left}[None], {left}[None], {left}.t()[None] @ {left}[None])",
        f"F.fold(F.unfold({picture}, 2, stride=2), ({h - h % 2}, {w - w % 2}), 2, stride=2)",
        f"F.channel_shuffle({picture}, {c})", f"{picture}.amax((0, 2))")


def _write(g: Graph) -> None:
    """A copy that is written in place, through a view."""
    x = g.pick(True)
    if not g.values[x].dim():
        return
    dim = g.dim(x)
    start = g.draw.randrange(g.values[x].shape[dim])
    view = g.draw.some(f"select({dim}, {start})", f"narrow({dim}, {start}, 1)",
                       f"transpose(0, {dim})", f"diagonal(0, 0, {dim})", "flatten()", "t()")
    change = g.draw.some("add_(1)", "mul_(2)", "fill_(0.5)", "zero_()", "neg_()", "clamp_(min=0)")
    name = f"v{len(g.lines)}"
    line = f"{name} = {x}.clone(); {name}.{view}.{change}"
    scope = g.scope()
    try:
        exec(line, scope)
    except RuntimeError:
        return
    if scope[name].abs().max() <= LARGEST:
        g.values[name] = scope[name]
        g.lines.append(line)


CHOICES = (_pointwise, _pointwise, _pointwise, _integers, _reduction, _view, _view, _indexed,
           _planes)


def _tensor(draw: Draw) -> str:
    rank = draw.some(1, 2, 2, 3, 3, 4)
    shape: list[int] = []
    for _ in range(rank):
        room = 20_000 // math.prod(shape)
        shape.append(draw.choice([s for s in SIZES if s <= room]))
    kind = draw.some("float32", "float32", "float32", "int64", "int32", "bool", "float16",
                     "bfloat16")
    text = f"torch.randint(-8, 9, {shape})"
    if kind == "bool":
        return f"{text} > 0"
    text += f" % {draw.some(3, 17)}" if kind.startswith("int") else ""
    text = f"({text}{'' if kind.startswith('int') else ' / 4'}).to(torch.{kind})"
    if len(shape) > 1 and draw.yes(0.3):
        text += f".transpose({draw.randrange(rank)}, {draw.randrange(rank)})"
    elif draw.yes(0.2):
        text = f"{text}[..., ::2]"
    return text


def program(draw: Draw) -> str:
    seed = draw.randrange(1 << 30)
    torch.manual_seed(seed)
    g = Graph(draw)
    g.input(f"torch.randint(-8, 9, ({draw.choice(SIZES)}, {draw.choice(SIZES)})) / 4")
    g.input(f"torch.randint(0, 9, ({draw.choice(SIZES)},))")
    for _ in range(draw.randint(0, 2)):
        name = g.input(_tensor(draw))
        if g.values[name].dtype in (torch.float16, torch.bfloat16):
            g.add(f"{name}.float()")
            g.values.pop(name)
    for _ in range(draw.randint(4, 14)):
        if draw.yes(0.1):
            _write(g)
        else:
            g.add(draw.choice(CHOICES)(g))
    returned = list(g.values)[-draw.randint(1, 4):]
    tail = draw.choice(TAILS).format(x=g.pick(True))
    body = "".join(f"    {line}\n" for line in g.lines)
    inputs = "".join(f"{name} = {text}\n" for name, text in g.inputs.items())
    options = draw.some("", "", "dynamic=True", "fullgraph=True")
    return (f"import torch.nn.functional as F\nfrom compiled import compare\n\n\n"
            f"def function({', '.join(g.inputs)}):\n{body}"
            f"    return [{', '.join(returned)}], {tail}\n\n\n"
            f"torch.manual_seed({seed})\n{inputs}"
            f"compare(function, [{', '.join(g.inputs)}], "
            f"gradients={draw.yes(0.3)}, options=dict({options}))\n")
