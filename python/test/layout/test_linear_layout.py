"""The algebra of linear layouts: each operation's defining equation, at every point."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python.test.counting import calls_of
from triton_xe.errors import LayoutError
from triton_xe.layout import LinearLayout
from triton_xe.layout.tiling import identity

IN_DIMS = ("register", "lane", "warp")
quick = settings(deadline=None, max_examples=50)


def layouts(in_dims=IN_DIMS, out_dims=("x", "y")):
    """Any layout, with copies and holes, of at most 3 bits per dim."""

    @st.composite
    def build(draw):
        out_bits = {name: draw(st.integers(0, 3)) for name in out_dims}
        vector = st.tuples(*(st.integers(0, (1 << bits) - 1) for bits in out_bits.values()))
        bases = {name: draw(st.lists(vector, max_size=3)) for name in in_dims}
        sizes = {name: 1 << bits for name, bits in out_bits.items()}
        return LinearLayout(bases, sizes, require_surjective=False)

    return build()


@st.composite
def invertible(draw):
    """A random square matrix of full rank, cut into dims."""
    bits = draw(st.integers(1, 6))
    columns = [1 << bit for bit in draw(st.permutations(range(bits)))]
    for target, source in draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)))):
        if target % bits != source % bits:
            columns[target % bits] ^= columns[source % bits]
    cut = draw(st.integers(0, bits))
    flat = LinearLayout({"i": [(column,) for column in columns]}, {"o": 1 << bits})
    ins = {"register": 1 << cut, "lane": 1 << (bits - cut)}
    outs = {"x": 1 << (bits - cut), "y": 1 << cut}
    return flat.reshape_ins(ins).reshape_outs(outs)


def images(layout):
    return [layout.apply(index) for index in layout.domain()]


def key(index):
    return tuple(sorted(index.items()))


@quick
@given(layouts())
def test_apply_is_linear(layout):
    points = list(layout.domain())
    for a in points[:8]:
        for b in points[-8:]:
            both = layout.apply({name: a[name] ^ b[name] for name in a})
            left, right = layout.apply(a), layout.apply(b)
            assert both == {name: left[name] ^ right[name] for name in left}


@quick
@given(layouts())
def test_apply_numpy_is_apply(layout):
    points = list(layout.domain())
    index = {name: np.array([point[name] for point in points]) for name in layout.in_dims}
    found = layout.apply_numpy(index)
    for name in layout.out_dims:
        assert found[name].tolist() == [image[name] for image in images(layout)]


@quick
@given(layouts(), layouts(in_dims=("warp", "block"), out_dims=("y", "z")))
def test_product_is_a_direct_sum(a, b):
    product = a * b
    for x in list(a.domain())[:16]:
        for y in list(b.domain())[:16]:
            joined = {
                name: x.get(name, 0) + y.get(name, 0) * a.in_dims.get(name, 1)
                for name in product.in_dims
            }
            left, right = a.apply(x), b.apply(y)
            expected = {
                name: left.get(name, 0) + right.get(name, 0) * a.out_dims.get(name, 1)
                for name in product.out_dims
            }
            assert product.apply(joined) == expected


@quick
@given(layouts(), layouts())
def test_compose_is_function_composition(inner, other):
    outer = other.rename_ins({"register": "y", "lane": "x"}).sublayout(["x", "y"], ["x", "y"])
    sizes = inner.out_dims
    for name in ("x", "y"):
        outer = outer.resize_in(name, max(sizes[name], outer.in_dims[name]))
    composed = inner.compose(outer)
    assert all(composed.apply(index) == outer.apply(inner.apply(index)) for index in inner.domain())


@quick
@given(invertible())
def test_inverse_undoes(layout):
    inverse = layout.invert()
    assert all(inverse.apply(layout.apply(index)) == index for index in layout.domain())
    assert inverse.invert() == layout


@quick
@given(layouts())
def test_pseudo_inverse(layout):
    inverse = layout.pseudo_inverse()
    free = layout.free_variable_masks()
    for image in images(layout):
        chosen = inverse.apply(image)
        assert layout.apply(chosen) == image
        assert all(chosen[name] & free[name] == 0 for name in chosen)


@quick
@given(layouts(), layouts(in_dims=("offset",)))
def test_invert_and_compose(a, b):
    sizes = {name: max(a.out_dims[name], b.out_dims[name]) for name in a.out_dims}
    for name, size in sizes.items():
        a, b = a.resize_out(name, size), b.resize_out(name, size)
    if not {key(i) for i in images(a)} <= {key(i) for i in images(b)}:
        with pytest.raises(LayoutError, match="does not reach"):
            a.invert_and_compose(b)
        return
    c = a.invert_and_compose(b)
    assert all(b.apply(c.apply(index)) == a.apply(index) for index in a.domain())


@quick
@given(layouts(), layouts())
def test_divisions_undo_products(a, b):
    product = a * b
    quotient = product.divide_left(a)
    assert quotient is not None
    assert a * quotient == product
    quotient = product.divide_right(b)
    assert quotient is not None
    assert quotient * b == product


def test_division_refuses_a_layout_that_is_no_factor():
    layout = LinearLayout.identity1d(8, "lane", "x")
    assert layout.divide_left(LinearLayout.strided1d(2, 2, "lane", "x")) is None
    assert layout.divide_left(LinearLayout.identity1d(2, "warp", "x")) is None
    assert layout.divide_left(LinearLayout.identity1d(16, "lane", "x")) is None


@quick
@given(layouts())
def test_surjective_and_injective(layout):
    reached = {key(image) for image in images(layout)}
    n_outputs = 1 << layout.out_bits
    assert layout.is_surjective == (len(reached) == n_outputs)
    assert layout.is_injective == (len(reached) == 1 << layout.in_bits)
    masks = layout.free_variable_masks()
    assert sum(mask.bit_count() for mask in masks.values()) == layout.in_bits - layout.rank


@quick
@given(layouts())
def test_transposing_and_reshaping_keep_the_map(layout):
    turned = layout.transpose_ins(reversed(IN_DIMS)).transpose_outs(["y", "x"])
    flat = layout.flatten_ins().flatten_outs()
    for position, index in enumerate(layout.domain()):
        image = layout.apply(index)
        assert turned.apply(index) == image
        number = image["x"] + image["y"] * layout.out_dims["x"]
        assert flat.apply({"register": position}) == {"x": number}
    assert flat.reshape_ins(layout.in_dims).reshape_outs(layout.out_dims) == layout


@quick
@given(layouts())
def test_sublayout_and_concat(layout):
    lanes = layout.sublayout(["lane"], ["x", "y"])
    rest = layout.sublayout(["register", "warp"], ["x", "y"])
    assert lanes.concat_ins(rest).transpose_ins(IN_DIMS) == layout
    left, right = layout.sublayout(IN_DIMS, ["x"]), layout.sublayout(IN_DIMS, ["y"])
    assert left.concat_outs(right) == layout


@quick
@given(layouts(in_dims=("a", "b"), out_dims=("a", "b")))
def test_trivial_over_means_identity_and_independence(layout):
    same_size = layout.in_dims["a"] == layout.out_dims["a"]
    trivial = same_size and all(
        image["a"] == index["a"] and image["b"] == layout.apply({"a": 0, "b": index["b"]})["b"]
        for index, image in zip(layout.domain(), images(layout), strict=True)
    )
    assert layout.is_trivial_over(["a"]) == trivial
    if trivial:
        assert layout.quotient(["a"]) == layout.sublayout(["b"], ["b"])


@quick
@given(layouts())
def test_consecutive(layout):
    size = layout.num_consecutive_in_out()
    assert size <= layout.in_dims["register"]
    for index in layout.domain():
        start = layout.apply({**index, "register": index["register"] & -size})["x"]
        assert start % size == 0
        assert layout.apply(index)["x"] == start + index["register"] % size


@quick
@given(layouts())
def test_repr_reads_back(layout):
    assert eval(repr(layout)) == layout
    assert hash(eval(repr(layout))) == hash(layout)


def test_text_has_the_form_of_triton_dumps():
    tile = LinearLayout.identity1d(4, "offset", "dim1") * LinearLayout.identity1d(
        2, "offset", "dim0"
    )
    layout = tile.transpose_outs(["dim0", "dim1"]) * LinearLayout.identity1d(1, "load", "dim0")
    assert str(layout) == (
        " - offset=1 -> (0, 1)\n"
        "   offset=2 -> (0, 2)\n"
        "   offset=4 -> (1, 0)\n"
        " - load is a size 1 dimension\n"
        "where out dims are: [dim0 (size 2), dim1 (size 4)]"
    )


def test_layouts_are_immutable():
    layout = LinearLayout.identity1d(4, "lane", "x")
    with pytest.raises(AttributeError):
        layout.in_dims = ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLayout({"lane": [(3,)]}, {"x": 3}), "power of two"),
        (lambda: LinearLayout({"lane": [(4,)]}, {"x": 4}), r"x = 4, outside 0..3"),
        (lambda: LinearLayout({"lane": [(1, 0)]}, ["x"]), "expected 1 coordinates"),
        (lambda: LinearLayout({"lane": [(1,)]}, {"x": 4}), "do not reach every output"),
        (lambda: LinearLayout.zeros1d(2, "lane", "x").invert(), "several inputs share"),
        (lambda: LinearLayout.identity1d(2, "lane", "x").apply({"warp": 0}), "expected indices"),
        (lambda: LinearLayout.identity1d(2, "lane", "x").apply({"lane": 2}), "outside 0..1"),
        (lambda: LinearLayout.identity1d(2, "a", "x").reshape_outs({"y": 4}), "cannot reshape"),
        (lambda: LinearLayout.identity1d(2, "a", "x").transpose_outs(["y"]), "cannot order"),
        (
            lambda: LinearLayout.identity1d(4, "a", "x").compose(
                LinearLayout.identity1d(2, "x", "y")
            ),
            "x has 4 values, the outer layout takes 2",
        ),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(LayoutError, match=message):
        make()


def test_work():
    """Build, invert and compose the layout of a 256x256 tensor: about 0.3 ms."""

    def once():
        layout = (
            identity("register", (8, 32), (1, 0))
            * identity("lane", (8, 2), (1, 0))
            * identity("warp", (4, 4), (0, 1))
        ).transpose_outs(["dim0", "dim1"])
        return layout.compose(layout.invert())

    assert once().is_invertible
    assert calls_of(once) < 700
