"""`@triton.jit` kernels with arrays of numpy and of other libraries, and without torch."""

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe import runtime
from triton_xe.runtime import arrays

ROOT = Path(__file__).parents[3]
HIDE_TORCH = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Hidden())
"""


@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * factor, at < n)


@triton.jit
def first_of(pair, y):
    tl.store(y, tl.load(pair[0]) + pair[1])


class Described:
    """An object with one array interface, or with DLPack only."""

    def __init__(self, array, name):
        self._array = array
        self._name = name

    def __getattr__(self, name):
        if name == self._name == "__dlpack__":
            return self._array.__dlpack__
        if name == self._name:
            return self._array.__array_interface__
        raise AttributeError(name)


def without_torch(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", HIDE_TORCH + textwrap.dedent(program), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint16"])
@pytest.mark.parametrize("name", [
    "", "__array_interface__", "__cuda_array_interface__", "__sycl_usm_array_interface__",
    "__dlpack__",
])
def test_arrays_are_arguments(dtype, name):
    x = np.arange(300).astype(dtype)
    y = np.zeros_like(x)
    given = [Described(each, name) for each in (x, y)] if name else [x, y]
    scale[(3,)](*given, 300, 2, BLOCK=128)
    np.testing.assert_array_equal(y, (x * 2).astype(dtype))


def test_views_begin_at_their_first_element():
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    scale[(1,)](x[10:20], y[30:40], 10, 3, BLOCK=16)
    assert y[30:40].tolist() == [3 * k for k in range(10, 20)]
    assert np.count_nonzero(y) == 10


def test_alignment_is_read_anew_at_each_launch():
    memory = np.zeros(65, np.uint8)
    start = -memory.ctypes.data % 16
    for shift in (0, 1, 3):
        x = memory[start + shift : start + shift + 32]
        x[:] = np.arange(32)
        y = np.zeros(32, np.uint8)
        scale[(1,)](x, y, 32, 1, BLOCK=32)
        np.testing.assert_array_equal(y, np.arange(32))


def test_buffers_of_the_runtime():
    device = runtime.open_device()
    x = runtime.put(device, np.arange(100, dtype=np.float32))
    y = runtime.put(device, np.zeros(100, np.float32))
    scale[(1,)](x, y, 100, 0.5, BLOCK=128)
    assert runtime.get(device, y, (100,), np.float32).tolist() == [k / 2 for k in range(100)]
    with pytest.raises(TypeError, match=r"'x' cannot be used: this buffer does not say what"):
        scale[(1,)](device.allocate(400), y, 100, 0.5, BLOCK=128)


def test_arrays_inside_of_tuples():
    x, y = np.array([40.0], np.float32), np.zeros(1, np.float32)
    first_of[(1,)]((x, 2), y)
    assert y[0] == 42


@pytest.mark.parametrize(("value", "why"), [
    (np.zeros(4, np.complex64), r"'x' cannot be used: its elements are <c8, .* float32"),
    (np.zeros(4, object), "its elements are"),
    (np.zeros(4, ">f4"), "big-endian"),
    (np.float32(1), r"\.item\(\)"),
    ([1.0, 2.0], r"argument 'x' is list, .* they take tensors, arrays \(numpy\.asarray makes"),
    (SimpleNamespace(__array__=None), r"'x' is SimpleNamespace, .* arrays \(numpy\.asarray makes"),
    (SimpleNamespace(__cuda_array_interface__={"shape": (4,)}), "array interface lacks typestr"),
    ({}, "argument 'x' is dict, .* they take tensors, arrays, numbers"),
    (1j, "argument 'x' is complex"),
])
def test_what_is_no_argument(value, why):
    with pytest.raises(TypeError, match=why):
        scale[(1,)](value, np.zeros(4, np.float32), 4, 1, BLOCK=16)


def test_numbers_that_are_too_large_are_named():
    with pytest.raises(TypeError, match=f"'n' is {1 << 70}, which does not fit into 64 bits"):
        scale[(1,)](np.zeros(4, np.float32), np.zeros(4, np.float32), 1 << 70, 1, BLOCK=16)


def test_sparse_tensors_are_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"'x' is torch.sparse_coo, .* \.to_dense\(\)"):
        scale[(1,)](torch.ones(4).to_sparse(), np.zeros(4, np.float32), 4, 1, BLOCK=16)


def test_a_missing_argument_is_named():
    with pytest.raises(TypeError, match=r"this kernel is missing 1 required .* 'BLOCK'"):
        scale[(1,)](np.zeros(4), np.zeros(4), 4, 1)


def test_complex_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"'x' has elements of type complex64.*view_as_real"):
        scale[(1,)](torch.zeros(4, dtype=torch.complex64), np.zeros(4), 4, 1, BLOCK=16)


def test_memory_of_other_gpus_is_refused():
    class Elsewhere(Described):
        pass

    x = np.zeros(4, np.float32)
    capsule = x.__dlpack__()
    pointer = arrays.ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = arrays.ctypes.c_void_p
    arrays.DLTensor.from_address(
        pointer(arrays.ctypes.py_object(capsule), b"dltensor")).device_type = 2
    thing = Elsewhere(x, "")
    thing.__dlpack__ = lambda: capsule
    with pytest.raises(arrays.ArrayError, match="in CUDA memory; copy it to the host"):
        arrays.find(thing)


def test_the_sanitizer_knows_where_an_array_ends():
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    scale[(1,)](x, y, 100, 2, BLOCK=128, sanitize=True)
    with pytest.raises(RuntimeError, match="out-of-bounds load"):
        scale[(1,)](x, y, 101, 2, BLOCK=128, sanitize=True)
    assert y[0] == 2


def test_no_torch_is_needed():
    code, out, err = without_torch("""
        import sys
        import numpy as np
        sys.path.insert(0, "python/test/backend")
        import triton
        from examples.vector_add import add_kernel
        a, b = np.random.default_rng(0).random((2, 5000), np.float32)
        c = np.zeros_like(a)
        add_kernel[(triton.cdiv(a.size, 1024),)](a, b, c, a.size, BLOCK=1024)
        print(abs(c - (a + b)).max(), "torch" in sys.modules)
    """)
    assert (code, out) == (0, "0.0 False\n"), err


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "signature"), [
    ("vector_add.py::add_kernel", "a_ptr=*fp32:16 b_ptr=*fp32:16 c_ptr=*fp32:16 n=i32 BLOCK=1024"),
    ("softmax.py::softmax_kernel", ""), ("matmul.py::matmul_kernel", ""),
    ("matmul_descriptor.py::matmul_descriptor_kernel", ""), ("attention.py::attention_kernel", ""),
])
def test_examples_load_without_torch(kernel, signature):
    program = """
        import sys
        from triton_xe.tools import cli
        from triton_xe.tools.commands.compile import load_kernel
        if sys.argv[2]:
            sys.exit(cli.main(["compile", sys.argv[1], "--emit", "ttir", "--signature",
                               sys.argv[2]]))
        print(load_kernel(sys.argv[1]).fn.__name__)
    """
    code, out, err = without_torch(program, f"examples/{kernel}", signature)
    assert code == 0, err
    assert kernel.partition("::")[2] in out


class Frozen:
    """What DLPack says of a read-only array."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, max_version=None):
        return self._array.__dlpack__(max_version=max_version)


