"""SPIR-V of every operation that the compiler emits, at every vector length, is valid."""

import re
from collections import Counter
from itertools import permutations

import pytest

from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.lowering.spirv.emit_spirv import emit_spirv, write_spirv
from triton_xe.spirv import instructions
from triton_xe.tools import intel

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOAT_BITS = {"half": 16, "float": 32, "double": 64}
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}
ARITHMETIC = ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr")
LOGIC = ("and", "or", "xor")
FLOAT_UNARY = ("fabs", "sqrt", "exp2", "floor", "ceil", "trunc", "rint", "roundeven")
FLOAT_BINARY = ("maxnum", "minnum", "copysign")
INTEGER_UNARY = ("ctpop", "bitreverse")
INTEGER_BINARY = ("smax", "smin", "umax", "umin")
needs_spirv_val = pytest.mark.skipif(
    intel.spirv_val_available() is not None, reason="needs spirv-val")


class Kernels:
    """Text of a module with a kernel per operation, on vectors of one length."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.texts: list[str] = []
        self.declared: set[str] = set()

    def of(self, kind: str) -> str:
        return kind if self.count == 1 else f"<{self.count} x {kind}>"

    def add(self, operation: str, result: str, *operands: str) -> None:
        """`operation` writes %r of type `result` and reads %0, %1, ... of the given types."""
        loads = [self.load(i, kind) for i, kind in enumerate(operands)]
        self.texts.append("\n".join([
            f"define spir_kernel void @k{len(self.texts)}(ptr addrspace(1) %p) {{",
            *loads, f"%r = {operation}", self.store(result), "ret void", "}",
        ]))

    def call(self, name: str, kind: str, arity: int, more: str = "") -> None:
        """An intrinsic whose operands and result have one type."""
        vector = "" if self.count == 1 else f"v{self.count}"
        name = f"@llvm.{name}.{vector}{SUFFIXES.get(kind, kind)}"
        kinds = ", ".join([self.of(kind)] * arity)
        flag = ", i1" if more else ""
        self.declared.add(f"declare {self.of(kind)} {name}({kinds}{flag})")
        values = ", ".join(f"{self.of(kind)} %a{i}" for i in range(arity))
        self.add(f"call {self.of(kind)} {name}({values}{more})", kind, *[kind] * arity)

    def load(self, index: int, kind: str) -> str:
        if kind != "i1":
            return f"%a{index} = load {self.of(kind)}, ptr addrspace(1) %p"
        zero = "0" if self.count == 1 else "zeroinitializer"
        return (f"%b{index} = load {self.of('i8')}, ptr addrspace(1) %p\n"
                f"%a{index} = icmp ne {self.of('i8')} %b{index}, {zero}")

    def store(self, kind: str) -> str:
        if kind != "i1":
            return f"store {self.of(kind)} %r, ptr addrspace(1) %p"
        return (f"%s = zext {self.of('i1')} %r to {self.of('i8')}\n"
                f"store {self.of('i8')} %s, ptr addrspace(1) %p")

    def cast(self, name: str, source: str, target: str) -> None:
        self.add(f"{name} {self.of(source)} %a0 to {self.of(target)}", target, source)

    def binary(self, name: str, kind: str, result: str | None = None) -> None:
        self.add(f"{name} {self.of(kind)} %a0, %a1", result or kind, kind, kind)

    def module(self) -> str:
        return "\n".join(['target triple = "spirv64-unknown-unknown"', *self.declared, *self.texts])


def casts(kernels: Kernels) -> None:
    for source, target in permutations(BITS, 2):
        for name in ("sext", "zext") if BITS[source] < BITS[target] else ("trunc",):
            kernels.cast(name, source, target)
    for source, target in permutations(FLOAT_BITS, 2):
        kernels.cast("fpext" if FLOAT_BITS[source] < FLOAT_BITS[target] else "fptrunc",
                     source, target)
    for whole in BITS:
        for real in FLOAT_BITS:
            for name in ("sitofp", "uitofp"):
                kernels.cast(name, whole, real)
            for name in ("fptosi", "fptoui") if whole != "i1" else ():
                kernels.cast(name, real, whole)


def operations(kernels: Kernels) -> None:
    for kind in BITS:
        for name in LOGIC if kind == "i1" else ARITHMETIC + LOGIC:
            kernels.binary(name, kind)
        for sign in ("eq", "ne", "slt", "ult", "sge", "ugt"):
            kernels.binary(f"icmp {sign}", kind, "i1")
    for kind in FLOAT_BITS:
        for name in ("fadd", "fsub", "fmul", "fdiv", "frem"):
            kernels.binary(name, kind)
        kernels.add(f"fneg {kernels.of(kind)} %a0", kind, kind)
        for sign in ("oeq", "une", "olt", "ult", "uno", "ord"):
            kernels.binary(f"fcmp {sign}", kind, "i1")
    for kind in (*BITS, *FLOAT_BITS):
        values = f"{kernels.of(kind)} %a1, {kernels.of(kind)} %a2"
        kernels.add(f"select {kernels.of('i1')} %a0, {values}", kind, "i1", kind, kind)


def intrinsics(kernels: Kernels) -> None:
    for kind in FLOAT_BITS:
        for names, arity in ((FLOAT_UNARY, 1), (FLOAT_BINARY, 2), (("fma",), 3)):
            for name in names:
                kernels.call(name, kind, arity)
    for kind in (kind for kind in BITS if kind != "i1"):
        for names, arity in ((INTEGER_UNARY, 1), (INTEGER_BINARY, 2)):
            for name in names:
                kernels.call(name, kind, arity)
        for name in ("ctlz", "cttz", "abs"):
            kernels.call(name, kind, 1, ", i1 false")


@needs_spirv_val
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 16])
def test_every_operation_is_written(count):
    kernels = Kernels(count)
    casts(kernels)
    operations(kernels)
    intrinsics(kernels)
    assert not intel.spirv_val(emit_spirv(kernels.module()))


@pytest.mark.parametrize(("kind", "operation"), [
    ("i24", "zext i24 %a to i32"),
    ("i7", "add i7 %a, 1"),
    ("<1 x i32>", "add <1 x i32> %a, %a"),
    ("bfloat", "fadd bfloat %a, %a"),
    ("bfloat", "fpext bfloat %a to float"),
    ("<16 x i1>", "bitcast <16 x i1> %a to i16"),
    ("i1", "shl i1 %a, %a"),
    ("i64", "call i64 @llvm.readcyclecounter()"),
    ("ptr", "load atomic i32, ptr %a seq_cst, align 4"),
    ("ptr", "load i1, ptr %a, align 1"),
    ("ptr", "addrspacecast ptr %a to ptr addrspace(1)"),
    ("i32", "call i64 @_Z12get_group_idj(i32 %a)"),
    ("i32", "call i32 @_Z5isnanf(float 1.0)"),
])
def test_what_has_no_form_is_refused(kind, operation):
    declared = ("declare i64 @llvm.readcyclecounter()\ndeclare i64 @_Z12get_group_idj(i32)\n"
                "declare i32 @_Z5isnanf(float)\n")
    text = (f"{declared}define spir_kernel void @f({kind} %a, ptr addrspace(1) %p) {{\n"
            f"  %r = {operation}\n  ret void\n}}\n")
    used = re.sub("ret void", "%s = freeze {} %r\n  call void @use({} %s)\n  ret void".replace(
        "{}", result_of(operation, kind)), text)
    used += f"declare void @use({result_of(operation, kind)})\n"
    with pytest.raises(UnsupportedError, match=r"SPIR-V|line \d+"):
        emit_spirv(used)


def result_of(operation, kind):
    """The type of the result of an operation."""
    words = operation.split()
    if " to " in operation:
        return operation.partition(" to ")[2]
    if words[0] in ("load", "call"):
        return (words[2] if words[1] == "atomic" else words[1]).rstrip(",")
    return kind


def test_a_refusal_names_the_place():
    text = """define spir_kernel void @f(ptr addrspace(1) %p) {
  %a = load atomic i32, ptr addrspace(1) %p seq_cst, align 4
  store i32 %a, ptr addrspace(1) %p, align 4
  ret void
}
"""
    with pytest.raises(UnsupportedError, match="line 5 of the LLVM module"):
        emit_spirv(text)
    with pytest.raises(UnsupportedError, match="@f, line 5 of its LLVM module"):
        write_spirv(text.replace("i32", "i1").replace("atomic ", "").replace(" seq_cst", ""))


def test_edited_text_is_verified():
    with pytest.raises(DeviceError, match="not valid"):
        emit_spirv("define void @f() {\n  %a = add i32 %b, 1\n  ret void\n}\n")


LOOP = """define spir_kernel void @copy(ptr addrspace(1) %a, i32 %n) {
entry:
  br label %body
after:
  ret void
body:
  %i = phi i32 [0, %entry], [%j, %body]
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %x = load float, ptr addrspace(1) %p, align 4
  %y = fadd float %x, 1.0
  store float %y, ptr addrspace(1) %p, align 4
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %body, label %last
last:
  %q = phi ptr addrspace(1) [%p, %body]
  %k = add i32 %i, 1
  %unused = mul i32 %k, 7
  store i32 %k, ptr addrspace(1) %q, align 4
  br label %after
}
"""


def counts(module):
    return Counter(opcode for opcode, _, _ in instructions(module))


@needs_spirv_val
def test_blocks_follow_those_that_dominate_them():
    assert not intel.spirv_val(write_spirv(LOOP))


def test_equal_computations_are_written_once_and_unused_ones_never():
    add, multiply = 128, 132
    found = counts(write_spirv(LOOP))
    assert (found[add], found[multiply]) == (1, 0)


def test_modules_are_equal_in_every_process():
    assert write_spirv(LOOP) == write_spirv(LOOP)


@pytest.mark.parametrize(("end", "blocks"), [
    ("ret void", 1), ("br i1 %c, label %body, label %done\ndone:\n  ret void", 3)])
def test_an_entry_block_that_only_branches_is_left_out(end, blocks):
    label = 248
    text = ("define spir_kernel void @f(ptr addrspace(1) %p, i1 %c) {\nentry:\n  br label %body\n"
            f"body:\n  store i32 1, ptr addrspace(1) %p, align 4\n  {end}\n}}\n")
    assert counts(write_spirv(text))[label] == blocks


@pytest.mark.intel_compiler
def test_long_vectors_are_joined_in_groups():
    elements = "".join(
        f"  %e{k} = load i8, ptr addrspace(1) %p, align 1\n"
        f"  %v{k + 1} = insertelement <32 x i8> {f'%v{k}' if k else 'undef'}, i8 %e{k}, i32 {k}\n"
        for k in range(32))
    text = (f"define spir_kernel void @f(ptr addrspace(1) %p) {{\n{elements}"
            "  %w = bitcast <32 x i8> %v32 to <8 x i32>\n"
            "  store <8 x i32> %w, ptr addrspace(1) %p, align 4\n  ret void\n}\n")
    construct, insert = 80, 82
    found = counts(write_spirv(text))
    assert (found[construct], found[insert]) == (9, 0)


@needs_spirv_val
@pytest.mark.parametrize(("kind", "suffix", "opcodes"), [
    ("float", "f", (265, 269, 266)), ("i32", "i", (264, 271, 268)), ("i32", "j", (264, 270, 267))])
def test_reductions_and_scans_of_opencl(kind, suffix, opcodes):
    """GroupIAdd and its kin, for each way to combine, with each group operation."""
    for combines, opcode in zip(("add", "max", "min"), opcodes, strict=True):
        for number, name in enumerate(("reduce", "scan_inclusive", "scan_exclusive")):
            name = f"sub_group_{name}_{combines}"
            symbol = f"@_Z{len(name)}{name}{suffix}"
            module = write_spirv(f"""
target triple = "spirv64-unknown-unknown"
define spir_kernel void @k(ptr addrspace(1) %p) {{
  %a = load {kind}, ptr addrspace(1) %p, align 4
  %r = call spir_func {kind} {symbol}({kind} %a)
  store {kind} %r, ptr addrspace(1) %p, align 4
  ret void
}}
declare spir_func {kind} {symbol}({kind})
""")
            assert not intel.spirv_val(module)
            assert [module[at + 16] for found, at, _ in instructions(module)
                    if found == opcode] == [number]
