"""Instructions of the fast loops of common kernels, as Intel's compiler writes them.

    python -m benchmarks.loops [--devices bmg,pvc] [NAME ...]

No GPU is needed.  A kernel without a loop is counted completely.  `dpas` counts matrix
instructions, `spills` bytes of registers that do not fit, `whole` all instructions of the kernel.
`path` counts those of a kernel without a loop that run if its block is inside all bounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import loop_kernels as kernels
from examples.attention import attention_kernel
from examples.matmul import matmul_kernel
from examples.matmul_descriptor import matmul_descriptor_kernel
from triton_xe.tools import intel
from triton_xe.tools.native_figures import common_path

SIZE = 4096


@dataclass(frozen=True)
class Row:
    """A kernel; pointers have type `types[name]`, or `pointer` if absent; `ones` are strides of 1.

    Times are predicted for `grid`, with integers as in `sizes`, or 4096 if absent.
    """

    kernel: Any
    constants: dict[str, Any]
    num_warps: int
    pointer: str = "fp16"
    types: dict[str, str] = field(default_factory=dict)
    ones: tuple[str, ...] = ()
    unaligned: tuple[str, ...] = ()
    grid: tuple[int, int, int] = (4096, 1, 1)
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)

    def source(self) -> ASTSource:
        """The kernel as compiled for a launch with contiguous, aligned arguments."""
        names = self.kernel.arg_names
        constants = self.constants | dict.fromkeys(self.ones, 1)
        types = {n: "constexpr" if n in constants else self.type_of(n) for n in names}
        aligned = [i for i, n in enumerate(names)
                   if types[n][0] in "*i" and n not in self.unaligned]
        return ASTSource(self.kernel, types, constants,
                         {(i,): [["tt.divisibility", 16]] for i in aligned})

    @property
    def arguments(self) -> list[int | float]:
        """Arguments of a launch; pointers are far from each other."""
        names = [n for n in self.kernel.arg_names if n not in self.constants and n not in self.ones]
        types = [self.type_of(n) for n in names]
        return [k + 1 << 40 if t[0] == "*" else 1.0 if t == "fp32" else self.sizes.get(n, SIZE)
                for k, (n, t) in enumerate(zip(names, types, strict=True))]

    def type_of(self, name: str) -> str:
        """Triton's type of a parameter."""
        if name in ("scale", "eps", "count", "probability"):
            return "fp32"
        if name.endswith("_ptr") or name in ("top", "total"):
            return "*" + self.types.get(name, self.pointer)
        return "i32"


def _tiles(m: int, n: int = SIZE, third: int = 1) -> tuple[int, int, int]:
    return -(-SIZE // m), -(-SIZE // n), third


def _gemm(m: int, n: int, k: int, warps: int, pointer: str = "fp16", a: str = "m", b: str = "k",
          c: str = "", **constants: Any) -> Row:
    """A GEMM whose strides of A along `a` and of B along `b` are not 1."""
    ones = ("stride_ak" if a == "m" else "stride_am", "stride_bn" if b == "k" else "stride_bk")
    types = {"c_ptr": c or pointer, "add_ptr": c or pointer}
    if constants.get("CONVERT") == "b":
        types["a_ptr"] = "fp16"
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    defaults = {"EPILOGUE": "", "CONVERT": "", "SPLIT_K": 1}
    grid = _tiles(m, n, constants.get("SPLIT_K", 1))
    return Row(kernels.gemm, blocks | defaults | constants, warps, pointer, types, ones, grid=grid)


def _tutorial(kernel: Any, ones: tuple[str, ...] = (), **more: Any) -> Row:
    """A GEMM of the examples."""
    constants = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 32, "GROUP_M": 4, "ACTIVATION": ""}
    return Row(kernel, constants | more, 32, ones=ones, grid=(256, 1, 1))


