"""Targets and options: what Triton, torch and Inductor may pass, and what is refused."""

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

from triton_xe.backend.arch import device_name
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import target

BMG = GPUTarget("xpu", "bmg", 16)
# every field that Triton's front end, runtime or Inductor reads
REQUIRED = (
    "num_warps num_ctas num_stages warp_size debug sanitize_overflow arch backend_name extern_libs "
    "enable_fp_fusion launch_cooperative_grid supported_fp8_dtypes default_dot_input_precision "
    "deprecated_fp8_dot_operand_dtypes allowed_dot_input_precisions instrumentation_mode "
    "max_num_imprecise_acc_default fpsan_homomorphic_casts maxnreg ir_override"
).split()


def options(arch: object = "bmg", **wishes: object):
    return make_backend(GPUTarget("xpu", arch, 16)).parse_options(wishes)


def test_the_backend_is_found_under_the_name_torch_looks_for():
    assert triton.backends.backends["intel"].compiler.__name__ == "XeBackend"


def test_all_fields_exist():
    assert [name for name in REQUIRED if not hasattr(options(), name)] == []


def test_unknown_keys_and_none_are_ignored():
    assert options(of_another_backend=True, num_warps=None) == options()


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("pvc", "pvc"),
        ("arl_h", "arl-h"),
        ("bmg-g21", "bmg"),
        ({"architecture": 21479031808, "sub_group_sizes": [16, 32]}, "bmg"),
        ({"architecture": 13136561920}, "pvc"),
        ({"architecture": 0x0501_0004}, "lnl"),
        ({"architecture": 12 << 22 | 71 << 14, "sub_group_sizes": [8, 16, 32]}, "mtl"),
        ({"architecture": 12 << 22 | 61 << 14, "sub_group_sizes": [16, 32]}, "pvc-no-dpas"),
        ({"architecture": 35 << 22 | 11 << 14, "sub_group_sizes": [16, 32]}, "cri"),
        ({"architecture": 35 << 22 | 12 << 14, "sub_group_sizes": [16, 32], "has_fp64": False,
          "has_subgroup_2d_block_io": False}, "nvl-p-no-block2d-no-fp64"),
        ("b70", "bmg-g31"),
        ({"architecture": 20 << 22 | 1 << 14, "has_subgroup_2d_block_io": False}, "bmg"),
        ("ptl_no_dpas", "ptl-no-dpas"),
        ({"name": "Intel(R) Arc(TM) B580 Graphics", "architecture": 0}, "bmg"),
        ({"name": "Intel(R) Data Center GPU Max 1100"}, "pvc"),
        ({"name": "unreleased", "sub_group_sizes": [16, 32]}, "bmg"),
        ({"name": "unreleased", "sub_group_sizes": [8, 16, 32]}, "dg2"),
    ],
)
def test_each_spelling_of_an_arch_is_one_device(arch, name):
    assert device_name(arch) == name


@pytest.mark.parametrize("arch", ["h100", 90, {"warp_size": 32}, None])
def test_what_is_no_intel_gpu_is_refused(arch):
    with pytest.raises(UnsupportedError, match="Intel GPU"):
        device_name(arch)


def test_the_key_of_a_kernel_does_not_depend_on_how_the_device_was_named():
    plain = make_backend(BMG)
    mapping = make_backend(GPUTarget("xpu", {"architecture": 21479031808}, 32))
    assert plain.hash() == mapping.hash()
    assert plain.parse_options({}).hash() == mapping.parse_options({}).hash()
    assert plain.hash() != make_backend(GPUTarget("xpu", "pvc", 16)).hash()


def test_the_subgroup_size_comes_from_the_device():
    assert options("dg2").warp_size == 8
    assert options({"architecture": 21479031808}).warp_size == 16
    assert options(warp_size=32).warp_size == 32


def test_tf32_may_be_asked_for_everywhere_and_is_the_default_where_the_matrix_unit_has_it():
    assert "tf32" in options("pvc").allowed_dot_input_precisions
    assert "tf32" in options("dg2").allowed_dot_input_precisions
    assert options("pvc").default_dot_input_precision == "tf32"
    assert options("dg2").default_dot_input_precision == "ieee"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"num_warps": 3}, "power of 2"),
        ({"num_ctas": 2}, "no clusters"),
        ({"warp_size": 64}, "has 16, 32"),
        ({"grf_mode": "512"}, "128, 256"),
        ({"line_prefetches": "c"}, "'', 'a', 'b', not 'c'"),
    ],
)
def test_impossible_options_are_refused(wishes, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        options(**wishes)


def test_a_number_of_warps_is_refused_as_by_other_backends():
    with pytest.raises(AssertionError, match="must be a power of 2, not 3"):
        options(num_warps=3)


def test_maxnreg_selects_a_register_mode():
    assert options(maxnreg=200).grf_mode == "256"
    assert options("ptl", maxnreg=90).grf_mode == "96"
    assert options(maxnreg=64, grf_mode="256").grf_mode == "256"


def test_register_modes_have_names_for_the_ends():
    assert options(grf_mode="small").grf_mode == "128"
    assert options(grf_mode="large").grf_mode == "256"
    assert options("ptl", grf_mode="large").grf_mode == str(target("ptl").grf_modes[-1])


def test_each_option_changes_the_hash():
    different = [options(), options(num_warps=8), options(debug=True), options(grf_mode="256")]
    assert len({o.hash() for o in different}) == 4


def test_fp_fusion_follows_triton_knob():
    assert options(enable_fp_fusion=False).enable_fp_fusion is False
    with triton.knobs.language.scope():
        triton.knobs.language.default_fp_fusion = False
        assert options().enable_fp_fusion is False
