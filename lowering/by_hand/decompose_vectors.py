"""The dialect `vector` next to XeGPU and XeTile, in terms of what instructions do.

    vector.load, store, gather, scatter  ->  xegpu.create_tdesc, load_gather, store_scatter
    vector.transpose, extract_strided_slice
                                         ->  vector.permute
    vector.reduction, multi_reduction    ->  halves by vector.permute, added up by arith
    vector.contract                      ->  xetile.tile_mma next to tiles, xegpu.dpas where its
                                             shape is the instruction's, else a sum by vector.fma

A load or store of more elements than an instruction has work-items is several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects import xegpu, xetile
from triton_xe.dialects.arith_ext import ExtFOp, ExtSIOp, IndexCastOp, SelectOp
from triton_xe.dialects.tt.ops import AddPtrOp
from triton_xe.dialects.vector_ext import (
    ContractOp,
    ExtractStridedSliceOp,
    GatherOp,
    MultiReductionOp,
    PermuteOp,
    ScatterOp,
    ShapeCastOp,
    StepOp,
    TransposeOp,
    element_of,
    numbers,
    vector_shape,
)
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.lowering.by_hand.packed_elements import (
    compute_in_bytes,
    is_packed,
    repacked,
    unpacked,
)
from triton_xe.lowering.rewriting import all_of, below

WORK_ITEMS = 16
"""Entries of one scattered descriptor."""
_INTEGERS: dict[str, type[Operation]] = {
    "add": arith.AddiOp, "mul": arith.MuliOp, "and": arith.AndIOp, "or": arith.OrIOp,
    "xor": arith.XOrIOp, "minsi": arith.MinSIOp, "maxsi": arith.MaxSIOp, "minui": arith.MinUIOp,
    "maxui": arith.MaxUIOp,
}
_FLOATS: dict[str, type[Operation]] = {
    "add": arith.AddfOp, "mul": arith.MulfOp, "minnumf": arith.MinnumfOp,
    "maxnumf": arith.MaxnumfOp, "minimumf": arith.MinimumfOp, "maximumf": arith.MaximumfOp,
}


Pick = TransposeOp | ExtractStridedSliceOp


class _Before:
    """Writes operations in front of one."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self._at = InsertPoint.before(op)

    def put(self, new: Operation) -> SSAValue:
        new.location = self.op.location
        Rewriter.insert_op(new, self._at)
        return new.results[0] if new.results else self.op.operands[0]

    def constant(self, kind: VectorType[Any], values: Sequence[int]) -> SSAValue:
        return self.put(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, values)))

    def permuted(
        self, value: SSAValue, origins: Sequence[int], shape: Sequence[int] | None = None
    ) -> SSAValue:
        """Elements of a vector by number, as a vector of `shape`."""
        kind = VectorType(element_of(value), [len(origins)] if shape is None else shape)
        if list(origins) != list(range(prod(vector_shape(value)))):
            if is_packed(value.type):
                held = unpacked(self, value, signed=False)
                return repacked(self, self.permuted(held, origins, kind.get_shape()))
            return self.put(PermuteOp([value], origins, kind))
        return value if value.type == kind else self.put(ShapeCastOp(value, kind))

    def line(self, value: SSAValue) -> SSAValue:
        """The elements of a vector in one dimension."""
        shape = vector_shape(value)
        kind = VectorType(element_of(value), [prod(shape)])
        return value if len(shape) == 1 else self.put(ShapeCastOp(value, kind))

    def combined(self, how: str, left: SSAValue, right: SSAValue) -> SSAValue:
        floats = isinstance(element_of(left), AnyFloat)
        made = (_FLOATS if floats else _INTEGERS).get(how)
        if made is None:
            raise UnsupportedError(f"{self.op.name} <{how}> of {element_of(left)}")
        return self.put(made.create(operands=[left, right], result_types=[left.type]))

    def replace(self, value: SSAValue) -> None:
        Rewriter.replace_op(self.op, [], [value])


def decompose_vectors(function: Operation, device: Target) -> None:
    """Replace operations of the vector dialect that XeGPU lacks by simpler ones.

    Accesses to memrefs remain; `lower_access` replaces them.
    """
    picks: list[Pick] = all_of(function, TransposeOp, ExtractStridedSliceOp)
    for op in picks:
        _pick(op)
    tiles = any(isinstance(op, tuple(xetile.XeTile.operations)) for op in below(function))
    for contract in all_of(function, ContractOp):
        _contract(contract, device, tiles)
    for reduction in all_of(function, vector.ReductionOp):
        _reduction(reduction)
    for several in all_of(function, MultiReductionOp):
        _multi_reduction(several)
    for each in list(function.walk()):
        before = _Before(each)
        found = compute_in_bytes(before)
        if found is not None:
            before.replace(found)
    if tiles:
        for each in list(function.walk()):
            _flatten(each)


