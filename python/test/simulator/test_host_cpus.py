"""The simulator on other CPUs than this one: x86-64 without AVX-512, and arm64.

Code for a lesser x86-64 runs here; code for arm64 is compiled only.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.host_loops import loop_over
from python.test.simulator import host_kernels
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime import native
from triton_xe.runtime.simulator.host_kernel import Form, HostKernel
from triton_xe.runtime.simulator.library import sources
from triton_xe.runtime.simulator.library.half import NAMED_BY_LLVM
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.pieces import once_per_shape
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.rewrites.lsc import plain_accesses
from triton_xe.runtime.simulator.run import elf, jit
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, generate_for, host_cpu, in_libmvec
from triton_xe.runtime.simulator.run.kernel_module import canonical
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import BIND, ELEMENTS, MISS, NOTE, ROOM
from triton_xe.runtime.versions import entry_name
from triton_xe.spirv import attached_llvm_ir

needs_avx2 = pytest.mark.skipif(
    platform.machine() != "x86_64" or not host_cpu().has("avx2"), reason="needs a CPU with AVX2"
)


# --- x86-64 without AVX-512 -----------------------------------------------------------------------


@needs_avx2
@pytest.mark.rest
def test_a_host_with_avx2_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels check their results; sums of products have the same bits on all hosts."""
    monkeypatch.setenv("TRITON_XE_DEVICE", "sim:bmg")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def run(level: str, *groups: str) -> tuple[str, dict[str, Any]]:
        monkeypatch.setenv("TRITON_XE_HOST_CPU", level)
        monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / f"cache{level}"))
        path = tmp_path / f"results{level}.npz"
        command = [sys.executable, host_kernels.__file__, str(path), *groups]
        made = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert made.returncode == 0, made.stderr
        return made.stdout, dict(np.load(path))

    said, theirs = run("x86-64-v3", "matrices", "rows", "rounded", "reports")
    count, _, rest = said.partition(" ")
    assert int(count) > 20
    assert rest == "objects, AVX-512: none\n"
    assert {"fp16", "rows", "half"} <= theirs.keys()
    assert ("wild" in theirs) == (native.threads is not None)
    _, ours = run("", "matrices")
    for name, values in ours.items():
        np.testing.assert_array_equal(theirs[name].view(np.int32), values.view(np.int32))


def test_no_vector_function_is_less_accurate_than_opencl_allows() -> None:
    haswell = HostCpu("x86_64-unknown-linux-gnu", "haswell", "+avx2,-avx512f")
    text = sources.source(symbol("math", "cbrt", "f32", 16), haswell).text
    assert "@cbrtf(" in text
    assert "_ZGV" not in text


@pytest.mark.parametrize("form", [
    "xe.dpas.f32.float.8.16.16.2", "xe.dpas.f32.float.6.16.16.2.2",
    "xe.dpas.f32.half.8.16.16.1"])
def test_sums_of_dpas_stay_in_registers_without_avx512(form: str) -> None:
    llvm.initialize_all_asmprinters()
    haswell = HostCpu("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,-avx512f")
    machine = llvm.Target.from_triple(haswell.triple).create_target_machine(
        cpu=haswell.name, features=haswell.features, opt=2)
    module = llvm.parse_assembly(sources.source(form, haswell).text)
    jit.lower(module, machine)
    text = machine.emit_assembly(module)
    assert "vfmadd" in text
    assert not re.search(r"vmov[au]p?[sd]?\S* .*\(%rsp\)|\(%rsp\), %ymm", text)


@pytest.mark.parametrize("form", [
    "xe.dpas.f32.float.8.16.16.2.4", "xe.dpas.i16.i32.8.32.16.2"])
