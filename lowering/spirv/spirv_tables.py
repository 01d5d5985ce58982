"""Numbers of SPIR-V: instructions, capabilities, decorations, and the forms of LLVM's operations.

Sources are the SPIR-V specification, version 1.6, section 3 (instructions: 3.49), and section 2 of
the OpenCL extended instruction set.  A capability of an extension has the extension's name.
"""

from __future__ import annotations

import struct
from enum import IntEnum


class Op(IntEnum):
    """Opcodes."""

    UNDEF = 1
    SOURCE = 3
    STRING = 7
    LINE = 8
    EXTENSION = 10
    EXT_INST_IMPORT = 11
    EXT_INST = 12
    MEMORY_MODEL = 14
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_VOID = 19
    TYPE_VECTOR = 23
    TYPE_ARRAY = 28
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    TYPE_FUNCTION = 33
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    CONSTANT_COMPOSITE = 44
    CONSTANT_NULL = 46
    FUNCTION = 54
    FUNCTION_PARAMETER = 55
    FUNCTION_END = 56
    FUNCTION_CALL = 57
    VARIABLE = 59
    LOAD = 61
    STORE = 62
    PTR_ACCESS_CHAIN = 67
    IN_BOUNDS_PTR_ACCESS_CHAIN = 70
    DECORATE = 71
    VECTOR_EXTRACT_DYNAMIC = 77
    VECTOR_INSERT_DYNAMIC = 78
    VECTOR_SHUFFLE = 79
    COMPOSITE_CONSTRUCT = 80
    COMPOSITE_EXTRACT = 81
    COMPOSITE_INSERT = 82
    COPY_OBJECT = 83
    CONVERT_PTR_TO_U = 117
    PTR_CAST_TO_GENERIC = 121
    GENERIC_CAST_TO_PTR = 122
    BITCAST = 124
    F_NEGATE = 127
    LOGICAL_EQUAL = 164
    LOGICAL_NOT_EQUAL = 165
    SELECT = 169
    I_EQUAL = 170
    I_NOT_EQUAL = 171
    BITWISE_AND = 199
    ATOMIC_COMPARE_EXCHANGE = 230
    PHI = 245
    LOOP_MERGE = 246
    LABEL = 248
    BRANCH = 249
    BRANCH_CONDITIONAL = 250
    SWITCH = 251
    RETURN = 253
    RETURN_VALUE = 254
    UNREACHABLE = 255
    ASM_TARGET = 5609
    ASM = 5610
    ASM_CALL = 5611


BINARY = {
    "add": 128, "fadd": 129, "sub": 130, "fsub": 131, "mul": 132, "fmul": 133, "udiv": 134,
    "sdiv": 135, "fdiv": 136, "urem": 137, "srem": 138, "frem": 140, "lshr": 194, "ashr": 195,
    "shl": 196, "or": 197, "xor": 198, "and": 199,
}
LOGICAL = {"add": 165, "sub": 165, "mul": 167, "or": 166, "xor": 165, "and": 167}
"""Instructions for booleans."""
CASTS = {
    "fptoui": 109, "fptosi": 110, "sitofp": 111, "uitofp": 112, "trunc": 113, "zext": 113,
    "sext": 114, "fptrunc": 115, "fpext": 115, "ptrtoint": 117, "inttoptr": 120, "bitcast": 124,
}
COMPARISONS = {
    **{("icmp", name): 170 + k for k, name in enumerate(
        "eq ne ugt sgt uge sge ult slt ule sle".split())},
    **{("fcmp", name): 180 + k for k, name in enumerate(
        "oeq ueq one une olt ult ogt ugt ole ule oge uge".split())},
    ("fcmp", "ord"): 162, ("fcmp", "uno"): 163,
}
SCALARS = {
    "i1": (20, (), 0), "i8": (21, (8, 0), 39), "i16": (21, (16, 0), 22), "i32": (21, (32, 0), 0),
    "i64": (21, (64, 0), 11), "half": (22, (16,), 9), "float": (22, (32,), 0),
    "double": (22, (64,), 10), "bfloat": (22, (16, 0), 5116),
}
"""Opcode, operands and capability of a type."""
STORAGE = {0: 7, 1: 5, 2: 0, 3: 4, 4: 8}
"""Storage classes by LLVM's address space: private, global, constant, shared local, generic."""
INPUT, GENERIC = 1, 4