# -- tiles -----------------------------------------------------------------------------------------


def _flatten(op: Operation) -> None:
    """Rewrite an op that permutes a tile's elements to one on vectors of one dimension."""
    before = _Before(op)
    if isinstance(op, PermuteOp):
        sources, origins = list(op.sources), list(op.origins.get_values())
    elif isinstance(op, vector.ExtractOp | vector.InsertOp | vector.BroadcastOp | ShapeCastOp):
        found = _as_permutation(before, op)
        if found is None:
            return
        sources, origins = found
    else:
        return
    result = op.results[0]
    if not isinstance(result.type, VectorType):
        before.replace(_scalar(before, before.permuted(before.line(sources[0]), origins)))
    elif any(len(vector_shape(v)) > 1 for v in (*sources, result)):
        line = VectorType(element_of(result), [len(origins)])
        if len(sources) == 1:
            sources[0], origins = _composed(sources[0], origins)
        made = before.put(PermuteOp([before.line(v) for v in sources], origins, line))
        before.replace(_reshaped(before, made, result.type))


def _composed(source: SSAValue, origins: list[int]) -> tuple[SSAValue, list[int]]:
    """Compose a permutation with that of the source, if the source is a permutation too."""
    made = source.owner
    while isinstance(made, ShapeCastOp) or (isinstance(made, PermuteOp) and len(made.sources) == 1):
        if isinstance(made, PermuteOp):
            held = made.origins.get_values()
            origins = [o if o < 0 else held[o] for o in origins]
        source = made.operands[0]
        made = source.owner
    return source, origins


def _as_permutation(before: _Before, op: Any) -> tuple[list[SSAValue], list[int]] | None:
    """Return an operation as a permutation: its sources, and the origins of elements.

    None if it stays as it is.
    """
    if isinstance(op, vector.BroadcastOp | ShapeCastOp):
        source = op.source
        shapes = [vector_shape(v) for v in (source, op.results[0]) if isinstance(
            v.type, VectorType)]
        wide = max(map(len, shapes))
        if len(shapes) < 2 or wide < 2 or (isinstance(op, ShapeCastOp) and min(map(
                len, shapes)) == 1):
            return None
        size, count = prod(shapes[0]), prod(shapes[1])
        return [source], _broadcast(shapes[0], shapes[1]) if size < count else list(range(size))
    whole = op.vector if isinstance(op, vector.ExtractOp) else op.dest
    shape = vector_shape(whole)
    position = list(op.static_position.get_values())
    if len(shape) < 2 or min(position, default=0) < 0:
        return None
    rest = prod(shape[len(position) :])
    first = _flat(position, shape[: len(position)]) * rest
    if isinstance(op, vector.ExtractOp):
        return [whole], list(range(first, first + rest))
    part = op.source
    if not isinstance(part.type, VectorType):
        part = before.put(vector.BroadcastOp.create(
            operands=[part], result_types=[VectorType(part.type, [1])]))
    return [part, whole], [p - first if first <= p < first + rest else rest + p
                           for p in range(prod(shape))]


def _broadcast(source: Sequence[int], result: Sequence[int]) -> list[int]:
    """Number of the source's element for each element of a broadcast.

    Dimensions are added in front, and those of size 1 are repeated.
    """
    padded = [1] * (len(result) - len(source)) + list(source)
    return [_flat([0 if size == 1 else p for p, size in zip(at, padded, strict=True)], padded)
            for at in product(*map(range, result))]


# -- elements in another order --------------------------------------------------------------------


def _flat(position: Sequence[int], shape: Sequence[int]) -> int:
    """The number of an element, counted row by row."""
    flat = 0
    for p, size in zip(position, shape, strict=True):
        flat = flat * size + p
    return flat


def _pick(op: Pick) -> None:
    """Replace a transpose, extract or slice by a permutation of elements."""
    shape = vector_shape(op.vector)
    if isinstance(op, TransposeOp):
        order = numbers(op.permutation)
        positions: Iterable[Sequence[int]] = (
            [at[order.index(d)] for d in range(len(shape))]
            for at in product(*(range(shape[d]) for d in order)))
    else:
        positions = product(*op.box)
    before = _Before(op)
    origins = [_flat(p, shape) for p in positions]
    before.replace(before.permuted(op.vector, origins, vector_shape(op.result)))


# -- sums and products ----------------------------------------------------------------------------


