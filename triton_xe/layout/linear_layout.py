"""Linear layouts: where each element of a tensor lives, as a linear map over F2.

The theory is Triton's (the paper "Linear Layouts: Robust Code Generation of Efficient Tensor
Computation Using F2", arXiv:2505.23819).  Operations that exist in Triton's C++ class have the
same meaning here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from triton_xe.errors import LayoutError
from triton_xe.layout import f2

Bases = Mapping[str, Sequence[Sequence[int]]]
Bits = tuple[tuple[str, int], ...]

if TYPE_CHECKING:
    import numpy.typing as npt

    IntArray = npt.NDArray[Any]


@dataclass(frozen=True, init=False)
class LinearLayout:
    """A map from named hardware coordinates to named tensor coordinates, linear over F2.

    It is given at the powers of two of each input; xor fills in the rest.  A 4x4 tensor spread
    over 4 registers and 4 lanes, with its columns swizzled by the row:

    >>> layout = LinearLayout(
    ...     {"register": [(1, 1), (2, 2)], "lane": [(0, 1), (0, 2)]}, {"row": 4, "column": 4})
    >>> print(layout)
     - register=1 -> (1, 1)
       register=2 -> (2, 2)
     - lane=1 -> (0, 1)
       lane=2 -> (0, 2)
    where out dims are: [row (size 4), column (size 4)]

        register/lane   0      1      2      3
              0       (0,0)  (0,1)  (0,2)  (0,3)
              1       (1,1)  (1,0)  (1,3)  (1,2)     (1, 3) = (1,1) ^ (0,1) ^ (0,2) = (1,2)
              2       (2,2)  (2,3)  (2,0)  (2,1)
              3       (3,3)  (3,2)  (3,1)  (3,0)     (3, 0) = (1,1) ^ (2,2)

    >>> layout.apply({"register": 1, "lane": 3})
    {'row': 1, 'column': 2}
    >>> layout.invert().apply({"row": 1, "column": 2})
    {'register': 1, 'lane': 3}

    The same tensor without the swizzle is a product of one-dimensional pieces:

    >>> plain = LinearLayout.identity1d(4, "register", "row") * LinearLayout.identity1d(
    ...     4, "lane", "column")

    `a.invert_and_compose(b)` maps an input of `a` to the input of `b` that has the same element.
    Here data stays in its register and moves to the lane xored with it:

    >>> layout.invert_and_compose(plain).apply({"register": 2, "lane": 1})
    {'register': 2, 'lane': 3}

    Inputs that map to zero are copies (broadcasting); outputs that nothing reaches are holes, and
    are only allowed with `require_surjective=False`.

    Order matters and is part of equality: the first dim is the minor one when dims are flattened
    or reshaped.  All sizes are powers of two; a dim of size 1 has no bits but keeps its name.
    """

    _in_bits: Bits
    _out_bits: Bits
    _columns: tuple[int, ...]
    """One int per input bit, first in-dim first; the first out-dim is in the low bits."""

    def __init__(
        self,
        bases: Bases,
        out_dims: Mapping[str, int] | Sequence[str],
        require_surjective: bool = True,
    ) -> None:
        """Raise `LayoutError` for a bad size, a basis out of range, or a hole that is not allowed.

        `out_dims` without sizes takes the smallest sizes that contain the bases.
        """
        if not isinstance(out_dims, Mapping):
            out_dims = _smallest_sizes(bases, list(out_dims))
        out_bits = tuple((name, _log2(size, name)) for name, size in out_dims.items())
        columns: list[int] = []
        for in_dim, vectors in bases.items():
            columns.extend(_pack(vector, out_bits, in_dim) for vector in vectors)
        in_bits = tuple((in_dim, len(vectors)) for in_dim, vectors in bases.items())
        self._set(in_bits, out_bits, tuple(columns))
        if require_surjective and not self.is_surjective:
            raise LayoutError(f"these bases do not reach every output:\n{self}")

    def _set(self, in_bits: Bits, out_bits: Bits, columns: tuple[int, ...]) -> None:
        object.__setattr__(self, "_in_bits", in_bits)
        object.__setattr__(self, "_out_bits", out_bits)
        object.__setattr__(self, "_columns", columns)

    @staticmethod
    def _unchecked(in_bits: Bits, out_bits: Bits, columns: Iterable[int]) -> LinearLayout:
        """Create a layout without the constructor's checks, for results that are correct by
        construction.
        """
        result = LinearLayout.__new__(LinearLayout)
        result._set(in_bits, out_bits, tuple(columns))
        return result

    @staticmethod
    def _from_columns(parts: Mapping[str, Sequence[int]], out_bits: Bits) -> LinearLayout:
        """Create a layout from the columns of each in-dim."""
        in_bits = tuple((name, len(part)) for name, part in parts.items())
        columns = (column for part in parts.values() for column in part)
        return LinearLayout._unchecked(in_bits, out_bits, columns)

    # -- Building blocks ---------------------------------------------------------------------

    @staticmethod
    def empty() -> LinearLayout:
        """Layout without dims: the unit of `*`."""
        return LinearLayout._unchecked((), (), ())

    @staticmethod
    def identity1d(size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """`in_dim` = i maps to `out_dim` = i."""
        return LinearLayout.strided1d(size, 1, in_dim, out_dim)

    @staticmethod
    def strided1d(size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        """`in_dim` = i maps to `out_dim` = stride * i, for i < size."""
        bits, shift = _log2(size, in_dim), _log2(stride, out_dim)
        out_bits = bits + shift if bits else 0
        columns = (1 << (bit + shift) for bit in range(bits))
        return LinearLayout._unchecked(((in_dim, bits),), ((out_dim, out_bits),), columns)

    @staticmethod
    def zeros1d(size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        """Every value of `in_dim` maps to `out_dim` = 0: copies."""
        bits = _log2(size, in_dim)
        return LinearLayout._unchecked(
            ((in_dim, bits),), ((out_dim, _log2(out_size, out_dim)),), (0,) * bits
        )

    # -- What it is --------------------------------------------------------------------------

    @cached_property
    def in_dims(self) -> dict[str, int]:
        """Name -> size of each in-dim, minor first."""
        return {name: 1 << bits for name, bits in self._in_bits}

    @cached_property
    def out_dims(self) -> dict[str, int]:
        """Name -> size of each out-dim, minor first."""
        return {name: 1 << bits for name, bits in self._out_bits}

    @cached_property
    def bases(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """In-dim -> output coordinates of the inputs 1, 2, 4, ..."""
        result, start = {}, 0
        for name, bits in self._in_bits:
            columns = self._columns[start : start + bits]
            result[name] = tuple(_unpack(column, self._out_bits) for column in columns)
            start += bits
        return result

    @property
    def in_bits(self) -> int:
        return len(self._columns)

    @cached_property
    def out_bits(self) -> int:
        return sum(bits for _, bits in self._out_bits)

    @property
    def columns(self) -> tuple[int, ...]:
        """The matrix: one int per input bit, the first dims in the low bits on both sides."""
        return self._columns

    def in_size_log2(self, in_dim: str) -> int:
        return _size_log2(self._in_bits, in_dim, "in")

    def out_size_log2(self, out_dim: str) -> int:
        return _size_log2(self._out_bits, out_dim, "out")

    def basis(self, in_dim: str, bit: int, out_dim: str) -> int:
        """Coordinate `out_dim` of the image of `in_dim` = 2**bit."""
        return self.bases[in_dim][bit][list(self.out_dims).index(out_dim)]

    @cached_property
    def _elimination(self) -> f2.Elimination:
        return f2.Elimination(self._columns)

    @property
    def rank(self) -> int:
        return self._elimination.rank

    @property
    def is_surjective(self) -> bool:
        return self.rank == self.out_bits

    @property
    def is_injective(self) -> bool:
        return self.rank == self.in_bits

    @property
    def is_invertible(self) -> bool:
        return self.is_surjective and self.is_injective

    def free_variable_masks(self) -> dict[str, int]:
        """Per in-dim, the bits whose image is already spanned by the bits before them.

        >>> LinearLayout({"lane": [(1,), (0,), (1,)]}, ["x"]).free_variable_masks()
        {'lane': 6}
        """
        return self._split_input(self._elimination.free)

    def is_trivial_over(self, dims: Iterable[str]) -> bool:
        """True if each of `dims` is both an in- and an out-dim and maps to itself alone.

        The map is then the identity on `dims`, and `dims` and the others do not depend on each
        other.
        """
        return self.quotient(dims) is not None

    def num_consecutive_in_out(self) -> int:
        """The largest 2**k such that inputs 0..2**k-1 of the first dim are outputs 0..2**k-1.

        Both sides are counted in their first dim, and no other input changes those low bits.
        Therefore aligned groups of 2**k inputs are aligned groups of 2**k outputs.
        """
        if not self._in_bits or not self._out_bits:
            return 1
        limit = min(self._in_bits[0][1], self._out_bits[0][1])
        count = 0
        while count < limit and self._columns[count] == 1 << count:
            count += 1
        while count and any(column & ((1 << count) - 1) for column in self._columns[count:]):
            count -= 1
        return 1 << count

    # -- Use on indices ----------------------------------------------------------------------

    def apply(self, index: Mapping[str, int]) -> dict[str, int]:
        """Output coordinates of one input; `LayoutError` if a dim is missing or a coordinate too
        large.
        """
        image = f2.apply(self._columns, self._join_input(index))
        return self._split_output(image)

    def apply_numpy(self, index: Mapping[str, IntArray | int]) -> dict[str, IntArray]:
        """`apply` over arrays, which broadcast against each other; results are int64."""
        import numpy as np

        if index.keys() != self.in_dims.keys():
            raise LayoutError(f"expected indices for {list(self.in_dims)}, got {list(index)}")
        arrays = {name: np.asarray(value, dtype=np.int64) for name, value in index.items()}
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        flat = np.zeros(shape, dtype=np.int64)
        start = 0
        for name, bits in self._in_bits:
            if np.any((arrays[name] < 0) | (arrays[name] >> bits)):
                raise LayoutError(f"an index of {name} is outside 0..{(1 << bits) - 1}")
            for bit in range(bits):
                flat = flat ^ ((arrays[name] >> bit & 1) * self._columns[start + bit])
            start += bits
        result, shift = {}, 0
        for name, bits in self._out_bits:
            result[name] = flat >> shift & ((1 << bits) - 1)
            shift += bits
        return result

    def domain(self) -> Iterable[dict[str, int]]:
        """Every input, the first dim running fastest."""
        return (self._split_input(flat) for flat in range(1 << self.in_bits))

    # -- Algebra -----------------------------------------------------------------------------

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """Direct sum: the bits of `other` are above those of `self` in every dim that they share.

        >>> a = LinearLayout.identity1d(4, "lane", "x") * LinearLayout.identity1d(2, "warp", "x")
        >>> a.bases
        {'lane': ((1,), (2,)), 'warp': ((4,),)}
        """
        out_sizes = dict(self._out_bits)
        for name, bits in other._out_bits:
            out_sizes[name] = out_sizes.get(name, 0) + bits
        out_bits = tuple(out_sizes.items())
        mine = _repack(self._columns, self._out_bits, out_bits)
        theirs = _repack(other._columns, other._out_bits, out_bits, dict(self._out_bits))
        in_names = dict.fromkeys([name for name, _ in (*self._in_bits, *other._in_bits)])
        own, added = _by_dim(self._in_bits, mine), _by_dim(other._in_bits, theirs)
        parts = {name: (*own.get(name, ()), *added.get(name, ())) for name in in_names}
        return LinearLayout._from_columns(parts, out_bits)

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """`outer` after `self`: `a.compose(b).apply(x) == b.apply(a.apply(x))`.

        `outer`'s in-dims must be `self`'s out-dims, in any order and at least as large.
        """
        if outer.in_dims.keys() != self.out_dims.keys():
            raise LayoutError(
                f"cannot compose: {list(self.out_dims)} does not match {list(outer.in_dims)}"
            )
        for name, size in self.out_dims.items():
            if size > outer.in_dims[name]:
                raise LayoutError(
                    f"cannot compose: {name} has {size} values, the outer layout takes "
                    f"{outer.in_dims[name]}"
                )
        inner = _repack(self._columns, self._out_bits, outer._in_bits)
        columns = (f2.apply(outer._columns, column) for column in inner)
        return LinearLayout._unchecked(self._in_bits, outer._out_bits, columns)

    def invert(self) -> LinearLayout:
        """The inverse; `LayoutError` if outputs are repeated or missing."""
        if not self.is_invertible:
            why = "several inputs share an output" if self.is_surjective else "it has holes"
            raise LayoutError(f"this layout has no inverse, {why}:\n{self}")
        return self.pseudo_inverse()

    def pseudo_inverse(self) -> LinearLayout:
        """A layout G with L∘G∘L = L; among several inputs G returns the one whose free bits are
        zero.

        It exists for every layout; outputs that no input reaches also map to some input.
        """
        columns = self._elimination.generalized_inverse(self.out_bits)
        return LinearLayout._unchecked(self._out_bits, self._in_bits, columns)

    def invert_and_compose(self, other: LinearLayout) -> LinearLayout:
        """C with `other(C(x)) == self(x)`: the position in `other` of the element that `self` has
        at x.

        Free bits of `other` are zero in C.  Both must have the same out-dims, in any order.  Raise
        `LayoutError` if `other` does not reach everything that `self` reaches.
        """
        if self.out_dims.keys() != other.out_dims.keys():
            raise LayoutError(
                f"cannot match out dims {list(self.out_dims)} with {list(other.out_dims)}"
            )
        bits = tuple((n, max(b, other.out_size_log2(n))) for n, b in self._out_bits)
        mine = _repack(self._columns, self._out_bits, bits)
        elimination = f2.Elimination(_repack(other._columns, other._out_bits, bits))
        columns = []
        for column in mine:
            solution = elimination.solve(column)
            if solution is None:
                raise LayoutError(f"the second layout does not reach all of the first:\n{other}")
            columns.append(solution)
        return LinearLayout._unchecked(self._in_bits, other._in_bits, columns)

    def divide_left(self, divisor: LinearLayout) -> LinearLayout | None:
        """Q with `divisor * Q == self`, or None."""
        return self._divide(divisor, from_left=True)

    def divide_right(self, divisor: LinearLayout) -> LinearLayout | None:
        """Q with `Q * divisor == self`, or None."""
        return self._divide(divisor, from_left=False)

    def _divide(self, divisor: LinearLayout, from_left: bool) -> LinearLayout | None:
        """Remove the divisor's bits of each dim, and check that the product is this layout."""
        in_left = _difference(self._in_bits, divisor._in_bits)
        out_left = _difference(self._out_bits, divisor._out_bits)
        if in_left is None or out_left is None:
            return None
        own, theirs = _by_dim(self._in_bits, self._columns), divisor.in_dims
        taken: list[int] = []
        for name, bits in in_left:
            skip = len(own[name]) - bits if from_left and name in theirs else 0
            taken.extend(own[name][skip : skip + bits])
        below = dict(divisor._out_bits) if from_left else {}
        columns = _repack(taken, self._out_bits, out_left, below=below, drop=True)
        quotient = LinearLayout._unchecked(in_left, out_left, columns)
        product = divisor * quotient if from_left else quotient * divisor
        same = product.transpose_ins(self.in_dims).transpose_outs(self.out_dims)
        return quotient if same == self else None

    def quotient(self, dims: Iterable[str]) -> LinearLayout | None:
        """The layout without `dims` if they map to themselves alone; otherwise None."""
        names = set(dims)
        if any(self.in_dims.get(n) is None or self.in_dims[n] != self.out_dims.get(n)
               for n in names):
            return None
        for in_dim, vectors in self.bases.items():
            for bit, vector in enumerate(vectors):
                moved = {name: v for name, v in zip(self.out_dims, vector, strict=True) if v}
                if in_dim in names and moved != {in_dim: 1 << bit}:
                    return None
                if in_dim not in names and names & moved.keys():
                    return None
        return self.sublayout(self.in_dims.keys() - names, self.out_dims.keys() - names)

    # -- Rearranging -------------------------------------------------------------------------

    def sublayout(self, in_dims: Iterable[str], out_dims: Iterable[str]) -> LinearLayout:
        """Only these dims, in the layout's own order; other inputs are zero."""
        keep_in, keep_out = set(in_dims), set(out_dims)
        in_bits = tuple(item for item in self._in_bits if item[0] in keep_in)
        out_bits = tuple(item for item in self._out_bits if item[0] in keep_out)
        own = _by_dim(self._in_bits, self._columns)
        columns = [column for name, _ in in_bits for column in own[name]]
        return LinearLayout._unchecked(
            in_bits, out_bits, _repack(columns, self._out_bits, out_bits, drop=True)
        )

    def transpose_ins(self, names: Iterable[str]) -> LinearLayout:
        """The in-dims in the order of `names`, which must be all of them."""
        in_bits = _permute_dims(self._in_bits, list(names), "in")
        own = _by_dim(self._in_bits, self._columns)
        return LinearLayout._unchecked(
            in_bits, self._out_bits, (column for name, _ in in_bits for column in own[name])
        )

    def transpose_outs(self, names: Iterable[str]) -> LinearLayout:
        """The out-dims in the order of `names`, which must be all of them."""
        out_bits = _permute_dims(self._out_bits, list(names), "out")
        columns = _repack(self._columns, self._out_bits, out_bits)
        return LinearLayout._unchecked(self._in_bits, out_bits, columns)

    def reshape_ins(self, sizes: Mapping[str, int]) -> LinearLayout:
        """Other names and sizes for the flattened input, minor first; same total size."""
        in_bits = tuple((name, _log2(size, name)) for name, size in sizes.items())
        _check_total(self._in_bits, in_bits)
        return LinearLayout._unchecked(in_bits, self._out_bits, self._columns)

    def reshape_outs(self, sizes: Mapping[str, int]) -> LinearLayout:
        """Other names and sizes for the flattened output, minor first; same total size."""
        out_bits = tuple((name, _log2(size, name)) for name, size in sizes.items())
        _check_total(self._out_bits, out_bits)
        return LinearLayout._unchecked(self._in_bits, out_bits, self._columns)

    def flatten_ins(self) -> LinearLayout:
        """Merge all in-dims into one with the name of the first."""
        return self.reshape_ins({self._in_bits[0][0]: 1 << self.in_bits}) if self._in_bits else self

    def flatten_outs(self) -> LinearLayout:
        """Merge all out-dims into one with the name of the first."""
        if not self._out_bits:
            return self
        return self.reshape_outs({self._out_bits[0][0]: 1 << self.out_bits})

    def rename_ins(self, names: Mapping[str, str]) -> LinearLayout:
        in_bits = _rename_dims(self._in_bits, names)
        return LinearLayout._unchecked(in_bits, self._out_bits, self._columns)

    def rename_outs(self, names: Mapping[str, str]) -> LinearLayout:
        out_bits = _rename_dims(self._out_bits, names)
        return LinearLayout._unchecked(self._in_bits, out_bits, self._columns)

    def concat_ins(self, other: LinearLayout) -> LinearLayout:
        """Join the in-dims of both layouts, which differ, onto the same out-dims."""
        if self._out_bits != other._out_bits or self.in_dims.keys() & other.in_dims.keys():
            raise LayoutError("concat_ins needs equal out dims and different in dims")
        return LinearLayout._unchecked(
            self._in_bits + other._in_bits, self._out_bits, self._columns + other._columns
        )

    def concat_outs(self, other: LinearLayout) -> LinearLayout:
        """Join the out-dims of both layouts, which differ, from the same in-dims."""
        if self._in_bits != other._in_bits or self.out_dims.keys() & other.out_dims.keys():
            raise LayoutError("concat_outs needs equal in dims and different out dims")
        shift = self.out_bits
        columns = (a | b << shift for a, b in zip(self._columns, other._columns, strict=True))
        return LinearLayout._unchecked(self._in_bits, self._out_bits + other._out_bits, columns)

    def resize_in(self, in_dim: str, size: int) -> LinearLayout:
        """Drop the high bits of `in_dim`, or add bits that map to zero."""
        bits, parts = _log2(size, in_dim), _by_dim(self._in_bits, self._columns)
        old = parts[in_dim]
        parts[in_dim] = (*old[:bits], *(0,) * (bits - len(old)))
        return LinearLayout._from_columns(parts, self._out_bits)

    def resize_out(self, out_dim: str, size: int) -> LinearLayout:
        """Drop the high bits of `out_dim`, or add bits above it (which leaves holes)."""
        bits = _log2(size, out_dim)
        self.out_size_log2(out_dim)
        out_bits = tuple((n, bits if n == out_dim else b) for n, b in self._out_bits)
        columns = _repack(self._columns, self._out_bits, out_bits, drop=True)
        return LinearLayout._unchecked(self._in_bits, out_bits, columns)

    def without_zero_bases(self, in_dim: str) -> LinearLayout:
        """`in_dim` without the bits that map to zero."""
        parts = _by_dim(self._in_bits, self._columns)
        parts[in_dim] = tuple(column for column in parts[in_dim] if column)
        return LinearLayout._from_columns(parts, self._out_bits)

    # -- Text --------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = []
        for name, vectors in self.bases.items():
            if not vectors:
                lines.append(f" - {name} is a size 1 dimension")
            for bit, vector in enumerate(vectors):
                start = " -" if bit == 0 else "  "
                lines.append(f"{start} {name}={1 << bit} -> ({', '.join(map(str, vector))})")
        dims = ", ".join(f"{name} (size {size})" for name, size in self.out_dims.items())
        return "\n".join([*lines, f"where out dims are: [{dims}]"])

    def __repr__(self) -> str:
        holes = "" if self.is_surjective else ", require_surjective=False"
        bases = {name: list(vectors) for name, vectors in self.bases.items()}
        return f"LinearLayout({bases}, {self.out_dims}{holes})"

    # -- Helpers -----------------------------------------------------------------------------

    def _split_input(self, flat: int) -> dict[str, int]:
        return dict(zip(self.in_dims, _unpack(flat, self._in_bits), strict=True))

    def _split_output(self, flat: int) -> dict[str, int]:
        return dict(zip(self.out_dims, _unpack(flat, self._out_bits), strict=True))

    def _join_input(self, index: Mapping[str, int]) -> int:
        if index.keys() != self.in_dims.keys():
            raise LayoutError(f"expected indices for {list(self.in_dims)}, got {list(index)}")
        return _pack([index[name] for name in self.in_dims], self._in_bits, "the index")


