"""`LevelZeroDevice`: an Intel GPU with the device protocol of `triton_xe.runtime.device`."""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from triton_xe import knobs
from triton_xe.errors import DeviceError, LegalityError, too_large
from triton_xe.hardware.register_file import MOST_SPILLED, refuse_lost_spills
from triton_xe.progress import progress
from triton_xe.runtime.device import Grid, MemoryBlock, TensorArguments, triton_properties
from triton_xe.runtime.level_zero import launcher, native_cache, raw
from triton_xe.runtime.level_zero.errors import LevelZeroError, QueueRecordingError
from triton_xe.runtime.level_zero.native_build import Built, build, file_to_try
from triton_xe.runtime.level_zero.native_cache import NativeEntry
from triton_xe.runtime.level_zero.objects import (
    BorrowedContext,
    CommandList,
    Context,
    Event,
    EventPool,
    KernelObject,
    Memory,
    Module,
    PhysicalDevice,
    allocation_range,
    describe_pointer,
    physical_devices,
    refuse_after_fork,
)
from triton_xe.runtime.level_zero.sycl_events import QueueOrder, can_order
from triton_xe.runtime.level_zero.sycl_queue import (
    SyclQueue,
    TorchStream,
    state_address,
    sycl_queue,
)
from triton_xe.runtime.level_zero.targets import device_target, nearest_target
from triton_xe.runtime.level_zero.zebin import is_zebin, kernel_facts, undefined_symbols
from triton_xe.runtime.native.arguments import read_tensors
from triton_xe.runtime.spirv_reader import EntryPoint, entry_point
from triton_xe.runtime.versions import General, entry_name, versions_of
from triton_xe.spirv import CONDITIONAL

WAITING = (
    "launches wait for torch's queue before and after each kernel, because this SYCL runtime does "
    "not give what is needed to order them on the device ({why}); use the torch version this "
    "package names"
)
NEWER = (
    "{name} (IP version {version}) is newer than this version of triton-xe: its kernels are those "
    "of {target}, whose instructions it has; update triton-xe to use what is new"
)
_EVENTS_PER_POOL = 64
opened_devices: dict[str, list[LevelZeroDevice]] = {}
_alive: weakref.WeakSet[LevelZeroDevice] = weakref.WeakSet()
_lock = threading.Lock()
_building = threading.RLock()
"""Lock for looking up and building native code.

A second thread finds what the first one built.  Intel's compiler never runs twice at a time,
because IGC 2.38 ends the process then.
"""
_unwritten: dict[str, NativeEntry] = {}
"""Native code that could not be written to the cache's folder."""


@dataclass(frozen=True)
class BuildReport:
    """How a kernel's native code was built."""

    from_cache: bool
    flags: str
    spills_at_128: int
    """Spilled bytes per thread with 128 registers if that led to a build with 256, otherwise 0."""


class LevelZeroKernel:
    """A kernel ready to launch; `start` is the generated launch function (see `launcher`)."""

    def __init__(
        self,
        device: LevelZeroDevice,
        module: Module,
        entry: EntryPoint,
        registers: int,
        report: BuildReport,
    ) -> None:
        self.ze_kernel = KernelObject(module, entry.name)
        properties = self.ze_kernel.properties
        self.name = entry.name.removesuffix(CONDITIONAL)
        self.argument_types = entry.argument_types
        self.is_recorded = False
        self.report, self.group_size = report, _group_size(entry, properties)
        self.n_registers, self.n_spills = registers, int(properties.spillMemSize)
        self.max_threads = self.ze_kernel.max_group_size or device.target.max_work_group_size
        self.slm_bytes = int(properties.localMemSize)
        self.private_bytes = int(properties.privateMemSize)
        if properties.numKernelArgs != len(entry.argument_types):
            raise DeviceError(
                f"kernel {entry.name!r} has {len(entry.argument_types)} parameters in SPIR-V but "
                f"{properties.numKernelArgs} in the native code; clear the cache folder"
            )
        self.ze_kernel.set_group_size(*self.group_size)
        self.launch_state = launcher.kernel_state(
            device.state, self.ze_kernel.value, entry.argument_types
        )
        self.start = launcher.make_launcher(
            device.state, self.launch_state, self.name, self.argument_types
        )
        self.ze_kernel.wait_before_close(_synchronizer(weakref.ref(device)))

    @property
    def versions(self) -> Any:
        return self.launch_state.versions

    def close(self) -> None:
        """Release the kernel; the code of one that a graph may replay stays with the device."""
        self.launch_state.handle = 0
        if self.is_recorded:
            return
        if self.launch_state.versions is not None:
            self.launch_state.versions.close()
        self.ze_kernel.close()


