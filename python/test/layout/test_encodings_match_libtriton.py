"""Random encodings of every kind: text and linear layout equal libtriton's own."""

import random
from functools import singledispatch
from itertools import islice

import pytest

from triton_xe.layout import (
    AmdMfmaEncoding,
    AmdWmmaEncoding,
    BlockedEncoding,
    DotOperandEncoding,
    LinearEncoding,
    LinearLayout,
    NvidiaMmaEncoding,
    NvmmaSharedEncoding,
    PaddedSharedEncoding,
    PartitionedSharedEncoding,
    SharedEncoding,
    SharedLinearEncoding,
    SliceEncoding,
    SwizzledSharedEncoding,
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
    parse_encoding,
    to_linear_layout,
)
from triton_xe.layout.tiling import block_layout, dim_names, identity

CASES = 250
SEED = 20250

# -- How to make each encoding with GluonOpBuilder ------------------------------------------------


def lists(vectors):
    return [list(vector) for vector in vectors]


@singledispatch
def build(encoding):
    raise TypeError(type(encoding))


@build.register
def _(e: BlockedEncoding):
    return [
        "get_blocked_layout",
        e.size_per_thread,
        e.threads_per_warp,
        e.warps_per_cta,
        e.order,
        lists(e.cga_layout),
    ]


@build.register
def _(e: SliceEncoding):
    return ["get_slice_layout", e.dim, ["build", *build(e.parent)]]


@build.register
def _(e: DotOperandEncoding):
    return ["get_dot_operand_layout", e.op_idx, ["build", *build(e.parent)], e.k_width]


@build.register
def _(e: LinearEncoding):
    shape = list(e.layout.out_dims.values())
    return ["get_distributed_linear_layout", *map(lists, e.layout.bases.values()), shape]


@build.register
def _(e: NvidiaMmaEncoding):
    version = [e.version_major, e.version_minor]
    return ["get_mma_layout", version, e.warps_per_cta, lists(e.cga_layout), e.instr_shape]


@build.register
def _(e: AmdMfmaEncoding):
    return [
        "get_amd_mfma_layout",
        e.version,
        e.warps_per_cta,
        e.instr_shape,
        e.is_transposed,
        lists(e.cga_layout),
        e.tiles_per_warp,
        e.element_bit_width,
    ]


@build.register
def _(e: AmdWmmaEncoding):
    bases = e.cta_layout.bases
    return [
        "get_amd_wmma_layout",
        e.version,
        e.is_transposed,
        lists(bases["warp"]),
        lists(bases["register"]),
        lists(e.cga_layout),
        e.instr_shape,
        e.rank,
    ]


@build.register
def _(e: SwizzledSharedEncoding):
    return [
        "get_swizzled_shared_layout",
        e.vec,
        e.per_phase,
        e.max_phase,
        e.order,
        lists(e.cga_layout),
    ]


@build.register
def _(e: PaddedSharedEncoding):
    bases = e.layout.bases
    return [
        "get_padded_shared_layout",
        e.intervals,
        e.paddings,
        lists(bases["offset"]),
        lists(bases["block"]),
        e.shape,
    ]


@build.register
def _(e: NvmmaSharedEncoding):
    return [
        "get_nvmma_shared_layout",
        e.swizzling_byte_width,
        e.element_bit_width,
        e.transposed,
        e.fp4_padded,
        lists(e.cga_layout),
        e.rank,
    ]


@build.register
def _(e: SharedLinearEncoding):
    bases = e.layout.bases
    return ["get_shared_linear_layout", lists(bases["offset"]), lists(bases["block"]), e.alignment]


@build.register
def _(e: PartitionedSharedEncoding):
    return [
        "get_partitioned_shared_layout",
        e.num_partitions,
        e.num_groups,
        e.partition_dim,
        ["build", *build(e.partition_layout)],
    ]


@build.register
def _(e: TensorMemoryEncoding):
    return [
        "get_tensor_memory_layout",
        [e.block_m, e.block_n],
        e.col_stride,
        lists(e.cga_layout),
        e.two_ctas,
        e.fp4_padded,
    ]


@build.register
def _(e: TensorMemoryScalesEncoding):
    return ["get_tensor_memory_scales_layout", lists(e.cga_layout), e.block_rep_order]


