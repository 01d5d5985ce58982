"""Find registers that native code reads although no instruction wrote them.

Intel's compiler does not report when it loses a value.  Version 2.40 loses half a column if two
predicated loads that a shuffle joins feed a DPAS.  The register may even contain the right value
for a while, left by another thread.  The listing shows it, because it names its blocks and their
successors.  A read is reported if no path to it has written the bytes, whatever the predicates; so
it does not depend on launches.

An instruction reads the bytes of an operand's region (vertical stride, width, horizontal stride),
and of a message's payload the part that lanes send.  Sources: the listings' own declarations, and
Intel's programmer's reference for Xe-HPG, volume 9, on regions and on the registers of DPAS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from triton_xe.errors import DeviceError
from triton_xe.runtime.emulator.listing import SOURCE_LINE
from triton_xe.tools.listings.assembly import Instruction, instruction

_BLOCK = re.compile(r"^// (B\d+): (?:\[\w+\],\s+)*Preds:\{[^}]*\},\s+Succs:\{([^}]*)\}")
_INPUT = re.compile(
    r"^// \|[^|]*\|[^|]*\|\s*(0x[\dA-Fa-f]+) \| r(\d+)(?:\+(0x[\dA-Fa-f]+))?\s*\|", re.MULTILINE)
_REGISTER_SIZE = re.compile(r"^//\.declare (?:BuiltinR0|r0) .*\bsize=(\d+)", re.MULTILINE)
_OPERAND = re.compile(
    r"[-~]?(?:\(abs\))?(null|r(\d+))(?:\.(?:(\d+)|\w*mme\d*))?(?:<([\d;,]+)>)?:(\w+)")
_SENT = re.compile(r"\b(null|r\d+):(\d+)")
_ADDRESS = re.compile(r"\[(r\d+):\d+[^\]]*\]")
_RAW = re.compile(r"wr:\d+h?\+(\d+), rd:(\d+)(?:; (\S+))?")
_SENDG = re.compile(r"^\s+sendg", re.MULTILINE)
_ELEMENTS = re.compile(r"\.d(\d+)(u32)?(?:x(\d+))?(t?)\b")
_NO_REGISTERS = frozenset(
    "sync nop jmpi goto join while if else endif brd brc call calla ret break cont halt".split())
_BYTES = {"b": 1, "ub": 1, "s8": 1, "u8": 1, "bf8": 1, "hf8": 1, "w": 2, "uw": 2, "hf": 2, "bf": 2,
          "d": 4, "ud": 4, "f": 4, "tf32": 4, "q": 8, "uq": 8, "df": 8}
_MOST_AT_A_STAGE = 8
"""Elements that a stage of DPAS takes from a row, for two operands of 4 bits or less."""
_MOST_REGISTERS = 512
_LARGEST_MESSAGE = 32
"""Registers of the largest 2D block, encoded as 31 in the 5 bits of a descriptor."""


@dataclass(frozen=True)
class UndefinedRead:
    """One instruction, and the registers with unwritten bytes that it reads."""

    line: str
    registers: tuple[int, ...]
    location: str = ""
    """`file:line` in the kernel's source, if the listing has lines."""

    def __str__(self) -> str:
        names = ", ".join(f"r{register}" for register in self.registers)
        where = f" ({self.location})" if self.location else ""
        return (f"reads {names}, which nothing wrote: "
                f"{' '.join(self.line.split('//')[0].split())}{where}")


@dataclass(frozen=True)
class _Effect:
    """Bytes of the register file, one bit for each."""

    writes: int = 0
    reads: int = 0
    copies: bool = False
    """True if it only moves bytes: undefined bytes may be moved, and their copies are undefined."""

    def after(self, written: int) -> int:
        """The defined bytes after it."""
        if self.copies and self.reads and not self.reads & written:
            return written & ~self.writes
        return written | self.writes

    def missing(self, written: int) -> int:
        return 0 if self.copies else self.reads & ~written


@dataclass
class _Block:
    steps: list[tuple[_Effect, str, str]] = field(default_factory=list)
    """Effect, line of the listing and source location of each instruction."""
    followers: tuple[str, ...] = ()
    written: int = 0

    def after(self) -> int:
        written = self.written
        for effect, _, _ in self.steps:
            written = effect.after(written)
        return written


