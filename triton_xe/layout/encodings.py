"""Base class of encodings, and Triton's general ones: blocked, slice, linear, dot operand.

Parameters, text form and meaning are those of `TritonGPUAttrDefs.td` as shipped in the triton 3.9
wheel.  An encoding defines how a tensor of any shape is distributed; together with a shape it is a
`LinearLayout`:

>>> blocked = BlockedEncoding((1, 2), (2, 8), (2, 1), (1, 0))
>>> str(blocked)[:52]
'#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp'
>>> to_linear_layout(blocked, (4, 16)).bases["lane"]
((0, 2), (0, 4), (0, 8), (1, 0))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, Self

from triton_xe.errors import LayoutError
from triton_xe.layout import tiling
from triton_xe.layout.attribute_text import Fields
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, Shape, dim_name, dim_names

Ints = tuple[int, ...]
DISTRIBUTED_DIMS = ("register", "lane", "warp", "block")


@dataclass(frozen=True)
class Spelling:
    """Spelling of a field in MLIR text.

    `absent` is the value that a missing entry means; None if the entry is required.  With `always`
    the entry is printed even if it has the default value.  The value must be one of `one_of`, if
    given, and with `powers` a power of two, or a list of them.
    """

    name: str
    absent: Any = None
    always: bool = False
    one_of: tuple[Any, ...] = ()
    powers: bool = False


def mlir(name: str, *, default: Any = MISSING, **rest: Any) -> Any:
    """A field of an encoding that is called `name` in MLIR text; `rest` as in `Spelling`."""
    return field(default=default, metadata={"spelling": Spelling(name, **rest)})


def spelled(value: object) -> str:
    """A number, a truth value, a list or an encoding in MLIR text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(spelled, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


class Encoding(ABC):
    """A tensor or shared-memory layout attribute.  `str()` is its MLIR text."""

    mnemonic: ClassVar[str]
    """Name after `#`, such as `ttg.blocked`."""
    what: ClassVar[str] = "a layout attribute"
    dims: ClassVar[Sequence[str]] = ()
    """In-dims of a layout that is given by its bases; `optional_dims` may be left out."""
    optional_dims: ClassVar[Sequence[str]] = ()
    kinds: ClassVar[dict[str, type[Encoding]]] = {}
    """Every class of encodings by its name."""

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type]
            spelling, value = entry.metadata.get("spelling"), getattr(self, entry.name)
            if entry.type == "BlockBases":
                self._check_blocks(value)
            if spelling is None:
                continue
            if spelling.one_of and value not in spelling.one_of:
                *most, last = map(str, spelling.one_of)
                choices = f"{', '.join(most)} or {last}" if most else last
                self.refuse(f"{spelling.name} must be {choices}, got {value}")
            values = value if isinstance(value, tuple) else (value,)
            if spelling.powers and not all(map(tiling.is_power_of_two, values)):
                raise LayoutError(
                    f"{spelling.name} of #{self.mnemonic} must be powers of two, got {ints(values)}"
                )
            if spelling.name == "order" and sorted(value) != list(range(len(value))):
                raise LayoutError(
                    f"order of #{self.mnemonic} must be a permutation of 0..rank-1, "
                    f"got {ints(value)}"
                )
        self.check()

    def check(self) -> None:
        """Refuse parameters that do not go together."""
        return

    def refuse(self, rule: str) -> NoReturn:
        raise LayoutError(f"#{self.mnemonic}: {rule}")

    def _check_blocks(self, bases: BlockBases) -> None:
        """Check that each basis has `rank` coordinates, moves along one dim, and skips no piece."""
        what, rank = f"CGALayout of #{self.mnemonic}", self.rank
        if any(len(basis) != rank for basis in bases):
            raise LayoutError(f"{what} must have {rank} coordinates per basis")
        if any(sum(1 for value in basis if value) > 1 for basis in bases):
            raise LayoutError(f"{what}: a basis may move along one dim only")
        if not is_permutation(tiling.block_layout(bases, rank)):
            raise LayoutError(f"{what} must be a permutation once copies are left out")

    @classmethod
    def read(cls, entries: Fields) -> Self:
        """Create the encoding from the entries of an attribute's text."""
        values: dict[str, Any] = {}
        for entry in fields(cls):  # type: ignore[arg-type]
            spelling = entry.metadata.get("spelling", Spelling(entry.name))
            if entry.type == "BlockBases":
                rank = next((len(v) for v in values.values() if isinstance(v, tuple)), 2)
                values[entry.name] = entries.block_bases(rank)
            elif spelling.absent is None or entries.has(spelling.name):
                values[entry.name] = cls._read_field(entries, str(entry.type), spelling)
            else:
                values[entry.name] = spelling.absent
        return cls(**values)

    @classmethod
    def _read_field(cls, entries: Fields, type_: str, spelling: Spelling) -> Any:
        name = spelling.name
        match type_:
            case "int":
                return entries.integer(name)
            case "Ints":
                return entries.integers(name)
            case "bool":
                return entries.boolean(name)
            case "str":
                return entries.word(name, spelling.one_of)
            case "LinearLayout":
                return entries.layout(cls.dims, cls.optional_dims)
        kind = cls.kinds[type_]
        entries.typed(name, Encoding, Encoding.what)
        return entries.typed(name, kind, kind.what)

    @property
    def rank(self) -> int:
        """Rank of its tensors, taken from the first parameter that has one; 0: any rank."""
        for entry in fields(self):  # type: ignore[arg-type]
            match getattr(self, entry.name):
                case tuple() as sizes:
                    return len(sizes)
                case LinearLayout() as layout:
                    return len(layout.out_dims)
                case Encoding() as inner:
                    return inner.rank
        return 0

    @abstractmethod
    def linear_layout(self, shape: Shape) -> LinearLayout:
        """`to_linear_layout` without the cache and the check of the shape."""

    def parameters(self) -> Iterable[tuple[str, str]]:
        """Names and printed values, in printing order; defaults are not printed."""
        for entry in fields(self):  # type: ignore[arg-type]
            spelling, value = entry.metadata.get("spelling"), getattr(self, entry.name)
            if spelling and (spelling.always or value != entry.default):
                yield spelling.name, spelled(value)

    def __str__(self) -> str:
        fields = ", ".join(f"{name} = {value}" for name, value in self.parameters())
        return f"#{self.mnemonic}<{{{fields}}}>"


