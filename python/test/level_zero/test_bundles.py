"""Bundles: several builds of one kernel in a folder, and what chooses between them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from python.test.level_zero.test_ahead_of_time import MAIN, ROOT
from triton_xe import runtime
from triton_xe.errors import DeviceError
from triton_xe.runtime.bundle import BUNDLE, refusal
from triton_xe.runtime.folder import Description, Parameter
from triton_xe.tools import cli, intel

SIGNATURES = (
    "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32:16 BLOCK=1024",
    "a_ptr=*fp32 b_ptr=*fp32 c_ptr=*fp32 n=i32 BLOCK=256",
    "a_ptr=*fp16:16 b_ptr=*fp16:16 c_ptr=*fp16:16 n=i32:16 BLOCK=1024",
    "a_ptr=*fp32 b_ptr=*fp32 c_ptr=*fp32 n=1 BLOCK=16",
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    kernel = f"{ROOT / 'examples/vector_add.py'}::add_kernel"
    signatures = [word for text in SIGNATURES for word in ("--signature", text)]
    arguments = ["compile", kernel, "--target", "bmg,pvc", *signatures, "--out", str(folder)]
    assert cli.main(arguments) == 0
    return folder


@pytest.mark.parametrize("target", ["bmg", "pvc"])
@pytest.mark.parametrize(("dtype", "n", "variant"), [
    ("float32", 4096, 0), ("float32", 1000, 1), ("float16", 2048, 2), ("float32", 1, 3),
])
def test_a_launch_takes_the_first_variant_that_fits(
    bundle: Path, target: str, dtype: str, n: int, variant: int
) -> None:
    kernel = runtime.load_bundle(bundle, f"sim:{target}")
    x, out = np.arange(n, dtype=dtype), np.zeros(n, dtype)
    given = (Array(kernel.device, x), Array(kernel.device, x), Array(kernel.device, out), n)
    names = ("a_ptr", "b_ptr", "c_ptr", "n")
    assert kernel.choose(dict(zip(names, given, strict=True))) == f"{target}-{variant}"
    kernel(lambda c: (-(-n // c["BLOCK"]),), *given)
    np.testing.assert_array_equal(given[2].read(), x + x)
    kernel.close()


class Array:
    """An array on a device that says what it holds."""

    def __init__(self, device: Any, value: np.ndarray) -> None:
        self.device_, self.dtype, self.shape = device, value.dtype, value.shape
        self.block = runtime.put(device, value)

    def data_ptr(self) -> int:
        return int(self.block.pointer)

    def read(self) -> np.ndarray:
        return runtime.get(self.device_, self.block, self.shape, self.dtype)


def test_what_does_not_fit_is_refused_with_the_reason_of_each_variant(bundle: Path) -> None:
    kernel = runtime.load_bundle(bundle, "sim:bmg")
    x = Array(kernel.device, np.zeros(1000, np.float16))
    with pytest.raises(DeviceError) as error:
        kernel((1,), x, x, x, 1000)
    message = str(error.value)
    assert "no variant of kernel 'add_kernel' for bmg fits" in message
    assert "bmg-2: n must be divisible by 16, not 0x3e8" in message
    assert "bmg-1: it takes *fp32 for a_ptr, not *fp16" in message
    assert "bmg-3: it is for n = 1, not 1000" in message
    with pytest.raises(DeviceError, match=r"bmg-1: it is for BLOCK = 256, not 7"):
        kernel((1,), 64, 64, 64, 5, BLOCK=7)
    with pytest.raises(DeviceError, match=r"n, not 3000000000, which is too large"):
        kernel((1,), 64, 64, 64, 3000000000)
    with pytest.raises(DeviceError, match="kernel 'add_kernel' needs n"):
        kernel((1,), 64, 64, 64)
    with pytest.raises(DeviceError, match="takes a_ptr, b_ptr, c_ptr, n, BLOCK; got m"):
        kernel((1,), 64, 64, 64, m=3)


@pytest.mark.parametrize("value", [0.1, float("inf"), 3])
def test_a_number_that_is_no_integer_fits(value: float) -> None:
    parameters = (Parameter("eps", "f32", "fp32"),)
    made = Description("k", "bmg", "k.spv", "spirv", parameters, {}, "", 16, (16, 1, 1), 0, "", "")
    assert refusal(made, {"eps": value}) == ""


def test_a_device_without_a_variant_is_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"for bmg, pvc, but .* is dg2; add --target dg2"):
        runtime.load_bundle(bundle, "sim:dg2")
    with pytest.raises(DeviceError, match="holds no bundle"):
        runtime.load_bundle(tmp_path)
    (tmp_path / BUNDLE).write_text(json.dumps({"kernel": "k"}))
    with pytest.raises(DeviceError, match=r"bundle.json is damaged"):
        runtime.load_bundle(tmp_path)


def test_a_bundle_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = f"{ROOT / 'examples/vector_add.py'}::add_kernel"
    arguments = ["compile", kernel, "--target", "bmg,pvc", "--signature", SIGNATURES[0]]
    assert cli.main(arguments) == 1
    assert "name its folder with --out" in capsys.readouterr().err


LAUNCH = """
    void *block;
    DO(zeMemAllocDevice(context, &memory, 1 << 16, 64, device, &block));
    uint32_t ip = add_kernel_ip_version(device);
    int sizes[] = {4096, 1000, 2048, 1, 1000}, found[5];
    const char *types[] = {"*fp32", "*fp32", "*fp16", "*fp32", "*fp16"};
    for (int i = 0; i < 5; i++) {
        add_kernel_arguments given = {.n = sizes[i]};
        given.a_ptr = given.b_ptr = given.c_ptr = block;
        given.a_ptr_type = given.b_ptr_type = given.c_ptr_type = types[i];
        int chosen = found[i] = add_kernel_choose(ip, &given);
        if (chosen < 0) {
            for (int v = 0; v < ADD_KERNEL_VARIANTS; v++)
                printf("%d: %s\\n", v, add_kernel_refusal(v, ip, &given));
            continue;
        }
        const add_kernel_variant *variant = &add_kernel_variants[chosen];
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", names[1], variant->binary);
        FILE *file = fopen(path, "rb");
        size = file ? fread(code, 1, sizeof code, file) : 0;
        ze_module_desc_t module_desc = {ZE_STRUCTURE_TYPE_MODULE_DESC, NULL, variant->format, size,
                                        code, variant->build_flags, NULL};
        DO(zeModuleCreate(context, device, &module_desc, &module, NULL));
        ze_kernel_desc_t kernel_desc = {ZE_STRUCTURE_TYPE_KERNEL_DESC, NULL, 0, variant->name};
        DO(zeKernelCreate(module, &kernel_desc, &kernel));
        uint32_t programs = (sizes[i] + variant->BLOCK - 1) / variant->BLOCK;
        ze_group_count_t grid = {programs, 1, 1};
        DO(add_kernel_launch(list, kernel, chosen, grid, &given));
        DO(zeCommandListHostSynchronize(list, UINT64_MAX));
        printf("%s launched\\n", variant->binary);
    }
    return 0;
}
"""


@pytest.mark.intel_driver
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("device", ["bmg", "lnl"])
def test_a_program_in_c_chooses_and_launches(bundle: Path, tmp_path: Path, device: str) -> None:
    if reason := intel.driver_available():
        pytest.skip(reason)
    (tmp_path / "level_zero").mkdir()
    shutil.copy(ROOT / "third_party/level_zero/include/ze_api.h", tmp_path / "level_zero")
    start = MAIN.partition("    FILE *file")[0], MAIN.partition("    ze_driver_handle_t")[2]
    setup = start[1].partition("    ze_module_desc_t module_desc")[0]
    text = (f"{start[0]}    size_t size;\n    ze_driver_handle_t{setup}"
            "    ze_device_mem_alloc_desc_t memory = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};\n"
            f"{LAUNCH}")
    (tmp_path / "main.c").write_text(text)
    session = intel.level_zero_environment(device)
    *loader, _, _, _ = session.command
    found = f"{loader[2]}/libze_loader.so.1" if loader else "-l:libze_loader.so.1"
    flags = ["-Wall", "-Werror", "-Wno-missing-field-initializers", f"-I{tmp_path}", f"-I{bundle}"]
    made = subprocess.run(
        ["cc", *flags, "-o", str(tmp_path / "main"), str(tmp_path / "main.c"), found,
         "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
        capture_output=True, text=True, check=False,
    )
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [*loader, str(tmp_path / "main"), str(bundle)], env=dict(session.environment),
        capture_output=True, text=True, check=False, timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    if device == "lnl":
        assert all(line.endswith(("it is for bmg", "it is for pvc")) for line in lines)
        return
    assert lines[:4] == [f"bmg-{n}/add_kernel.spv launched" for n in range(4)]
    assert sorted(line.partition(": ")[2] for line in lines[4:] if "pvc" not in line) == [
        "it is for n = 1", "it takes *fp32 for a_ptr", "it takes *fp32 for a_ptr",
        "n must be divisible by 16",
    ]  # fmt: skip
