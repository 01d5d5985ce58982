"""Tensors of random programs, in any place of memory, and their comparison with answers.

Elements are small integers, or these by 4, so that sums are exact in any order.
"""

import torch
import triton

POISON = 77
"""What outputs hold before a launch, and around them after it."""
SPARE = 64
"""Elements behind each matrix that no kernel may store to."""

triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="xpu"))


def tensor(rows, columns, dtype, pad=0, offset=0, transposed=False, low=-4, high=5):
    """A matrix on the CPU, `offset` elements into its storage, its rows `pad` elements apart."""
    if transposed:
        return tensor(columns, rows, dtype, pad, offset, low=low, high=high).t()
    pitch = columns + pad
    numbers = torch.randint(low, high, (rows * pitch + offset + SPARE,))
    numbers = numbers / 4 if dtype.is_floating_point else numbers
    return _view(numbers.to(dtype), rows, columns, pitch, offset)


def output(rows, columns, dtype, pad=0, offset=0, transposed=False):
    """A matrix on the device that holds `POISON`, as does all around it."""
    if transposed:
        return output(columns, rows, dtype, pad, offset).t()
    pitch = columns + pad
    numbers = torch.full((rows * pitch + offset + SPARE,), POISON, dtype=dtype)
    return moved(_view(numbers, rows, columns, pitch, offset))


def moved(t):
    """The tensor on the device, with its strides and its place in its storage."""
    return _storage(t).to("xpu").as_strided(t.shape, t.stride(), t.storage_offset())


def check(found, wanted, tolerance):
    """End the program where an element is wrong, or something outside of the view was stored."""
    _check_outside(found)
    found, wanted = found.cpu().double(), wanted.double()
    wrong = ~((found - wanted).abs() <= tolerance * (1 + wanted.abs()))
    if wrong.any():
        first = tuple(wrong.nonzero()[0].tolist())
        raise SystemExit(
            f"wrong: {int(wrong.sum())} of {wrong.numel()} elements, the first at {first}: "
            f"{found[first].item()}, not {wanted[first].item()}")


def _check_outside(view):
    around = _storage(view).cpu().clone()
    around.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(POISON)
    if not (around == POISON).all():
        first = int((around != POISON).nonzero()[0]) - view.storage_offset()
        raise SystemExit(f"wrong: stored outside of the view, at element {first} from its first")


def _view(numbers, rows, columns, pitch, offset):
    return numbers[offset:offset + rows * pitch].view(rows, pitch)[:, :columns]


def _storage(t):
    """All elements of the tensor's storage."""
    elements = t.untyped_storage().size() // t.element_size()
    return torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage(), 0, (elements,))
