"""DPAS layouts against the hardware's register formulas, and the published register tables."""

import itertools
import random
from pathlib import Path

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout import DotOperandEncoding, DpasEncoding, parse_encoding, to_linear_layout
from triton_xe.layout.views import hardware_view

GOLDEN = Path(__file__).parent / "golden"
PARAMETERS = (
    "repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, "
    "warpsPerCTA = [8, 4], repCluster = [4, 2]"
)


@pytest.mark.parametrize(
    ("op_idx", "k_width", "shape", "table"),
    [(0, 1, (256, 32), "dpas_a_256x32.txt"), (1, 2, (32, 256), "dpas_b_32x256.txt")],
)
@pytest.mark.parametrize("mnemonic", ["xe.dpas", "ttig.dpas", "triton_intel_gpu.dpas"])
def test_published_tables(op_idx, k_width, shape, table, mnemonic):
    """Warp 0 of the operands in Intel's description of its block loads, to the letter."""
    derived = "" if mnemonic == "xe.dpas" else ", A = [32, 16], B = [16, 32], C = [32, 32]"
    parent = f"#{mnemonic}<{{{PARAMETERS}{derived}}}>"
    text = f"#ttg.dot_op<{{opIdx = {op_idx}, parent = {parent}, kWidth = {k_width}}}>"
    layout = to_linear_layout(parse_encoding(text), shape)
    assert hardware_view(layout, [0]) + "\n" == (GOLDEN / table).read_text()


def one_instruction(exec_size, ops, rows=8, lanes=None):
    return DpasEncoding(rows, 8, exec_size, ops, lanes or exec_size, (1, 1), (1, 1))


def slot(layout, register, lane):
    found = layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0})
    return tuple(found.values())


