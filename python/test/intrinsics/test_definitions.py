"""What the simulator runs is what the readable definitions compute, on random inputs.

Blocks, DPAS and atomics have tests of their own (`python/test/simulator`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.rounding import bf16_bits
from triton_xe.intrinsics import ROWS, Family, genisa, opencl
from triton_xe.intrinsics.definitions import ids, maths, subgroup
from triton_xe.intrinsics.definitions.conversions import float_to_bf16
from triton_xe.intrinsics.definitions.memory import COMBINE
from triton_xe.intrinsics.intrinsic import Intrinsic
from triton_xe.runtime.simulator.interface import SimulatedDevice

P = "ptr addrspace(1)"
SIZES = "!intel_reqd_sub_group_size !0 !reqd_work_group_size !1"
LANES, GROUPS = 16, 16
N = LANES * GROUPS
TYPES = {"float": np.float32, "i32": np.int32, "i64": np.int64, "i16": np.uint16, "i1": np.bool_,
         "double": np.float64, "half": np.float16}
Case = tuple[str, str, list[str], Callable[..., Any]]
"""Symbol, type of the result, arguments as written, and the definition of x, y, z and w."""


def inputs(seed: int = 0) -> dict[str, Any]:
    """x, y, z: any numbers, and some special ones; i, j, k: any bits; s: less than 32."""
    generator = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3.4e38]
    found: dict[str, Any] = {}
    for name in "xyz":
        values = generator.uniform(-4, 4, N).astype(np.float32)
        values[: len(special)] = generator.permutation(special)
        found[name] = values
    for name in "ijk":
        found[name] = generator.integers(-(2**31), 2**31, N, dtype=np.int64).astype(np.int32)
    found["i"][:4] = [0, -1, 2**31 - 1, -(2**31)]
    found["s"] = generator.integers(0, 32, N).astype(np.int32)
    found["d"] = found["x"].astype(np.float64)
    return found


def kind_of(name: str) -> str:
    return "float" if name in "xyz" else "double" if name == "d" else "i32"


def run(cases: list[Case], values: dict[str, Any]) -> list[Any]:
    """The results of each case for each element, from one kernel."""
    lines = ["define spir_kernel void @k(" + ", ".join(
        f"{P} %p_{n}" for n in [*values, *(f"out{c}" for c in range(len(cases)))])
        + f") {SIZES} {{",
        "  %lane = call i32 @_Z22get_sub_group_local_idv()",
        "  %g = call i64 @_Z12get_group_idj(i32 0)", "  %g32 = trunc i64 %g to i32",
        f"  %row = mul i32 %g32, {LANES}", "  %at = add i32 %row, %lane"]
    declared = {"declare i32 @_Z22get_sub_group_local_idv()", "declare i64 @_Z12get_group_idj(i32)"}
    for n in values:
        t = kind_of(n)
        lines += [f"  %a_{n} = getelementptr {t}, {P} %p_{n}, i32 %at",
                  f"  %{n} = load {t}, {P} %a_{n}, align 4"]
    outs = []
    for c, (symbol, result, arguments, _) in enumerate(cases):
        types = ", ".join(a.rpartition(" ")[0] if "<" not in a else a.rpartition("> ")[0] + ">"
                          for a in arguments)
        declared.add(f"declare {result} @{symbol}({types})")
        stored = "i8" if result == "i1" else result
        lines.append(f"  %r{c} = call {result} @{symbol}({', '.join(arguments)})")
        if result == "i1":
            lines.append(f"  %b{c} = zext i1 %r{c} to i8")
        lines += [f"  %o{c} = getelementptr {stored}, {P} %p_out{c}, i32 %at",
                  f"  store {stored} %{'b' if result == 'i1' else 'r'}{c}, {P} %o{c}, align 1"]
        outs.append(np.zeros(N, TYPES[result]))
    text = "\n".join([*lines, "  ret void", "}", *sorted(declared), f"!0 = !{{i32 {LANES}}}",
                      f"!1 = !{{i32 {LANES}, i32 1, i32 1}}"])
    device = SimulatedDevice("pvc")
    arrays = [np.ascontiguousarray(v) for v in values.values()]
    device.launch(device.load(text.encode(), "k"), (GROUPS, 1, 1),
                  [a.ctypes.data for a in [*arrays, *outs]])
    return outs


def errors(got: Any, exact: Any) -> Any:
    """Units in the last place, 0 where both are NaN or the same infinity."""
    with np.errstate(all="ignore"):
        want = np.asarray(exact).astype(got.dtype)
        spacing = np.spacing(np.maximum(np.abs(want), np.finfo(got.dtype).tiny))
        found = np.abs(got.astype(np.float64) - np.asarray(exact, np.float64)) / spacing
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0, found)


FLOAT = [
    row for row in ROWS.values() if row.family is Family.MATHS and not row.combines
    and row.definition is not maths.ldexp and row.name != "isnan" and "class" not in row.name
    and row.name.removeprefix("llvm.") not in maths.INTEGER
    and (row.name.removeprefix("llvm.") in maths.FUNCTIONS or row.name.startswith(
        ("native_", "half_")) or row.name.removeprefix("llvm.") in
        "fmuladd nearbyint roundeven maxnum minnum maximum minimum".split())]
INTEGER = [row for row in ROWS.values() if row.family is Family.MATHS and row not in FLOAT
           and not row.combines and "class" not in row.name
           and row.name not in ("isnan", "ldexp", "llvm.ldexp")]


def test_functions_of_floats() -> None:
    """The bound of an LLVM intrinsic is that of the builtin of its name."""
    values = {n: v for n, v in inputs().items() if n in "xyz"}
    cases: list[Case] = []
    for row in FLOAT:
        names = "xyz"[: len(row.parameters)]
        arguments = [f"float %{n}" for n in names]
        symbol = row.symbol("float", ["float"] * len(names))
        cases.append((symbol, "float", arguments, row.definition))  # type: ignore[arg-type]
    for row, case, got in zip(FLOAT, cases, run(cases, values), strict=True):
        wide = [values[n].astype(np.float64) for n in "xyz"[: len(case[2])]]
        if row.definition is maths.fma:
            wide = [x.astype(np.float32) for x in wide]
        with np.errstate(all="ignore"):
            exact = case[3](*wide)
        bound = ROWS.get(row.name.removeprefix("llvm."), row).ulp
        worst = errors(got, exact)
        if "lgamma" in row.name:
            worst = np.where(np.abs(exact) < 1, 0, worst)
        at = int(np.argmax(worst))
        assert worst[at] <= min(max(bound, 0.5), 8192) + 0.01, (
            row.name, [float(w[at]) for w in wide], float(got[at]), float(np.asarray(exact)[at]))


@pytest.mark.parametrize("unsigned", [False, True])
def test_functions_of_integers(unsigned: bool) -> None:
    values = {n: v for n, v in inputs(1).items() if n in "ijk"}
    cases: list[Case] = []
    for row in INTEGER:
        names = "ijk"[: sum(p.type == "T" for p in row.parameters)]
        arguments = [f"i32 %{n}" for n in names]
        if len(row.parameters) > len(names):
            arguments.append("i1 false")
        symbol = row.symbol("i32", ["i32"] * len(names), unsigned=unsigned)
        cases.append((symbol, "i32", arguments, row.definition))  # type: ignore[arg-type]
    for row, case, got in zip(INTEGER, cases, run(cases, values), strict=True):
        used = [values["ijk"[k]] for k in range(sum("%" in a for a in case[2]))]
        if unsigned and row.is_builtin:
            used = [v.view(np.uint32) for v in used]
        with np.errstate(over="ignore"):
            want = case[3](*used)
        np.testing.assert_array_equal(got, want.view(np.int32), err_msg=row.name)


def test_functions_between_types() -> None:
    values = inputs(2)
    x, s, d = values["x"], values["s"], values["d"]
    cases: list[Case] = [
        ("_Z5ldexpfi", "float", ["float %x", "i32 %s"], lambda: maths.ldexp(x, s)),
        ("_Z5isnanf", "i32", ["float %x"], lambda: maths.isnan(x)),
        *((f"llvm.is.fpclass.f32.{1 << bit}", "i1", ["float %x", f"i32 {1 << bit}"],
           lambda bit=bit: maths.is_class(x, 1 << bit)) for bit in range(2, 10)),
        (genisa.FLOAT_TO_BF16.symbol("i16", ["float"]), "i16", ["float %x", "i32 0"],
         lambda: genisa.FLOAT_TO_BF16.definition(x)),  # type: ignore[misc]
        (genisa.FLOAT_TO_HALF.symbol("half", ["float"]), "half", ["float %x"],
         lambda: genisa.FLOAT_TO_HALF.definition(x)),  # type: ignore[misc]
        (genisa.FLOAT_TO_TF32.symbol("float", ["float"]), "float", ["float %x", "i32 0"],
         lambda: genisa.FLOAT_TO_TF32.definition(x).view(np.float32)),  # type: ignore[misc]
        ("_Z13convert_floati", "float", ["i32 %s"], lambda: maths.convert(s, np.float32)),
        ("_Z14convert_doublef", "double", ["float %x"], lambda: maths.convert(x, np.float64)),
        ("_Z13convert_floatd", "float", ["double %d"], lambda: maths.convert(d, np.float32)),
        ("_Z12convert_longi", "i64", ["i32 %s"], lambda: maths.convert(s, np.int64)),
    ]
    for case, got in zip(cases, run(cases, {n: values[n] for n in "xsd"}), strict=True):
        np.testing.assert_array_equal(got, case[3](), err_msg=case[0])


@pytest.mark.parametrize(("row", "result", "arguments", "device"), [
    (genisa.FLOAT_TO_BF16, "i16", ["float 1.0", "i32 0"], "mtl"),
    (genisa.FLOAT_TO_TF32, "float", ["float 1.0", "i32 0"], "dg2"),
    (genisa.NAMED_BARRIER_WAIT, "void", ["i8 1"], "dg2"),
])
def test_what_a_device_lacks_is_refused(
    row: Intrinsic, result: str, arguments: list[str], device: str
) -> None:
    types = [a.split(" ")[0] for a in arguments]
    symbol = row.symbol(result, types)
    named, use = ("", "") if result == "void" else (
        "%r = ", f"  store {result} %r, ptr addrspace(1) %p\n")
    text = (f"define spir_kernel void @k(ptr addrspace(1) %p) {SIZES} {{\n"
            f"  {named}call {result} @{symbol}({', '.join(arguments)})\n{use}  ret void\n}}\n"
            f"declare {result} @{symbol}({', '.join(types)})\n"
            "!0 = !{i32 8}\n!1 = !{i32 8, i32 1, i32 1}\n")
    with pytest.raises(SimulatorTrap, match=f"{device} has no {re.escape(row.name)}"):
        assert SimulatedDevice(device).load(text.encode(), "k").host


def test_reductions_of_vectors() -> None:
    """`llvm.vector.reduce`, in a kernel that makes a vector of each work-item's values."""
    device = SimulatedDevice("pvc")
    for t, names in (("i32", "add mul and or xor smax smin umax umin"),
                     ("float", "fadd fmul fmax fmin")):
        generator = np.random.default_rng(3)
        data = generator.uniform(-2, 2, (LANES, 4)).astype(np.float32) if t == "float" else (
            generator.integers(-(2**31), 2**31, (LANES, 4)).astype(np.int32))
        for name in names.split():
            row = ROWS[f"llvm.vector.reduce.{name}"]
            start = f"{t} 1.5, " if row.parameters[0].name == "start" else ""
            symbol = row.symbol(t, [t, f"<4 x {t}>"] if start else [f"<4 x {t}>"])
            text = f"""
define spir_kernel void @k({P} %in, {P} %out) {SIZES} {{
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %p = getelementptr <4 x {t}>, {P} %in, i32 %lane
  %v = load <4 x {t}>, {P} %p, align 4
  %r = call {t} @{symbol}({start}<4 x {t}> %v)
  %q = getelementptr {t}, {P} %out, i32 %lane
  store {t} %r, {P} %q, align 4
  ret void
}}
declare i32 @_Z22get_sub_group_local_idv()
declare {t} @{symbol}({f"{t}, " if start else ""}<4 x {t}>)
!0 = !{{i32 {LANES}}}
!1 = !{{i32 {LANES}, i32 1, i32 1}}
"""
            out = np.zeros(LANES, data.dtype)
            device.launch(device.load(text.encode(), "k"), (1, 1, 1),
                          [data.ctypes.data, out.ctypes.data])
            first = [np.full(LANES, 1.5, np.float32)] if start else []
            with np.errstate(over="ignore"):
                want = row.definition(data, *first)  # type: ignore[misc]
            np.testing.assert_array_equal(out, want, err_msg=name)


