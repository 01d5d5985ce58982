"""Rules of simplify-llvm, and narrow-vectors: the code that they write, which computes the same."""

import numpy as np
import pytest

from python.test.filecheck import check_text
from python.test.lowering.emit.writing import begin, state_of
from triton_xe import llvm as ir
from triton_xe.llvm import I1, I32, I64, PTR, Module
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.simplify.narrow import narrow_vectors
from triton_xe.lowering.emit.simplify.simplify_llvm import simplify_llvm
from triton_xe.lowering.emit.values import elements_of

HEAD = """
define spir_kernel void @f(ptr %p, i32 %a, i32 %b, i1 %c) {
entry:
  %a.1 = insertelement <4 x i32> undef, i32 %a, i32 0
  %a4 = shufflevector <4 x i32> %a.1, <4 x i32> %a.1, <4 x i32> zeroinitializer
  %b.1 = insertelement <4 x i32> undef, i32 %b, i32 0
  %b4 = shufflevector <4 x i32> %b.1, <4 x i32> %b.1, <4 x i32> zeroinitializer
  %c.1 = insertelement <4 x i1> undef, i1 %c, i32 0
  %c4 = shufflevector <4 x i1> %c.1, <4 x i1> %c.1, <4 x i32> zeroinitializer
  %x = add <4 x i32> %a4, <i32 0, i32 1, i32 2, i32 3>
"""
STRAIGHT = {
    "scalars are added first": ("""
        %y = add <4 x i32> %x, %b4
        store <4 x i32> %y, ptr %p
    """, """
        CHECK: %[[S:s[0-9]+]] = add i32 %a, %b
        CHECK: insertelement <4 x i32> undef, i32 %[[S]], i32 0
        CHECK: %y = add <4 x i32> %s{{[0-9]+}}, <i32 0, i32 1, i32 2, i32 3>
    """),
    "a known factor multiplies the scalar and the numbers": ("""
        %y = mul <4 x i32> %x, splat (i32 -3)
        store <4 x i32> %y, ptr %p
    """, """
        CHECK: mul i32 %a, -3
        CHECK: %y = add <4 x i32> %s{{[0-9]+}}, <i32 0, i32 -3, i32 -6, i32 -9>
    """),
    "sums of a scalar and numbers that are all negative may wrap around": ("""
        %n = add nsw <4 x i32> %a4, <i32 -4, i32 -3, i32 -2, i32 -1>
        %y = add nsw <4 x i32> %n, %b4
        store <4 x i32> %y, ptr %p
    """, """
        CHECK: add i32 %a, %b
        CHECK: %y = add <4 x i32> %s{{[0-9]+}}, <i32 -4, i32 -3, i32 -2, i32 -1>
    """),
    "sums of a scalar and numbers that are all positive may wrap around": ("""
        %n = add nsw <4 x i32> %a4, <i32 16, i32 17, i32 18, i32 19>
        %y = add nsw <4 x i32> %n, %b4
        store <4 x i32> %y, ptr %p
    """, """
        CHECK: add i32 %a, %b
        CHECK: %y = add <4 x i32> %s{{[0-9]+}}, <i32 16, i32 17, i32 18, i32 19>
    """),
    "sums of a later register are exact if the first one's are": ("""
        %m = add nsw <4 x i32> %a4, <i32 0, i32 1, i32 2, i32 3>
        %x1 = add nsw <4 x i32> %m, %b4
        %n = add nsw <4 x i32> %a4, <i32 16, i32 17, i32 18, i32 19>
        %y = add nsw <4 x i32> %n, %b4
        store <4 x i32> %x1, ptr %p
        store <4 x i32> %y, ptr %p
    """, """
        CHECK: add nsw i32 %a, %b
        CHECK: %y = add nsw <4 x i32> %s{{[0-9]+}}, <i32 16, i32 17, i32 18, i32 19>
    """),
    "a product with another scalar stays": ("""
        %y = mul <4 x i32> %x, %b4
        store <4 x i32> %y, ptr %p
    """, "CHECK: %y = mul <4 x i32> %x, %b4"),
    "multiples are sums": ("""
        %w = zext nneg <4 x i32> %x to <4 x i64>
        %k = sext i32 %b to i64
        %k.1 = insertelement <4 x i64> undef, i64 %k, i32 0
        %k4 = shufflevector <4 x i64> %k.1, <4 x i64> %k.1, <4 x i32> zeroinitializer
        %y = mul <4 x i64> %w, %k4
        store <4 x i64> %y, ptr %p
    """, """
        CHECK: %[[A:s[0-9]+]] = sext i32 %a to i64
        CHECK: %[[F:s[0-9]+]] = mul i64 %[[A]], %k
        CHECK: add i64 %[[F]]
        CHECK-NOT: mul
    """),
    "sums that may wrap around are multiplied each": ("""
        %w = sext <4 x i32> %x to <4 x i64>
        %k = sext i32 %b to i64
        %k.1 = insertelement <4 x i64> undef, i64 %k, i32 0
        %k4 = shufflevector <4 x i64> %k.1, <4 x i64> %k.1, <4 x i32> zeroinitializer
        %y = mul <4 x i64> %w, %k4
        store <4 x i64> %y, ptr %p
    """, "CHECK: %y = mul <4 x i64> %w, %k4"),
    "a limit takes another condition": ("""
        %m = icmp slt <4 x i32> %x, %b4
        %y = and <4 x i1> %m, %c4
        store <4 x i1> %y, ptr %p
    """, """
        CHECK: %[[L:s[0-9]+]] = select i1 %c, i32 %b, i32 -2147483648
        CHECK: insertelement <4 x i32> undef, i32 %[[L]], i32 0
        CHECK: %y = icmp slt <4 x i32> %x, %s
        CHECK-NOT: and
    """),
    "a comparison without which a result is undefined stays": ("""
        %m = icmp ult <4 x i32> %x, %b4, !xe.fits !0
        %y = and <4 x i1> %m, %c4
        store <4 x i1> %y, ptr %p
    """, "CHECK: %y = and <4 x i1> %m, %c4"),
}
LOOP = """
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%next, %loop]
  %i.1 = insertelement <4 x i32> undef, i32 %i, i32 0
  %i4 = shufflevector <4 x i32> %i.1, <4 x i32> %i.1, <4 x i32> zeroinitializer
  BODY
  store <4 x i1> %y, ptr %p
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %b
  br i1 %again, label %loop, label %after
after:
"""
IN_LOOP = {
    "equality is tested by the variant part": ("""
        %x.i = add <4 x i32> %i4, <i32 0, i32 1, i32 2, i32 3>
        %y = icmp eq <4 x i32> %x.i, %b4
    """, """
        CHECK: %[[W:s[0-9]+]] = sub <4 x i32> %b4, <i32 0, i32 1, i32 2, i32 3>
        CHECK: %y = icmp eq <4 x i32> %s{{[0-9]+}}, %[[W]]
    """),
    "a variant number is compared itself": ("""
        %y = icmp eq <4 x i32> %x, %i4
    """, "CHECK: %y = icmp eq <4 x i32> %x, %i4"),
}