@pytest.mark.parametrize("exec_size", [8, 16])
@pytest.mark.parametrize("ops", [1, 2, 4, 8])
def test_one_instruction_has_the_hardware_register_layout(exec_size, ops):
    """A row of A is 8 channels of 32 bits over all lanes; B packs channels down the rows."""
    dpas, k_size = one_instruction(exec_size, ops), 8 * ops
    a = to_linear_layout(DotOperandEncoding(0, dpas), (8, k_size))
    per_lane = 8 * ops * 4 // (4 * exec_size) or 1
    lanes_per_row = k_size // per_lane
    for register, lane in itertools.product(range(a.in_dims["register"]), range(exec_size)):
        element, packed = divmod(register, per_lane)
        row = element * (exec_size // lanes_per_row) + lane // lanes_per_row
        assert slot(a, register, lane) == (row, lane % lanes_per_row * per_lane + packed)
    b = to_linear_layout(DotOperandEncoding(1, dpas), (k_size, exec_size))
    for register, lane in itertools.product(range(k_size), range(exec_size)):
        dword, packed = divmod(register, ops)
        assert slot(b, register, lane) == (dword * ops + packed, lane)
    c = to_linear_layout(dpas, (8, exec_size))
    for register, lane in itertools.product(range(8), range(exec_size)):
        assert slot(c, register, lane) == (register, lane)


def test_two_rows_share_a_register_with_twice_the_lanes():
    dpas = one_instruction(16, 2, lanes=32)
    c = to_linear_layout(dpas, (8, 16))
    b = to_linear_layout(DotOperandEncoding(1, dpas), (16, 16))
    for register, lane in itertools.product(range(4), range(32)):
        assert slot(c, register, lane) == (2 * register + lane // 16, lane % 16)
        assert slot(b, 2 * register + 1, lane) == (4 * register + 2 * (lane // 16) + 1, lane % 16)


def test_one_row_of_tf32_leaves_copies_in_the_upper_lanes():
    layout = to_linear_layout(DotOperandEncoding(0, one_instruction(16, 1, rows=1)), (1, 8))
    assert [slot(layout, 0, lane) for lane in range(16)] == [(0, lane % 8) for lane in range(16)]


def random_dpas(rng):
    exec_size, rank = rng.choice((8, 16)), rng.choice((2, 2, 3))
    lanes = exec_size * rng.choice((1, 1, 2))
    power = lambda high: 1 << rng.randint(0, high)  # noqa: E731
    return DpasEncoding(
        rng.choice((2, 4, 8)), 8, exec_size, rng.choice((1, 2, 4, 8)), lanes,
        tuple(power(2) for _ in range(rank)), (1,) * (rank - 2) + (power(2), power(2)),
    )  # fmt: skip


def expected_place(dpas, op_idx, shape, index):
    """Where an element lies in its instruction, cluster, repetition and warp, by plain division.

    op_idx 2 is the result.
    """
    row, column = index[-2:]
    m_tile, n_tile = dpas.repeat_count, dpas.execution_size
    tile = {0: (m_tile, dpas.k_size), 1: (dpas.k_size, n_tile), 2: (m_tile, n_tile)}[op_idx]
    cluster = {0: (dpas.rep_cluster[-2], 1), 1: (1, dpas.rep_cluster[-1]),
               2: dpas.rep_cluster[-2:]}[op_idx]  # fmt: skip
    warps = {0: (dpas.warps_per_cta[-2], 1), 1: (1, dpas.warps_per_cta[-1]),
             2: dpas.warps_per_cta[-2:]}[op_idx]  # fmt: skip
    parts, reps = [], []
    for value, size, t, c, w in zip((row, column), shape[-2:], tile, cluster, warps, strict=True):
        parts.append((value % t, value // t % c, value // (t * c) % w, value // (t * c * w)))
        reps.append(max(1, size // (t * c * w)))
    (y, cluster_y, warp_y, rep_y), (x, cluster_x, warp_x, rep_x) = parts
    clusters = cluster_y * cluster[1] + cluster_x
    k_first = {0: (rep_x, reps[1], rep_y), 1: (rep_y, reps[0], rep_x), 2: (rep_x, reps[1], rep_y)}
    inner, n_inner, outer = k_first[op_idx]
    repetition = outer * n_inner + inner
    return y, x, clusters, repetition, (warp_y, warp_x)


@pytest.mark.parametrize("seed", range(3))
def test_random_dpas_places_every_element_by_the_rules(seed):
    """Registers count instructions of the cluster, then repetitions; warps are row-major."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        dpas = random_dpas(rng)
        op_idx = rng.randrange(3)
        encoding = dpas if op_idx == 2 else DotOperandEncoding(op_idx, dpas)
        assert parse_encoding(str(encoding)) == encoding
        shape = covering_shape(rng, dpas, op_idx)
        layout = to_linear_layout(encoding, shape)
        assert layout.is_surjective
        per_tile = instruction_registers(dpas, op_idx)
        clusters = dpas.rep_cluster[-2] * dpas.rep_cluster[-1] if op_idx == 2 else (
            dpas.rep_cluster[-2 if op_idx == 0 else -1])  # fmt: skip
        inverse = layout.pseudo_inverse()
        for _ in range(20):
            index = tuple(rng.randrange(size) for size in shape)
            found = inverse.apply({f"dim{d}": v for d, v in enumerate(index)})
            y, x, cluster, repetition, warp = expected_place(dpas, op_idx, shape, index)
            tile, rest = found["register"] % per_tile, found["register"] // per_tile
            inside = to_linear_layout(single(encoding, dpas), instruction_shape(dpas, op_idx))
            assert slot(inside, tile, found["lane"])[-2:] == (y, x)
            batch = rest // clusters // repetitions(dpas, op_idx, shape)
            assert rest % clusters == cluster
            assert rest // clusters % repetitions(dpas, op_idx, shape) == repetition
            assert warp_coordinates(dpas, op_idx, found["warp"]) == warp
            assert len(shape) == 3 or batch == 0


def single(encoding, dpas):
    small = DpasEncoding(dpas.repeat_count, 8, dpas.execution_size, dpas.ops_per_channel,
                         dpas.threads_per_warp, (1, 1), (1, 1))  # fmt: skip
    return small if encoding is dpas else DotOperandEncoding(encoding.op_idx, small)


def instruction_shape(dpas, op_idx):
    m, n, k = dpas.repeat_count, dpas.execution_size, dpas.k_size
    return {0: (m, k), 1: (k, n), 2: (m, n)}[op_idx]


def instruction_registers(dpas, op_idx):
    rows, columns = instruction_shape(dpas, op_idx)
    return max(1, rows * columns // dpas.threads_per_warp)


def covering_shape(rng, dpas, op_idx):
    """At least one tile of all warps, so that nothing but the other operand's warps is copied."""
    rows, columns = instruction_shape(dpas, op_idx)
    if op_idx != 1:
        rows *= dpas.rep_cluster[-2] * dpas.warps_per_cta[-2]
    if op_idx != 0:
        columns *= dpas.rep_cluster[-1] * dpas.warps_per_cta[-1]
    batch = tuple(w * rng.choice((1, 2)) for w in dpas.warps_per_cta[:-2])
    return (*batch, rows * rng.choice((1, 2, 4)), columns * rng.choice((1, 2, 4)))


def repetitions(dpas, op_idx, shape):
    rows, columns = covering_shape(ONES, dpas, op_idx)[-2:]
    return (shape[-2] // rows) * (shape[-1] // columns)


class ONES:
    choice = staticmethod(lambda options: options[0])


def warp_coordinates(dpas, op_idx, warp):
    m, n = dpas.warps_per_cta[-2:]
    y, x = warp // n % m, warp % n
    return {0: (y, 0), 1: (0, x), 2: (y, x)}[op_idx]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(repeat_count=3), "#xe.dpas: repeatCount must be 1, 2, 4 or 8, got 3"),
        (dict(systolic_depth=4), "systolicDepth"),
        (dict(execution_size=32), "executionSize"),
        (dict(ops_per_channel=16), "opsPerChan"),
        (dict(threads_per_warp=8), "#xe.dpas: threadsPerWarp must be 16 or 32, got 8"),
        (dict(repeat_count=1, threads_per_warp=32), "need a repeatCount of at least 2"),
        (dict(rep_cluster=(1, 1, 1)), "must both have rank"),
        (dict(warps_per_cta=(3, 1)), "powers of two"),
        (dict(warps_per_cta=(1, 1, 1), rep_cluster=(2, 1, 1)), "cluster over the batch"),
    ],
)
def test_illegal_parameters_are_named(change, message):
    good = dict(
        repeat_count=8, systolic_depth=8, execution_size=16, ops_per_channel=2,
        threads_per_warp=16, warps_per_cta=(1, 1), rep_cluster=(1, 1),
    )  # fmt: skip
    with pytest.raises(LayoutError, match=message):
        DpasEncoding(**(good | change))


def test_k_width_must_fit():
    dpas = one_instruction(16, 2)
    assert DotOperandEncoding(0, dpas, 1) != DotOperandEncoding(1, dpas, 2)
    with pytest.raises(LayoutError, match=r"kWidth of operand A of .* must be 1, got 2"):
        DotOperandEncoding(0, dpas, 2)


def test_wrong_derived_shapes_are_refused():
    with pytest.raises(LayoutError, match=r"column \d+: expected A = \[32, 16\], found \[16, 16\]"):
        parse_encoding(f"#ttig.dpas<{{{PARAMETERS}, A = [16, 16]}}>")


def test_packed_fp4_is_read():
    text = "#ttig.dpas<{" + PARAMETERS.replace("opsPerChan = 2", "opsPerChan = 4")
    assert parse_encoding(text + ", fp4KPack = 2}>") == parse_encoding(text + "}>")
    with pytest.raises(LayoutError, match="fp4KPack = 2 with opsPerChan = 4"):
        parse_encoding(text + ", fp4KPack = 4}>")