@triton.jit
def count_up(counter, y):
    tl.store(y, tl.atomic_add(counter, 1))


@triton.jit
def copy_descriptor(source, target):
    a = tl.make_tensor_descriptor(source, [32, 32], [32, 1], [16, 32])
    b = tl.make_tensor_descriptor(target, [32, 32], [32, 1], [16, 32])
    b.store([0, 0], a.load([0, 0]))


def read_only(count):
    made = np.ones(count, np.int32)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("wrap", [lambda array: array, Frozen], ids=["numpy", "dlpack"])
def test_a_read_only_array_is_an_input_and_no_output(wrap):
    x, y = read_only(64), np.zeros(64, np.int32)
    scale[(1,)](wrap(x), y, 64, 3, BLOCK=64)
    assert (y == 3).all()
    with pytest.raises(ValueError, match="kernel 'scale': argument 'y' is a read-only array, and "
                                         "the kernel stores to it; pass a copy"):
        scale[(1,)](y, wrap(x), 64, 3, BLOCK=64)
    with pytest.raises(ValueError, match="'counter' is a read-only"):
        count_up[(1,)](wrap(x), y)
    assert (x == 1).all()


def test_blocks_are_not_stored_to_read_only_arrays():
    x, y = read_only(1024), np.zeros(1024, np.int32)
    copy_descriptor[(1,)](x, y)
    assert y.sum() == 512
    with pytest.raises(ValueError, match="'target' is a read-only"):
        copy_descriptor[(1,)](y, x)
