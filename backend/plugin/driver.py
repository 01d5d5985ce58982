"""The one driver class that Triton looks for."""

from triton.backends.driver import DriverBase as _Base

from triton_xe.backend.plugin import deferred_class as _deferred
from triton_xe.backend.plugin import inactive as _inactive
from triton_xe.backend.plugin import is_usable as _is_usable

if _is_usable():
    from triton_xe import knobs as _knobs

    def _is_active(cls: type) -> bool:
        from triton_xe.backend.driver import XeDriver as driver

        return driver.is_active()

    XeDriver = _deferred(
        _Base, "triton_xe.backend.driver", "XeDriver", is_active=classmethod(_is_active))
    _knobs.prefer_this_backend()
    _knobs.record_torch_too()
else:
    InactiveDriver = _inactive(_Base)
del _Base
