"""Triton's integer language on blocks of numpy: types, wrapping and undefined results, exactly.

`compare` launches a kernel on the device with arrays of numpy, runs the same function here with
this module in the place of `triton.language`, and compares every array.  Types follow
`triton.language.semantic`: promotion, Python's integers as constants, division toward zero, shifts.
Undefined results, such as a quotient by zero, end the evaluation with `Undefined` unless `where`
leaves them out, since the device may compute anything then.  Under the checks it has to report a
claim that is false, with its line.
"""

import builtins
import math
import types
from dataclasses import dataclass, field
from functools import partial

import numpy as np

int1 = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32 = np.dtype("float16"), np.dtype("float32")
INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
constexpr = object
UNKNOWN = 63
"""The value of a masked load's lanes that are off, unless `other` is given."""

_program, _grid = [0, 0], [1, 1]


class Undefined(Exception):
    """The kernel's result is undefined, or its types are not those that Triton takes."""


class FalseClaim(Undefined):
    """Error for a claim about values, such as `tl.assume`, that is false in a launch."""


class FalseHint(FalseClaim):
    """Error for a false claim that is reported if an access relies on it."""


# -- types -----------------------------------------------------------------------------------------


def bits(dtype) -> int:
    return 1 if dtype == int1 else 8 * dtype.itemsize


def signed(dtype) -> bool:
    return dtype.kind == "i"


def _integer(dtype) -> bool:
    return dtype.kind in "biu"


def _type_of_number(x):
    if isinstance(x, Partial):
        raise Undefined(x.why)
    if isinstance(x, bool):
        return int1
    if isinstance(x, float):
        return float32
    for low, high, dtype in ((-2**31, 2**31, int32), (2**31, 2**32, uint32),
                             (-2**63, 2**63, int64), (2**63, 2**64, uint64)):
        if low <= x < high:
            return dtype
    raise Undefined(f"{x} is not an integer of 64 bits")


def promoted(a, b):
    """The type of an operation on integers of types `a` and `b`."""
    if signed(a) == signed(b):
        return a if bits(a) > bits(b) else b
    unsigned, other = (b, a) if signed(a) else (a, b)
    return unsigned if bits(unsigned) >= bits(other) else other


def _computation_type(a, b, division=False):
    """The type that both operands of an operation are converted to."""
    types_ = [x.dtype if isinstance(x, Block) else _type_of_number(x) for x in (a, b)]
    numbers = [not isinstance(x, Block) for x in (a, b)]
    if numbers[0] != numbers[1]:
        number, block = types_ if numbers[0] else types_[::-1]
        if _kind(number) <= _kind(block):
            types_ = [block, block]
    a, b = types_
    if not (_integer(a) and _integer(b)):
        floats = [t for t in types_ if not _integer(t)]
        return float32 if division or float32 in floats else float16
    if division and signed(a) != signed(b):
        raise Undefined(f"division of {a} and {b}, of unlike signs")
    return promoted(a, b)


def _kind(dtype):
    return 0 if dtype == int1 else 1 if _integer(dtype) else 2


def _converted(x, dtype):
    if isinstance(x, Block):
        return x.to(dtype)
    if _integer(dtype) and dtype != int1:
        info = np.iinfo(dtype)
        if not info.min <= x <= info.max:
            raise Undefined(f"{x} is not in {dtype}")
    return Block(np.array(x, dtype))


def _pair(a, b, division=False):
    dtype = _computation_type(a, b, division)
    return _converted(a, dtype).values, _converted(b, dtype).values


def _block(x):
    return x if isinstance(x, Block) else Block(np.array(x, _type_of_number(x)))


# -- blocks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Partial:
    """A block with undefined elements: only `where` takes it, if it leaves those out."""

    block: "Block"
    undefined: np.ndarray
    why: str

    def __eq__(self, other):
        raise Undefined(self.why)


def _operation(function, division=False, undefined=None):
    def apply(*pair):
        a, b = _pair(*pair, division)
        if undefined is None:
            return Block(function(a, b))
        where, why = undefined(a, b)
        made = Block(function(a, np.where(where, np.ones_like(b), b)))
        return Partial(made, where, why) if where.any() else made

    return apply, lambda self, other: apply(other, self)


