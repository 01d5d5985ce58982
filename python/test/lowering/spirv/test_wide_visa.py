"""Functions that work on two registers at a time: their vISA, and where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.loop_kernels import descriptor_copy
from python.test.lowering.native_functions import functions
from python.test.operations import instructions, name_of, parsed
from triton_xe.llvm import ASSEMBLY
from triton_xe.llvm.parser import parse_module
from triton_xe.lowering.spirv.emit_spirv import use_visa
from triton_xe.lowering.spirv.wide_visa import LOG2_E, body_of, definition
from triton_xe.spirv import WIDE


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SALT: tl.constexpr = 0):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + tl.program_id(0) * n + i, tl.exp2(e - 1.0) / tl.sum(e, 0), mask=i < n)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, S: tl.constexpr):
    i = tl.arange(0, S)
    at = i[:, None] * S + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def llir(kernel: Any, device: str, **constants: Any) -> str:
    names = kernel.arg_names
    constants = ({"SALT": 0} if "SALT" in names else {}) | constants
    types = {n: "constexpr" if n in constants else "*fp32" if n.endswith("ptr") else "i32"
             for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if n not in constants}
    source = ASTSource(kernel, types, constants, aligned)
    target = GPUTarget("xpu", device, 16 if device == "bmg" else 8)
    text: str = triton.compile(source, target=target, options={"num_warps": 4}).asm["llir"]
    return text


@pytest.mark.parametrize(("name", "lines"), [
    ("fill_ff800000", ["mov (M1_NM, 32) U({r},0)<1> 0xff800000:ud"]),
    ("exp2", ["exp (M1_NM, 32) F({r},0)<1> X({r},0)<1;1,0>"]),
    ("exp", [f"mul (M1_NM, 32) F({{r}},0)<1> X({{r}},0)<1;1,0> {LOG2_E:#x}:f",
             "exp (M1_NM, 32) F({r},0)<1> F({r},0)<1;1,0>"]),
    ("less", ["add (M1_NM, 32) F({r},0)<1> X({r},0)<1;1,0> (-)Y(0,0)<0;1,0>"]),
    ("times", ["mul (M1_NM, 32) F({r},0)<1> X({r},0)<1;1,0> Y(0,0)<0;1,0>"]),
    ("tf32", ["fcvt (M1_NM, 32) U({r},0)<1> X({r},0)<1;1,0>"]),
])
def test_each_line_takes_two_of_four_registers(name: str, lines: list[str]) -> None:
    written = [line for line in body_of(name).splitlines() if not line.startswith(".decl")]
    assert written == [line.format(r=r) for line in lines for r in (0, 2)]


RESULTS = {"low": "float", "high": "float", "pack": "i32", "bf16_low": "float",
           "bf16_high": "float", "bf16": "float", "rows": "i16", "bytes": "i8",
           "scale_pairs_2x4": "i8", "scale_pairs_4x4": "i8",
           "signed_bytes": "i32", "unsigned_bytes": "i32", "pack_bytes": "i32",
           "scale_pairs_2x2": "i8", "scale_pairs_4x2": "i8",
           "less": "float", "times": "float"}
"""Function -> type of its elements."""


def native(name: str, *given: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Run a function's native code and return its result registers."""
    symbols = {each: f"{WIDE}{each}.{kind}" for each, kind in RESULTS.items()}
    return functions(*symbols.values())(symbols[name], *given)


@pytest.mark.intel_compiler
def test_conversions_of_neighbours() -> None:
    rng = np.random.default_rng(5)
    pairs = rng.standard_normal((4, 16, 2)).astype(np.float16)
    found = [native(name, pairs).view(np.float32)
             for name in ("low", "high")]
    for half, made in enumerate(found):
        assert np.array_equal(made.reshape(4, 16), pairs[:, :, half].astype(np.float32))
    packed = native("pack", *found)
    assert np.array_equal(packed.view(np.float16), pairs.reshape(-1))


@pytest.mark.intel_compiler
def test_bf16_of_words_becomes_fp32() -> None:
    words = np.random.default_rng(8).integers(0, 1 << 16, (64, 2)).astype(np.uint16)
    for half, name in enumerate(("bf16_low", "bf16_high")):
        made = native(name, words).view(np.uint32)
        assert np.array_equal(made, words[:, half].astype(np.uint32) << 16)


@pytest.mark.intel_compiler
def test_bytes_become_words_and_words_bytes() -> None:
    x = np.random.default_rng(3).integers(0, 256, (4, 16, 4), np.uint8)
    for name, kind in (("signed_bytes", np.int8), ("unsigned_bytes", np.uint8)):
        found = native(name, x).view(np.int32).reshape(4, 64)
        for byte, made in enumerate(found):
            assert np.array_equal(made.reshape(4, 16), x.view(kind)[:, :, byte].astype(np.int32))
        wide = found ^ 0x5A5A5A00
        assert np.array_equal(native("pack_bytes", wide).view(np.uint8), x.reshape(-1))


