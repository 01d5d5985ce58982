"""The ledger of native code: complete, and a figure that gets worse is named."""

from dataclasses import replace

import pytest

from benchmarks import ledger
from benchmarks.loops import ROWS

FIGURES = {"loop": 100, "outside": 50, "share": 0.0, "spills": 0, "messages": 7, "code": 4000,
           "us": 20.5}
OLD = ledger.Entry("softmax", "bmg", FIGURES)


def changed(**figures):
    return replace(OLD, figures=FIGURES | figures)


@pytest.mark.parametrize("worse", [
    {"loop": 104}, {"spills": 64}, {"messages": 8}, {"code": 4200}, {"us": 21.2}, {"outside": 52},
])
def test_what_got_worse_is_named(worse):
    (name, value), = worse.items()
    (sentence,) = ledger.regressions(OLD, changed(**worse))
    assert sentence == f"softmax on bmg: {name} was {FIGURES[name]:g}, is {value:g}"


@pytest.mark.parametrize("same", [{"loop": 103}, {"loop": 50}, {"us": 21}, {"igc": 9000}])
def test_three_percent_and_times_of_the_machine_are_no_regression(same):
    assert not list(ledger.regressions(OLD, changed(**same)))


def test_loops_with_products_are_judged_by_their_share():
    product = changed(share=0.5)
    longer = changed(share=0.5, loop=200, messages=14)
    assert not list(ledger.regressions(product, longer))
    assert list(ledger.regressions(product, changed(share=0.48))) == [
        "softmax on bmg: share was 0.5, is 0.48"]


def test_a_kernel_that_no_longer_compiles_is_a_regression():
    refused = ledger.Entry("softmax", "bmg", {}, "too many registers")
    assert list(ledger.regressions(OLD, refused)) == [
        "softmax on bmg: no longer compiles: too many registers"]
    assert not list(ledger.regressions(refused, OLD))


def test_the_file_has_every_kernel_on_its_devices():
    _, kept = ledger.read()
    assert {(e.kernel, e.device) for e in kept} == {
        (n, d) for n in ROWS for d in ledger.devices_of(n)}
    assert sum(bool(e.refused) for e in kept) < len(kept) / 20


@pytest.mark.intel_compiler
def test_the_check_fails_when_the_file_was_better(tmp_path, capsys):
    file = tmp_path / "ledger.csv"
    made = ledger.entry(("add", "bmg"))
    entries = [made, ledger.entry(("add", "dg2"))]
    ledger.write(entries, file)
    assert ledger.check(ledger.read(file)[1], entries) == 0
    ledger.write([replace(made, figures={**made.figures, "code": 100}), entries[1]], file)
    assert ledger.check(ledger.read(file)[1], entries) == 1
    assert "add on bmg: code was 100" in capsys.readouterr().out
    assert ledger.check(ledger.read(file)[1][:1], entries) == 1
    assert "add on dg2: not in the ledger" in capsys.readouterr().out
