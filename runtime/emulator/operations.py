"""Arithmetic and logic instructions, one definition for each.

Semantics: Intel PRM (Xe-HPG, Xe-HPC, Xe2), volume "3D and GPGPU Programs", "Instruction Set
Reference"; the page has the instruction's name.  If IGC's own sources say more, the definition
names them.  `Operation` is one instruction with its operands; a definition returns the function
that computes its result, and `_stored` writes it and sets the flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator import numbers
from triton_xe.runtime.emulator.channels import (
    Running,
    condition,
    execution_mask,
    predicate,
    set_flags,
)
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.operands import (
    Read,
    Source,
    addresses,
    check_addresses,
    destination,
    immediate_bits,
    source,
)
from triton_xe.runtime.emulator.registers import (
    DTYPES,
    FLOATS,
    SIZES,
    UNSIGNED,
    Array,
    Bools,
    Threads,
    byte_offset,
)

Step = Callable[[Threads, Running], Any]
"""Executes one instruction; returns where channels go, or None if they go on with the next."""


class Operation:
    """One instruction and functions for its operands."""

    def __init__(self, instruction: Instruction, grf_bytes: int) -> None:
        self.instruction, self.grf_bytes = instruction, grf_bytes
        self.width = instruction.width
        self.sources: tuple[Source, ...] = tuple(
            source(each, self.width, grf_bytes, instruction.destination)
            for each in instruction.sources)
        self.mask = execution_mask(instruction)
        self.type = instruction.destination.type if instruction.destination else ""
        self.write = destination(instruction.destination, self.width, grf_bytes)

    @property
    def is_float(self) -> bool:
        return any(each.is_float for each in self.sources)

    @property
    def saturates(self) -> bool:
        return bool(self.instruction.destination and self.instruction.destination.saturate)

    @property
    def has_wide_lanes(self) -> bool:
        """True if a source or the result has 64 bits."""
        return 8 in (SIZES[self.type], *(each.size for each in self.sources))


Compute = Callable[[Threads], Array]
Definition = Callable[[Operation], Compute]


def build(instruction: Instruction, grf_bytes: int) -> Step:
    """The function that executes an arithmetic or logic instruction."""
    instruction = _as_bits(instruction)
    if instruction.op not in (*STEPS, *DEFINITIONS):
        raise UnsupportedError(f"instruction {instruction.name} has no definition here")
    operation = Operation(instruction, grf_bytes)
    if instruction.op in STEPS:
        return _checked(instruction, STEPS[instruction.op](operation))
    return _checked(instruction, _stored(operation, DEFINITIONS[instruction.op](operation)))


def _checked(instruction: Instruction, step: Step) -> Step:
    """Check the addresses of register-indirect sources before a step.

    Only those of channels that run count; the address registers of others are left from before.
    """
    width, mask = instruction.width, execution_mask(
        instruction, predicated=instruction.op != "sel")
    found = [(addresses(each, width), SIZES[each.type])
             for each in instruction.sources if each.kind == "indirect"]
    if not found:
        return step

    def run(threads: Threads, running: Running) -> Any:
        here = mask(threads, running)
        chosen = np.broadcast_to(True if here is None else here, (threads.count, width))
        for at, size in found:
            check_addresses(at(threads)[chosen], size, threads.general)
        return step(threads, running)

    return run


def _as_bits(instruction: Instruction) -> Instruction:
    """Replace the types of a move between equal float types by integers, because it copies bits.

    Thus NaNs and denormals do not change.

    The source may be an immediate, such as `0x43:hf` for a small integer (IGC,
    `G4_INST::isRawMov`).
    """
    target = instruction.destination
    if instruction.op != "mov" or target is None or target.type not in FLOATS:
        return instruction
    (first,) = instruction.sources
    if (first.type, first.modifiers) != (target.type, "") or (
            target.saturate or instruction.condition):
        return instruction
    if first.kind == "immediate":
        first = replace(first, value=hex(immediate_bits(first)))
    bits = {2: "uw", 4: "ud", 8: "uq"}[SIZES[target.type]]
    return replace(instruction, destination=replace(target, type=bits),
                   sources=(replace(first, type=bits),))


def _stored(operation: Operation, compute: Compute) -> Step:
    """Step that writes a result, and sets the flags by comparing it with zero."""
    mask, write, kind = operation.mask, operation.write, operation.type
    if operation.is_float and kind in FLOATS:
        compute = _flushing(compute, kind)
    name = operation.instruction.condition
    if not name:
        def plain(threads: Threads, running: Running) -> None:
            write(threads, compute(threads), mask(threads, running))
        return plain
    if name == "ov":
        return _noting_overflow(operation, compute)
    holds, flags = condition(name), set_flags(operation.instruction)

    def flagged(threads: Threads, running: Running) -> None:
        chosen = mask(threads, running)
        stored = write(threads, compute(threads), chosen)
        stored = numbers.bf16_to_float(stored) if kind == "bf" else stored
        flags(threads, holds(stored, stored.dtype.type(0)), chosen)

    return flagged


def _noting_overflow(operation: Operation, compute: Compute) -> Step:
    """Step of an integer sum that sets the flags where the sum exceeds its type."""
    if operation.instruction.op != "add" or operation.is_float:
        raise UnsupportedError(f"{operation.instruction.name} with condition .ov has no definition "
                               "here")
    mask, write = operation.mask, operation.write
    x, y = (_exact_integers(each, operation) for each in operation.sources)
    limits, flags = np.iinfo(DTYPES[operation.type]), set_flags(operation.instruction)

    def step(threads: Threads, running: Running) -> None:
        chosen, total = mask(threads, running), x(threads) + y(threads)
        write(threads, compute(threads), chosen)
        outside = (total < limits.min) | (total > limits.max)
        flags(threads, np.asarray(outside, bool), chosen)

    return step


def _flushing(compute: Compute, kind: str) -> Compute:
    """Compute, and replace denormal results by zero in threads that flush them."""
    def flushed(threads: Threads) -> Array:
        values = compute(threads)
        return numbers.flushed(values, kind, threads) if threads.flushed else values

    return flushed


def _floats(operation: Operation, dtype: Any) -> tuple[Read, ...]:
    """Sources as numbers of a compute type, denormals flushed where a thread says so."""
    return tuple(_float(each, dtype) for each in operation.sources)


def _float(each: Source, dtype: Any) -> Read:
    values, kind = each.values(), each.type

    def read(threads: Threads) -> Array:
        found = values(threads)
        if threads.flushed:
            found = numbers.flushed(found, kind, threads)
        return found.astype(dtype, copy=False)

    return read


def _compute_type(operation: Operation) -> str:
    """Type in which floats are computed: fp64 if any source is, fp16 if all are, else fp32."""
    kinds = {each.type for each in operation.sources}
    return "df" if "df" in kinds else "hf" if kinds <= {"hf"} else "f"


# -- modular arithmetic ---------------------------------------------------------------------------


def _bits(operation: Operation, *, inverts: bool = False) -> tuple[Read, ...]:
    """Sources as bits, in the size of the result."""
    size = SIZES[operation.type]
    return tuple(each.bits(size, inverts=inverts) for each in operation.sources)


def _integer(operation: Operation, function: Callable[..., Array]) -> Compute:
    """Rule for integers modulo the result's size, or exact ones if the result saturates."""
    if operation.saturates:
        reads = tuple(_exact_integers(each, operation) for each in operation.sources)
        return lambda threads: function(*(read(threads) for read in reads))
    reads, dtype = _bits(operation), DTYPES[operation.type]
    return lambda threads: function(*(read(threads) for read in reads)).view(dtype)


