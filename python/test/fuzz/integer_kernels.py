"""Random kernels of integers: what becomes addresses, masks, rows, scales, offsets and bounds.

A kernel is drawn line by line; each line is evaluated in numpy for every launch at once
(`integer_language`), and drawn anew if it is undefined.
"""

import copy
import math
import random
from dataclasses import dataclass, field

import numpy as np
from integer_language import (
    NAMES,
    WITHOUT_CLAIMS,
    Block,
    Memory,
    Partial,
    Undefined,
    run_function,
    set_program,
    values_of,
)

FAULTS = (Undefined, TypeError, ValueError, IndexError, NameError, AttributeError)
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
CONSTANTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 16, 16, 24, 31, 32, 32, 64, 100, 127, 128, 255, 1664525)
CALLS = (
    "tl.gather({i}, {j} & {last}, 0)", "tl.gather({j}, {i} & {last}, 0)", "tl.flip({i}, 0)",
    "tl.sort({i})", "tl.sort({i}, descending=True)", "tl.cumsum({i}, 0)",
    "tl.cumsum({i}, 0, reverse=True)", "tl.cumprod({i} | 1, 0)",
    "tl.associative_scan({i}, 0, tl.standard.{f})", "({i} - tl.reduce({j}, 0, tl.standard.{f}))",
    "tl.gather(tl.histogram(({i} & 15).to(tl.int32), 16), {j} & 15, 0)",
    "({i} + tl.{g}({j}, 0))", "({i} % (tl.{g}({j}, 0) | 1))", "tl.load(index + ({i} & 127))",
    "tl.sum(tl.join({i}, {j}), 1)", "tl.reshape(tl.join(tl.max{pairs}, tl.min{pairs}), ({n},))",
)
"""Expressions of several elements along an axis, or of what is loaded."""
SPAN = 1 << 13
"""Elements that a kernel's accesses may span."""
HEAD = """import triton
import triton.language as tl
from integer_language import array, compare


"""


class Draw(random.Random):
    """A source of decisions."""

    def some(self, *of):
        return self.choice(of)

    def yes(self, share=0.5):
        return self.random() < share

    def weighted(self, table):
        return self.choices(list(table), list(table.values()))[0]


@dataclass
class Launch:
    """The arguments of a launch, and the values of the names so far, for each program."""

    arguments: dict
    seeds: dict
    names: list[dict] = field(default_factory=list)
    memories: list[dict] = field(default_factory=list)


