"""Intel's assembler and disassembler of Xe machine code, `libiga64`, called through ctypes.

The library is part of Intel's graphics compiler and of `triton-xe toolchain`.  Interface: IGC,
`visa/iga/IGALibrary/api/iga.h` and `iga_types_ext.hpp`; formatting options: `iga_bxml_ops.hpp`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.target import TARGETS, is_target, target
from triton_xe.runtime.level_zero.zebin import SOURCE, sends_from_r510

PLATFORMS: Mapping[str, tuple[int, int]] = {
    "Xe-HPG": (1, 2), "Xe-LPG": (1, 2), "Xe-LPG+": (1, 2), "Xe-HPC": (1, 4), "Xe2-HPG": (2, 0),
    "Xe2-LPG": (2, 0), "Xe3-LPG": (3, 0), "Xe3P-LPG": (3, 3), "Xe3P-XPC": (3, 3),
}
"""Architecture -> major and minor number of the instruction set (`iga_gen_t`)."""
_LIBRARY = "libiga64.so.2"
_HEX_FLOATS, _PCS, _JSON_V2 = 0x4, 0x8, 0x200
_TEXT, _JSON = _HEX_FLOATS, _JSON_V2 | _HEX_FLOATS | _PCS
_ELEMENT = '\n    {"kind":'
"""How each element begins in the JSON."""
_BARE_DESCRIPTOR = re.compile(r'^\s*"kind":"IM", "value":"\w+"$', re.MULTILINE)
"""The descriptor of a `sendg`, which libiga64 2.40 writes without braces."""
_UNREAD, _READ = 510, 509
"""libiga64 2.40 refuses a `sendgx` with r510 as source 0 (repaired by IGC's 98fff71643f1)."""
_SYNTAX_EXTENSIONS = 3
_SCOREBOARDS = 16


class _ContextOptions(ctypes.Structure):
    _fields_ = (("cb", ctypes.c_size_t), ("gen", ctypes.c_uint32))


class _DisassembleOptions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in (
        "cb", "formatting", "reserved0", "reserved1", "decoder", "base_pc"))


class _AssembleOptions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in (
        "cb", "warnings", "encoder", "syntax", "reserved0", "reserved1", "sbid_count", "swsb"))


class _Diagnostic(ctypes.Structure):
    _fields_ = (("line", ctypes.c_uint32), ("column", ctypes.c_uint32),
                ("offset", ctypes.c_uint32), ("extent", ctypes.c_uint32),
                ("message", ctypes.c_char_p))


def unavailable() -> str | None:
    """None if `libiga64` can be loaded, else why not."""
    try:
        _library()
    except DeviceError as error:
        return str(error)
    return None


@cache
def _library() -> ctypes.CDLL:
    own = knobs.toolchain() / "usr/lib/x86_64-linux-gnu" / _LIBRARY
    try:
        return ctypes.CDLL(str(own) if own.exists() else _LIBRARY)
    except OSError as error:
        raise DeviceError(
            f"Intel's disassembler {_LIBRARY} cannot be loaded ({error}); the emulator needs it: "
            "run `triton-xe toolchain`, or install Intel's graphics compiler (libigc2)") from error


def is_emulated(device: str) -> bool:
    """True if the machine code of a device can be read and executed."""
    return is_target(device) and target(device).architecture in PLATFORMS


def devices() -> list[str]:
    """The devices whose machine code can be executed."""
    return [name for name in TARGETS if is_emulated(name)]


class _Context:
    """One `iga_context_t` of a device, released at the end of a `with` block."""

    def __init__(self, device: str) -> None:
        if not is_emulated(device):
            raise DeviceError(f"no emulated device {device!r}; known: {', '.join(devices())}")
        major, minor = PLATFORMS[target(device).architecture]
        self._options = _ContextOptions(ctypes.sizeof(_ContextOptions), major << 24 | minor)
        self.handle = ctypes.c_void_p()

    def __enter__(self) -> ctypes.c_void_p:
        _check(_library().iga_context_create(
            ctypes.byref(self._options), ctypes.byref(self.handle)), self.handle, "no context")
        return self.handle

    def __exit__(self, *_: object) -> None:
        _library().iga_context_release(self.handle)