def undefined_reads(listing: str) -> list[UndefinedRead]:
    """Reads in a kernel's `.asm` listing of registers that were not written, in order.

    Raise `DeviceError` if the text is no listing.  Listings for Xe3P do not say how many registers
    a message (`sendg`) returns, so none is found in them.

    >>> print(*undefined_reads('''
    ... //.declare r0 (0)  rf=r size=64 type=ud align=32 words (r0.0)
    ... // B000: Preds:{},  Succs:{}
    ...         add (16|M0)              r8.0<1>:d  r0.0<1;1,0>:d  r4.0<0;1,0>:d  // $1
    ... '''))
    reads r4, which nothing wrote: add (16|M0) r8.0<1>:d r0.0<1;1,0>:d r4.0<0;1,0>:d
    """
    found = _REGISTER_SIZE.search(listing)
    blocks = _blocks(listing, size := int(found[1])) if found else {}
    if not blocks:
        raise DeviceError("not an assembly listing of Intel's graphics compiler: it has no blocks")
    if _SENDG.search(listing):
        return []
    _propagate(blocks, _inputs(listing, size))
    return list(_undefined(blocks, size))


def _inputs(listing: str, size: int) -> int:
    """Bytes of register 0, and of a thread's payload."""
    known = _bits(0, size)
    for count, register, offset in _INPUT.findall(listing):
        known |= _bits(int(register) * size + int(offset or "0", 16), int(count, 16))
    return known


def _blocks(listing: str, size: int) -> dict[str, _Block]:
    blocks: dict[str, _Block] = {}
    steps: list[tuple[_Effect, str, str]] = []
    file = number = ""
    for line in listing.splitlines():
        head = _BLOCK.match(line)
        if head:
            followers = tuple(name.strip() for name in head[2].split(",") if name.strip())
            steps = (blocks.setdefault(head[1], _Block(followers=followers))).steps
            continue
        if said := SOURCE_LINE.match(line):
            file, number = said["file"] or file, said["line"] or number
            continue
        read = instruction(line)
        if read is not None:
            location = f"{file}:{number}" if number else ""
            steps.append((_effect(read, size), line, location))
    return blocks


def _propagate(blocks: dict[str, _Block], inputs: int) -> None:
    """Compute the bytes that may have been written at the start of each block."""
    first = next(iter(blocks))
    blocks[first].written = inputs
    waiting, done = [first], set[str]()
    while waiting:
        name = waiting.pop()
        done.add(name)
        after = blocks[name].after()
        for follower in blocks[name].followers:
            block = blocks[follower]
            if follower not in done or after & ~block.written:
                block.written |= after
                waiting.append(follower)


def _undefined(blocks: dict[str, _Block], size: int) -> Iterator[UndefinedRead]:
    for block in blocks.values():
        written = block.written
        for effect, line, location in block.steps:
            if missing := effect.missing(written):
                yield UndefinedRead(line, tuple(_registers(missing, size)), location)
            written = effect.after(written)


