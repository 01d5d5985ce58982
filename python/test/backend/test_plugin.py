"""The plugin on a Triton that it is not made for: registered, inactive, one sentence."""

import inspect
import subprocess
import sys

import pytest
import triton
from triton.backends import backends
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.driver import DriverBase

from triton_xe.backend import plugin
from triton_xe.backend.compiler import XeBackend
from triton_xe.backend.driver import XeDriver


def test_this_triton_gets_the_plugin():
    assert plugin.is_usable()
    target = GPUTarget("xpu", "bmg", 16)
    assert backends["intel"].compiler.supports_target(target)
    assert isinstance(backends["intel"].compiler(target), XeBackend)
    assert backends["intel"].driver.is_active()
    assert isinstance(backends["intel"].driver(), XeDriver)


def test_importing_triton_imports_little_of_the_plugin():
    """Every program that imports Triton pays for it."""
    program = ("import sys, triton\n"
               "print(*sorted(n for n in sys.modules if n.startswith(('triton_xe', 'numpy'))))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True)
    light = {"", ".backend", ".backend.extra", ".backend.plugin", ".backend.plugin.compiler",
             ".backend.plugin.driver", ".backend.plugin.gluon_module", ".errors", ".knobs",
             ".triton_versions"}
    assert set(done.stdout.split()) <= {f"triton_xe{name}" for name in light}


@pytest.mark.parametrize(("version", "usable"), [
    ("3.6.0", False), ("3.7.1", True), ("3.8.0", True), ("3.9.0", True),
    ("3.9.1+git123", True), ("3.10.0", False)])
def test_only_its_own_version_is_usable(version, usable, monkeypatch):
    monkeypatch.setattr(triton, "__version__", version)
    assert plugin.is_usable() == usable


@pytest.mark.parametrize("base", [BaseBackend, DriverBase])
def test_an_inactive_class_is_one_that_triton_can_register(base):
    made = plugin.inactive(base)
    assert issubclass(made, base)
    assert not inspect.isabstract(made)


def test_an_inactive_plugin_compiles_for_nothing_and_drives_nothing(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.6.0")
    assert not plugin.inactive(BaseBackend).supports_target(GPUTarget("xpu", "bmg", 16))
    sentence = r"made for Triton 3\.7 to 3\.9, and this is 3\.6\.0; `triton-xe setup`"
    with pytest.warns(RuntimeWarning, match=sentence):
        assert not plugin.inactive(DriverBase).is_active()


def test_nothing_is_said_where_another_gpu_is_used(monkeypatch, recwarn):
    monkeypatch.setattr(plugin, "is_wanted", lambda: False)
    assert not plugin.inactive(DriverBase).is_active()
    assert not recwarn.list


def test_the_compiler_of_intels_own_triton_tells_how_small_products_may_be():
    """Helion imports it for each product; Triton still finds the backends it had."""
    from triton.backends.intel.compiler import min_dot_size

    assert min_dot_size({})(triton.language.float16, triton.language.float16) == (1, 1, 16)
    assert sorted(backends) == ["amd", "intel", "nvidia"]


def test_gluons_intel_module_is_found_and_imported_only_when_asked_for():
    code = (
        "import sys, triton, triton.backends\n"
        "assert 'triton_xe.gluon' not in sys.modules\n"
        "from triton.experimental.gluon import language\n"
        "from triton.experimental.gluon.language import intel\n"
        "import triton_xe.gluon as ours\n"
        "assert intel is ours is language.intel, intel\n"
        "assert ours.__spec__.name == ours.__name__ == 'triton_xe.gluon'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
