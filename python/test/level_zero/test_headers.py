"""The hand-written bindings agree with the official header."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.errors import RESULTS

HEADER = Path(__file__).parents[3] / "third_party/level_zero/include/ze_api.h"
STRUCTURES = {
    name: value
    for name, value in vars(raw).items()
    if name.startswith("ze_") and name.endswith("_t")
}
HANDLES = {
    "ze_driver_handle_t": raw.DriverHandle, "ze_device_handle_t": raw.DeviceHandle,
    "ze_context_handle_t": raw.ContextHandle, "ze_module_handle_t": raw.ModuleHandle,
    "ze_module_build_log_handle_t": raw.BuildLogHandle, "ze_kernel_handle_t": raw.KernelHandle,
    "ze_command_list_handle_t": raw.CommandListHandle,
    "ze_event_pool_handle_t": raw.EventPoolHandle, "ze_event_handle_t": raw.EventHandle,
    "ze_graph_handle_t": raw.GraphHandle, "ze_executable_graph_handle_t": raw.ExecutableGraphHandle,
}
SIZES = {
    "uint32_t": 4, "uint64_t": 8, "size_t": 8, "uint8_t": 1, "char": 1, "ze_result_t": 4,
    "ze_device_uuid_t": 16, "ze_driver_uuid_t": 16, "ze_native_kernel_uuid_t": 16,
    "ze_kernel_uuid_t": 32, "ze_kernel_timestamp_data_t": 16,
}


@pytest.fixture(scope="module")
def header() -> str:
    text = re.sub(r"//[^\n]*", "", HEADER.read_text())
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def c_size(kind: str) -> int:
    """Bytes of a C type of the header; enumerations and flags are 32 bits."""
    return 8 if kind.endswith("*") else SIZES.get(kind, 4)


def parameters(header: str, function: str) -> list[tuple[str, str]]:
    found = re.search(rf"ze_result_t ZE_APICALL\s+{function}\(([^)]*)\)", header)
    assert found, f"{function} is not in the header"
    parts = [" ".join(part.split()) for part in found[1].split(",")]
    return [(kind.removeprefix("const ").strip(), name) for kind, name in
            (part.rsplit(" ", 1) for part in parts)]


@pytest.mark.parametrize("function", raw.PROTOTYPES)
def test_prototype(function: str, header: str) -> None:
    declared, bound = parameters(header, function), raw.PROTOTYPES[function]
    assert len(declared) == len(bound)
    for (kind, name), argument in zip(declared, bound, strict=True):
        if kind in HANDLES:
            assert argument is HANDLES[kind], name
        elif kind.endswith("*") and kind[:-1] in STRUCTURES:
            assert argument._type_ is STRUCTURES[kind[:-1]], name
        elif kind.endswith("*") and kind[:-1] in HANDLES:
            assert argument._type_ is HANDLES[kind[:-1]], name
        else:
            assert ctypes.sizeof(argument) == c_size(kind), name
            assert hasattr(argument, "_type_"), name


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_fields(name: str, header: str) -> None:
    body = re.search(rf"typedef struct _{name}\s*\{{([^}}]*)\}}", header)
    assert body, f"{name} is not in the header"
    declared = []
    for line in body[1].split(";"):
        words = line.replace("const ", "").split()
        if words:
            field = re.match(r"(\w+)(?:\[(\w+)\])?", words[-1])
            assert field
            count = re.search(rf"#define {field[2]}\s+(\d+)", header) if field[2] else None
            declared.append((field[1], c_size(words[0]) * (int(count[1]) if count else 1)))
    ours = [(each[0], ctypes.sizeof(each[1])) for each in STRUCTURES[name]._fields_]
    assert ours == declared


@pytest.mark.parametrize("name", [n for n, s in STRUCTURES.items() if hasattr(s, "STYPE")])
def test_structure_type_number(name: str, header: str) -> None:
    stem = name.removeprefix("ze_").removesuffix("_t").upper()
    spellings = (stem, re.sub(r"PROPERTIES_EXT$", "EXT_PROPERTIES", stem))
    numbers = {
        int(found[1], 0)
        for spelling in spellings
        for found in re.finditer(rf"\bZE_STRUCTURE_TYPE_{spelling} = (0x\w+)", header)
    }
    assert numbers == {STRUCTURES[name].STYPE}
    assert STRUCTURES[name]().stype == STRUCTURES[name].STYPE


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_sizes_and_offsets_as_a_c_compiler_sees_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines, expected = [], []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(structure))
        for field in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field[0]}));')
            expected.append(getattr(structure, field[0]).offset)
    folder = tmp_path_factory.mktemp("layout")
    source = folder / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <ze_api.h>\n"
        f"int main(void) {{ {' '.join(lines)} return 0; }}\n"
    )
    subprocess.run(
        ["gcc", f"-I{HEADER.parent}", str(source), "-o", str(folder / "layout")], check=True
    )
    output = subprocess.run([str(folder / "layout")], capture_output=True, text=True, check=True)
    assert [int(line) for line in output.stdout.split()] == expected


def test_result_codes(header: str) -> None:
    declared = {
        int(number, 0): name
        for name, number in re.findall(r"\bZE_RESULT_(\w+) = (0x\w+|\d+)", header)
    }
    for code, (name, meaning) in RESULTS.items():
        assert declared[code] == name
        assert meaning


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (raw.GPU_TYPE, "ZE_DEVICE_TYPE_GPU"), (raw.FORMAT_SPIRV, "ZE_MODULE_FORMAT_IL_SPIRV"),
        (raw.FORMAT_NATIVE, "ZE_MODULE_FORMAT_NATIVE"),
        (raw.QUEUE_ASYNCHRONOUS, "ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS"),
        (raw.QUEUE_IN_ORDER, "ZE_COMMAND_QUEUE_FLAG_IN_ORDER"),
        (raw.COMPUTE_QUEUE, "ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE"),
        (raw.EVENT_HOST_VISIBLE, "ZE_EVENT_POOL_FLAG_HOST_VISIBLE"),
        (raw.EVENT_TIMESTAMP, "ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP"),
        (raw.SCOPE_HOST, "ZE_EVENT_SCOPE_FLAG_HOST"), (raw.INIT_GPU_ONLY, "ZE_INIT_FLAG_GPU_ONLY"),
        (raw.INIT_GPU_ONLY, "ZE_INIT_DRIVER_TYPE_FLAG_GPU"),
        (raw.INTEGRATED, "ZE_DEVICE_PROPERTY_FLAG_INTEGRATED"),
        (raw.SUB_DEVICE, "ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE"),
        (raw.MODULE_FP64, "ZE_DEVICE_MODULE_FLAG_FP64"),
        (raw.UNKNOWN_MEMORY, "ZE_MEMORY_TYPE_UNKNOWN"), (raw.HOST_MEMORY, "ZE_MEMORY_TYPE_HOST"),
        (raw.DEVICE_MEMORY, "ZE_MEMORY_TYPE_DEVICE"),
        (raw.SHARED_MEMORY, "ZE_MEMORY_TYPE_SHARED"),
    ],
)
def test_constants(ours: int, name: str, header: str) -> None:
    found = re.search(rf"\b{name} = (?:ZE_BIT\((\d+)\)|(\d+))", header)
    assert found
    assert ours == (1 << int(found[1]) if found[1] else int(found[2]))


def test_a_handle_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="expected KernelHandle, got ModuleHandle"):
        raw.KernelHandle.from_param(raw.ModuleHandle(1))
    assert raw.KernelHandle.from_param(None) is None
