"""The one backend class that Triton looks for."""

from triton.backends.compiler import BaseBackend as _Base

from triton_xe.backend.plugin import inactive as _inactive
from triton_xe.backend.plugin import is_usable as _is_usable

if _is_usable():
    from triton_xe.backend.compiler import XeBackend as XeBackend
else:
    InactiveBackend = _inactive(_Base)
del _Base
