"""Modules of torch and Triton that are adjusted after their import, and the functions that do it.

Importing these modules, or the adjusting ones, at `import torch` would be slow.
"""

from __future__ import annotations

import logging

from triton_xe.runtime.torch_xpu import after_import

ADJUSTMENTS = {
    "torch._inductor.codecache": "graph_keys.adjust",
    "torch._inductor.runtime.benchmarking": "inductor.adjust_benchmarking",
    "torch._inductor.runtime.triton_heuristics": "inductor.adjust_sorts",
    "torch._inductor.select_algorithm": "inductor.adjust_choices",
    "torch._inductor.config": "inductor.adjust_config",
    "torch._inductor.runtime.static_triton_launcher": "static_launcher.adjust",
    "torch._inductor.triton_bundler": "static_launcher.keep_what_is_current",
    "torch._inductor.cpp_builder": "cpp.adjust_builder",
    "torch._inductor.template_heuristics.triton": "inductor.adjust_products",
    "torch.export.pt2_archive._package": "cpp.adjust_packages",
    "torch._subclasses.fake_impls": "fakes.adjust_operators",
    "torch._subclasses.fake_tensor": "fakes.adjust_tensors",
    "torch._dynamo.eval_frame": "inductor.adjust_frames",
    "torch._dynamo.trace_rules": "inductor.adjust_tracing",
    "torch.utils._triton": "inductor.adjust_descriptors",
    "torch.utils.benchmark.utils.timer": "inductor.adjust_timer",
    "triton.runtime.jit": "inductor.adjust_functions",
    "triton.compiler.compiler": "inductor.adjust_compiler",
    "torch.distributed.distributed_c10d": "distributed.adjust",
}


def adjust_when_imported() -> None:
    """Adjust modules: imported ones at once, the others after their import."""
    logging.getLogger("torch.utils.cpp_extension").addFilter(
        lambda record: "SYCL_HOME" not in str(record.msg))  # no compiler of SYCL is needed
    after_import.adjust(ADJUSTMENTS)
