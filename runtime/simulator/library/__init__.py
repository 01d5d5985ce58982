"""The support library: one small LLVM module per function, made when first called.

A function's name says all its code depends on (`library_names`), so each is compiled once per
host and cached (`jit`).  `source(name, host)` gives the module's text and the functions it calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.simulator.library import blocks as library_blocks
from triton_xe.runtime.simulator.library import dpas as library_dpas
from triton_xe.runtime.simulator.library import half as library_half
from triton_xe.runtime.simulator.library import maths as library_maths
from triton_xe.runtime.simulator.library import tiles as library_tiles
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer import checks as library_sanitizer
from triton_xe.runtime.simulator.sanitizer import state as library_sanitizer_state
from triton_xe.runtime.simulator.trace import library as library_trace


@dataclass(frozen=True)
class Source:
    """LLVM text of a library function and the library functions it calls."""

    text: str
    helpers: tuple[str, ...] = ()


def source(name: str, host: HostCpu) -> Source:
    """The module that defines `name`."""
    for pattern, make in _MAKERS:
        found = pattern.fullmatch(name)
        if found is not None:
            return make(host, *found.groups())
    raise UnsupportedError(f"the simulator has no library function {name}")


def _gather(host: HostCpu, bits: str, lanes: str) -> Source:
    """Lane by lane: no host gathers elements below 32 bits."""
    s = int(lanes)
    t = f"i{bits}"
    lines = [f"define <{s} x {t}> @xe_gather_{t}_{s}(<{s} x ptr> %p, <{s} x i1> %m, "
             f"<{s} x {t}> %o) nounwind {{", "entry:", f"  %scratch = alloca <{s} x {t}>",
             f"  store <{s} x {t}> %o, ptr %scratch"]
    for k in range(s):
        lines += [
            f"  %p{k} = extractelement <{s} x ptr> %p, i32 {k}",
            f"  %m{k} = extractelement <{s} x i1> %m, i32 {k}",
            f"  %f{k} = getelementptr {t}, ptr %scratch, i32 {k}",
            f"  %a{k} = select i1 %m{k}, ptr %p{k}, ptr %f{k}",
            f"  %v{k} = load {t}, ptr %a{k}, align 1",
            f"  %r{k} = insertelement <{s} x {t}> {'poison' if k == 0 else f'%r{k - 1}'}, "
            f"{t} %v{k}, i32 {k}",
        ]
    return Source("\n".join([*lines, f"  ret <{s} x {t}> %r{s - 1}", "}"]))


def _scatter(host: HostCpu, bits: str, lanes: str) -> Source:
    """In lane order; inactive lanes write to a scratch element."""
    s = int(lanes)
    t = f"i{bits}"
    lines = [f"define void @xe_scatter_{t}_{s}(<{s} x ptr> %p, <{s} x i1> %m, <{s} x {t}> %v) "
             "nounwind {", "entry:", f"  %scratch = alloca {t}"]
    for k in range(s):
        lines += [
            f"  %p{k} = extractelement <{s} x ptr> %p, i32 {k}",
            f"  %m{k} = extractelement <{s} x i1> %m, i32 {k}",
            f"  %v{k} = extractelement <{s} x {t}> %v, i32 {k}",
            f"  %a{k} = select i1 %m{k}, ptr %p{k}, ptr %scratch",
            f"  store {t} %v{k}, ptr %a{k}, align 1",
        ]
    return Source("\n".join([*lines, "  ret void", "}"]))


def _shuffle(host: HostCpu, bits: str, lanes: str) -> Source:
    """Indirect register read: the index is taken modulo the subgroup size."""
    s = int(lanes)
    t = f"i{bits}"
    flat = f"<{s} x {t}>"
    lines = [f"define {flat} @xe_shuffle_{t}_{s}({flat} %v, <{s} x i32> %i) nounwind {{",
             "entry:", f"  %memory = alloca {flat}", f"  store {flat} %v, ptr %memory",
             f"  %w = and <{s} x i32> %i, splat (i32 {s - 1})"]
    for k in range(s):
        lines += [
            f"  %i{k} = extractelement <{s} x i32> %w, i32 {k}",
            f"  %a{k} = getelementptr {t}, ptr %memory, i32 %i{k}",
            f"  %v{k} = load {t}, ptr %a{k}",
            f"  %r{k} = insertelement {flat} {'poison' if k == 0 else f'%r{k - 1}'}, "
            f"{t} %v{k}, i32 {k}",
        ]
    return Source("\n".join([*lines, f"  ret {flat} %r{s - 1}", "}"]))


def _trap(host: HostCpu) -> Source:
    """Note the first trap of a launch: code, line, six numbers."""
    numbers = "\n".join(
        f"  %at{k} = getelementptr i64, ptr %err, i32 {k + 2}\n  store i64 %n{k}, ptr %at{k}"
        for k in range(6)
    )
    return Source(
        "define void @xe_trap(ptr %err, i64 %code, i32 %line, i64 %n0, i64 %n1, i64 %n2, "
        "i64 %n3, i64 %n4, i64 %n5) nounwind cold noinline {\nentry:\n"
        "  %r = cmpxchg ptr %err, i64 0, i64 %code seq_cst seq_cst\n"
        "  %first = extractvalue { i64, i1 } %r, 1\n"
        "  br i1 %first, label %note, label %done\nnote:\n"
        "  %line64 = zext i32 %line to i64\n"
        "  %at = getelementptr i64, ptr %err, i32 1\n  store i64 %line64, ptr %at\n"
        f"{numbers}\n  br label %done\ndone:\n  ret void\n}}"
    )


def _stopped(host: HostCpu) -> Source:
    """Note who was still running when the time was up: line, work-group, subgroup, told."""
    return Source(
        "define void @xe_stopped(ptr %ctx, i32 %sg, i64 %line) nounwind cold noinline {\nentry:\n"
        "  %a = getelementptr i64, ptr %ctx, i32 7\n  %err = load ptr, ptr %a\n"
        "  %code = load volatile i64, ptr %err\n"
        f"  %late = icmp eq i64 %code, {library_sanitizer_state.Code.TIME}\n"
        "  br i1 %late, label %tell, label %done\ntell:\n"
        "  %a4 = getelementptr i64, ptr %err, i32 4\n"
        "  %r = cmpxchg ptr %a4, i64 0, i64 1 seq_cst seq_cst\n"
        "  %first = extractvalue { i64, i1 } %r, 1\n"
        "  br i1 %first, label %note, label %done\nnote:\n"
        "  %a1 = getelementptr i64, ptr %err, i32 1\n  store i64 %line, ptr %a1\n"
        "  %ag = getelementptr i64, ptr %ctx, i32 10\n  %g = load i64, ptr %ag\n"
        "  %a2 = getelementptr i64, ptr %err, i32 2\n  store i64 %g, ptr %a2\n"
        "  %a3 = getelementptr i64, ptr %err, i32 3\n  %sg64 = zext i32 %sg to i64\n"
        "  store i64 %sg64, ptr %a3\n  br label %done\ndone:\n  ret void\n}"
    )


def _cold(host: HostCpu) -> Source:
    """Note that this subgroup must run again, in the whole kernel."""
    return Source(
        "define void @xe_cold(ptr %ctx, i32 %sg) nounwind cold {\nentry:\n"
        "  %a1 = getelementptr i64, ptr %ctx, i32 9\n  %flags = load ptr, ptr %a1\n"
        "  %a2 = getelementptr i64, ptr %ctx, i32 10\n  %g = load i64, ptr %a2\n"
        "  %a3 = getelementptr i64, ptr %ctx, i32 11\n  %count = load i64, ptr %a3\n"
        "  %sg64 = zext i32 %sg to i64\n  %m = mul i64 %g, %count\n"
        "  %i = add i64 %m, %sg64\n  %p = getelementptr i8, ptr %flags, i64 %i\n"
        "  store i8 1, ptr %p\n  ret void\n}"
    )


_RUN = """
define void @xe_run_{name}(ptr %kernel, ptr %launch, ptr %slm) nounwind {
entry:
  %ctx = alloca [128 x i8], align 64
{load}
{setup}
  br label %take
take:
  %first = atomicrmw add ptr %next, i64 %chunk monotonic
  %more = icmp ult i64 %first, %total
  br i1 %more, label %span, label %done
span:
  %sum = add i64 %first, %chunk
  %end = call i64 @llvm.umin.i64(i64 %sum, i64 %total)
  br label %group
group:
  %k = phi i64 [%first, %span], [%k1, %group.again]
{place}
{body}
after:
  %k1 = add i64 %k, 1
  %code = load atomic i64, ptr %err monotonic, align 8
  %ok = icmp eq i64 %code, 0
  br i1 %ok, label %next.group, label %done
next.group:
  %in = icmp ult i64 %k1, %end
  br i1 %in, label %group.again, label %take
group.again:
  br label %group
done:
{cleanup}
  ret void
}
"""

# every subgroup of a work-group from begin to end
_PLAIN_BODY = """\
  br label %warp
