"""Reading torch's headers out of a wheel on a server that answers requests of ranges."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from benchmarks import torch_headers

NEEDED = "torch/include/c10/macros.h"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    made = tmp_path / "torch.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("torch/lib/libtorch.so", b"\0" * (3 * torch_headers.PIECE))
        archive.writestr(NEEDED, "#define C10 1\n")
    return made


@pytest.fixture
def served(wheel: Path) -> Iterator[tuple[str, list[int]]]:
    """The wheel's address, and how many bytes each request asked for."""
    data, asked = wheel.read_bytes(), list[int]()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()

        def do_GET(self) -> None:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            asked.append(last - first + 1)
            self.send_response(206)
            self.end_headers()
            self.wfile.write(data[first:last + 1])

        def log_message(self, *given: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/torch.whl", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_headers_are_fetched_once_and_nothing_else(
    served: tuple[str, list[int]], wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = served
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        folder = torch_headers.headers("2.99.0", address)
        assert (folder.parent / NEEDED).read_text() == "#define C10 1\n"
    assert not (folder / "lib").exists()
    assert sum(asked) < wheel.stat().st_size


@pytest.mark.skipif(not torch_headers.installed_compilers(), reason="no C++ compiler")
def test_headers_that_do_not_fit_are_found(tmp_path: Path) -> None:
    units = [(str(tmp_path / name),) for name in ("right.cpp", "wrong.cpp")]
    (tmp_path / "right.cpp").write_text("int right;\n")
    (tmp_path / "wrong.cpp").write_text('#include "c10/nothing.h"\n')
    (compiler,) = torch_headers.installed_compilers()[:1]
    ((name, error),) = torch_headers.accepted("2.13.0", tmp_path, [compiler], units)
    assert name == torch_headers.version_of(compiler)
    assert "c10/nothing.h" in error
    (tmp_path / "wrong.cpp").write_text("int wrong;\n")
    assert dict(torch_headers.accepted("2.13.0", tmp_path, [compiler], units)) == {name: ""}
