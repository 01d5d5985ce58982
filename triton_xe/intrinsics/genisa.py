"""Intrinsics of Intel's graphics compiler, `llvm.genx.GenISA.*`.

Each row's source is IGC's table `Intrinsic_definitions.yml`, entry `GenISA_<name>`; argument lists
were probed with ocloc 26.27.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import row

PREFIX = "llvm.genx.GenISA."


def _genisa(name: str, signature: str, family: Family, **rest: Any) -> Intrinsic:
    source = f"IGC, Intrinsic_definitions.yml: GenISA_{name.replace('.', '_')}"
    return row(PREFIX + name, signature, family, source, **rest)


# --- memory of each lane ---------------------------------------------------------------------

PREDICATED_LOAD = _genisa(
    "PredicatedLoad", "T (pointer: P, =align: i64, mask: i1, other: T)", Family.MASKED,
    overloads="T P T", effects=Effect.READS, defined_by="memory.masked_load")
PREDICATED_STORE = _genisa(
    "PredicatedStore", "void (pointer: P, value: T, =align: i64, mask: i1)", Family.MASKED,
    overloads="P T", effects=Effect.WRITES, defined_by="memory.masked_store")
LSC_LOAD = _genisa(
    "LSCLoad", "T (pointer: P, =offset: i32, =size: i32, =count: i32, =cache: i32)", Family.MASKED,
    overloads="T P", effects=Effect.READS, defined_by="memory.load")
LSC_STORE = _genisa(
    "LSCStore",
    "void (pointer: P, =offset: i32, value: T, =size: i32, =count: i32, =cache: i32)",
    Family.MASKED, overloads="P T", effects=Effect.WRITES, defined_by="memory.store")
LSC_PREFETCH = _genisa(
    "LSCPrefetch", "void (pointer: P, =offset: i32, =size: i32, =count: i32, =cache: i32)",
    Family.HINT, overloads="P")

# --- blocks ----------------------------------------------------------------------------------

_BLOCK: dict[str, Any] = dict(available=attrgetter("has_block_2d"), uniformity=Uniformity.LANE)
_SURFACE = "~base: i64, ~width: i32, ~height: i32, ~pitch: i32, ~x: i32, ~y: i32"
_SHAPE = ("=bits: i32, =tile_width: i32, =tile_height: i32, =blocks: i32, =transpose: i1, "
          "=vnni: i1, =cache: i32")
_STEP = "~payload: p, =x: i32, =y: i32"
_READ = Effect.READS | Effect.CONVERGENT
_WRITE = Effect.WRITES | Effect.CONVERGENT

LSC_2D_BLOCK_READ = _genisa(
    "LSC2DBlockRead", f"R ({_SURFACE}, {_SHAPE})", Family.BLOCK_2D, overloads="R",
    effects=_READ, defined_by="block_2d.block_read", **_BLOCK)
LSC_2D_BLOCK_READ_PAYLOAD = _genisa(
    "LSC2DBlockReadAddrPayload", f"R ({_STEP}, {_SHAPE})", Family.BLOCK_2D, overloads="R p0i32",
    effects=_READ | Effect.PRIVATE, defined_by="block_2d.block_read", **_BLOCK)
LSC_2D_BLOCK_WRITE = _genisa(
    "LSC2DBlockWrite", f"void ({_SURFACE}, {_SHAPE}, value: V)", Family.BLOCK_2D, overloads="V",
    effects=_WRITE, defined_by="block_2d.block_write", **_BLOCK)
LSC_2D_BLOCK_WRITE_PAYLOAD = _genisa(
    "LSC2DBlockWriteAddrPayload", f"void ({_STEP}, {_SHAPE}, value: V)", Family.BLOCK_2D,
    overloads="p0i32 V", effects=_WRITE | Effect.PRIVATE, defined_by="block_2d.block_write",
    **_BLOCK)
LSC_2D_BLOCK_PREFETCH = _genisa(
    "LSC2DBlockPrefetch", f"void ({_SURFACE}, {_SHAPE})", Family.BLOCK_2D,
    effects=Effect.CONVERGENT, defined_by="block_2d.block_prefetch", **_BLOCK)
LSC_2D_BLOCK_PREFETCH_PAYLOAD = _genisa(
    "LSC2DBlockPrefetchAddrPayload", f"void ({_STEP}, {_SHAPE})", Family.BLOCK_2D,
    overloads="p0i32", effects=Effect.CONVERGENT | Effect.PRIVATE,
    defined_by="block_2d.block_prefetch", **_BLOCK)

FIELDS = ("base", "width", "height", "pitch", "x", "y")
"""Fields of a payload in the order of their numbers, which begin at 1."""
BASE, X, Y = (FIELDS.index(name) + 1 for name in ("base", "x", "y"))

_PAYLOAD: dict[str, Any] = dict(
    available=attrgetter("has_block_2d"), uniformity=Uniformity.SUBGROUP, effects=Effect.PRIVATE)
LSC_2D_BLOCK_CREATE_PAYLOAD = _genisa(
    "LSC2DBlockCreateAddrPayload",
    f"p ({_SURFACE}, =tile_width: i32, =tile_height: i32, =blocks: i32)", Family.PAYLOAD,
    overloads="p0i32", defined_by="block_2d.create_payload", **_PAYLOAD)
LSC_2D_BLOCK_COPY_PAYLOAD = _genisa(
    "LSC2DBlockCopyAddrPayload", "p (~payload: p)", Family.PAYLOAD, overloads="p0i32 p0i32",
    defined_by="block_2d.copy_payload", **_PAYLOAD)
LSC_2D_BLOCK_SET_PAYLOAD_FIELD = _genisa(
    "LSC2DBlockSetAddrPayloadField", "void (~payload: p, =field: i32, ~value: V, =add: i1)",
    Family.PAYLOAD, overloads="p0i32 V", defined_by="block_2d.set_payload_field", **_PAYLOAD)

SIMD_BLOCK_READ = _genisa(
    "simdBlockRead", "R (~pointer: P)", Family.BLOCK_1D, overloads="R P", effects=_READ,
    uniformity=Uniformity.LANE, defined_by="block_1d.block_read")
SIMD_BLOCK_WRITE = _genisa(
    "simdBlockWrite", "void (~pointer: P, value: V)", Family.BLOCK_1D, overloads="P V",
    effects=_WRITE, defined_by="block_1d.block_write")

DPAS = _genisa(
    "sub.group.dpas",
    "T (accumulator: T, a: A, b: B, =precision_a: i32, =precision_b: i32, =depth: i32, "
    "=repeat_count: i32, =dpasw: i1)",
    Family.DPAS, overloads="T T A B", effects=Effect.CONVERGENT, uniformity=Uniformity.LANE,
    defined_by="dpas.dpas", available=attrgetter("has_dpas"))

SCALED_DPAS = _genisa(
    "sub.group.bdpas",
    "T (accumulator: T, a: A, b: B, scale_a: S, scale_b: U, =precision_a: i32, "
    "=precision_b: i32)",
    Family.DPAS, overloads="T T A B S U", effects=Effect.CONVERGENT, uniformity=Uniformity.LANE,
    defined_by="dpas.scaled_dpas", available=attrgetter("has_scaled_dpas"))

# --- lanes -----------------------------------------------------------------------------------

_LANES = Effect.CONVERGENT
WAVE_SHUFFLE_INDEX = _genisa(
    "WaveShuffleIndex", "T (value: T, index: i32, =helper: i32)", Family.SHUFFLE, overloads="T",
    effects=_LANES, uniformity=Uniformity.INDEXED, defined_by="subgroup.shuffle_index")
SIMD_BROADCAST = row(
    "__builtin_IB_simd_broadcast", "T (value: T, index: u32)", Family.SHUFFLE,
    "IGC, SubGroupFuncsResolution.cpp", effects=_LANES, uniformity=Uniformity.SUBGROUP,
    defined_by="subgroup.shuffle_index")
SIMD_SHUFFLE_XOR = _genisa(
    "simdShuffleXor", "T (value: T, =index: i32)", Family.SHUFFLE, overloads="T", effects=_LANES,
    defined_by="subgroup.shuffle_xor")
WAVE_CLUSTERED_BROADCAST = _genisa(
    "WaveClusteredBroadcast", "T (value: T, =size: i32, =index: i32, =helper: i32)",
    Family.SHUFFLE, overloads="T", effects=_LANES, defined_by="subgroup.clustered_broadcast")
WAVE_OPERATIONS = ("add", "mul", "umin", "umax", "smin", "smax", "or", "xor", "and", "fadd", "fmul",
                   "fmin", "fmax")
"""Operations by number, as in IGC's enum WaveOps."""
WAVE_ALL = _genisa(
    "WaveAll", "T (value: T, =operation: i8, =all: i1, =helper: i32)", Family.REDUCTION,
    overloads="T", effects=_LANES, uniformity=Uniformity.SUBGROUP, defined_by="subgroup.reduce")