# -- Random encodings with a shape ----------------------------------------------------------------


def power(rng, low, high):
    return 1 << rng.randint(low, high)


def powers(rng, rank, high):
    return tuple(power(rng, 0, high) for _ in range(rank))


def shuffled(rng, rank):
    return tuple(rng.sample(range(rank), rank))


def random_blocks(rng, rank):
    """Up to 8 blocks that split a dim or share the tensor."""
    pieces, bases = [1] * rank, []
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        dim = rng.randrange(rank + 1)
        bases.append(tuple(pieces[d] if d == dim else 0 for d in range(rank)))
        if dim < rank:
            pieces[dim] *= 2
    return tuple(bases)


def random_blocked(rng, rank=None):
    rank = rank or rng.randint(1, 4)
    return BlockedEncoding(
        powers(rng, rank, 2),
        powers(rng, rank, 3),
        powers(rng, rank, 2),
        shuffled(rng, rank),
        random_blocks(rng, rank),
    )


def random_shape(rng, rank, high=None):
    return powers(rng, rank, high or {1: 11, 2: 8, 3: 5}.get(rank, 4))


def blocked(rng):
    encoding = random_blocked(rng)
    return encoding, random_shape(rng, encoding.rank)


def sliced(rng):
    parent = rng.choice(
        (random_blocked(rng, 3), random_mfma(rng), random_nvidia(rng), random_linear(rng)[0])
    )
    while parent.rank > 1 and (parent.rank == 4 or rng.random() < 0.8):
        parent = SliceEncoding(rng.randrange(parent.rank), parent)
    if not isinstance(parent, SliceEncoding):
        parent = SliceEncoding(0, random_blocked(rng, 2))
    return parent, random_shape(rng, parent.rank)


def random_linear(rng):
    rank = rng.randint(2, 3)
    shape = powers(rng, rank, 4)
    bits = [
        tuple(1 << bit if d == dim else 0 for d in range(rank))
        for dim in range(rank)
        for bit in range(shape[dim].bit_length() - 1)
    ]
    bits += [(0,) * rank] * rng.randint(0, 2)
    if not bits:
        return random_linear(rng)
    rng.shuffle(bits)
    bases = {"register": [], "lane": [], "warp": [], "block": []}
    for bit in bits:
        bases[rng.choice(("register", "lane", "warp"))].append(bit)
    return LinearEncoding(LinearLayout(bases, dim_names(rank))), shape