def _packed(m: int, n: int, k: int, warps: int) -> Row:
    return Row(kernels.packed_gemm, {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, warps,
               types={"b_ptr": "i32"}, grid=_tiles(m, n), sizes={"group": 128})


def _packed_pairs(group: dict[str, int]) -> Row:
    """A product with a group size that is a constant, or 128 at launch."""
    return Row(
        kernels.packed_pairs_gemm, {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64} | group, 4,
        types={"b_ptr": "u8", "zeros_ptr": "u8"}, ones=("stride_bk", "stride_zk", "stride_sk"),
        grid=_tiles(16, 128), sizes={} if group else {"group": 128})


def _attention(
    m: int, n: int, depth: int, pointer: str = "fp16", warps: int = 8, causal: bool = False
) -> Row:
    constants = {"BLOCK_M": m, "BLOCK_N": n, "DEPTH": depth, "CAUSAL": causal}
    return Row(attention_kernel, constants, warps, pointer, {"o_ptr": "fp16"},
               grid=(SIZE // m, 32, 1), sizes={"stride_n": depth, "stride_h": SIZE * depth})


def _window(m: int) -> Row:
    return Row(kernels.windowed_attention, {"GROUP": 4, "BLOCK_M": m, "BLOCK_N": 64, "DEPTH": 128},
               8, "bf16", grid=(SIZE // m, 32, 1),
               sizes={"stride_m": 128, "stride_h": SIZE * 128, "window": 1024})


def _backward(depth: int, warps: int) -> Row:
    return Row(kernels.attention_backward, {"DEPTH": depth, "BLOCK_M": 32, "BLOCK_N": 128}, warps,
               types={"log_ptr": "fp32", "delta_ptr": "fp32"}, grid=(32, 1, 1),
               sizes={"stride_n": depth})


def _scaled(m: int, n: int, k: int, kind: str) -> Row:
    pointer = {"e2m1": "u8", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}[kind]
    scales = {"sa_ptr": "u8", "sb_ptr": "u8", "c_ptr": "fp16"}
    return Row(kernels.scaled_gemm, {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "KIND": kind}, 8,
               pointer, scales, grid=_tiles(m, n), sizes={"stride_s": SIZE // 32})


def _experts(m: int, n: int, k: int) -> Row:
    return Row(kernels.moe_gemm, {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, 4,
               types={"token_ptr": "i32", "expert_ptr": "i32"}, grid=_tiles(m, n))


def _rows(kernel: Any, block: int, warps: int, pointer: str, **more: Any) -> Row:
    return Row(kernel, {"BLOCK": block}, warps, pointer, **more)


def _norm_gradient(pointer: str) -> Row:
    return Row(kernels.layer_norm_gradient, {"GROUP": 64, "BLOCK": 8192}, 8, pointer,
               types={"lock_ptr": "i32"}, sizes=WIDE)


WIDE = {"n": 8192, "stride": 8192}
LONG = {"grid": (16384, 1, 1), "sizes": {"n": 1 << 24}}
ROWS: dict[str, Row] = {
    "gemm": _gemm(256, 256, 32, 32),
    "gemm in step": replace(_gemm(256, 256, 32, 32), options={"split_barriers": True}),
    "gemm 64x128x64": _gemm(64, 128, 64, 8),
    "gemm 64x64x32": _gemm(64, 64, 32, 4),
    "gemm 128x128x32 16 warps": _gemm(128, 128, 32, 16),
    "gemm ABt": _gemm(256, 256, 32, 32, b="n"),
    "gemm AtB": _gemm(256, 256, 32, 32, a="k"),
    "gemm tf32 16": _gemm(256, 256, 16, 32, "fp32"),
    "gemm tf32 32": _gemm(256, 256, 32, 32, "fp32"),
    "gemm ieee": Row(kernels.gemm_ieee, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}, 4, "fp32",
                     grid=_tiles(64, 64)),
    "gemm int8": _gemm(256, 256, 64, 32, "i8", c="i32"),
    "gemm small (MoE)": _gemm(64, 128, 32, 4),
    "gemm W8A16": _gemm(256, 256, 32, 32, "i8", c="fp16", CONVERT="b"),
    "gemm fp8e5": _gemm(256, 256, 32, 32, "fp8e5", c="fp16"),
    "gemm fp8e4nv": _gemm(256, 256, 32, 32, "fp8e4nv", c="fp16"),
    "gemm split-K": _gemm(256, 256, 32, 32, c="fp32", EPILOGUE="atomic", SPLIT_K=4),
    "gemm add bf16": _gemm(256, 256, 32, 32, "bf16", c="fp32", EPILOGUE="add"),
    "gemm halves": _gemm(256, 256, 32, 32, EPILOGUE="halves"),
    "gemm add int8": _gemm(256, 256, 64, 32, "i8", c="i32", EPILOGUE="add"),
    "packed 16x128x64": _packed(16, 128, 64, 4),
    "packed 64x128x64": _packed(64, 128, 64, 8),
    "packed 128x128x32": _packed(128, 128, 32, 8),
    "packed pairs 16x128x64": _packed_pairs({"group": 128}),
    "packed pairs, group given": _packed_pairs({}),
    "block-scaled fp8e4nv": Row(
        kernels.block_scaled_gemm, {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP": 128},
        8, "fp8e4nv", {"sa_ptr": "fp32", "sb_ptr": "fp32", "c_ptr": "fp16"},
        grid=_tiles(128, 128), sizes={"stride_sa": SIZE // 128, "stride_sb": SIZE // 128}),
    "scaled e4m3": _scaled(128, 128, 64, "e4m3"),
    "scaled e2m1": _scaled(128, 128, 64, "e2m1"),
    "attention 64": _attention(128, 64, 64),
    "attention 128": _attention(128, 64, 128),
    "attention fp8e5": _attention(128, 64, 64, "fp8e5"),
    "attention fp8e4nv": _attention(128, 64, 64, "fp8e4nv"),
    "attention causal": _attention(64, 32, 64, warps=4, causal=True),
    "attention backward": _backward(64, 8),
    "attention backward 128": _backward(128, 16),
    "attention masked": Row(
        kernels.masked_attention, {"BLOCK_M": 128, "BLOCK_N": 64, "DEPTH": 64}, 8,
        grid=(SIZE // 128, 32, 1),
        sizes={"stride_m": 64, "stride_h": SIZE * 64, "stride_bh": SIZE * SIZE}),
    "attention window": _window(64),
    "attention window 128": _window(128),
    "softmax fp32": _rows(kernels.softmax, 4096, 16, "fp32"),
    "softmax fp16": _rows(kernels.softmax, 4096, 16, "fp16"),
    "softmax of rows": Row(kernels.softmax_of_rows, {"ROWS": 8, "BLOCK": 512}, 4, "fp32"),
    "rms norm bf16": _rows(kernels.rms_norm, 4096, 8, "bf16"),
    "swiglu gradient": Row(kernels.swiglu_gradient, {"BLOCK": SIZE, "n": SIZE}, 8, "fp32"),
    "rotary embedding": Row(
        kernels.rotary, {"HEADS": 32, "GROUPS": 8, "DEPTH": 128}, 4, "bf16",
        sizes={"stride_q": SIZE, "stride_k": 1024, "stride_c": 128, "stride_s": 128}),
    "layer norm": _rows(kernels.layer_norm, 1024, 4, "fp16", types={"w_ptr": "fp32"}),
    "layer norm gradient fp32": _norm_gradient("fp32"),
    "layer norm gradient fp16": _norm_gradient("fp16"),
    "softmax gradient": _rows(kernels.softmax_gradient, 8192, 8, "fp32", sizes=WIDE),
    "cross entropy loss": _rows(kernels.cross_entropy, 4096, 16, "bf16", sizes=WIDE,
                                types={"y_ptr": "i64", "loss_ptr": "fp32"}),
    "cross entropy": _rows(kernels.cross_entropy_gradient, 4096, 16, "bf16",
                           types={"top": "fp32", "total": "fp32"}),
    "add": _rows(kernels.add, 1024, 4, "fp32", **LONG),
    "add, n odd": _rows(kernels.add, 1024, 4, "fp32", unaligned=("n",), **LONG),
    "descriptor copy": Row(kernels.descriptor_copy,
                           {"BLOCK_M": 32, "BLOCK_N": 128, "TRANSPOSE": False}, 4, "fp32",
                           grid=_tiles(32, 128)),
    "descriptor copy fp16": Row(kernels.descriptor_copy,
                                {"BLOCK_M": 64, "BLOCK_N": 64, "TRANSPOSE": False}, 4,
                                grid=_tiles(64, 64)),
    "descriptor transpose": Row(kernels.descriptor_copy,
                                {"BLOCK_M": 64, "BLOCK_N": 64, "TRANSPOSE": True}, 4, "fp32",
                                grid=_tiles(64, 64)),
    "descriptor transpose fp16": Row(kernels.descriptor_copy,
                                     {"BLOCK_M": 64, "BLOCK_N": 64, "TRANSPOSE": True}, 4,
                                     grid=_tiles(64, 64)),
    "descriptor transpose u8": Row(kernels.descriptor_copy,
                                   {"BLOCK_M": 64, "BLOCK_N": 64, "TRANSPOSE": True}, 4, "u8",
                                   grid=_tiles(64, 64)),
    "matmul example": _tutorial(matmul_kernel, ("stride_ak", "stride_bn", "stride_cn")),
    "matmul descriptor example": _tutorial(
        matmul_descriptor_kernel, TRANSPOSED_A=False, TRANSPOSED_B=False),
    "MoE": _experts(64, 64, 32),
    "MoE 64x128x32": _experts(64, 128, 32),
    "grouped": Row(kernels.grouped_gemm, {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}, 8,
                   types={"a_ptr": "i64", "b_ptr": "i64", "c_ptr": "i64", "size_ptr": "i32"},
                   grid=(64, 1, 1), sizes={"groups": 4}),
    "gemv": Row(kernels.gemv, {"ROWS": 16, "BLOCK": 512}, 4, grid=(256, 1, 1)),
    "row sum": _rows(kernels.row_sum, 1024, 4, "fp16"),
    "argmax": _rows(kernels.row_argmax, 4096, 8, "fp32", types={"y_ptr": "i32"}),
    "prefix sum": _rows(kernels.prefix_sum, 1024, 4, "fp32"),
    "prefix sum of rows": Row(kernels.prefix_sum_of_rows, {"ROWS": 16, "BLOCK": 128}, 4, "fp32"),
    "prefix sum of columns": Row(
        kernels.prefix_sum_of_columns, {"ROWS": 64, "BLOCK": 64}, 4, "fp32",
        sizes={"stride": 64 * SIZE}),
    "recurrence": _rows(kernels.recurrence, 2048, 8, "fp32"),
    "sort": _rows(kernels.sort_rows, 256, 4, "i32"),
    "inductor pointwise": Row(kernels.inductor_pointwise, {"XBLOCK": 512}, 4, "fp32",
                              grid=(8192, 1, 1), sizes={"xnumel": 8192 * 512}),
    "inductor reduction": Row(kernels.inductor_reduction, {"XBLOCK": 1, "R0_BLOCK": 1024}, 4,
                              "fp32", sizes={"xnumel": SIZE, "r0_numel": 768}),
    "inductor conv2d": Row(
        kernels.inductor_conv2d, {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}, 8,
        grid=(98, 2, 1), sizes={"batch": 16, "in_h": 28, "in_w": 28, "in_c": 256, "out_c": 256,
                                "out_h": 28, "out_w": 28}),
    "dropout": _rows(kernels.dropout, 1024, 4, "fp32", **LONG),
}


def compiled(name: str, device: str, **changed: int | str) -> Any:
    """The row's kernel, compiled by Triton."""
    row = ROWS[name]
    options = {"num_warps": row.num_warps, "num_stages": 3, **row.options, **changed}
    return triton.compile(row.source(), target=GPUTarget("xpu", device, 16), options=options)


def native(name: str, device: str) -> intel.CompiledKernel:
    """The native code of a row."""
    kernel = compiled(name, device)
    return intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)


def line(name: str, device: str) -> str:
    """One line of the table; the reason if the kernel does not compile."""
    try:
        built = native(name, device)
    except Exception as error:  # a table of all rows is worth more than the first failure
        return f"{name:26}{device:6}  {type(error).__name__}: {str(error).splitlines()[0][:90]}"
    found, path = built.figures, common_path(built.program)
    loop = found.hot_loop
    return (f"{name:26}{device:6}{loop.instructions:8}{loop.dpas:6}{found.spill_size:8}"
            f"{found.grf_count:6}{found.whole.instructions:8}{path.issued if path else '':>6}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="bmg,pvc")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args(arguments)
    print(f"{'kernel':26}{'device':6}{'n':>8}{'dpas':>6}{'spills':>8}{'grf':>6}{'whole':>8}{'path':>6}")
    for name in [r for r in ROWS if not parsed.names or any(p in r for p in parsed.names)]:
        for device in parsed.devices.split(","):
            print(line(name, device), flush=True)


if __name__ == "__main__":
    main()