def _log2(size: int, name: str) -> int:
    if size < 1 or size & (size - 1):
        raise LayoutError(f"the size of {name} is {size}; it must be a power of two")
    return size.bit_length() - 1


def _pack(vector: Sequence[int], bits: Bits, where: str) -> int:
    """Coordinates as one int, the first in the low bits; `where` is their origin, for errors."""
    if len(vector) != len(bits):
        raise LayoutError(f"{where} has {list(vector)}, expected {len(bits)} coordinates")
    result, shift = 0, 0
    for value, (name, size) in zip(vector, bits, strict=True):
        if value < 0 or value >> size:
            raise LayoutError(f"{where} has {name} = {value}, outside 0..{(1 << size) - 1}")
        result |= value << shift
        shift += size
    return result


def _unpack(flat: int, bits: Bits) -> tuple[int, ...]:
    """Coordinates from one int: the inverse of `_pack`."""
    result = []
    for _, size in bits:
        result.append(flat & ((1 << size) - 1))
        flat >>= size
    return tuple(result)


def _smallest_sizes(bases: Bases, names: list[str]) -> dict[str, int]:
    """Out-dim -> the least power of two above all its coordinates in the bases."""
    largest = dict.fromkeys(names, 0)
    for in_dim, vectors in bases.items():
        for vector in vectors:
            if len(vector) != len(names):
                raise LayoutError(f"{in_dim} has {list(vector)}, expected {len(names)} coordinates")
            for name, value in zip(names, vector, strict=True):
                largest[name] = max(largest[name], value)
    return {name: 1 << value.bit_length() for name, value in largest.items()}


