"""Parse torch's kernel templates when one is used.

Importing torch's compiler parses two dozen, a quarter of its import time.  A program whose kernels
are in the caches uses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import Any

_putting_off = False


class LateTemplate:
    """A template that is parsed at its first use."""

    def __init__(self, parse: Callable[[str], Any], source: str) -> None:
        self._parse, self._source = parse, source

    @cached_property
    def _parsed(self) -> Any:
        return self._parse(self._source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parsed, name)


@contextmanager
def put_off() -> Iterator[None]:
    """Delay parsing of templates created meanwhile: torch's own, which have no errors to report."""
    global _putting_off
    before, _putting_off = _putting_off, True
    try:
        yield
    finally:
        _putting_off = before


def adjust(module: Any) -> None:
    """Adjust `torch._inductor.codegen.common`."""
    parse = module.KernelTemplate._template_from_string
    if find_spec("jinja2") is None:  # which torch tells by templates that are None
        return

    def template_from_string(source: str) -> Any:
        return LateTemplate(parse, source) if _putting_off else parse(source)

    module.KernelTemplate._template_from_string = staticmethod(template_from_string)