warp:
  %sg = phi i32 [0, %place], [%sg1, %warp.next]
  br i1 %all, label %warp.run, label %warp.look
warp.look:
  %w64 = zext i32 %sg to i64
  %w.row = mul i64 %g, %count64
  %w.i = add i64 %w.row, %w64
  %w.at = getelementptr i8, ptr %cold, i64 %w.i
  %w.flag = load i8, ptr %w.at
  %w.on = icmp ne i8 %w.flag, 0
  br i1 %w.on, label %warp.run, label %warp.next
warp.run:
  call void %kernel(ptr %args, ptr %ctx, i32 %sg)
  br label %warp.next
warp.next:
  %sg1 = add i32 %sg, 1
  %again = icmp ult i32 %sg1, %count
  br i1 %again, label %warp, label %after"""

# the subgroups are coroutines; their frames serve one work-group after the other
_BARRIER_SETUP = """\
  %handles = alloca ptr, i32 %count
  %sites = alloca i32, i32 %count
  %sites.at = getelementptr i8, ptr %ctx, i64 64
  store ptr %sites, ptr %sites.at
  %frames = alloca ptr, i32 %count
  %frames.size = mul i64 %count64, 8
  call void @llvm.memset.p0.i64(ptr %frames, i8 0, i64 %frames.size, i1 false)
  %frames.at = getelementptr i64, ptr %ctx, i32 13
  store ptr %frames, ptr %frames.at"""
_BARRIER_CLEANUP = """\
  br label %release