ALWAYS = (6, 4, 5)
"""Capabilities Kernel, Addresses, Linkage."""
VECTOR16, GROUPS, INT64_ATOMICS, SUBGROUP_DISPATCH, GROUP_CLUSTERED, ASM_INTEL = (
    7, 18, 12, 58, 67, 5606)
SPLIT_BARRIER, BIT_INSTRUCTIONS = 6141, 6025
BALLOT, SHUFFLE, SHUFFLE_RELATIVE, ARITHMETIC = 64, 65, 66, 63
EXTENSIONS = {
    5116: "SPV_KHR_bfloat16",
    5606: "SPV_INTEL_inline_assembly",
    5612: "SPV_EXT_shader_atomic_float_min_max",
    5613: "SPV_EXT_shader_atomic_float_min_max",
    5616: "SPV_EXT_shader_atomic_float_min_max",
    6025: "SPV_KHR_bit_instructions",
    6033: "SPV_EXT_shader_atomic_float_add",
    6034: "SPV_EXT_shader_atomic_float_add",
    6095: "SPV_EXT_shader_atomic_float16_add",
    6141: "SPV_INTEL_split_barrier",
    6255: "SPV_INTEL_16bit_atomics",
}
"""The extension of a capability."""

PHYSICAL64_OPENCL = (2, 2)
OPENCL_CPP = (4, 100_000)
"""Source language and version, which Intel's compiler reads."""
KERNEL = 6
LOCAL_SIZE, CONTRACTION_OFF, SUBGROUP_SIZE = 17, 31, 35
CONSTANT, BUILT_IN, FP_FAST_MATH_MODE, LINKAGE, ALIGNMENT, SIDE_EFFECTS = 22, 11, 40, 41, 44, 5608
EXPORT, IMPORT = 0, 1
CONTROLS = {"alwaysinline": 1, "noinline": 2, "memory(none)": 4}
FAST_MATH = {"nnan": 1, "ninf": 2, "nsz": 4, "arcp": 8, "fast": 31}
VOLATILE, ALIGNED = 1, 2

SUBGROUP, CLUSTERED_REDUCE = 3, 3
SCOPES = {"": 0, "all_svm_devices": 0, "device": 1, "workgroup": 2, "subgroup": 3,
          "singlethread": 4}
SEMANTICS = {"monotonic": 0, "unordered": 0, "acquire": 2, "release": 4, "acq_rel": 8,
             "seq_cst": 16}
ATOMICS = {
    "xchg": 229, "add": 234, "sub": 235, "min": 236, "umin": 237, "max": 238, "umax": 239,
    "and": 240, "or": 241, "xor": 242, "fadd": 6035, "fmin": 5614, "fmax": 5615,
}
ATOMIC_ACCESSES = {"AtomicLoad": 227, "AtomicStore": 228}
ATOMIC_FLOATS = {
    (True, "half"): 6095, (True, "float"): 6033, (True, "double"): 6034, (True, "bfloat"): 6255,
    (False, "half"): 5616, (False, "float"): 5612, (False, "double"): 5613,
}
"""Capabilities of atomic sums, and of minima and maxima."""