MOVES = [row for row in ROWS.values() if row.family is Family.SHUFFLE]


def by_subgroup(values: Any, function: Callable[[Any], Any]) -> Any:
    return np.concatenate([np.broadcast_to(function(row), LANES)
                           for row in values.reshape(-1, LANES)])


def test_moves_between_lanes() -> None:
    """By a constant, and by a number of each lane where that is allowed."""
    values = {n: inputs(4)[n] for n in "xs"}
    cases: list[Case] = []
    for row, index in itertools.product(MOVES, ("3", "%s")):
        constant = row.parameters[row.positions["index"]].constant or (
            row.definition is not subgroup.shuffle_index or "roadcast" in row.name)
        if index == "%s" and constant:
            continue
        given = {"value": "float %x", "index": f"i32 {index}", "scope": "i32 3", "helper": "i32 0",
                 "size": "i32 8"}
        arguments = [given[p.name] for p in row.parameters]
        symbol = row.symbol("float", [a.split(" ")[0] for a in arguments])

        def want(row: Intrinsic = row, index: str = index) -> Any:
            size = [8] if row.has("size") else []
            moved = [row.definition(x, *size, 3 if index == "3" else s)  # type: ignore[misc]
                     for x, s in zip(values["x"].reshape(-1, LANES),
                                     values["s"].reshape(-1, LANES), strict=True)]
            return np.concatenate([np.broadcast_to(m, LANES) for m in moved])

        cases.append((symbol, "float", arguments, want))
    for case, got in zip(cases, run(cases, values), strict=True):
        np.testing.assert_array_equal(got, case[3](), err_msg=case[0])