@pytest.mark.intel_compiler
def test_a_number_rounded_to_bf16_comes_back_in_fp32() -> None:
    x = np.random.default_rng(9).standard_normal(64).astype(np.float32)
    x[:3] = 1 + np.float32([2, 3, 6]) * 2.0**-9
    made = native("bf16", x).view(np.uint32)
    assert not (made & 0xFFFF).any()
    error = abs(made.view(np.float32).astype(np.float64) - x)
    assert (error <= abs(x) * 2.0**-8).all()
    assert np.array_equal(made.view(np.float32)[:3], 1 + np.float32([0, 2, 4]) * 2.0**-8)


@triton.jit
def rotated(x_ptr, c_ptr, y_ptr, n, BLOCK: tl.constexpr, SALT: tl.constexpr = 0):
    i = tl.arange(0, BLOCK)
    x, c = tl.load(x_ptr + i, mask=i < n), tl.load(c_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * c - c * c, mask=i < n)
    tl.store(x_ptr + i, x.to(tl.float32) * 2.0, mask=i < n)


def test_bf16_is_rounded_once_for_what_is_computed_next() -> None:
    """And what it was rounded to otherwise is not computed too, as nobody uses it."""
    torch = pytest.importorskip("torch")
    rng = torch.Generator().manual_seed(2)
    x, c = (torch.randn(2000, generator=rng).bfloat16() for _ in range(2))
    y, held = torch.zeros_like(x).to("xpu"), x.clone().to("xpu")
    kernel = rotated[(1,)](held, c.to("xpu"), y, 2000, BLOCK=2048)
    assert torch.equal(y.cpu(), x * c - c * c)
    assert torch.equal(held.cpu(), x * 2)
    found = parsed(kernel.asm["llir"])
    assert {f"{WIDE}bf16.float", f"{WIDE}bf16_high.float"} <= {each.callee for each in found}
    rounded = {each.result for each in found if name_of(each) == "GenISA.ftobf"}
    assert rounded
    assert rounded <= {operand.text for each in found for operand in each.operands}


@pytest.mark.intel_compiler
def test_words_of_two_registers_are_taken_apart_into_rows() -> None:
    words = np.random.default_rng(7).integers(0, 1 << 16, (2, 32, 2)).astype(np.uint16)
    made = native("rows", words).view(np.uint16)
    assert np.array_equal(made.reshape(2, 2, 32), words.transpose(0, 2, 1))


@pytest.mark.covering
@pytest.mark.parametrize(("block", "apart"), [((64, 64), True), ((32, 32), False)])
@pytest.mark.parametrize("shape", [(128, 192), (72, 104)])
def test_halves_that_are_transposed_are_stored_by_full_registers(
    shape: tuple[int, int], block: tuple[int, int], apart: bool
) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(shape[0] * shape[1]).view(shape).to(torch.int16).view(torch.float16)
    y = torch.zeros(*reversed(shape), dtype=torch.float16, device="xpu")
    grid = triton.cdiv(shape[0], block[0]), triton.cdiv(shape[1], block[1])
    kernel = descriptor_copy[grid](x.to("xpu"), y, *shape, *block, True)
    assert torch.equal(y.cpu().view(torch.int16), x.T.contiguous().view(torch.int16))
    assert (f"{WIDE}rows.i16" in instructions(kernel.asm["llir"])) == apart


@pytest.mark.intel_compiler
def test_values_of_eight_bytes_are_taken_apart_into_rows() -> None:
    each = np.random.default_rng(8).integers(0, 256, (2, 16, 8)).astype(np.uint8)
    made = native("bytes", each)
    assert np.array_equal(made.reshape(8, 2, 16), each.transpose(2, 0, 1))


@pytest.mark.covering
@pytest.mark.parametrize("block", [(64, 64), (32, 128), (128, 128), (32, 32)])
@pytest.mark.parametrize("shape", [(128, 192), (80, 112)])
def test_bytes_that_are_transposed_are_stored_by_rows_of_32(
    shape: tuple[int, int], block: tuple[int, int]
) -> None:
    torch = pytest.importorskip("torch")
    x = (torch.arange(shape[0] * shape[1]) % 251).view(shape).to(torch.uint8)
    y = torch.zeros(*reversed(shape), dtype=torch.uint8, device="xpu")
    grid = triton.cdiv(shape[0], block[0]), triton.cdiv(shape[1], block[1])
    kernel = descriptor_copy[grid](x.to("xpu"), y, *shape, *block, True)
    assert torch.equal(y.cpu(), x.T)
    assert (f"{WIDE}bytes.i8" in instructions(kernel.asm["llir"])) == (block != (32, 32))


@pytest.mark.intel_compiler
@pytest.mark.parametrize(("name", "computed"), [("less", np.subtract), ("times", np.multiply)])
def test_one_number_for_all_lanes(name: str, computed: Any) -> None:
    x = np.random.default_rng(7).standard_normal(64).astype(np.float32)
    one = np.float32([0.3])
    made = native(name, x, one).view(np.float32)
    assert np.array_equal(made, computed(x, one))
    assert '"=rw,rw,rw.u"' in definition(f"{WIDE}{name}.float")


