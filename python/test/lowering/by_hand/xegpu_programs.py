"""Small XeGPU programs, one for each op and form, with what numpy makes of them.

Each entry is made for a number of lanes: `program(lanes)` answers (text, arrays, check).
"""

import numpy as np

from triton_xe.intrinsics.definitions.conversions import bf16_to_float, float_to_bf16

RANDOM = np.random.default_rng(7)
LOAD_HINTS = "L1_hint = cached, L3_hint = uncached"
STORE_HINTS = "L1_hint = streaming, L3_hint = write_back"
PREFETCH_HINTS = "L1_hint = uncached, L3_hint = cached"
HINTS = (LOAD_HINTS, STORE_HINTS, PREFETCH_HINTS)


def floats(*shape, kind=np.float32):
    return RANDOM.standard_normal(shape).astype(kind)


def integers(*shape, kind=np.int32, low=-8, high=8):
    return RANDOM.integers(low, high, shape).astype(kind)


def padded(array, y, x, rows, columns):
    """The block at (y, x), zero outside of the array."""
    out = np.zeros((rows, columns), array.dtype)
    for r in range(rows):
        for c in range(columns):
            if 0 <= y + r < array.shape[0] and 0 <= x + c < array.shape[1]:
                out[r, c] = array[y + r, x + c]
    return out


def kernel(body, arguments, attributes=""):
    suffix = f" attributes {{{attributes}}}" if attributes else ""
    return f"func.func @k({arguments}){suffix} {{\n{body}\n  func.return\n}}\n"


# -- blocks ---------------------------------------------------------------------------------------