NARROW = {
    "divisions": ("""
        %y = urem <4 x i32> %x, splat (i32 10)
        %e = extractelement <4 x i32> %y, i32 0
        store i32 %e, ptr %p
    """, """
        CHECK-NOT: urem <4 x i32>
        CHECK: urem i32 %{{[an][0-9]*}}, 10
    """),
    "a single element becomes a scalar": ("""
        %y = mul <4 x i32> %x, %b4
        %w = sext <4 x i32> %y to <4 x i64>
        %z = add <4 x i64> %w, splat (i64 8)
        %e = extractelement <4 x i64> %z, i32 2
        store i64 %e, ptr %p
    """, """
        CHECK: %[[X:n[0-9]+]] = add i32 %a, 2
        CHECK: %[[Y:n[0-9]+]] = mul i32 %[[X]], %b
        CHECK: %[[W:n[0-9]+]] = sext i32 %[[Y]] to i64
        CHECK: %[[Z:n[0-9]+]] = add i64 %[[W]], 8
        CHECK: store i64 %[[Z]], ptr %p
    """),
    "two elements become a shorter vector": ("""
        %y = mul <4 x i32> %x, %x
        %e = shufflevector <4 x i32> %y, <4 x i32> %y, <2 x i32> <i32 3, i32 1>
        store <2 x i32> %e, ptr %p
    """, """
        CHECK: %[[X:n[0-9]+]] = add <2 x i32> %n{{[0-9]+}}, <i32 1, i32 3>
        CHECK: %[[Y:n[0-9]+]] = mul <2 x i32> %[[X]], %[[X]]
        CHECK: insertelement <4 x i32>
        CHECK: store <2 x i32> %e, ptr %p
    """),
    "a vector of which all elements are used stays": ("""
        %e = extractelement <4 x i32> %x, i32 2
        store <4 x i32> %x, ptr %p
        store i32 %e, ptr %p
    """, """
        CHECK: %x = add <4 x i32> %a4, <i32 0, i32 1, i32 2, i32 3>
        CHECK: %e = extractelement <4 x i32> %x, i32 2
    """),
    "known numbers are extended and multiplied": ("""
        %w = sext <4 x i32> <i32 -1, i32 1, i32 2, i32 3> to <4 x i64>
        %z = mul <4 x i64> %w, splat (i64 8)
        %e = extractelement <4 x i64> %z, i32 0
        store i64 %e, ptr %p
    """, "CHECK: store i64 -8, ptr %p"),
    "a comparison without which a result is undefined stays whole": ("""
        %m = icmp ult <4 x i32> %x, %b4, !xe.fits !0
        %e = extractelement <4 x i1> %m, i32 0
        store i1 %e, ptr %p
    """, "CHECK: %m = icmp ult <4 x i32> %x, %b4, !xe.fits"),
}