@triton.jit
def centered(x_ptr, y_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if HOW == "of an argument":  # the compiler may not know that lanes share it
        y = x - tl.load(x_ptr).to(tl.float32)
    elif HOW == "of a product":  # which is fused
        y = x * 3.0 - tl.sum(x, 0)
    else:
        y = x - tl.sum(x, 0)
    tl.store(y_ptr + i, y, mask=i < n)


@pytest.mark.parametrize(("how", "used"), [
    ("of a sum", True), ("of a product", False), ("of an argument", False)])
def test_what_is_taken_from_all_elements(how: str, used: bool) -> None:
    found = instructions(llir(centered, "bmg", BLOCK=2048, HOW=how))
    assert (f"{WIDE}less.float" in found) is used
    torch = pytest.importorskip("torch")
    x = torch.randint(-8, 9, (2000,), generator=torch.Generator().manual_seed(1)).float()
    y = torch.zeros_like(x).to("xpu")
    centered[(1,)](x.to("xpu"), y, 2000, HOW=how, BLOCK=2048)
    less = x[0] if how == "of an argument" else x.sum()
    assert torch.equal(y.cpu(), x * (3 if how == "of a product" else 1) - less)


@triton.jit
def centered_rows(x_ptr, y_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at, inside = row * BLOCK + tl.arange(0, BLOCK)[None, :], row < n
    x = tl.load(x_ptr + at, inside, other=0.0)
    most = tl.max(tl.where(inside, x, float("-inf")), 1)[:, None]
    tl.store(y_ptr + at, tl.exp(x - most), inside)


@pytest.mark.covering
@pytest.mark.parametrize("rows", [2, 8, 16])
@pytest.mark.parametrize("warps", [1, 4])
def test_each_row_has_a_number_of_its_own(rows: int, warps: int) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(14, 64, generator=torch.Generator().manual_seed(2))
    y = torch.zeros_like(x).to("xpu")
    centered_rows[(-(-14 // rows),)](x.to("xpu"), y, 14, rows, 64, num_warps=warps)
    torch.testing.assert_close(y.cpu(), (x - x.amax(1, keepdim=True)).exp())


def test_the_factor_of_exp() -> None:
    assert np.uint32(LOG2_E).view(np.float32) == np.float32(np.log2(np.e))


@pytest.mark.parametrize(("device", "used"), [("bmg", True), ("dg2", False)])
def test_where_they_are_used(device: str, used: bool) -> None:
    found = instructions(llir(softmax, device, BLOCK=2048))
    for name in ("exp.float", "exp2.float"):
        assert (f"{WIDE}{name}" in found) is used
    assert (f"{WIDE}tf32.i32" in instructions(llir(product, device, S=64))) is used


def test_bodies_become_vISA() -> None:
    module = parse_module(llir(softmax, "bmg", BLOCK=2048))
    use_visa(module)
    calls = [i for f in module.functions.values() for i in f.instructions() if i.opcode == "call"]
    assert not [i for i in calls if "native_exp2Dv4" in i.callee]
    assert any(i.callee == ASSEMBLY and ".decl" in i.extra for i in calls)


def test_crowded_code_stays_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_xe.lowering.convert_xegpu_to_llvm.MOST_ESTIMATED", 1)
    text = llir(softmax, "bmg", BLOCK=2048, SALT=3)
    assert any(name.startswith(WIDE) for name in instructions(text))
    module = parse_module(text)
    functions = dict(module.functions)
    use_visa(module)
    assert module.functions == functions


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [2048, 2001])
def test_results_are_those_of_one_register_at_a_time(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    x = 9 * torch.randn(3, n, generator=torch.Generator().manual_seed(n))
    found = []
    for salt in (1, 2):  # the second time without such functions
        y = torch.zeros_like(x).to("xpu")
        softmax[(3,)](x.to("xpu"), y, n, BLOCK=2048, SALT=salt)
        found.append(y.cpu())
        monkeypatch.setattr("triton_xe.lowering.emit.maths.wide.suits", lambda state: False)
    assert torch.equal(*found)
    e = torch.exp(x.double() - x.double().amax(1, keepdim=True))
    torch.testing.assert_close(found[0].double(), torch.exp2(e - 1) / e.sum(1, keepdim=True))


@pytest.mark.intel_compiler
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("words", [2, 4])
def test_bytes_of_words_are_separated(words: int, size: int) -> None:
    """A register has bytes 0 of two words, then bytes 1; others have bytes 2 and 3."""
    shape = (words // 2, 2, 16, size // 2, 2)
    each = np.random.default_rng(9).integers(0, 256, shape).astype(np.uint8)
    made = native(f"scale_pairs_{words}x{size}", each).reshape(2, 2, 2, 2, 16)
    assert np.array_equal(made[: size // 2, : words // 2], each.transpose(3, 0, 4, 1, 2))
