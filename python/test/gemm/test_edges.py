"""Products at the edges of matrices and of alignment: right, and fast exactly where they can be."""

import random

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from triton_xe.errors import DeviceError
from triton_xe.hardware.block_2d import alignment
from triton_xe.hardware.target import target

TILE = 32
ARGUMENTS = ("a_ptr", "b_ptr", "c_ptr", "m", "n", "k", "sa", "sb", "sc")


def product(a_ptr, b_ptr, c_ptr, m, n, k, sa, sb, sc, WRAPS: tl.constexpr, TURNED: tl.constexpr,
            PERSISTENT: tl.constexpr, TILE: tl.constexpr):
    across = tl.cdiv(n, TILE)
    steps = tl.cdiv(m, TILE) * across if PERSISTENT else tl.program_id(0) + 1
    for tile in range(tl.program_id(0), steps, tl.num_programs(0)):
        rows = tile // across * TILE + tl.arange(0, TILE)
        columns = tile % across * TILE + tl.arange(0, TILE)
        inner = tl.arange(0, TILE)
        from_rows = rows % m if WRAPS else rows
        from_columns = columns % n if WRAPS else columns
        a_ptrs = a_ptr + from_rows[:, None] * sa + inner[None, :]
        b_ptrs = b_ptr + (inner[:, None] + from_columns[None, :] * sb if TURNED else
                          inner[:, None] * sb + from_columns[None, :])
        total = tl.zeros((TILE, TILE), tl.float32)
        for step in range(0, tl.cdiv(k, TILE)):
            left = k - step * TILE
            a_mask, b_mask = inner[None, :] < left, inner[:, None] < left
            if not WRAPS:
                a_mask = a_mask & (rows[:, None] < m)
                b_mask = b_mask & (columns[None, :] < n)
            total = tl.dot(tl.load(a_ptrs, a_mask, 0.0), tl.load(b_ptrs, b_mask, 0.0), total)
            a_ptrs += TILE
            b_ptrs += TILE if TURNED else TILE * sb
        tl.store(c_ptr + rows[:, None] * sc + columns[None, :], total.to(tl.float16),
                 (rows[:, None] < m) & (columns[None, :] < n))


# without specialization one module serves every launch, so that each condition is tested at launch
product_kernel = triton.jit(product, do_not_specialize=ARGUMENTS)
KINDS = [
    pytest.param({"WRAPS": True, "TURNED": False, "PERSISTENT": False}, id="wraps"),
    pytest.param({"WRAPS": False, "TURNED": False, "PERSISTENT": False}, id="masks"),
    pytest.param({"WRAPS": True, "TURNED": True, "PERSISTENT": True}, id="turned-persistent"),
]


class Matrix:
    """Halves in rows of `pitch` elements, from `offset` elements behind aligned memory."""

    def __init__(self, rows, columns, pad, offset, seed):
        self.rows, self.columns, self.pitch, self.offset = rows, columns, columns + pad, offset
        values = np.random.default_rng(seed).integers(-4, 5, rows * self.pitch + offset + 64)
        self.memory = torch.from_numpy(values.astype(np.float16)).to("xpu")
        self.view = self.memory[offset:]
        self.before = self.memory.cpu().numpy().copy()

    def array(self, memory=None):
        memory = self.before if memory is None else memory
        flat = memory[self.offset : self.offset + self.rows * self.pitch]
        return flat.reshape(self.rows, self.pitch)[:, : self.columns]

    @property
    def is_block(self):
        """Whether 2D messages can address it: the rules of docs/architecture.md by hand."""
        address, width, pitch = self.view.data_ptr(), 2 * self.columns, 2 * self.pitch
        needed = alignment(target(triton.runtime.driver.active.get_current_target().arch))
        return (pitch % needed.pitch == 0 and address % needed.base == 0 and width % 4 == 0
                and width >= 64 and pitch >= width)