BUILT_INS = {
    "get_num_groups": 24, "get_local_size": 25, "get_group_id": 26, "get_local_id": 27,
    "get_global_id": 28, "get_work_dim": 30, "get_global_size": 31, "get_sub_group_size": 36,
    "get_max_sub_group_size": 37, "get_num_sub_groups": 38, "get_sub_group_id": 40,
    "get_sub_group_local_id": 41,
}
EXTENDED = {
    name: first + k for first, names in (
        (0, "acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil "
            "copysign cos cosh cospi erfc erf exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin "
            "fmod"),
        (32, "hypot ilogb ldexp lgamma"),
        (37, "log log2 log10 log1p logb mad"),
        (47, "nextafter pow pown powr remainder"),
        (53, "rint rootn round rsqrt sin"),
        (59, "sinh sinpi sqrt tan tanh tanpi tgamma trunc half_cos half_divide half_exp half_exp2 "
             "half_exp10 half_log half_log2 half_log10 half_powr half_recip half_rsqrt half_sin "
             "half_sqrt half_tan native_cos native_divide native_exp native_exp2 native_exp10 "
             "native_log native_log2 native_log10 native_powr native_recip native_rsqrt native_sin "
             "native_sqrt native_tan"),
        (141, "s_abs s_abs_diff s_add_sat u_add_sat"),
        (151, "clz ctz"),
        (156, "s_max u_max s_min u_min s_mul_hi rotate s_sub_sat u_sub_sat"),
        (166, "popcount"),
        (182, "prefetch"),
        (203, "u_mul_hi"),
    ) for k, name in enumerate(names.split())
}
"""Instructions of OpenCL's set."""
SIGNED = ("max", "min", "mul_hi")
"""OpenCL functions of integers with a signed and an unsigned instruction."""
OF_LLVM = {
    **{name: name for name in (
        "fabs floor ceil trunc rint round sqrt exp exp2 exp10 log log2 log10 sin cos tan asin acos "
        "atan sinh cosh tanh copysign pow atan2 fma ldexp").split()},
    "nearbyint": "rint", "roundeven": "rint", "maxnum": "fmax", "minnum": "fmin", "fmuladd": "mad",
    "smax": "s_max", "smin": "s_min", "umax": "u_max", "umin": "u_min", "sadd.sat": "s_add_sat",
    "uadd.sat": "u_add_sat", "ssub.sat": "s_sub_sat", "usub.sat": "u_sub_sat", "abs": "s_abs",
    "ctlz": "clz", "cttz": "ctz",
}
"""The function of OpenCL for an intrinsic of LLVM."""
PLAIN = {
    "ControlBarrier": (224, 0),
    "ControlBarrierArriveINTEL": (6142, SPLIT_BARRIER),
    "ControlBarrierWaitINTEL": (6143, SPLIT_BARRIER),
    "MemoryBarrier": (225, 0),
    "GroupAll": (261, GROUPS),
    "GroupAny": (262, GROUPS),
    "GroupBroadcast": (263, GROUPS),
    "GroupNonUniformBallot": (339, BALLOT),
    "GroupNonUniformShuffle": (345, SHUFFLE),
    "GroupNonUniformShuffleXor": (346, SHUFFLE),
    "GroupNonUniformShuffleUp": (347, SHUFFLE_RELATIVE),
    "GroupNonUniformShuffleDown": (348, SHUFFLE_RELATIVE),
    "llvm.ctpop": (205, 0),
    "llvm.bitreverse": (204, BIT_INSTRUCTIONS),
}
"""Opcode and capability of functions that have the operands of their instruction."""
IN_SUBGROUP = {
    "sub_group_broadcast": (263, GROUPS),
    "sub_group_shuffle": (345, SHUFFLE),
    "sub_group_shuffle_xor": (346, SHUFFLE),
    "sub_group_shuffle_up": (347, SHUFFLE_RELATIVE),
    "sub_group_shuffle_down": (348, SHUFFLE_RELATIVE),
}
"""Opcode and capability of OpenCL functions whose instruction has a scope in addition."""
GROUP_OPERATIONS = {
    **{f"Group{name}": (264 + k, GROUPS) for k, name in enumerate(
        "IAdd FAdd FMin UMin SMin FMax UMax SMax".split())},
    **{f"GroupNonUniform{name}": (349 + k, ARITHMETIC) for k, name in enumerate(
        "IAdd FAdd IMul FMul SMin UMin FMin SMax UMax FMax".split())},
}
"""Opcode and capability of reductions and scans."""
OF_SUBGROUP = {
    f"sub_group_{name}_{combines}": (number, combines.capitalize())
    for number, name in enumerate(("reduce", "scan_inclusive", "scan_exclusive"))
    for combines in ("add", "min", "max")
}
"""Group operation, and the end of its instruction's name, of OpenCL's reductions and scans."""


def float_bits(text: str, kind: str) -> int:
    """The bits of a floating-point constant, from LLVM's spelling."""
    if text[:3] in ("0xH", "0xR"):
        return int(text[3:], 16)
    if text.startswith("0x"):
        (value,) = struct.unpack("<d", int(text, 16).to_bytes(8, "little"))
    else:
        value = float(text)
    form = {"half": "<e", "float": "<f", "double": "<d", "bfloat": "<f"}[kind]
    bits = int.from_bytes(struct.pack(form, value), "little")
    return bits >> 16 if kind == "bfloat" else bits