class Kernel:
    """A kernel that is drawn, with the launches for which all of it is defined."""

    def __init__(self, draw: Draw, sanitize: bool = False):
        self.draw, self.sanitize = draw, sanitize
        self.grid = draw.weighted({(1, 1): 12, (2, 1): 4, (2, 2): 1, (1, 3): 1, (3, 2): 1})
        self.programs = math.prod(self.grid)
        self.annotations: dict[str, str] = {}
        self.lines: list[str] = []
        self.indent = ""
        self.blocks: dict[int, list[str]] = {}
        self.scalars: list[str] = []
        self.launches = [Launch({}, {}) for _ in range(4)]
        self.count = 0
        self.warps = draw.some(1, 1, 1, 1, 2, 4)
        self.plain = draw.yes()
        """Few operations, along rows that are aligned: much can be known about each index."""
        self.constants: list[str] = []
        self.aligned = self.plain or draw.yes(0.7)

    # -- arguments ---------------------------------------------------------------------------------

    def array(self, name, count, dtype, low=-100, high=100):
        seed = self.draw.randrange(1 << 16)
        offset = 0 if self.plain else self.draw.some(0, 0, 0, 1, 3, 8)
        for launch in self.launches:
            launch.arguments[name] = np.random.default_rng(seed).integers(
                low, high, count).astype(dtype)
            launch.seeds[name] = (seed, count, dtype, low, high, offset)

    def constant(self, name, value):
        if name.isupper():
            self.constants.append(name)
        for launch in self.launches:
            launch.arguments[name] = value

    def scalar(self):
        """An argument of any type, with another value for each launch."""
        name = f"a{len(self.scalars)}"
        dtype = self.draw.weighted({"": 8, "1": 0.5, "wide": 0.5, **dict.fromkeys(TYPES, 1)})
        if dtype in TYPES:
            self.annotations[name] = f"tl.{dtype}"
        aligned = self.draw.yes(0.55)
        far = self.draw.choice((-1, 1)) << 31 + self.draw.randint(1, 31)
        for launch in self.launches:
            value = self._value(dtype if dtype in TYPES else "int32", aligned)
            launch.arguments[name] = {"1": 1, "wide": far + value // 64 * 16}.get(dtype, value)
        self.scalars.append(name)

    def _value(self, dtype, aligned):
        """A value of the type; all launches' values are multiples of 16, or none is.

        Triton compiles a kernel anew for arguments that are multiples of 16, or 1.
        """
        info, draw = np.iinfo(dtype), self.draw
        step = 16 if aligned else 1
        while True:
            value = draw.weighted({
                draw.randint(1, 40) * step: 5, -draw.randint(1, 40) * step: 5, 0: 1,
                int(info.max) - draw.randrange(40): 1, int(info.min) + draw.randrange(40): 1,
                draw.randint(int(info.min), int(info.max)): 1})
            value = (min(max(value, int(info.min)), int(info.max))) // step * step
            if value != 1 and (value % 16 == 0) == aligned:
                return value

    def begin(self):
        """All arguments are drawn: their names have values from here on."""
        for launch in self.launches:
            for index in range(self.programs):
                set_program(index, self.grid)
                values, memories = values_of(launch.arguments, self.types(), ("x", "t"))
                launch.names.append(values | {"off": Block(np.array(0, "int32"))})
                launch.memories.append(memories)

    def types(self):
        return {name: said.removeprefix("tl.") for name, said in self.annotations.items()}

    # -- lines -------------------------------------------------------------------------------------

    def line(self, text):
        """Write the line if it is defined for enough launches, which are those from here on."""
        done = [launch for launch in self.launches if self._runs(launch, text)]
        if len(done) < (1 if len(self.launches) == 1 else 2):
            return False
        self.launches = done
        self.lines += [self.indent + line for line in text.splitlines()]
        return True

    def _runs(self, launch, text):
        changed = []
        for index, names in enumerate(launch.names):
            set_program(index, self.grid)
            local = dict(names)
            try:
                with np.errstate(all="ignore"):
                    exec(text, dict(NAMES), local)
            except FAULTS:
                return False
            if any(isinstance(value, Partial) for value in local.values()):
                return False
            changed.append(local)
        if any(self._wide(m) for m in launch.memories):
            for memories in launch.memories:
                _forget(memories)
            return False
        launch.names = changed
        return True

    def _wide(self, memories):
        return any(m.touched and max(m.touched) - min(m.touched) >= SPAN
                   for m in memories.values())

    def must(self, *texts):
        for text in texts:
            if not self.line(text):
                raise Redraw(text)

    def first(self, texts):
        """The first of these lines that is defined."""
        for text in texts:
            if self.line(text):
                return text
        raise Redraw(text)

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def value(self, name):
        return self.launches[0].names[0][name]

    def finishes(self):
        """True if a launch is defined with all that was drawn."""
        trial = copy.copy(self)
        trial.launches = [Launch(dict(x.arguments), dict(x.seeds)) for x in self.launches]
        return bool(finished(trial))

    def claim(self, share=0.0):
        """Perhaps a statement about a scalar; some are false in a launch, where `share` allows."""
        draw, names = self.draw, [n for n in self.scalars if isinstance(self.value(n), Block)]
        if not names or not draw.yes(0.3):
            return
        name = draw.choice(names)
        near = self.near(name)
        text = f"tl.assume({name} {draw.some('<=', '>=', '!=', '<', '>')} {near})"
        if draw.yes():
            text = f"tl.assume({name} % {draw.some(2, 4, 8, 16, 32)} == 0)"
        if draw.yes(share):
            self.lines.append(self.indent + text)
        else:
            self.line(text)

    # -- expressions -------------------------------------------------------------------------------

    def number(self):
        value = self.draw.choice(CONSTANTS)
        return f"{-value}" if self.draw.yes(0.25) else f"{value}"

    def one(self):
        """A scalar."""
        names = self.scalars if self.scalars and self.draw.yes(0.85) else self.constants
        return self.draw.choice(names) if names and self.draw.yes(0.6) else self.number()

    def atom(self, axis):
        names = self.blocks[axis]
        return names[-1] if self.draw.yes(0.6) else self.draw.choice(names)

    def other(self, axis):
        return self.atom(axis) if self.draw.yes(0.15) else self.one()

    def step(self, text, axis):
        """An operation on the expression."""
        draw = self.draw
        kind = draw.weighted({
            "+": 10, "-": 4, "*": 4, "//": 8, "%": 8, "&": 3, "|": 1, "^": 1, "shift": 3,
            "cast": 7, "unary": 2, "call": 4, "where": 2, "cdiv": 2, "several": 2})
        if kind == "cast":
            return f"({text}).to(tl.{draw.choice(TYPES)})"
        if kind == "shift":
            amount = draw.randint(1, 8) if draw.yes(0.8) else f"({self.one()} & 7)"
            return f"({text} {draw.some('<<', '>>', '>>')} {amount})"
        if kind == "several":
            return self.several(text, axis)
        if kind == "call" and draw.yes(0.2):
            low, high = sorted((draw.choice(CONSTANTS) - 16, draw.choice(CONSTANTS)))
            return f"tl.clamp({text}, {low}, {high})"
        if kind == "unary":
            return draw.some("(-{})", "(~{})", "tl.abs({})").format(text)
        if kind == "call":
            return f"tl.{draw.some('minimum', 'maximum')}({text}, {self.other(axis)})"
        if kind == "where":
            return f"tl.where({self.condition(axis)}, {text}, {self.other(axis)})"
        if kind == "cdiv":
            return f"tl.cdiv({text}, {self.one()})"
        if kind in ("//", "%") and draw.yes(0.2):
            return f"({text} {kind} (({self.other(axis)} & 15) {draw.some('+ 1', '- 16')}))"
        operand = self.other(axis)
        if kind in "+-" and draw.yes(0.15):
            return f"({operand} {kind} {text})"
        return f"({text} {kind} {operand})"

    def several(self, text, axis):
        """An expression whose elements depend on several elements, if the axis has any."""
        n, draw = self.elements(self.blocks[axis][0]), self.draw
        if axis == -1:
            return f"tl.load(index + ({text} & 127))"
        if axis not in (0, 1) or n < 2:
            return text
        pairs = f"(tl.reshape({text}, ({n // 2}, 2)), 1)"
        return draw.choice(CALLS).format(
            i=text, j=self.atom(axis), n=n, last=n - 1, pairs=pairs,
            f=draw.some("_elementwise_max", "_elementwise_min", "_sum_combine", "_xor_combine"),
            g=draw.some("max", "min", "sum", "argmax", "argmin", "xor_sum", "reduce_or"))

    def guarded(self, text, axis):
        """An operation that is undefined for some elements, which are left out."""
        draw, by = self.draw, self.other(axis)
        if draw.yes():
            return (f"tl.where({by} != 0, {text} {draw.some('//', '%')} {by}, "
                    f"{draw.some('0', text)})")
        return (f"tl.where(({by} >= 0) & ({by} < {draw.some(8, 16, 32, 64)}), "
                f"{text} {draw.some('<<', '>>')} {by}, {draw.some('0', text)})")

    def expression(self, axis, depth=None):
        if self.draw.yes(0.85 if self.plain else 0.5):
            text, most = self.idiom(axis), self.draw.weighted({0: 6, 1: self.plain or 3})
        else:
            text, most = self.atom(axis), self.draw.weighted({1: 3, 2: 4, 3: 2})
        if self.draw.yes(0.05):
            text = self.several(text, axis)
        for _ in range(most if depth is None else min(most, depth)):
            text = self.step(text, axis)
        return text

    def idiom(self, axis):
        """An expression of common index arithmetic, about which much can be known."""
        draw, i = self.draw, self.atom(axis)
        if draw.yes(0.08):
            return self.guarded(i, axis)
        s = draw.some(8, 16, 24, 32, 48, 64, -16, -24, -32, -64) if draw.yes(0.4) else self.one()
        c, d = draw.some(2, 4, 8, 16, 16, 16, 32, 64, 12), draw.some(4, 8, 16, 32, 24)
        return draw.choice((
            "(({i} + {s}) // {c})", "(({i} + {s}) % {c})",
            "(({i} + {s}) // {c})", "(({i} + {s}) % {c})", "(({i} - {d}) // {c})",
            "(({i} - {d}) % {c})", "({i} + {s}).to(tl.{t})", "({i} * {c}).to(tl.{t})",
            "(({i} // {c}) * {c} + {i} % {d})", "({i} // {c} * {c})", "({i} % {c})",
            "(({i} + {s}).to(tl.{t}) + {s})", "(({s} * 1664525 + 1013904223 + {i}) % {c})",
            "(({i} // {c}) % {d})", "(({i} % {d}) // {c})", "({s} - {i})", "(({i} + {s}) & {c})",
            "(({i} + {s}) >> {b})", "({i} % (({i} // {d} + 1) * {b}))", "(-{i} // {c})",
            "({i} + {i} // {c} * {c})", "({i} * {c} // {d})", "({i} ^ {b})", "({i} | {c})",
            "(({i} + {s}) // -{c})", "(({i} - {d}) % -{c})", "({i} * -{b} + {s})",
            "({i} % ({i} % {d} - {c}))", "({i}.to(tl.{t}).to(tl.{u}) // {b})",
            "(({i} + {s}).to(tl.{t}).to(tl.{u}) % {c})", "(({i} << {z}) >> {z})",
            "(({i} + {h}) // {c} - {h} // {c})", "(({i} + {h}) - {h})", "({i} * {h} % {d})",
            "(({i}.to(tl.int64) << {z}) + {s} >> {z})", "(({i} + {h} + {h}).to(tl.int64) - {h})",
            "tl.where({i} < {d}, {i} + {s}, tl.where({i} < {c}, {i} // {b}, {i} - {d}))",
            "tl.where({k}, tl.where({k}, {i}, {i} % {c}), ({i} - {s}) // {d})",
            "tl.reshape(tl.trans(tl.reshape({i}, ({b}, {n} // {b}))), ({n},))",
            "tl.umulhi({i}.to(tl.{w}), (({i} + {s}) * {h}).to(tl.{w}))",
            "({i}.to(tl.{t}).to(tl.float32) * 2.0).to(tl.{u})",
            "(({i} + {s}).to(tl.{w}).to(tl.{w}, bitcast=True) // {c})",
            "({i} + ({i} {o} {d}).to(tl.{t}) * {s})", "({i} + ({i} {o} {s}))",
        )).format(
            i=i, s=s, c=c, d=d, t=draw.choice(TYPES), u=draw.choice(TYPES), b=draw.randint(1, 5),
            w=draw.some("int32", "uint32", "int64", "uint64"), o=draw.some("<", ">="),
            h=draw.choice((1, -1)) * (2**31 - draw.some(1, 16, 40, 64, 4096)),
            z=draw.randint(24, 33), n=self.elements(i),
            k=f"{i} {draw.some('<', '>=', '!=')} {self.number()}")

    def elements(self, text):
        value = self.value(text) if text in self.launches[0].names[0] else None
        return value.values.size if isinstance(value, Block) else 1

    def comparison(self, axis):
        left = self.expression(axis, 1) if self.draw.yes(0.7) else self.atom(axis)
        if self.draw.yes(0.15):
            left = f"({left}).to(tl.{self.draw.some('uint8', 'uint8', 'uint16', 'uint32')})"
        right = self.near(left) if self.draw.yes(0.6) else self.other(axis)
        return f"({left} {self.draw.some('<', '<=', '>', '>=', '==', '!=')} {right})"

    def near(self, text):
        """A number at which the expression's elements part, for one of the launches."""
        value = self.evaluated(text)
        return str(int(self.draw.choice(value.values.reshape(-1).tolist()))) \
            if isinstance(value, Block) else "0"

    def evaluated(self, text):
        """The expression's value in one of the launches, if it has one."""
        launch = self.draw.choice(self.launches)
        set_program(0, self.grid)
        try:
            with np.errstate(all="ignore"):
                return eval(text, dict(NAMES), dict(launch.names[0]))
        except FAULTS:
            return None

    def condition(self, axis):
        text = self.comparison(axis)
        if self.draw.yes(0.25):
            text = f"({text} {self.draw.some('&', '|')} {self.comparison(axis)})"
        return f"(~{text})" if self.draw.yes(0.1) else text

    def compute(self, axis, count=None):
        """Draw lines that give names to expressions along this axis."""
        if count is None:
            count = self.draw.weighted({0: 4, 1: 2} if self.plain else {0: 1, 1: 4, 2: 3, 3: 1})
        for _ in range(count):
            name = self.name()
            if self.tries(lambda name=name: self.assignment(name, axis)):
                self.blocks[axis].append(name)
                self._say_type(name)

    def assignment(self, name, axis):
        """A line that gives the name a value, or lines with a branch."""
        one, two = self.expression(axis), self.atom(axis)
        shapes = {getattr(self.evaluated(text), "shape", None) for text in (one, two)}
        if self.draw.yes(0.9) or len(shapes) > 1 or None in shapes or not self.scalars:
            return f"{name} = {one}"
        dtype = self.draw.some("int32", *TYPES)
        self.blocks[-1] = self.scalars
        one, two = (f"    {name} = ({text}).to(tl.{dtype})" for text in (one, two))
        text = f"if {self.choice_of_branch()}:\n{one}\nelse:\n{two}"
        self.blocks[-1] = []
        return text

    def in_branch(self, text, other=None):
        """The statement, perhaps where a condition of scalars holds, and the other elsewhere."""
        if not self.scalars or not self.draw.yes(0.2):
            return text
        saved, self.blocks[-1] = self.blocks.get(-1), self.scalars
        condition = self.choice_of_branch()
        self.blocks[-1] = saved or []
        return f"if {condition}:\n    {text}" + (f"\nelse:\n    {other}" if other else "")

    def choice_of_branch(self):
        one, two = self.condition(-1), self.condition(-1)
        if self.draw.yes(0.8) or self.evaluated(two) is None:
            return one
        return f"{one} {self.draw.some('and', 'or')} {two}"

    def compute_scalar(self):
        name = self.name()
        saved, self.blocks[-1] = self.blocks.get(-1), self.scalars or ["tl.program_id(0)"]
        if self.tries(lambda: f"{name} = {self.scalar_text()}"):
            if isinstance(self.value(name), Block):
                self.scalars.append(name)
                self._say_type(name)
        self.blocks[-1] = saved or []

    def scalar_text(self):
        """An expression of scalars, or a branch between two of them."""
        one, two = (f"({self.atom(-1)} + {self.one()})" for _ in range(2))
        if self.draw.yes(0.8) or any(self.evaluated(x) is None for x in (one, two)):
            return self.expression(-1)
        dtype = self.draw.some("int32", "int32", *TYPES)
        return f"{one}.to(tl.{dtype}) if {self.choice_of_branch()} else {two}.to(tl.{dtype})"

    def tries(self, draw_text, most=20):
        return any(self.line(draw_text()) for _ in range(most))

    def _say_type(self, name):
        types = {n[name].dtype.name for launch in self.launches for n in launch.names}
        if len(types) == 1 and self.draw.yes(0.3):
            named = types.pop().replace("bool", "int1")
            self.must(f"tl.static_assert({name}.dtype == tl.{named})")
        elif self.value(name).values.ndim < 2 and self.draw.yes(0.2):
            what = self.draw.some("multiple_of", "max_contiguous", "max_constancy")
            self.line(f"{name} = tl.{what}({name}, {self.draw.some(2, 4, 8, 16)})")

    def bounded(self, text):
        """The index as drawn, and then with an end: what comes first that stays near."""
        size, draw = self.draw.some(16, 32, 64, 100, 1 << 10), self.draw
        ends = [f"({text} % {size})", f"({text} & {size - 1})",
                f"tl.minimum(tl.maximum({text}, 0), {size})", f"({text}).to(tl.int8)"]
        draw.shuffle(ends)
        return [text, *ends]


class Redraw(Exception):
    """No line of this kind is defined."""


def _forget(memories):
    for memory in memories.values():
        memory.touched.clear()


# -- programs --------------------------------------------------------------------------------------


def _function(kernel: Kernel):
    """The kernel's text as a function of Python, whose claims may be false."""
    text = f"def kernel({', '.join(kernel.launches[0].arguments)}):\n"
    text += "".join(f"    {line}\n" for line in kernel.lines)
    space = dict(WITHOUT_CLAIMS)
    exec(text, space)
    return space["kernel"]


def finished(kernel: Kernel):
    """Give `off` its value for each launch, and keep the launches that are defined then."""
    done, moves = [], any("off" in line for line in kernel.lines)
    for launch in kernel.launches:
        arguments = dict(launch.arguments)
        if moves:
            launch.arguments["off"] = 0
        try:
            memories = run_function(_function(kernel), kernel.grid, launch.arguments,
                                    kernel.types(), ("x",))
            if moves:
                _settle(kernel, launch, memories["x"])
            run_function(_function(kernel), kernel.grid, launch.arguments, kernel.types())
        except FAULTS:
            launch.arguments = arguments
            continue
        done.append(launch)
    return done


def _settle(kernel: Kernel, launch: Launch, memory: Memory):
    low, high = (min(memory.touched), max(memory.touched)) if memory.touched else (0, 0)
    if high - low >= SPAN:
        raise Undefined("accesses that are too far from each other")
    pad = 16
    off = (pad - low) // 16 * 16 + (0 if kernel.aligned else random.Random(low).randrange(2, 16))
    launch.arguments["off"] = off
    seed, _, dtype, smallest, largest, offset = launch.seeds["x"]
    count = high + off + 1 + pad
    launch.seeds["x"] = (seed, count, dtype, smallest, largest, offset)
    launch.arguments["x"] = np.random.default_rng(seed).integers(
        smallest, largest, count).astype(dtype)


def text_of(kernel: Kernel, sanitize: bool) -> str:
    arguments = kernel.launches[0].arguments
    notes = {name: "tl.constexpr" for name in arguments if name.isupper()} | kernel.annotations
    parameters = ", ".join(f"{name}: {notes[name]}" if name in notes else name
                           for name in arguments)
    body = "".join(f"    {line}\n" for line in kernel.lines)
    options = f"num_warps={kernel.warps}" + ", sanitize=True" * sanitize
    calls = "".join(
        f"compare(kernel, {kernel.grid}, dict({_said(launch)}), {options})\n"
        for launch in kernel.launches)
    return f"{HEAD}@triton.jit\ndef kernel({parameters}):\n{body}\n\n{calls}"


def _said(launch: Launch) -> str:
    return ", ".join(
        f"{name}=array({', '.join(map(repr, launch.seeds[name]))})" if name in launch.seeds
        else f"{name}={value}" for name, value in launch.arguments.items())
