"""Write a bundle: the folders of its variants, `bundle.json`, and a C header that chooses one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_xe.hardware.target import releases_of
from triton_xe.runtime.bundle import BUNDLE, INTEGER_BITS, Bundle, specialness
from triton_xe.runtime.folder import Description, Parameter
from triton_xe.tools.aot import C_TYPES, c_name

Variants = dict[str, Description]
"""Descriptions by the names of their folders, in the order in which they are tried."""


def write_bundle(folder: Path, arguments: Sequence[str], written: Variants) -> list[Path]:
    """Write the files that choose between existing folders; `arguments` are the kernel's."""
    variants = dict(sorted(written.items(), key=lambda item: -specialness(item[1])))
    kernel = next(iter(variants.values())).kernel
    header = folder / f"{kernel}.h"
    (folder / BUNDLE).write_text(Bundle(kernel, tuple(arguments), tuple(variants)).to_json())
    header.write_text(c_header(kernel, arguments, variants))
    return [folder / BUNDLE, header]


def c_header(kernel: str, arguments: Sequence[str], variants: Variants) -> str:
    """Types of the arguments, a table of the variants, and functions that choose and launch."""
    name, prefix = c_name(kernel), c_name(kernel).upper()
    every = list(variants.values())
    fields = [line for argument in arguments for line in _fields(argument, every)]
    integers = [argument for argument in arguments if _integers(argument, every)]
    table = "".join(f"    {_row(folder, each, integers)},\n" for folder, each in variants.items())
    cases = "".join(
        f"    case {number}:\n{_tests(each, every)}        return NULL;\n"
        for number, each in enumerate(every)
    )
    launches = "".join(
        f"    case {number}:\n{_sets(each, every)}        break;\n"
        for number, each in enumerate(every)
    )
    members = "".join(f"    {line};\n" for line in fields or ["char nothing"])
    constants = "".join(f"    int64_t {c_name(each)};\n" for each in integers)
    return f"""/* Kernel {kernel}: {len(every)} variants, the most special first.
 * f16 and bf16 arguments are passed as their bits.
 */
#ifndef TRITON_XE_{prefix}_H
#define TRITON_XE_{prefix}_H

#include <level_zero/ze_api.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What a launch is given; a type is spelled as in a signature, "*fp16", or NULL for any. */
typedef struct {{
{members}}} {name}_arguments;

/* Files are relative to this header's folder; of constants that differ, those that are integers. */
typedef struct {{
    const char *target, *binary, *name, *build_flags;
    ze_module_format_t format;
    uint32_t group[3], slm_bytes;
{constants}}} {name}_variant;

#define {prefix}_VARIANTS {len(every)}
static const {name}_variant {name}_variants[{prefix}_VARIANTS] = {{
{table}}};

/* The IP version of a device, as `{name}_choose` takes it; 0 where the driver does not say. */
static inline uint32_t {name}_ip_version(ze_device_handle_t device)
{{
    ze_device_ip_version_ext_t ip = {{ZE_STRUCTURE_TYPE_DEVICE_IP_VERSION_EXT}};
    ze_device_properties_t properties = {{ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES}};
    properties.pNext = &ip;
    return zeDeviceGetProperties(device, &properties) == ZE_RESULT_SUCCESS ? ip.ipVersion : 0;
}}

/* Why a variant cannot be launched on such a device with these arguments; NULL where it can. */
static inline const char *{name}_refusal(
    int variant, uint32_t ip_version, const {name}_arguments *given)
{{
    uint32_t release = ip_version >> 14;
    (void)given;
    switch (variant) {{
{cases}    }}
    return "there is no such variant";
}}

/* The first variant that can be launched; -1 where none can, and `{name}_refusal` says why. */
static inline int {name}_choose(uint32_t ip_version, const {name}_arguments *given)
{{
    for (int variant = 0; variant < {prefix}_VARIANTS; variant++)
        if (!{name}_refusal(variant, ip_version, given))
            return variant;
    return -1;
}}

/* Launch `grid` programs of `kernel`, made from the binary of the variant. */
static inline ze_result_t {name}_launch(
    ze_command_list_handle_t list, ze_kernel_handle_t kernel, int variant, ze_group_count_t grid,
    const {name}_arguments *given)
{{
    if (variant < 0 || variant >= {prefix}_VARIANTS)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    const uint32_t *group = {name}_variants[variant].group;
    ze_result_t status = zeKernelSetGroupSize(kernel, group[0], group[1], group[2]);
    (void)given;
    switch (variant) {{
{launches}    }}
    if (status != ZE_RESULT_SUCCESS)
        return status;
    return zeCommandListAppendLaunchKernel(list, kernel, &grid, NULL, 0, NULL);
}}

#endif
"""


