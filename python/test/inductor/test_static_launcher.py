"""Kernels that come with a kept graph are launched as Triton launches them, if they are current."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._inductor.runtime.static_triton_launcher")

import torch._inductor.config as config  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch._inductor.codecache import PyCodeCache  # noqa: E402
from torch._inductor.runtime.cache_dir_utils import triton_cache_dir  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(torch._inductor.runtime.static_triton_launcher, "StaticallyLaunchedXpuKernel"),
    reason="torch launches kernels for xpu so since 2.11")
ROWS, COLUMNS = 9, 40


def shifted_sums(x: Any) -> Any:
    return (x.sin() * 2).sum(1) + 1


def loaded_and_saved(make: Callable[[Any], Any], x: Any) -> tuple[int, int]:
    """How many graphs came with kernels, and with how many graphs kernels were kept."""
    torch._dynamo.reset()
    PyCodeCache.cache_clear()
    counters.clear()
    got = torch.compile(make)(x.to("xpu"))
    torch.testing.assert_close(got.cpu(), make(x))
    found = counters["inductor"]
    return (found["triton_bundler_load_static_autotuner"],
            found["triton_bundler_save_static_autotuner"])


@pytest.fixture
def kept() -> Any:
    """Tensors of a graph that torch has kept."""
    with fresh_cache(), config.patch({"fx_graph_cache": True}):
        x = torch.randn(ROWS, COLUMNS)
        assert loaded_and_saved(shifted_sums, x) == (0, 1)
        yield x


@pytest.mark.rest
def test_kernels_come_with_a_kept_graph(kept: Any) -> None:
    assert loaded_and_saved(shifted_sums, kept) == (1, 0)


def test_what_another_compiler_made_is_compiled_anew(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")  # a part of Triton's own keys
    assert loaded_and_saved(shifted_sums, kept)[0] == 0


def test_a_changed_file_is_compiled_anew(kept: Any) -> None:
    folder = Path(triton_cache_dir(0))
    files = list(folder.glob("*/*.zebin"))
    assert files
    for each in files:
        each.write_bytes(each.read_bytes()[:-4] + b"\0\0\0\1")
    assert loaded_and_saved(shifted_sums, kept)[0] == 0


def test_it_is_told_when_kernels_are_compiled_anew(
    kept: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_XE_DEBUG", "1")
    assert loaded_and_saved(shifted_sums, kept)[0] == 0
    assert "1 of 1 kernels of a kept graph are compiled anew" in capfd.readouterr().err


def test_checks_name_the_arguments_of_a_kept_kernel(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch._dynamo.reset()
    function = torch.compile(shifted_sums)
    function(kept.to("xpu"))
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = torch.empty(ROWS, COLUMNS, device="xpu")
    with pytest.raises(Exception, match="in_ptr0"):
        function(x)


def test_a_wrong_index_is_told(kept: Any) -> None:
    gather = torch.compile(lambda x, at: (x[at].sin() * 2).sum(1))
    at = torch.tensor([1, 5, 3])
    got = gather(kept.to("xpu"), at.to("xpu"))
    torch.testing.assert_close(got.cpu(), (kept[at].sin() * 2).sum(1))
    with pytest.raises(Exception, match="index out of bounds"):
        gather(kept.to("xpu"), at.to("xpu") + 5)


def test_kept_kernels_are_recorded(
    kept: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_XE_RECORD", str(tmp_path))
    assert loaded_and_saved(shifted_sums, kept) == (1, 0)
    assert list(tmp_path.rglob("*.spv"))
