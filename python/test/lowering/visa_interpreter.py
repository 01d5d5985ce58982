"""Runs the vISA that functions of halves and pairs are made of, on numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from triton_xe.hardware.rounding import bf16_bits

TYPES: dict[str, Any] = {"W": np.int16, "UW": np.uint16, "HF": np.float16, "F": np.float32,
                         "B": np.int8, "UB": np.uint8, "UD": np.uint32, "BF": np.uint16}
SUFFIXES = {"w": np.int16, "uw": np.uint16, "hf": np.float16, "ud": np.uint32}
DECLARED = re.compile(r"\.decl (\w+) v_type=G type=(\w+) num_elts=(\d+)(?: alias=<\$?(\w),0>)?")
LINE = re.compile(r"([\w.]+) \(M1_NM, (\d+)\) (.*)")
OPERAND = re.compile(r"(\(-\))?([A-Z]\d?)\((\d+),(\d+)\)<([\d;,]+)>|(0x[0-9a-f]+):(\w+)")
REGISTER = 64
OPERATIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "shl": np.left_shift, "asr": np.right_shift,
    "and": np.bitwise_and, "mov": np.positive, "shr": lambda a, b: a >> (b & 31),
    "mad": lambda a, b, c: a.astype(np.float64) * b + c,
    "ror": lambda a, b: a >> (b & 31) | a << (-b & 31) & 0xFFFFFFFF}


def run(body: str, *given: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, Any]:
    """The four registers of the result, as bytes; of the arguments the last has what is left."""
    memory = {"0": np.zeros(4 * REGISTER, np.uint8)}
    memory |= {name: np.zeros(8 * REGISTER, np.uint8) for name, _, _, alias in
               DECLARED.findall(body) if not alias}
    memory |= {str(n + 1): argument for n, argument in enumerate(given)}
    views = {name: memory[alias or name].view(TYPES[kind])
             for name, kind, _, alias in DECLARED.findall(body)}
    rounded = {name for name, kind, _, _ in DECLARED.findall(body) if kind == "BF"}
    for opcode, width, rest in LINE.findall(body):
        n, found = int(width), OPERAND.findall(rest)
        into, *sources = [_operand(views, n, one) for one in found]
        values = [np.asarray(s) for s in sources]
        if opcode.startswith("bfn"):
            a, b, c = values
            made = {"bfn.x78": (a & b) ^ c, "bfn.xf8": (a & b) | c}[opcode]
        else:
            wide = [v if v.dtype.kind == "f" else v.astype(np.int64) for v in values]
            made = OPERATIONS[opcode](*wide)
        view, places = into
        view[places] = (
            [bf16_bits(v) for v in made] if found[0][1] in rounded else made.astype(view.dtype))
    return memory["0"]


class _Place(tuple[Any, Any]):
    """Where an operand lies, also as the numbers there."""

    def __array__(self, *args: Any, **more: Any) -> Any:
        view, places = self
        return view[places]


def _operand(views: dict[str, Any], n: int, found: tuple[str, ...]) -> Any:
    sign, name, row, column, region, number, suffix = found
    if number:
        kind = np.dtype(SUFFIXES[suffix])
        return np.array([int(number, 16)], f"u{kind.itemsize}").view(kind)[0]
    view, lanes = views[name], np.arange(n)
    step, *rest = map(int, re.split("[;,]", region))
    width, inner = rest or (1, 0)
    places = int(row) * REGISTER // view.itemsize + int(column) + (
        lanes // width * step + lanes % width * inner)
    return -view[places] if sign else _Place((view, places))