class LevelZeroDevice:
    """One Intel GPU, with its own in-order immediate command list.

    A `stream` is the address of a `sycl::queue`, as torch gives it, or 0 for the device's own list.
    The first `load` adopts the queue of a loaded torch with XPU support; call `adopt_queue` before
    it for other queues.
    """

    is_simulated = is_dry = False
    clock = None

    def __init__(self, physical: PhysicalDevice, index: int = 0) -> None:
        self.physical, self.index = physical, index
        self.target = device_target(physical)
        self.name = physical.name
        if not nearest_target(physical)[1]:
            version = ".".join(map(str, physical.ip_version))
            warnings.warn(NEWER.format(name=self.name, version=version, target=self.target.name),
                          RuntimeWarning, stacklevel=4)
        self.context: Context = physical.driver.context()
        self.list = CommandList(self.context, physical)
        self.state = launcher.device_state()
        self.state.list, self.state.context = self.list.value, self.context.value
        self.state.device = physical.handle.value or 0
        self.find_queue: Callable[[int], SyclQueue] = sycl_queue
        """Function that returns the SYCL queue at an address."""
        self.queues: dict[int, SyclQueue | TorchStream] = {}
        self.orders: dict[int, QueueOrder] = {}
        self._recorded: set[LevelZeroKernel] = set()
        self._has_kernels = self.has_warned = False
        self.event_pool: EventPool | None = None
        self._next_event = 0
        _alive.add(self)

    def allocate(self, nbytes: int, align: int = 64, kind: str = "device") -> Memory:
        """Device, shared or host memory; its `free()` waits for kernels that may still use it."""
        made = Memory(
            self.context, self.physical, nbytes, align, kind, _before_free(weakref.ref(self))
        )
        self.state.remember(made.pointer, made.pointer + max(nbytes, 1))
        return made

    def borrow(self, low: int, high: int) -> None:
        """Do nothing: the driver knows its own memory, and launches query it."""

    def block_of(self, pointer: int) -> MemoryBlock | None:
        """The driver's allocation that contains an address."""
        found = allocation_range(self.context, pointer)
        kind = describe_pointer(self.context.handle, pointer).kind
        return None if found is None or kind == "unknown" else MemoryBlock(*found, kind)

    def copy_to_device(self, pointer: int, data: Any) -> None:
        """Copy bytes or a C-contiguous array to `pointer`; done on return."""
        source = _bytes_of(data)
        if source.nbytes:
            self._check_span(pointer, source.nbytes)
            self.list.copy(pointer, source.ctypes.data, source.nbytes)
            self.list.synchronize()

    def copy_to_host(self, array: Any, pointer: int) -> None:
        """Fill a writable C-contiguous array from `pointer`; done on return."""
        target = _bytes_of(array)
        if not target.flags.writeable:
            raise ValueError("cannot copy into a read-only array")
        if target.nbytes:
            self._check_span(pointer, target.nbytes)
            self.list.copy(target.ctypes.data, pointer, target.nbytes)
            self.list.synchronize()

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Set memory to one byte, in order with launches and without waiting."""
        if nbytes:
            self._check_span(pointer, nbytes)
            self.list.fill(pointer, bytes([byte]), nbytes)

    def load(
        self, binary: bytes, kernel_name: str, *, build_flags: str = "",
        general: General | None = None,
    ) -> LevelZeroKernel:
        """Load one kernel of a SPIR-V module, and its general version on demand (see `Device`)."""
        kernel = self._load(binary, kernel_name, build_flags)
        launcher.assume(kernel.launch_state, versions_of(
            binary, kernel_name,
            lambda module, flags: self.load(module, kernel_name, build_flags=flags), general,
        ))
        return kernel

    def _load(self, binary: bytes, kernel_name: str, build_flags: str) -> LevelZeroKernel:
        """Build a SPIR-V module, or take it from the cache, and get one kernel of it.

        If 128 registers spill, or do not build, the module is built once more with the large file
        (`native_build`).  If the driver refuses both, raise `LevelZeroError` with the build log,
        which is also Triton's `OutOfResources`.
        """
        refuse_after_fork()
        self._adopt_torch()
        kernel = self._native_kernel(
            binary, entry_name(binary, kernel_name), build_flags)[0]
        if kernel.n_spills >= MOST_SPILLED:
            warnings.warn(
                f"kernel {kernel_name!r} keeps {kernel.n_spills} bytes per thread in memory that do"
                " not fit into registers, and will be slow: use smaller blocks or more warps",
                stacklevel=3,
            )
        return kernel

    def native_code(self, binary: bytes, kernel_name: str, build_flags: str = "") -> NativeEntry:
        """The native binary that the driver builds from a SPIR-V module, from the cache if
        possible.
        """
        kernel, native = self._native_kernel(binary, kernel_name, build_flags)
        kernel.close()
        return native

    @property
    def native_identity(self) -> str:
        """Text that native code depends on besides the module and its flags: driver, device, IP
        version.
        """
        device = self.physical
        return f"{device.driver.version} {device.device_id:#x} {device.ip_version}"

    def _native_kernel(
        self, binary: bytes, name: str, flags: str
    ) -> tuple[LevelZeroKernel, NativeEntry]:
        """The kernel with its native code, from the cache if this driver accepts that."""
        if is_zebin(binary):
            raise DeviceError("this is a native binary; load the SPIR-V module it was made from")
        key = native_cache.entry_key(binary, name, flags, self.native_identity)
        with _building:
            kernel, native = self._cached_or_built(key, binary, name, flags)
        return self._refuse_lost_spills(kernel), native

    def _refuse_lost_spills(self, kernel: LevelZeroKernel) -> LevelZeroKernel:
        """Return the kernel, or refuse it if its spilled registers may be lost."""
        try:
            refuse_lost_spills(kernel.name, kernel.n_spills, self.target)
        except LegalityError:
            kernel.close()
            raise
        return kernel

    def _cached_or_built(
        self, key: str, binary: bytes, name: str, flags: str
    ) -> tuple[LevelZeroKernel, NativeEntry]:
        """The kernel from cached native code, else built from SPIR-V and cached."""
        cached = native_cache.read(key) or _unwritten.get(key)
        why = f"no native code is cached for {self.native_identity}"
        if cached is not None:
            try:
                return self._cached_kernel(cached), cached
            except DeviceError as error:
                native_cache.remove(key)
                _unwritten.pop(key, None)
                why = f"the driver refused the cached native code: {error}"
        if knobs.debug():
            print(f"triton-xe: {name}: {self.name} builds it from SPIR-V: {why}", file=sys.stderr)
        entry = entry_point(binary, name)
        with progress(f"building kernel {entry.name!r} for {self.name}"):
            built = self._build(binary, entry, flags)
        made = NativeEntry(
            built.native, built.flags, built.spills_at_128, built.made.n_registers, entry)
        if not native_cache.write(key, made):
            _unwritten[key] = made
        return built.made, made

    def _cached_kernel(self, cached: NativeEntry) -> LevelZeroKernel:
        module = Module(self.context, self.physical, cached.binary, "", native=True)
        report = BuildReport(True, cached.flags, cached.spills_at_128)
        return LevelZeroKernel(self, module, cached.entry, cached.registers, report)

    def load_native(self, binary: bytes, entry: EntryPoint) -> LevelZeroKernel:
        """Load a kernel of a native binary that was compiled ahead of time for this very device."""
        refuse_after_fork()
        if not is_zebin(binary):
            raise DeviceError("this is no native binary for an Intel GPU")
        self._adopt_torch()
        module = Module(self.context, self.physical, binary, "", native=True)
        registers = kernel_facts(binary)[entry.name].grf_count
        return self._refuse_lost_spills(
            LevelZeroKernel(self, module, entry, registers, BuildReport(False, "", 0)))

    def launch(
        self, kernel: Any, grid: Grid, args: Sequence[Any], *, stream: int = 0,
        cooperative: bool = False, tensors: TensorArguments | None = None,
    ) -> None:
        """Launch without waiting; an empty grid does nothing.

        The work-groups of a `cooperative` launch may wait for each other, so the device must run
        all of them at once.

        If a queue has all its work in one in-order command list, the kernel is appended to that
        list.  Otherwise it is appended to the device's own list, and events keep the order on the
        device.  Two threads must not use one queue at the same time, because the lock of the SYCL
        runtime cannot be taken from here.
        """
        if cooperative:
            kernel.launch_state.is_cooperative = 1
        queue = self.queue_at(stream) if stream else None
        if queue is not None and queue.is_recording:
            _check_recorded(kernel.name, queue)
            kernel.is_recorded = True
            self._recorded.add(kernel)
        if queue is not None and not queue.keeps_order:
            self._launch_on_own_list(kernel, grid, args, queue)
            return
        kernel.start(queue.native if queue else 0, *grid, *args)

    def refuse_recording(self, kernel: str, stream: int) -> None:
        """Raise `QueueRecordingError` if launches on the queue are recorded and only run later."""
        if stream and self.queue_at(stream).is_recording:
            raise QueueRecordingError(
                f"cannot launch kernel {kernel!r}: it prints or asserts, so that its launch waits, "
                "which it cannot while its queue is recorded into a graph; launch it before"
            )

    def adopt_queue(self, address: int) -> None:
        """Use the context of a `sycl::queue` from now on, so that its memory can be used.

        Raise `DeviceError` if the queue is on another device, or if kernels were already loaded in
        another context.
        """
        queue = self._find_queue(address)
        if queue.device != self.physical.handle.value:
            raise DeviceError(f"the SYCL queue at {address:#x} is not on {self.name}")
        self.queues[address] = queue
        if queue.context == self.context.value:
            return
        if self._has_kernels:
            raise DeviceError(
                f"kernels were loaded on {self.name} before torch's queue was known; import torch "
                "before the first kernel"
            )
        self._close_orders()
        self.list.close()
        self.context = BorrowedContext(queue.context)
        self.list = CommandList(self.context, self.physical)
        self.event_pool = None
        self.state.stream = 0
        self.state.list, self.state.context = self.list.value, self.context.value
        self.forget_pointers()

    def _adopt_torch(self) -> None:
        """Before the first kernel: use the context of a loaded torch, and read its tensors."""
        torch = sys.modules.get("torch")
        has_xpu = torch is not None and bool(getattr(torch.version, "xpu", None))
        if torch is not None and has_xpu and not self._has_kernels:
            self.adopt_queue(torch.xpu.current_stream(self.index).sycl_queue)
        self._has_kernels = True
        if hasattr(torch, "nn"):
            self._trust_tensors(torch, has_xpu)

    def _find_queue(self, address: int) -> SyclQueue | TorchStream:
        """The queue at an address; a queue of torch can be used without the SYCL runtime too."""
        try:
            return self.find_queue(address)
        except DeviceError as error:
            torch = sys.modules.get("torch")
            if torch is None or not getattr(torch.version, "xpu", None):
                raise
            self._warn_of_waiting(str(error))
            own = self.physical.handle.value or 0
            return TorchStream(address, self.index, own, self.context.value)

    def _trust_tensors(self, torch: Any, has_xpu: bool) -> None:
        """Trust tensors on torch's XPU device if its queue is on this device."""
        read_tensors(torch.Tensor, torch.nn.Parameter)
        is_same = any(isinstance(queue, SyclQueue) for queue in self.queues.values())
        if has_xpu and is_same and not self.state.dlpack_type:
            launcher.trust_device_of(self.state, torch.empty(1, device=f"xpu:{self.index}"))

    def queue_at(self, address: int) -> SyclQueue | TorchStream:
        """The queue at an address; the launch code caches the last one that keeps order."""
        queue = self.queues.get(address)
        if queue is None:
            self.adopt_queue(address)
            queue = self.queues[address]
        if queue.keeps_order:
            self.state.queue_state = state_address()
            self.state.stream_list, self.state.stream = queue.native, address
        return queue

    def _launch_on_own_list(
        self, kernel: Any, grid: Grid, args: Sequence[Any], queue: SyclQueue | TorchStream
    ) -> None:
        """Launch on our list, after all earlier and before all later work of a queue.

        Appending to the queue's own command list would not be enough.  The queue does not know of
        such work, and may copy on another engine.
        """
        refuse_after_fork()
        order = self._order(queue)
        if order is None:
            self._launch_and_wait(kernel, grid, args, queue)
            return
        before = order.begin(self.list)
        try:
            kernel.start(0, *grid, *args)
        finally:
            order.end(self.list, before)

    def _launch_and_wait(
        self, kernel: Any, grid: Grid, args: Sequence[Any], queue: SyclQueue | TorchStream
    ) -> None:
        """Launch on our list, with the host waiting for the queue before and for the list after."""
        queue.wait()
        kernel.start(0, *grid, *args)
        self.list.synchronize()

    def _order(self, queue: SyclQueue | TorchStream) -> QueueOrder | None:
        """The object that keeps launches in order with the queue; None if the host has to wait for
        it.
        """
        found = self.orders.get(queue.address)
        if found is not None:
            return found
        if not isinstance(queue, SyclQueue) or not can_order():
            self._warn_of_waiting("it does not export barriers and events")
            return None
        return self.orders.setdefault(queue.address, QueueOrder(queue, self.context))

    def _warn_of_waiting(self, why: str) -> None:
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(WAITING.format(why=why), RuntimeWarning, stacklevel=5)

    def _close_orders(self) -> None:
        while self.orders:
            self.orders.popitem()[1].close()

    def synchronize(self) -> None:
        """Wait for all launches, on the device's own list and on queues."""
        self.list.synchronize()
        for queue in self.queues.values():
            if queue.keeps_order:
                queue.wait()

    def wait_for(self, stream: int) -> None:
        """Wait for the work of a queue, and for the device's own list."""
        queue = self.queue_at(stream) if stream else None
        if queue is not None and queue.is_recording:
            raise QueueRecordingError(
                "its queue is recorded into a graph, and nothing runs that can be waited for")
        if queue is not None:
            queue.wait()
        self.synchronize()

    def record_event(self) -> Event:
        """Record an event with a time stamp that completes after all work before it."""
        with _lock:
            if self.event_pool is None or self._next_event == self.event_pool.count:
                self.event_pool, self._next_event = EventPool(self.context, _EVENTS_PER_POOL), 0
                self.event_pool.wait_before_close(_synchronizer(weakref.ref(self)))
            event = Event(self.event_pool, self._next_event)
            self._next_event += 1
        self.list.barrier(event)
        return event

    def elapsed_ms(self, start: Event, end: Event) -> float:
        """Milliseconds between two events on the device's clock; waits for both."""
        start.synchronize()
        end.synchronize()
        properties = self.physical.properties
        mask = (1 << (properties.kernelTimestampValidBits or 64)) - 1
        ticks = (end.ticks() - start.ticks()) & mask
        return float(ticks * properties.timerResolution / 1e6)

    def check_pointer(self, pointer: int) -> None:
        """`DeviceError` unless a kernel on this device can use the address."""
        found = describe_pointer(self.context.handle, pointer)
        if found.kind == "unknown":
            raise DeviceError(
                f"{pointer:#x} points to plain host memory, which the GPU cannot read; pass a "
                "tensor on device 'xpu', or memory allocated for the device"
            )

    def _check_span(self, pointer: int, nbytes: int) -> None:
        """`DeviceError` unless the bytes are inside one allocation."""
        refuse_after_fork()
        found = allocation_range(self.context, pointer)
        if found is None:
            raise DeviceError(
                f"there is no memory of the device at {pointer:#x}; was it freed, or is it an "
                "address of the host?"
            )
        if pointer + nbytes > found[1]:
            raise DeviceError(
                f"{nbytes} bytes at {pointer:#x} do not fit: the allocation ends after "
                f"{found[1] - pointer} bytes"
            )

    def forget_pointers(self) -> None:
        """Ask the driver about every allocation again."""
        self.state.forget(0, (1 << 64) - 1)

    def properties(self) -> dict[str, Any]:
        return {
            **triton_properties(self.name, self.target),
            "total_memory": self.target.memory_bytes,
            "driver_version": self.physical.driver.version_text,
        }

    def build_facts(self, kernel: LevelZeroKernel) -> dict[str, Any]:
        """How a kernel was built, for records of launches."""
        return {"flags": kernel.report.flags, "identity": self.native_identity,
                "driver": self.physical.driver.version_text}

    def unwritten(self, block: MemoryBlock) -> None:
        """Return None, because a GPU has no map of unwritten bytes."""

    def close(self) -> None:
        """Wait for the device and release its command list; kernels then refuse to launch."""
        if not self.list.is_closed and self.state.list:
            self.list.synchronize()
            self._close_orders()
        self.state.list = 0
        self.event_pool = None
        self.list.close()

    def _build(self, binary: bytes, entry: EntryPoint, flags: str) -> Built[LevelZeroKernel]:
        """Build a kernel with the register file that spills less; see `native_build`.

        A failure becomes an error that advises smaller blocks.
        """
        try:
            built = build(partial(self._build_once, binary, entry), flags,
                          file_to_try(entry, flags, self.target), _is_refused)
        except LevelZeroError as error:
            self._refuse(entry, error)
        built.made.report = BuildReport(False, built.flags, built.spills_at_128)
        return built

    def _refuse(self, entry: EntryPoint, error: LevelZeroError) -> NoReturn:
        """Raise the error of a failed build; with the most registers, as a configuration to
        skip.
        """
        if not error.is_build_failure:
            raise error
        what = (f"kernel {entry.name!r} does not build for {self.name}, with as many registers as "
                "it may use: use smaller blocks, more warps or fewer num_stages")
        refused = LevelZeroError(error.call, error.code, error.build_log, what)
        raise too_large(refused, 1, 0, "registers and scratch memory") from error

    def _build_once(
        self, binary: bytes, entry: EntryPoint, flags: str
    ) -> tuple[bytes, LevelZeroKernel]:
        """Build a kernel with these flags; refuse undefined functions."""
        module = Module(self.context, self.physical, binary, flags, native=False)
        native = module.native_binary()
        missing = undefined_symbols(native)
        if missing:
            raise DeviceError(
                f"kernel {entry.name!r} calls functions that nothing defines: {', '.join(missing)}"
            )
        registers = kernel_facts(native)[entry.name].grf_count
        report = BuildReport(False, flags, 0)
        return native, LevelZeroKernel(self, module, entry, registers, report)


