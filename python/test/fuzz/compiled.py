"""What `torch.compile` makes of a function on the device, compared with the CPU's eager mode."""

import torch
import torch._inductor.config as inductor

inductor.compile_threads = 1
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 5e-5}
"""Of what rounds: parts of one, and of the largest number."""


def compare(function, inputs, gradients=False, options=None):
    """End the program where a result differs; of the pair that is returned the second rounds."""
    exact, rounded, gradient = _run(function, inputs, gradients)
    placed = [x.to("xpu") for x in inputs]
    ours = _run(torch.compile(function, **options or {}), placed, gradients)
    for place, (got, want) in enumerate(zip(ours[0], exact, strict=True)):
        _check(f"result {place}", got, want, 0)
    _check("the last", ours[1], rounded, TOLERANCE[rounded.dtype])
    for place, (got, want) in enumerate(zip(ours[2], gradient, strict=True)):
        _check(f"gradient {place}", got, want, max(TOLERANCE[rounded.dtype], 2e-4))
    for place, (got, want) in enumerate(zip(placed, inputs, strict=True)):
        _check(f"argument {place}", got, want, 0)


def _run(function, inputs, gradients):
    leaves = [x.detach().requires_grad_(gradients and x.dtype == torch.float32) for x in inputs]
    exact, rounded = function(*leaves)
    results = [x for x in [*exact, rounded] if x.requires_grad]
    if results:
        sum((x.float() * _weights(x)).sum() for x in results).backward()
    return ([x.detach() for x in exact], rounded.detach(),
            [x.grad for x in leaves if x.grad is not None])


def _weights(x):
    return torch.arange(x.numel(), device=x.device).reshape(x.shape) % 3 - 1


def _check(what, found, wanted, tolerance):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise SystemExit(f"{what}: {found.dtype} of {list(found.shape)}, "
                         f"not {wanted.dtype} of {list(wanted.shape)}")
    found, wanted = found.cpu().double(), wanted.double()
    largest = wanted[wanted.isfinite()].abs().max() if wanted.isfinite().any() else 0
    near = torch.isclose(found, wanted, rtol=0, atol=float(tolerance * (1 + largest)),
                         equal_nan=True)
    if not near.all():
        first = tuple((~near).nonzero()[0].tolist())
        raise SystemExit(f"{what}: {int((~near).sum())} of {near.numel()} elements, the first at "
                         f"{first}: {found[first].item()}, not {wanted[first].item()}")
