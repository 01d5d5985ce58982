"""What programs release and acquire, by location, against the memory model in a few lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from python.test.lowering.emit.writing import begin, state_of
from triton_xe.errors import SimulatorTrap
from triton_xe.llvm import TRUE, Module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit import lane_atomics
from triton_xe.lowering.emit.types import I32, I64, number
from triton_xe.lowering.emit.writer import Writer
from triton_xe.runtime.simulator.device import SimulatedDevice


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
SEMANTICS = {"relaxed": 0, "acquire": 2, "release": 4, "acq_rel": 8}
P = "ptr addrspace(1)"
HEAD = f"""
declare i64 @_Z12get_group_idj(i32)
declare i32 @_Z22get_sub_group_local_idv()
declare i32 @_Z18__spirv_AtomicLoadPU3AS1iii({P}, i32, i32)
declare void @_Z19__spirv_AtomicStorePU3AS1iiii({P}, i32, i32, i32)
declare void @_Z21__spirv_MemoryBarrierjj(i32, i32)
!0 = !{{i32 16}}
!1 = !{{i32 16, i32 1, i32 1}}
"""

DATA = "abc"
Step = tuple[str, ...]
"""load, store of data; read, write, add, take, fail of a flag with an order; fence with one.

`take` is a compare-and-swap that may succeed, `fail` one that cannot.
"""


def steps(text: str) -> list[Step]:
    """`store a; add f release; fence acquire` as steps."""
    return [tuple(part.split()) for part in text.split(";") if part.strip()]



def helpers() -> str:
    """The functions that compiled kernels call for these accesses."""
    module = Module()
    caller, _ = begin(I64)
    w, (address,) = Writer(state_of(module), caller, caller.blocks[0]), caller.arguments
    lane_atomics.rmw(w, "or", address, number(0), TRUE, "gpu")
    lane_atomics.compare_and_exchange(w, address, number(0), number(1), TRUE, "gpu")
    lane_atomics.load(w, I32, address, TRUE, "gpu")
    return "define " + print_kernels(module).partition("define ")[2]


HELPERS = helpers()
CALLS = {"read": ("load", ""), "add": ("or", "i32 0, "), "take": ("cas", "i32 0, i32 1, "),
         "fail": ("cas", "i32 7, i32 9, ")}


def fenced(program: list[Step]) -> list[Step]:
    """Relaxed atomics between fences, as kernels have them that are compiled from Triton."""
    made: list[Step] = []
    for what, *rest in program:
        order = rest[-1] if what not in ("load", "store", "fence") else ""
        made += [("fence", "release")] if order in ("release", "acq_rel") else []
        made.append((what, rest[0], "relaxed") if order else (what, *rest))
        made += [("fence", "acquire")] if order in ("acquire", "acq_rel") else []
    return made


def helper_call(name: str, what: str, at: str) -> list[str]:
    """The atomic in a helper that runs lane by lane; every other lane takes part."""
    helper, values = CALLS[what]
    return [
        f"{name}.a = ptrtoint {P} {at} to i64",
        f"{name} = call i32 @__xe_lane_atomic_{helper}_i32_gpu(i64 {name}.a, {values}i1 %even)",
    ]


def program_text(
    number: int, program: list[Step], places: list[str], helpers: bool, whole: bool
) -> str:
    lines = [f"p{number}:"]
    for k, (what, *rest) in enumerate(program):
        name = f"%v{number}.{k}"
        if what == "fence":
            scope = 2 if "local" in rest else 1
            lines.append(f"call void @_Z21__spirv_MemoryBarrierjj(i32 {scope}, "
                         f"i32 {512 | SEMANTICS[rest[0]]})")
            continue
        at = f"{name}.p"
        lines.append(f"{at} = getelementptr i32, {P} %memory, i32 {places.index(rest[0]) * 64}")
        order = rest[1] if len(rest) > 1 else ""
        scope = "workgroup" if "local" in rest else "device"
        if helpers and what in CALLS:
            lines += helper_call(name, what, at)
        elif what in ("load", "store"):
            if whole and rest[0] in DATA:
                lines.append(f"{at}.l = getelementptr i32, {P} {at}, i32 %lane")
                at = f"{at}.l"
            lines.append(f"{name} = load i32, {P} {at}, align 4" if what == "load" else
                         f"store i32 1, {P} {at}, align 4")
        elif what == "read":
            lines.append(f"{name} = call i32 @_Z18__spirv_AtomicLoadPU3AS1iii({P} {at}, i32 1, "
                         f"i32 {SEMANTICS[order]})")
        elif what == "write":
            lines.append(f"call void @_Z19__spirv_AtomicStorePU3AS1iiii({P} {at}, i32 1, "
                         f"i32 {SEMANTICS[order]}, i32 1)")
        elif what == "add":
            lines.append(f'{name} = atomicrmw or {P} {at}, i32 0 syncscope("{scope}") '
                         f"{ORDERS[order]}, align 4")
        else:
            # flags begin with 0 and are only ever set to 1: 7 is never found
            old, new = ("7", "9") if what == "fail" else ("0", "1")
            failed = {"release": "monotonic", "acq_rel": "acquire"}.get(order, ORDERS[order])
            lines.append(f"{name} = cmpxchg {P} {at}, i32 {old}, i32 {new} "
                         f'syncscope("{scope}") {ORDERS[order]} {failed}, align 4')
    return "\n  ".join([*lines, "br label %done"])


def report(programs: list[list[Step]], helpers: bool = False, whole: bool = False) -> str:
    """The text of the finding of the checks; empty if they find nothing.

    `whole`: all lanes load and store data, each its own word.
    """
    places = sorted({s[1] for p in programs for s in p if s[0] != "fence"})
    cases = " ".join(f"i32 {k}, label %p{k}" for k in range(len(programs)))
    text = "\n".join([
        f"define spir_kernel void @k({P} %memory)",
        "    !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {",
        "  %group = call i64 @_Z12get_group_idj(i32 0)", "  %g = trunc i64 %group to i32",
        "  %lane = call i32 @_Z22get_sub_group_local_idv()", "  %bit = and i32 %lane, 1",
        "  %even = icmp eq i32 %bit, 0",
        f"  switch i32 %g, label %done [{cases}]",
        *(program_text(k, p, places, helpers, whole) for k, p in enumerate(programs)),
        "done:", "  ret void", "}", HELPERS, HEAD])
    device = SimulatedDevice("bmg")
    kernel = device.load(text.encode(), "k")
    memory = device.allocate(256 * max(len(places), 1))
    device.copy_to_device(memory.pointer, np.zeros(64 * max(len(places), 1), np.int32))
    try:
        device.launch(kernel, (len(programs), 1, 1), [memory.pointer])
    except SimulatorTrap as trap:
        return str(trap)
    return ""


# --- the model ------------------------------------------------------------------------------------

Clock = dict[int, int]


def join(into: Clock, other: Clock) -> None:
    for program, count in other.items():
        into[program] = max(into.get(program, 0), count)


@dataclass
class Flag:
    published: Clock = field(default_factory=dict)
    holder: int = -1
    """The program whose release, or store, came last."""
    value: int = 0


@dataclass
class Access:
    program: int
    moment: int
    writes: bool
    atomic: bool


def races(programs: list[list[Step]]) -> tuple[bool, bool]:
    """Whether data race, or flags, when the programs run one after another.

    For races, a compare-and-swap always counts as a write.
    """
    flags: dict[str, Flag] = {}
    seen: dict[str, list[Access]] = {}
    found = {"data": False, "flag": False}
    for me, program in enumerate(programs):
        clock: Clock = {}
        fenced: Clock | None = None
        waiting: Clock = {}
        for moment, (what, *rest) in enumerate(program):
            clock[me] = moment
            order = rest[-1] if what not in ("load", "store") else ""
            acquires, releases = order in ("acquire", "acq_rel"), order in ("release", "acq_rel")
            if what == "fence":
                if acquires:
                    join(clock, waiting)
                if releases:
                    fenced = dict(clock)
                continue
            place = rest[0]
            atomic = what not in ("load", "store")
            writes = what not in ("load", "read")
            now = Access(me, moment, writes, atomic)
            for old in seen.setdefault(place, []):
                clash = (old.writes or writes) and not (old.atomic and atomic)
                if clash and old.program != me and clock.get(old.program, -1) <= old.moment:
                    found["flag" if place.startswith("f") else "data"] = True
            seen[place].append(now)
            flag = flags.setdefault(place, Flag())
            clock[me] = moment + 1
            if what == "store" and flag.holder != me:
                flag = flags[place] = Flag()
            if what in ("read", "add", "take", "fail"):
                join(clock if acquires else waiting, flag.published)
            succeeds = what in ("write", "add") or (what == "take" and flag.value == 0)
            if atomic and succeeds:
                mine = dict(clock) if releases else fenced
                if what == "write" and (mine is not None or flag.holder != me):
                    flag = flags[place] = Flag()
                if mine is not None:
                    join(flag.published, mine)
                    flag.holder = me
            flag.value |= what in ("store", "write") or (what == "take" and succeeds)
    return found["data"], found["flag"]


# --- bugs, and what only looks like one -----------------------------------------------------------

GIVE = "store a; add f release"
CASES = {
    "flag": (True, GIVE, "add f acquire; load a"),
    "wrong flag": (False, GIVE, "add g acquire; load a"),
    "released elsewhere": (False, "store a; add g release", "add f acquire; load a"),
    "no acquire": (False, GIVE, "add f relaxed; load a"),
    "no release": (False, "store a; add f relaxed", "add f acquire; load a"),
    "relaxed alone": (False, "store a; add f relaxed", "add f relaxed; load a"),
    "released too early": (False, "add f release; store a", "add f acquire; load a"),
    "read and store": (True, "store a; write f release", "read f acquire; load a"),
    "release of another's later data": (
        False, "add f release", "store a; add g release", "add f acquire; load a"),
    "chain": (True, GIVE, "add f acquire; add g release", "add g acquire; store a"),
    "chain with a gap": (False, GIVE, "add f relaxed; add g release", "add g acquire; store a"),
    "relaxed additions in between": (
        True, GIVE, "add f relaxed", "add f relaxed", "add f acquire; load a"),
    "relaxed store in between": (
        False, GIVE, "write f relaxed", "add f acquire; load a"),
    "release store in between": (
        False, GIVE, "write f release", "add f acquire; load a"),
    "relaxed store of the same program": (
        True, f"{GIVE}; write f relaxed", "add f acquire; load a"),
    "plain store in between": (
        False, GIVE, "add f relaxed; add g release", "add g acquire; store f; add h release",
        "add h acquire; add f acquire; load a"),
    "compare and swap": (True, "store a; take f release", "take f acquire; load a"),
    "failed swap reads": (True, GIVE, "fail f acquire; load a"),
    "failed swap does not release": (
        False, "store a; fail f acq_rel", "add f acquire; load a"),
    "failed swap keeps": (True, GIVE, "fail f relaxed", "add f acquire; load a"),
    "all who counted": (
        True, "store a; add f release", "store b; add f release", "add f acquire; load a; load b"),
    "fences": (True, "store a; fence release; add f relaxed",
               "add f relaxed; fence acquire; load a"),
    "fence and order": (True, "store a; fence release; write f relaxed", "read f acquire; load a"),
    "order and fence": (True, GIVE, "read f relaxed; fence acquire; load a"),
    "fence before the data": (
        False, "fence release; store a; add f relaxed", "add f acquire; load a"),
    "fence after the flag": (
        False, "store a; add f relaxed; fence release", "add f acquire; load a"),
    "acquire fence before the flag": (
        False, GIVE, "fence acquire; add f relaxed; load a"),
    "acquire fence after another flag": (
        False, GIVE, "add g relaxed; fence acquire; load a"),
    "acquire fence in place of a release": (
        False, "store a; fence acquire; add f relaxed", "add f acquire; load a"),
    "one fence for several flags": (
        True, "store a; fence release; add f relaxed; add g relaxed",
        "add g relaxed; fence acquire; load a"),
    "order is no fence": (
        False, "store a; add f release; add g relaxed", "add g acquire; load a"),
    "acquired after the release": (
        False, GIVE, "add g release; add f acquire", "add g acquire; load a"),
    "fence of a work-group": (
        False, "store a; fence release local; add f relaxed", "add f acquire; load a"),
    "read by several": (
        False, "load a; add f release", "load a; add g release", "add f acquire; store a"),
    "read by several, all known": (
        True, "load a; add f release", "load a; add f release", "add f acquire; store a"),
}


@pytest.mark.parametrize("name", CASES)
def test_release_and_acquire(name: str) -> None:
    ordered, *texts = CASES[name]
    programs = [steps(text) for text in texts]
    if "local" not in texts[0]:
        assert any(races(programs)) is not ordered
    for whole in (False, True):
        text = report(programs, whole=whole)
        assert ("data race: " in text) is not ordered
        assert not ordered or text == ""


def random_steps(choose: random.Random, kinds: list[str], orders: list[str]) -> list[Step]:
    """Up to three steps, most of them with one of the orders."""
    made: list[Step] = []
    for what in choose.choices(kinds, k=choose.randint(0, 3)):
        order = choose.choice(orders) if choose.random() < 0.8 else "relaxed"
        if what in ("load", "store"):
            made.append((what, choose.choice(DATA)))
        elif what == "fence":
            made.append((what, choose.choice(orders)))
        else:
            made.append((what, choose.choice("fg"), order))
    return made


def random_program(choose: random.Random) -> list[Step]:
    """Acquires, works, and releases; or something like it."""
    parts = [
        random_steps(choose, ["add", "take", "fail", "read", "fence"], ["acquire"]),
        random_steps(choose, ["load", "store"], ["relaxed"]),
        random_steps(choose, ["add", "take", "write", "fence"], ["release"]),
        random_steps(choose, ["add", "fail", "take", "fence"], ["acq_rel"]),
    ]
    if choose.random() < 0.2:
        choose.shuffle(parts)
    return [step for part in parts for step in part]


def random_programs(seed: int) -> list[list[Step]]:
    choose = random.Random(seed)
    while True:
        programs = [random_program(choose) for _ in range(choose.randint(2, 5))]
        if any(what != "fence" for p in programs for what, *_ in p):
            return programs


SEEDS = [
    pytest.param(seed, marks=() if seed < 20 else pytest.mark.slow) for seed in range(40)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    """Reported if and only if the model has a race."""
    programs = random_programs(seed)
    for whole in (False, True):
        found = report(programs, whole=whole)
        assert ("data race: " in found) is any(races(programs)), programs


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_of_helpers_and_fences(seed: int) -> None:
    programs = [fenced(p) for p in random_programs(1000 + seed)]
    for whole in (False, True):
        found = report(programs, helpers=True, whole=whole)
        assert ("data race: " in found) is any(races(programs)), programs
