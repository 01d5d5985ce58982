"""Write a kernel compiled ahead of time as a folder for `triton_xe.runtime.load_folder`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.runtime.folder import DESCRIPTION, Description, Parameter
from triton_xe.runtime.level_zero.zebin import kernel_facts
from triton_xe.runtime.spirv_reader import entry_point
from triton_xe.tools import intel

C_TYPES = {
    "ptr": "void *", "i1": "uint8_t ", "i8": "int8_t ", "i16": "int16_t ", "i32": "int32_t ",
    "i64": "int64_t ", "f16": "uint16_t ", "bf16": "uint16_t ", "f32": "float ", "f64": "double ",
}


def write_folder(
    folder: Path, kernel: Any, target: str, types: Mapping[str, Any], constants: Mapping[str, Any],
    attributes: Mapping[tuple[int], Any], *, native: bool,
) -> Description:
    """Write SPIR-V, or native code with `native`, with its description and header.

    `kernel` is Triton's `CompiledKernel`; `types`, `constants` and `attributes` are those of its
    source.  Raise `UnsupportedError` if the kernel needs memory that only Triton's launcher
    allocates.
    """
    metadata, name = kernel.metadata, kernel.name
    _check_launches(metadata, name)
    spirv: bytes = kernel.asm["spv"]
    flags = str(getattr(metadata, "build_flags", ""))
    entry = entry_point(spirv, name)
    binary, facts = spirv, {}
    if native:
        binary = native_code(spirv, name, target, flags)
        found = kernel_facts(binary)[name]
        facts = {"registers": found.grf_count, "spills": found.spill_size}
    description = Description(
        kernel=name, target=target, binary=f"{name}.{'zebin' if native else 'spv'}",
        kind="zebin" if native else "spirv",
        parameters=_parameters(name, types, attributes, entry.argument_types),
        constants=dict(constants), build_flags=flags, subgroup_size=entry.subgroup_size,
        group_size=entry.group_size, slm_bytes=int(metadata.shared), header=f"{name}.h",
        sha256=hashlib.sha256(binary).hexdigest(), facts=facts,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / description.binary).write_bytes(binary)
    (folder / DESCRIPTION).write_text(description.to_json())
    (folder / description.header).write_text(header(description))
    return description


def native_code(spirv: bytes, kernel: str, target: str, flags: str) -> bytes:
    """Compile with Intel's offline compiler, or with the driver of a GPU of that very type.

    Raise `DeviceError` with what to install if this machine has neither.
    """
    missing = intel.available()
    if missing is None:
        return intel.compile_spirv(spirv, target, flags).binary
    from triton_xe.runtime.level_zero.device import open_devices

    try:
        fitting = [device for device in open_devices() if device.target.name == target]
    except DeviceError:
        fitting = []
    if not fitting:
        raise DeviceError(f"cannot make native code for {target} without such a GPU: {missing}")
    return fitting[0].native_code(spirv, kernel, flags).binary


def header(description: Description) -> str:
    """A C header: the sizes of a launch, and a function that sets the arguments and launches."""
    d, prefix = description, re.sub(r"\W", "_", description.kernel).upper()
    x, y, z = d.group_size
    arguments = "".join(f", {C_TYPES[p.type]}arg_{c_name(p.name)}" for p in d.parameters)
    sets = "".join(
        f"    if (status == ZE_RESULT_SUCCESS)\n"
        f"        status = zeKernelSetArgumentValue(kernel, {n}, sizeof({name}), &{name});\n"
        for n, name in enumerate(f"arg_{c_name(p.name)}" for p in d.parameters)
    )
    form = "ZE_MODULE_FORMAT_NATIVE" if d.kind == "zebin" else "ZE_MODULE_FORMAT_IL_SPIRV"
    texts = {name: repr(value).replace("*/", "* /") for name, value in d.constants.items()}
    constants = "".join(f" *   {name} = {text}\n" for name, text in texts.items())
    return f"""/* Kernel {d.kernel} for {d.target}, compiled ahead of time into {d.binary}.
 * Constants:
{constants or " *   none" + chr(10)} * f16 and bf16 arguments are passed as their bits.
 */
#ifndef TRITON_XE_{prefix}_H
#define TRITON_XE_{prefix}_H

#include <level_zero/ze_api.h>
#include <stdint.h>

#define {prefix}_NAME "{d.kernel}"
#define {prefix}_BINARY "{d.binary}"
#define {prefix}_FORMAT {form}
#define {prefix}_BUILD_FLAGS "{'' if d.kind == 'zebin' else d.build_flags}"
#define {prefix}_GROUP_X {x}
#define {prefix}_GROUP_Y {y}
#define {prefix}_GROUP_Z {z}
#define {prefix}_SLM_BYTES {d.slm_bytes}

/* Launch `grid` programs of `kernel`, made from the module with the name above. */
static inline ze_result_t {c_name(d.kernel)}_launch(
    ze_command_list_handle_t list, ze_kernel_handle_t kernel, ze_group_count_t grid{arguments})
{{
    ze_result_t status = zeKernelSetGroupSize(kernel, {x}, {y}, {z});
{sets}    if (status != ZE_RESULT_SUCCESS)
        return status;
    return zeCommandListAppendLaunchKernel(list, kernel, &grid, NULL, 0, NULL);
}}

#endif
"""


def _parameters(
    kernel: str, types: Mapping[str, Any], attributes: Mapping[tuple[int], Any],
    native: tuple[str, ...],
) -> tuple[Parameter, ...]:
    """The kernel's parameters, with their types for Triton and in native code."""
    left = [
        (position, name, kind)
        for position, (name, kind) in enumerate(types.items()) if kind != "constexpr"
    ]
    if len(left) != len(native):
        raise UnsupportedError(
            f"kernel {kernel!r} has {len(native)} parameters, but its signature gives {len(left)}: "
            "tuples and tensor descriptors are not supported ahead of time; pass pointers and sizes"
        )
    return tuple(
        Parameter(
            name, "bf16" if triton == "bf16" else kind, str(triton),
            int(dict(attributes.get((position,), ())).get("tt.divisibility", 1)),
        )
        for (position, name, triton), kind in zip(left, native, strict=True)
    )


def _check_launches(metadata: Any, name: str) -> None:
    """Refuse kernels that only Triton's launcher can launch."""
    if getattr(metadata, "launch_conditions", ""):
        raise UnsupportedError(
            f"kernel {name!r} leaves launches that do not satisfy its conditions to another module;"
            " compile it with guards='kernel'"
        )
    scratch = (getattr(metadata, f"{kind}_scratch_size", 0) for kind in ("global", "profile"))
    if any(scratch) or getattr(metadata, "debug_sites", None):
        raise UnsupportedError(
            f"kernel {name!r} needs memory that only Triton's launcher allocates (scratch, "
            "device_print or device_assert); it cannot be compiled ahead of time"
        )


def c_name(name: str) -> str:
    return re.sub(r"\W", "_", name)
