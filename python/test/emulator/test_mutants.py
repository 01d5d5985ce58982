"""Mutants: native code with one register, immediate or operation changed is noticed.

A mutant is noticed if its results differ, if it faults or hangs, or if the checks of waits and of
unwritten registers report it.  `twins` explains the others: where the change ends without effect.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from python.test.emulator import rows, twins
from python.test.emulator.assembled import launch
from triton_xe.errors import DeviceError, XeError
from triton_xe.runtime.emulator import Program, iga
from triton_xe.runtime.emulator.kernel_info import kernel_info
from triton_xe.runtime.emulator.undefined_registers import lost_value, payload

pytestmark = pytest.mark.intel_compiler
KERNELS = ("add, n odd", "prefix sum", "argmax", "rotary embedding", "row sum", "softmax fp16",
           "gemm 64x64x32", "layer norm gradient fp16", "dropout", "sort", "packed 16x128x64")
SEEDS = range(1, 5)
"""Inputs that a mutant is tried with."""
SWAPS = {"add": "mul", "mul": "add", "and": "or", "or": "and", "xor": "and", "shl": "shr",
         "shr": "asr", "asr": "shr"}
REGISTER, NUMBER = re.compile(r"\br(\d+)"), re.compile(r" (0x[0-9A-F]+|\d+):(?=[uwdq])")


@cache
def compiled(row, device):
    return rows.compiled(row, device)


@cache
def original(row, device, seed=1):
    """The kernel, its arguments, results, text, addresses that are executed, and launch."""
    kernel = compiled(row, device)
    given = rows.arguments(kernel, seed)
    found, launch = rows.run_native(kernel, given)
    text = iga.disassemble(device, kernel.program.code).splitlines()
    executed = {i.pc for i, n in zip(launch.program.instructions,
                                     launch.counters.executed.tolist(), strict=True) if n}
    return kernel, given, found, text, executed, launch


def changed(line, choice):
    """A line with one change; None if it has nothing to change."""
    code = line.split("//")[0]
    kind = choice.choice(("register", "register", "number", "operation"))
    if kind == "operation":
        word = re.search(r"\b([a-z]+) +\(", code)
        if word is None or word[1] not in SWAPS:
            return None
        return line.replace(word[1], SWAPS[word[1]], 1)
    found = list((REGISTER if kind == "register" else NUMBER).finditer(code))
    if not found or "sync" in code or "EOT" in code:
        return None
    match = choice.choice(found)
    old = int(match[1], 0)
    new = (old + choice.choice((1, -1, 2))) % 256 if kind == "register" else old ^ 1 << (
        choice.randrange(4))
    return line[: match.start(1)] + str(new) + line[match.end(1) :]


def addresses(device, text):
    """The address of each line's instruction, by its position in the text."""
    program = Program(device, iga.assemble(device, "\n".join(text)))
    lines = [n for n, line in enumerate(text) if line.strip() and not line.rstrip().endswith(":")]
    return dict(zip(lines, (i.pc for i in program.instructions), strict=True))


def with_steps(program, old):
    """The program with the other one's functions for instructions that both have."""
    if len(program.instructions) == len(old.instructions):
        program.steps = [
            step if a == b else program.step_of(n) for n, (a, b, step) in enumerate(
                zip(program.instructions, old.instructions, old.steps, strict=True))]
    return program


def mutants(row, device, seed):
    """Programs with one change in an instruction that the launch executes."""
    *_, text, executed, launch = original(row, device)
    choice, at = random.Random(seed), addresses(device, text)
    lines = [n for n, pc in at.items() if pc in executed]
    while True:
        number = choice.choice(lines)
        new = changed(text[number], choice)
        if new is None or new == text[number]:
            continue
        try:
            code = iga.assemble(device, "\n".join([*text[:number], new, *text[number + 1 :]]))
            yield text[number], new, at[number], with_steps(
                Program(device, code, launch.program.name), launch.program)
        except DeviceError:
            continue


def verdict(row, device, program):
    """What happens with the first inputs that show the change."""
    for seed in SEEDS:
        kernel, given, expected, *_, launch = original(row, device, seed)
        try:
            found, _ = rows.run_native(kernel, given, program=program,
                                       limit=3 * launch.instructions + 10_000)
        except XeError as error:
            return type(error).__name__
        if not all(np.array_equal(rows.bits(a), rows.bits(b))
                   for a, b in zip(found, expected, strict=True)):
            return "differs"
    if program.missing_waits:
        return "missing wait"
    inputs = payload(kernel_info(kernel.binary, program.name), program.grf_bytes)
    return "unwritten" if lost_value(program, inputs) else "same"