release:
  %u = phi i32 [0, %done], [%u1, %release]
  %u.at = getelementptr ptr, ptr %frames, i32 %u
  %u.frame = load ptr, ptr %u.at
  call void @free(ptr %u.frame)
  %u1 = add i32 %u, 1
  %u.more = icmp ult i32 %u1, %count
  br i1 %u.more, label %release, label %released
released:"""
_BARRIER_BODY = """\
  br label %start
start:
  %a = phi i32 [0, %place], [%a1, %start]
  %a.site = getelementptr i32, ptr %sites, i32 %a
  store i32 0, ptr %a.site
  %h = call ptr %kernel(ptr %args, ptr %ctx, i32 %a)
  %a.at = getelementptr ptr, ptr %handles, i32 %a
  store ptr %h, ptr %a.at
  %a1 = add i32 %a, 1
  %a.more = icmp ult i32 %a1, %count
  br i1 %a.more, label %start, label %round
round:
  ; every subgroup waits at a barrier or is done: all must agree
  %h0 = load ptr, ptr %handles
  %f0 = load ptr, ptr %h0
  %done0 = icmp eq ptr %f0, null
  %site0 = load i32, ptr %sites
  br label %look
look:
  %b = phi i32 [0, %round], [%b1, %same]
  %b.at = getelementptr ptr, ptr %handles, i32 %b
  %b.h = load ptr, ptr %b.at
  %b.f = load ptr, ptr %b.h
  %b.done = icmp eq ptr %b.f, null
  %b.site.at = getelementptr i32, ptr %sites, i32 %b
  %b.site = load i32, ptr %b.site.at
  %d1 = icmp ne i1 %b.done, %done0
  %d2 = icmp ne i32 %b.site, %site0
  %d3 = xor i1 %done0, true
  %d4 = and i1 %d2, %d3
  %differ = or i1 %d1, %d4
  br i1 %differ, label %diverged, label %same
same:
  %b1 = add i32 %b, 1
  %b.more = icmp ult i32 %b1, %count
  br i1 %b.more, label %look, label %agreed
diverged:
  %b64 = zext i32 %b to i64
  %site64 = zext i32 %site0 to i64
  %bsite64 = zext i32 %b.site to i64
  %bdone64 = zext i1 %b.done to i64
  %done64 = zext i1 %done0 to i64
  call void @xe_trap(ptr %err, i64 2, i32 %site0, i64 %g, i64 %b64,
    i64 %site64, i64 %bsite64, i64 %done64, i64 %bdone64)
  br label %destroy
agreed:
  br i1 %done0, label %destroy, label %resume
