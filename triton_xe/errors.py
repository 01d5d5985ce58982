"""The exceptions triton-xe raises; each message names what, where, why and what to do.

Kernel compile errors derive from the types Triton's autotuner and users expect:
`OutOfResources` is Triton's own (`triton.runtime.errors`), raised through
`out_of_resources`, so that a too large configuration is skipped, not fatal.
"""

from __future__ import annotations

from typing import NoReturn


class XeError(Exception):
    """Base of every error raised by triton-xe on purpose.

    `location` is the place in the kernel's source, `file:line`, where one is known.
    """

    location: str = ""


class LayoutError(XeError, ValueError):
    """A layout is malformed, or an operation on layouts has no answer."""


class UnsupportedError(XeError, NotImplementedError):
    """A program is valid Triton, but this backend cannot compile it."""


class LegalityError(XeError, ValueError):
    """An instruction or resource request is not legal for the target device."""


class OptionError(XeError, ValueError, AssertionError):
    """A launch option has no such value; Triton's own backends assert."""


class DeviceError(XeError, RuntimeError):
    """A device, driver or runtime call failed."""


class SimulatorTrap(DeviceError):
    """The simulated device stopped a kernel that a real device would run wrongly."""


def out_of_resources(required: int, limit: int, name: str) -> NoReturn:
    """Raise Triton's `OutOfResources`, which the autotuner takes as "skip this configuration"."""
    from triton.runtime.errors import OutOfResources

    raise OutOfResources(required, limit, name)
