"""Ops built by the names of their fields, and types that follow from other types."""

import pytest
from xdsl.dialects import test as any_op
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, f16, f32, i1, i32, i64
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.tt.memory import AtomicLoadOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import DotOp, HistogramOp, SplatOp, TransOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xegpu import LoadNdOp, UpdateNdOffsetOp, tensor_desc

POINTERS = TensorType(PointerType(f32), [64])
VALUES = TensorType(f32, [64])
MASK = TensorType(i1, [64])


def value(type_):
    return any_op.TestOp(result_types=[type_]).results[0]


def test_operands_have_the_names_that_they_were_built_by():
    pointers, mask, other = value(POINTERS), value(MASK), value(VALUES)
    load = LoadOp(ptr=pointers, mask=mask, other=other, result_type=VALUES)
    load.verify()
    assert (load.ptr, load.mask, load.other) == (pointers, mask, other)
    assert LoadOp(ptr=pointers, result_type=VALUES).mask is None
    store = StoreOp(ptr=pointers, value=other, mask=mask)
    store.verify()
    assert tuple(store.operands) == (pointers, other, mask)


def test_properties_are_attributes_keywords_or_lists_of_numbers():
    load = AtomicLoadOp(ptr=value(POINTERS), sem="acquire", scope="gpu", result_type=VALUES)
    load.verify()
    assert (load.sem.data, load.scope.data) == ("acquire", "gpu")
    order = DenseArrayBase.from_list(i32, [1, 0])
    matrix = TensorType(f16, [8, 16])
    trans = TransOp(src=value(matrix), order=order, result_type=TensorType(f16, [16, 8]))
    assert trans.order is order
    desc = value(tensor_desc((8, 16), f16))
    load = LoadNdOp(desc=desc, value_type=f16, l1_hint="cached", valid=(4, 16), packed=True)
    assert (load.l1_hint.data, load.valid.get_values(), load.packed is not None) == (
        "cached", (4, 16), True,
    )  # fmt: skip


def test_the_default_of_a_property_holds_where_it_is_not_given():
    a, b, c = (value(TensorType(f16, [16, 16])) for _ in range(3))
    dot = DotOp(a=a, b=b, c=c, d_type=c.type)
    dot.verify()
    assert dot.precision == "ieee"
    assert DotOp(a=a, b=b, c=c, d_type=c.type, input_precision="tf32").precision == "tf32"


def test_a_field_that_the_op_lacks_is_refused():
    with pytest.raises(TypeError, match=r"tt\.splat has no colour"):
        SplatOp(src=value(f32), result_type=VALUES, colour=1)


def test_a_result_without_a_type_is_refused():
    with pytest.raises(TypeError, match=r"tt\.splat needs result_type"):
        SplatOp(src=value(f32))


def test_ops_are_also_built_as_in_xdsl():
    for build in (SplatOp, SplatOp.build):
        splat = build(operands=[value(f32)], result_types=[VALUES])
        splat.verify()
        assert splat.src.type == f32


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda: LoadOp(ptr=value(POINTERS), result_type=f32), "type the pointer points to"),
        (
            lambda: LoadOp(ptr=value(POINTERS), mask=value(i1), result_type=VALUES),
            "the mask must have the shape",
        ),
        (
            lambda: LoadOp(ptr=value(POINTERS), other=value(VALUES), result_type=VALUES),
            "`other` needs a mask",
        ),
        (
            lambda: StoreOp(ptr=value(POINTERS), value=value(TensorType(f16, [64]))),
            "value must have the type the pointer points to",
        ),
        (
            lambda: HistogramOp(
                src=value(TensorType(i32, [64])), mask=value(i1), result_type=TensorType(i32, [8])
            ),
            "the mask has the source's shape",
        ),
        (
            lambda: DotOp(
                a=value(VALUES), b=value(VALUES), c=value(VALUES), d_type=TensorType(f16, [64])
            ),
            "expected from variable",
        ),
    ],
)
def test_types_follow_from_each_other(op, message):
    with pytest.raises(VerifyException, match=message):
        op().verify()


def test_an_index_list_has_values_and_numbers():
    desc, x = value(tensor_desc((8, 16), f16)), value(i64)
    update = UpdateNdOffsetOp(desc=desc, offsets=(x, 8))
    assert (update.offsets, tuple(update.indices)) == ((x, 8), (x,))
    assert IntegerAttr(8, i32) not in update.properties.values()
