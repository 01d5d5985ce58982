"""Rules for fake tensors of a simulated device, which differ from those for the CPU or for CUDA."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any


def adjust_tensors(module: Any) -> None:
    """Decompose attention by this device's rule, because torch's own asks a CPU build."""
    torch = sys.modules["torch"]
    attention = torch.ops.aten.scaled_dot_product_attention.default
    keys = torch._C.DispatchKey

    def decomposed(query: Any, *arguments: Any, **named: Any) -> Any:
        key = keys.XPU if query.device.type == "xpu" else keys.CompositeImplicitAutograd
        return attention._op_dk(key, query, *arguments, **named)

    if keys.CompositeImplicitAutograd not in attention.py_kernels:
        attention.py_impl(keys.CompositeImplicitAutograd)(decomposed)


def adjust_operators(module: Any) -> None:
    """Infer results of some operators from the CPU's, whose strides or sizes they have here."""
    torch, rules = sys.modules["torch"], module.op_implementations_dict
    change = torch.utils._pytree.tree_map_only

    def as_on_the_cpu(usual: Any, mode: Any, operator: Any, *given: Any, **named: Any) -> Any:
        device = next(each.device for each in given if isinstance(each, torch.Tensor))
        if device.type != "xpu":
            return usual(mode, operator, *given, **named)
        with mode:
            given, named = change(torch.Tensor, lambda x: x.to("cpu"), (given, named))
            return change(torch.Tensor, lambda x: x.to(device), operator(*given, **named))

    for name in ("_fft_r2c", "_embedding_bag", "_embedding_bag_forward_only"):
        operator = getattr(torch.ops.aten, name).default
        usual = rules.get(operator, _no_rule)
        rules[operator] = partial(as_on_the_cpu, usual)


def _no_rule(*given: Any, **named: Any) -> Any:
    """Answer for an operator without a rule for fake tensors, so that torch looks further."""
    return NotImplemented
