"""The one backend class that Triton looks for."""

from triton.backends.compiler import BaseBackend as _Base

from triton_xe.backend.plugin import deferred_class as _deferred
from triton_xe.backend.plugin import gluon_module as _gluon_module
from triton_xe.backend.plugin import inactive as _inactive
from triton_xe.backend.plugin import is_usable as _is_usable

if _is_usable():
    _gluon_module.offer()
    XeBackend = _deferred(
        _Base, "triton_xe.backend.compiler", "XeBackend",
        supports_target=staticmethod(lambda target: target.backend == "xpu"))
else:
    InactiveBackend = _inactive(_Base)
del _Base
