"""Intel's compiler accepts our SPIR-V modules, and what it says about them is read rightly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from python.test.filecheck import check_text
from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.lowering.spirv.emit_spirv import emit_spirv
from triton_xe.runtime import ocloc
from triton_xe.runtime.level_zero.zebin import kernel_facts, parse_ze_info, sections, ze_info
from triton_xe.tools import aot, intel, sample_kernel
from triton_xe.tools.canonical import canonical_spirv

DEVICES = {"pvc": 16, "bmg": 16, "lnl": 16, "ptl": 16, "dg2": 8}
SMALL_GRF, LARGE_GRF = "-ze-exp-register-file-size=128", "-ze-opt-large-register-file"


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_module_carrying_its_llvm_ir_is_accepted(device: str) -> None:
    spirv = sample_kernel.to_spirv(sample_kernel.vector_add(DEVICES[device]))
    built = intel.compile_spirv(spirv, device)
    assert built.facts.simd_size == DEVICES[device]
    assert built.facts.spill_size == 0
    check_text(built.asm["vector_add"], "CHECK: .kernel vector_add")


@pytest.mark.intel_compiler
def test_module_carrying_a_megabyte_of_llvm_ir_is_accepted() -> None:
    text = sample_kernel.vector_add()
    noise = "".join(f"; {pow(3, n, 2**61 - 1)}\n" for n in range(50_000))
    spirv = sample_kernel.to_spirv(text + noise)
    assert len(spirv) > 400_000
    assert intel.compile_spirv(spirv, "bmg", dump_asm=False).facts.name == "vector_add"


@pytest.mark.skipif(bool(intel.spirv_val_available()), reason=str(intel.spirv_val_available()))
def test_validator_accepts_the_module_and_refuses_a_damaged_one() -> None:
    spirv = sample_kernel.to_spirv(sample_kernel.vector_add())
    assert intel.spirv_val(spirv) is None
    assert "magic" in str(intel.spirv_val(b"\x01\x02\x03\x04" + spirv[4:])).lower()


@pytest.mark.skipif(bool(intel.spirv_val_available()), reason=str(intel.spirv_val_available()))
@pytest.mark.parametrize("emit", [sample_kernel.to_spirv, emit_spirv])
def test_a_module_is_the_same_but_for_its_ids_and_valid_whatever_was_emitted_before(
    emit: Callable[[str], bytes],
) -> None:
    text = sample_kernel.vector_add()
    modules = {emit(text) for _ in range(60)}
    assert {intel.spirv_val(module) for module in modules} == {None}
    assert len(set(map(canonical_spirv, modules))) == 1


@pytest.mark.intel_compiler
def test_spills_are_reported_and_the_large_register_file_removes_them() -> None:
    spirv = sample_kernel.to_spirv(sample_kernel.register_pressure(150))
    small, large = (
        intel.compile_spirv(spirv, "bmg", options) for options in (SMALL_GRF, LARGE_GRF))
    assert small.facts.grf_count == 128
    assert small.facts.spill_size > 0
    check_text(small.asm["register_pressure"], f"CHECK: .spill size {small.facts.spill_size}")
    assert (large.facts.grf_count, large.facts.spill_size) == (256, 0)


@pytest.mark.intel_compiler
@pytest.mark.parametrize(("values", "flags", "registers"), [
    (150, "", 256), (20, "", 128), (150, SMALL_GRF, 128),
])
def test_native_code_takes_the_register_file_that_spills_less(
    values: int, flags: str, registers: int
) -> None:
    name = "register_pressure"
    spirv = sample_kernel.to_spirv(sample_kernel.register_pressure(values))
    facts = kernel_facts(aot.native_code(spirv, name, "bmg", flags))[name]
    built = intel.compile_spirv(spirv, "bmg", flags)
    assert facts.grf_count == built.facts.grf_count == registers
    check_text(built.asm[name], f"CHECK{'' if facts.spill_size else '-NOT'}: //.spill size")


@pytest.mark.intel_compiler
@pytest.mark.parametrize(("values", "flags", "registers"), [(150, LARGE_GRF, 256), (20, "", 128)])
def test_the_register_file_is_chosen_once(
    values: int, flags: str, registers: int, monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The cache has the code, and the flags that led to it."""
    monkeypatch.setenv("TRITON_XE_TOOLCHAIN", str(knobs.toolchain()))
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path_factory.mktemp("cache")))
    name = "register_pressure"
    spirv = sample_kernel.to_spirv(sample_kernel.register_pressure(values))
    made = ocloc.native_code(spirv, name, "bmg", "")
    assert (made.flags, made.registers) == (flags, registers)
    assert (made.spills_at_128 > 0) == (registers == 256)
    monkeypatch.setattr(ocloc, "run_ocloc", None)
    assert ocloc.native_code(spirv, name, "bmg", "") == made