def _registers(mask: int, size: int) -> Iterator[int]:
    one = _bits(0, size)
    for register in range(-(-mask.bit_length() // size)):
        if mask >> register * size & one:
            yield register


def _union(masks: Iterator[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _bits(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


@lru_cache(maxsize=1 << 14)
def _effect(read: Instruction, size: int) -> _Effect:
    if read.base in _NO_REGISTERS:
        return _Effect()
    if read.base.startswith("send"):
        return _raw_message(read, size)
    if re.match("(?:load|store|atomic|fence)", read.opcode):
        return _message(read, size)
    if read.base in ("dpas", "dpasw", "bdpas"):
        return _product(read, size)
    return _arithmetic(read, size)


def _message(read: Instruction, size: int) -> _Effect:
    address = _ADDRESS.search(re.sub(r"\bbti\[\d+\]", "", read.operands))
    sent = _SENT.findall(re.sub(r"\[[^\]]*\]", " ", read.operands))
    results = sent[:1] if not read.opcode.startswith("store") else []
    payload = sent[len(results):]
    if read.opcode.startswith("load"):
        payload = []
    is_spill = "spill" in read.comment
    return _Effect(
        _union(_whole(read.opcode, name, int(count), size) for name, count in results),
        (_address(read, address[1], size) if address else 0)
        | _union(_payload(read, name, int(count), size) for name, count in payload),
        is_spill)


def _raw_message(read: Instruction, size: int) -> _Effect:
    """A message whose mnemonic and lengths are in the comment."""
    lengths = _RAW.search(read.comment)
    names = re.findall(r"\bnull\b|\br\d+\b", read.operands)
    if lengths is None or not names:
        return _Effect()
    mnemonic = lengths[3] or ""
    writes = _whole(mnemonic, names[0], int(lengths[2]), size)
    if not re.match("(?:load|store|atomic)", mnemonic) or len(names) < 3:
        return _Effect(writes)
    named = Instruction(mnemonic, "", read.comment, width=read.width)
    return _Effect(writes, _address(named, names[1], size)
                   | _payload(named, names[2], int(lengths[1]), size), "spill" in read.comment)


def _whole(mnemonic: str, name: str, count: int, size: int) -> int:
    if name == "null":
        return 0
    if "block2d" in mnemonic and count == _LARGEST_MESSAGE - 1:
        count = _LARGEST_MESSAGE
    return _bits(int(name[1:]) * size, count * size)


def _address(read: Instruction, name: str, size: int) -> int:
    if name == "null":
        return 0
    each = 8 if ".a64" in read.opcode else 4
    return _bits(int(name[1:]) * size, 32 if "block2d" in read.opcode else each * read.width)


def _payload(read: Instruction, name: str, count: int, size: int) -> int:
    if name == "null" or not count:
        return 0
    first, elements = int(name[1:]) * size, _ELEMENTS.search(read.opcode)
    if "block2d" in read.opcode or elements is None:
        return _bits(first, count * size)
    each, vector = int(elements[1]) // 8, int(elements[3] or 1)
    if elements[4]:
        return _bits(first, each * vector)
    if elements[2]:
        return _union(_bits(first + 4 * lane, each) for lane in range(read.width))
    stride = -(-each * read.width // size) * size
    return _union(_bits(first + i * stride, each * read.width) for i in range(vector))


def _product(read: Instruction, size: int) -> _Effect:
    shape = re.search(r"(\d+)x(\d+)", read.opcode)
    operands = _OPERAND.findall(read.operands)
    if shape is None or len(operands) < 4:
        return _Effect()
    depth, rows = int(shape[1]), int(shape[2])

    def part(operand: tuple[str, ...], elements: int) -> int:
        if operand[0] == "null":
            return 0
        bits = _element_bits(operand[4])
        first = int(operand[1]) * size + int(operand[2] or 0) * bits // 8
        return _bits(first, elements * bits // 8)

    result, total, b, a = operands[:4]
    rows_of_a = -(-rows // 2) if read.base == "dpasw" else rows
    writes = part(result, rows * read.width)
    if not read.is_dpas:
        return _Effect(writes)
    widest = max(_element_bits(a[4]), _element_bits(b[4]))
    deep = depth * min(32 // widest, _MOST_AT_A_STAGE)
    return _Effect(writes, part(total, rows * read.width)
                   | part(b, deep * read.width) | part(a, deep * rows_of_a))


def _element_bits(kind: str) -> int:
    """Bits of an operand's element; the names of types below a byte contain them."""
    return _BYTES[kind] * 8 if kind in _BYTES else int(kind[1:])


def _arithmetic(read: Instruction, size: int) -> _Effect:
    words = [word for word in read.operands.split() if not re.match(r"\([a-z]+\)[.f]", word)]
    if not words:
        return _Effect()
    result = _OPERAND.match(words[0])
    sources = [source for source in map(_OPERAND.match, words[1:]) if source and source[2]]
    if words[0].startswith("null") and read.base == "mov":
        return _Effect()
    everything = _bits(0, _MOST_REGISTERS * size) if words[0].startswith("r[a") else 0
    writes = _region(result, read.width, size, written=True) if result and result[2] else everything
    if len(words) > 2 and len({(m[1], m[3]) for m in [*sources, result] if m}) == 1 and (
            len(sources) == len(words) - 1):
        return _Effect(writes)  # of its result alone: padding that the compiler puts in
    if read.base == "cmp" and _compares_with_itself(sources):
        return _Effect(writes)  # which lanes are active
    reads = _union(_region(source, read.width, size) for source in sources)
    return _Effect(writes, reads, read.base == "mov")


def _compares_with_itself(sources: list[re.Match[str]]) -> bool:
    """True if integers are compared with themselves, so that their value does not matter."""
    return (len(sources) == 2 and sources[0][0] == sources[1][0]
            and sources[0][5] in ("w", "uw", "d", "ud"))


def _region(operand: re.Match[str], lanes: int, size: int, written: bool = False) -> int:
    each = _BYTES.get(operand[5], 0)
    first = int(operand[2]) * size + int(operand[3] or 0) * each
    strides = [int(word) for word in re.split("[;,]", operand[4] or "1")]
    if written:
        steps = [lane * strides[0] for lane in range(lanes)]
    else:
        vertical, width, horizontal = _strides(strides)
        steps = [lane // width * vertical + lane % width * horizontal for lane in range(lanes)]
    if steps == list(range(lanes)):
        return _bits(first, lanes * each)
    return _union(_bits(first + step * each, each) for step in set(steps))


def _strides(named: list[int]) -> tuple[int, int, int]:
    """Vertical stride, width and horizontal stride; operations with three sources omit some."""
    if len(named) == 3:
        return named[0], named[1], named[2]
    vertical, horizontal = named[0], named[1] if len(named) == 2 else 0
    return vertical, max(vertical // horizontal, 1) if horizontal else 1, horizontal
