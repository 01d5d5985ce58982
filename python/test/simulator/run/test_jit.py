"""How host modules are compiled."""

from __future__ import annotations

import ctypes

import pytest

from python.test.counting import watched
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, generate_for, host_cpu


def test_code_is_loaded_without_compiling_anything() -> None:
    """An empty module costs a millisecond: all passes are made ready for it."""
    code = jit.NativeCode(jit.compiled("define void @nothing() {\n  ret void\n}\n", "library"))
    assert not code.engine._modules


def test_the_first_kernel_is_loaded_with_what_runs_it() -> None:
    runner = symbol("run", "plain")
    jit.loaded_code.pop(runner, None)
    with watched(jit.NativeCode.__init__) as calls:
        for count in (1, 2):
            text = f"define i32 @number() {{\n  ret i32 {count}\n}}\n"
            code = jit.load_kernel(text, (), "kernel", runner)
            assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("number"))() == count
            first = calls[0].arguments["self"]
            assert jit.helper_address(runner) == first.address(runner)
            assert len(calls) == count


def _without_avx512() -> HostCpu:
    real = host_cpu()
    features = real.features.replace("+avx512", "-avx512")
    return HostCpu(real.triple, "haswell", features)


HOSTS = [
    host_cpu(),
    pytest.param(_without_avx512(), marks=pytest.mark.skipif(
        not host_cpu().has("avx2"), reason="needs a CPU with AVX2")),
]


@pytest.mark.parametrize("host", HOSTS, ids=["this", "haswell"])
@pytest.mark.parametrize(("count", "taken"), [
    (1, 0), (2, 0), (2, 1), (4, 0), (7, 2), (8, 3), (13, 9), (16, 0), (16, 12)])
def test_a_flag_does_not_depend_on_others_in_its_byte(
    host: HostCpu, count: int, taken: int
) -> None:
    text = f"""
define void @f(ptr %from, ptr %to) {{
  %m = load <{count} x i1>, ptr %from
  %s = shufflevector <{count} x i1> %m, <{count} x i1> poison, <2 x i32> splat (i32 {taken})
  call void @llvm.masked.store.v2i8.p0(<2 x i8> splat (i8 7), ptr align 1 %to, <2 x i1> %s)
  ret void
}}
declare void @llvm.masked.store.v2i8.p0(<2 x i8>, ptr, <2 x i1>)
"""
    with generate_for(host):
        code = jit.NativeCode(jit.compiled(text, "kernel"))
    call = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(code.address("f"))
    for bits in range(256):
        to = ctypes.create_string_buffer(2)
        call(bytes([bits] * 2), ctypes.cast(to, ctypes.c_char_p))
        assert to.raw == bytes([7 * (bits >> taken % 8 & 1)] * 2)


def test_loads_of_whole_bytes_stay() -> None:
    text = ("  %a = load <16 x i1>, ptr %p, align 2\n  %b = load i32, ptr %p, align 4\n"
            "  %c = load <2 x i8>, ptr %p, align 1\n"
            "  %index = load i3, ptr %index.addr, align 1\n")
    assert jit.load_whole_bytes(text) is text


def test_loads_of_bits_read_their_bytes() -> None:
    assert jit.load_whole_bytes("  %0 = load <9 x i1>, ptr %p, align 4\n") == (
        '  %"0.bytes" = load i16, ptr %p, align 4\n'
        '  %"0.bits" = trunc i16 %"0.bytes" to i9\n'
        '  %0 = bitcast i9 %"0.bits" to <9 x i1>\n')