def _undivided(a, b):
    overflows = signed(a.dtype) and (a == np.iinfo(a.dtype).min) & (b == -1)
    return (b == 0) | overflows, "a quotient by zero, or of the smallest integer by -1"


def _unshifted(a, b):
    return (b < 0) | (b >= bits(a.dtype)), "a shift by the integer's width or more"


def _quotient(a, b):
    return (a - np.fmod(a, b)) // b


def _remainder(a, b):
    return np.fmod(a, b)


def _shift_right(a, b, arithmetic):
    as_kind = f"{'int' if arithmetic else 'uint'}{bits(a.dtype)}"
    return (a.view(as_kind) >> b.view(as_kind)).view(a.dtype)


_SHIFTS = [_operation(partial(_shift_right, arithmetic=is_signed), undefined=_unshifted)
           for is_signed in (False, True)]


@dataclass(frozen=True, eq=False)
class Block:
    """A value of the kernel: a scalar has no axes; its type is that of numpy's array."""

    values: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "values", np.asarray(self.values))

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def shape(self):
        return self.values.shape

    def to(self, dtype, bitcast=False):
        if bitcast:
            if bits(self.dtype) != bits(dtype):
                raise Undefined("a view of another width")
            return Block(self.values.view(dtype))
        if dtype == int1:
            return Block(self.values != 0)
        made = Block(self.values.astype(dtype))
        if not _integer(self.dtype) and _integer(dtype) and (made.values != self.values).any():
            raise Undefined("a fraction, or a number that its type does not hold")
        return made

    __add__, __radd__ = _operation(np.add)
    __sub__, __rsub__ = _operation(np.subtract)
    __mul__, __rmul__ = _operation(np.multiply)
    __floordiv__, __rfloordiv__ = _operation(_quotient, True, _undivided)
    __mod__, __rmod__ = _operation(_remainder, True, _undivided)
    __and__, __rand__ = _operation(np.bitwise_and)
    __or__, __ror__ = _operation(np.bitwise_or)
    __xor__, __rxor__ = _operation(np.bitwise_xor)
    __lshift__, __rlshift__ = _operation(np.left_shift, undefined=_unshifted)
    __lt__, __gt__ = _operation(np.less)[0], _operation(np.greater)[0]
    __le__, __ge__ = _operation(np.less_equal)[0], _operation(np.greater_equal)[0]
    __eq__, __ne__ = _operation(np.equal)[0], _operation(np.not_equal)[0]

    def __rshift__(self, other):
        return _SHIFTS[signed(self.dtype)][0](self, other)

    def __rrshift__(self, other):
        return _SHIFTS[signed(self.dtype)][1](self, other)

    def __neg__(self):
        if self.dtype == int1:
            raise Undefined("minus of a condition")
        return Block(np.zeros_like(self.values) - self.values)

    def __invert__(self):
        return Block(~self.values)

    def __getitem__(self, index):
        return Block(self.values[index])

    def __bool__(self):
        if self.shape:
            raise Undefined("a block is no condition of Python's")
        return bool(self.values)


@dataclass
class Memory:
    """An array that a kernel reads and writes, its first element at `start`.

    With `probe` the accesses are recorded, and may leave the array.
    """

    elements: np.ndarray
    probe: bool = False
    touched: list[int] = field(default_factory=list)
    written: dict[int, str] = field(default_factory=dict)
    """The writer of an element: a store, or the atomic operations of one name."""

    def places(self, at, mask):
        """The addresses of the lanes that are on, as indices of the array."""
        on = at[mask]
        if self.probe:
            self.touched += [int(on.min()), int(on.max())] if on.size else []
            return np.clip(at, 0, len(self.elements) - 1)
        if ((on < 0) | (on >= len(self.elements))).any():
            raise Undefined("an access outside of the array")
        return np.where(mask, at, 0)


@dataclass(frozen=True)
class Element:
    element_ty: np.dtype


