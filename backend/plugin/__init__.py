"""The target of Triton's entry point: the plugin, or an inactive one on an unsupported Triton.

Every program that imports Triton imports this module, whatever the version.  If the plugin cannot
work, it must not disturb the program; it warns in one sentence if its device would have been used.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import version
from typing import Any, TypeVar

from triton_xe import triton_versions

Base = TypeVar("Base")


def is_usable() -> bool:
    """True if the plugin supports the Triton that imports this module."""
    import triton

    return triton_versions.find(triton.__version__) is not None


def why_inactive() -> str:
    """The reason why the plugin is inactive, as a sentence."""
    import triton

    return (
        f"triton-xe {version('triton-xe')} is inactive: it is made for Triton "
        f"{triton_versions.span()}, and this is {triton.__version__}; `triton-xe setup` "
        "installs the stock Triton that it needs"
    )


def deferred_class(base: type[Base], module: str, name: str, **statics: Any) -> type[Base]:
    """A class that Triton can register, whose instances are those of the class `name` of `module`.

    That module is imported for the first instance, because most programs that import Triton create
    none. `statics` are the class attributes that Triton reads.
    """

    def make(cls: type, *arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    names: dict[str, Any] = dict.fromkeys(getattr(base, "__abstractmethods__", ()), make)
    return type(name, (base,), names | statics | {"__new__": make, "__module__": module})


def inactive(base: type[Base]) -> type[Base]:
    """A concrete class that Triton can register and never uses: no target, no device."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError(why_inactive())

    names: dict[str, Any] = dict.fromkeys(getattr(base, "__abstractmethods__", ()), refuse)
    names |= {"supports_target": staticmethod(lambda target: False),
              "is_active": classmethod(_is_active)}
    return type(f"Inactive{base.__name__}", (base,), names)


def _is_active(cls: type) -> bool:
    """Return False; warn if the device would be this plugin's."""
    if is_wanted():
        warnings.warn(why_inactive(), RuntimeWarning, stacklevel=2)
    return False


def is_wanted() -> bool:
    """True if this process would use an Intel GPU or a simulated one."""
    from triton_xe.errors import XeError
    from triton_xe.runtime.selection import select

    try:
        return select().kind != "none"
    except XeError:
        return True
