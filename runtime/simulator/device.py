"""`SimulatedDevice`: the device protocol, with kernels translated to code of the host CPU."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from triton_xe import knobs
from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.runtime import findings, native, observers, torch_memory
from triton_xe.runtime.device import Grid
from triton_xe.runtime.native.arguments import format_of
from triton_xe.runtime.simulator.host_device import HostDevice, Work
from triton_xe.runtime.simulator.host_kernel import WHOLE, Form, Part, Purpose
from triton_xe.runtime.simulator.kernel import (
    Asked,
    Choice,
    CompiledForm,
    SimulatedKernel,
    choose,
)
from triton_xe.runtime.simulator.run import launch as launcher
from triton_xe.runtime.simulator.run.tensors import Tensor, tensors_of

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
    from triton_xe.runtime.simulator.sanitizer.shadow import LaunchState

_MOST_SEED = 1 << 62


class SimulatedDevice(HostDevice[SimulatedKernel]):
    """One simulated GPU of the type `target_name`; see `runtime.device.Device`."""

    def __init__(self, target_name: str = "bmg", index: int = 0) -> None:
        super().__init__(target_name, index)
        self._shuffled_launches = itertools.count()

    def _kernel(self, *known: Any, is_general: bool) -> SimulatedKernel:
        """Load a kernel; the version for launches that fail a condition includes its fallbacks.

        Such a launch most likely needs them, and without them would compile the kernel twice.
        """
        made = SimulatedKernel(*known, part=Part.WHOLE if is_general else Part.COMMON)
        made.launch_state = self._native_state(made)
        return made

    def _native_state(self, kernel: SimulatedKernel) -> Any:
        """State of a kernel for compiled launch code; None without such code."""
        types = kernel.argument_types
        if native.launch is None or len(types) > native.launch.MOST_ARGUMENTS:
            return None
        journal = None if self.clock is None else self.clock.journal
        state = native.launch.Simulated(
            kernel, partial(self._end_rarely, kernel), journal, self.index, format_of(types))
        if kernel.versions is not None:
            state.assume(kernel.versions.conditions.packed())
        return state

    def _end_rarely(
        self, kernel: SimulatedKernel, prepared: launcher.Prepared, grid: Grid,
        args: tuple[int | float, ...], cold: bytearray | None, error: bytes | None,
    ) -> None:
        """Finish a launch by compiled code that trapped or reached code that was left out."""
        if error is not None:
            prepared.trap(grid, list(struct.unpack("<16q", error)))
        assert cold is not None
        self._run_cold(kernel, Work(grid, args), cold)

    # -- launches that nothing observes ------------------------------------------------------------

    def _run_plainly(self, kernel: SimulatedKernel, work: Work) -> bool:
        """Run the launch if nothing observes it; else return False."""
        if work.sanitize or work.cooperative or work.programs is not None or not self._is_plain():
            return False
        version = self._version(kernel, work)
        if version.prefers_whole:
            return False
        made, cold = version.fastest(work.args), None
        version.run_natively(made, like=kernel)
        if not version.host.is_whole:
            cold = bytearray(work.groups * made.host.sub_groups)
        launcher.run(made.launch(work.grid, work.args), cold)
        if cold is not None and 1 in cold:
            self._run_cold(version, work, cold)
        if self.clock is not None:
            self.clock.note(version, work.grid, work.args)
        return True

    def _is_plain(self) -> bool:
        """True if nothing observes a launch: checks, traces, recorders, maps of unwritten bytes."""
        return (knobs.plain_launches() and not self.is_dry and observers.wanted() is None
                and not torch_memory.has_maps())

    # -- all other launches ------------------------------------------------------------------------

    def execute(self, kernel: SimulatedKernel, work: Work) -> None:
        choice = choose(kernel.part, self._asked(kernel, work))
        if choice.what is Purpose.CHECK:
            self._check(kernel, choice, work)
            return
        for k in kernel.pointer_arguments if torch_memory.has_maps() else ():
            if k < len(work.args):
                torch_memory.mark_block(int(work.args[k]))
        if choice.what is Purpose.TRACE:
            self._trace(kernel, choice, work)
            return
        form = kernel.compiled(Form(choice.part, is_shuffled=choice.is_shuffled))
        launch, cold = form.launch(work), form.cold_flags(work)
        launcher.run(launch._replace(seed=self._seed(choice)), cold)
        if cold is not None and 1 in cold:
            self._run_cold(kernel, work, cold)

    @staticmethod
    def _asked(kernel: SimulatedKernel, work: Work) -> Asked:
        """The requests for a launch."""
        found = (
            (Asked.CHECKS, work.is_checked), (Asked.TRACE, bool(knobs.trace())),
            (Asked.SHUFFLED, bool(knobs.shuffle())), (Asked.SOME, work.programs is not None),
            (Asked.WHOLE, kernel.prefers_whole))
        return reduce(or_, (flag for flag, is_asked in found if is_asked), Asked.NOTHING)

    def _seed(self, choice: Choice) -> int:
        """Seed for the order of the next launch, different each time; 0 for the usual order."""
        if not choice.is_shuffled:
            return 0
        return 1 + (knobs.shuffle() << 32) % _MOST_SEED + next(self._shuffled_launches)

    def _run_cold(self, kernel: SimulatedKernel, work: Work, cold: bytearray) -> None:
        """Run subgroups again, in the whole kernel, that reached code that was left out."""
        kernel.prefers_whole = cold.count(1) * 4 > len(cold)
        if kernel.prefers_whole:
            kernel.stop()
        launch = kernel.compiled(WHOLE).launch(work)
        each = work.groups * launch.host.sub_groups // len(cold)
        launcher.run_again(launch, bytearray(np.repeat(np.frombuffer(cold, np.uint8), each)))

    def _check(self, kernel: SimulatedKernel, choice: Choice, work: Work) -> None:
        """Run with the checks; a trap becomes a finding too."""
        from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation

        tensors = tensors_of(work.tensors)
        sizes = {k: t.integer_bytes for k, t in tensors.items()}
        plan = Instrumentation(knobs.sanitize_finite(), knobs.strict_barriers(),
                               suspects=self._suspects(kernel, work), integers=sizes)
        with self._observed(kernel, plan, choice, work, tensors) as (form, state):
            try:
                self._run_observed(form, state, choice, work)
            except SimulatorTrap as error:
                findings.note(error.finding or findings.Finding(
                    "trap", kernel.name, "", str(error)))
                raise
            finally:
                findings.note(findings.CheckedLaunch(kernel.name, state.checked))

    def _trace(self, kernel: SimulatedKernel, choice: Choice, work: Work) -> None:
        """Run a launch and write its accesses to the file of TRITON_XE_TRACE."""
        from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
        from triton_xe.runtime.simulator.sanitizer.state import Word
        from triton_xe.runtime.simulator.trace import tracing

        path = knobs.trace()
        plan = Instrumentation(trace=True)
        with self._observed(kernel, plan, choice, work, tensors_of(work.tensors)) as (form, state):
            records = state.trace()
            started = time.perf_counter()
            try:
                self._run_observed(form, state, choice, work)
            finally:
                seconds = self._seconds(kernel, work, time.perf_counter() - started)
                count = int(state.words[Word.TRACED])
                tracing.write(path, kernel.name, state.plan.sites, records[:count],
                              max(0, count - len(records)), form.host.lanes, seconds)

    def _seconds(self, kernel: SimulatedKernel, work: Work, here: float) -> float:
        """Time of a launch for its trace: predicted, or the host's time `here` without a clock."""
        if self.clock is None:
            return here
        return self.clock.predicted_us(kernel, work.grid, work.args) * 1e-6

    def _suspects(self, kernel: SimulatedKernel, work: Work) -> frozenset[int]:
        """Pointer arguments that the kernel loads from, and whose memory is partly unwritten."""
        torch_memory.track_writes()
        if not self.blocks.has_maps():
            return frozenset()
        pointers = kernel.pointer_arguments & kernel.source.parsed.read_arguments
        return frozenset(k for k in pointers if self.blocks.to_map(int(work.args[k])))

    @contextmanager
    def _observed(
        self, kernel: SimulatedKernel, plan: Instrumentation, choice: Choice, work: Work,
        tensors: Mapping[int, Tensor],
    ) -> Iterator[tuple[CompiledForm, LaunchState]]:
        """The form of a kernel for `plan` and this launch, with the state of the launch."""
        from triton_xe.runtime.simulator.sanitizer import shadow

        with shadow.lock:
            part = choice.part
            if part is Part.KNOWN and self._needs_fallback(kernel, work):
                part = Part.WHOLE
            shadow.prepare()
            form = kernel.compiled(Form(part, plan, choice.is_shuffled))
            host = form.host
            assert host.sanitizer is not None
            state = shadow.LaunchState(
                self.blocks, host.sanitizer, host.argument_types, work.args, work.groups,
                host.slm_bytes, host.sub_groups, host.lanes, tensors,
                takes_turns=host.takes_turns,
                is_eager=host.is_eager(work.groups) or choice.is_shuffled)
            try:
                yield form, state
            finally:
                state.close()

    def _needs_fallback(self, kernel: SimulatedKernel, work: Work) -> bool:
        """True if a work-group of a launch reaches code that the smaller kernel leaves out.

        If a guard traps, the answer is True, and the whole kernel, with checks, reports the reason.
        The answer for the last launch is kept, because grid and arguments determine it.
        """
        if not kernel.source.parsed.has_known_guards or kernel.host.is_whole:
            return False
        known_by = work.grid, tuple(work.args)
        if kernel.guarded[0] != known_by:
            kernel.guarded = known_by, self._reaches_fallback(kernel, work)
        return kernel.guarded[1]

    def _reaches_fallback(self, kernel: SimulatedKernel, work: Work) -> bool:
        """Evaluate the known guards of a launch."""
        launch = kernel.compiled(Form(Part.GUARDS)).launch(work)
        cold = bytearray(work.groups * launch.host.sub_groups)
        try:
            launcher.run(launch, cold)
        except SimulatorTrap:
            return True
        return 1 in cold

    def _run_observed(
        self, form: CompiledForm, state: LaunchState, choice: Choice, work: Work
    ) -> None:
        """Run a launch with its sanitizer's or trace's state."""
        launch = form.launch(work)._replace(state=state, seed=self._seed(choice))
        cold = bytearray(work.groups * launch.host.sub_groups)
        launcher.run(launch, cold)
        if 1 in cold:
            raise DeviceError(f"kernel {form.kernel}: the answers of its guards changed")