@dataclass(frozen=True, eq=False)
class Pointer:
    """Elements of a memory, by their indices."""

    memory: Memory
    at: np.ndarray

    @property
    def dtype(self):
        return Element(self.memory.elements.dtype)

    def __add__(self, offset):
        return Pointer(self.memory, self.at + _block(offset).values.astype(int64))

    __radd__ = __add__

    def __sub__(self, offset):
        return self + -_block(offset)

    def __getitem__(self, index):
        return Pointer(self.memory, self.at[index])


# -- the language ----------------------------------------------------------------------------------


def set_program(index, grid):
    """From here on the program with this index of the grid, of two axes, runs."""
    _program[:] = [index % grid[0], index // grid[0]]
    _grid[:] = grid


def program_id(axis):
    return Block(np.array(_program[axis], int32))


def num_programs(axis):
    return Block(np.array(_grid[axis], int32))


def arange(start, end):
    return Block(np.arange(start, end, dtype=int32))


def full(shape, value, dtype):
    value = value.to(dtype).values if isinstance(value, Block) else np.array(value, dtype)
    return Block(np.full(shape, value, dtype))


def zeros(shape, dtype):
    return Block(np.zeros(shape, dtype))


def where(condition, x, y):
    condition = _block(condition).to(int1).values
    x, y = _chosen(x, condition), _chosen(y, ~condition)
    if isinstance(x, Pointer):
        return Pointer(x.memory, np.where(condition, x.at, y.at))
    return Block(np.where(condition, *_pair(x, y)))


def _chosen(x, on):
    if not isinstance(x, Partial):
        return x
    if (x.undefined & on).any():
        raise Undefined(x.why)
    return x.block


def minimum(x, y):
    return Block(np.minimum(*_pair(x, y)))


def maximum(x, y):
    return Block(np.maximum(*_pair(x, y)))


def clamp(x, low, high):
    if isinstance(low, Block) or isinstance(high, Block):
        raise Undefined("bounds that are no constants")
    return minimum(maximum(x, low), high)


def cdiv(x, div):
    return (x + (div - 1)) // div


def abs(x):
    return Block(np.abs(_block(x).values))


def expand_dims(x, axis):
    return Block(np.expand_dims(x.values, axis))


def broadcast_to(x, shape):
    return Block(np.broadcast_to(x.values, shape))


def reshape(x, shape):
    if not x.shape:
        raise Undefined("a scalar has no axes")
    return Block(x.values.reshape(shape))


def trans(x):
    return Block(x.values.swapaxes(-1, -2))


def permute(x, axes):
    return Block(x.values.transpose(axes))


def join(x, y):
    x, y = np.broadcast_arrays(_block(x).values, _block(y).values)
    if x.dtype != y.dtype:
        raise Undefined("parts of unlike types")
    return Block(np.stack([x, y], -1))


def split(x):
    if x.shape[-1] != 2:
        raise Undefined("more than two parts")
    return Block(x.values[..., 0]), Block(x.values[..., 1])


def interleave(x, y):
    joined = join(x, y)
    return reshape(joined, (*joined.shape[:-2], -1))


def flip(x, axis):
    return Block(np.flip(x.values, axis))


def gather(x, index, axis):
    index = index.values.astype(int64)
    if ((index < 0) | (index >= x.shape[axis])).any():
        raise Undefined("an index outside of the block")
    return Block(np.take_along_axis(x.values, index, axis))


def sort(x, descending=False):
    ordered = np.sort(x.values, -1)
    return Block(np.flip(ordered, -1) if descending else ordered)


def histogram(x, count):
    if bits(x.dtype) != 32 or ((x.values < 0) | (x.values >= count)).any():
        raise Undefined("an element that has no bin")
    return Block(np.bincount(x.values, minlength=count).astype(int32))


def umulhi(x, y):
    x, y = np.broadcast_arrays(*_pair(x, y))
    width = bits(x.dtype)
    if width < 32:
        raise Undefined("a product of narrow numbers")
    exact = x.view(f"uint{width}").astype(object) * y.view(f"uint{width}").astype(object)
    return Block((exact >> width).astype(f"uint{width}").view(x.dtype))


def _wide(x, unsigned=uint32):
    """The type in which Triton reduces; `max` takes signed integers for narrow unsigned ones."""
    return x.dtype if bits(x.dtype) >= 32 else int32 if signed(x.dtype) else unsigned


def reduce(x, axis, function):
    return Block(function.reduce(x.values, axis, dtype=x.dtype))


def sum(x, axis):
    return reduce(x.to(_wide(x)), axis, np.add)


def max(x, axis):
    return reduce(x.to(_wide(x, int32)), axis, np.maximum)


def min(x, axis):
    return reduce(x.to(_wide(x, int32)), axis, np.minimum)


def xor_sum(x, axis):
    return reduce(x, axis, np.bitwise_xor)


def reduce_or(x, axis):
    return reduce(x, axis, np.bitwise_or)


def argmax(x, axis):
    return Block(x.values.argmax(axis).astype(int32))


def argmin(x, axis):
    return Block(x.values.argmin(axis).astype(int32))


def _scanned(function, x, axis, reverse):
    values = np.flip(x.values, axis) if reverse else x.values
    values = function.accumulate(values, axis, dtype=values.dtype)
    return Block(np.flip(values, axis) if reverse else values)


def cumsum(x, axis, reverse=False):
    return _scanned(np.add, x.to(_wide(x)), axis, reverse)


def cumprod(x, axis, reverse=False):
    return _scanned(np.multiply, x.to(_wide(x)), axis, reverse)


def associative_scan(x, axis, function, reverse=False):
    return _scanned(function, x, axis, reverse)


standard = types.SimpleNamespace(
    _elementwise_max=np.maximum, _elementwise_min=np.minimum, _sum_combine=np.add,
    _prod_combine=np.multiply, _xor_combine=np.bitwise_xor, _or_combine=np.bitwise_or)
"""Triton's functions of two elements, for scans and reductions."""


def multiple_of(x, count):
    """A claim of a number, or of the first of contiguous elements, which accesses may rely on."""
    count = count[0] if isinstance(count, list) else count
    starts = x.at if isinstance(x, Pointer) else x.values
    contiguous = (np.diff(starts.astype(int64)) == 1).all() if starts.ndim else True
    if (starts.astype(int64).reshape(-1)[:1] % count).any() or not contiguous:
        raise (FalseHint if starts.ndim else FalseClaim)("a false claim of what divides")
    return x


def _groups(x, count, holds, why):
    """A claim of each `count` elements along the last axis."""
    count = count[-1] if isinstance(count, list) else count
    values = _block(x).values.astype(int64)
    if not values.shape:
        raise Undefined("a claim of several elements")
    groups = values.reshape(-1, builtins.min(count, values.shape[-1]))
    if not holds(groups).all():
        raise FalseHint(why)
    return x


def max_contiguous(x, count):
    return _groups(x, count, lambda g: np.diff(g) == 1, "elements that are not contiguous")


def max_constancy(x, count):
    return _groups(x, count, lambda g: np.diff(g) == 0, "elements that are not constant")


def assume(condition):
    if not condition.values.all():
        raise FalseClaim("a false assumption")


def static_assert(condition):
    if not condition:
        raise Undefined("another type than said")


def load(pointer, mask=True, other=UNKNOWN):
    element = pointer.memory.elements.dtype
    at, mask = np.broadcast_arrays(pointer.at, _block(mask).values)
    values = pointer.memory.elements[pointer.memory.places(at, mask)]
    return Block(np.where(mask, values, _block(other).to(element).values).astype(element))


def store(pointer, value, mask=True):
    memory = pointer.memory
    at, mask, value = np.broadcast_arrays(
        pointer.at, _block(mask).values, _block(value).to(memory.elements.dtype).values)
    places = memory.places(at, mask)[mask]
    if memory.probe:
        return
    if len(np.unique(places)) != places.size or not memory.written.keys().isdisjoint(places):
        raise Undefined("two stores to an element")
    memory.written.update(dict.fromkeys(places.tolist(), "store"))
    memory.elements[places] = value[mask]


ATOMICS = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
           "or": np.bitwise_or, "xor": np.bitwise_xor}
