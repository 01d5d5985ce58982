"""Every op libtriton prints for an xpu target is read, written, and read by libtriton again."""

import itertools
import re
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.utils.exceptions import VerifyException

from python.test.lowering import ttgir_kernels
from python.test.lowering.ttgir_helper import make_ttgir, reread_by_libtriton
from triton_xe.dialects import arith_ext
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.text.locations import source_of
from triton_xe.dialects.text.reader import read_module
from triton_xe.dialects.text.writer import write_module
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.import_ttgir import import_ttgir

CASES = {case.name: case for case in ttgir_kernels.CASES}


@cache
def ttgir(name):
    case = CASES[name]
    return make_ttgir(case.fn, case.signature, case.constants, aligned=case.aligned, **case.options)


@cache
def imported(name):
    return import_ttgir(ttgir(name))


def without_places(text):
    """`text` with neither locations nor the names that libtriton makes from them."""
    text = re.sub(r"^#loc.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r' loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\)|"[^"]*":\d+:\d+)\)', "", text)
    names = {}

    def renamed(match):
        if match[2] is not None:
            names[match[1]] = f"%{next(numbers)}"
        return names[match[1]]

    numbers = itertools.count()
    return DEFINITION.sub(renamed, text)


# a name, and what follows it where it is defined: siblings' regions define the same name again
DEFINITION = re.compile(r"(%[\w$.-]+)(?=((?::\d+)? = |: |(?:, %[\w$.-]+)+ = tt\.split)?)")


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_has_the_ops_it_is_there_for(name):
    assert set(CASES[name].ops) <= {op.name for op in imported(name).walk()}


@pytest.mark.parametrize("name", CASES)
def test_libtriton_reads_back_what_was_written(name):
    text = ttgir(name)
    written = write_module(import_ttgir(text), locations=True)
    assert without_places(reread_by_libtriton(written)) == without_places(text)


@pytest.mark.parametrize("name", CASES)
def test_reading_undoes_writing(name):
    module = imported(name)
    for locations in (False, True):
        text = write_module(module, locations=locations)
        again = read_module(text)
        again.verify()
        assert write_module(again, locations=locations) == text


@pytest.mark.parametrize("name", CASES)
def test_plain_xdsl_printing_reads_back(name):
    module = imported(name)
    assert str(read_module(str(module))) == str(module)


@pytest.mark.parametrize("name", CASES)
def test_each_layout_has_an_encoding(name):
    layouts = 0
    for op in imported(name).walk():
        for value in op.results:
            if isinstance(value.type, TensorType):
                assert str(encoding_of(value.type)) == value.type.encoding.text
                layouts += 1
    assert layouts or name in ("undefined_values", "calls")


def op_named(module, name):
    return next(op for op in module.walk() if op.name == name)


def test_a_location_is_the_line_in_python():
    store = op_named(import_ttgir(ttgir("vector_add")), "tt.store")
    source = source_of(store)
    line = Path(source.file).read_text().splitlines()[source.line - 1]
    assert source.file == ttgir_kernels.__file__
    assert line.strip().startswith("tl.store(out + offsets, tl.load(x")
    assert str(source) == f"{source.file}:{source.line}:{source.column}"


def test_a_location_names_the_variable_and_the_caller():
    module = import_ttgir(ttgir("matmul"))
    dot = op_named(module, "tt.dot")
    assert source_of(dot).name == "acc"
    division = op_named(module, "arith.divsi")
    inlined = source_of(division)
    assert inlined.file.endswith("standard.py")
    assert inlined.outermost.file == ttgir_kernels.__file__
    argument = op_named(module, "tt.func").body.block.args[0]
    assert source_of(argument).name == "a"


def test_an_unknown_op_is_refused_with_its_line():
    text = ttgir("vector_add").replace("arith.addf", "arith.frobnicate")
    line = next(
        number
        for number, line in enumerate(Path(ttgir_kernels.__file__).read_text().splitlines(), 1)
        if "tl.load(x + offsets, mask) + tl.load(y" in line
    )
    with pytest.raises(UnsupportedError, match=rf"ttgir_kernels\.py:{line}:.*'arith\.frobnicate'"):
        import_ttgir(text)


def test_an_unknown_op_without_locations_is_refused_with_the_line_of_the_module():
    with pytest.raises(UnsupportedError, match=r"line 2 of the module: .*'tt\.frobnicate'"):
        read_module("module {\n  tt.frobnicate\n}\n")


def constant(text):
    module = read_module(f"module {{\n  %x = arith.constant {text}\n}}\n")
    return next(iter(module.body.block.ops)).value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dense<0x7F800000> : tensor<64xf32>", float("inf")),
        ("dense<0xFC00> : tensor<64xf16>", float("-inf")),
        ("dense<0x7F80> : tensor<64xbf16>", float("inf")),
        ("dense<0x7C> : tensor<64xf8E5M2>", float("inf")),
        ("dense<-1.500000e-30> : tensor<2x2xf64>", -1.5e-30),
        ("dense<255> : tensor<64xi8>", -1),
        ("dense<-1> : tensor<64xi64>", -1),
        ("dense<0x10> : tensor<64xi32>", 16),
        ("dense<true> : tensor<64xi1>", -1),
    ],
)
def test_a_splat_constant_keeps_its_value_once(text, value):
    attr = constant(text)
    assert attr.is_splat()
    assert attr.get_values() == (value,)


def test_a_constant_list_keeps_every_value():
    assert constant("dense<[1, 2, 3, 4]> : tensor<4xi32>").get_values() == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "value"), [("0x7F800000 : f32", float("inf")), ("17 : i64", 17), ("-3 : i8", -3)]
)
def test_a_scalar_constant_keeps_its_value(text, value):
    assert constant(text).value.data == value


def test_splat_attributes_equal_what_is_read():
    type_ = constant("dense<1.0> : tensor<8x8xf32>").type
    assert arith_ext.splat_attr(type_, 2.5) == constant("dense<2.5> : tensor<8x8xf32>")


def test_a_long_module_is_read_in_time_that_grows_with_its_length():
    line = "    %v{} = arith.addi %v{}, %v{} : tensor<64xi32, #blocked> loc(#loc)\n"
    head, _, rest = ttgir("vector_add").partition("  tt.func")
    layout = head + "  tt.func private @f(%v0: tensor<64xi32, #blocked>) {\n"
    body = "".join(line.format(n + 1, n, n) for n in range(2000))
    module = read_module(layout + body + "    tt.return\n  }\n}\n" + rest[rest.index("#loc1 =") :])
    assert sum(op.name == "arith.addi" for op in module.walk()) == 2000


KNOWN = """module {{
  tt.func public @f(%n: i32) {{
    %0 = arith.addi %n, %n : i32 loc(#loc)
{}  }}
}}
#loc = loc(unknown)
"""


def test_lines_that_are_known_are_verified_in_their_place():
    """The first module teaches the line, the second is made of it."""
    for _ in range(2):
        assert op_named(import_ttgir(KNOWN.format("    tt.return loc(#loc)\n")), "arith.addi")
    with pytest.raises(VerifyException, match="not a terminator"):
        import_ttgir(KNOWN.format(""))


def test_a_known_line_of_values_of_another_type_is_read_anew():
    import_ttgir(KNOWN.format("    tt.return loc(#loc)\n"))
    with pytest.raises(Exception, match="i32"):
        import_ttgir(KNOWN.replace("%n: i32", "%n: i64").format("    tt.return loc(#loc)\n"))