WAVE_PREFIX = _genisa(
    "WavePrefix", "T (value: T, =operation: i8, =inclusive: i1, =all: i1, =helper: i32)",
    Family.REDUCTION, overloads="T", effects=_LANES, uniformity=Uniformity.LANE,
    defined_by="subgroup.scan")
WAVE_CLUSTERED = _genisa(
    "WaveClustered", "T (value: T, =operation: i8, =size: i32, =helper: i32)", Family.REDUCTION,
    overloads="T", effects=_LANES, uniformity=Uniformity.LANE, defined_by="subgroup.clustered")
WAVE_INTERLEAVE = _genisa(
    "WaveInterleave", "T (value: T, =operation: i8, =size: i32, =helper: i32)", Family.REDUCTION,
    overloads="T", effects=_LANES, uniformity=Uniformity.LANE, defined_by="subgroup.interleaved")
WAVE_BALLOT = _genisa(
    "WaveBallot", "i32 (value: i1, =helper: i32)", Family.VOTE, effects=_LANES,
    uniformity=Uniformity.SUBGROUP, defined_by="subgroup.ballot")

# --- the rest --------------------------------------------------------------------------------

FLOAT_TO_BF16 = _genisa(
    "ftobf", "R (value: V, =rounding: i32)", Family.CONVERSION, overloads="R V",
    defined_by="conversions.float_to_bf16", available=attrgetter("has_bf16_conversion"))
