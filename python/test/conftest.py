"""Options of the whole suite, and tests that need a newer Triton than the installed one."""

import pytest

from triton_xe import triton_versions


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true",
        help="the GEMM suite tries every combination of its settings, not only every pair",
    )


def pytest_collection_modifyitems(items):
    here = triton_versions.installed().number
    for item in items:
        for mark in item.iter_markers("since_triton"):
            if here < mark.args:
                since = ".".join(map(str, mark.args))
                item.add_marker(pytest.mark.skip(reason=f"the language has this since {since}"))