def rewritten(body, change=simplify_llvm):
    module = parse_module(f"{HEAD}{body}\n  ret void\n}}\n!0 = !{{}}\n")
    change(state_of(module))
    return print_kernels(module)


@pytest.mark.parametrize("name", STRAIGHT)
def test_rules(name):
    body, wanted = STRAIGHT[name]
    check_text(rewritten(body), wanted)


@pytest.mark.parametrize("name", NARROW)
def test_narrowed_vectors(name):
    body, wanted = NARROW[name]
    check_text(rewritten(body, narrow_vectors), wanted)


@pytest.mark.parametrize("name", IN_LOOP)
def test_rules_of_loops(name):
    body, wanted = IN_LOOP[name]
    check_text(rewritten(LOOP.replace("BODY", body)), wanted)


# -- random code ---------------------------------------------------------------------------------

BITS = {I1: np.bool_, I32: np.int32, I64: np.int64}
TESTS = {"slt": np.less, "sgt": np.greater, "eq": np.equal, "ne": np.not_equal}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
          "or": np.bitwise_or, "shl": np.left_shift}


def stored(function, arguments):
    """Execute straight-line code with numpy; return the vector that it stores."""
    known = dict(zip([a.text for a in function.arguments], arguments, strict=True))
    found = []

    def value(o):
        if not o.is_constant:
            return known[o.text]
        numbers = [e.integer_value() or 0 for e in elements_of(o)]
        made = np.array(numbers, dtype=np.int64).astype(BITS[o.type.scalar])
        return made if o.type.kind == "vec" else made[0]

    for i in function.instructions():
        if i.opcode in ("store", "ret"):
            found += [value(i.operands[0])] if i.operands else []
            continue
        given = [value(o) for o in i.operands]
        if i.opcode == "icmp" and i.extra == "ult":
            made = given[0].view(np.uint32) < given[1].view(np.uint32)
        elif i.opcode == "icmp":
            made = TESTS[i.extra](*given)
        elif i.opcode in BINARY:
            made = BINARY[i.opcode](*given)
        elif i.opcode == "select":
            made = np.where(*given)
        elif i.opcode == "insertelement":
            made = given[0].copy()
            made[given[2]] = given[1]
        elif i.opcode == "extractelement":
            made = given[0][given[1]]
        elif i.opcode == "shufflevector":
            made = np.concatenate(given)[list(i.indices)]
        else:
            assert i.opcode in ("sext", "zext")
            made = given[0].astype(BITS[i.type.scalar])
        known[i.result] = made
    return found


