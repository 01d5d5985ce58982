"""Linear algebra over F2 on bit vectors that are Python ints.

A matrix is the sequence of its columns; bit i of a column is row i.  Adding is `^`, so a matrix
times a vector is the xor of the columns at the vector's set bits:

>>> apply([0b01, 0b11], 0b10)
3
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], vector: int) -> int:
    """The matrix times `vector`."""
    result = 0
    while vector:
        low = vector & -vector
        result ^= columns[low.bit_length() - 1]
        vector ^= low
    return result


class Elimination:
    """The columns of a matrix in echelon form, with the inputs that produce each of them.

    Columns are taken in order, so a column is *free* when the columns before it already span it;
    every solution uses pivot columns only.

    >>> e = Elimination([0b01, 0b10, 0b11])
    >>> e.rank, e.free, e.solve(0b11), e.solve(0b100)
    (2, 4, 3, None)
    """

    __slots__ = ("_rows", "free")

    def __init__(self, columns: Iterable[int]) -> None:
        # bit length of a spanned vector -> (that vector, the input which produces it)
        self._rows: dict[int, tuple[int, int]] = {}
        self.free = 0
        rows = self._rows
        for index, column in enumerate(columns):
            source = 1 << index
            while column:
                row = rows.get(column.bit_length())
                if row is None:
                    rows[column.bit_length()] = (column, source)
                    break
                column ^= row[0]
                source ^= row[1]
            else:
                self.free |= 1 << index

    @property
    def rank(self) -> int:
        return len(self._rows)

    def solve(self, vector: int) -> int | None:
        """An input the matrix maps to `vector`, or None when there is none."""
        result = 0
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                return None
            vector ^= row[0]
            result ^= row[1]
        return result

    def generalized_inverse(self, n_rows: int) -> list[int]:
        """Columns of a G with L G L = L; G is the inverse when L has one."""
        result = [0] * n_rows
        for length in sorted(self._rows):
            vector, source = self._rows[length]
            rest = vector ^ (1 << (length - 1))
            result[length - 1] = source ^ apply(result, rest)
        return result

    def kernel(self, columns: Sequence[int]) -> list[int]:
        """One input per free column of `columns` (the matrix eliminated here) that maps to zero."""
        result = []
        for index, column in enumerate(columns):
            if self.free >> index & 1:
                pivots = self.solve(column)
                assert pivots is not None
                result.append(pivots | 1 << index)
        return result


def rank(columns: Iterable[int]) -> int:
    """The number of independent columns."""
    return Elimination(columns).rank


def unit_vectors(n_bits: int) -> list[int]:
    return [1 << bit for bit in range(n_bits)]


def intersection(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """A basis of the vectors that both sets span.

    >>> intersection([0b001, 0b110], [0b010, 0b100])
    [6]
    """
    both = [*first, *second]
    elimination = Elimination(both)
    mask = (1 << len(first)) - 1
    common = (apply(first, source & mask) for source in elimination.kernel(both))
    return extend((), common)


def extend(known: Iterable[int], candidates: Iterable[int]) -> list[int]:
    """The `candidates` that are independent of `known` and of the candidates before them."""
    known, candidates = list(known), list(candidates)
    free = Elimination([*known, *candidates]).free >> len(known)
    return [vector for i, vector in enumerate(candidates) if not free >> i & 1]
