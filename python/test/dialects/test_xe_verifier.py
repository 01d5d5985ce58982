"""Rules of 2D accesses, and of what the compiler notes on other operations."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects import context, xe


def loads(element: str, tensor: str) -> tuple[str, str]:
    cursor = f"!xe.cursor<{element}>"
    return cursor, f"%t = xe.block_load %v : {cursor} -> tensor<{tensor}>"


REFUSED = [
    (*loads("f16", "8x16xbf16"), "the surface holds f16, the tensor bf16"),
    (*loads("f16", "2x8x16xf16"), "2D messages move matrices, not tensor<2x8x16xf16>"),
    (*loads("f64", "8x16xf64"), "no 2D message moves elements of f64"),
    ("!tt.ptr<f16>", "%t = tt.load %v {xe.hidden} : !tt.ptr<f16>", "only masked elements"),
]


@pytest.mark.parametrize(("kind", "op", "message"), REFUSED)
def test_an_access_is_refused(kind: str, op: str, message: str) -> None:
    ctx = context()
    ctx.load_dialect(Test)
    module = Parser(ctx, f'%v = "test.op"() : () -> {kind}\n{op}').parse_module()
    with pytest.raises(VerifyException, match=message):
        module.verify()


def test_a_mark_is_put_on_its_operations_with_its_words() -> None:
    number = arith.ConstantOp(IntegerAttr(7, i32))
    product, quotient = (kind(number, number) for kind in (arith.MulfOp, arith.DivSIOp))
    xe.ROUNDED.put(product)
    assert xe.ROUNDED.of(product) == UnitAttr()
    for mark, op, word in ((xe.ROUNDED, quotient, ""), (xe.QUICK, quotient, "slow"),
                           (xe.QUICK, quotient, ""), (xe.QUICK, product, "small")):
        with pytest.raises(VerifyException, match=f"{op.name} has no {mark.name}"):
            mark.put(op, word)
    assert xe.QUICK.of(quotient) is None