class NamedEncoding(Encoding):
    """A name without a mapping of elements; fits tensors of any rank."""

    why: ClassVar[str]
    """Reason why it is not a layout."""

    def __str__(self) -> str:
        return f"#{self.mnemonic}"

    def linear_layout(self, shape: Shape) -> LinearLayout:
        raise LayoutError(f"{self} {self.why}")


class DistributedEncoding(Encoding):
    """Layout over registers, lanes, warps and blocks."""

    what: ClassVar[str] = "a register layout"
    dims: ClassVar[Sequence[str]] = DISTRIBUTED_DIMS
    cga_layout: BlockBases = ()

    @property
    def block_bases(self) -> BlockBases:
        """Bases by which the blocks of a cluster share the tensor; empty for one block."""
        return self.cga_layout

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        """Operand A (0) or B (1) of a product whose result has this encoding."""
        raise LayoutError(f"#{self.mnemonic} is not the layout of a matrix product")

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        """Raise `LayoutError` if such an operand does not exist."""
        raise LayoutError(f"#{self.mnemonic} cannot be the parent of #ttg.dot_op")


@lru_cache(maxsize=4096)
def to_linear_layout(encoding: Encoding, shape: tuple[int, ...]) -> LinearLayout:
    """Map from hardware coordinates to the elements of a tensor of `shape`.

    In-dims are register, lane, warp, block (offset, block in shared memory); out-dims dim0, ...
    Raise `LayoutError` if the shape has another rank or a size that is no power of two.
    """
    tiling.check_shape(shape, encoding.rank or len(shape), f"#{encoding.mnemonic}")
    return encoding.linear_layout(shape)


def ints(values: Iterable[int]) -> str:
    """`[1, 2]`, as MLIR prints an array."""
    return f"[{', '.join(map(str, values))}]"


def bases_text(vectors: Iterable[Iterable[int]]) -> str:
    """`[[0, 1], [0, 2]]`."""
    return f"[{', '.join(ints(vector) for vector in vectors)}]"