def test_products_with_avx512_take_operand_a_from_memory(form: str) -> None:
    """But for the first ones, whose sum comes from there; no index."""
    llvm.initialize_all_asmprinters()
    host = HostCpu("x86_64-unknown-linux-gnu", "icelake-server",
                   "+avx512f,+avx512bw,+avx512vl,+avx512vnni,-prefer-256-bit,+fast-dpwssd")
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.name, features=host.features, opt=2)
    module = llvm.parse_assembly(sources.source(form, host).text)
    jit.lower(module, machine)
    text = machine.emit_assembly(module)
    assert len(re.findall(r"v(?:fmadd|pdpwssd|pmaddwd)", text)) == 2 * 16 * 8
    broadcast = r"v(?:fmadd231ps|pdpwssd)\s+-?\d*\(%\w+\)\{1to16\}"
    assert len(re.findall(broadcast, text)) >= 2 * 16 * 8 - 8
    assert len(re.findall(r"v(?:broadcastss|pbroadcastd)", text)) <= 8
    assert not re.search(r"\(%rsp\), %zmm|%zmm\d+, \S*\(%rsp\)", text)


def test_vectors_that_do_not_fit_into_registers_are_on_lines_of_their_own(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word on the stack's alignment each access of one takes two cache lines."""
    llvm.initialize_all_asmprinters()
    host = HostCpu("x86_64-unknown-linux-gnu", "icelake-server",
                   "+avx512f,+avx512bw,+avx512vl,+avx512dq,-prefer-256-bit")
    monkeypatch.setattr(once_per_shape, "LARGE", 1 << 60)
    with generate_for(host):
        text = host_of("rows", BLOCK=1 << 13).text
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.name, features=host.features, opt=2)
    made = llvm.parse_assembly(text)
    jit.shorten(made, machine)
    on_stack = re.findall(r"vmov(\w*)\s+(?:%zmm\d+, \S*\(%rsp\)|\S*\(%rsp\), %zmm\d+)",
                          machine.emit_assembly(made))
    assert len(on_stack) > 40
    assert not [kind for kind in on_stack if "u" in kind]


# --- what LLVM calls by itself --------------------------------------------------------------------


def converted(name: str, source: str, result: str, values: Any, dtype: Any) -> Any:
    """`values` through a library function, loaded under a name that nothing else has."""
    own = f"tested{name}"
    text = sources.source(name, host_cpu()).text.replace(f"@{name}(", f"@{own}(")
    text += loop_over(source, result, f"call {result} @{own}({source} %x)")
    code = jit.NativeCode(jit.compile_object(text, "library"))
    out = np.zeros(values.size, dtype)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(code.address("all"))(values.ctypes.data, out.ctypes.data, values.size)
    return out


def around_halves(dtype: Any, step: float) -> Any:
    """All fp16 numbers, what lies in the middle between two, and the next to both."""
    exact = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(dtype)
    middle = np.append((exact[1:] + exact[:-1]) / 2, dtype(65520))
    places = np.concatenate([exact, middle])
    values = np.concatenate([places * dtype(f) for f in (1 - step, 1, 1 + step)])
    special = np.array([np.inf, np.nan, 1e30, 1e-30, 65519.996, 2.0**-25, 2.0**-26], dtype)
    values = np.concatenate([values, special])
    return np.concatenate([values, -values])


@pytest.mark.parametrize(
    ("name", "source", "dtype", "step"),
    [("__truncsfhf2", "float", np.float32, 2.0**-23),
     ("__truncdfhf2", "double", np.float64, 2.0**-52),
     ("__truncdfhf2", "double", np.float64, 2.0**-30)],
)
def test_conversions_to_half_round_once(name: str, source: str, dtype: Any, step: float) -> None:
    values = around_halves(dtype, step)
    got = converted(name, source, "half", values, np.float16)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, values.astype(np.float16))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


