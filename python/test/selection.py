"""The cases of tests that `make test` runs; `make test-rest` runs the others."""

from collections import defaultdict

from python.test.gemm.pairwise import cover


def settings_of(item):
    """(names, value) of each `parametrize` of a test and of each parameter of its fixtures.

    Values are told apart by identity, because some of them cannot be hashed.
    """
    params = item.callspec.params
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [tuple(name.strip() for name in (x.split(",") if isinstance(x, str) else x))
              for x in marks]
    groups += [(name,) for name in params if not any(name in group for group in groups)]
    return tuple((group, tuple(id(params[name]) for name in group)) for group in groups)


def left_out(items):
    """The cases of a test that the marks `covering` and `sample` leave out."""
    tests = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow") and not item.get_closest_marker("rest"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        chosen = selected(cases)
        yield from (case for i, case in enumerate(cases) if i not in chosen)


def selected(cases):
    """Places of those cases of a test that `make test` runs."""
    if cases[0].get_closest_marker("covering"):
        settings = [settings_of(case) for case in cases]
        return set(cover(settings, len(settings[0]) - 1, in_turns=True))
    sample = cases[0].get_closest_marker("sample")
    if sample is None or sample.args[0] >= len(cases):
        return range(len(cases))
    (count,) = sample.args
    return {i * len(cases) // count for i in range(count)}