FLOAT_TO_HALF = _genisa(
    "ftof.rte", "R (value: V)", Family.CONVERSION, overloads="R V",
    defined_by="conversions.float_to_half")
FLOAT_TO_TF32 = _genisa(
    "ftotf32", "R (value: V, =rounding: i32)", Family.CONVERSION, overloads="R V",
    defined_by="conversions.float_to_tf32", available=attrgetter("has_tf32_dpas"))
CYCLE_COUNTER = _genisa(
    "cycleCounter", "T ()", Family.ID, uniformity=Uniformity.SUBGROUP, effects=Effect.VOLATILE,
    defined_by="ids.cycle_counter")
GROUP_BARRIER = _genisa(
    "threadgroupbarrier", "void ()", Family.BARRIER, effects=Effect.BARRIER | Effect.CONVERGENT)
NAMED_BARRIER_SIGNAL = _genisa(
    "threadgroupnamedbarriers.signal",
    "void (~number: i8, =role: i16, ~producers: i8, ~consumers: i8)", Family.BARRIER,
    effects=Effect.ARRIVES | Effect.CONVERGENT, available=attrgetter("has_named_barrier"))
NAMED_BARRIER_WAIT = _genisa(
    "threadgroupnamedbarriers.wait", "void (~number: i8)", Family.BARRIER,
    effects=Effect.BARRIER | Effect.CONVERGENT, available=attrgetter("has_named_barrier"))
LSC_FENCE = _genisa(
    "LSCFence", "void (=port: i32, =scope: i32, =operation: i32)", Family.FENCE,
    effects=Effect.ORDERS)
