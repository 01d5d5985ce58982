"""A wild access of a simulated kernel becomes an error, not the end of the process.

Each run of work-groups is entered through `xe_guarded_<key>`, which notes in thread storage where
to jump back to.  The handler of SIGSEGV and SIGBUS jumps there when the faulting thread is inside a
kernel; any other fault goes to the handler that was there before.  Layout of `struct sigaction`
and offset of `si_addr`: glibc on x86-64 and arm64 (the same on both).
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

import llvmlite.binding as llvm

from triton_xe.runtime.simulator.run import jit

FAULT = 21
"""Error code; the record's third word is the address."""
_SIGNALS = {"SIGBUS": 7, "SIGSEGV": 11}
_FLAGS = 0x4 | 0x0800_0000 | 0x4000_0000  # SA_SIGINFO | SA_ONSTACK | SA_NODEFER

_TEXT = """
@before = internal global [2 x [160 x i8]] zeroinitializer, align 16
define void @xe_fault(i32 %signal, ptr %info, ptr %context) nounwind {{
entry:
  %there = call ptr @pthread_getspecific(i32 {key})
  %mine = icmp ne ptr %there, null
  br i1 %mine, label %jump, label %pass
jump:
  %at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %at
  %note = getelementptr i8, ptr %there, i64 512
  store i64 %address, ptr %note
  call void @siglongjmp(ptr %there, i32 1)
  unreachable
pass:
  %bus = icmp eq i32 %signal, 7
  %k = select i1 %bus, i64 0, i64 1
  %old = getelementptr [160 x i8], ptr @before, i64 %k
  %r = call i32 @sigaction(i32 %signal, ptr %old, ptr null)
  ret void
}}
define void @xe_fault_install() nounwind {{
entry:
  %new = alloca [160 x i8], align 16
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 160, i1 false)
  store ptr @xe_fault, ptr %new
  %flags = getelementptr i8, ptr %new, i64 136
  store i32 {flags}, ptr %flags
  %second = getelementptr [160 x i8], ptr @before, i64 1
  %r0 = call i32 @sigaction(i32 7, ptr %new, ptr @before)
  %r1 = call i32 @sigaction(i32 11, ptr %new, ptr %second)
  ret void
}}
define void @xe_guarded(ptr %run, ptr %kernel, ptr %launch, ptr %slm) nounwind {{
entry:
  %there = alloca [576 x i8], align 64
  %outer = call ptr @pthread_getspecific(i32 {key})
  %s = call i32 @pthread_setspecific(i32 {key}, ptr %there)
  %again = call i32 @__sigsetjmp(ptr %there, i32 1) returns_twice
  %fresh = icmp eq i32 %again, 0
  br i1 %fresh, label %go, label %fault
go:
  call void %run(ptr %kernel, ptr %launch, ptr %slm)
  br label %done
fault:
  %error.at = getelementptr i64, ptr %launch, i64 8
  %error = load ptr, ptr %error.at
  %note = getelementptr i8, ptr %there, i64 512
  %address = load volatile i64, ptr %note
  %pair = cmpxchg ptr %error, i64 0, i64 {code} seq_cst seq_cst
  %first = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %first, label %tell, label %done
tell:
  %word = getelementptr i64, ptr %error, i64 2
  store i64 %address, ptr %word
  br label %done
done:
  %t = call i32 @pthread_setspecific(i32 {key}, ptr %outer)
  ret void
}}
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @__sigsetjmp(ptr, i32) returns_twice
declare void @siglongjmp(ptr, i32) noreturn
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
_loaded: list[jit.NativeCode] = []


def module_text(key: int) -> str:
    """The functions above, with the key of the thread storage they use."""
    return _TEXT.format(key=key, flags=_FLAGS, code=FAULT)


@cache
def guard_address() -> int | None:
    """Runs `(runner, kernel, launch, slm)` under guard; None where faults cannot be caught."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return None
    library = ctypes.CDLL(None)
    if any(not hasattr(library, n) for n in ("__sigsetjmp", "siglongjmp", "pthread_key_create")):
        return None
    key = ctypes.c_uint()
    if library.pthread_key_create(ctypes.byref(key), None):
        return None
    for name in ("__sigsetjmp", "siglongjmp", "sigaction", "pthread_getspecific",
                 "pthread_setspecific"):
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    code = jit.NativeCode(jit.compile_object(module_text(key.value), "library"))
    _loaded.append(code)
    ctypes.CFUNCTYPE(None)(code.address("xe_fault_install"))()
    return code.address("xe_guarded")


__all__ = ["FAULT", "guard_address"]