"""Operations whose order does not matter in memory."""


def _atomic(name, pointer, value, mask=True, change=None):
    """The old elements; where several lanes change one, their order is undefined.

    `change` is the new value for an element and its operand, of an operation with an order.
    """
    memory = pointer.memory
    dtype = memory.elements.dtype
    at, mask, value = np.broadcast_arrays(
        pointer.at, _block(mask).values, _block(value).to(dtype).values)
    places = memory.places(at, mask)
    unique, lanes, counts = np.unique(at[mask], return_inverse=True, return_counts=True)
    earlier = [memory.written.get(place) for place in unique.tolist()]
    seen = (counts > 1) | np.array([x is not None for x in earlier], bool)
    if not {*earlier} <= {None, name} or (change and seen.any()):
        raise Undefined("operations on an element whose order matters")
    unknown = np.ones(at.shape, bool)
    unknown[mask] = seen[lanes]
    old = Partial(Block(memory.elements[places]), unknown, "an element before other lanes' work")
    if not memory.probe:
        memory.written.update(dict.fromkeys(unique.tolist(), name))
        if change:
            memory.elements[places[mask]] = change(memory.elements[places[mask]], value[mask])
        else:
            ATOMICS[name].at(memory.elements, places[mask], value[mask])
    return old if unknown.any() else old.block


