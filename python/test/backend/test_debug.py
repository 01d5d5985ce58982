"""What `TRITON_XE_DEBUG` prints."""

from __future__ import annotations

import pytest

from triton_xe.backend.debug import printing
from triton_xe.runtime import native

PLAN = {
    "operand": "A", "op": "load", "messages": [{}], "height": 8, "blocks": 1, "width": 16,
    "element_bits": 16, "transpose": False, "vnni": False, "bytes": 256,
}


def stage(source: str, metadata: dict[str, object]) -> str:
    metadata |= {"name": "k", "plan_summary": [PLAN], "remarks": ["tt.load: stays a gather"]}
    return "text of the stage"


@pytest.mark.parametrize(("level", "shown"), [
    ("0", []),
    ("1", [f"triton-xe: k: {native.describe()}",
           "triton-xe: k: A: 1 block load of 8 rows x 16 x 16-bit, 256 bytes"]),
    ("2", ["triton-xe: k: tt.load: stays a gather"]),
    ("3", ["triton-xe: xegpu of kernel 'k'"]),
    ("4", ["triton-xe: llir of kernel 'k'", "text of the stage"]),
])
def test_each_level_adds_to_the_one_before(
    level: str, shown: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lines(at: str) -> list[str]:
        monkeypatch.setenv("TRITON_XE_DEBUG", at)
        for name in ("ttgir", "xegpu", "llir", "spv"):
            assert printing(name, stage)("", {}) == "text of the stage"
        return capsys.readouterr().err.splitlines()

    before = lines(str(max(0, int(level) - 1)))
    found = lines(level)
    assert set(before) <= set(found)
    assert all(line in found and (line not in before or "text" in line) for line in shown)
    assert bool(found) is (level != "0")
