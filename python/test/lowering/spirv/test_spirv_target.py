"""LLVM's SPIR-V target survives every operation that the compiler emits, at every vector length.

The target ends the process on what it does not know, so a process of its own writes the modules.
"""

import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest
from llvmlite import ir

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.source_locations import LocatedBuilder
from triton_xe.lowering.spirv import spirv_target
from triton_xe.lowering.spirv.legality import check_parsed
from triton_xe.lowering.spirv.spirv_target import verified

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOAT_BITS = {"half": 16, "float": 32, "double": 64}
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}
ARITHMETIC = ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr")
LOGIC = ("and", "or", "xor")
FLOAT_UNARY = ("fabs", "sqrt", "exp2", "floor", "ceil", "trunc", "rint", "roundeven")
FLOAT_BINARY = ("maxnum", "minnum", "copysign")
INTEGER_UNARY = ("ctpop", "bitreverse")
INTEGER_BINARY = ("smax", "smin", "umax", "umin")

WRITE = """
import sys
from triton_xe.lowering.spirv.spirv_target import verified, write
from triton_xe.spirv import ids_are_sound
print(ids_are_sound(write(verified(sys.stdin.read()))))
"""


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
        if target == "i1" and kernels.count > 1:
            continue
        for name in ("sext", "zext") if BITS[source] < BITS[target] else ("trunc",):
            kernels.cast(name, source, target)
    for source, target in permutations(FLOAT_BITS, 2):
        kernels.cast("fpext" if FLOAT_BITS[source] < FLOAT_BITS[target] else "fptrunc",
                     source, target)
    for whole in (kind for kind in BITS if kind != "i1"):
        for real in FLOAT_BITS:
            for name in ("sitofp", "uitofp"):
                kernels.cast(name, whole, real)
            for name in ("fptosi", "fptoui"):
                kernels.cast(name, real, whole)


def operations(kernels: Kernels) -> None:
    for kind in BITS:
        for name in LOGIC if kind == "i1" else ARITHMETIC + LOGIC:
            kernels.binary(name, kind)
        signs = ("eq", "ne") if kind == "i1" else ("eq", "ne", "slt", "ult", "sge", "ugt")
        for sign in signs:
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
        for names, arity in ((INTEGER_UNARY, 1), (INTEGER_BINARY, 2), (("fshl",), 3)):
            for name in names:
                kernels.call(name, kind, arity)
        for name in ("ctlz", "cttz", "abs"):
            kernels.call(name, kind, 1, ", i1 false")


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_every_operation_is_written(count):
    kernels = Kernels(count)
    casts(kernels)
    operations(kernels)
    intrinsics(kernels)
    text = kernels.module()
    check_parsed(verified(text))
    done = subprocess.run(
        [sys.executable, "-c", WRITE], input=text, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize(("kind", "operation"), [
    ("<8 x i1>", "uitofp <8 x i1> %a to <8 x float>"),
    ("<4 x i1>", "sitofp <4 x i1> %a to <4 x double>"),
    ("<2 x i1>", "icmp slt <2 x i1> %a, %a"),
    ("<8 x i64>", "trunc <8 x i64> %a to <8 x i1>"),
    ("<2 x i32>", "trunc <2 x i32> %a to <2 x i8>\n  %s = zext <2 x i8> %r to <2 x i64>"),
    ("<2 x i8>", "sext <2 x i8> %a to <2 x i16>\n  %s = zext <2 x i16> %r to <2 x i32>"),
    ("i24", "zext i24 %a to i32"),
    ("bfloat", "fadd bfloat %a, %a"),
    ("i64", "call i64 @llvm.readcyclecounter()"),
])
def test_what_ends_the_process_is_refused(kind, operation):
    declared = "declare i64 @llvm.readcyclecounter()\n"
    text = f"{declared}define void @f({kind} %a) {{\n  %r = {operation}\n  ret void\n}}\n"
    with pytest.raises(UnsupportedError, match="cannot be written to SPIR-V"):
        check_parsed(verified(text))


PAGE = Path(__file__).parents[4] / "docs/reports/llvm-spirv-target.md"
REPRODUCERS = re.findall(r"```llvm\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", REPRODUCERS, ids=lambda text: text.partition("@")[2][:4])
def test_the_documented_texts_end_the_process_and_are_refused(text):
    with pytest.raises(UnsupportedError, match="cannot be written to SPIR-V"):
        check_parsed(verified(text))
    done = subprocess.run(
        [sys.executable, spirv_target.__file__], input=text.encode(), capture_output=True,
        check=False,
    )
    assert done.returncode, "LLVM has learned this"
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("count", [2, 4, 8])
def test_casts_of_vectors_are_written_so_that_llvm_survives(count):
    """Every chain of three casts of integers, by the emitter's builder."""
    module = ir.Module()
    module.triple = "spirv64-unknown-unknown"
    pointer = ir.PointerType(addrspace=1)
    kinds = [ir.VectorType(ir.IntType(BITS[kind]), count) for kind in BITS if kind != "i1"]
    for number, start in enumerate(kinds):
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), f"k{number}")
        builder = LocatedBuilder(function.append_basic_block())
        values = [builder.load(function.args[0], typ=start)]
        for _ in range(3):
            values = [made for value in values for made in all_resized(builder, value, count)]
        for value in values:
            if value.type.element.width == 1:
                value = builder.zext(value, kinds[0])
            builder.store(value, function.args[1])
        builder.ret_void()
    done = subprocess.run(
        [sys.executable, "-c", WRITE], input=str(module), capture_output=True, text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def all_resized(builder, value, count):
    """The vector cast to integers of every other width."""
    width = value.type.element.width
    for bits in set(BITS.values()) - {width}:
        into = ir.VectorType(ir.IntType(bits), count)
        yield from ([builder.trunc(value, into)] if bits < width
                    else [builder.sext(value, into), builder.zext(value, into)])
