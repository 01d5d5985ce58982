"""MLIR attribute text -> encoding, with the column of every mistake.

>>> parse_encoding("#ttg.slice<{dim = 1, parent = #blocked}>", {"#blocked":
...     "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 8], warpsPerCTA = [1, 1],"
...     " order = [1, 0]}>"}).dim
1
>>> parse_encoding("#ttg.slice<{dim = x}>")
Traceback (most recent call last):
    ...
triton_xe.errors.LayoutError: column 19: expected a number, '[', '{', '#', true or false, found 'x'
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from triton_xe.layout.amd import AmdMfmaEncoding, AmdWmmaEncoding
from triton_xe.layout.attribute_text import (
    AttributeReader,
    Builder,
    Fields,
    fail,
    show,
)
from triton_xe.layout.dpas import DpasEncoding
from triton_xe.layout.encodings import (
    DISTRIBUTED_DIMS,
    SPELLING,
    BlockedEncoding,
    DotOperandEncoding,
    Encoding,
    GenericLinearEncoding,
    LinearEncoding,
    SliceEncoding,
)
from triton_xe.layout.gluon import AutoEncoding, CoalescedEncoding
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.nvidia import NvidiaMmaEncoding
from triton_xe.layout.shared import (
    AmdRotatingSharedEncoding,
    NvmmaSharedEncoding,
    PaddedSharedEncoding,
    PartitionedSharedEncoding,
    SharedLinearEncoding,
    SharedMemorySpace,
    SwizzledSharedEncoding,
    block_dim,
)
from triton_xe.layout.tensor_memory import (
    SCALE_ORDERS,
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
    TensorMemorySpace,
)
from triton_xe.layout.tiling import BlockBases, dim_names, identity

AnyEncoding = TypeVar("AnyEncoding", bound=Encoding)


def parse_encoding(text: str, aliases: Mapping[str, str] | None = None) -> Encoding:
    """The encoding `text` spells; `LayoutError` names the column and what was expected there.

    `aliases` maps `#name` to attribute text, as the head of a ttgir file does (`read_aliases`).
    """
    return AttributeReader(text, aliases or {}, builders()).whole()


def read_aliases(ttgir: str) -> dict[str, str]:
    """The `#name = #attribute` lines of an MLIR file."""
    return dict(re.findall(r"^(#[\w$-]+)\s*=\s*(#.*?)\s*$", ttgir, re.MULTILINE))


@lru_cache(maxsize=1)
def builders() -> Mapping[str, Builder]:
    """Mnemonic -> how to build the encoding."""
    result: dict[str, Builder] = {
        "ttg.blocked": partial(_built, BlockedEncoding),
        "ttg.slice": partial(_built, SliceEncoding),
        "ttg.linear": lambda fields: LinearEncoding(_distributed_layout(fields)),
        "ttg.generic_linear": lambda fields: GenericLinearEncoding(_distributed_layout(fields)),
        "ttg.dot_op": partial(_built, DotOperandEncoding),
        "ttg.nvidia_mma": partial(_built, NvidiaMmaEncoding),
        "ttg.amd_mfma": partial(_built, AmdMfmaEncoding),
        "ttg.amd_wmma": _amd_wmma,
        "ttg.swizzled_shared": partial(_built, SwizzledSharedEncoding),
        "ttg.amd_rotating_shared": partial(_built, AmdRotatingSharedEncoding),
        "ttg.padded_shared": _padded_shared,
        "ttg.nvmma_shared": _nvmma_shared,
        "ttg.shared_linear": _shared_linear,
        "ttg.partitioned_shared": partial(_built, PartitionedSharedEncoding),
        "ttg.shared_memory": lambda fields: SharedMemorySpace(),
        "ttng.tensor_memory_encoding": partial(_built, TensorMemoryEncoding),
        "ttng.tensor_memory_scales_encoding": partial(_built, TensorMemoryScalesEncoding),
        "ttng.tensor_memory": lambda fields: TensorMemorySpace(),
        "gluon.auto_encoding": lambda fields: AutoEncoding(),
        "gluon.coalesced_encoding": lambda fields: CoalescedEncoding(),
        "xe.dpas": _dpas,
        "ttig.dpas": _dpas,
        "triton_intel_gpu.dpas": _dpas,
    }
    return result


def _built(encoding: type[AnyEncoding], fields: Fields) -> AnyEncoding:
    """An encoding whose fields say how they are spelled (`mlir`)."""
    values: dict[str, Any] = {}
    for entry in dataclasses.fields(encoding):  # type: ignore[arg-type]
        spelling = entry.metadata[SPELLING]
        if entry.type == "BlockBases":
            rank = next((len(v) for v in values.values() if isinstance(v, tuple)), 2)
            values[entry.name] = fields.block_bases(rank)
        elif spelling.absent is None or fields.has(spelling.name):
            values[entry.name] = _READERS[str(entry.type)](fields, spelling.name)
        else:
            values[entry.name] = spelling.absent
    return encoding(**values)


_READERS: Mapping[str, Callable[[Fields, str], Any]] = {
    "int": Fields.integer,
    "Ints": Fields.integers,
    "bool": Fields.boolean,
    "str": lambda fields, name: fields.word(name, SCALE_ORDERS),
    "DistributedEncoding": Fields.parent,
    "SharedEncoding": Fields.shared,
}
"""By the type of a field."""


def _distributed_layout(fields: Fields) -> LinearLayout:
    bases = {name: fields.bases(name) for name in DISTRIBUTED_DIMS}
    return named_layout(bases, fields)


def named_layout(bases: Mapping[str, BlockBases], fields: Fields) -> LinearLayout:
    """A layout to dim0, dim1, ...; `LayoutError` when no basis tells the rank."""
    ranks = {len(vector) for vectors in bases.values() for vector in vectors}
    rank = fields.integer("rank") if fields.has("rank") else (ranks.pop() if ranks else 0)
    if not rank:
        fail(fields.column, "at least one basis, to know the rank", "none")
    return LinearLayout(bases, dim_names(rank))


def _dpas(fields: Fields) -> Encoding:
    """Also reads the derived entries A, B, C of Intel's spelling, and checks them.

    `fp4KPack` (pairs of 4-bit elements in bytes) does not change where the bytes are.
    """
    result = _built(DpasEncoding, fields)
    derived = {"A": result.shape_a, "B": result.shape_b, "C": result.shape_c}
    for name, shape in derived.items():
        if fields.has(name) and fields.integers(name)[-2:] != shape:
            item = fields.item(name)
            fail(item.column, f"{name} = {list(shape)}", show(item.value))
    if fields.has("fp4KPack") and (fields.integer("fp4KPack"), result.ops_per_channel) != (2, 4):
        fail(fields.item("fp4KPack").column, "fp4KPack = 2 with opsPerChan = 4", "another pair")
    return result


def _amd_wmma(fields: Fields) -> Encoding:
    """Without `rank`, the rank is that of the bases, and 2 when there are none."""
    warps = fields.nested("ctaLayout")
    bases = {n: warps.bases(n) if warps.has(n) else () for n in ("register", "warp")}
    warps.finish()
    lengths = {len(basis) for part in bases.values() for basis in part}
    rank = fields.integer("rank", max(lengths, default=2))
    return AmdWmmaEncoding(
        fields.integer("version"),
        fields.boolean("isTranspose", False),
        LinearLayout(bases, dim_names(rank)),
        fields.block_bases(rank),
        fields.integers("instrShape") if fields.has("instrShape") else (16, 16, 16),
    )


def _shared_layout(fields: Fields) -> LinearLayout:
    bases = {"offset": fields.bases("offset")}
    bases["block"] = fields.bases("block") if fields.has("block") else ()
    return named_layout(bases, fields)


def _padded_shared(fields: Fields) -> Encoding:
    if not fields.paddings:
        fail(fields.column, "'[interval:+padding, ...]'", "'{'")
    if fields.has("order"):
        order, shape = fields.integers("order"), fields.integers("shape")
        if sorted(order) != list(range(len(shape))):
            fail(fields.item("order").column, f"an order of {len(shape)} dims", str(list(order)))
        rows = identity("offset", shape, order).transpose_outs(dim_names(len(shape)))
        layout = rows * block_dim(len(shape))
    else:
        layout = _shared_layout(fields)
    intervals, paddings = zip(*fields.paddings, strict=True)
    return PaddedSharedEncoding(intervals, paddings, layout)


def _nvmma_shared(fields: Fields) -> Encoding:
    rank = fields.integer("rank", 2)
    if not fields.has("rank") and fields.has("CGALayout"):
        rank = max((len(basis) for basis in fields.bases("CGALayout")), default=2)
    return NvmmaSharedEncoding(
        fields.integer("swizzlingByteWidth"),
        fields.boolean("transposed", False),
        fields.integer("elementBitWidth"),
        fields.boolean("fp4Padded", False),
        fields.block_bases(rank),
        rank,
    )


def _shared_linear(fields: Fields) -> Encoding:
    return SharedLinearEncoding(_shared_layout(fields), fields.integer("alignment"))