def explained(row, device, program, pc):
    """Why a mutant is not noticed."""
    kernel, given, *_ = original(row, device)
    one, two = (rows.native_launch(kernel, given, each)[0] for each in (kernel.program, program))
    return twins.reason(one, two, program.index[pc])


def tally(count, seed, kernels=KERNELS, devices=("bmg", "pvc")):
    """Verdicts of `count` mutants, spread over kernels and devices; and why some are "same"."""
    found, same = Counter(), {}
    sources = [(row, device, mutants(row, device, seed + i))
               for i, (row, device) in enumerate((r, d) for r in kernels for d in devices)]
    for n in range(count):
        row, device, source = sources[n % len(sources)]
        _, new, pc, program = next(source)
        found[kind := verdict(row, device, program)] += 1
        if kind == "same":
            same[f"{row} {device} {pc:#x}: {' '.join(new.split())}"] = explained(
                row, device, program, pc)
    return found, same


@pytest.mark.parametrize(("count", "kernels", "devices", "share"), [
    (24, ("prefix sum", "rotary embedding", "row sum"), ("bmg",), 0.75),
    pytest.param(330, KERNELS, ("bmg", "pvc"), 0.85, marks=pytest.mark.slow),
])
def test_mutants_are_noticed_or_explained(count, kernels, devices, share):
    """85 % of many; a small sample may have more equivalent ones.  `pytest -s` shows the others."""
    found, same = tally(count, 7, kernels, devices)
    print(*(f"{mutant}: {why}" for mutant, why in same.items()), sep="\n")
    print(found)
    assert found.total() - found["same"] >= share * count, (found, same)


NUMBERS = "mov (16|M0) r20.0<1>:d r10.0<1;1,0>:d"
REASONS = [
    (f"{NUMBERS}", "mov (16|M0) r20.0<1>:d r11.0<1;1,0>:d", twins.SAME),
    (f"{NUMBERS}", "mov (16|M0) r20.0<1>:d r12.0<1;1,0>:d", twins.UNREAD),
    (f"{NUMBERS}\nand (16|M0) r22.0<1>:d r20.0<1;1,0>:d 0:w",
     "mov (16|M0) r20.0<1>:d r12.0<1;1,0>:d", "no effect in and"),
    (f"{NUMBERS}\nadd (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w",
     "mov (16|M0) r20.0<1>:d r12.0<1;1,0>:d", twins.UNREAD),
    (f"{NUMBERS}\ncmp (16|M0) (ge)f0.0 null<1>:d r20.0<1;1,0>:d 0:w\n"
     "(f0.0) sel (16|M0) r22.0<1>:d r10.0<1;1,0>:d 0:w",
     "mov (16|M0) r20.0<1>:d r12.0<1;1,0>:d", "no effect in cmp"),
    ("cmp (16|M0) (gt)f0.0 null<1>:d r12.0<1;1,0>:d 3:w\n"
     "(f0.0) sel (16|M0) r22.0<1>:d r10.0<1;1,0>:d r11.0<1;1,0>:d",
     "cmp (16|M0) (gt)f0.0 null<1>:d r12.0<1;1,0>:d 4:w", "no effect in sel"),
    ("cmp (16|M0) (gt)f0.0 null<1>:d r10.0<1;1,0>:d 3:w\n(W&f0.0) jmpi after\nafter:",
     "cmp (16|M0) (gt)f0.0 null<1>:d r10.0<1;1,0>:d 9:w", "no effect in jmpi"),
    ("cmp (16|M0) (gt)f0.0 null<1>:d r10.0<1;1,0>:d 3:w\n(W&f0.0) jmpi after\n"
     "mov (16|M0) r22.0<1>:d 0:w\nafter:",
     "cmp (16|M0) (gt)f0.0 null<1>:d r10.0<1;1,0>:d 9:w", twins.ELSEWHERE),
]


@pytest.mark.parametrize(("text", "changed", "why"), REASONS)
def test_reasons_of_changes_without_effect(text, changed, why):
    same = np.full(16, 5, np.int32)
    registers = {10: same, 11: same, 12: np.arange(16, dtype=np.int32)}
    one, two = (launch("bmg", each, registers) for each in (
        text, changed + text[len(text.partition("\n")[0]):]))
    assert twins.reason(one, two, 0) == why
