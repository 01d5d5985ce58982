"""The dialects' text: parsed, printed in both forms, read back, and checked by FileCheck."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer

from python.test.filecheck import file_check
from triton_xe.dialects import context
from triton_xe.dialects.xegpu import XeGPU
from triton_xe.dialects.xetile import XeTile

HERE = Path(__file__).parent
DIALECTS = {"xegpu": XeGPU, "xetile": XeTile}


@pytest.fixture
def ctx() -> Context:
    ctx = context()
    return ctx


def parse(ctx: Context, text: str) -> ModuleOp:
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def show(module: ModuleOp, generic: bool) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


@pytest.mark.parametrize("form", ["custom", "generic"])
@pytest.mark.parametrize("name", list(DIALECTS))
def test_file_checks(ctx: Context, name: str, form: str) -> None:
    path = HERE / f"{name}.mlir"
    text = show(parse(ctx, path.read_text()), form == "generic")
    file_check(path, text, form.upper())


@pytest.mark.parametrize("form", ["custom", "generic"])
@pytest.mark.parametrize("name", list(DIALECTS))
def test_round_trip(ctx: Context, name: str, form: str) -> None:
    module = parse(ctx, (HERE / f"{name}.mlir").read_text())
    again = parse(ctx, show(module, form == "generic"))
    assert module.is_structurally_equivalent(again)
    assert show(again, False) == show(module, False)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_file_has_every_op_of_the_dialect(ctx: Context, dialect: Dialect) -> None:
    module = parse(ctx, (HERE / f"{dialect.name}.mlir").read_text())
    used = {type(op) for op in module.walk()}
    assert set(dialect.operations) <= used