resume:
  %c = phi i32 [0, %agreed], [%c1, %resume]
  %c.at = getelementptr ptr, ptr %handles, i32 %c
  %c.h = load ptr, ptr %c.at
  %c.f = load ptr, ptr %c.h
  call fastcc void %c.f(ptr %c.h)
  %c1 = add i32 %c, 1
  %c.more = icmp ult i32 %c1, %count
  br i1 %c.more, label %resume, label %round
destroy:
  br label %free
free:
  %e = phi i32 [0, %destroy], [%e1, %free]
  %e.at = getelementptr ptr, ptr %handles, i32 %e
  %e.h = load ptr, ptr %e.at
  %e.d.at = getelementptr ptr, ptr %e.h, i32 1
  %e.d = load ptr, ptr %e.d.at
  call fastcc void %e.d(ptr %e.h)
  %e1 = add i32 %e, 1
  %e.more = icmp ult i32 %e1, %count
  br i1 %e.more, label %free, label %after"""
_BARRIER_DECLARATIONS = """
declare void @xe_trap(ptr, i64, i32, i64, i64, i64, i64, i64, i64)
declare void @free(ptr)
"""

# the launch record, see launch.Launch
_LOAD = """  %args = load ptr, ptr %launch
  %l1 = getelementptr i64, ptr %launch, i32 1
  %gx = load i64, ptr %l1
  %l2 = getelementptr i64, ptr %launch, i32 2
  %gy = load i64, ptr %l2
  %l3 = getelementptr i64, ptr %launch, i32 3
  %gz = load i64, ptr %l3
  %l4 = getelementptr i64, ptr %launch, i32 4
  %total = load i64, ptr %l4
  %l5 = getelementptr i64, ptr %launch, i32 5
  %chunk = load i64, ptr %l5
  %l6 = getelementptr i64, ptr %launch, i32 6
  %count64 = load i64, ptr %l6
  %count = trunc i64 %count64 to i32
  %l7 = getelementptr i64, ptr %launch, i32 7
  %slm.bytes = load i64, ptr %l7
  %l8 = getelementptr i64, ptr %launch, i32 8
  %err = load ptr, ptr %l8
  %l9 = getelementptr i64, ptr %launch, i32 9
  %cold = load ptr, ptr %l9
  %l10 = getelementptr i64, ptr %launch, i32 10
  %list = load ptr, ptr %l10
  %all = icmp eq ptr %list, null
  %c9 = getelementptr i64, ptr %ctx, i32 9
  store ptr %cold, ptr %c9
  %c11 = getelementptr i64, ptr %ctx, i32 11
  store i64 %count64, ptr %c11
  %next = getelementptr i64, ptr %launch, i32 16
  %c3 = getelementptr i64, ptr %ctx, i32 3
  store i64 %gx, ptr %c3
  %c4 = getelementptr i64, ptr %ctx, i32 4
  store i64 %gy, ptr %c4
  %c5 = getelementptr i64, ptr %ctx, i32 5
  store i64 %gz, ptr %c5
  %c6 = getelementptr i64, ptr %ctx, i32 6
  store ptr %slm, ptr %c6
  %c7 = getelementptr i64, ptr %ctx, i32 7
  store ptr %err, ptr %c7
  %gxy = mul i64 %gx, %gy"""
_PLACE = """  br i1 %all, label %place, label %listed
listed:
  %list.at = getelementptr i64, ptr %list, i64 %k
  %list.g = load i64, ptr %list.at
  br label %place
