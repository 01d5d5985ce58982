"""The exceptions of triton-xe; each message says what, where, why and what to do.

Errors derive from the types that users expect.  An error that may depend on the configuration is
also Triton's `OutOfResources` (`too_large`, `not_this_configuration`), so that autotuners skip the
configuration.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn


class XeError(Exception):
    """Base of every error that triton-xe raises on purpose.

    `location` is the source location in the kernel, `file:line`, if known.
    """

    location: str = ""


class LayoutError(XeError, ValueError):
    """A layout is malformed, or an operation on layouts has no result."""


class UnsupportedError(XeError, NotImplementedError):
    """A program is valid Triton, but this backend cannot compile it."""


class LegalityError(XeError, ValueError):
    """An instruction or resource request is not legal for the target device."""


class OptionError(XeError, ValueError, AssertionError):
    """A launch option has no such value; also an `AssertionError`, which Triton's own backends
    raise.
    """


class DeviceError(XeError, RuntimeError):
    """A device, driver or runtime call failed."""


class SimulatorTrap(DeviceError):
    """The simulated device stopped a kernel that a real device would run wrongly.

    `what` is the kind of fault; `programs` are the numbers of the programs concerned; `finding` is
    what the checks report.
    """

    what: str = ""
    finding: Any = None
    programs: tuple[int, ...] = ()


@cache
def _too_large(kind: type[XeError]) -> type[XeError]:
    """Class of the error that is also Triton's `OutOfResources`, if Triton is installed."""
    try:
        from triton.runtime.errors import OutOfResources
    except ImportError:
        return kind

    def reduce(self: XeError) -> tuple[Any, ...]:
        return _restore, (kind, self.args, self.__dict__)

    return type(kind.__name__, (kind, OutOfResources), {
        "__doc__": kind.__doc__, "__module__": kind.__module__, "__init__": kind.__init__,
        "__str__": XeError.__str__, "__reduce__": reduce,
    })


def _restore(kind: type[XeError], args: tuple[Any, ...], fields: dict[str, Any]) -> XeError:
    made = _too_large(kind).__new__(_too_large(kind))  # type: ignore[arg-type]
    made.args = args
    made.__dict__.update(fields)
    return made


def too_large(error: XeError, required: int, limit: int, name: str) -> XeError:
    """Make the error catchable as Triton's `OutOfResources` of the resource `name`.

    The autotuners of Triton and Inductor skip a configuration that raises it.
    """
    return _restore(type(error), error.args, {
        "required": required, "limit": limit, "name": name, **error.__dict__})


def not_this_configuration(error: XeError) -> XeError:
    """Make a refusal catchable as `OutOfResources`, because another configuration may compile.

    If none does, autotuners end with the last refusal, or choose one and raise it again.
    """
    if hasattr(error, "required"):
        return error
    return too_large(error, 1, 0, "what this configuration asks for")


def out_of_resources(
    required: int, limit: int, name: str, why: str = "",
    remedy: str = "Use smaller blocks, more warps or fewer `num_stages`",
) -> NoReturn:
    """Refuse a configuration that needs more of a resource than the device has."""
    text = f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. {remedy}"
    raise too_large(LegalityError(f"{why}: {text}" if why else text), required, limit, name)