def random_code(rng, exact, most=8):
    """A module of operations on registers, of whose results `most` elements are stored.

    If it is `exact`, no sum wraps around, and it says so.
    """
    module = Module()
    function, b = begin(PTR, I32, I32, I32, module=module)
    pointer, *scalars = function.arguments
    flags = ("nsw",) if exact else ()

    def splat(x):
        one = b.insert(ir.undef(ir.vector(8, x.type)), x, 0)
        return b.shuffle(one, one, [0] * 8)

    numbers = [splat(x) for x in scalars]
    masks = [b.icmp("slt", numbers[0], numbers[1])]

    def pick(values):
        return values[rng.integers(len(values))]

    def store(value):
        if most == 8:
            b.store(value, pointer)
        elif rng.integers(2):
            for k in rng.integers(0, 8, most):
                b.store(b.extract(value, int(k)), pointer)
        else:
            b.store(b.shuffle(value, value, [int(k) for k in rng.integers(0, 8, most)]), pointer)

    for _ in range(25):
        what = rng.integers(8)
        x, y = pick(numbers), pick(numbers)
        if what == 0:
            known = [int(n) for n in rng.integers(0, 100, 8)]
            numbers.append(b.binary("add", x, ir.constant_vector(
                [ir.constant(I32, n) for n in known]), flags))
        elif what == 1:
            numbers.append(b.binary("add", x, y, flags))
        elif what == 2:
            numbers.append(b.mul(x, int(rng.integers(2, 5))) if not exact else x)
        elif what == 3:
            order = rng.integers(0, 8, 8) if rng.integers(2) else [rng.integers(8)] * 8
            numbers.append(b.shuffle(x, x, [int(k) for k in order]))
        elif what == 4:
            masks.append(b.icmp(pick(["slt", "ult", "eq", "sgt"]), x, y))
        elif what == 5:
            masks.append(b.and_(pick(masks), pick(masks)))
        elif what == 6:
            mask = pick(masks)
            order = [int(rng.integers(8))] * 8 if rng.integers(2) else list(range(7, -1, -1))
            masks.append(b.shuffle(mask, mask, order))
        else:
            wide = b.cast("zext", x, I64, ("nneg",)) if exact else b.sext(x, I64)
            factor = splat(b.sext(pick(scalars), I64))
            made = b.mul(wide, factor)
            store(b.mul(b.shuffle(made, made, [3, 1, 2, 0, 7, 7, 5, 6]), 4))
            store(made)
        b.store(b.extract(pick(masks), int(rng.integers(8))), pointer)
    for value in (*numbers, *masks):
        store(value)
    b.ret()
    return module, function


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("most", [1, 2, 8])
@pytest.mark.parametrize("seed", range(40))
def test_simplified_code_computes_the_same(seed, most, exact):
    rng = np.random.default_rng(seed)
    module, function = random_code(rng, exact, most)
    edges = [0, 1, 5, 77, 1000] if exact else [0, 1, -1, 7, 2**31 - 1, -(2**31), -5, 12345]
    samples = [[None, *rng.choice(edges, 3).astype(np.int32)] for _ in range(8)]
    with np.errstate(over="ignore"):
        before = [stored(function, each) for each in samples]
        simplify_llvm(state_of(module))
        narrow_vectors(state_of(module))
        for each, wanted in zip(samples, before, strict=True):
            found = stored(function, each)
            assert all(np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))
