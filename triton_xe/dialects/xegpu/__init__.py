"""Dialect `xegpu`: one op, one instruction of the Xe matrix and memory units.

A tensor descriptor is an address: of a block of a 1D or 2D tensor, or of one chunk per work-item
(scattered).  Ops work on the whole subgroup's vector, or, where the descriptor has an sg_map, on
one work-item's fragment of it.

    %t = xegpu.create_nd_tdesc %base, %y, %x, %h, %w, %pitch, 1
         : ui64, index, index, index, index, index -> !xegpu.tensor_desc<8x16xbf16>
    %a = xegpu.load_nd %t {L1_hint = cached} : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>

Source: the XeGPU RFC; a test reads its examples unchanged.  These rules apply where the RFC
contradicts itself or leaves something open:

Spelling
- One spelling for the dialect (`xegpu`, not `XeGPU` or `XeGpu`), and `->` before results (`into`
  and `to` are read).  The other spellings are `L1_hint` (`L1` is read), `ui8` for `uint8` and
  `Uint8_t`, `f32` for `fp32` and `float`, `f16` for `fp16`.  `!xegpu.tdesc_attr` is an attribute:
  `#xegpu.tdesc_attr`.
- `read_invaldiate` is read as `read_invalidate`.
- `scattered` is one of the attributes of tdesc_attr; `#xegpu.scattered` is short for it.
- `XeGPU.creat_nbarrier` and the table's `alloc_nbarrier` that returns a barrier are
  `alloc_nbarrier` and `init_nbarrier`; `update_offsets` is `update_offset`.
- `nbarrier_arrive` and `nbarrier_wait` have a type after a colon, as in the table.

Operands
- Offsets, shapes and strides are listed outermost dimension first, like the sizes of the type.
  "base_stride[0]" of the text, which must be 1, is the last one.  The summary table has one
  stride, its example and the text two: five numbers are read, the inner stride then is 1.
- The type of C may be left out in `dpas` when it is that of the result, as in one example.  The
  table puts C first; the text, followed here, puts it last.
- `store_scatter` types are in the order of its operands; one example swaps the last two.
- `atomic_rmw` separates its kind by a comma, as in the table.
- The first XeGPU, in the RFC that introduces XeTile, has other names.  The test reads its
  init_tile, load_2D, store_2D and prefetch_2D as create_nd_tdesc, load_nd, store_nd and
  prefetch_nd.  A VNNI_AXIS that moves no data becomes a shape cast; load_1d and store_1d become 1D
  blocks.  In its load_scalar and store_scalar, the type `any` is read as f32.

Rules
- A 1D block must say boundary_check = false where it is created, as the text has it.  The examples
  that store and prefetch `tensor_desc<16xbf16>` verify, but no create_nd_tdesc makes that type.
- The table's store_scatter has L1 = cached; the text gives writes uncached, write_through,
  write_back and streaming, and so does the verifier.
- Hints say nothing about shared local memory, which is not cached; examples have them there, and
  they are ignored.  A prefetch whose hints keep nothing in any cache is refused when it is lowered.
- chunk_size_per_lane is the second size of a scattered descriptor and need not be repeated.
  Examples give it in the tdesc_attr, on create_tdesc, or not at all.  A different one is refused.
- "The result tensor is always in 2D" contradicts the packed examples and the text before it: a
  packed block is 3D, rows/v x columns x v.
- transpose_bit_width: the text speaks of a tile of 32x16, whose transpose is 8x64; its examples
  have 16x16, whose transpose is 8x32.
- An array of blocks is one vector, blocks side by side (in fragments: one after the other), or has
  a leading dimension.  The RFC only says what the descriptor covers.
- For 1D descriptors the text demands wi_layout[1] = 1, the rules for PVC and ARC demand
  wi_layout[0] = 1: either holds here.
- "For load_nd with packed, wi_layout is transposed" is in the paragraph on transpose, and is read
  as a rule for transpose.
- The 2D example loads the 16x16 B through the descriptor of A, and stores to one that it never
  makes.  Descriptors here have the type of their use.  Likewise #tdesc_attr2 and #sg_map_b in an A
  load name attributes that are not the ones defined above them.
- The "regular load" example stores a fragment vector<4xfp32> through a descriptor without sg_map.
  The text demands the map, so this is refused; with it, the example verifies.
- dpas: f32 factors are tf32; signless integers are signed; sg_maps of types that the tables lack
  follow the tables' rule (see `xegpu.dpas`).
"""

from __future__ import annotations

from xdsl.ir import Dialect

from triton_xe.dialects.access_attributes import (
    AtomicKindAttr,
    CacheHintAttr,
    FenceScopeAttr,
    MemoryKindAttr,
    MemoryScopeAttr,
    ScatteredAttr,
    SgMapAttr,
    TdescAttr,
    sg_map,
    tdesc_attr,
)
from triton_xe.dialects.text.assembly import ops_of
from triton_xe.dialects.xegpu import dpas, nd, scalar, scattered, sync
from triton_xe.dialects.xegpu.dpas import DpasMxOp, DpasOp
from triton_xe.dialects.xegpu.nd import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
)
from triton_xe.dialects.xegpu.scalar import LoadScalarOp, StoreScalarOp
from triton_xe.dialects.xegpu.scattered import (
    AtomicRmwOp,
    CreateTdescOp,
    LoadGatherOp,
    PrefetchOp,
    StoreScatterOp,
    UpdateOffsetOp,
)
from triton_xe.dialects.xegpu.sync import (
    AllocNbarrierOp,
    FenceOp,
    InitNbarrierOp,
    NbarrierArriveOp,
    NbarrierWaitOp,
)
from triton_xe.dialects.xegpu.types import NbarrierType, TensorDescType, tensor_desc

__all__ = [
    "AllocNbarrierOp",
    "AtomicRmwOp",
    "CreateNdTdescOp",
    "CreateTdescOp",
    "DpasMxOp",
    "DpasOp",
    "FenceOp",
    "InitNbarrierOp",
    "LoadGatherOp",
    "LoadNdOp",
    "LoadScalarOp",
    "NbarrierArriveOp",
    "NbarrierWaitOp",
    "PrefetchNdOp",
    "PrefetchOp",
    "StoreNdOp",
    "StoreScalarOp",
    "StoreScatterOp",
    "UpdateNdOffsetOp",
    "UpdateOffsetOp",
    "XeGPU",
    "sg_map",
    "tdesc_attr",
    "tensor_desc",
]

XeGPU = Dialect(
    "xegpu",
    ops_of(vars(nd), vars(dpas), vars(scalar), vars(scattered), vars(sync)),
    [
        TensorDescType, NbarrierType, SgMapAttr, TdescAttr, ScatteredAttr, CacheHintAttr,
        MemoryScopeAttr, FenceScopeAttr, MemoryKindAttr, AtomicKindAttr,
    ],
)  # fmt: skip
