"""Mutants: native code with one register, immediate or operation changed is noticed.

A mutant is noticed if its results differ, if it faults or hangs, or if the checks of waits and of
unwritten registers report it.  `excuse` explains some others: changes of what nothing observes.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from python.test.emulator import rows
from triton_xe.errors import DeviceError, XeError
from triton_xe.runtime.emulator import Program, iga
from triton_xe.runtime.emulator.kernel_info import kernel_info
from triton_xe.runtime.emulator.undefined_registers import lost_value

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
        program._steps = [
            step if a == b else program._step(n) for n, (a, b, step) in enumerate(
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
    return "unwritten" if lost_value(program, kernel_info(kernel.binary, program.name)) else "same"


NOT_NOTICED = {"same", "waits for a register", "prefetch or signal", "fence"}


def excuse(line, program, pc):
    """Why a change is not observable, or "" if it should be."""
    instruction = next(i for i in program.instructions if i.pc == pc)
    target = instruction.destination
    if instruction.op == "mov" and target is not None and target.is_null:
        return "waits for a register"
    if instruction.op.startswith("send") and target is not None and target.is_null and (
            instruction.sources[1].is_null):
        return "prefetch or signal"
    return "fence" if "fence" in line else ""


def tally(count, seed, kernels=KERNELS, devices=("bmg", "pvc")):
    """Verdicts of `count` mutants, spread over kernels and devices; and those not noticed."""
    found, missed = Counter(), []
    sources = [(row, device, mutants(row, device, seed + i))
               for i, (row, device) in enumerate((r, d) for r in kernels for d in devices)]
    for n in range(count):
        row, device, source = sources[n % len(sources)]
        old, new, pc, program = next(source)
        kind = verdict(row, device, program)
        reason = excuse(old, program, pc) if kind == "same" else ""
        found[reason or kind] += 1
        if kind == "same" and not reason:
            missed.append(f"{row} {device} {pc:#x}: {' '.join(new.split())}")
    return found, missed


@pytest.mark.parametrize(("count", "kernels", "devices", "share"), [
    (24, ("prefix sum", "rotary embedding", "row sum"), ("bmg",), 0.75),
    pytest.param(330, KERNELS, ("bmg", "pvc"), 0.85, marks=pytest.mark.slow),
])
def test_mutants_are_noticed(count, kernels, devices, share):
    """85 % of many; a small sample may have more equivalent ones."""
    found, missed = tally(count, 7, kernels, devices)
    assert sum(found[kind] for kind in found.keys() - NOT_NOTICED) >= share * count, (found, missed)