def linear(rng):
    encoding, shape = random_linear(rng)
    return encoding, tuple(
        max(1, size * rng.choice((1, 1, 2, 4)) // rng.choice((1, 1, 2))) for size in shape
    )


def random_nvidia(rng):
    if rng.random() < 0.4:
        warps = (4 * power(rng, 0, 1), power(rng, 0, 1))
        return NvidiaMmaEncoding(3, 0, warps, (16, 8 * power(rng, 0, 4), 16), random_blocks(rng, 2))
    rank = rng.randint(2, 3)
    instr = (1,) * (rank - 2) + rng.choice(((16, 8), (16, 8), (8, 8)))
    return NvidiaMmaEncoding(2, 0, powers(rng, rank, 2), instr, random_blocks(rng, rank))


def random_mfma(rng):
    rank = rng.randint(2, 3)
    m, n = rng.choice(((32, 32), (16, 16), (64, 4), (4, 64)))
    return AmdMfmaEncoding(
        rng.randint(1, 4),
        powers(rng, rank, 2),
        rng.choice(((m, n, 16), (m, n))),
        m == 64 or rng.random() < 0.5,
        random_blocks(rng, rank),
        (1,) * (rank - 2) + powers(rng, 2, 1),
        rng.choice((32, 32, 64)),
    )


def random_wmma(rng):
    version = rng.randint(1, 3)
    shapes = {
        1: [(16, 16, 16)],
        2: [(16, 16, 16), (16, 16, 32)],
        3: [(16, 16, 4), (16, 16, 32), (16, 16, 64), (16, 16, 128), (32, 16, 64)],
    }
    sizes, bases = [1, 1], {"register": [], "warp": []}
    for _ in range(rng.randint(0, 4)):
        dim = rng.randrange(2)
        bases[rng.choice(("register", "warp"))].append(
            tuple(sizes[d] if d == dim else 0 for d in (0, 1))
        )
        sizes[dim] *= 2
    return AmdWmmaEncoding(
        version,
        rng.random() < 0.5,
        LinearLayout(bases, dim_names(2)),
        random_blocks(rng, 2),
        rng.choice(shapes[version]),
    )


def nvidia(rng):
    encoding = random_nvidia(rng)
    return encoding, random_shape(rng, encoding.rank)


def mfma(rng):
    encoding = random_mfma(rng)
    return encoding, random_shape(rng, encoding.rank)


def wmma(rng):
    return random_wmma(rng), random_shape(rng, 2)


def dot_blocked(rng):
    parent = random_blocked(rng, rng.randint(2, 3))
    return DotOperandEncoding(rng.randrange(2), parent), random_shape(rng, parent.rank)


def dot_nvidia(rng):
    parent = random_nvidia(rng)
    op_idx = 0 if parent.is_hopper else rng.randrange(2)
    return DotOperandEncoding(op_idx, parent, power(rng, 0, 3)), random_shape(rng, parent.rank)


def dot_mfma(rng):
    parent = random_mfma(rng)
    return DotOperandEncoding(rng.randrange(2), parent, power(rng, 0, 4)), random_shape(
        rng, parent.rank
    )


def dot_wmma(rng):
    parent = random_wmma(rng)
    k_width = {1: (8, 16), 2: (4, 8, 16), 3: (2, 8, 16)}[parent.version]
    width = min(rng.choice(k_width), max(parent.instr_shape[2] // 2, min(k_width)))
    return DotOperandEncoding(rng.randrange(2), parent, width), random_shape(rng, 2)


def swizzled(rng, rank=None):
    rank = rank or rng.randint(1, 4)
    encoding = SwizzledSharedEncoding(
        power(rng, 0, 3),
        power(rng, 0, 3),
        power(rng, 0, 3),
        shuffled(rng, rank),
        random_blocks(rng, rank),
    )
    return encoding, random_shape(rng, rank)


def padded(rng):
    rank = rng.randint(1, 3)
    shape = powers(rng, rank, 5)
    plain = identity("offset", shape, shuffled(rng, rank)).transpose_outs(dim_names(rank))
    offsets = list(plain.bases["offset"])
    if not offsets:
        return padded(rng)
    blocks = []
    if rng.random() < 0.5:
        rng.shuffle(offsets)
        blocks = [(0,) * rank] * rng.randint(0, 2)
    layout = LinearLayout({"offset": offsets, "block": blocks}, dim_names(rank))
    intervals = tuple(1 << b for b in rng.sample(range(1, 8), rng.randint(1, 2)))
    return PaddedSharedEncoding(intervals, powers(rng, len(intervals), 4), layout), shape


def shared_linear(rng):
    rank = rng.randint(1, 3)
    shape = powers(rng, rank, 4)
    encoding = SwizzledSharedEncoding(1, 1, power(rng, 0, 2), shuffled(rng, rank))
    layout = to_linear_layout(encoding, shape)
    if not layout.in_bits:
        return shared_linear(rng)
    offsets = list(layout.bases["offset"])
    rng.shuffle(offsets)
    layout = LinearLayout({"offset": offsets, "block": []}, layout.out_dims)
    return SharedLinearEncoding(layout, power(rng, 0, 8)), shape


def nvmma(rng):
    rank, bits = rng.randint(2, 3), power(rng, 3, 5)
    width = rng.choice((0, 32, 64, 128))
    transposed, fp4 = rng.random() < 0.5, bits == 8 and width == 128 and rng.random() < 0.5
    shape = [power(rng, 3, 5) if d else 8 for d in range(rank)]
    contiguous = 0 if transposed else rank - 1
    shape[contiguous] = max(8, 8 * width // bits) * power(rng, 0, 2)
    return NvmmaSharedEncoding(width, transposed, bits, fp4, (), rank), tuple(shape)


def nvmma_blocks(rng):
    encoding, shape = nvmma(rng)
    blocks = random_blocks(rng, len(shape))
    split = block_layout(blocks, len(shape)).out_dims.values()
    shape = tuple(size * parts for size, parts in zip(shape, split, strict=True))
    return NvmmaSharedEncoding(
        encoding.swizzling_byte_width,
        encoding.transposed,
        encoding.element_bit_width,
        encoding.fp4_padded,
        blocks,
        len(shape),
    ), shape


def partitioned(rng):
    inner, shape = swizzled(rng, rank=rng.randint(2, 3))
    inner = SwizzledSharedEncoding(inner.vec, inner.per_phase, inner.max_phase, inner.order)
    dim, partitions, groups = rng.randrange(len(shape)), power(rng, 1, 2), power(rng, 0, 2)
    shape = tuple(s * partitions * groups if d == dim else s for d, s in enumerate(shape))
    return PartitionedSharedEncoding(partitions, groups, dim, inner), shape


def split_by(blocks, piece):
    parts = block_layout(blocks, len(piece)).out_dims.values()
    return tuple(size * count for size, count in zip(piece, parts, strict=True))


def tensor_memory(rng):
    m, n = rng.choice((64, 128)), power(rng, 3, 8)
    blocks = random_blocks(rng, 2)
    two_ctas = blocks[:1] == ((1, 0),)
    piece = (m * power(rng, 0, 1), n * power(rng, 0, 1))
    stride = power(rng, 0, 2)
    padded = stride == 1 and rng.random() < 0.5
    encoding = TensorMemoryEncoding(m, n, stride, blocks, two_ctas, padded)
    return encoding, split_by(blocks, piece)


def tensor_memory_scales(rng):
    blocks = random_blocks(rng, 2)
    encoding = TensorMemoryScalesEncoding(blocks, rng.choice(("mnThenK", "kThenMn")))
    return encoding, split_by(blocks, (power(rng, 5, 9), power(rng, 0, 5)))


def libtriton_accepts(encoding, shape):
    """Its Python classes have no word for a shared layout without a single offset bit."""
    if not isinstance(encoding, SharedEncoding):
        return True
    return to_linear_layout(encoding, shape).in_dims["offset"] > 1


GENERATORS = [
    blocked,
    sliced,
    linear,
    nvidia,
    mfma,
    wmma,
    dot_blocked,
    dot_nvidia,
    dot_mfma,
    dot_wmma,
    swizzled,
    padded,
    shared_linear,
    nvmma,
    nvmma_blocks,
    partitioned,
    tensor_memory,
    tensor_memory_scales,
]


def draw(generator):
    rng = random.Random(f"{generator.__name__} {SEED}")
    drawn = (generator(rng) for _ in range(2 * CASES))
    return list(islice((case for case in drawn if libtriton_accepts(*case)), CASES))


def memory_of(encoding):
    if isinstance(encoding, TensorMemoryEncoding | TensorMemoryScalesEncoding):
        return "tensor"
    return "shared" if isinstance(encoding, SharedEncoding) else "registers"


def question(encoding, shape):
    """libtriton has no linear layout for padding."""
    convert = not isinstance(encoding, PaddedSharedEncoding)
    return {
        "build": build(encoding),
        "shape": shape,
        "memory": memory_of(encoding),
        "convert": convert,
    }


@pytest.fixture(scope="module")
def answers(libtriton):
    """All questions go to one child process, which takes seconds to start."""
    cases = {generator.__name__: draw(generator) for generator in GENERATORS}
    replies = iter(libtriton([question(*case) for part in cases.values() for case in part]))
    return {name: [(*case, next(replies)) for case in part] for name, part in cases.items()}


@pytest.mark.parametrize("name", [generator.__name__ for generator in GENERATORS])
def test_text_and_linear_layout(answers, name):
    print(f"seed {SEED}")
    assert len(answers[name]) == CASES
    for encoding, shape, theirs in answers[name]:
        assert str(encoding) in theirs["text"], theirs["text"]
        assert parse_encoding(str(encoding)) == encoding
        layout = to_linear_layout(encoding, shape)
        ours = {n: lists(bases) for n, bases in layout.bases.items() if n in theirs["bases"]}
        assert ours == theirs["bases"], f"{encoding} on {shape}"
        assert ours or name == "padded"