def reduction_cases(values: dict[str, Any]) -> list[Case]:
    """Every reduction, scan and vote on integers; those that add floats on floats."""
    cases: list[Case] = []
    for row in ROWS.values():
        if row.family is not Family.REDUCTION:
            continue
        forms = range(4) if "NonUniform" in row.name else range(3) if row.has("scope") else [None]
        for form, code in itertools.product(
            forms, range(len(genisa.WAVE_OPERATIONS)) if not row.is_builtin else [None]):
            op = row.combines if code is None else genisa.WAVE_OPERATIONS[code]
            n = "x" if op[0] == "f" else "i"
            t = kind_of(n)
            op = {"min": "smin", "max": "smax"}.get(op, op)
            given = {"value": f"{t} %{n}", "scope": "i32 3", "size": "i32 4", "helper": "i32 0",
                     "operation": f"i8 {code}" if code is not None else f"i32 {form}",
                     "all": "i1 true", "inclusive": "i1 true"}
            arguments = [given[p.name] for p in row.parameters if p.name != "size"
                         or form in (None, 3)]
            types = [a.split(" ")[0] for a in arguments]
            symbol = row.symbol(t, types) + ("" if row.is_builtin else f".{op}")
            cases.append((symbol, t, arguments, _reference(row, op, form, values[n])))
    return cases


