"""The functions for atomics of single lanes, which LLVM verifies and writes to SPIR-V."""

import pytest

from python.test.filecheck import check_text
from python.test.lowering.emit.writing import begin, state_of
from triton_xe.llvm import Module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit import lane_atomics
from triton_xe.lowering.emit.lane_atomics import COMBINE, NATIVE
from triton_xe.lowering.emit.types import FLOAT, HALF, I1, I8, I16, I32, I64, POINTER
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.spirv.emit_spirv import emit_spirv

OF_FLOATS = {"fadd", "fmul", "exch", "maximumf", "minimumf", "maxnumf", "minnumf"}
OF_INTEGERS = set(COMBINE) - OF_FLOATS | {"exch"}
CASES = [(kind, held, False) for held in (I8, I16, I32, I64) for kind in sorted(OF_INTEGERS)]
CASES += [(kind, held, False) for held in (HALF, FLOAT) for kind in sorted(OF_FLOATS)]
CASES += [(kind, I16, True) for kind in ("fadd", "exch")]


def written(kind, held, bf16, scope="gpu", address=I64):
    """The text of a module that has the function, written to SPIR-V."""
    module = Module()
    caller, _ = begin(address, held, I1, result=held, module=module, is_kernel=False)
    w = Writer(state_of(module), caller, caller.blocks[0])
    w.b.ret(lane_atomics.rmw(w, kind, *caller.arguments, scope, bf16=bf16))
    text = print_kernels(module)
    assert emit_spirv(text)
    return text


@pytest.mark.parametrize(("kind", "held", "bf16"), CASES, ids=str)
def test_every_kind_of_every_type(kind, held, bf16):
    text = written(kind, held, bf16)
    native = kind in NATIVE and (held in (I32, I64, FLOAT))
    used, other = ("atomicrmw", "cmpxchg") if native else ("cmpxchg", "atomicrmw")
    check_text(text, f"""
        CHECK-NOT: {other}
        CHECK: {used} {{{{.*}}}}syncscope("device") monotonic
        CHECK-NOT: {other}
        """)


def test_an_address_may_be_a_pointer():
    check_text(written("add", I32, False, scope="", address=POINTER), """
        CHECK-NOT: syncscope
        CHECK: define {{.*}}@__xe_lane_atomic_add_i32_p1(ptr addrspace(1)
        CHECK-NOT: syncscope
        """)


def test_a_sum_of_bf16_keeps_the_sign_of_nan():
    """Rounded as everywhere else: a quiet bit is set, and nothing is replaced."""
    check_text(written("fadd", I16, True), """
        CHECK-NOT: 32704
        CHECK: 4194304
        CHECK-NOT: 32704
        """)
