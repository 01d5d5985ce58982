"""A simulated kernel and its compiled forms: plain, in step, shuffled, checked, traced."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import partial
from typing import NamedTuple

from triton_xe import knobs
from triton_xe.collector import paused_collector
from triton_xe.hardware.residency import resident_groups
from triton_xe.progress import progress
from triton_xe.runtime import native, observers
from triton_xe.runtime.native.arguments import read_tensors
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.host_device import ModuleKernel, Work
from triton_xe.runtime.simulator.host_kernel import ENTRY, Form, HostKernel, Part, Purpose
from triton_xe.runtime.simulator.run import launch as launcher
from triton_xe.runtime.simulator.run.jit import IN_PIECES, NativeCode, load_kernel
from triton_xe.runtime.simulator.run.kernel_source import KernelSource
from triton_xe.runtime.simulator.run.watchdog import LEAST_LIMIT

_NEVER = 1 << 62


class Choice(NamedTuple):
    """How a launch runs: part of the kernel, in another order, with checks or a trace."""

    what: Purpose
    part: Part
    is_shuffled: bool = False


class Asked(Flag):
    """Requests for a launch, from its arguments, the environment and earlier launches."""

    NOTHING = 0
    CHECKS = auto()
    TRACE = auto()
    SHUFFLED = auto()
    """To run programs and subgroups in another order."""
    SOME = auto()
    """To run some programs only."""
    WHOLE = auto()
    """To leave no code out, because many subgroups of an earlier launch reached such code."""


def choose(own: Part, asked: Asked = Asked.NOTHING) -> Choice:
    """How to launch a kernel whose usual form is the part `own`.

    Code is left out only if a subgroup that reaches it can run again.  With checks or a trace the
    launch takes the whole kernel if a known guard asks for a fallback.

    >>> choose(Part.COMMON).part, choose(Part.COMMON, Asked.SOME).part
    (<Part.COMMON: 'common'>, <Part.WHOLE: 'whole'>)
    >>> choose(Part.COMMON, Asked.CHECKS | Asked.TRACE | Asked.SHUFFLED)
    Choice(what=<Purpose.CHECK: 'check'>, part=<Part.KNOWN: 'known'>, is_shuffled=True)
    """
    shuffled = Asked.SHUFFLED in asked
    if asked & (Asked.CHECKS | Asked.TRACE):
        part = Part.WHOLE if Asked.SOME in asked or own is Part.WHOLE else Part.KNOWN
        if Asked.CHECKS in asked:
            return Choice(Purpose.CHECK, part, shuffled)
        return Choice(Purpose.TRACE, part)
    whole = asked & (Asked.SHUFFLED | Asked.SOME | Asked.WHOLE)
    return Choice(Purpose.RUN, Part.WHOLE if whole else own, shuffled)


@dataclass(eq=False)
class CompiledForm:
    """A form of a kernel; it is translated, compiled and loaded when first needed."""

    kernel: str
    source: KernelSource
    registers: int
    form: Form
    translated: HostKernel | None = None
    """Its host module, if it was found in the cache."""

    @once
    def host(self) -> HostKernel:
        """The translated host module."""
        if self.translated is not None:
            return self.translated
        with progress(f"translating kernel {self.kernel!r} for the simulator", self.kernel), (
                paused_collector()):
            return self.source.translated(self.form)

    @once
    def loaded(self) -> tuple[NativeCode, int]:
        """Machine code and the address of its entry; it stays loaded while referenced."""
        with progress(f"building kernel {self.kernel!r} for the simulator", self.kernel), (
                paused_collector()):
            kind = "coroutine" if self.host.is_coroutine else "kernel"
            if self.host.in_pieces:
                kind += IN_PIECES
            code = load_kernel(
                self.host.text, self.host.helpers, kind, launcher.runner_name(self.host))
            return code, code.address(ENTRY)

    @once
    def prepared(self) -> launcher.Prepared:
        """Its loaded code, ready to be launched."""
        code, address = self.loaded
        resident = self.resident if self.host.takes_turns else 0
        return launcher.Prepared(self.kernel, self.host, address, code, resident)

    @once
    def resident(self) -> int:
        """Number of work-groups that are resident on the device at once."""
        return resident_groups(
            self.source.target, self.host.sub_groups, self.registers, self.host.slm_bytes,
            barriers=int(self.host.has_barrier))

    def launch(self, work: Work) -> launcher.Launch:
        return self.prepared.launch(work.grid, work.args)._replace(programs=work.programs)

    def cold_flags(self, work: Work) -> bytearray | None:
        """Flags, set by subgroups that reach left-out code; None if no code is left out."""
        return None if self.host.is_whole else bytearray(work.groups * self.host.sub_groups)


@dataclass(eq=False)
class SimulatedKernel(ModuleKernel):
    """A kernel, compiled for the host at its first run; many are only timed by the clock."""

    part: Part = field(default=Part.COMMON, kw_only=True)
    """Part of the kernel that its usual form has."""
    own: CompiledForm = field(init=False)
    """Its usual form."""
    forms: dict[tuple[object, ...], CompiledForm] = field(default_factory=dict)
    """Other forms, by their keys."""
    prefers_whole: bool = False
    """True if too many subgroups reached code that the usual form leaves out."""
    lacks_in_step: bool = False
    """True once it is known to have no in-step form."""
    guarded: tuple[object, bool] = (None, False)
    """Grid and arguments of a checked launch, and True if a known guard asked for a fallback."""
    arguments: Sequence[int | float] = ()
    """Arguments of the launch for which its in-step form is compiled."""

    def __post_init__(self) -> None:
        """Refuse a kernel that does not fit the device; a translated one was checked before."""
        super().__post_init__()
        self._form = partial(CompiledForm, self.name, self.source, self.n_registers)
        usual = Form(self.part)
        kept = self.source.read_cached(usual)
        if kept is None:
            self.source.check()
        self.own = self._form(usual, translated=kept)

    @once
    def argument_types(self) -> tuple[str, ...]:
        return (self.own.translated or self.source.parsed).argument_types

    @property
    def host(self) -> HostKernel:
        return self.own.host

    @property
    def prepared(self) -> launcher.Prepared:
        return self.own.prepared

    @property
    def resident(self) -> int:
        return self.own.resident

    def compiled(self, form: Form) -> CompiledForm:
        """A form of the kernel; launches with equal keys of their checks share one."""
        key = form.key
        if key == self.own.form.key:
            return self.own
        if key not in self.forms:
            self.forms[key] = self._form(form)
        return self.forms[key]

    @once
    def in_step(self) -> CompiledForm | None:
        """The in-step form of this kernel, if it can have one."""
        with progress(f"translating kernel {self.name!r} for many programs", self.name), (
                paused_collector()):
            form = Form(self.part, in_step=True, arguments=self._integers(self.arguments))
            host = self.source.translated(form)
        self.lacks_in_step = not host.in_step
        return self._form(form, translated=host) if host.in_step else None

    def _integers(self, arguments: Sequence[int | float]) -> tuple[int, ...]:
        """The arguments that are integers; 0 for others."""
        return tuple(x if kind in ("i32", "i64") and isinstance(x, int) else 0
                     for kind, x in zip(self.argument_types, arguments, strict=False))

    def fastest(self, arguments: Sequence[int | float]) -> launcher.Prepared:
        """The fastest launch record: in step, if the kernel has run for long enough."""
        if self._patience() > 0:
            return self.own.prepared
        self.arguments = arguments
        return (self.in_step or self.own).prepared

    def _patience(self) -> int:
        """Nanoseconds of run time left until the in-step form is compiled."""
        host = self.own.host
        if host.takes_turns or not host.has_barrier or self.lacks_in_step:
            return _NEVER
        compiled = 0 if self.launch_state is None else self.launch_state.spent
        return int(1e6 * knobs.in_step_after()) - self.own.prepared.spent - compiled

    def run_natively(self, prepared: launcher.Prepared, *, like: SimulatedKernel) -> None:
        """Leave further launches of the kernel `like` to compiled code, if this version runs them.

        They run the code of `prepared`, until a faster form may be compiled.
        """
        if (self.launch_state is None or like.launch_state is None or self.prefers_whole
                or self.is_closed or 0 < knobs.time_limit() < LEAST_LIMIT):
            return
        if self.launch_state.code is not prepared:
            patience = self._patience() if prepared is self.own.prepared else _NEVER
            until = self.launch_state.spent + patience
            self.launch_state.prepare(prepared, *prepared.native(), until)
        if self is not like and like.versions is not None:
            like.launch_state.general = self.launch_state
        observers.register_flags(native.launch)
        native.launch.read_limits(*knobs.launch_limits())
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "nn"):
            read_tensors(torch.Tensor, torch.nn.Parameter)

    def stop(self) -> None:
        """Leave launches to Python."""
        if self.launch_state is not None:
            self.launch_state.stop()

    def close(self) -> None:
        """Stop launches, and unload the code of all forms."""
        super().close()
        self.stop()
        self.own = self._form(Form(self.part))
        self.forms.clear()
        self.in_step = None
