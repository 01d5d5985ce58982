"""Refuse what Triton ignores silently, or fails on without a reason.

Triton drops a grid's fourth dimension, recursion ends in a bare KeyError, or never, and variables
that no stage reads have no effect.  Kernels of other backends are not affected.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from triton import knobs
from triton.compiler.compiler import CompiledKernel
from triton.compiler.errors import CompilationError

from triton_xe.backend.options import XeOptions
from triton_xe.errors import UnsupportedError

if TYPE_CHECKING:
    from triton.compiler.code_generator import CodeGenerator


def install() -> None:
    """Refuse a fourth grid dimension of kernels for xpu."""
    if not hasattr(CompiledKernel.__init__, "__wrapped__"):
        CompiledKernel.__init__ = as_xe_kernels(CompiledKernel.__init__)


def install_in_front_end() -> None:
    """Refuse recursion; a cached kernel needs no front end."""
    from triton.compiler.code_generator import CodeGenerator

    if not hasattr(CodeGenerator.call_JitFunction, "__wrapped__"):
        CodeGenerator.call_JitFunction = _calling(CodeGenerator.call_JitFunction)


_ADDRESS_SANITIZER = (
    "TRITON_ENABLE_ASAN=1 asks for LLVM's address sanitizer, which Intel GPUs do not have: unset "
    "it, and set TRITON_XE_SANITIZE=1, with which the simulator checks every access")
_LOCAL_VARIABLES = (
    "LLVM_EXTRACT_DI_LOCAL_VARIABLES=1 asks for local variables in debug information, of which "
    "kernels for Intel GPUs have source lines alone: unset it")


def check_variables() -> None:
    """Refuse Triton's variables that ask of a compilation what this backend does not do."""
    asked = knobs.compilation
    if asked.enable_asan:
        raise UnsupportedError(_ADDRESS_SANITIZER)
    if getattr(asked, "dump_ir_extract_di_local_variables", False):
        raise UnsupportedError(_LOCAL_VARIABLES)
    if asked.use_ir_loc not in (None, "", "ttir", "ttgir"):
        raise UnsupportedError(
            f"USE_IR_LOC={asked.use_ir_loc} is not possible for kernels on Intel GPUs, where the "
            "source lines of an error can be those of two stages: set USE_IR_LOC=ttir or "
            "USE_IR_LOC=ttgir")


class XeCompiledKernel(CompiledKernel):
    """Triton's compiled kernel, with a check of all grid dimensions."""

    def launch_metadata(self, grid: Any, stream: int, *args: Any) -> Any:
        """Metadata for launch hooks; None if there are none.

        It is overridden because it is the only call of a launch that gets the whole grid.
        """
        if len(grid) > 3:
            raise ValueError(
                f"kernel {self.name!r}: the grid {tuple(grid)} has {len(grid)} "
                "dimensions, and a launch has at most three; make one of two, and split it in "
                "the kernel with // and %")
        hooks = knobs.runtime
        if _has_no_calls(hooks.launch_enter_hook) and _has_no_calls(hooks.launch_exit_hook):
            return None
        return super().launch_metadata(grid, stream, *args)


def _has_no_calls(hook: Any) -> bool:
    return hook is None or not getattr(hook, "calls", True)


def as_xe_kernels(original: Any) -> Any:
    """Wrap the constructor of kernels so that those for xpu become `XeCompiledKernel`."""

    @wraps(original)
    def make(kernel: CompiledKernel, *given: Any, **named: Any) -> None:
        original(kernel, *given, **named)
        if type(kernel) is CompiledKernel and kernel.metadata.target.backend == "xpu":
            kernel.__class__ = XeCompiledKernel

    return make


class RecursionRefused(CompilationError):
    """A function of a kernel calls itself."""


_under_way: ContextVar[tuple[Any, ...]] = ContextVar("functions being compiled", default=())


def _calling(original: Any) -> Any:
    """Wrap Triton's compilation of a called function, so that recursion is reported."""

    @wraps(original)
    def call(generator: CodeGenerator, function: Any, *given: Any, **named: Any) -> Any:
        if not isinstance(generator.builder.options, XeOptions):
            return original(generator, function, *given, **named)
        callers = (*_under_way.get(), function)
        token = _under_way.set(callers)
        try:
            return original(generator, function, *given, **named)
        except (KeyError, RecursionError, CompilationError) as error:
            error.__context__ = None if error.__cause__ else error.__context__
            why = _recursion(error, callers)
            if not why:
                raise
        finally:
            _under_way.reset(token)
        # without the errors of all calls below, which Triton follows one by one
        raise RecursionRefused(generator.jit_fn.src, generator.cur_node, why)

    return call


def _recursion(error: BaseException, callers: tuple[Any, ...]) -> str:
    """Reason why a call cannot be compiled if it is recursion; otherwise empty.

    Triton looks up the result of a function that it has not finished, or follows constants without
    end.  Its errors have each other as causes, one for each call.
    """
    first = error
    while not isinstance(first, RecursionRefused) and (first.__cause__ or first.__context__):
        first = first.__cause__ or first.__context__  # type: ignore[assignment]
    if isinstance(first, RecursionRefused):
        return str(first.error_message)
    last = callers[-1]
    is_one = isinstance(error, KeyError) or isinstance(first, RecursionError)
    if not is_one or callers.count(last) == 1:
        return ""
    circle = callers[callers.index(last):]
    circle = circle[:circle.index(last, 1) + 1]
    names = " -> ".join(function.__name__ for function in circle)
    return (
        f"{names}: a function of a kernel cannot call itself, because a GPU has no stack for it; "
        "write a loop, or take what decides the end as tl.constexpr and return in both branches "
        "of an if, with else")