def cga_parameter(block_bases: BlockBases) -> list[tuple[str, str]]:
    return [("CGALayout", bases_text(block_bases))] if block_bases else []


def is_permutation(layout: LinearLayout) -> bool:
    """True if every basis but zero is one bit of the output, and every bit is there once."""
    columns = [column for column in layout.columns if column]
    return sorted(columns) == [1 << bit for bit in range(layout.out_bits)]


def check_dims(encoding: Encoding, layout: LinearLayout) -> None:
    """Refuse a layout whose dims are not those of the encoding."""
    if tuple(layout.in_dims) != tuple(encoding.dims):
        raise LayoutError(f"#{encoding.mnemonic} needs the in dims {list(encoding.dims)}")
    if not layout.out_dims or list(layout.out_dims) != dim_names(len(layout.out_dims)):
        raise LayoutError(f"#{encoding.mnemonic} needs the out dims dim0, dim1, ...")


@dataclass(frozen=True)
class BlockedEncoding(DistributedEncoding):
    """Each lane holds a box of elements, lanes tile a warp, warps tile a block.

    `order` lists the dims fastest first and applies to all three levels.  A box larger than the
    tensor is cut down to it, so registers never hold copies; lanes and warps may.
    """

    mnemonic: ClassVar[str] = "ttg.blocked"
    size_per_thread: Ints = mlir("sizePerThread", powers=True)
    threads_per_warp: Ints = mlir("threadsPerWarp", powers=True)
    warps_per_cta: Ints = mlir("warpsPerCTA", powers=True)
    order: Ints = mlir("order")
    cga_layout: BlockBases = mlir("CGALayout", default=())

    def check(self) -> None:
        boxes = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta)
        if any(len(box) != len(self.order) for box in boxes):
            raise LayoutError("the parameters of #ttg.blocked must have the same rank")

    def linear_layout(self, shape: Shape) -> LinearLayout:
        tile = (
            tiling.identity("register", self.size_per_thread, self.order)
            * tiling.identity("lane", self.threads_per_warp, self.order)
            * tiling.identity("warp", self.warps_per_cta, self.order)
        )
        return tiling.cover(tile, self.cga_layout, shape).without_zero_bases("register")

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        if k_width:
            raise LayoutError("kWidth of #ttg.dot_op must be 0 when the parent is #ttg.blocked")

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        """Each lane holds all of K; lanes and warps along the other operand's dim hold copies."""
        k, _ = tiling.dot_operand_dims(op_idx, self.rank)
        registers = list(self.size_per_thread)
        registers[k] = shape[k]
        tile = (
            tiling.identity("register", registers, self.order)
            * tiling.copied_identity("lane", self.threads_per_warp, self.order, k)
            * tiling.copied_identity("warp", self.warps_per_cta, self.order, k)
        )
        return tiling.cover(tile, without_dim(self.cga_layout, k), shape)


def without_dim(block_bases: BlockBases, dim: int) -> BlockBases:
    """Block bases without dim `dim`: the blocks along it hold copies."""
    return tuple(
        tuple(0 if i == dim else value for i, value in enumerate(basis)) for basis in block_bases
    )


@dataclass(frozen=True)
class SliceEncoding(DistributedEncoding):
    """`parent` without dim `dim`: the layout of a reduction's result, or of an `expand_dims`
    operand.
    """

    mnemonic: ClassVar[str] = "ttg.slice"
    dim: int = mlir("dim")
    parent: DistributedEncoding = mlir("parent")

    def check(self) -> None:
        if not isinstance(self.parent, DistributedEncoding):
            raise LayoutError("the parent of #ttg.slice must be a register layout")
        rank = self.parent.rank
        if rank < 2:
            raise LayoutError(f"the parent of #ttg.slice must have rank 2 or more, has {rank}")
        if not 0 <= self.dim < rank:
            self.refuse(f"dim is {self.dim}, the parent has rank {rank}")

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    @property
    def block_bases(self) -> BlockBases:
        return tuple(
            (*basis[: self.dim], *basis[self.dim + 1 :]) for basis in self.parent.block_bases
        )

    def linear_layout(self, shape: Shape) -> LinearLayout:
        parent_shape = (*shape[: self.dim], 1, *shape[self.dim :])
        parent = to_linear_layout(self.parent, parent_shape)
        kept = [name for name in parent.out_dims if name != dim_name(self.dim)]
        sliced = parent.sublayout(parent.in_dims, kept)
        renamed = sliced.rename_outs(dict(zip(kept, dim_names(self.rank), strict=True)))
        return renamed.without_zero_bases("register")