place:
  %g = phi i64 [%k, %group], [%list.g, %listed]
  %c10 = getelementptr i64, ptr %ctx, i32 10
  store i64 %g, ptr %c10
  %x = urem i64 %g, %gx
  %rest = udiv i64 %g, %gx
  %y = urem i64 %rest, %gy
  %z = udiv i64 %g, %gxy
  store i64 %x, ptr %ctx
  %cy = getelementptr i64, ptr %ctx, i32 1
  store i64 %y, ptr %cy
  %cz = getelementptr i64, ptr %ctx, i32 2
  store i64 %z, ptr %cz
  call void @llvm.memset.p0.i64(ptr %slm, i8 -1, i64 %slm.bytes, i1 false)"""
_LOAD_STATE = """
  %l11 = getelementptr i64, ptr %launch, i32 11
  %state = load ptr, ptr %l11
  %c12 = getelementptr i64, ptr %ctx, i32 12
  store ptr %state, ptr %c12"""
_RUN_DECLARATIONS = """
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def _runner(host: HostCpu, kind: str, checked: str | None) -> Source:
    """Takes chunks of work-groups and runs every subgroup of each; SLM starts as all ones."""
    parts = {"name": kind + (checked or ""), "load": _LOAD, "place": _PLACE, "setup": "",
             "body": _PLAIN_BODY, "cleanup": ""}
    declarations = _RUN_DECLARATIONS
    helpers: tuple[str, ...] = ()
    if kind == "barrier":
        parts |= {"setup": _BARRIER_SETUP, "body": _BARRIER_BODY, "cleanup": _BARRIER_CLEANUP}
        declarations += _BARRIER_DECLARATIONS
        helpers = ("xe_trap",)
    if checked:
        parts["load"] += _LOAD_STATE
        parts["place"] += "\n  call void @xe_san_group(ptr %ctx)"
        declarations += "\ndeclare void @xe_san_group(ptr)"
        helpers += (library_sanitizer_state.NEW_GROUP,)
    text = re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], _RUN)
    return Source(text + declarations, helpers)


def _frame(host: HostCpu) -> Source:
    """Memory for the coroutine of a subgroup: made once, then used again."""
    return Source(
        "define ptr @xe_frame(ptr %ctx, i32 %sg, i64 %size) nounwind {\nentry:\n"
        "  %at = getelementptr i64, ptr %ctx, i32 13\n  %frames = load ptr, ptr %at\n"
        "  %own = getelementptr ptr, ptr %frames, i32 %sg\n  %old = load ptr, ptr %own\n"
        "  %none = icmp eq ptr %old, null\n  br i1 %none, label %make, label %done\nmake:\n"
        "  %more = add i64 %size, 63\n  %round = and i64 %more, -64\n"
        "  %new = call ptr @aligned_alloc(i64 64, i64 %round)\n  store ptr %new, ptr %own\n"
        "  br label %done\ndone:\n  %frame = phi ptr [%old, %entry], [%new, %make]\n"
        "  ret ptr %frame\n}\ndeclare ptr @aligned_alloc(i64, i64)"
    )


_Maker = Callable[..., Source]


def _plain(make: Callable[..., tuple[str, tuple[str, ...]]]) -> _Maker:
    def wrapped(host: HostCpu, *groups: str) -> Source:
        return Source(*make(host, *groups))

    return wrapped


_MAKERS: tuple[tuple[re.Pattern[str], _Maker], ...] = (
    (re.compile(r"xe_gather_i(\d+)_(\d+)"), _gather),
    (re.compile(r"xe_scatter_i(\d+)_(\d+)"), _scatter),
    (re.compile(r"xe_shuffle_i(\d+)_(\d+)"), _shuffle),
    (re.compile(r"xe_trap"), _trap),
    (re.compile(r"xe_stopped"), _stopped),
    (re.compile(r"xe_cold"), _cold),
    (re.compile(r"xe_frame"), _frame),
    (re.compile(r"xe_run_(plain|barrier)(_checked)?"), _runner),
    (re.compile(library_half.PATTERN), _plain(library_half.function)),
    (re.compile(library_trace.PATTERN), _plain(library_trace.function)),
    (re.compile(library_sanitizer.PATTERN), _plain(library_sanitizer.function)),
    (re.compile(r"xe_block_read_(\d+)_(\d+)x(\d+)x(\d+)_(\w+)"),
     _plain(library_blocks.block_read)),
    (re.compile(r"xe_tile_(\d+)_(\d+)x(\d+)x(\d+)_(\w+)"), _plain(library_tiles.tile)),
    (re.compile(r"xe_block_write_(\d+)_(\d+)x(\d+)"), _plain(library_blocks.block_write)),
    (re.compile(r"xe_prepare_a_(\w+)_(\d+)x(\d+)_(\d+)"), _plain(library_dpas.prepare_a)),
    (re.compile(r"xe_prepare_b_(\w+)_(\d+)x(\d+)_(\d+)"), _plain(library_dpas.prepare_b)),
    (re.compile(r"xe_dpas_(f32|i16)_(\w+)_(\d+)x(\d+)x(\d+)_(one|wide|tall)(\d+)(_ahead)?"),
     _plain(library_dpas.dpas)),
    (re.compile(r"xe_(\w+)_(f32|f64)_(\d+)"), _plain(library_maths.function)),
)