def _reduction(op: vector.ReductionOp) -> None:
    before, size = _Before(op), prod(vector_shape(op.vector))
    found = _scalar(before, _folded(before, str(op.kind.data), op.vector, size, 1))
    before.replace(found if op.acc is None else before.combined(str(op.kind.data), op.acc, found))


def _multi_reduction(op: MultiReductionOp) -> None:
    """Combine slices of the kept dimensions; if only the last is reduced, halve it first."""
    shape, kept, how = vector_shape(op.source), op.kept, str(op.kind.data)
    gone = [d for d in range(len(shape)) if d not in kept]
    before = _Before(op)
    value = op.source
    while gone == [len(shape) - 1] and shape[-1] % 2 == 0:
        halves = [[at * shape[-1] + c for at in range(prod(shape[:-1]))
                   for c in range(first, first + shape[-1] // 2)]
                  for first in (0, shape[-1] // 2)]
        shape = (*shape[:-1], shape[-1] // 2)
        value = before.combined(how, *(before.permuted(value, half) for half in halves))
    origins = [_flat([at[[*gone, *kept].index(d)] for d in range(len(shape))], shape)
               for at in product(*(range(shape[d]) for d in (*gone, *kept)))]
    each = prod(shape[d] for d in kept)
    slices = before.permuted(value, origins)
    found = _folded(before, how, slices, len(origins) // each, each)
    found = _reshaped(before, found, op.dest.type)
    before.replace(before.combined(how, found, op.acc))


def _folded(before: _Before, how: str, value: SSAValue, count: int, each: int) -> SSAValue:
    """`count` runs of `each` elements, combined to one run by halves."""
    rest: list[SSAValue] = []
    while count > 1:
        half = count // 2
        if count % 2:
            rest.append(before.permuted(value, range(2 * half * each, count * each)))
        low = before.permuted(value, range(half * each))
        high = before.permuted(value, range(half * each, 2 * half * each))
        value, count = before.combined(how, low, high), half
    for odd in rest:
        value = before.combined(how, value, odd)
    return value


def _scalar(before: _Before, value: SSAValue) -> SSAValue:
    made = vector.ExtractOp.create(
        operands=[value], result_types=[element_of(value)],
        properties={"static_position": DenseArrayBase.from_list(i64, [0])})
    return before.put(made)


def _reshaped(before: _Before, value: SSAValue, kind: Attribute) -> SSAValue:
    """The elements as a vector of another shape, or the only one."""
    if not isinstance(kind, VectorType):
        return _scalar(before, value)
    return value if value.type == kind else before.put(ShapeCastOp(value, kind))


def _contract(op: ContractOp, device: Target, tiles: bool) -> None:
    """Replace a contraction by a DPAS product if one fits, else by sums of products of vectors."""
    if op.kind is not None and op.kind.data != "add":
        raise UnsupportedError(f"vector.contract <{op.kind.data}>: only sums of products")
    before, (left, right, result) = _Before(op), op.maps
    if len(result) == 2 and (left[:1] + right[1:], left[1:]) == (result, right[:1]):
        made = _as_product(before, op, device, tiles)
        if made is not None:
            before.replace(before.put(made))
            return
    if tiles:
        raise UnsupportedError(
            "vector.contract of tiles is a product MxK . KxN; transpose when they are loaded")
    sizes, kind = op.sizes, op.result.type
    inner = [d for d in sizes if d not in result]
    places = list(product(*(range(sizes[d]) for d in result)))
    total = op.acc
    if not isinstance(kind, VectorType):
        total = before.put(vector.BroadcastOp.create(
            operands=[total], result_types=[VectorType(kind, [1])]))
    for at in product(*(range(sizes[d]) for d in inner)):
        factors = []
        for value, dims in ((op.lhs, left), (op.rhs, right)):
            known = [{**dict(zip(result, p, strict=True)), **dict(zip(inner, at, strict=True))}
                     for p in places]
            origins = [_flat([k[d] for d in dims], vector_shape(value)) for k in known]
            picked = before.permuted(value, origins, vector_shape(total))
            factors.append(_extended(before, picked, element_of(total)))
        total = _plus_product(before, factors[0], factors[1], total)
    before.replace(_reshaped(before, total, kind))


def _as_product(
    before: _Before, op: ContractOp, device: Target, tiles: bool
) -> Operation | None:
    """Lower a contraction to one DPAS instruction, or to one op of tiles."""
    if tiles:
        return xetile.TileMmaOp(a=op.lhs, b=op.rhs, acc=op.acc)
    if vector_shape(op.rhs)[1] != device.dpas_execution_size or not _is_dpas(op):
        return None
    own: dict[str, Any] = {  # values of their own, because DPAS distributes them in its own way
        name: before.put(PermuteOp([value], range(prod(vector_shape(value))), value.type))
        for name, value in (("a", op.lhs), ("b", op.rhs), ("acc", op.acc))}
    return xegpu.DpasOp(**own)


def _is_dpas(op: ContractOp) -> bool:
    """True if the verifier of `xegpu.dpas` accepts these operands."""
    made = xegpu.DpasOp(a=op.lhs, b=op.rhs, acc=op.acc)
    try:
        made.verify_()
    except VerifyException:
        return False
    finally:
        made.erase()
    return True


def _extended(before: _Before, value: SSAValue, element: Attribute) -> SSAValue:
    """Extend elements to another type."""
    if element_of(value) == element:
        return value
    kind = VectorType(element, vector_shape(value))
    made = ExtFOp if isinstance(element, AnyFloat) else ExtSIOp
    return before.put(made(value, kind))


def _plus_product(before: _Before, a: SSAValue, b: SSAValue, total: SSAValue) -> SSAValue:
    if isinstance(element_of(total), AnyFloat):
        return before.put(vector.FMAOp(a, b, total))
    return before.combined("add", total, before.combined("mul", a, b))


# -- memory ---------------------------------------------------------------------------------------


Access = vector.LoadOp | vector.StoreOp | GatherOp | ScatterOp
ACCESSES = (vector.LoadOp, vector.StoreOp, GatherOp, ScatterOp)


def lower_access(op: Access, address: SSAValue, kind: MemRefType[Any], scope: str) -> None:
    """Replace an access to a memref by scattered accesses of `WORK_ITEMS` elements each.

    The first element of the memref is at `address`.
    """
    before = _Before(op)
    value = op.vector if isinstance(op, vector.StoreOp) else op.value if isinstance(
        op, ScatterOp) else op.result
    shape, element = vector_shape(value), element_of(value)
    if len(shape) != 1:
        raise UnsupportedError(f"{op.name} of {value.type}: one dimension at a time")
    base = _element_address(before, address, kind, op.indices, scope)
    count = shape[0]
    if isinstance(op, GatherOp | ScatterOp):
        places, mask = op.index_vec, op.mask
    else:
        places = before.put(StepOp.create(result_types=[VectorType(IndexType(), shape)]))
        mask = before.constant(VectorType(i1, shape), [1] * count)
    desc = xegpu.tensor_desc((WORK_ITEMS,), element, memory_scope=scope, scattered=True)
    parts = []
    for first in range(0, count, WORK_ITEMS):
        here = [p if p < count else -1 for p in range(first, first + WORK_ITEMS)]
        at = before.put(xegpu.CreateTdescOp(
            base=base, offsets=before.permuted(places, here), desc_type=desc))
        given: dict[str, Any] = {"desc": at, "mask": before.permuted(mask, here)}
        if isinstance(op, vector.StoreOp | ScatterOp):
            before.put(xegpu.StoreScatterOp(value=before.permuted(value, here), **given))
        else:
            loaded = VectorType(element, [WORK_ITEMS])
            parts.append(before.put(xegpu.LoadGatherOp(value_type=loaded, **given)))
    if not parts:
        Rewriter.erase_op(op)
        return
    found = parts[0] if value.type == parts[0].type else before.put(
        PermuteOp(parts, range(count), value.type))
    if isinstance(op, GatherOp):
        found = before.put(SelectOp(mask, found, op.pass_thru))
    before.replace(found)


def _element_address(
    before: _Before, address: SSAValue, kind: MemRefType[Any], indices: Sequence[SSAValue],
    scope: str,
) -> SSAValue:
    """The address of the element that the indices name."""
    strides = kind.get_strides() or ()
    if len(strides) != len(indices) or {None, DYNAMIC_INDEX} & set(strides) or strides[-1:] not in (
            (), (1,)):
        raise UnsupportedError(
            f"{before.op.name}: the strides of {kind} are not known, or the last one is not 1")
    element = kind.element_type
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else bit_width(element)
    size = 1 if scope == "global" else bits // 8
    for index, stride in zip(indices, strides, strict=True):
        wide = before.put(IndexCastOp(index, i64))
        scale = before.put(arith.ConstantOp(IntegerAttr(int(stride or 0) * size, i64)))
        step = before.put(arith.MuliOp(wide, scale))
        address = before.put(AddPtrOp.create(
            operands=[address, step], result_types=[address.type],
        ) if scope == "global" else arith.AddiOp(address, step))
    return address