def copy_block(element, kind, rows, columns, at=(0, 0), base=(40, 64), hints=("", "")):
    """load_nd and store_nd of a block, partly outside of a base tensor with its own pitch."""

    def program(lanes):
        height, width = base
        size = np.dtype(kind).itemsize
        pitch = -(-width * size // 64) * 64 // size
        desc = f"!xegpu.tensor_desc<{rows}x{columns}x{element}>"
        body = f"""
  %t = xegpu.create_nd_tdesc %a, %y, {at[1]}, {height}, {width}, {pitch}, 1
       : i64, index -> {desc}
  xegpu.prefetch_nd %t : {desc}
  %v = xegpu.load_nd %t{hints[0]} : {desc} -> vector<{rows}x{columns}x{element}>
  %s = xegpu.create_nd_tdesc %o, %y, {at[1]}, {height}, {width}, {pitch}, 1
       : i64, index -> {desc}
  xegpu.store_nd %v, %s{hints[1]} : vector<{rows}x{columns}x{element}>, {desc}"""
        store = np.zeros((height, pitch), kind)
        store[:, :] = integers(height, pitch, kind=np.int32)
        out = np.full((height, pitch), 99, kind)

        def check(arrays):
            expected = np.full((height, pitch), 99, kind)
            y, x = at
            r0, r1, c1 = max(y, 0), min(y + rows, height), min(x + columns, width)
            expected[r0:r1, x:c1] = store[r0:r1, x:c1]
            np.testing.assert_array_equal(arrays[1], expected)

        return kernel(body, "%a: i64, %o: i64, %y: index"), [store, out, at[0]], check

    return program


def loaded(form, desc, vector, element, kind, expect, at=(0, 0), base=(32, 64), prefix=""):
    """A load in some form, written as it lies in the vector: row by row to a 1D block."""

    def program(lanes):
        count = int(np.prod([int(n) for n in vector.split("x")]))
        body = f"""
  %t = xegpu.create_nd_tdesc %a, {at[0]}, {at[1]} : memref<{base[0]}x{base[1]}x{element}>
       -> !xegpu.tensor_desc<{desc}>
  %v = xegpu.load_nd %t {form} : !xegpu.tensor_desc<{desc}> -> vector<{vector}x{element}>
  %f = vector.shape_cast %v : vector<{vector}x{element}> to vector<{count}x{element}>
  %s = xegpu.create_nd_tdesc %o, 0 : i64 -> !xegpu.tensor_desc<{count}x{element},
       boundary_check = false>
  xegpu.store_nd %f, %s : vector<{count}x{element}>,
       !xegpu.tensor_desc<{count}x{element}, boundary_check = false>"""
        source = integers(*base).astype(kind)
        out = np.zeros(count, kind)

        def check(arrays):
            np.testing.assert_array_equal(arrays[1], expect(source).reshape(-1))

        return (kernel(body, f"%a: memref<{base[0]}x{base[1]}x{element}>, %o: i64"),
                [source, out], check)

    return program


def vnni(array, factor):
    rows, columns = array.shape
    return array.reshape(rows // factor, factor, columns).transpose(0, 2, 1)


def moved(lanes):
    """update_nd_offset in a loop, past the end of the base tensor."""
    body = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<8x{lanes}xf32>
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<20x{lanes * 2}xf32>
       -> !xegpu.tensor_desc<8x{lanes}xf32>
  %r, %te = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %at = %t)
      -> (vector<8x{lanes}xf32>, !xegpu.tensor_desc<8x{lanes}xf32>) {{
    %v = xegpu.load_nd %at : !xegpu.tensor_desc<8x{lanes}xf32> -> vector<8x{lanes}xf32>
    %more = arith.addf %sum, %v : vector<8x{lanes}xf32>
    %next = xegpu.update_nd_offset %at, 8, 2
        : !xegpu.tensor_desc<8x{lanes}xf32> -> !xegpu.tensor_desc<8x{lanes}xf32>
    scf.yield %more, %next : vector<8x{lanes}xf32>, !xegpu.tensor_desc<8x{lanes}xf32>
  }}
  %s = xegpu.create_nd_tdesc %o, 0, 0 : memref<8x{lanes}xf32> -> !xegpu.tensor_desc<8x{lanes}xf32>
  xegpu.store_nd %r, %s : vector<8x{lanes}xf32>, !xegpu.tensor_desc<8x{lanes}xf32>"""
    a, o = integers(20, 2 * lanes).astype(np.float32), np.zeros((8, lanes), np.float32)

    def check(arrays):
        expected = sum(padded(a, 8 * i, 2 * i, 8, lanes) for i in range(4))
        np.testing.assert_array_equal(arrays[1], expected)

    head = f"%a: memref<20x{lanes * 2}xf32>, %o: memref<8x{lanes}xf32>, %n: index"
    return kernel(body, head), [a, o, 4], check


def through_slm(lanes):
    """1D blocks in shared local memory and back, with the barrier and fences between."""
    n = 4 * lanes
    body = f"""
  %z = arith.constant 0 : i64
  %one = arith.constant 1 : i8
  %t = xegpu.create_nd_tdesc %a, 3 : i64 -> !xegpu.tensor_desc<{n}xf32, boundary_check = false>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<{n}xf32, boundary_check = false> -> vector<{n}xf32>
  %l = xegpu.create_nd_tdesc %z, 8 : i64
       -> !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false>
  xegpu.store_nd %v, %l : vector<{n}xf32>,
       !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false>
  xegpu.fence {{scope = workgroup, memory_kind = shared}}
  xegpu.alloc_nbarrier %one : i8
  %id = arith.constant 0 : i8
  %b = xegpu.init_nbarrier %id, %one : i8, i8 -> !xegpu.nbarrier
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier
  %m = xegpu.update_nd_offset %l, {lanes}
       : !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false>
       -> !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false>
  %w = xegpu.load_nd %m : !xegpu.tensor_desc<{n}xf32, memory_scope = slm, boundary_check = false>
       -> vector<{n}xf32>
  %s = xegpu.create_nd_tdesc %o, 0 : i64 -> !xegpu.tensor_desc<{n}xf32, boundary_check = false>
  xegpu.store_nd %w, %s : vector<{n}xf32>, !xegpu.tensor_desc<{n}xf32, boundary_check = false>
  xegpu.fence {{scope = gpu, memory_kind = global}}"""
    a, o = floats(n + 3), np.zeros(n, np.float32)

    def check(arrays):
        np.testing.assert_array_equal(arrays[1][: 3 * lanes], a[3 + lanes : 3 + n])

    return kernel(body, "%a: i64, %o: i64", "xe.slm_bytes = 4096 : i32"), [a, o], check


def line_with_hints(element, kind):
    """1D blocks, prefetched, read and written with cache hints."""

    def program(lanes):
        n = 4 * lanes
        desc = f"!xegpu.tensor_desc<{n}x{element}, boundary_check = false>"
        body = f"""
  %t = xegpu.create_nd_tdesc %a, 3 : i64 -> {desc}
  xegpu.prefetch_nd %t {{{PREFETCH_HINTS}}} : {desc}
  %v = xegpu.load_nd %t {{{LOAD_HINTS}}} : {desc} -> vector<{n}x{element}>
  %s = xegpu.create_nd_tdesc %o, 5 : i64 -> {desc}
  xegpu.store_nd %v, %s {{{STORE_HINTS}}} : vector<{n}x{element}>, {desc}"""
        a, o = integers(n + 8).astype(kind), np.full(n + 8, 77, kind)

        def check(arrays):
            expected = np.full(n + 8, 77, kind)
            expected[5 : n + 5] = a[3 : n + 3]
            np.testing.assert_array_equal(arrays[1], expected)

        return kernel(body, "%a: i64, %o: i64"), [a, o], check

    return program


# -- scattered ------------------------------------------------------------------------------------


def scattered(element, kind, chunk, hints=("", "", ""), slm=False):
    """Gather chunks at 7 * lane + lane, masked, and scatter them to other places."""

    def program(lanes):
        active, pad = lanes - 3, chunk + 1
        scope = ", memory_scope = slm" if slm else ""
        size = f"{lanes}x{chunk}" if chunk > 1 else f"{lanes}"
        desc = f"!xegpu.tensor_desc<{size}x{element}, #xegpu.scattered>"
        local = f"!xegpu.tensor_desc<{size}x{element}{scope}, #xegpu.scattered>"
        value = f"vector<{chunk}x{lanes}x{element}>" if chunk > 1 else f"vector<{lanes}x{element}>"
        turn = "transpose = [1, 0]" if chunk > 1 else ""
        load = "{" + ", ".join(p for p in (turn, hints[0]) if p) + "}"
        store = "{" + ", ".join(p for p in (turn, hints[1]) if p) + "}"
        between = f"""
  %zero = arith.constant 0 : i64
  %lt = xegpu.create_tdesc %zero, %to : i64, vector<{lanes}xindex> -> {local}
  xegpu.store_scatter %v, %lt, %m {store} : {value}, {local}, vector<{lanes}xi1>
  xegpu.fence {{scope = workgroup, memory_kind = shared}}
  %w = xegpu.load_gather %lt, %m {load} : {local}, vector<{lanes}xi1> -> {value}""" if slm else ""
        body = f"""
  %lane = vector.step : vector<{lanes}xindex>
  %nv = vector.broadcast %n : index to vector<{lanes}xindex>
  %m = arith.cmpi slt, %lane, %nv : vector<{lanes}xindex>
  %seven = arith.constant dense<7> : vector<{lanes}xindex>
  %from = arith.muli %lane, %seven : vector<{lanes}xindex>
  %step = arith.constant dense<{pad}> : vector<{lanes}xindex>
  %to = arith.muli %lane, %step : vector<{lanes}xindex>
  %t = xegpu.create_tdesc %a, %from : i64, vector<{lanes}xindex> -> {desc}
  xegpu.prefetch %t {{{hints[2]}}} : {desc}
  %t1 = xegpu.update_offset %t, %lane : {desc}, vector<{lanes}xindex> -> {desc}
  %v = xegpu.load_gather %t1, %m {load} : {desc}, vector<{lanes}xi1> -> {value}{between}
  %s = xegpu.create_tdesc %o, %to : i64, vector<{lanes}xindex> -> {desc}
  xegpu.store_scatter %{"w" if slm else "v"}, %s, %m {store}
      : {value}, {desc}, vector<{lanes}xi1>"""
        a = integers(9 * lanes + 16).astype(kind)
        o = np.full(lanes * pad, 77, kind)

        def check(arrays):
            expected = np.full(lanes * pad, 77, kind)
            for lane in range(active):
                expected[lane * pad : lane * pad + chunk] = a[8 * lane : 8 * lane + chunk]
            np.testing.assert_array_equal(arrays[1], expected)

        attributes = "xe.slm_bytes = 8192 : i32" if slm else ""
        return kernel(body, "%a: i64, %o: i64, %n: index", attributes), [a, o, active], check

    return program


ATOMICS = {
    "addf": np.add, "mulf": np.multiply, "maximumf": np.maximum, "minimumf": np.minimum,
    "maxnumf": np.fmax, "minnumf": np.fmin, "addi": np.add, "maxs": np.maximum,
    "mins": np.minimum, "muli": np.multiply, "ori": np.bitwise_or, "andi": np.bitwise_and,
    "xori": np.bitwise_xor, "assign": lambda old, new: new,
    "maxu": lambda a, b: np.maximum(a.view(np.uint32), b.view(np.uint32)).view(np.int32),
    "minu": lambda a, b: np.minimum(a.view(np.uint32), b.view(np.uint32)).view(np.int32),
}


def atomic(kind, element, dtype, slm=False):
    """Each lane combines with a word of its own, the last three lanes not at all."""

    def program(lanes):
        desc = f"!xegpu.tensor_desc<{lanes}x{element}, #xegpu.scattered>"
        vector = f"vector<{lanes}x{element}>"
        body = f"""
  %lane = vector.step : vector<{lanes}xindex>
  %nv = vector.broadcast %n : index to vector<{lanes}xindex>
  %m = arith.cmpi slt, %lane, %nv : vector<{lanes}xindex>
  %all = arith.constant dense<true> : vector<{lanes}xi1>
  %tv = xegpu.create_tdesc %v, %lane : i64, vector<{lanes}xindex> -> {desc}
  %value = xegpu.load_gather %tv, %all : {desc}, vector<{lanes}xi1> -> {vector}
  %t = xegpu.create_tdesc %a, %lane : i64, vector<{lanes}xindex> -> {desc}
  %old = xegpu.atomic_rmw "{kind}", %value, %t, %m
      : {vector}, {desc}, vector<{lanes}xi1> -> {vector}
  %to = xegpu.create_tdesc %o, %lane : i64, vector<{lanes}xindex> -> {desc}
  xegpu.store_scatter %old, %to, %m : {vector}, {desc}, vector<{lanes}xi1>"""
        low = 1 if element == "bf16" else -8
        memory, value = (integers(lanes, low=low) for _ in range(2))
        memory, value = (encoded(x, element, dtype) for x in (memory, value))
        out = np.zeros(lanes, memory.dtype)
        before, active = memory.copy(), lanes - 3

        def check(arrays):
            expected = decoded(before, element)
            expected[:active] = ATOMICS[kind](
                decoded(before, element)[:active], decoded(value, element)[:active])
            np.testing.assert_array_equal(decoded(arrays[0], element), expected)
            np.testing.assert_array_equal(arrays[2][:active], before[:active])
            assert not arrays[2][active:].any()

        return kernel(body, "%a: i64, %v: i64, %o: i64, %n: index"), [
            memory, value, out, active], check

    return program


def encoded(values, element, dtype):
    return float_to_bf16(values.astype(np.float32)) if element == "bf16" else values.astype(dtype)


def decoded(values, element):
    return bf16_to_float(values).copy() if element == "bf16" else values.copy()


def shared_sum(lanes):
    """Every lane adds to the same word."""
    desc = f"!xegpu.tensor_desc<{lanes}xf32, #xegpu.scattered>"
    body = f"""
  %zero = arith.constant dense<0> : vector<{lanes}xindex>
  %one = arith.constant dense<1.0> : vector<{lanes}xf32>
  %all = arith.constant dense<true> : vector<{lanes}xi1>
  %t = xegpu.create_tdesc %a, %zero : i64, vector<{lanes}xindex> -> {desc}
  %old = xegpu.atomic_rmw "addf", %one, %t, %all
      : vector<{lanes}xf32>, {desc}, vector<{lanes}xi1> -> vector<{lanes}xf32>"""
    a = np.zeros(4, np.float32)

    def check(arrays):
        np.testing.assert_array_equal(arrays[0], [lanes, 0, 0, 0])

    return kernel(body, "%a: i64"), [a], check


# -- dpas -----------------------------------------------------------------------------------------

DPAS_TYPES = {
    "f16": ("f16", np.float16, 16, "f32", np.float32),
    "bf16": ("bf16", np.uint16, 16, "f32", np.float32),
    "tf32": ("f32", np.float32, 8, "f32", np.float32),
    "s8": ("i8", np.int8, 32, "i32", np.int32),
    "u8": ("ui8", np.uint8, 32, "i32", np.int32),
    "f16h": ("f16", np.float16, 16, "f16", np.float16),
    "bf16h": ("bf16", np.uint16, 16, "bf16", np.uint16),
}


def dpas(kind, rows, with_c, form):
    """One instruction on whole vectors: B plain ("2d"), packed ("vnni"), A split too ("3d")."""

    def program(lanes):
        element, dtype, k, result, out_type = DPAS_TYPES[kind]
        factor = 4 // np.dtype(dtype).itemsize
        a_type, b_type = f"vector<{rows}x{k}x{element}>", f"vector<{k}x{lanes}x{element}>"
        c_type = f"vector<{rows}x{lanes}x{result}>"
        packed = form != "2d" and factor > 1
        b_load = "{packed}" if packed else ""
        if packed:
            b_type = f"vector<{k // factor}x{lanes}x{factor}x{element}>"
        split = ""
        a_used, name = a_type, "%va"
        if form == "3d":
            a_used, name = f"vector<{rows}x{k // factor}x{factor}x{element}>", "%v3"
            split = f"  %v3 = vector.shape_cast %va : {a_type} to {a_used}\n"
        acc = ", %vc" if with_c else ""
        acc_type = f", {c_type}" if with_c else ""
        a_desc = f"!xegpu.tensor_desc<{rows}x{k}x{element}>"
        b_desc = f"!xegpu.tensor_desc<{k}x{lanes}x{element}>"
        c_desc = f"!xegpu.tensor_desc<{rows}x{lanes}x{result}>"
        body = f"""
  %ta = xegpu.create_nd_tdesc %a, 0, 0 : memref<32x64x{element}> -> {a_desc}
  %tb = xegpu.create_nd_tdesc %b, 0, 0 : memref<32x64x{element}> -> {b_desc}
  %tc = xegpu.create_nd_tdesc %c, 0, 0 : memref<32x64x{result}> -> {c_desc}
  %va = xegpu.load_nd %ta : {a_desc} -> {a_type}
{split}  %vb = xegpu.load_nd %tb {b_load} : {b_desc} -> {b_type}
  %vc = xegpu.load_nd %tc : {c_desc} -> {c_type}
  %d = xegpu.dpas {name}, %vb{acc} : {a_used}, {b_type}{acc_type} -> {c_type}
  xegpu.store_nd %d, %tc : {c_type}, {c_desc}"""
        low = 0 if kind == "u8" else -8
        a, b = (encoded(integers(32, 64, low=low), element, dtype) for _ in range(2))
        c = encoded(integers(32, 64), result, out_type)
        before = decoded(c, result)

        def check(arrays):
            x = decoded(a, element)[:rows, :k].astype(np.float64)
            y = decoded(b, element)[:k, :lanes].astype(np.float64)
            expected = before.astype(np.float64)
            expected[:rows, :lanes] = x @ y + with_c * expected[:rows, :lanes]
            np.testing.assert_array_equal(arrays[2], encoded(expected, result, out_type))

        memrefs = [f"memref<32x64x{t}>" for t in (element, element, result)]
        head = ", ".join(f"%{n}: {m}" for n, m in zip("abc", memrefs, strict=True))
        return kernel(body, head), [a, b, c], check

    return program


def three_dimensions(lanes):
    """A block of two 2D blocks, added to itself."""
    memory, desc = "memref<3x16x64xf32>", "!xegpu.tensor_desc<2x8x16xf32>"
    body = f"""
  %t = xegpu.create_nd_tdesc %a, 1, 4, 8 : {memory} -> {desc}
  %v = xegpu.load_nd %t : {desc} -> vector<2x8x16xf32>
  %w = arith.addf %v, %v : vector<2x8x16xf32>
  %s = xegpu.create_nd_tdesc %o, 1, 4, 8 : {memory} -> {desc}
  xegpu.store_nd %w, %s : vector<2x8x16xf32>, {desc}"""
    a, o = floats(3, 16, 64), floats(3, 16, 64)
    expected = o.copy()
    expected[1:, 4:12, 8:24] = 2 * a[1:, 4:12, 8:24]

    def check(arrays):
        np.testing.assert_array_equal(arrays[1], expected)

    return kernel(body, f"%a: {memory}, %o: {memory}"), [a, o], check


def half_bytes(lanes):
    """Elements of 4 bits, widened to bytes."""
    body = """
  %t = xegpu.create_nd_tdesc %a, 1, 0, 16, 128, 128, 1 : i64 -> !xegpu.tensor_desc<8x64xi4>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x64xi4> -> vector<8x64xi4>
  %w = arith.extsi %v : vector<8x64xi4> to vector<8x64xi8>
  %s = xegpu.create_nd_tdesc %o, 0, 0, 8, 64, 64, 1 : i64 -> !xegpu.tensor_desc<8x64xi8>
  xegpu.store_nd %w, %s : vector<8x64xi8>, !xegpu.tensor_desc<8x64xi8>"""
    a, o = integers(16, 64, kind=np.int8, low=-128, high=128), np.zeros((8, 64), np.int8)
    part = a[1:9, :32]
    expected = np.stack([part << 4 >> 4, part >> 4], axis=-1).reshape(8, 64)

    def check(arrays):
        np.testing.assert_array_equal(arrays[1], expected)

    return kernel(body, "%a: i64, %o: i64"), [a, o], check


def of_type(name, *shape):
    """Random integers of a type such as "u4", and its name in MLIR."""
    bits = int(name[1:])
    low, high = (-(1 << bits - 1), 1 << bits - 1) if name[0] == "s" else (0, 1 << bits)
    return RANDOM.integers(low, high, shape), f"{'ui' if name[0] == 'u' else 'i'}{bits}"


def dense(values, bits, word):
    """The last dimension packed into words, lowest bits first."""
    per = np.dtype(word).itemsize * 8 // bits
    parts = (values & ((1 << bits) - 1)).reshape(*values.shape[:-1], -1, per).astype(np.uint64)
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(bits)
    return (parts << shifts).sum(axis=-1, dtype=np.uint64).astype(word)


def dpas_small(a_name, b_name, rows):
    """Integers of less than 8 bits: A dense in bytes, B dense down each column in dwords."""

    def program(lanes):
        a_bits, b_bits = int(a_name[1:]), int(b_name[1:])
        k = 8 * 32 // max(a_bits, b_bits, 4)
        (x, a_type), (y, b_type) = of_type(a_name, rows, k), of_type(b_name, k, lanes)
        per, bytes_ = 32 // b_bits, k * a_bits // 8
        a = np.zeros((32, 64), np.int8)
        a[:rows, :bytes_] = dense(x, a_bits, np.uint8).view(np.int8)
        b = np.zeros((32, 64), np.int32)
        b[: k // per, :lanes] = dense(y.T, b_bits, np.uint32).view(np.int32).T
        c = integers(32, 64)
        before = c.copy()
        a_load, b_load = f"vector<{rows}x{bytes_}xi8>", f"vector<{k // per}x{lanes}xi32>"
        b_flat = f"vector<{k // per}x{lanes * per}x{b_type}>"
        a_used = f"vector<{rows}x{k}x{a_type}>"
        b_used = f"vector<{k // per}x{lanes}x{per}x{b_type}>"
        c_type, c_desc = f"vector<{rows}x{lanes}xi32>", f"!xegpu.tensor_desc<{rows}x{lanes}xi32>"
        a_desc = f"!xegpu.tensor_desc<{rows}x{bytes_}xi8>"
        b_desc = f"!xegpu.tensor_desc<{k // per}x{lanes}xi32>"
        body = f"""
  %ta = xegpu.create_nd_tdesc %a, 0, 0 : memref<32x64xi8> -> {a_desc}
  %tb = xegpu.create_nd_tdesc %b, 0, 0 : memref<32x64xi32> -> {b_desc}
  %tc = xegpu.create_nd_tdesc %c, 0, 0 : memref<32x64xi32> -> {c_desc}
  %la = xegpu.load_nd %ta : {a_desc} -> {a_load}
  %va = vector.bitcast %la : {a_load} to {a_used}
  %lb = xegpu.load_nd %tb : {b_desc} -> {b_load}
  %fb = vector.bitcast %lb : {b_load} to {b_flat}
  %vb = vector.shape_cast %fb : {b_flat} to {b_used}
  %vc = xegpu.load_nd %tc : {c_desc} -> {c_type}
  %d = xegpu.dpas %va, %vb, %vc : {a_used}, {b_used}, {c_type} -> {c_type}
  xegpu.store_nd %d, %tc : {c_type}, {c_desc}"""

        def check(arrays):
            expected = before.copy()
            expected[:rows, :lanes] += (x @ y).astype(np.int32)
            np.testing.assert_array_equal(arrays[2], expected)

        head = "%a: memref<32x64xi8>, %b: memref<32x64xi32>, %c: memref<32x64xi32>"
        return kernel(body, head), [a, b, c], check

    return program

PROGRAMS = {
    "block f32": copy_block("f32", np.float32, 8, 16),
    "block f16": copy_block("f16", np.float16, 8, 16, (35, 56)),
    "block i8": copy_block("i8", np.int8, 4, 32, (-2, 48)),
    "block f64": copy_block("f64", np.float64, 8, 8, (-3, 60), (20, 64)),
    "block of one row": copy_block("f32", np.float32, 1, 16, (39, 52)),
    "block hints": copy_block(
        "f32", np.float32, 8, 16, (0, 0), (40, 64),
        (" {L1_hint = uncached, L3_hint = cached}",
         " {L1_hint = write_back, L3_hint = write_back}"),
    ),
    "packed f16": loaded(
        "{packed}", "16x16xf16", "8x16x2", "f16", np.float16,
        lambda s: vnni(padded(s, 20, 8, 16, 16), 2), (20, 8)),
    "packed i8": loaded(
        "{packed}", "32x16xi8", "8x16x4", "i8", np.int8,
        lambda s: vnni(padded(s, 16, 56, 32, 16), 4), (16, 56)),
    "transpose f32": loaded(
        "{transpose = [1, 0]}", "16x8xf32", "8x16", "f32", np.float32,
        lambda s: padded(s, 24, 58, 16, 8).T, (24, 58)),
    "transpose pairs": loaded(
        "{transpose = [1, 0], transpose_bit_width = 32}", "16x16xf16", "8x32", "f16", np.float16,
        lambda s: vnni(s[4:20, 16:32].T, 2), (4, 16)),
    "array": loaded(
        "", "8x16xf16, array_length = 2", "8x32", "f16", np.float16,
        lambda s: padded(s, 28, 40, 8, 32), (28, 40)),
    "array of blocks": loaded(
        "", "8x16xf16, array_length = 2", "2x8x16", "f16", np.float16,
        lambda s: padded(s, 0, 40, 8, 32).reshape(8, 2, 16).transpose(1, 0, 2), (0, 40)),
    "packed array": loaded(
        "{packed}", "16x16xf16, array_length = 2", "2x8x16x2", "f16", np.float16,
        lambda s: np.stack([vnni(s[:16, i : i + 16], 2) for i in (0, 16)])),
    "moved": moved,
    "three dimensions": three_dimensions,
    "elements of 4 bits": half_bytes,
    "shared memory": through_slm,
    "gather": scattered("f32", np.float32, 1),
    "gather f16": scattered("f16", np.float16, 1),
    "gather i8": scattered("i8", np.int8, 1),
    "gather f64": scattered("f64", np.float64, 1),
    "gather chunks": scattered("f32", np.float32, 4),
    "gather three": scattered("i32", np.int32, 3),
    "gather eight halves": scattered("f16", np.float16, 8),
    "gather hints": scattered("f32", np.float32, 2, HINTS),
    "gather hints i8": scattered("i8", np.int8, 1, HINTS),
    "gather hints bytes": scattered("i8", np.int8, 2, HINTS),
    "gather hints f16": scattered("f16", np.float16, 1, HINTS),
    "gather hints eight halves": scattered("f16", np.float16, 8, HINTS),
    "gather hints three": scattered("i32", np.int32, 3, HINTS),
    "gather hints i64": scattered("i64", np.int64, 2, HINTS),
    "line hints f32": line_with_hints("f32", np.float32),
    "line hints f16": line_with_hints("f16", np.float16),
    "gather shared": scattered("f32", np.float32, 4, slm=True),
    "sum of all lanes": shared_sum,
}
for _kind in ATOMICS:
    _element = ("f32", np.float32) if _kind.endswith("f") else ("i32", np.int32)
    PROGRAMS[f"atomic {_kind}"] = atomic(_kind, *_element)
for _kind, _element, _dtype in (
    ("addf", "f16", np.float16), ("addf", "bf16", np.uint16), ("maxnumf", "bf16", np.uint16),
    ("addi", "i64", np.int64), ("addi", "i16", np.int16), ("assign", "f32", np.float32),
):
    PROGRAMS[f"atomic {_kind} {_element}"] = atomic(_kind, _element, _dtype)
for _kind in DPAS_TYPES:
    PROGRAMS[f"dpas {_kind} 2d"] = dpas(_kind, 8, True, "2d")
    PROGRAMS[f"dpas {_kind} vnni"] = dpas(_kind, 8, False, "vnni")
for _kind in ("f16", "s8"):
    PROGRAMS[f"dpas {_kind} 3d"] = dpas(_kind, 4, True, "3d")
SMALL = (("s4", "s4"), ("u4", "s4"), ("u4", "u4"), ("s4", "s8"), ("u8", "u4"), ("s8", "s4"),
         ("s2", "s2"), ("u2", "s4"), ("s4", "u2"), ("s2", "s8"), ("s8", "u2"))
for _a, _b in SMALL:
    PROGRAMS[f"dpas {_a} by {_b}"] = dpas_small(_a, _b, 8)
PROGRAMS["dpas f16 one row"] = dpas("f16", 1, True, "2d")
PROGRAMS["dpas tf32 two rows"] = dpas("tf32", 2, False, "2d")
PROGRAMS["dpas tf32 one row"] = dpas("tf32", 1, True, "2d")

NEEDS_16 = {
    name for name in PROGRAMS
    if name.startswith(("block", "packed", "transpose", "array"))
} - {"block of one row"}
"""Programs whose blocks have the width of sixteen lanes; on eight they are gathered."""
