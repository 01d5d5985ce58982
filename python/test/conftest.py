"""Options of the whole suite."""


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true",
        help="the GEMM suite tries every combination of its settings, not only every pair",
    )
