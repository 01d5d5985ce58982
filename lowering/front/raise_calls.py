"""Rule raise-calls: replace calls of `triton_xe.gluon` by operations of these dialects.

libtriton's builder creates operations of its own dialects only.  Therefore Gluon's Intel operations
reach the compiler as `ttg.inline_asm "xe.<name> key=value; ..."`:

    xe.load_2d (base, height, width, strides, y, x)  ->  tt.descriptor_load, marked as a block
    xe.store_2d (the same, value)                    ->  tt.descriptor_store, likewise
    xe.prefetch_2d shape=64x32                       ->  xe.prefetched of such a load
    xe.dpas layout=#xe.dpas<...>; precision=tf32     ->  tt.dot
    xe.barrier_arrive, xe.barrier_wait               ->  the same operations

For libtriton, the layouts of DPAS are linear layouts.  The pass restores the names of those that a
product uses, in the whole function: both are spellings of one layout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.layouts import LayoutAttr, encoding_of, layout_attr
from triton_xe.dialects.tt.memory import DescriptorLoadOp, DescriptorStoreOp, MakeTensorDescOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.tt.types import PointerType, TensorDescType
from triton_xe.dialects.ttg import InlineAsmOp
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, to_linear_layout
from triton_xe.layout.encodings import Encoding
from triton_xe.layout.parse import parse_encoding
from triton_xe.lowering.facts.view import without_copies
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.block_layouts import block_layout
from triton_xe.lowering.layouts.dot_operands import Operands
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.layouts.rematerialize import (
    converted,
    exchange_layouts,
    exchanged_in,
)
from triton_xe.lowering.rewriting import all_of, replace_by, values_below

PREFIX = "xe."


class Call(NamedTuple):
    """A call of an Intel operation, as inline assembly."""

    op: InlineAsmOp
    name: str
    options: dict[str, str]
    target: Target
    num_warps: int

    @property
    def arguments(self) -> tuple[SSAValue, ...]:
        return tuple(self.op.arguments)

    @property
    def insertion(self) -> InsertPoint:
        """The position of the operations that replace the call."""
        return InsertPoint.before(self.op)


def raise_calls(function: FuncOp, scope: Scope) -> None:
    """Gluon's Intel operations -> loads and stores of blocks, products, barriers."""
    calls = [call for op in all_of(function, InlineAsmOp)
             if (call := _call(op, scope)) is not None]
    named = _named_layouts(calls)
    if named:
        _rename(function, named)
    for call in calls:
        replace_by(call.op, partial(CALLS[call.name], call))


def _call(op: InlineAsmOp, scope: Scope) -> Call | None:
    """Parse inline assembly that calls an operation of `xe`; None for other assembly."""
    if not op.asm_string.data.startswith(PREFIX):
        return None
    name, _, rest = op.asm_string.data.removeprefix(PREFIX).partition(" ")
    if name not in CALLS:
        raise UnsupportedError(f"there is no operation xe.{name}")
    pairs = [part.partition("=") for part in rest.split("; ") if part]
    return Call(op, name, {key: value for key, _, value in pairs}, scope.target, scope.warps)


# -- layouts ---------------------------------------------------------------------------------------


def _named_layouts(calls: list[Call]) -> dict[Encoding, Encoding]:
    """The DPAS encoding for each linear layout of an operand or result of `xe.dpas`."""
    named: dict[Encoding, Encoding] = {}
    for call in calls:
        if call.name != "dpas":
            continue
        parent = parse_encoding(call.options["layout"])
        assert isinstance(parent, DpasEncoding)
        for value, encoding in zip(call.arguments, _layouts_of(parent), strict=True):
            named.setdefault(encoding_of(value.type), encoding)
    return named


def _layouts_of(parent: DpasEncoding) -> tuple[Encoding, ...]:
    """The layouts of A, B and C."""
    a, b = (DotOperandEncoding(i, parent, parent.expected_k_width(i)) for i in (0, 1))
    return a, b, parent


def _rename(function: FuncOp, named: dict[Encoding, Encoding]) -> None:
    """Replace linear layouts in a function's types by the equal DPAS encodings."""
    for value in values_below(function):
        kind = value.type
        if not isinstance(kind, TensorType) or not isinstance(kind.encoding, LayoutAttr):
            continue
        old, shape = encoding_of(kind), tuple(kind.get_shape())
        new = exchanged_in(old, named)
        if new == old:
            continue
        if isinstance(value.owner, Block) and value.owner.parent_op() is function:
            raise UnsupportedError("tensors with DPAS layouts as arguments of a function that "
                                   "is not inlined; leave `noinline` out")
        if without_copies(to_linear_layout(new, shape)) != without_copies(
                to_linear_layout(old, shape)):
            raise UnsupportedError(
                f"a tensor of {'x'.join(map(str, shape))} elements in a DPAS layout that was made"
                f" for another shape: {new}; make one for this shape")
    exchange_layouts(function, named)


# -- the operations --------------------------------------------------------------------------------


