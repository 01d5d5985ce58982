"""What object files say of themselves, as LLVM's own reader does."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from triton_xe.runtime.simulator.run import elf, jit

TEXT = """@room = internal global [1000 x double] zeroinitializer
@table = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
declare double @cos(double)
declare i32 @xe.other(i32)
define double @f(i64 %i, double %x) {
  %at = getelementptr [1000 x double], ptr @room, i64 0, i64 %i
  %y = load double, ptr %at
  %z = call double @cos(double %y)
  store double %z, ptr %at
  %n = getelementptr [4 x i32], ptr @table, i64 0, i64 %i
  %k = load i32, ptr %n
  %c = call i32 @xe.other(i32 %k)
  %d = sitofp i32 %c to double
  ret double %d
}
"""


@pytest.fixture
def data() -> bytes:
    made = jit.compiled(TEXT, "library")
    if not made.startswith(b"\x7fELF"):
        pytest.skip("this host's objects are not ELF")
    return made


def test_names_that_an_object_does_not_define(data: bytes) -> None:
    assert sorted(elf.undefined_names(data)) == ["cos", "xe.other"]


def test_memory_holds_every_section_that_is_loaded(data: bytes) -> None:
    sections = llvm.object_file.ObjectFileRef.from_data(data).sections()
    kinds = b".text", b".data", b".bss", b".rodata", b".eh_frame"
    loaded = [s.size() for s in sections if (s.name() or b"").startswith(kinds)]
    assert sum(loaded) > 8000
    assert elf.bytes_in_memory(data) >= sum(loaded) + 4096 * len(loaded)


def test_other_formats_tell_nothing() -> None:
    assert elf.undefined_names(b"\xcf\xfa\xed\xfe" + bytes(100)) == []
    assert elf.bytes_in_memory(bytes(104)) >= 104