def _exact_integers(each: Source, operation: Operation) -> Read:
    """Exact integers; Python's if the instruction has 64-bit operands."""
    read = each.integers()
    return (lambda threads: read(threads).astype(object)) if operation.has_wide_lanes else read


def _integer_or_float(exact: Callable[..., Any], fast: Callable[..., Array]) -> Definition:
    """Rule for integers and floats: `fast` is a numpy operation, `exact` also returns the error."""

    def define(operation: Operation) -> Compute:
        if not operation.is_float:
            if operation.type in FLOATS:
                reads = tuple(each.integers() for each in operation.sources)
                return lambda threads: fast(*(read(threads) for read in reads))
            return _integer(operation, fast)
        kind = _compute_type(operation)
        quick, wide = _floats(operation, DTYPES[kind]), _floats(operation, np.float64)

        def compute(threads: Threads) -> Array:
            if threads.rounding is None and kind == operation.type:
                return fast(*(read(threads) for read in quick))
            total, error = exact(*(read(threads) for read in wide))
            return (numbers.doubles(total, error, threads) if kind == "df"
                    else numbers.to_odd(total, error))

        return compute

    return define


def _multiply_add(operation: Operation) -> Compute:
    """src0 + src1 * src2, fused for floats."""
    if not operation.is_float:
        return _integer(operation, lambda z, x, y: z + x * y)
    z, x, y = _floats(operation, np.float64)
    if _compute_type(operation) == "df":
        return lambda threads: numbers.scaled_doubles(
            *numbers.fused(*(np.frexp(read(threads)) for read in (x, y, z))), threads)
    exact = numbers.fused_to_single if operation.type == "f" else numbers.fused_to_odd
    return lambda threads: (exact if threads.rounding is None else numbers.fused_to_odd)(
        x(threads), y(threads), z(threads))