def _reference(row: Intrinsic, op: str, form: int | None, data: Any) -> Callable[[], Any]:
    unsigned = op in ("umin", "umax")
    neutral = {"mul": 1, "and": -1, "umin": -1, "smin": 2**31 - 1, "smax": -(2**31),
               "fmul": 1, "fmin": np.inf, "fmax": -np.inf}.get(op, 0)

    def combine(a: Any, b: Any) -> Any:
        plain = {"mul": np.multiply, "fmul": np.multiply, "smin": np.minimum, "smax": np.maximum}
        function = plain.get(op) or COMBINE[op]
        if unsigned:
            return function(a.view(np.uint32), b.view(np.uint32)).view(np.int32)
        return function(a, b)

    def one(lanes: Any) -> Any:
        rest: dict[str, Any] = {}
        if row.definition is subgroup.group_operation:
            rest = {"operation": form, "size": 4, "neutral": neutral}
        elif row.definition is subgroup.exclusive_scan:
            rest = {"neutral": neutral}
        elif row.has("size"):
            rest = {"size": 4}
        with np.errstate(all="ignore"):
            return row.definition(lanes, combine, **rest)  # type: ignore[misc]

    return lambda: by_subgroup(data, one)


def test_reductions_over_lanes() -> None:
    """Scans of floats may be grouped in another way."""
    values = {n: inputs(5)[n] for n in "xi"}
    values["x"] = np.random.default_rng(6).uniform(0.5, 1.5, N).astype(np.float32)
    cases = reduction_cases(values)
    done = [run(cases[k : k + 40], values) for k in range(0, len(cases), 40)]
    for case, got in zip(cases, itertools.chain(*done), strict=True):
        if case[1] == "float":
            np.testing.assert_allclose(got, case[3](), rtol=1e-5, err_msg=str(case))
        else:
            np.testing.assert_array_equal(got, case[3](), err_msg=str(case))


