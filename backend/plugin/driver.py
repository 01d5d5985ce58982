"""The one driver class that Triton looks for."""

from triton.backends.driver import DriverBase as _Base

from triton_xe.backend.plugin import inactive as _inactive
from triton_xe.backend.plugin import is_usable as _is_usable

if _is_usable():
    from triton_xe.backend.driver import XeDriver as XeDriver
else:
    InactiveDriver = _inactive(_Base)
del _Base
