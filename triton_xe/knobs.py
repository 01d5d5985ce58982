"""Environment variables, read here and nowhere else.

| variable | meaning |
|---|---|
| `TRITON_XE_DEVICE` | `gpu`, `sim`, `sim:bmg,pvc`, `emu:pvc`; default: a GPU, else `sim:bmg` |
| `TRITON_XE_DEBUG` | compiles anew and prints: 1 plans, 2 remarks, 3 xetile and xegpu, 4 LLVM IR |
| `TRITON_XE_CACHE` | folder of the native and host code caches; default `~/.cache/triton-xe` |
| `TRITON_XE_CACHE_LIMIT` | bytes on disk for each kind of code kept there; default 2 GiB |
| `TRITON_XE_THREADS` | host threads of the simulator; default: all cores |
| `TRITON_XE_HOST_CPU` | `x86-64`, `x86-64-v2` to `-v4`: the simulator uses no more of this CPU |
| `TRITON_XE_IN_STEP_AFTER` | milliseconds of run time after which the simulator compiles a \
kernel's optimised form; default 20 |
| `TRITON_XE_NATIVE` | 0: launch in Python, without the parts of this package that are in C |
| `TRITON_XE_OCLOC` | path of Intel's `ocloc`; default: on PATH, else the project's toolchain |
| `TRITON_XE_LEVEL_ZERO` | path of `libze_loader.so.1`; default: found by the system |
| `TRITON_XE_TOOLCHAIN` | folder of `triton-xe toolchain`; default: in the cache folder |
| `TRITON_XE_EMULATED` | socket of the emulated GPU; `triton-xe emulate` sets it |
| `TRITON_XE_SANITIZE` | 1: the simulator checks every access; or `finite`, `storage`, `strict` |
| `TRITON_XE_FINDINGS` | file to append findings to, with which a checked launch goes on |
| `TRITON_XE_SHUFFLE` | seed of other orders of programs and warps on the simulator; 0: none |
| `TRITON_XE_TIME_LIMIT` | seconds a simulated launch may take; default 600, 0: no limit |
| `TRITON_XE_ASSERT` | `abort`: a failed `device_assert` ends the process; else an exception |
| `TRITON_XE_PRINT_BYTES` | memory of a launch for `tl.device_print` and `device_assert`; 1 MiB |
| `TRITON_XE_CLOCK` | `host`: a simulated device's time is the host's, not the predicted one; \
`exact`: predicted by the instructions that Intel's compiler writes |
| `TRITON_XE_LINES` | 1: instructions of kernels keep the lines of their source; emulated \
devices report them |
| `TRITON_XE_TRACE` | file for the simulator's trace |
| `TRITON_XE_RECORD` | folder for launches to replay (`triton-xe replay`); set it before the first |
| `TRITON_XE_RECORD_FILTER` | `name` or `name:nth` of launches to record, `,` between several |
| `TRITON_XE_RECORD_LIMIT` | bytes of memory that a process records; default 4 GiB |
| `TRITON_XE_RECORD_AFTER` | 0: do not record the memory after a launch, only that before it |
| `NO_COLOR` | anything but empty: text output is never coloured, not even on a terminal |
| `CXX` | C++ compiler for the simulated xpu device; default: g++, clang++ or c++ on PATH |
| `LD_LIBRARY_PATH` | folders that are searched for Level Zero's loader first |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_RAW = vars(os.environ).get("_data", {})
"""The process's variables as CPython stores them.  Reading `os.environ` takes a microsecond each,
and a launch reads several.
"""
_encode = cache(os.fsencode)


def _text(name: str) -> str:
    """Return the value of a variable; "" if it is not set."""
    if not _RAW:
        return os.environ.get(name, "")
    return os.fsdecode(_RAW.get(_encode(name), b""))


def device() -> str:
    return _text("TRITON_XE_DEVICE")


def prefer_this_backend() -> None:
    """Let Triton choose this backend if `TRITON_XE_DEVICE` is set, next to another active one.

    Triton refuses to choose between two active drivers; a user who names an Intel device has
    chosen.
    """
    if device():
        os.environ.setdefault("TRITON_DEFAULT_BACKEND", "intel")


def debug() -> int:
    return int(_number("TRITON_XE_DEBUG", 0))


def _number(name: str, default: float, least: float = 0) -> float:
    """Parse the number in a variable; if it is none or too small, warn and return the default."""
    text = _text(name)
    if not text:
        return default
    if text.replace(".", "", 1).isdigit() and float(text) >= least:
        return float(text)
    warn_once(f"{name}={text} is not a number of at least {least}; {default:g} is used")
    return default


@cache
def warn_once(sentence: str) -> None:
    """Warn, once per process."""
    import warnings

    warnings.warn(sentence, RuntimeWarning, stacklevel=4)


def cache_dir() -> Path:
    text = _text("TRITON_XE_CACHE")
    return Path(text) if text else Path.home() / ".cache" / "triton-xe"


def cache_limit() -> int:
    return int(_number("TRITON_XE_CACHE_LIMIT", 2 << 30))


def threads() -> int:
    return int(_number("TRITON_XE_THREADS", 0, least=1)) or len(os.sched_getaffinity(0))


def host_cpu() -> str:
    return _text("TRITON_XE_HOST_CPU")


def in_step_after() -> float:
    """Milliseconds that a kernel runs before it pays to compile its in-step form."""
    return _number("TRITON_XE_IN_STEP_AFTER", 20)


def native() -> bool:
    return _text("TRITON_XE_NATIVE") != "0"


def ocloc() -> str:
    return _text("TRITON_XE_OCLOC")


def level_zero() -> str:
    return _text("TRITON_XE_LEVEL_ZERO")


def toolchain() -> Path:
    text = _text("TRITON_XE_TOOLCHAIN")
    return Path(text) if text else cache_dir() / "toolchain"


def emulated() -> bool:
    """True if this process was started by `triton-xe emulate`."""
    return bool(_text("TRITON_XE_EMULATED"))


_UNUSUAL = tuple(f"TRITON_XE_{name}".encode() for name in ("SANITIZE", "TRACE", "SHUFFLE"))


def plain_launches() -> bool:
    """True if no variable asks for checks, traces or other orders; False if unknown."""
    return bool(_RAW) and _RAW.keys().isdisjoint(_UNUSUAL)


def launch_limits() -> tuple[dict[bytes, bytes], tuple[bytes, ...], int, float]:
    """Return what compiled launch code reads of the environment.

    These are the process's variables and the names of those that matter (two limits first, then
    those that enable checks).  Then come the number of threads (0: one per core), and the time
    limit in seconds.
    """
    names = b"TRITON_XE_THREADS", b"TRITON_XE_TIME_LIMIT", *_UNUSUAL
    return _RAW, names, int(_number("TRITON_XE_THREADS", 0, least=1)), time_limit()


def sanitize() -> bool:
    return _text("TRITON_XE_SANITIZE") not in ("", "0")


@cache
def _checks(text: str) -> frozenset[str]:
    """Return the words of `TRITON_XE_SANITIZE`."""
    words = frozenset(text.split(","))
    for word in words - {"", "0", "1", "finite", "storage", "strict"}:
        warn_once(f"TRITON_XE_SANITIZE={word} means nothing more than 1; what does is finite, "
                  "storage and strict, with `,` between")
    return words


def whole_storage() -> bool:
    """True if a kernel may access all of a tensor's storage, not only the view passed to it."""
    return "storage" in _checks(_text("TRITON_XE_SANITIZE"))


