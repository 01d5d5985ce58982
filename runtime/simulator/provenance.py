"""Which pointer arguments of a kernel an address can come from."""

from __future__ import annotations

from triton_xe.runtime.simulator.ir import Function, Instruction

Roots = frozenset[int]
NOWHERE: Roots = frozenset()
_MEMORY = ("load", "atomicrmw", "cmpxchg")


def pointer_roots(function: Function) -> dict[str, Roots]:
    """Numbers of the pointer arguments each value is computed from, through integers too.

    What is read from memory has no roots: an address made of that alone may point anywhere.
    """
    found: dict[str, Roots] = {
        name: frozenset((k,)) for k, (name, t) in enumerate(function.parameters)
        if t.kind == "ptr" and function.is_kernel
    }
    todo = [i for i in function.instructions() if i.result is not None and not _reads(i)]
    changed = True
    while changed:
        changed = False
        for i in todo:
            roots = NOWHERE.union(*(found.get(n, NOWHERE) for n in i.locals()))
            if roots != found.get(i.result or "", NOWHERE):
                found[i.result or ""] = roots
                changed = True
    return found


def _reads(i: Instruction) -> bool:
    """Whether the result comes from memory, or is a truth value."""
    if i.opcode in _MEMORY or i.type.scalar.bits == 1:
        return True
    return i.opcode == "call" and i.callee.startswith((
        "llvm.genx.GenISA.PredicatedLoad", "llvm.genx.GenISA.LSC2DBlockRead", "__xe_lane_",
        "llvm.genx.GenISA.simdBlockRead", "_Z18__spirv_AtomicLoad",
    ))