def _is_refused(error: DeviceError) -> bool:
    return isinstance(error, LevelZeroError) and error.is_build_failure


def open_devices() -> list[LevelZeroDevice]:
    """The Intel GPUs of this machine, each opened once until it is closed; empty without a GPU.

    The driver honours `ZE_AFFINITY_MASK` and `ZE_FLAT_DEVICE_HIERARCHY`.  Raise `DeviceError` if
    the Level Zero loader itself is missing.
    """
    refuse_after_fork()
    path = raw.api().path
    found = physical_devices()
    with _lock:
        opened = {device.index: device for device in opened_devices.get(path, ())}
        opened_devices[path] = [
            opened[n] if n in opened and not opened[n].list.is_closed else LevelZeroDevice(each, n)
            for n, each in enumerate(found)
        ]
        return list(opened_devices[path])


def _check_recorded(kernel: str, queue: SyclQueue | TorchStream) -> None:
    """Raise `QueueRecordingError` unless the graph that a queue is recorded into gets the launch,
    too.
    """
    if queue.keeps_order and queue.records_natively:
        return
    raise QueueRecordingError(
        f"cannot launch kernel {kernel!r}: its queue is recorded into a SYCL graph that takes "
        "commands of SYCL only. It would run now, and be missing from every replay. Record with "
        "the graph property enable_native_recording (in-order queue, second Level Zero adapter, "
        "oneAPI 2026.1 or later), or launch it outside of the capture"
    )