def test_votes() -> None:
    data = {"s": inputs(7)["s"] % 3}
    data["s"][:LANES], data["s"][LANES : 2 * LANES] = 1, 0
    text: list[Case] = [
        ("_Z13sub_group_anyi", "i32", ["i32 %s"], subgroup.vote_any),
        ("_Z13sub_group_alli", "i32", ["i32 %s"], subgroup.vote_all),
    ]
    for case, got in zip(text, run(text, data), strict=True):
        np.testing.assert_array_equal(got, by_subgroup(data["s"], case[3]))


def test_every_definition_is_compared() -> None:
    """Here, or in the tests of the simulator that are named."""
    elsewhere = {  # families, and the test that compares them
        Family.BLOCK_2D: "test_simulated_matrix_instructions",
        Family.PAYLOAD: "test_simulated_matrix_instructions",
        Family.BLOCK_1D: "test_simulated_matrix_instructions",
        Family.DPAS: "test_simulated_matrix_instructions",
        Family.MASKED: "test_simulated_kernels",
        Family.ATOMIC: "test_release_acquire",
    }
    here = {*FLOAT, *INTEGER, *MOVES, ROWS["isnan"], ROWS["ldexp"], ROWS["llvm.ldexp"],
            ROWS["llvm.is.fpclass"], genisa.FLOAT_TO_BF16, genisa.FLOAT_TO_TF32,
            genisa.FLOAT_TO_HALF, opencl.CONVERT}
    done = (Family.REDUCTION, Family.VOTE, Family.ID, *elsewhere)
    left = [row.name for row in ROWS.values() if row.definition is not None
            and row not in here and row.family not in done and not row.combines]
    assert left == []


