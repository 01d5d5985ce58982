"""Elements that a masked load's lanes take from `other`, and that are only moved, arrive.

Intel's compiler 2.40 gives them registers that nothing writes if a predicated load may take the
registers of `other` (`triton_xe.lowering.emit.masked_loads`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler


@triton.jit
def running_sums(x, o, m, n, B: tl.constexpr):
    row, at = tl.program_id(0) * 2 + tl.arange(0, 2), tl.arange(0, B)
    place, inside = row[:, None] * n + at[None, :], (row < m)[:, None] & (at < n)[None, :]
    tl.store(o + place, tl.cumsum(tl.load(x + place, inside, 0).to(tl.float32), 1), inside)


def built() -> Any:
    types = {"x": "*fp16", "o": "*fp32", "m": "i32", "n": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    made = triton.compile(ASTSource(running_sums, types, {"B": 512}, aligned),
                          target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8})
    return intel.compile_spirv(made.asm["spv"], "bmg", made.metadata.build_flags)


def test_native_code_reads_only_what_was_written() -> None:
    assert built().asm


def test_intels_compiler_loses_them_otherwise(
    leave_out: Callable[[str], None]
) -> None:
    leave_out("separate_other_values")
    with pytest.raises(intel.IntelCompilerError, match="lost a value"):
        built()
