"""The time of a launch; `predict` names each of its terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from triton_xe.hardware.residency import groups_per_core
from triton_xe.model.rates import DPAS_EFFICIENCY, FABRIC, MATH_CLOCKS, Rates
from triton_xe.model.traffic import waves
from triton_xe.model.work import Work

BARRIER_CLOCKS = 30
SEND_CLOCKS = 2
EXPECTED_ERROR = 0.16
"""Median error over the published measurements that did not calibrate the model
(`benchmarks.model_accuracy`).
"""
OVERLAP = 2.5
"""How well cores and memory work at the same time: 1 = in sequence, large = perfect overlap."""


@dataclass(frozen=True)
class Prediction:
    """Microseconds of a launch and its terms: `us` is the sum of `parts`."""

    us: float
    parts: Mapping[str, float]
    """Time of the launch itself, and of the work-groups."""
    busy: Mapping[str, float]
    """Fraction of the time in which each pipe and level works."""

    @property
    def bound(self) -> str:
        """Name of the busiest pipe or level."""
        return max(self.busy, key=self.busy.__getitem__)


@dataclass
class Cost:
    """Cost of one source line in a launch."""

    us: float = 0.0
    bytes: float = 0.0
    messages: float = 0.0
    work: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Work for each pipe and level of the time model, in its own unit."""


def predict(work: Work, rates: Rates) -> Prediction:
    """Predict the device time of a launch."""
    clock = rates.clock_ghz * 1e3 * (rates.sustained if work.issue.dpas else 1.0)
    held = _resident_groups(work, rates)
    resident = held * rates.cores
    total, levels = 0.0, dict.fromkeys(("xmx", "fp", "int", "math", "send", "l1", "slm", "l2",
                                        "wait", "dram"), 0.0)
    done = 0
    for count, wave in waves(work, resident, rates.l2_mb * 1e6):
        groups = min(resident, max(1, work.groups - done))
        pipes = _core(work, rates, -(-groups // rates.cores))
        terms = {name: clocks / clock for name, clocks in pipes.items()}
        terms["dram"] = wave.read / (rates.read * 1e3) + wave.written / (rates.write * 1e3)
        inner = max(us for name, us in terms.items() if name != "dram")
        longest = (inner**OVERLAP + terms["dram"] ** OVERLAP) ** (1 / OVERLAP)
        full = count if groups == resident else 1
        total += longest * full
        for name, us in terms.items():
            levels[name] += us * full
        done += resident * count
    dispatch = rates.group_clocks * -(-work.groups // rates.cores) / clock
    parts = {"launch": rates.launch_us, "groups": max(total, dispatch)}
    us = sum(parts.values())
    return Prediction(us, parts, {name: t / us for name, t in levels.items()})


def _resident_groups(work: Work, rates: Rates) -> int:
    """Work-groups that a core runs at once."""
    return groups_per_core(rates.device, work.subgroups, work.registers, work.slm_held)


def _core(work: Work, rates: Rates, groups: int) -> dict[str, float]:
    """Clocks that a core takes for `groups` concurrent work-groups, by pipe and level."""
    issue = work.issue
    per_engine = work.subgroups * groups / rates.device.eus_per_core
    busy = max(1.0, per_engine) if work.subgroups * groups >= rates.device.eus_per_core else 1.0
    wide = 16 / rates.lanes
    return {
        "xmx": issue.dpas * rates.dpas_clocks / DPAS_EFFICIENCY * busy,
        "fp": issue.fp * wide * busy,
        "int": issue.integer * wide * busy,
        "math": issue.maths * MATH_CLOCKS * wide * busy,
        "send": issue.messages * SEND_CLOCKS * busy,
        "l1": work.l1_bytes * groups / rates.l1,
        "slm": work.slm_bytes * groups / rates.slm,
        "l2": work.l2_bytes * groups / (rates.l2 * FABRIC),
        "wait": issue.waits * rates.memory_latency + issue.barriers * BARRIER_CLOCKS
        + issue.dpas * rates.dpas_clocks / DPAS_EFFICIENCY,
    }