def test_conversion_from_half_is_exact() -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    values = bits.view(np.float16)
    got = converted("__extendhfsf2", "half", "float", values, np.float32)
    np.testing.assert_array_equal(got, values.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


def test_vector_functions_of_kept_code_are_found() -> None:
    """In a process that made no text of them, and so has not asked for their library yet."""
    if not in_libmvec("_ZGVdN8v_expf"):
        pytest.skip("no vector library")
    program = ("from triton_xe.runtime.simulator.run import jit\n"
               "jit.provide(['_ZGVdN8v_expf'])\n"
               "print(bool(jit.llvm.address_of_symbol('_ZGVdN8v_expf')))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_code_that_needs_a_missing_function_is_refused() -> None:
    text = "declare void @nobody_has_this()\ndefine void @f() {\n" \
           "  call void @nobody_has_this()\n  ret void\n}"
    with pytest.raises(DeviceError, match="calls nobody_has_this, which this process does not"):
        jit.NativeCode(jit.compile_object(text, "library"))


# --- arm64 ----------------------------------------------------------------------------------------

ARM = HostCpu("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8")
Compile = Callable[[str], list[str]]


@pytest.fixture
def for_arm() -> Iterator[Compile]:
    """Compiles a host module for arm64; returns the names that it leaves undefined."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()

    def undefined(text: str) -> list[str]:
        assert "llvm.x86" not in text
        assert "_ZGV" not in text
        data = jit.compiled(text, "library")
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == 183  # EM_AARCH64
        return elf.undefined_names(data)

    with generate_for(ARM):
        yield undefined


def is_there(name: str) -> bool:
    """Whether a process has the function: from its C library, or from Python (`shadow`)."""
    libraries = ctypes.CDLL(None), ctypes.CDLL("libm.so.6")
    ours = tuple(host.symbol for host in (BIND, ELEMENTS, MISS, NOTE, ROOM))
    return name in ours or any(hasattr(library, name) for library in libraries)


def compile_all(texts: list[str], names: set[str], compiler: Compile) -> set[str]:
    """Compile host modules and all library functions that they need; the names of those."""
    for text in texts:
        names |= {n for n in compiler(text) if not is_there(n)}
    done: set[str] = set()
    while names - done:
        name = (names - done).pop()
        done.add(name)
        made = sources.source(name, ARM)
        names |= {*made.helpers, *(n for n in compiler(made.text) if not is_there(n))}
    return done


MATMUL = {"M": "i32", "N": "i32", "K": "i32"}
KERNELS = {
    "fp16": (host_kernels.matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32", **MATMUL},
             {"BLOCK": 32, "STEP": 32, "KIND": triton.language.float32}),
    "int8": (host_kernels.matmul, {"a": "*i8", "b": "*i8", "c": "*i32", **MATMUL},
             {"BLOCK": 32, "STEP": 32, "KIND": triton.language.int32}),
    "rows": (host_kernels.normalise, {"x": "*fp32", "y": "*fp32", "columns": "i32"},
             {"BLOCK": 512}),
    "maths": (host_kernels.functions, {"x": "*fp32", "out": "*fp32"}, {"SIZE": 256}),
    "casts": (host_kernels.casts,
              {"x": "*fp32", "d": "*fp64", "half": "*fp16", "brain": "*bf16", "back": "*fp32"},
              {"SIZE": 256}),
    "atomics": (host_kernels.count, {"x": "*i32", "bins": "*i32", "total": "*fp32",
                                     "highest": "*i32"}, {"SIZE": 256}),
}


def host_of(name: str, *, plan: Instrumentation | None = None, **others: int) -> HostKernel:
    """What translates one of the kernels, perhaps with other constants."""
    kernel, types, constants = KERNELS[name]
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(kernel, signature, {**constants, **others})
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16))
    module = plain_accesses(parse_module(canonical(attached_llvm_ir(made.asm["spv"]))),
                            target("bmg"))
    entry = entry_name(made.asm["spv"], made.name)
    return translate(module, entry, target("bmg"), Form(plan=plan))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "checked"),
                         [*itertools.product(KERNELS, [False]),
                          pytest.param("rows", True, marks=pytest.mark.slow)])
def test_kernels_compile_for_arm64(for_arm: Compile, name: str, checked: bool) -> None:
    host = host_of(name, plan=Instrumentation() if checked else None)
    runner = symbol("run", "barrier" if host.has_barrier else "plain")
    names = {*host.helpers, runner + "_checked" * checked}
    done = compile_all([host.text], names, for_arm)
    assert done >= names
    assert not done & set(NAMED_BY_LLVM)