@pytest.mark.parametrize("lanes", [16, 32])
def test_ids(lanes: int) -> None:
    """Of every subgroup of a grid in three dimensions."""
    grid, warps = (2, 3, 2), 2
    calls, stores, out = [], [], []
    rows = [row for row in ROWS.values() if row.family is Family.ID
            and row not in (genisa.CYCLE_COUNTER, opencl.GLOBAL_ID, opencl.GLOBAL_SIZE)]
    asked = [(row, axis) for row in rows for axis in (range(3) if row.parameters else [None])]
    for k, (row, axis) in enumerate(asked):
        argument = "" if axis is None else f"i32 {axis}"
        symbol = row.symbol(row.result, ["i32"] * len(row.parameters))
        calls.append(f"  %v{k} = call {row.result} @{symbol}({argument})")
        wide = f"%v{k}"
        if row.result == "i32":
            calls.append(f"  %w{k} = zext i32 %v{k} to i64")
            wide = f"%w{k}"
        stores.append(f"  %q{k} = getelementptr i64, {P} %row, i64 {k}\n"
                      f"  store i64 {wide}, {P} %q{k}, align 8")
        out.append(f"declare {row.result} @{symbol}({'i32' if argument else ''})")
    number = """
  %gx = call i64 @_Z12get_group_idj(i32 0)
  %gy = call i64 @_Z12get_group_idj(i32 1)
  %gz = call i64 @_Z12get_group_idj(i32 2)
  %sg = call i32 @_Z16get_sub_group_idv()
  %ln = call i32 @_Z22get_sub_group_local_idv()"""
    text = f"""
define spir_kernel void @k({P} %out) {SIZES} {{
{number}
  %a0 = mul i64 %gz, {grid[1]}
  %a1 = add i64 %a0, %gy
  %a2 = mul i64 %a1, {grid[0]}
  %a3 = add i64 %a2, %gx
  %a4 = mul i64 %a3, {warps}
  %s64 = zext i32 %sg to i64
  %a5 = add i64 %a4, %s64
  %a6 = mul i64 %a5, {lanes}
  %l64 = zext i32 %ln to i64
  %a7 = add i64 %a6, %l64
  %a8 = mul i64 %a7, {len(asked)}
  %row = getelementptr i64, {P} %out, i64 %a8
{chr(10).join(calls + stores)}
  ret void
}}
{chr(10).join(sorted(set(out)))}
!0 = !{{i32 {lanes}}}
!1 = !{{i32 {warps * lanes}, i32 1, i32 1}}
"""
    got = np.zeros((grid[2], grid[1], grid[0], warps, lanes, len(asked)), np.int64)
    device = SimulatedDevice("pvc")
    device.launch(device.load(text.encode(), "k"), grid, [got.ctypes.data])
    for z, y, x, warp in itertools.product(*map(range, (grid[2], grid[1], grid[0], warps))):
        at = ids.Subgroup((x, y, z), grid, warp, warps, lanes)
        for k, (row, axis) in enumerate(asked):
            want = row.definition(at, *([] if axis is None else [axis]))  # type: ignore[misc]
            np.testing.assert_array_equal(got[z, y, x, warp, :, k], want, err_msg=row.name)


def test_bf16_is_rounded_in_one_way() -> None:
    """One number, and an array; NaN keeps its sign."""
    bits = np.random.default_rng(8).integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
    bits[:6] = [0x7F800001, 0xFF800001, 0xFFC00000, 0xFFFFFFFF, 0x3F808000, 0x3F818000]
    values = bits.view(np.float32)
    kept = ~np.isnan(values) | (bits >> 22 & 1 == 1)  # Python makes signaling NaN quiet
    single = [bf16_bits(float(v)) for v in values]
    np.testing.assert_array_equal(np.array(single)[kept], float_to_bf16(values)[kept])
    assert bf16_bits(float("-nan")) == 0xFFC0