def _uses(argument: str, every: Sequence[Description]) -> list[Parameter]:
    """Parameters of the variants for an argument."""
    return [p for each in every for p in each.parameters if p.name == argument]


def _integers(argument: str, every: Sequence[Description]) -> bool:
    """True if the variants differ in the integer constant of an argument that none takes as
    parameter.
    """
    values = {repr(each.constants.get(argument)) for each in every}
    whole = all(type(each.constants.get(argument)) is int for each in every)
    return not _uses(argument, every) and whole and len(values) > 1


def _c_type(argument: str, every: Sequence[Description]) -> str:
    """The C type that fits the argument of every variant."""
    types = {p.type for p in _uses(argument, every)}
    wide = "i64" if types <= set(INTEGER_BITS) else "f64"
    return C_TYPES[types.pop() if len(types) == 1 else wide]


def _fields(argument: str, every: Sequence[Description]) -> Iterator[str]:
    """Declarations of an argument in the struct of arguments."""
    uses = _uses(argument, every)
    if not uses:
        if _integers(argument, every):
            yield f"int64_t {c_name(argument)} /* 0: any */"
        return
    yield f"{_c_type(argument, every)}{c_name(argument)}"
    if len({p.triton for p in uses}) > 1 and any(p.type == "ptr" for p in uses):
        yield f"const char *{c_name(argument)}_type"


def _row(folder: str, d: Description, integers: Sequence[str]) -> str:
    """Initializer of a variant in the table."""
    native = d.kind == "zebin"
    texts = [d.target, f"{folder}/{d.binary}", d.kernel, "" if native else d.build_flags]
    format_ = "ZE_MODULE_FORMAT_NATIVE" if native else "ZE_MODULE_FORMAT_IL_SPIRV"
    group = ", ".join(map(str, d.group_size))
    values = "".join(f", {d.constants[each]}" for each in integers)
    return (f"{{{', '.join(map(json.dumps, texts))}, {format_}, {{{group}}}, {d.slm_bytes}"
            f"{values}}}")


def _tests(d: Description, every: Sequence[Description]) -> str:
    """Conditions of a variant, as `if (...) return "...";`."""
    releases = " && ".join(
        f"release != ({major}u << 8 | {minor}u)" for major, minor in releases_of(d.target)
    )
    tests = [(releases or "1", f"it is for {d.target}")]
    for name, value in d.constants.items():
        field = f"given->{c_name(name)}"
        uses = _uses(name, every)
        if _integers(name, every):
            tests.append((f"{field} && {field} != {value}", f"it is for {name} = {value}"))
        elif uses and value is None:
            tests.append((field, f"it is for {name} = None"))
        elif uses and isinstance(value, int | float):
            tests.append((f"{field} != {float(value) if isinstance(value, float) else int(value)}",
                          f"it is for {name} = {value}"))
    for p in d.parameters:
        tests += _parameter_tests(p, every)
    return "".join(
        f"        if ({test})\n            return {json.dumps(reason)};\n" for test, reason in tests
    )


def _parameter_tests(p: Parameter, every: Sequence[Description]) -> Iterator[tuple[str, str]]:
    """(condition under which a variant is refused, reason) for a parameter."""
    field = f"given->{c_name(p.name)}"
    if any(line.endswith("_type") for line in _fields(p.name, every)):
        yield (f"{field}_type && strcmp({field}_type, {json.dumps(p.triton)})",
               f"it takes {p.triton} for {p.name}")
    if _c_type(p.name, every) != C_TYPES[p.type]:
        yield f"({C_TYPES[p.type]}){field} != {field}", f"{p.name} does not fit into {p.triton}"
    if p.divisible_by > 1:
        value = f"(uintptr_t){field}" if p.type == "ptr" else field
        yield f"{value} % {p.divisible_by}", f"{p.name} must be divisible by {p.divisible_by}"


def _sets(d: Description, every: Sequence[Description]) -> str:
    """`zeKernelSetArgumentValue` for each parameter."""
    lines = []
    for number, p in enumerate(d.parameters):
        name = f"arg_{number}"
        declared = "uintptr_t " if p.type == "ptr" else C_TYPES[p.type]
        lines.append(
            f"        {declared}{name} = ({declared.strip()})given->{c_name(p.name)};\n"
            "        if (status == ZE_RESULT_SUCCESS)\n            status ="
            f" zeKernelSetArgumentValue(kernel, {number}, sizeof {name}, &{name});\n"
        )
    return "".join(["    {\n", *lines, "    }\n"])


__all__ = ["write_bundle"]
