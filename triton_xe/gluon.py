"""Intel's operations for Gluon: products by DPAS, 2D blocks, split barriers.

    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language import intel

    MATRIX = intel.DPAS(warps_per_cta=[8, 4], rep_cluster=[4, 4])

    @gluon.jit
    def kernel(a_ptr, ..., MATRIX: gl.constexpr):
        a = intel.surface(a_ptr, [M, K], [lda, 1])
        left = intel.load_2d(a, [row, k], [256, 32], MATRIX.operand(0, [256, 32]))
        total = intel.dpas(left, right, total)

The rules of surfaces apply as for every other kernel: conditions that the program does not prove
are tested before a launch.  If they do not hold, a general version runs.
`lowering.front.raise_calls` reads the calls that these operations create.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from triton.experimental.gluon import constexpr_function
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import _unwrap_if_constexpr as plain
from triton.experimental.gluon.language._core import builtin
from triton.language.core import constexpr_type

from triton_xe.hardware.dpas import SYSTOLIC_DEPTH
from triton_xe.layout import DotOperandEncoding, DpasEncoding, to_linear_layout

F = TypeVar("F", bound=Callable[..., Any])


def _operation(function: F) -> F:
    """Mark a function that kernels call."""
    return cast(F, builtin(function))


def _constant(function: F) -> F:
    """Mark a function that kernels call at compile time."""
    return cast(F, constexpr_function(function))


_PRODUCTS: dict[gl.DistributedLinearLayout, set[tuple[DPAS, str]]] = {}
"""For each layout that was created: the `DPAS` and operand (A, B or C) that it belongs to."""


@dataclass(frozen=True)
class DPAS:
    """Distribution of a product over warps and DPAS instructions: `#xe.dpas`.

    A warp computes `rep_cluster` instructions of `repeat_count` rows and `execution_size` columns;
    the parts of all warps form the result.  `ops_per_channel` is 2 for 16-bit operands, 4 for 8
    bits, 1 for tf32.
    """

    warps_per_cta: Sequence[int]
    rep_cluster: Sequence[int]
    ops_per_channel: int = 2
    repeat_count: int = 8
    execution_size: int = 16

    def __post_init__(self) -> None:
        for name in ("warps_per_cta", "rep_cluster"):
            held = tuple(map(plain, plain(getattr(self, name))))
            object.__setattr__(self, name, held)
        self.encoding  # noqa: B018 (checks itself)

    @property
    def type(self) -> Any:
        return constexpr_type(self)

    def mangle(self) -> str:
        fields = (*self.warps_per_cta, *self.rep_cluster, self.ops_per_channel, self.repeat_count)
        return f"DPAS{'_'.join(map(str, fields))}_{self.execution_size}DPAS"

    @property
    def encoding(self) -> DpasEncoding:
        """The layout attribute of the compiler."""
        return DpasEncoding(
            self.repeat_count, SYSTOLIC_DEPTH, self.execution_size, self.ops_per_channel,
            self.execution_size, tuple(self.warps_per_cta), tuple(self.rep_cluster),
        )

    @_constant
    def result(self, shape: Sequence[int]) -> gl.DistributedLinearLayout:
        """The layout of C and of the result."""
        return self._layout("C", shape)

    @_constant
    def operand(self, index: int, shape: Sequence[int]) -> gl.DistributedLinearLayout:
        """The layout of A (0) or B (1)."""
        return self._layout("AB"[index], shape)

    def _layout(self, name: str, shape: Sequence[int]) -> gl.DistributedLinearLayout:
        """The linear layout of A, B or C."""
        sizes = tuple(map(plain, plain(shape)))
        parent = self.encoding
        rows, columns = parent.block
        wanted = {"A": (rows, sizes[1]), "B": (sizes[0], columns), "C": (rows, columns)}[name]
        if sizes != wanted:
            raise ValueError(
                f"{self} is for products of {rows}x{columns} elements: {name} must be "
                f"{'x'.join(map(str, wanted))}, not {'x'.join(map(str, sizes))}")
        index = "AB".find(name)
        encoding = parent if name == "C" else DotOperandEncoding(
            index, parent, parent.expected_k_width(index))
        bases = to_linear_layout(encoding, sizes).bases
        registers, lanes, warps = (
            [list(basis) for basis in bases[dim]] for dim in ("register", "lane", "warp"))
        made = gl.DistributedLinearLayout(registers, lanes, warps, [], list(sizes))
        _PRODUCTS.setdefault(made, set()).add((self, name))
        return made


def _call(
    text: str, arguments: Sequence[Any], results: Sequence[Any], semantic: Any, pure: bool = False
) -> list[Any]:
    """Create an operation in the form that the compiler reads."""
    builder = semantic.builder
    if not hasattr(builder, "create_threadwise_inline_asm"):
        raise NotImplementedError("Intel's operations for Gluon need Triton 3.9 or newer")
    op = builder.create_threadwise_inline_asm(
        f"xe.{text}", "", [a.handle for a in arguments], [r.to_ir(builder) for r in results], pure)
    return [gl.tensor(op.get_result(i), kind) for i, kind in enumerate(results)]


# -- products --------------------------------------------------------------------------------------


def _product(*layouts: Any) -> DPAS:
    """The `DPAS` from which the layouts of A, B and C were created."""
    found = []
    for layout, name in zip(layouts, "ABC", strict=True):
        found.append({made for made, part in _PRODUCTS.get(layout, ()) if part == name})
        if not found[-1]:
            wanted = "DPAS.result" if name == "C" else f"DPAS.operand({'AB'.index(name)}, ...)"
            raise ValueError(f"dpas: {name} must have the layout {wanted}, not {layout}")
    common = set.intersection(*found)
    if not common:
        raise ValueError("dpas: the layouts of A, B and C must come from one DPAS")
    return min(common, key=repr)


@_operation
def dpas(a: Any, b: Any, acc: Any, input_precision: Any = "tf32", _semantic: Any = None) -> Any:
    """acc + a @ b on the matrix unit, in the layouts of one `DPAS`.

    32-bit floats are rounded to tf32.
    """
    matrix = _product(a.type.layout, b.type.layout, acc.type.layout)
    if a.shape[1] != b.shape[0] or [a.shape[0], b.shape[1]] != list(acc.shape):
        raise ValueError(f"dpas: shapes do not multiply: {a.shape} @ {b.shape} + {acc.shape}")
    if a.dtype != b.dtype:
        raise ValueError(f"dpas: A is of {a.dtype}, B of {b.dtype}")
    text = f"dpas layout={matrix.encoding}; precision={plain(input_precision)}"
    return _call(text, [a, b, acc], [acc.type], _semantic, pure=True)[0]


# -- 2D blocks -------------------------------------------------------------------------------------


@_operation
def surface(base: Any, shape: Any, strides: Any, _semantic: Any = None) -> Any:
    """A matrix in memory for `load_2d` and others: rows and columns, and the strides of both.

    One stride must be 1 for 2D block messages.
    """
    numbers = [_number(one, gl.int32, _semantic) for one in plain(shape)]
    numbers += [_number(one, gl.int64, _semantic) for one in plain(strides)]
    return gl.tuple([base, *numbers])


def _number(value: Any, kind: Any, semantic: Any) -> Any:
    return semantic.cast(semantic.to_tensor(plain(value)), kind)


def _place(matrix: Any, offsets: Any, semantic: Any) -> list[Any]:
    """The operands of an access: the matrix, and the row and column of its first element."""
    return [*matrix, *(_number(one, gl.int32, semantic) for one in plain(offsets))]


@_operation
def load_2d(matrix: Any, offsets: Any, shape: Any, layout: Any, _semantic: Any = None) -> Any:
    """Load the block of this shape at a row and a column; elements outside the matrix are 0."""
    sizes = [plain(size) for size in plain(shape)]
    kind = gl.distributed_type(matrix[0].dtype.element_ty, sizes, plain(layout))
    return _call("load_2d", _place(matrix, offsets, _semantic), [kind], _semantic)[0]


@_operation
def store_2d(matrix: Any, offsets: Any, value: Any, _semantic: Any = None) -> None:
    """Store a block at a row and a column; elements outside the matrix are dropped."""
    value = _semantic.to_tensor(value)
    _call("store_2d", [*_place(matrix, offsets, _semantic), value], [], _semantic)


@_operation
def prefetch_2d(matrix: Any, offsets: Any, shape: Any, _semantic: Any = None) -> None:
    """Prefetch a block into the cache; each warp prefetches a part of it."""
    sizes = "x".join(str(plain(size)) for size in plain(shape))
    _call(f"prefetch_2d shape={sizes}", _place(matrix, offsets, _semantic), [], _semantic)


# -- barriers --------------------------------------------------------------------------------------


@_operation
def barrier_arrive(number: Any = None, _semantic: Any = None) -> None:
    """Signal that this warp has arrived at the barrier.

    Memory that it wrote before is visible to others after their `barrier_wait`.  With a number from
    1 to 31 it is a named barrier: other barriers may come before its wait.
    """
    _call("barrier_arrive" + _named(number), [], [], _semantic)


@_operation
def barrier_wait(number: Any = None, _semantic: Any = None) -> None:
    """Wait until all warps of the work-group have arrived."""
    _call("barrier_wait" + _named(number), [], [], _semantic)


def _named(number: Any) -> str:
    number = plain(number)
    if number is not None and not 1 <= number <= 31:
        raise ValueError(f"barriers have numbers from 1 to 31, not {number}")
    return "" if number is None else f" number={number}"


__all__ = [
    "DPAS", "barrier_arrive", "barrier_wait", "dpas", "load_2d", "prefetch_2d", "store_2d",
    "surface",
]