def _group_size(entry: EntryPoint, properties: Any) -> tuple[int, int, int]:
    """The work-group size that the native code or the module fixes; refuse if neither does."""
    required = (
        int(properties.requiredGroupSizeX), int(properties.requiredGroupSizeY),
        int(properties.requiredGroupSizeZ),
    )
    size = required if all(required) else entry.group_size
    if not all(size):
        raise LegalityError(
            f"kernel {entry.name!r} does not say its work-group size; give it the metadata "
            "!reqd_work_group_size"
        )
    return size


def _bytes_of(data: Any) -> Any:
    """An array of the data's bytes, without copying."""
    import numpy as np  # not earlier: a launch does without

    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous:
            raise ValueError("the array must be C-contiguous; use numpy.ascontiguousarray")
        return data.reshape(-1).view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


def _synchronizer(device: weakref.ref[LevelZeroDevice]) -> Callable[[], None]:
    """Function that waits for a device while it exists and is open."""

    def wait() -> None:
        found = device()
        if found is not None and not found.list.is_closed:
            found.synchronize()

    return wait


def _before_free(device: weakref.ref[LevelZeroDevice]) -> Any:
    """A function that waits for the device before memory is freed; does not keep it alive."""
    synchronize = _synchronizer(device)

    def wait(pointer: int) -> None:
        found = device()
        if found is not None:
            found.state.forget(pointer, pointer + 1)
        synchronize()

    return wait


def _disable_in_child() -> None:
    """Make launches of a forked child fail, because it must not touch the parent's driver."""
    for device in list(_alive):
        device.state.list = 0


os.register_at_fork(after_in_child=_disable_in_child)