def _check(status: int, context: ctypes.c_void_p, what: str) -> None:
    if status:
        raise DeviceError(f"libiga64: {what} (status {status}){_errors(context)}")


def _errors(context: ctypes.c_void_p) -> str:
    found, count = ctypes.POINTER(_Diagnostic)(), ctypes.c_uint32()
    if not context or _library().iga_context_get_errors(
            context, ctypes.byref(found), ctypes.byref(count)):
        return ""
    lines = [f"line {found[i].line}: {(found[i].message or b'').decode(errors='replace')}"
             for i in range(count.value)]
    return ": " + "; ".join(lines) if lines else ""


def _disassemble(device: str, code: bytes, formatting: int, *, is_part: bool = False) -> str:
    with _Context(device) as context:
        options = _DisassembleOptions(ctypes.sizeof(_DisassembleOptions), formatting)
        text = ctypes.c_char_p()
        status = _library().iga_context_disassemble(
            context, ctypes.byref(options), code, ctypes.c_uint32(len(code)), None, None,
            ctypes.byref(text))
        if not (is_part and text.value):
            _check(status, context, f"code for {device} cannot be decoded")
        return (text.value or b"").decode()


def decode(device: str, code: bytes) -> list[dict[str, Any]]:
    """The elements of the code as IGA's JSON describes them: instructions and labels."""
    text, changed = _json(device, code)
    return [_restore_source(element, changed) for element in json.loads(text)["elems"]]


def _json(device: str, code: bytes, *, is_part: bool = False) -> tuple[str, set[int]]:
    """The code as JSON, and where `_restore_source` has to change it back."""
    readable, changed = _readable(device, code)
    text = _disassemble(device, readable, _JSON, is_part=is_part)
    return _BARE_DESCRIPTOR.sub(r"{\g<0>}", text), changed


def _restore_source(element: dict[str, Any], changed: set[int]) -> dict[str, Any]:
    if element["kind"] == "I" and element["pc"] in changed:
        element["srcs"][0]["areg"]["r"] = _UNREAD
    return element


def _readable(device: str, code: bytes) -> tuple[bytes, set[int]]:
    """Code with `_READ` for each source that cannot be read, and where it was changed."""
    if target(device).grf_modes[-1] <= _UNREAD:
        return code, set()
    places = set(sends_from_r510(code))
    changed = bytearray(code)
    for at in places:
        changed[at + SOURCE] = _READ & 255
    return bytes(changed), places


def decode_part(device: str, code: bytes) -> Iterator[dict[str, Any]]:
    """The elements of code with branches that lead out of it, and of bytes that are no code.

    It ends at the first element that is no JSON: libiga64 writes some wrong code like that.
    """
    read = json.JSONDecoder().raw_decode
    text, changed = _json(device, code, is_part=True)
    for element in text.split(_ELEMENT)[1:]:
        try:
            yield _restore_source(read(_ELEMENT.strip() + element)[0], changed)
        except json.JSONDecodeError:
            return


def disassemble(device: str, code: bytes) -> str:
    """The code as text that `assemble` turns into the same bytes; the padding is left out."""
    lines = _disassemble(device, code, _TEXT).splitlines()
    return "\n".join(line for line in lines if "illegal" not in line) + "\n"


def assemble(device: str, text: str) -> bytes:
    """The bytes of assembly text; `DeviceError` names the lines that are wrong."""
    with _Context(device) as context:
        options = _AssembleOptions(
            ctypes.sizeof(_AssembleOptions), 0, 0, _SYNTAX_EXTENSIONS, 0, 0, _SCOREBOARDS, 0)
        code, size = ctypes.c_void_p(), ctypes.c_uint32()
        _check(_library().iga_context_assemble(
            context, ctypes.byref(options), text.encode(), ctypes.byref(code),
            ctypes.byref(size)), context, f"text for {device} cannot be assembled")
        return ctypes.string_at(code, size.value)
