"""Kernels compiled into folders, and launched where triton and torch cannot be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_xe import runtime
from triton_xe.errors import DeviceError
from triton_xe.runtime.folder import Description, Parameter
from triton_xe.runtime.level_zero.zebin import kernel_facts
from triton_xe.tools import aot, cli, intel
from triton_xe.tools.sample_kernel import to_spirv, vector_add

ROOT = Path(__file__).parents[3]
SIGNATURE = "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024"
BLOCKED = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("triton", "torch", "xdsl"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Refuse())
"""


def compiled(folder: Path, *more: str) -> Path:
    kernel = f"{ROOT / 'examples/vector_add.py'}::add_kernel"
    arguments = ["compile", kernel, "--signature", SIGNATURE, "--out", str(folder), *more]
    assert cli.main(arguments) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("aot") / "add")


def test_a_folder_runs_without_triton_and_torch(folder: Path) -> None:
    code = BLOCKED + (
        "from examples.numpy_vector_add import main\n"
        f"main({str(folder)!r}, 'sim:bmg')\n"
        "assert not {'triton', 'torch', 'xdsl'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "largest error 0.0" in done.stdout


@pytest.mark.intel_driver
@pytest.mark.parametrize("emit", ["spirv", "zebin"])
def test_a_folder_launches_on_intels_driver(emit: str, tmp_path: Path, on_driver: Any) -> None:
    if emit == "zebin" and intel.available():
        pytest.skip(str(intel.available()))
    place = compiled(tmp_path, "--emit", emit)
    start = BLOCKED + "import json\nfrom triton_xe import runtime\nout = {}\nimport numpy as np\n"
    out = on_driver(
        f"""
        device = runtime.open_device("gpu")
        kernel = runtime.load_folder({str(place)!r}, device)
        a = np.ones(4096, np.float32)
        blocks = [runtime.put(device, a) for _ in range(3)]
        kernel((4,), *blocks, 4096)
        runtime.get(device, blocks[2], a.shape, a.dtype)
        out["registers"] = kernel.kernel.n_registers
        out["clean"] = not {{"triton", "torch"}} & set(sys.modules)
        kernel.close()
        """,
        start=start,
    )
    assert (out["registers"], out["clean"]) == (128, True)


def test_the_description_says_all_that_a_launch_needs(folder: Path) -> None:
    found = Description.from_json((folder / "kernel.json").read_text())
    assert [p.name for p in found.parameters] == ["a_ptr", "b_ptr", "c_ptr", "n"]
    assert [p.type for p in found.parameters] == ["ptr", "ptr", "ptr", "i32"]
    assert [p.divisible_by for p in found.parameters] == [16, 16, 16, 1]
    assert (found.target, found.subgroup_size, found.group_size) == ("bmg", 16, (64, 1, 1))
    assert (found.constants, found.slm_bytes, found.kind) == ({"BLOCK": 1024}, 0, "spirv")
    assert (folder / found.binary).stat().st_size > 1000


def test_wrong_launches_are_refused(folder: Path) -> None:
    device = runtime.open_device("sim:bmg")
    kernel = runtime.load_folder(folder, device)
    block = runtime.put(device, np.zeros(1024, np.float32))
    with pytest.raises(DeviceError, match=r"takes 4 arguments \(a_ptr, b_ptr, c_ptr, n\), got 3"):
        kernel((1,), block, block, block)
    with pytest.raises(DeviceError, match="compiled for b_ptr divisible by 16"):
        kernel((1,), block, block.pointer + 4, block, 100)
    with pytest.raises(DeviceError, match="the buffer has 4096 bytes; 8192 were asked for"):
        runtime.get(device, block, 1024, np.float64)
    kernel((1,), block, block.pointer, block, 1024)
    for n in (2**32, 1.5, "x", None):
        with pytest.raises(DeviceError, match=r"n is i32, got|does not fit the type"):
            kernel((1,), block, block, block, n)
    for pointer in ("x", 16.0, np.zeros(4)):
        with pytest.raises(DeviceError, match=r"b_ptr is \*fp32, got"):
            kernel((1,), block, pointer, block, 1)
    grids: tuple[Any, ...] = (1, (), (1, 2, 3, 4), ("x",), (1.5,))
    for grid in grids:
        with pytest.raises(DeviceError, match="a grid is one to three integers"):
            kernel(grid, block, block, block, 1)
    with pytest.raises(DeviceError, match="an array of object holds Python objects"):
        runtime.put(device, np.array([None]))


def test_folders_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"compiled for bmg, but .* is pvc; .* --target pvc"):
        runtime.load_folder(folder, "sim:pvc")
    with pytest.raises(DeviceError, match="holds no compiled kernel"):
        runtime.load_folder(tmp_path, "sim:bmg")
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "add_kernel.spv").write_bytes(b"other")
    with pytest.raises(DeviceError, match=r"is not the file that kernel\.json describes"):
        runtime.load_folder(broken, "sim:bmg")
    values = json.loads((broken / "kernel.json").read_text())
    for change, message in (({"format": 9}, "has format 9"), ({"kind": "elf"}, "is damaged"),
                            ({"binary": "../kernel.spv"}, "is damaged")):
        (broken / "kernel.json").write_text(json.dumps({**values, **change}))
        with pytest.raises(DeviceError, match=message):
            runtime.load_folder(broken, "sim:bmg")
    (broken / "kernel.json").write_text("{}")
    with pytest.raises(DeviceError, match="is damaged"):
        runtime.load_folder(broken, "sim:bmg")