def _atomics(name, change=None):
    return lambda pointer, value, mask=True: _atomic(name, pointer, value, mask, change)


atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = map(_atomics, ATOMICS)
atomic_xchg = _atomics("xchg", lambda old, new: new)


def atomic_cas(pointer, compared, value):
    kinds = {pointer.memory.elements.dtype, compared.dtype, value.dtype}
    if len(kinds) > 1 or not pointer.at.shape == compared.shape == value.shape:
        raise Undefined("operands that are not converted")
    return _atomic("cas", pointer, value, True,
                   lambda old, new: np.where(old == compared.values.reshape(-1), new, old))


@dataclass(frozen=True)
class Descriptor:
    base: Pointer
    shape: list
    strides: list
    block_shape: list

    def _places(self, offsets):
        """The addresses of a block that begins at the offsets; one may be a block of rows."""
        at, mask = self.base.at, np.array(True)
        for axis, (offset, size) in enumerate(zip(offsets, self.block_shape, strict=True)):
            if _block(offset).dtype not in (int16, int32):
                raise Undefined("an offset that is not converted")
            index = _block(offset).values.astype(int64) + np.arange(size)
            index = index.reshape([-1 if a == axis else 1 for a in builtins.range(len(offsets))])
            length, stride = (int(_block(x).values) for x in (self.shape[axis], self.strides[axis]))
            at, mask = at + index * stride, mask & (index >= 0) & (index < length)
        return Pointer(self.base.memory, at), Block(mask)

    def load(self, offsets):
        pointer, mask = self._places(offsets)
        return load(pointer, mask, 0)

    def gather(self, rows, column):
        return self.load([rows, column])

    def scatter(self, value, rows, column):
        self.store([rows, column], value)

    def _operation(operation):
        def apply(self, offsets, value):
            pointer, mask = self._places(offsets)
            operation(pointer, value, mask)
        return apply

    store = _operation(store)
    atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = map(
        _operation, (atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor))


def make_tensor_descriptor(base, shape, strides, block_shape):
    return Descriptor(base, shape, strides, block_shape)


def dot(a, b, acc=None):
    whole = _integer(a.dtype)
    wide = int64 if whole else np.dtype("float64")
    product = (a.values.astype(wide) @ b.values.astype(wide)).astype(int32 if whole else float32)
    return Block(product if acc is None else product + acc.values)


def _range(*bounds, **_):
    """The values of a loop's variable: bounds are converted and compared as `scf.for` does.

    Triton extends a bound by the sign of the loop's type, and compares signed integers always.
    It turns a loop with a negative constant as step around: the loop counts from `last` to `first`.
    """
    first, last, step = (*((0, bounds[0]) if len(bounds) == 1 else bounds), 1)[:3]
    turned = isinstance(step, int) and step < 0
    if turned:
        first, last, step = last, first, -step
    blocks = [_block(x) for x in (first, last, step)]
    dtype = promoted(promoted(blocks[0].dtype, blocks[1].dtype), blocks[2].dtype)
    kind = np.dtype(f"int{bits(dtype)}")
    first, last, step = (
        int(x.values.view(f"{'int' if signed(dtype) else 'uint'}{bits(x.dtype)}").astype(kind))
        for x in blocks)
    if step <= 0:
        raise Undefined("a loop's step that is not positive")
    if last + step > np.iinfo(kind).max or (last - first) // step > 100:
        raise Undefined("a loop that is too long")
    for value in builtins.range(first, last, step):
        yield Block(np.array(last - value + first if turned else value, kind).astype(dtype))