def _logic(function: Callable[..., Array]) -> Definition:
    """Rule for bitwise operations, in which the modifier `-` inverts a source."""

    def define(operation: Operation) -> Compute:
        reads, dtype = _bits(operation, inverts=True), DTYPES[operation.type]
        return lambda threads: function(*(read(threads) for read in reads)).view(dtype)

    return define


def _boolean_function(operation: Operation) -> Compute:
    """bfn: a bitwise function of three sources, by a table of eight bits.

    Bit a | b << 1 | c << 2 of the table is the result for bits a, b, c.
    """
    table = int(operation.instruction.subop, 0)

    def function(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
        for i in (i for i in range(8) if table >> i & 1):
            result |= (a if i & 1 else ~a) & (b if i & 2 else ~b) & (c if i & 4 else ~c)
        return result

    return _logic(function)(operation)


def _shift_count(operation: Operation) -> Callable[[Threads], Array]:
    """A shift count: its low 5 bits, or 6 if the instruction has 64-bit operands."""
    limit = 63 if operation.has_wide_lanes else 31
    read = operation.sources[1].bits(8)
    return lambda threads: read(threads) & np.uint64(limit)


def _shift_left(operation: Operation) -> Compute:
    """Rule for shifts to the left."""
    count, value = _shift_count(operation), operation.sources[0]
    if operation.saturates:
        exact = _exact_integers(value, operation)
        return lambda threads: exact(threads) * 2 ** count(threads).astype(object)
    read, dtype = value.bits(8), DTYPES[operation.type]
    return lambda threads: (read(threads) << count(threads)).astype(dtype)


def _shift_right(operation: Operation) -> Compute:
    """Rule for logical shifts to the right, of the source in its own size."""
    count, value = _shift_count(operation), operation.sources[0]
    read = value.bits(value.size)
    return lambda threads: read(threads).astype(np.uint64) >> count(threads)


def _shift_arithmetic(operation: Operation) -> Compute:
    """Rule for shifts to the right that copy the sign; unsigned sources get zeros."""
    count, value = _shift_count(operation), operation.sources[0]
    if value.type.startswith("u"):
        return _shift_right(operation)
    read = value.bits(8)
    return lambda threads: read(threads).view(np.int64) >> count(threads).astype(np.int64)


def _rotate(sign: int) -> Definition:
    """Rule for rotations to the left (1) or right (-1)."""
    def define(operation: Operation) -> Compute:
        size = operation.sources[0].size
        dtype, bits = UNSIGNED[size], 8 * size
        value, count = operation.sources[0].bits(size), operation.sources[1].bits(8)

        def compute(threads: Threads) -> Array:
            left = (count(threads).astype(np.int64) * sign % bits).astype(dtype)
            found = value(threads)
            return found << left | found >> (bits - left) % bits

        return compute

    return define


def _average(operation: Operation) -> Compute:
    """(a + b + 1) >> 1 without overflow."""
    a, b = (_exact_integers(each, operation) for each in operation.sources)
    return lambda threads: a(threads) + b(threads) + 1 >> 1


def _bit_counts(size: int) -> Mapping[str, Callable[[int], int]]:
    """Results for one unsigned number of `size` bits; all ones where there is no such bit."""
    return {
        "cbit": lambda x: x.bit_count(),
        "lzd": lambda x: size - x.bit_length(),
        "fbl": lambda x: (x & -x).bit_length() - 1 if x else 0xFFFFFFFF,
        "bfrev": lambda x: int(f"{x:0{size}b}"[::-1], 2),
    }


def _by_number(operation: Operation) -> Compute:
    """Rule for counts and reversals of bits, by Python's integers."""
    each = operation.sources[0]
    function = np.vectorize(_bit_counts(8 * each.size)[operation.instruction.op], otypes=[object])
    read = each.bits(each.size)
    return lambda threads: function(read(threads).astype(object)).astype(np.int64)


def _first_high(operation: Operation) -> Compute:
    """Position, from the top, of the first bit that differs from the sign (0 if unsigned)."""
    each = operation.sources[0]
    signed, size = not each.type.startswith("u"), 8 * each.size
    read = each.integers()

    def first(value: int) -> int:
        value = ~value if signed and value < 0 else value
        return size - value.bit_length() if value else 0xFFFFFFFF

    function = np.vectorize(first, otypes=[object])
    return lambda threads: function(read(threads).astype(object)).astype(np.int64)


def _extract_field(operation: Operation) -> Compute:
    """bfe: src2's field of src0 bits from bit src1; a signed field is sign-extended."""
    width, first, value = (each.bits(4) for each in operation.sources)
    signed = operation.type == "d"

    def compute(threads: Threads) -> Array:
        bits = (width(threads) & np.uint32(31)).astype(np.int64)
        found = value(threads).astype(np.int64) >> (first(threads) & np.uint32(31)).astype(np.int64)
        found = found & (1 << bits) - 1
        negative = signed & (bits > 0) & (found >> np.maximum(bits - 1, 0) & 1).astype(bool)
        return np.where(negative, found - (1 << bits), found)

    return compute


def _field_mask(operation: Operation) -> Compute:
    """bfi1: ones in src0 bits from bit src1."""
    width, first = (each.bits(8) for each in operation.sources)
    five, one = np.uint64(31), np.uint64(1)
    return lambda threads: (
        ((one << (width(threads) & five)) - one) << (first(threads) & five)).astype(np.uint32)


def _four_products(operation: Operation) -> Compute:
    """dp4a: src0 + the sum of four products of signed or unsigned bytes."""
    total = operation.sources[0].integers()
    bytes_of = tuple(_bytes(each, operation.width) for each in operation.sources[1:])
    return lambda threads: total(threads) + np.multiply(
        *(read(threads) for read in bytes_of)).sum(2)


def _bytes(each: Source, width: int) -> Read:
    """The four bytes of each dword, signed if its type is."""
    read, dtype = each.bits(4), np.int8 if each.type == "d" else np.uint8
    return lambda threads: np.ascontiguousarray(
        np.broadcast_to(read(threads), (threads.count, width))
    ).view(dtype).reshape(threads.count, width, 4).astype(np.int64)


# -- moves, comparisons, selections ---------------------------------------------------------------


def _move(operation: Operation) -> Compute:
    """A copy of the bits if the types are equal, else a conversion."""
    (each,), kind = operation.sources, operation.type
    if each.is_float:
        return _float(each, DTYPES[each.type])
    if kind in FLOATS or operation.saturates:
        return _exact_integers(each, operation)
    return _integer(operation, lambda bits: bits)


def _comparable(a: Array, b: Array) -> tuple[Array, Array]:
    """Operands in one numpy type that holds both exactly."""
    if a.dtype == b.dtype:
        return a, b
    if "f" in (a.dtype.kind, b.dtype.kind):
        wide = np.result_type(a.dtype, b.dtype)
        return a.astype(wide), b.astype(wide)
    dtype: Any = object if np.uint64 in (a.dtype, b.dtype) else np.int64
    return a.astype(dtype), b.astype(dtype)


def _values(operation: Operation) -> tuple[Read, ...]:
    """Sources as numbers of their own types, denormals flushed where a thread says so."""
    return tuple(_float(each, DTYPES[each.type]) if each.is_float else each.values()
                 for each in operation.sources)


def _compare(operation: Operation) -> Step:
    """Set the flags; the destination becomes all ones or zeros, as bits also if it is a float.

    IGC uses the result of a comparison of floats as an integer mask.
    """
    instruction, (a, b) = operation.instruction, _values(operation)
    holds, flags, mask = condition(instruction.condition), set_flags(instruction), operation.mask
    target = instruction.destination
    assert target is not None
    same_size = {1: "b", 2: "w", 4: "d", 8: "q"}[SIZES[target.type]]
    write = destination(replace(target, type=same_size), operation.width, operation.grf_bytes)

    def compare(threads: Threads, running: Running) -> None:
        chosen = mask(threads, running)
        found = holds(*_comparable(a(threads), b(threads)))
        flags(threads, found, chosen)
        write(threads, -found.astype(np.int64), chosen)

    return compare


def _select(operation: Operation) -> Step:
    """Per channel src0 or src1: by the predicate, or the minimum or maximum by a condition."""
    instruction, (a, b) = operation.instruction, _values(operation)
    mask, write = execution_mask(instruction, predicated=False), operation.write
    choose = _extreme(operation) if instruction.condition else _by_predicate(instruction)

    def select(threads: Threads, running: Running) -> None:
        x, y = a(threads), b(threads)
        left, right = (x, y) if x.dtype == y.dtype else _comparable(x, y)
        write(threads, np.where(choose(threads, left, right), left, right),
              mask(threads, running))

    return select


_Choice = Callable[[Threads, Array, Array], Bools]


def _by_predicate(instruction: Instruction) -> _Choice:
    chosen = predicate(instruction)
    return lambda threads, left, right: chosen(threads)


def _extreme(operation: Operation) -> _Choice:
    """IEEE 754 minNum and maxNum: a number wins over NaN."""
    holds = condition(operation.instruction.condition)
    if not operation.is_float:
        return lambda threads, left, right: holds(left, right)
    return lambda threads, left, right: (
        (holds(left, right) | np.isnan(right)) & ~(np.isnan(left) & ~np.isnan(right)))


def _keeps_its_register(instruction: Instruction) -> bool:
    """True if the result and all sources are one register."""
    target = instruction.destination
    return target is not None and target.kind == "register" and len({
        (each.kind, each.file, each.number, each.sub, each.type, each.modifiers)
        for each in (replace(target, modifiers=""), *instruction.sources)}) == 1


def _select_by_condition(operation: Operation) -> Step:
    """csel: src0 if src2 compares with zero, else src1.

    One without condition keeps its register (IGC, `Optimizer::insertDummyCsel`), or is refused.
    """
    if not operation.instruction.condition and _keeps_its_register(operation.instruction):
        return lambda threads, running: None
    a, b, c = _values(operation)
    mask, write = operation.mask, operation.write
    holds = condition(operation.instruction.condition)

    def select(threads: Threads, running: Running) -> None:
        tested = c(threads)
        chosen = holds(tested, tested.dtype.type(0))
        write(threads, np.where(chosen, a(threads), b(threads)), mask(threads, running))

    return select


# -- functions ------------------------------------------------------------------------------------

_MATHS: Mapping[str, Callable[..., Array]] = {
    "inv": lambda x: 1 / x, "exp": np.exp2, "log": np.log2, "sqt": np.sqrt,
    "rsqt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "pow": lambda x, y: np.power(np.abs(x), y),
}  # fmt: skip


def _maths(operation: Operation) -> Compute:
    """math: correctly rounded; hardware has errors of a few ulps (PRM, "Math function")."""
    name = operation.instruction.subop
    if name in ("iqot", "irem"):
        return _quotient(operation, name)
    if name not in _MATHS:
        raise UnsupportedError(f"instruction math.{name} has no definition here")
    function, reads = _MATHS[name], _floats(operation, np.float64)
    if name != "pow":
        reads = reads[:1]
    dtype = np.float64 if operation.type == "df" else np.float32
    return lambda threads: function(*(read(threads) for read in reads)).astype(dtype)


def _quotient(operation: Operation, name: str) -> Compute:
    """Integer quotient or remainder, truncated; all ones and src0 if the divisor is 0."""
    a, b = (each.integers() for each in operation.sources)

    def compute(threads: Threads) -> Array:
        x, y = np.broadcast_arrays(a(threads), b(threads))
        divisor = np.where(y == 0, 1, y)
        whole = np.abs(x) // np.abs(divisor) * np.sign(x) * np.sign(divisor)
        quotient = np.where(y == 0, -1, whole)
        return quotient if name == "iqot" else np.where(y == 0, x, x - whole * divisor)

    return compute


def _rounded(function: Callable[[Array], Array]) -> Definition:
    """Rule for roundings of floats by a function."""
    def define(operation: Operation) -> Compute:
        (read,) = _floats(operation, DTYPES[_compute_type(operation)])
        return lambda threads: function(read(threads))

    return define


# -- the accumulator ------------------------------------------------------------------------------


def _multiply(operation: Operation) -> Step:
    """A product; integers written to the accumulator keep all their bits there."""
    target = operation.instruction.destination
    product = _integer_or_float(numbers.product_with_error, np.multiply)
    store = _stored(operation, product(operation))
    if operation.is_float or target is None or target.file != "acc":
        return store
    first, width, mask = _wide_element(operation), operation.width, operation.mask
    a, b = (each.integers() for each in operation.sources)

    def multiply(threads: Threads, running: Running) -> None:
        exact = a(threads) * b(threads)
        store(threads, running)
        _set(threads.wide[:, first : first + width], exact, mask(threads, running))

    return multiply


def _wide_element(operation: Operation) -> int:
    """First element of the integer accumulator that goes with the destination."""
    target = operation.instruction.destination
    if target is None or target.is_null:
        return 0
    if target.file == "acc":
        return target.number * operation.grf_bytes // 4 + target.sub
    return target.sub


def _set(part: Array, values: Array, mask: Bools | None) -> None:
    """Write values where the mask is true; None is everywhere."""
    if mask is None:
        part[:] = values
    else:
        np.copyto(part, values, where=mask)


def _multiply_high(operation: Operation) -> Step:
    """mach and macl: acc + src0 * (upper half of src1) << 16; its high or low half.

    The instruction before has left src0 * (lower half of src1) in the accumulator.  macl (Xe-HPC
    and later) is the low half.  With registers of 32 bytes (Xe-HPG), mach without AccWrEn is the
    low half of the product.  With AccWrEn it is the high half, and the low half goes to the
    accumulator (IGC, visa/HWConformity.cpp).  Later devices always write the accumulator (nGEN,
    `mach`).
    """
    instruction, mask, write = operation.instruction, operation.mask, operation.write
    a, b = (each.integers() for each in operation.sources)
    old = operation.grf_bytes == 32
    accumulates = instruction.op == "mach" and (instruction.writes_accumulator or not old)
    is_low = not accumulates
    unsigned = all(each.type == "ud" for each in operation.sources)
    element, width = _wide_element(operation), operation.width
    accumulator = _accumulator(operation, element)

    def multiply(threads: Threads, running: Running) -> None:
        x, y, chosen = a(threads), b(threads), mask(threads, running)
        total = x * y if old else threads.wide[:, element : element + width] + x * (y >> 16 << 16)
        high = (total.view(np.uint64) >> np.uint64(32)).view(np.int64) if unsigned else total >> 32
        result = np.broadcast_to(total if is_low else high, (threads.count, width))
        write(threads, result.astype(np.uint32).view(DTYPES[operation.type]), chosen)
        if accumulates:
            _set(accumulator(threads), total.astype(np.uint32), chosen)

    return multiply


def _accumulator(operation: Operation, element: int = 0) -> Callable[[Threads], Array]:
    """Function that returns the 32-bit elements of acc0 that an instruction also writes."""
    acc = replace(operation.instruction.sources[0], kind="register", file="acc", number=0,
                  sub=element, type="ud")
    first = byte_offset(acc, operation.grf_bytes) // 4
    return lambda threads: threads.views[np.uint32][:, first : first + operation.width]


def _multiply_to_both_halves(operation: Operation) -> Step:
    """mullh: the low half of a product; the high half goes to the registers after it.

    Source: IGC, visa/HWConformityPro.cpp, `fixMadwInst`.
    """
    target, mask, low = operation.instruction.destination, operation.mask, operation.write
    assert target is not None
    number = target.number + -(-operation.width * 4 // operation.grf_bytes)
    high = destination(replace(target, number=number), operation.width, operation.grf_bytes)
    a, b = (each.integers() for each in operation.sources)

    def multiply(threads: Threads, running: Running) -> None:
        chosen = mask(threads, running)
        product = (a(threads) * b(threads)).view(np.uint64)
        low(threads, product, chosen)
        high(threads, product >> np.uint64(32), chosen)

    return multiply


def _with_carry(sign: int) -> Callable[[Operation], Step]:
    """addc and subb: the carry or borrow (0 or 1) goes to the accumulator."""

    def define(operation: Operation) -> Step:
        a, b = (each.integers() for each in operation.sources)
        accumulator, mask = _accumulator(operation), operation.mask
        store = _stored(operation, lambda threads: a(threads) + sign * b(threads))

        def add(threads: Threads, running: Running) -> None:
            carry = a(threads) + sign * b(threads) >> 32 & 1
            chosen = mask(threads, running)
            store(threads, running)
            _set(accumulator(threads), carry.astype(np.uint32), chosen)

        return add

    return define


DEFINITIONS: Mapping[str, Definition] = {
    "mov": _move,
    "add": _integer_or_float(numbers.sum_with_overflow, np.add),
    "add3": lambda o: _integer(o, lambda a, b, c: a + b + c),
    "mad": _multiply_add,
    "and": _logic(np.bitwise_and), "or": _logic(np.bitwise_or), "xor": _logic(np.bitwise_xor),
    "not": _logic(lambda a: ~a),
    "bfn": _boolean_function,
    "bfi2": _logic(lambda mask, a, b: mask & a | ~mask & b),
    "shl": _shift_left, "shr": _shift_right, "asr": _shift_arithmetic,
    "rol": _rotate(1), "ror": _rotate(-1),
    "avg": _average,
    "cbit": _by_number, "lzd": _by_number, "fbl": _by_number, "bfrev": _by_number,
    "fbh": _first_high,
    "bfe": _extract_field, "bfi1": _field_mask,
    "dp4a": _four_products,
    "rndd": _rounded(np.floor), "rndu": _rounded(np.ceil), "rndz": _rounded(np.trunc),
    "rnde": _rounded(np.rint), "frc": _rounded(lambda x: x - np.floor(x)),
    "math": _maths,
}  # fmt: skip
STEPS: Mapping[str, Callable[[Operation], Step]] = {
    "cmp": _compare, "sel": _select, "csel": _select_by_condition, "mul": _multiply,
    "mach": _multiply_high, "macl": _multiply_high, "addc": _with_carry(1), "subb": _with_carry(-1),
    "mullh": _multiply_to_both_halves,
}  # fmt: skip