def description(kind: Any = "spirv") -> Description:
    kinds = ("ptr", "i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
    parameters = tuple(Parameter(kind, kind, kind) for kind in kinds)
    constants = {"B": 1, "TEXT": "*/ no comment"}
    return Description("every.type", "bmg", "k.spv", kind, parameters, constants, "-f", 16,
                       (64, 1, 1), 128, "k.h", "0")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("kind", ["spirv", "zebin"])
def test_the_header_is_valid_c(kind: str, tmp_path: Path) -> None:
    (tmp_path / "level_zero").mkdir()
    shutil.copy(ROOT / "third_party/level_zero/include/ze_api.h", tmp_path / "level_zero")
    source = tmp_path / "k.c"
    source.write_text(aot.header(description(kind)) + "int size = EVERY_TYPE_GROUP_X;\n")
    flags = ["-Wall", "-Werror", "-std=c11", "-fsyntax-only", f"-I{tmp_path}"]
    done = subprocess.run(["cc", *flags, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MAIN = """
#include "add_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#define DO(call) do { ze_result_t code = call; if (code) { \\
    printf("%s: 0x%x\\n", #call, (unsigned)code); return 1; } } while (0)
int main(int count, char **names)
{
    static uint8_t code[1 << 20];
    FILE *file = fopen(count > 1 ? names[1] : "", "rb");
    size_t size = file ? fread(code, 1, sizeof code, file) : 0;
    ze_driver_handle_t driver; ze_device_handle_t device; ze_context_handle_t context;
    ze_command_list_handle_t list; ze_module_handle_t module; ze_kernel_handle_t kernel;
    uint32_t one = 1;
    DO(zeInit(0));
    DO(zeDriverGet(&one, &driver));
    DO(zeDeviceGet(driver, &one, &device));
    ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    DO(zeContextCreate(driver, &context_desc, &context));
    ze_command_queue_desc_t queue = {ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    DO(zeCommandListCreateImmediate(context, device, &queue, &list));
    ze_module_desc_t module_desc = {ZE_STRUCTURE_TYPE_MODULE_DESC, NULL, ADD_KERNEL_FORMAT, size,
                                    code, ADD_KERNEL_BUILD_FLAGS, NULL};
    DO(zeModuleCreate(context, device, &module_desc, &module, NULL));
    ze_kernel_desc_t kernel_desc = {ZE_STRUCTURE_TYPE_KERNEL_DESC, NULL, 0, ADD_KERNEL_NAME};
    DO(zeKernelCreate(module, &kernel_desc, &kernel));
    ze_device_mem_alloc_desc_t memory = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *block;
    DO(zeMemAllocDevice(context, &memory, 4096, 64, device, &block));
    ze_group_count_t grid = {1, 1, 1};
    DO(add_kernel_launch(list, kernel, grid, block, block, block, 1000));
    DO(zeCommandListHostSynchronize(list, UINT64_MAX));
    puts("launched");
    return 0;
}
"""


@pytest.mark.intel_driver
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("emit", ["spirv", "zebin"])
def test_a_program_in_c_launches_a_folder(emit: str, tmp_path: Path) -> None:
    for reason in (intel.driver_available(), intel.available()):
        if reason:
            pytest.skip(reason)
    place = compiled(tmp_path, "--emit", emit)
    (place / "level_zero").mkdir()
    shutil.copy(ROOT / "third_party/level_zero/include/ze_api.h", place / "level_zero")
    (place / "main.c").write_text(MAIN)
    session = intel.level_zero_environment("bmg")
    *loader, _, _, _ = session.command
    libraries = loader[2] if loader else ""
    found = f"{libraries}/libze_loader.so.1" if loader else "-l:libze_loader.so.1"
    flags = ["-Wall", "-Werror", "-Wno-missing-field-initializers", f"-I{place}"]
    program = str(place / "main")
    made = subprocess.run(
        ["cc", *flags, "-o", program, str(place / "main.c"), found,
         "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
        capture_output=True, text=True, check=False,
    )
    assert made.returncode == 0, made.stderr
    (binary,) = place.glob("add_kernel.[sz]*")
    done = subprocess.run(
        [*loader, program, str(binary)], env=dict(session.environment), capture_output=True,
        text=True, check=False, timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "launched\n"), done.stderr


def test_descriptions_survive_json() -> None:
    assert Description.from_json(description().to_json()) == description()
    with pytest.raises(DeviceError, match="no valid type"):
        Parameter("x", "i128", "i128")


def test_devices_are_opened_by_name(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    assert runtime.open_device("sim:pvc").target.name == "pvc"
    assert runtime.open_device("gpu").name == "Fake B580"
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim:lnl")
    assert runtime.open_device().target.name == "lnl"
    for name, message in (("gpu:1", "no GPU number 1: Level Zero found 1"),
                          ("gpu:x", "names no device"), ("tpu", "names no device")):
        with pytest.raises(DeviceError, match=message):
            runtime.open_device(name)


def test_checks_name_the_element_of_a_buffer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    device = runtime.open_device("sim:bmg")
    kernel = runtime.load_folder(folder, device)
    buffers = [runtime.put(device, np.zeros(1024, np.float32)) for _ in range(3)]
    kernel((1,), *buffers, 1024)
    with pytest.raises(DeviceError, match=r"'a_ptr': pointer to float32, element offset 1024$"):
        kernel((2,), *buffers, 1025)


def test_native_code_is_not_simulated(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "native")
    values = json.loads((copied / "kernel.json").read_text()) | {"kind": "zebin"}
    (copied / "kernel.json").write_text(json.dumps(values))
    with pytest.raises(DeviceError, match="native code, which the simulator cannot run"):
        runtime.load_folder(copied, "sim:bmg")
    assert cli.main(["compile", f"{ROOT / 'examples/vector_add.py'}::add_kernel", "--signature",
                     SIGNATURE, "--out", str(tmp_path), "--emit", "asm"]) == 1


def test_the_driver_makes_native_code_where_the_compiler_is_missing(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_OCLOC", "/nowhere")
    spirv = to_spirv(vector_add())
    binary = aot.native_code(spirv, "vector_add", "bmg", "")
    assert kernel_facts(binary)["vector_add"].grf_count == 128
    with pytest.raises(DeviceError, match=r"for pvc without such a GPU: .*\(ocloc\) is not"):
        aot.native_code(spirv, "vector_add", "pvc", "")


@pytest.mark.parametrize(
    ("emit", "start"),
    [
        ("ttir", b"#loc"), ("ttgir", b"#"), ("xetile", b""), ("xegpu", b""), ("llvm", b""),
        ("spirv", b"\x03\x02\x23\x07"), ("zebin", b"\x7fELF"), ("asm", b"//.kernel"),
    ],
)
def test_every_stage_is_emitted(emit: str, start: bytes, tmp_path: Path) -> None:
    if emit in ("zebin", "asm") and intel.available():
        pytest.skip(str(intel.available()))
    output = tmp_path / "stage"
    arguments = ["compile", f"{ROOT / 'examples/vector_add.py'}::add_kernel", "--signature",
                 SIGNATURE, "--emit", emit, "-o", str(output)]
    assert cli.main(arguments) == 0
    assert output.read_bytes().startswith(start)
    assert b"add_kernel" in output.read_bytes()
