"""Leave passes out of rows that they change, and count rows that they are needed for."""

from benchmarks import pass_worth
from benchmarks.pass_worth import Worth
from triton_xe.lowering import pipeline


def test_a_pass_is_left_out_only_of_rows_that_it_changes():
    found = pass_worth.worth(
        "add, n odd", "bmg", ("split-inside", "spread-rows"), with_native=False)
    assert found.keys() == {"split-inside"}
    worth = found["split-inside"]
    assert (worth.rows, worth.refused) == (1, 0)
    assert worth.codes[0] < 0.8  # one version of the code instead of two


def test_a_pass_that_later_ones_need_is_counted_as_refused():
    found = pass_worth.worth("gemm 64x64x32", "bmg", ("convert-to-xetile",), with_native=False)
    assert found == {"convert-to-xetile": Worth(refused=1)}


def test_the_compiler_is_whole_again_afterwards():
    before = pipeline.run_passes
    pass_worth.worth("add", "bmg", (), with_native=False)
    assert pipeline.run_passes is before


def test_the_table_shows_the_largest_loss_and_the_largest_gain():
    total = Worth(1, 0, (1.0,), (1.5,), 64) + Worth(1, 0, (1.02,), (0.9,), 0) + Worth()
    assert pass_worth.table({"a": total, "b": Worth()}).splitlines()[2:] == [
        "| `a` | 2 | | +2.0 % | +50.0 %, -10.0 % | 64 |", "| `b` | | | | | |"]
