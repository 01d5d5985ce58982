"""The time model: areas and traffic against brute force, times against what must hold."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from benchmarks.model_accuracy import rows
from benchmarks.model_ranking import problems, ranking
from triton_xe.hardware.target import TARGETS
from triton_xe.model.gemm import Shape, Tile, best, gemm
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import EXPECTED_ERROR, predict
from triton_xe.model.traffic import waves
from triton_xe.model.work import Blocks, Issue, Work

B580 = PRODUCTS["Arc B580"]


def test_every_simulated_product_has_rates():
    assert {t.product for t in TARGETS.values()} <= PRODUCTS.keys()


@pytest.mark.parametrize("rates", PRODUCTS.values(), ids=PRODUCTS)
def test_bytes_limit_messages_of_256_bytes(rates):
    """A message per clock would be faster than memory and L2; docs/tuning.md has the figures."""
    assert 256 / (rates.read / (rates.cores * rates.clock_ghz)) > 10
    assert 256 / rates.l2 == 4


@pytest.mark.parametrize("flat", [None, 0, 2])
def test_the_union_of_blocks_is_that_of_their_cells(flat):
    random = np.random.default_rng(1)
    for _ in range(200):
        n = random.integers(1, 12)
        bounds = np.zeros((n, 4), np.int64)
        bounds[:, 0], bounds[:, 2] = random.integers(0, 20, (2, n))
        bounds[:, 1] = bounds[:, 0] + random.integers(0, 9, n)
        bounds[:, 3] = bounds[:, 2] + random.integers(0, 9, n)
        if flat is not None:
            bounds[:, flat : flat + 2] = 0, 2
        cells = np.zeros((32, 32), bool)
        for x0, x1, y0, y1 in bounds:
            cells[x0:x1, y0:y1] = True
        assert Blocks(bounds).union() == cells.sum()


def stream(groups, nbytes=4096):
    """Work-groups that each copy some bytes of their own."""
    start = np.arange(groups) * nbytes
    bounds = np.stack([start, start + nbytes, start * 0, start * 0 + 1], 1)
    return Work(groups, 4, 128, Issue(messages=8), l1_bytes=2 * nbytes, l2_bytes=2 * nbytes,
                reads=(Blocks(bounds),), writes=(Blocks(bounds),))


def test_a_copy_reads_and_writes_each_byte_once():
    work = stream(5000)
    found = waves(work, 320, 18e6)
    assert sum(n for n, _ in found) == -(-5000 // 320)
    assert found[0][1].read == found[0][1].written == 320 * 4096


def test_a_copy_takes_the_time_of_its_bytes():
    nbytes = 5000 * 4096
    expected = B580.launch_us + nbytes / (B580.read * 1e3) + nbytes / (B580.write * 1e3)
    assert predict(stream(5000), B580).us == pytest.approx(expected, rel=0.05)
    assert predict(stream(5000), B580).bound == "dram"


def test_what_fits_the_cache_is_read_once():
    """All work-groups read the same bytes."""
    bounds = np.tile([0, 1 << 20, 0, 1], (2000, 1))
    work = replace(stream(2000), reads=(Blocks(bounds),), writes=())
    found = waves(work, 320, 18e6)
    assert found[0][1].read == 1 << 20
    assert all(wave.read == 0 for _, wave in found[1:])


def test_terms_add_up_and_more_work_takes_longer():
    small, large = (predict(gemm(Shape(m, 4096, 4096), Tile(128, 128, 32, 32)), B580)
                    for m in (2048, 4096))
    assert small.us == pytest.approx(sum(small.parts.values()))
    assert 1.9 * small.us < large.us
    assert small.bound in ("xmx", "l1")


def test_the_clock_scales_what_the_matrix_unit_bounds():
    work = gemm(Shape(4096, 4096, 4096), Tile(256, 256, 32, 64))
    slow = predict(work, replace(B580, clock_ghz=B580.clock_ghz / 2)).us
    assert 1.7 < slow / predict(work, B580).us < 2.1


@pytest.fixture(scope="module")
def published():
    return rows(every=3)


def test_a_matrix_unit_of_eight_lanes_needs_twice_the_instructions():
    shape, tile = Shape(512, 512, 512), Tile(128, 128, 32, 32)
    assert gemm(shape, tile, 8).issue.dpas == 2 * gemm(shape, tile).issue.dpas
    arc = PRODUCTS["Arc A770"]
    peak_us = 2 * 4096**3 / (512 * 128 * arc.clock_ghz * 1e3)
    assert best(Shape(4096, 4096, 4096), arc)[1].us > peak_us


def test_published_times_are_met(published):
    test = sorted(abs(row.ratio - 1) for row in published if not row.calibrates)
    assert test[len(test) // 2] < EXPECTED_ERROR + 0.02


def test_the_study_with_known_tiles_is_met():
    found = [row for row in rows(kind="tiled") if row.calibrates]
    assert len(found) >= 4
    assert all(abs(row.ratio - 1) < 0.15 for row in found), [row.ratio for row in found]


def test_tiles_of_a_tuned_library_are_ranked_as_it_ranks_them():
    found, left_out = problems()
    assert left_out < 20
    ranked = [ranking(name, found[name]) for name in list(found)[::2]]
    assert median(r.spearman for r in ranked) > 0.85
    assert median(r.regret for r in ranked) < 0.05
    assert median(r.regret_of_five for r in ranked) < 0.02


def test_a_work_group_that_cuts_k_does_the_same_products_and_adds_them_in_shared_memory():
    shape = Shape(1024, 1024, 4096)
    whole, cut = (gemm(shape, Tile(128, 128, 32, 32, slices=slices)) for slices in (1, 4))
    assert cut.subgroups == 4 * whole.subgroups
    assert cut.issue.dpas * cut.subgroups == whole.issue.dpas * whole.subgroups
    assert cut.slm_bytes > whole.slm_bytes == 0
    assert cut.l2_bytes == whole.l2_bytes