def _descriptor(call: Call, block: TensorType[Attribute]) -> tuple[SSAValue, list[SSAValue]]:
    """Insert the tensor descriptor of a call; return it, and the indices y and x."""
    base, height, width, *strides = call.arguments[:5]
    if not isinstance(base.type, PointerType) or base.type.pointee != block.element_type:
        raise UnsupportedError(f"{call.name} of {block.element_type} elements through {base.type}")
    made = MakeTensorDescOp(
        base=base, shape=(height, width), strides=tuple(strides),
        result_type=TensorDescType(block.get_shape(), block.element_type),
    )
    Rewriter.insert_op(made, call.insertion)
    return made.result, list(call.arguments[5:7])


def _load(call: Call, kind: TensorType[Attribute]) -> SSAValue:
    desc, indices = _descriptor(call, kind)
    load = DescriptorLoadOp(desc=desc, indices=indices, result_type=kind, block=True)
    Rewriter.insert_op(load, call.insertion)
    return load.result


def _load_2d(call: Call) -> list[SSAValue]:
    kind = call.op.res[0].type
    assert isinstance(kind, TensorType)
    return [_load(call, kind)]


def _prefetch_2d(call: Call) -> list[SSAValue]:
    shape = tuple(int(n) for n in call.options["shape"].split("x"))
    base = call.arguments[0].type
    assert isinstance(base, PointerType)
    layout = layout_attr(block_layout(shape, call.target, call.num_warps))
    value = _load(call, TensorType(base.pointee, shape, layout))
    Rewriter.insert_op(xe.PrefetchedOp(value=value), call.insertion)
    return []


def _store_2d(call: Call) -> list[SSAValue]:
    value = call.arguments[7]
    assert isinstance(value.type, TensorType)
    desc, indices = _descriptor(call, value.type)
    store = DescriptorStoreOp(desc=desc, indices=indices, src=value, block=True)
    Rewriter.insert_op(store, call.insertion)
    return []


def _dpas(call: Call) -> list[SSAValue]:
    """`xe.dpas` -> tt.dot of operands in the element types of DPAS; fp32 is rounded to tf32."""
    parent = parse_encoding(call.options["layout"])
    assert isinstance(parent, DpasEncoding)
    a, b, acc = (converted(value, layout_attr(encoding), call.insertion) for value, encoding in zip(
        call.arguments, _layouts_of(parent), strict=True))
    dot = DotOp(a=a, b=b, c=acc, d_type=acc.type,
                input_precision=StringAttr(call.options["precision"]))
    dpas = instruction_of(dot, call.target)
    if not isinstance(dpas, Dpas):
        raise UnsupportedError(f"dpas: {dpas}")
    if (dpas.repeat_count, dpas.operations_per_channel, dpas.execution_size) != (
            parent.repeat_count, parent.ops_per_channel, parent.execution_size):
        raise UnsupportedError(f"dpas: {dpas} on {call.target.name}, but the layout is {parent}")
    if tuple(call.arguments[2].type.get_shape()) != parent.block:  # type: ignore[attr-defined]
        raise UnsupportedError(f"dpas: warps' parts are no rectangles of {call.arguments[2].type}")
    operands = Operands(dpas, call.options["precision"])
    for index, name in enumerate((dpas.a, dpas.b)):
        (dot.operands[index],) = operands.terms(dot.operands[index], name, call.insertion)
    Rewriter.insert_op(dot, call.insertion)
    kind = call.arguments[2].type
    assert isinstance(kind, TensorType)
    return [converted(dot.d, kind.encoding, call.insertion)]


def _arrive(call: Call) -> list[SSAValue]:
    """`xe.barrier_arrive`; its wait must follow in the same block."""
    following = call.op.next_op
    while following is not None and _half(following) not in _halves(call):
        following = following.next_op
    if following is None or _half(following) != _halves(call)[1]:
        raise UnsupportedError(
            "barrier_arrive without a barrier_wait after it in the same block of code")
    return _half_barrier(call, xe.BarrierArriveOp)


def _wait(call: Call) -> list[SSAValue]:
    """`xe.barrier_wait`; its arrival must precede it in the same block, and is replaced before."""
    before, number = call.op.prev_op, _number(call)
    while before is not None and not (
        isinstance(before, xe.HalfBarrierOp) and before.number == number
    ):
        before = before.prev_op
    if not isinstance(before, xe.BarrierArriveOp):
        raise UnsupportedError("barrier_wait without a barrier_arrive before it in the same block")
    return _half_barrier(call, xe.BarrierWaitOp)


def _half(op: Operation) -> str:
    return op.asm_string.data if isinstance(op, InlineAsmOp) else ""


def _halves(call: Call) -> list[str]:
    """Inline-assembly texts of the two halves of a barrier."""
    _, space, number = call.op.asm_string.data.partition(" ")
    return [f"{PREFIX}{name}{space}{number}" for name in ("barrier_arrive", "barrier_wait")]


def _number(call: Call) -> IntegerAttr[Any] | None:
    return IntegerAttr(int(call.options["number"]), i32) if "number" in call.options else None


def _half_barrier(call: Call, half: type[xe.HalfBarrierOp]) -> list[SSAValue]:
    Rewriter.insert_op(half(number=_number(call)), call.insertion)
    return []


CALLS: dict[str, Callable[[Call], list[SSAValue]]] = {
    "load_2d": _load_2d, "store_2d": _store_2d, "prefetch_2d": _prefetch_2d, "dpas": _dpas,
    "barrier_arrive": _arrive, "barrier_wait": _wait,
}
