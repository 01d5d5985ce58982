"""Let kernels take arrays of other libraries, and explain why an argument is refused.

Triton reads the type of each argument in compiled code, which takes tensors (any object with
`data_ptr`), numbers and tuples.  An array of numpy or of another library has no `data_ptr`, so the
first launch of a kernel with one ends in a TypeError.  From then on that kernel's arguments are
read by `_Reader`, which shows Triton the array's address and element type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from triton.backends.compiler import BaseBackend
from triton.runtime import jit

from triton_xe.runtime import arrays

Binder = Callable[..., Any]
_NAME = "specialize_impl"
"""Function that Triton's generated binder calls for each argument."""
_REFUSALS = (TypeError, KeyError, OverflowError, RuntimeError)
"""Exceptions that this function raises; the last one for tensors without an address."""


def install(ours: type[BaseBackend]) -> None:
    """Let kernels of the backend `ours` take arrays; other backends do not change."""
    make = jit.create_function_from_signature
    if hasattr(make, "accepts_arrays"):
        return

    @wraps(make)  # `triton-xe doctor` looks at the parameters of Triton's own
    def create(signature: inspect.Signature, parameters: Any, backend: Any) -> Binder:
        binder = make(signature, parameters, backend)
        return accepting(signature, binder) if isinstance(backend, ours) else binder

    create.accepts_arrays = True  # type: ignore[attr-defined]
    jit.create_function_from_signature = create


def accepting(signature: inspect.Signature, binder: Any) -> Binder:
    """Wrap the binder so that it also takes arrays, and names the argument that it refuses."""
    namespace = binder.__globals__
    if _NAME not in namespace:
        return binder
    read = _Reader(namespace[_NAME]).read

    def bind(*args: Any, **named: Any) -> Any:
        try:
            return binder(*args, **named)
        except _REFUSALS as error:
            if namespace[_NAME] is read:
                raise _explained(error, signature, args, named) from None
        namespace[_NAME] = read
        return bind(*args, **named)

    return bind


class _BadArgument(TypeError):
    """The argument `value` is refused."""

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(why)
        self.value = value


class _Reader:
    """Reads arguments as Triton's own function does, and arrays like tensors."""

    def __init__(self, native: Callable[..., Any]) -> None:
        self.native = native

    def read(self, backend: Any, value: Any, *how: Any) -> Any:
        """(type, specialization) of an argument; for a tuple, tuples of these."""
        try:
            return self.native(backend, value, *how)
        except _REFUSALS as error:
            if isinstance(value, tuple):
                return self._read_tuple(backend, value, *how)
            return self.native(backend, _tensor_like(value, error), *how)

    def _read_tuple(self, backend: Any, value: tuple[Any, ...], *how: Any) -> Any:
        parts = [self.read(backend, each, *how) for each in value]
        make = getattr(type(value), "_make", tuple)
        return tuple(make(each) for each in zip(*parts, strict=True))


def _tensor_like(value: Any, error: Exception) -> arrays.Array:
    """Object that Triton can read instead of an array; `_BadArgument` if the value is no array."""
    if isinstance(value, int):
        raise _BadArgument(value, f"is {value}, which does not fit into 64 bits")
    if "strided" not in str(getattr(value, "layout", "strided")):
        raise _BadArgument(value, f"is {value.layout}, and kernels take dense tensors: .to_dense()")
    if isinstance(error, RuntimeError):
        raise error
    if hasattr(value, "data_ptr"):
        raise _BadArgument(value, (
            f"has elements of type {str(value.dtype).rpartition('.')[2]}, which kernels do not "
            "have; view it as a type they have (torch.view_as_real for complex numbers)"))
    try:
        found = arrays.find(value)
    except arrays.ArrayError as error:
        raise _BadArgument(value, f"cannot be used: {error}") from None
    if found is None:
        makes_one = hasattr(value, "__array__") or isinstance(value, list)
        raise _BadArgument(value, (
            f"is {type(value).__name__}, which kernels do not take; they take tensors, arrays"
            f"{' (numpy.asarray makes one of it)' if makes_one else ''}, "
            "numbers and tuples of these, and anything hashable where the parameter is tl.constexpr"
        ))
    return found


def _explained(
    error: Exception, signature: inspect.Signature, args: Any, named: Any
) -> Exception:
    """The error of a refused argument, with the argument's name."""
    if isinstance(error, RuntimeError | OverflowError):
        return error
    if not isinstance(error, _BadArgument):
        return type(error)(str(error).replace("dynamic_func() missing", "this kernel is missing")
                           .replace("dynamic_func()", "this kernel"))
    values = dict(zip(signature.parameters, args, strict=False)) | named
    names = [name for name, value in values.items() if _holds(value, error.value)]
    return TypeError(f"argument {', '.join(map(repr, names))} {error}")


def _holds(value: Any, wanted: Any) -> bool:
    """True if an argument is `wanted`, or a tuple that contains it."""
    if isinstance(value, tuple):
        return any(_holds(each, wanted) for each in value)
    return value is wanted
