"""Answers of Triton's own C++: run as a child process, because misuse aborts it.

Reads one JSON case per line: {"build": [method, argument, ...], "shape": [...], "memory": name,
"convert": bool}, where memory is "registers", "shared" or "tensor" (of 8-bit elements), and an
argument may be another ["build", method, ...] list.  Writes one JSON answer per line: the bases of
the linear layout per in-dim, and the attribute's text.
"""

import json
import sys

from triton._C.libtriton import gluon_ir, ir


def attribute(builder, build):
    method, *arguments = build
    made = [attribute(builder, a[1:]) if is_build(a) else a for a in arguments]
    return getattr(builder, method)(*made)


def is_build(argument):
    return isinstance(argument, list) and bool(argument) and argument[0] == "build"


def text_of(builder, encoding, shape, memory):
    element = builder.get_float_ty()
    if memory == "registers":
        return str(builder.get_distributed_ty(element, shape, encoding))
    if memory == "tensor":
        byte = builder.get_int8_ty()
        return str(builder.get_tensor_mem_desc_ty(byte, shape, encoding, shape))
    return str(builder.get_shared_mem_desc_ty(element, shape, encoding, shape))


def bases_of(layout):
    names = {
        "offset": "offset_bases",
        "register": "reg_bases",
        "lane": "lane_bases",
        "warp": "warp_bases",
        "block": "block_bases",
        "row": "rows",
        "col": "cols",
    }
    return {name: getattr(layout, key) for name, key in names.items() if hasattr(layout, key)}


def answer(builder, case):
    encoding = attribute(builder, case["build"])
    text = text_of(builder, encoding, case["shape"], case["memory"])
    if not case["convert"]:
        return {"bases": {}, "text": text}
    return {"bases": bases_of(builder.to_linear_layout(encoding, case["shape"])), "text": text}


def main():
    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    for line in sys.stdin:
        print(json.dumps(answer(builder, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
