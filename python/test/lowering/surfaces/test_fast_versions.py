"""The kernels of the ledger and of the examples take their fast version, with its conditions."""

import pytest
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

from benchmarks.compile_time import OPTIONS
from benchmarks.loops import ROWS
from triton_xe.conditions import Table
from triton_xe.lowering.module_facts import launch_conditions_of

TARGET = GPUTarget("xpu", "bmg", 16)
NAMES = ("matmul example", "matmul descriptor example", "attention 64", "attention backward", "add",
         "softmax fp32", "layer norm", "gemm W8A16", "inductor pointwise", "inductor reduction")


def conditions_of(row):
    backend = make_backend(TARGET)
    options = backend.parse_options(OPTIONS | {"num_warps": row.num_warps})
    context, stages, metadata = ir.context(), {}, {}
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = row.source()
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(TARGET, options, backend.get_codegen_implementation(options),
                            backend.get_module_map(), context)
    for name, stage in stages.items():
        module = stage(module, metadata)
        if name == "xetile":
            return Table.read(launch_conditions_of(module.module))
    raise AssertionError("no stage creates tiles")


@pytest.mark.parametrize("name", NAMES)
def test_conditions_hold_for_real_arguments(name):
    row = ROWS[name]
    assert conditions_of(row).failing(row.arguments, row.grid) == ""


def test_a_matmul_has_conditions_that_may_fail():
    row = ROWS["matmul example"]
    arguments = [-64 if type(value) is int and value == 4096 else value for value in row.arguments]
    assert conditions_of(row).failing(arguments, row.grid)
