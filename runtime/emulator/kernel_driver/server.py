"""The process of the emulated GPU: programs that preload `emulated_gpu.c` connect to its socket.

A program's request is a number and an address in its memory.  The answer is an error number, or the
sentence with which the program ends.  Each connection has a thread; the GPU does one thing at a
time.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from triton_xe import knobs
from triton_xe.errors import DeviceError, XeError
from triton_xe.hardware.target import Target
from triton_xe.runtime import native
from triton_xe.runtime.emulator.kernel_driver.device import OpenDevice, RequestRefused
from triton_xe.runtime.emulator.kernel_driver.dispatch import Dispatcher
from triton_xe.runtime.emulator.kernel_driver.memory import EmulatorFault

_REQUEST = struct.Struct("<QQQ")
_ENDS = -1
"""Instead of an error number: the program ends."""
_POLL_SECONDS = 0.001
_SWITCH_SECONDS = 0.001
"""After which a running kernel lets other threads answer a request."""


class EmulatedGpu(AbstractContextManager["EmulatedGpu"]):
    """A GPU of one type for programs started with `environment`."""

    def __init__(self, target: Target) -> None:
        if native.emulated_gpu is None:
            raise DeviceError(native.NO_EMULATED_GPU)
        self.target, self.dispatcher = target, Dispatcher(target)
        self._lock = threading.Lock()
        self._opened: dict[int, OpenDevice] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="triton-xe-emulated-")
        self.socket = str(Path(self._folder.name) / "gpu")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.socket)
        self._listener.listen(64)
        self._ended = threading.Event()
        sys.setswitchinterval(_SWITCH_SECONDS)
        for work in (self._accept, self._poll):
            threading.Thread(target=work, daemon=True).start()

    def environment(self, root: Path | None = None, libraries: str = "") -> dict[str, str]:
        """Variables that make a program use this GPU, with Intel's driver below `root` if given."""
        assert native.emulated_gpu is not None
        others = knobs.process_environment().get("LD_PRELOAD", "").split(":")
        found = {
            "TRITON_XE_EMULATED": self.socket,
            "LD_PRELOAD": ":".join(filter(None, (str(native.emulated_gpu), *others))),
            # else the driver polls a ring of commands in memory, and asks for nothing
            "NEOReadDebugKeys": "1", "EnableDirectSubmission": "0",
        }
        return found | (_toolchain(root, root / libraries) if root else {})

    def summary(self) -> str:
        """One sentence: what ran."""
        ran = self.dispatcher
        return (f"emulated {self.target.name} ({self.target.product}): {ran.kernels} kernels, "
                f"{ran.launches} launches, {ran.instructions} instructions of threads")

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        """Start a thread for each program that connects, until the GPU is closed."""
        with suppress(OSError):
            while not self._ended.is_set():
                connection = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection; the first one may open the device."""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        process = struct.unpack("3i", credentials)[0]
        opened: list[OpenDevice] = []
        with connection, suppress(ConnectionError):
            while packet := connection.recv(_REQUEST.size):
                number, address, inode = _REQUEST.unpack(packet)
                if number:
                    connection.send(self._answer(process, number & 0xFF, address, inode))
                elif (device := self._open(process, connection)) is not None:
                    opened.append(device)
        for device in opened:
            del self._opened[device.arena.inode]
            device.close()

    def _open(self, process: int, connection: socket.socket) -> OpenDevice | None:
        """Create a device for a program, and send it the memory's file; None after an error."""
        try:
            device = OpenDevice(self.target, process, self.dispatcher, self._lock)
        except Exception as error:
            connection.send(_end(error))
            return None
        self._opened[device.arena.inode] = device
        socket.send_fds(connection, [struct.pack("<i", 0)], [device.arena.descriptor])
        return device

    def _answer(self, process: int, number: int, address: int, inode: int) -> bytes:
        """Carry out a request; return its error number, or the sentence that ends the program."""
        try:
            device = self._opened.get(inode)
            if device is None or device.program.process != process:
                raise EmulatorFault(
                    "a process that fork() made uses the GPU that its parent has opened, which "
                    "Intel's driver does not allow either; start it with spawn or exec")
            device.request(number, address)
        except RequestRefused as refusal:
            return struct.pack("<i", refusal.number)
        except Exception as error:
            return _end(error)
        return struct.pack("<i", 0)

    def _poll(self) -> None:
        """Let queues that wait go on; kill the program of a device that fails."""
        while not self._ended.wait(_POLL_SECONDS):
            for device in list(self._opened.values()):
                try:
                    device.poll()
                except Exception as error:
                    print(_sentence(error), end="", file=sys.stderr, flush=True)
                    with suppress(ProcessLookupError):
                        os.kill(device.program.process, signal.SIGKILL)


def _end(error: Exception) -> bytes:
    """The answer after which a program prints the error and ends."""
    return struct.pack("<i", _ENDS) + _sentence(error).encode()[-4000:]


def _sentence(error: Exception) -> str:
    """The text with which a program ends; for a mistake of the emulator, the traceback too."""
    if isinstance(error, XeError):
        return f"triton-xe emulate: {error}\n"
    import traceback

    text = "".join(traceback.format_exception(error))[-3000:]
    return f"{text}triton-xe emulate: a mistake of the emulator, please report it: {error!r}\n"


def _toolchain(root: Path, libraries: Path) -> dict[str, str]:
    """How to find the driver and the loader of Intel's toolchain, also for programs started."""
    found = {
        "XE_EMULATOR_LOADER": str(root / "lib64/ld-linux-x86-64.so.2"),
        "XE_EMULATOR_LIBRARIES": str(libraries),
        "ZE_ENABLE_ALT_DRIVERS": str(libraries / "libze_intel_gpu.so.1"),
        "TRITON_XE_LEVEL_ZERO": str(libraries / "libze_loader.so.1"),
    }
    opencl = libraries / "intel-opencl/libigdrcl.so"
    return found | ({"OCL_ICD_VENDORS": str(opencl)} if opencl.exists() else {})