def strict_barriers() -> bool:
    """True if the checks ignore the barriers that the compiler inserted."""
    return "strict" in _checks(_text("TRITON_XE_SANITIZE"))


def findings() -> str:
    return _text("TRITON_XE_FINDINGS")


def running_test() -> str:
    """Return the id of the test that pytest runs in this process."""
    return _text("PYTEST_CURRENT_TEST")


def abort_on_assert() -> bool:
    return _word("TRITON_XE_ASSERT", ("abort",)) == "abort"


def print_bytes() -> int:
    return int(_number("TRITON_XE_PRINT_BYTES", 1 << 20, least=64))


def sanitize_finite() -> bool:
    return "finite" in _checks(_text("TRITON_XE_SANITIZE"))


def shuffle() -> int:
    return int(_number("TRITON_XE_SHUFFLE", 0))


def time_limit() -> float:
    return _number("TRITON_XE_TIME_LIMIT", 600)


def device_clock() -> bool:
    """True if simulated devices have a clock of their own."""
    return _word("TRITON_XE_CLOCK", ("host", "exact")) != "host"


def _word(name: str, known: tuple[str, ...]) -> str:
    """Return the word in a variable; warn if it is not one of `known`."""
    text = _text(name)
    if text not in ("", *known):
        warn_once(f"{name}={text} means nothing; what does is {', '.join(known)}")
    return text


def exact_clock() -> bool:
    """True if the device clock counts the instructions of native code."""
    return _text("TRITON_XE_CLOCK") == "exact"


def lines() -> bool:
    """True if every instruction of a kernel gets its source location."""
    return _text("TRITON_XE_LINES") == "1"


def trace() -> str:
    return _text("TRITON_XE_TRACE")


def record() -> str:
    return _text("TRITON_XE_RECORD")


def record_torch_too() -> None:
    """Make Inductor launch through Triton's launcher, because its own is not recorded."""
    if record():
        os.environ.setdefault("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")


def record_filter() -> str:
    return _text("TRITON_XE_RECORD_FILTER")


def record_limit() -> int:
    return int(_number("TRITON_XE_RECORD_LIMIT", 4 << 30))


def record_after() -> bool:
    return _text("TRITON_XE_RECORD_AFTER") != "0"


@contextmanager
def changed(name: str, value: str) -> Iterator[None]:
    """Set a variable temporarily; an empty value leaves it as it is."""
    before = os.environ.get(name)
    os.environ.update({name: value} if value else {})
    try:
        yield
    finally:
        if value and before is None:
            del os.environ[name]
        elif value and before is not None:
            os.environ[name] = before


def no_color() -> bool:
    """True if `NO_COLOR` is set."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def process_environment() -> dict[str, str]:
    """Return a copy of this process's environment, to start another program with."""
    return dict(os.environ)


def cxx() -> str:
    return os.environ.get("CXX", "")


def library_folders() -> tuple[Path, ...]:
    return tuple(Path(name) for name in os.environ.get("LD_LIBRARY_PATH", "").split(":") if name)
