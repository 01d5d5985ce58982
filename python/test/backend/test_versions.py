"""Other versions of Triton: what differs between them, and what a newer one changed."""

from collections import Counter
from inspect import signature

import numpy as np
import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import BaseBackend, GPUTarget

from triton_xe import triton_versions
from triton_xe.backend import front_passes, launcher
from triton_xe.backend.compiler import XeBackend
from triton_xe.errors import UnsupportedError
from triton_xe.tools import triton_contract

HERE = triton_versions.installed()
BMG = XeBackend(GPUTarget("xpu", "bmg", 16))
SIGNATURES = [
    ("*fp32", "constexpr", "i32"), ("tensordesc<fp16[16, 32]>",), ("tensordesc<i8[4]>", "i64"),
    ("tensordesc<fp32[1, 2, 3],#shared>", ("u1", "bf16")),
]


@pytest.fixture
def as_version(monkeypatch):
    def set_to(number):
        monkeypatch.setattr(triton, "__version__", "{}.{}.0".format(*number))
        triton_versions.installed.cache_clear()

    yield set_to
    triton_versions.installed.cache_clear()


def test_an_unknown_version_is_refused(monkeypatch):
    triton_versions.installed.cache_clear()
    monkeypatch.setattr(triton, "__version__", "3.10.0")
    with pytest.raises(UnsupportedError, match=r"Triton 3\.10\.0 is not one of 3\.7 to 3\.9"):
        triton_versions.installed()


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_arguments_are_expanded_as_triton_does(signature):
    expand = getattr(triton.backends.driver, "expand_signature", None)
    if expand is None:
        pytest.skip("this Triton has no expand_signature to compare with")
    expected = []

    def flatten(kinds):
        for kind in kinds:
            if isinstance(kind, tuple):
                flatten(kind)
            elif kind != "constexpr":
                expected.append(kind)

    flatten(expand(signature, None, ""))
    assert list(launcher.kernel_types(signature)) == expected


@pytest.mark.parametrize("default", [True, False])
def test_fusion_follows_the_default_in_each_version(default, as_version):
    for known in triton_versions.VERSIONS:
        if known.decides_fp_fusion and not HERE.decides_fp_fusion:
            continue
        as_version(known.number)
        with knobs.language.scope():
            knobs.language.default_fp_fusion = default
            assert BMG.parse_options({}).enable_fp_fusion == default
            assert BMG.parse_options({"enable_fp_fusion": not default}).enable_fp_fusion != default


@pytest.mark.parametrize(("number", "name"), [
    ((3, 7), "instrumentation_mode"), ((3, 8), "fpsan_homomorphic_casts")])
def test_what_a_version_lacks_is_refused(number, name, as_version):
    as_version(number)
    options = BMG.parse_options({"instrumentation_mode": "fpsan", "fpsan_homomorphic_casts": True})
    version = ".".join(map(str, number))
    with pytest.raises(UnsupportedError, match=rf"Triton {version} has no {name} for floats"):
        front_passes.add_sanitizer(None, options, Counter())


def test_triton_is_as_the_table_says():
    """Fails for a new version of Triton, and says what to look at before it joins the table."""
    gone = {
        "triton.knobs.language.fp_fusion_enabled": HERE.decides_fp_fusion,
        "triton._C.libtriton.passes.ttgpuir.add_fp_sanitizer": HERE.has_fp_sanitizer,
    }
    found = triton_contract.changes()
    assert {name for name, there in gone.items() if not there} == {
        clause.removesuffix(" is gone") for clause in found if clause.endswith(" is gone")}
    passes = {"add_remove_layout_conversions", "add_fp_sanitizer"} - {
        name.rpartition(".")[2] for name, there in gone.items() if not there}
    takes = {clause.split(" takes ")[0].rpartition(".")[2] for clause in found if "takes" in clause}
    assert takes - {"add_stages"} == (set() if HERE.sanitizes_casts else passes)
    if triton_versions.NEWEST == HERE:
        assert found == []


def test_a_newer_triton_is_told_apart_in_one_sentence(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.10.0")
    monkeypatch.setattr(BaseBackend, "add_stages", lambda self, stages, options, other: None)
    monkeypatch.delattr(BaseBackend, "hash")
    said = triton_contract.sentence()
    assert said.startswith("of what triton-xe relies on, Triton 3.10.0 changed since 3.9: ")
    assert "BaseBackend.add_stages takes (self, stages, options, other), not (self, " in said
    assert "triton.backends.compiler.BaseBackend.hash is gone" in said


def test_nothing_is_said_of_a_known_version():
    assert triton_contract.sentence() == ""


def test_what_reads_arrays_as_arguments_is_watched_too(monkeypatch):
    monkeypatch.setattr(triton.runtime.jit, "create_function_from_signature", lambda sig: None)
    assert ("triton.runtime.jit.create_function_from_signature takes (sig), not "
            "(sig, kparams, backend)") in triton_contract.changes()
    monkeypatch.delattr(triton.runtime.jit, "create_function_from_signature")
    assert "triton.runtime.jit.create_function_from_signature is gone" in triton_contract.changes()


# --- changes that Triton 3.9 announces for 3.10 ---------------------------------------------------


def test_every_announced_change_has_a_test_below():
    announced = {name for name in vars(triton._utils) if name.endswith("_WARNING")}
    assert announced <= {"FP_FUSION_DEFAULT_WARNING", "CAT_CAN_REORDER_WARNING",
                         "RESHAPE_CAN_REORDER_WARNING"}


@triton.jit
def multiply_add(x, y, out, B: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a * b + a)


@pytest.mark.parametrize("fuses", [True, False])
def test_products_and_sums_fuse_by_triton_s_default_alone(fuses):
    """In 3.10 the default is that they do not."""
    x, y = np.random.default_rng(0).standard_normal((2, 1024)).astype(np.float32)
    out = np.zeros_like(x)
    with knobs.language.scope():
        knobs.language.default_fp_fusion = fuses
        multiply_add.device_caches.clear()
        multiply_add[(1,)](x, y, out, B=1024)
    apart = x * y + x
    once = (x.astype(np.float64) * y + x).astype(np.float32)
    assert (apart != once).any()
    np.testing.assert_array_equal(out, once if fuses else apart)


@triton.jit
def joined(x, y, out, rows, B: tl.constexpr, FLAG: tl.constexpr):
    at, twice = tl.arange(0, B), tl.arange(0, 2 * B)
    a, b = tl.load(x + at), tl.load(y + at)
    both = tl.cat(a, b, can_reorder=True) if FLAG else tl.cat(a, b)
    tl.store(out + twice, both)
    grid = tl.load(out + twice)
    table = tl.reshape(grid, [2, B], can_reorder=True) if FLAG else tl.reshape(grid, [2, B])
    tl.store(rows + tl.arange(0, 2)[:, None] * B + at[None, :], table)


@pytest.mark.filterwarnings("ignore:.*can_reorder.*:UserWarning")
@pytest.mark.parametrize("flag", [False, *([True] if "can_reorder" in signature(tl.cat).parameters
                                           else [])])
def test_order_is_kept_with_and_without_the_flag_that_goes(flag):
    """`can_reorder` is removed from tl.cat and tl.reshape in 3.10."""
    x, y = np.arange(64, dtype=np.int32), np.arange(100, 164, dtype=np.int32)
    out, rows = np.zeros((2, 128), np.int32)
    joined[(1,)](x, y, out, rows, B=64, FLAG=flag)
    np.testing.assert_array_equal(out, np.concatenate([x, y]))
    np.testing.assert_array_equal(rows, out)