def _size_log2(bits: Bits, name: str, side: str) -> int:
    """Number of bits of a dim; `LayoutError` if there is none of this name."""
    for known, size in bits:
        if known == name:
            return size
    raise LayoutError(f"no {side} dim {name!r}; there are {[known for known, _ in bits]}")


def _by_dim(bits: Bits, columns: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Columns of each in-dim."""
    result, start = {}, 0
    for name, size in bits:
        result[name] = tuple(columns[start : start + size])
        start += size
    return result


def _repack(
    columns: Sequence[int], old: Bits, new: Bits, above: Mapping[str, int] | None = None, *,
    below: Mapping[str, int] | None = None, drop: bool = False,
) -> list[int]:
    """Move coordinates from the bit positions of `old` to those of `new`, raised by `above` bits.

    The lowest `below` bits of each are dropped.  With `drop`, coordinates and bits that `new` does
    not have are dropped too.
    """
    if old == new and not above and not below:
        return list(columns)
    places, shift = {}, 0
    for name, size in new:
        places[name] = (shift + (above or {}).get(name, 0), size)
        shift += size
    moves, shift = [], 0
    for name, size in old:
        if name in places:
            target, room = places[name]
            skipped = (below or {}).get(name, 0)
            kept = min(size - skipped, room) if drop else size
            moves.append((shift + skipped, (1 << kept) - 1, target))
        shift += size
    return [_moved(column, moves) for column in columns]


def _moved(column: int, moves: Sequence[tuple[int, int, int]]) -> int:
    """A column whose fields are moved; each move is (first bit, mask, new first bit)."""
    result = 0
    for source, mask, target in moves:
        result |= (column >> source & mask) << target
    return result


def _difference(whole: Bits, part: Bits) -> Bits | None:
    """Bits left in each dim; None if `part` does not fit.  Dims that it uses up remain, with size
    1.
    """
    left = dict(whole)
    for name, size in part:
        if left.get(name, -1) < size:
            return None
        left[name] -= size
    return tuple(left.items())


def _permute_dims(bits: Bits, names: list[str], side: str) -> Bits:
    sizes = dict(bits)
    if sorted(names) != sorted(sizes):
        raise LayoutError(f"cannot order the {side} dims {list(sizes)} as {names}")
    return tuple((name, sizes[name]) for name in names)


def _rename_dims(bits: Bits, names: Mapping[str, str]) -> Bits:
    result = tuple((names.get(name, name), size) for name, size in bits)
    if len({name for name, _ in result}) != len(result):
        raise LayoutError(f"renaming gives two dims one name: {[name for name, _ in result]}")
    return result


def _check_total(old: Bits, new: Bits) -> None:
    if sum(size for _, size in old) != sum(size for _, size in new):
        raise LayoutError(f"cannot reshape {dict(old)} to {dict(new)} (bits per dim)")
