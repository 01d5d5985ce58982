"""Layouts for the accesses of long kernels, as libtriton's pass `tritongpu-coalesce` chooses them.

    tt.load %p : tensor<1024x!tt.ptr<f32>, #blocked>
 -> %q = ttg.convert_layout %p -> #blocked1      four neighbours of an access in one lane
    tt.load %q
    ttg.convert_layout -> #blocked

libtriton walks from each access through all connected values, which takes minutes for 500 accesses.
Here all accesses of a function count as connected: nearly always they are, through its program id
and its constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.layout import BlockedEncoding
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import pointee_bits, pointee_bytes, shape_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.layouts.rematerialize import (
    converted,
    layout_attr_of,
    replace_converted,
    with_encoding,
)
from triton_xe.lowering.rewriting import all_of, functions

Access = LoadOp | StoreOp | AtomicRMWOp | AtomicCASOp
Chosen = tuple[Access, BlockedEncoding]
WIDEST_BITS = 128


def coalesced(ttgir: str) -> str:
    """Lay out the accesses of a module whose tensors all have Triton's default layout."""
    module = import_ttgir(ttgir)
    coalesce(module)
    return write_module(module, locations=True)


def coalesce(module: ModuleOp) -> None:
    """Convert the operands of each access to the layout that suits its addresses."""
    for function in functions(module):
        for access, layout in list(chosen_layouts(function)):
            _move(access, layout)


def chosen_layouts(function: Operation) -> Iterator[Chosen]:
    """Yield the layout for each access of tensors of pointers."""
    facts = Facts(ideal=True)
    found: Iterable[Access] = all_of(function, LoadOp, StoreOp, AtomicRMWOp, AtomicCASOp)
    accesses = [a for a in found if isinstance(a.ptr.type, TensorType)]
    own = {a: _vector(a, facts) for a in accesses}
    groups = {a: (shape_of(a.ptr), _order(a, facts)) for a in accesses}
    widest = {group: max(own[a] for a in accesses if groups[a] == group)
              for group in set(groups.values())}
    for access, (shape, order) in groups.items():
        held = layout_attr_of(access.ptr).encoding
        assert isinstance(held, BlockedEncoding)
        lanes, warps = prod(held.threads_per_warp), prod(held.warps_per_cta)
        vector = min(widest[shape, order], max(prod(shape) // (lanes * warps), 1))
        if not isinstance(access, LoadOp):  # a store with gaps costs more than a load with them
            vector = min(vector, own[access])
        yield access, spread(shape, order, vector, lanes, warps)


def spread(
    shape: Sequence[int], order: Sequence[int], vector: int, lanes: int, warps: int
) -> BlockedEncoding:
    """Layout with `vector` elements per lane along the fastest dim, then lanes and warps.

        >>> str(spread((8, 64), (1, 0), 4, 16, 4))[14:]
        'sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>'
    """
    sizes, in_lanes, in_warps = ([1] * len(shape) for _ in range(3))
    sizes[order[0]] = vector
    threads = lanes * warps
    for dim in order[:-1]:
        here = min(max(threads, 1), max(shape[dim] // sizes[dim], 1))
        in_lanes[dim] = min(here, lanes)
        in_warps[dim] = min(max(here // in_lanes[dim], 1), warps)
        lanes, warps, threads = lanes // in_lanes[dim], warps // in_warps[dim], threads // here
    in_lanes[order[-1]], in_warps[order[-1]] = lanes, warps
    return BlockedEncoding(tuple(sizes), tuple(in_lanes), tuple(in_warps), tuple(order))


def _order(access: Access, facts: Facts) -> tuple[int, ...]:
    """The dims by descending length of their runs of addresses; later dims first if equal."""
    runs = facts.of(access.ptr).contiguity
    return tuple(sorted(reversed(range(len(runs))), key=lambda d: -runs[d]))


def _vector(access: Access, facts: Facts) -> int:
    """Number of elements of the fastest dim that one message of a lane may move."""
    info, dim = facts.of(access.ptr), _order(access, facts)[0]
    aligned = max(info.divisibility[dim] // pointee_bytes(access.ptr), 1)
    run = min(info.contiguity[dim], shape_of(access.ptr)[dim])
    return min(aligned, run, max(WIDEST_BITS // pointee_bits(access.ptr), 1))


def _move(access: Access, layout: BlockedEncoding) -> None:
    """Execute an access in another layout, and convert its result back."""
    encoding, at = layout_attr(layout), InsertPoint.before(access)
    operands = [converted(v, encoding, at) if isinstance(v.type, TensorType) else v
                for v in access.operands]
    replace_converted(access, with_encoding(access, encoding, at, operands))