def launch(kind, m, n, k, pads, offsets, seed=0):
    """Whether all matrices are blocks, after a launch whose result was right."""
    a = Matrix(m, k, pads[0], offsets[0], seed)
    b = Matrix(*((n, k) if kind["TURNED"] else (k, n)), pads[1], offsets[1], seed + 1)
    c = Matrix(m, n, pads[2], offsets[2], seed + 2)
    tiles = -(-m // TILE) * -(-n // TILE)
    grid = (max(1, tiles // 3) if kind["PERSISTENT"] else tiles,)
    product_kernel[grid](a.view, b.view, c.view, m, n, k, a.pitch, b.pitch, c.pitch, **kind,
                         TILE=TILE, num_warps=1)
    expected = c.before.copy()
    right = b.array().T if kind["TURNED"] else b.array()
    c.array(expected)[:] = a.array().astype(np.float32) @ right.astype(np.float32)
    assert np.array_equal(c.memory.cpu().numpy(), expected)  # and nothing else was written
    return a.is_block and b.is_block and c.is_block


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_edges_run_fast_and_the_rest_is_right(kind, needed):
    choose, fast = random.Random(7), 0
    for seed in range(16):
        m, n, k = (choose.choice((2, 31, 32, 33, 40, 48, 64, 66, 72, 96, 100)) for _ in range(3))
        odd = seed % 3 == 0
        pads = [-x % 8 + choose.choice((0, 8, 32)) + (odd and choose.choice((0, 1)))
                for x in (k, k if kind["TURNED"] else n, n)]
        offsets = [choose.choice((0, 0, 32, 64, 8, 1 if odd else 0)) for _ in range(3)]
        needed.clear()
        can_be = launch(kind, m, n, k, pads, offsets, seed)
        assert can_be == (not needed), (m, n, k, pads, offsets, needed)
        fast += can_be
    assert 3 <= fast <= 14


def test_nothing_to_add_and_nothing_to_do(needed):
    kind = {"WRAPS": True, "TURNED": False, "PERSISTENT": False}
    memory = torch.full((64 * 64,), 7.0, dtype=torch.float16, device="xpu")
    product_kernel[(0,)](memory, memory, memory, 0, 0, 0, 64, 64, 64, **kind, TILE=TILE,
                         num_warps=1)
    assert bool((memory.cpu() == 7).all())
    assert needed == []
    product_kernel[(1,)](memory, memory, memory, 32, 32, 0, 64, 64, 64, **kind, TILE=TILE,
                         num_warps=1)
    assert needed
    assert bool((memory.cpu().view(64, 64)[:32, :32] == 0).all())


@pytest.mark.parametrize("wrong", [
    {"m": 1 << 24}, {"n": 1 << 24}, {"k": 1 << 23}, {"sa": 1 << 23}, {"sc": 1 << 23}, {"sb": -64},
    {"sa": 0}, {"grid": (1 << 30, 1, 1)}, {"m": -64}, {"k": -64}, {"n": (1 << 31) - 1},
])
def test_huge_and_negative_sizes_are_left_to_the_general_version(wrong):
    kind = {"WRAPS": False, "TURNED": False, "PERSISTENT": False}
    memory = torch.zeros(64 * 64, dtype=torch.float16, device="xpu")
    made = product_kernel.warmup(memory, memory, memory, *[64] * 6, **kind, TILE=TILE, num_warps=1,
                                 grid=(4,))
    made._init_handles()
    versions = made.function.kernel.versions
    usual = {"m": 64, "n": 64, "k": 64, "sa": 64, "sb": 64, "sc": 64, "grid": (4, 1, 1)}

    def failing(given):
        sizes = [given[name] for name in ARGUMENTS[3:]]
        return versions.failing([1 << 40, 2 << 40, 3 << 40, *sizes], given["grid"])

    assert failing(usual) == ""
    assert failing({**usual, **wrong})


def test_a_kernel_without_its_general_version_refuses():
    kind = {"WRAPS": True, "TURNED": False, "PERSISTENT": False}
    memory = torch.zeros(64 * 64, dtype=torch.float16, device="xpu")
    made = product_kernel.warmup(memory, memory, memory, *[64] * 6, **kind, TILE=TILE, num_warps=1,
                                 grid=(4,))
    made._init_handles()
    device = made.function.device
    alone = device.load(made.asm["spv"], made.name)
    with pytest.raises(DeviceError, match="guards='kernel'"):
        device.launch(alone, (4, 1, 1), [memory.data_ptr()] * 3 + [64, 64, 64, 63, 64, 64])
    check_text(made.asm["llir"], f'CHECK-NOT: @{{{{"?}}}}{made.name}{{{{"?}}}}(')


@triton.jit
def seen_kernel(a_ptr, b_ptr, c_ptr, m, end, HOW: tl.constexpr, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inner = tl.arange(0, TILE)
    a = tl.load(a_ptr + (rows % m)[:, None] * TILE + inner[None, :])
    total = tl.dot(a, tl.load(b_ptr + inner[:, None] * TILE + inner[None, :]))
    c_ptrs = c_ptr + rows[:, None] * TILE + inner[None, :]
    if HOW == "unmasked":
        tl.store(c_ptrs, total)
    elif HOW == "another bound":
        tl.store(c_ptrs, total, rows[:, None] < end)
    elif HOW == "added up":
        total += tl.sum(total, 0)[None, :]
        tl.store(c_ptrs, total, rows[:, None] < m)
    elif HOW == "turned":
        tl.store(c_ptrs, tl.trans(total), rows[:, None] < m)
    elif HOW == "twice":
        tl.store(c_ptrs, total, rows[:, None] < m)
        tl.store(c_ptrs + 64 * TILE, total)
    elif HOW == "next tile":
        kept = total
        for tile in range(1, 3):
            there = tile * TILE + tl.arange(0, TILE)
            last = tl.load(a_ptr + (there % m)[:, None] * TILE + inner[None, :])
            tl.store(c_ptr + there[:, None] * TILE + inner[None, :], kept, there[:, None] < m)
            kept = tl.dot(last, tl.load(b_ptr + inner[:, None] * TILE + inner[None, :]))
    else:
        tl.store(c_ptrs, tl.where(total > 0, total, total * 2.0), rows[:, None] < m)


def is_hidden(made):
    return not any("the block does not wrap around" in line for line in made.metadata.remarks)


@pytest.mark.parametrize("how", ["another bound", "turned", "twice", "next tile"])
def test_rows_that_may_be_seen_are_not_left_out(how):
    half = torch.zeros(64 * TILE, dtype=torch.float16, device="xpu")
    made = seen_kernel.warmup(half, half, half.float(), 40, 56, how, TILE, num_warps=1, grid=(2,))
    assert not is_hidden(made)


@pytest.mark.parametrize("how", ["added up", "hidden"])
def test_rows_that_wrap_are_loaded_where_they_can_be_seen(how, needed):
    m = 40
    a = np.random.default_rng(3).integers(-4, 5, (m, TILE)).astype(np.float32)
    b = np.eye(TILE, k=3).astype(np.float32)
    half_a, half_b = (torch.from_numpy(x.astype(np.float16)).to("xpu") for x in (a, b))
    c = torch.zeros(2 * TILE, TILE, device="xpu")
    made = seen_kernel[(2,)](half_a, half_b, c, m, m, how, TILE, num_warps=1)
    full = (a @ b)[np.arange(2 * TILE) % m].reshape(2, TILE, TILE)
    full = full + full.sum(1, keepdims=True) if how == "added up" else full * (1 + (full <= 0))
    expected = np.zeros((2 * TILE, TILE), np.float32)
    expected[:m] = full.reshape(-1, TILE)[:m]
    assert np.array_equal(c.cpu().numpy(), expected)
    assert is_hidden(made) == (not needed) == (how == "hidden")


@triton.jit
def product_at(pointers, m, n, k, sa, sb, sc, TILE: tl.constexpr):
    """A product of matrices whose addresses are in memory: the kernel tests their alignment."""
    rows, columns = (tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :])
    a = tl.load(pointers).to(tl.pointer_type(tl.float16)) + rows * sa
    b = tl.load(pointers + 1).to(tl.pointer_type(tl.float16)) + columns
    c = tl.load(pointers + 2).to(tl.pointer_type(tl.float16)) + rows * sc + columns
    total = tl.zeros((TILE, TILE), tl.float32)
    for step in range(0, k, TILE):
        left = k - step
        total = tl.dot(tl.load(a + step + columns, (columns < left) & (rows < m), 0.0),
                       tl.load(b + (step + rows) * sb, (rows < left) & (columns < n), 0.0), total)
    tl.store(c, total.to(tl.float16), (rows < m) & (columns < n))


@pytest.mark.parametrize("misaligned", [None, "a", "b", "c"])
def test_products_at_loaded_addresses_are_right_whichever_matrix_is_misaligned(misaligned):
    m, n, k = 27, 32, 64
    a, b, c = (Matrix(rows, columns, 8, 1 if name == misaligned else 0, seed)
               for seed, (name, rows, columns) in enumerate(
                   [("a", m, k), ("b", k, n), ("c", m, n)]))
    pointers = torch.tensor([x.view.data_ptr() for x in (a, b, c)], device="xpu")
    product_at[(1,)](pointers, m, n, k, a.pitch, b.pitch, c.pitch, TILE)
    expected = c.before.copy()
    c.array(expected)[:] = a.array().astype(np.float32) @ b.array().astype(np.float32)
    assert np.array_equal(c.memory.cpu().numpy(), expected)  # and nothing else was written


@triton.jit
def moved(
    a_ptr, b_ptr, c_ptr, at_ptr, m, k, pitch, first, count, SIZE: tl.constexpr, DEPTH: tl.constexpr,
):
    """The sum of products of blocks of A, whose positions are loaded, with B."""
    i, j = tl.arange(0, SIZE), tl.arange(0, DEPTH)
    a = tl.make_tensor_descriptor(a_ptr + first, [m, k], [pitch, 1], [SIZE, DEPTH])
    b = tl.load(b_ptr + j[:, None] * SIZE + i[None, :])
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for n in range(count):
        row, column = tl.load(at_ptr + 2 * n), tl.load(at_ptr + 2 * n + 1)
        acc = tl.dot(a.load([row, column * 16]), b, acc)
    tl.store(c_ptr + i[:, None] * SIZE + i[None, :], acc)


FAR = 2**31 - 1


@pytest.mark.parametrize(("first", "guards"), [(0, "launch"), (0, "kernel"), (24, "launch")])
@pytest.mark.parametrize("at", [
    [(5, 3)], [(-31, -1), (0, 0), (49, 4)], [(-32, 0), (50, 0), (0, 5), (0, -2)],
    [(FAR, 0), (-FAR - 1, 0), (0, 2**27 - 1), (0, -2**27), (0, 2**27)]])
def test_positions_that_a_loop_loads(at, first, guards):
    """Blocks at any position are 2D messages: those outside, by far or by one row, are zeros.

    If the matrix begins within a row, other elements are stored before it.
    """
    rows, b = (torch.randint(1, 5, shape).half() for shape in ((50, 112), (32, 32)))
    c = torch.empty(32, 32, device="xpu")
    where = torch.tensor(at, dtype=torch.int32, device="xpu")
    kernel = moved[(1,)](rows.to("xpu"), b.to("xpu"), c, where, 50, 80, 112, first, len(at), 32, 32,
                         guards=guards)
    padded = torch.nn.functional.pad(rows[:, first:first + 80], (32, 32, 32, 32)).float()
    expected = torch.zeros(32, 32)
    for row, column in at:
        column = (column * 16 + 2**31) % 2**32 - 2**31
        if -32 <= row <= 50 and -32 <= column <= 80:
            expected += padded[row + 32:row + 64, column + 32:column + 64] @ b.float()
    assert torch.equal(c.cpu(), expected)
    assert not any("stays a gather" in remark for remark in kernel.metadata.remarks)


@triton.jit
def paged(a_ptr, b_ptr, c_ptr, at_ptr, pitch, count, SIZE: tl.constexpr, ROWS: tl.constexpr):
    """The product of A with blocks of B, whose rows are loaded."""
    i = tl.arange(0, SIZE)
    b = tl.make_tensor_descriptor(b_ptr, [ROWS, SIZE], [SIZE, 1], [SIZE, SIZE])
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for n in range(count):
        a = tl.load(a_ptr + i[:, None] * pitch + n * SIZE + i[None, :])
        acc = tl.dot(a, b.load([tl.load(at_ptr + n), 0]), acc)
    tl.store(c_ptr + i[:, None] * SIZE + i[None, :], acc)


@pytest.mark.parametrize("guards", ["launch", "kernel"])
def test_positions_that_a_loop_loads_beside_those_that_move(guards):
    at = [7, 61, 0]
    a, b = (torch.randint(1, 5, shape).half() for shape in ((32, 96), (77, 32)))
    c = torch.empty(32, 32, device="xpu")
    where = torch.tensor(at, dtype=torch.int32, device="xpu")
    kernel = paged[(1,)](a.to("xpu"), b.to("xpu"), c, where, 96, len(at), 32, 77, guards=guards)
    below = torch.nn.functional.pad(b, (0, 0, 0, 32)).float()
    expected = sum(a[:, 32 * n : 32 * n + 32].float() @ below[row : row + 32]
                   for n, row in enumerate(at))
    assert torch.equal(c.cpu(), expected)
    assert kernel.metadata.n_block_loads > 1