@dataclass(frozen=True)
class LinearEncoding(DistributedEncoding):
    """A layout given by its bases; without copies it is a permutation of the bits."""

    mnemonic: ClassVar[str] = "ttg.linear"
    layout: LinearLayout

    def check(self) -> None:
        check_dims(self, self.layout)
        self._check_bases()

    def _check_bases(self) -> None:
        if not is_permutation(self.layout):
            raise LayoutError("#ttg.linear must be a permutation once copies are left out")

    @property
    def block_bases(self) -> BlockBases:
        """Bases in units of the piece that one block holds."""
        pieces = self.layout.sublayout(["block"], self.layout.out_dims).bases["block"]
        sizes = [1] * self.rank
        result = []
        for basis in pieces:
            moved = [dim for dim, value in enumerate(basis) if value]
            result.append(tuple(sizes[d] if d in moved else 0 for d in range(self.rank)))
            for dim in moved:
                sizes[dim] *= 2
        return tuple(result)

    def parameters(self) -> Iterable[tuple[str, str]]:
        for name, vectors in self.layout.bases.items():
            yield name, bases_text(vectors)

    def repetition_order(self) -> Ints:
        """Dims in the order in which the registers step through them; the others follow, last dim
        first.
        """
        order: list[int] = []
        for basis in self.layout.bases["register"]:
            moved = [dim for dim, value in enumerate(basis) if value]
            if moved and moved[0] not in order:
                order.append(moved[0])
        return (*order, *(dim for dim in reversed(range(self.rank)) if dim not in order))

    def linear_layout(self, shape: Shape) -> LinearLayout:
        order = [dim_name(dim) for dim in self.repetition_order()]
        sizes = dict(zip(dim_names(self.rank), shape, strict=True))
        result = tiling.grow(self.layout.transpose_outs(order), sizes)
        result = tiling.shrink(result, sizes, keep_register_copies=False)
        return result.transpose_outs(dim_names(self.rank))


@dataclass(frozen=True)
class GenericLinearEncoding(LinearEncoding):
    """`LinearEncoding` whose warps may be swizzled and whose elements may repeat."""

    mnemonic: ClassVar[str] = "ttg.generic_linear"

    def _check_bases(self) -> None:
        for name in ("register", "lane", "block"):
            if any(sum(1 for v in basis if v) > 1 for basis in self.layout.bases[name]):
                self.refuse(f"a basis of {name} may move along one dim only")
        if not self.layout.is_surjective:
            raise LayoutError("#ttg.generic_linear must reach every element")


@dataclass(frozen=True)
class DotOperandEncoding(DistributedEncoding):
    """Operand A (`op_idx` 0) or B (1) of a product whose result has the layout `parent`.

    `k_width` is the number of consecutive elements along K in one lane, for parents that allow
    several.
    """

    mnemonic: ClassVar[str] = "ttg.dot_op"
    op_idx: int = mlir("opIdx", one_of=(0, 1))
    parent: DistributedEncoding = mlir("parent")
    k_width: int = mlir("kWidth", default=0, absent=0)

    def check(self) -> None:
        if not isinstance(self.parent, DistributedEncoding):
            raise LayoutError("the parent of #ttg.dot_op must be a register layout")
        if self.k_width < 0:
            self.refuse(f"kWidth must not be negative, got {self.k_width}")
        self.parent.check_dot_operand(self.op_idx, self.k_width)

    @property
    def block_bases(self) -> BlockBases:
        k, _ = tiling.dot_operand_dims(self.op_idx, self.rank)
        return without_dim(self.parent.block_bases, k)

    def linear_layout(self, shape: Shape) -> LinearLayout:
        return self.parent.dot_operand_layout(self.op_idx, self.k_width, shape)