@pytest.mark.intel_compiler
def test_matrix_kernel_reports_dpas(block_gemm: str) -> None:
    built = intel.compile_spirv(sample_kernel.to_spirv(block_gemm), "pvc", LARGE_GRF)
    assert built.facts.has_dpas


@pytest.mark.intel_compiler
def test_call_of_an_unknown_function_is_an_error() -> None:
    text = sample_kernel.vector_add().replace(
        "%z = fadd float %x, %y", "%z = call spir_func float @mystery(float %x)"
    )
    spirv = sample_kernel.to_spirv(text + "declare spir_func float @mystery(float)\n")
    with pytest.raises(intel.IntelCompilerError, match=r"nothing defines: mystery"):
        intel.compile_spirv(spirv, "bmg")


@pytest.mark.intel_compiler
@pytest.mark.parametrize(
    ("spirv", "device", "options", "message"),
    [
        (b"not spirv" * 8, "bmg", "", "magic"),
        (None, "gpu-9000", "", "gpu-9000"),
        (None, "bmg", "-ze-exp-register-file-size=192", "signal 11"),
    ],
)
def test_failures_of_the_compiler_are_errors(
    spirv: bytes | None, device: str, options: str, message: str
) -> None:
    spirv = spirv or sample_kernel.to_spirv(sample_kernel.vector_add())
    with pytest.raises(intel.IntelCompilerError, match=message):
        intel.compile_spirv(spirv, device, options)


@pytest.mark.intel_compiler
def test_damaged_binary_is_refused() -> None:
    spirv = sample_kernel.to_spirv(sample_kernel.vector_add())
    binary = intel.compile_spirv(spirv, "bmg", dump_asm=False).binary
    assert "simd_size" in ze_info(binary)
    assert ".text.vector_add" in sections(binary)
    for damaged in (b"", binary[:100], binary[: len(binary) // 2], b"\0" * 200):
        with pytest.raises(DeviceError, match="native Intel GPU binary"):
            kernel_facts(damaged)


def test_ze_info_of_two_kernels() -> None:
    facts = parse_ze_info(
        "---\nversion: '1.73'\nkernels:\n"
        "  - name:            first\n    execution_env:\n      grf_count:       256\n"
        "      has_dpas:        true\n      spill_size:      64\n"
        "  - name:            second\n    execution_env:\n      simd_size:       32\n"
        "kernels_misc_info:\n  - name:            first\n    args_info:\n"
        "      - index:           0\n...\n"
    )
    assert list(facts) == ["first", "second"]
    assert (facts["first"].grf_count, facts["first"].spill_size) == (256, 64)
    assert facts["first"].has_dpas
    assert facts["second"].simd_size == 32


def test_missing_compiler_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nowhere = str(tmp_path_factory.mktemp("nowhere"))
    monkeypatch.setenv("TRITON_XE_TOOLCHAIN", nowhere)
    monkeypatch.setenv("TRITON_XE_OCLOC", f"{nowhere}/ocloc")
    assert "`triton-xe toolchain`" in str(intel.available())
    with pytest.raises(DeviceError, match="not installed"):
        intel.compile_spirv(b"", "bmg")