LANGUAGE = types.SimpleNamespace(**{n: v for n, v in globals().items() if not n.startswith("_")})
LANGUAGE.range = _range
LANGUAGE.static_range = builtins.range


# -- launches --------------------------------------------------------------------------------------


NAMES = {"tl": LANGUAGE, "range": _range}
"""The globals of a kernel's function when it runs here."""
CLAIMS = ("assume", "multiple_of", "max_contiguous", "max_constancy")
WITHOUT_CLAIMS = NAMES | {"tl": types.SimpleNamespace(**vars(LANGUAGE) | dict.fromkeys(
    CLAIMS, lambda x, count=0: x))}
"""The same for kernels whose claims may be false."""


def array(seed, count, dtype, low=-100, high=100, offset=0):
    """Random integers of the type, `offset` elements into memory that is aligned to 64 bytes."""
    numbers = np.random.default_rng(seed).integers(low, high, count).astype(dtype)
    size = numbers.itemsize
    storage = np.zeros((count + offset) * size + 64, np.uint8)
    first = -storage.ctypes.data % 64 + offset * size
    place = storage[first:first + count * size].view(dtype)
    place[:] = numbers
    return place


def values_of(arguments, annotations, probe=()):
    """The arguments as the kernel sees them, and the memories among them."""
    memories = {name: Memory(value.copy(), name in probe) for name, value in arguments.items()
                if isinstance(value, np.ndarray)}
    values = {name: Pointer(memories[name], np.array(0, int64)) if name in memories
              else value if name.isupper() else _argument(value, annotations.get(name))
              for name, value in arguments.items()}
    return values, memories


def run_function(function, grid, arguments, annotations, probe=()):
    values, memories = values_of(arguments, annotations, probe)
    with np.errstate(all="ignore"):
        for index in builtins.range(math.prod(grid)):
            set_program(index, grid)
            function(**values)
    return memories


def _argument(value, annotation):
    if annotation is None and value == 1:
        return 1
    return Block(np.array(value, annotation or _type_of_number(value)))


def compare(kernel, grid, arguments, **options):
    """End the program where the device leaves other arrays than the kernel's text says."""
    annotations = {p.name: f"{'u' * (p.annotation[0] == 'u')}int{p.annotation[1:]}"
                   for p in kernel.params if p.annotation_type}
    found = {name: value.copy() if isinstance(value, np.ndarray) else value
             for name, value in arguments.items()}
    def wanted(names):
        function = types.FunctionType(kernel.fn.__code__, dict(names))
        return run_function(function, grid, arguments, annotations)

    try:
        memories = wanted(NAMES)
    except FalseClaim as error:
        line = error.__traceback__.tb_next.tb_next.tb_next.tb_lineno
        if _reports(line, lambda: kernel[grid](**found, **options)):
            return
        if not isinstance(error, FalseHint):
            raise SystemExit(f"unreported: the claim in line {line}") from error
        memories = wanted(WITHOUT_CLAIMS)
    except (Undefined, TypeError, ValueError, IndexError, NameError, AttributeError) as error:
        raise SystemExit(f"undefined: {error}") from error
    else:
        kernel[grid](**found, **options)
    for name, memory in memories.items():
        _compare(name, found[name], memory.elements)


def _reports(line, launch):
    """True if the launch reports that the claim in this line does not hold."""
    try:
        launch()
    except Exception as error:
        if f".py:{line}:" not in str(error) or "does not hold" not in str(error):
            raise
        return True
    return False


def _compare(name, found, wanted):
    wrong = np.flatnonzero(found != wanted)
    if wrong.size:
        first = int(wrong[0])
        raise SystemExit(f"wrong: {wrong.size} of {wanted.size} elements of {name}, the first at "
                         f"{first}: {found[first]}, not {wanted[first]}")
