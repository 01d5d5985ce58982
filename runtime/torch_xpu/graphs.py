"""`torch.xpu.XPUGraph` and memory pools of the simulated device, and hooks around launches.

The library records operators (capture.cpp); launches of Triton's kernels are recorded here, with
the number of operators before each.  A pool is a name: its graphs do not share memory.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from triton_xe.runtime.observers import Observer, leave_to_python
from triton_xe.runtime.torch_xpu.library import Library

Pool = tuple[int, int]
Launch = Callable[[], None]


class Launches(Observer):
    """Hooks around a launch while torch captures a graph or profiles."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self.functions = library.functions
        self.graph: Captured | None = None
        self._profiling = ctypes.c_int.in_dll(library.functions, "xe_profiling")
        leave_to_python(ctypes.addressof(self._profiling))
        self._known = threading.local()
        """True if the current launch has hooks already: its recorder was given them."""

    def wants_launch(self) -> bool:
        some = self.graph is not None or bool(self._profiling.value)
        return some and not getattr(self._known, "launch", False)

    def keep(self, held: object, then: Launch | None) -> bool:
        """Make a captured graph own the objects of a launch; True if a graph is being captured."""
        if self.graph is None:
            return False
        self.graph.held.append(held)
        if then is not None:
            self.graph.note(then)
        return True

    def run(self, device: Any, name: str, launch: Launch) -> None:
        """Launch, and report it to the graph and the profiler."""
        if self.graph is not None:
            self.graph.note(partial(self.run, device, name, launch))
        before, start = device.record_event(), time.time_ns()
        self._known.launch = True
        try:
            launch()
        finally:
            self._known.launch = False
        if self._profiling.value:
            lasted = round(device.elapsed_ms(before, device.record_event()) * 1e6)
            self.functions.xe_note_kernel(name.encode(), start, start + lasted, device.index)


class Captured:
    """The library's graph, and the launches between its operators."""

    def __init__(self, library: Library, handle: int) -> None:
        self.library, self.handle = library, handle
        self.launches: list[tuple[int, Launch]] = []
        self.held: list[object] = []
        """Objects that the launches use."""

    def note(self, launch: Launch) -> None:
        self.launches.append((self._size(), launch))

    @property
    def is_empty(self) -> bool:
        return not self.launches and self._size() == 0

    def _size(self) -> int:
        return int(self.library.functions.xe_graph_size(self.handle))

    def replay(self) -> None:
        done = 0
        for operators, launch in self.launches:
            self._replay_operators(done, operators)
            launch()
            done = operators
        self._replay_operators(done, self._size())

    def _replay_operators(self, first: int, last: int) -> None:
        if first < last:
            self.library.check(
                self.library.functions.xe_graph_replay(self.handle, first, last))

    def drop(self) -> None:
        self.library.functions.xe_graph_drop(self.handle)


class Graphs:
    """Factory of the classes and functions that `torch._C` has for graphs and pools."""

    def __init__(self, library: Library, launches: Launches) -> None:
        self.library = library
        self.launches = launches
        self._numbers = itertools.count(1)

    def names(self) -> dict[str, Any]:
        """Classes and functions that torch expects in `torch._C`."""
        return {
            "_XPUGraph": _graph_class(self), "_XPUMemPool": _pool_class(self),
            "_xpu_graph_pool_handle": self.user_pool,
            "_xpu_isCurrentStreamCapturing": self.is_capturing,
            **{f"_xpu_{name}": _ignore_pool for name in (
                "beginAllocateCurrentThreadToPool", "beginAllocateToPool", "endAllocateToPool",
                "releasePool")}}

    def is_capturing(self) -> bool:
        return self.launches.graph is not None

    def user_pool(self) -> Pool:
        return 0, next(self._numbers)

    def graph_pool(self) -> Pool:
        return next(self._numbers), 0

    def begin(self) -> Captured:
        """Begin to capture launches."""
        made = Captured(self.library, self.library.functions.xe_graph_new())
        try:
            self.library.check(self.library.functions.xe_graph_begin(made.handle))
        except RuntimeError:
            made.drop()
            raise
        self._capture(made)
        return made

    def _capture(self, graph: Captured | None) -> None:
        self.launches.graph = graph
        self.launches.is_active = graph is not None

    def end(self, captured: Captured) -> None:
        self._capture(None)
        self.library.check(self.library.functions.xe_graph_end(captured.handle))


def _ignore_pool(device: int, pool: Pool) -> None:
    """Do nothing, because allocations are separate here."""


def _graph_class(graphs: Graphs) -> type:
    """Create the class of graphs; it needs torch."""
    import torch

    class XPUGraph:
        """torch's class of this name: captured once, replayed often."""

        _captured: Captured | None = None
        _stream: Any = None
        _pool: Pool = (0, 0)
        _ended = _instantiated = _keep = False

        def __new__(cls, keep_graph: bool = False) -> Any:
            made = super().__new__(cls)
            made._keep = keep_graph
            return made

        def capture_begin(self, pool: Pool | None = None) -> None:
            if self._instantiated:
                raise RuntimeError(
                    "This XPUGraph instance already owns a captured graph. To capture a new graph, "
                    "create a new instance.")
            self._drop()
            self._captured = graphs.begin()
            self._stream = torch.xpu.current_stream()
            self._pool = pool if pool and any(pool) else graphs.graph_pool()

        def capture_end(self) -> None:
            if self._captured is None or graphs.launches.graph is not self._captured:
                raise RuntimeError("capture_end() was called without capture_begin()")
            graphs.end(self._captured)
            if torch.xpu.current_stream() != self._stream:
                raise RuntimeError("Capture must end on the same stream it began on.")
            if self._captured.is_empty:
                import warnings

                warnings.warn(
                    "The XPU Graph is empty. This usually means that the graph was attempted to be "
                    "captured on wrong device or stream.", stacklevel=3)
            self._ended, self._instantiated = True, not self._keep

        def instantiate(self) -> None:
            if not self._ended:
                raise RuntimeError(
                    "capture_end() must have been called before calling instantiate")
            if self._instantiated and not self._keep:
                raise RuntimeError(
                    "instantiate() is intended to be called by the user only when keep_graph=true")
            self._instantiated = True

        def replay(self) -> None:
            if not self._ended or self._captured is None:
                raise RuntimeError(
                    "Called XPUGraph::replay without a preceding successful capture.")
            self._instantiated = True
            with torch.xpu.device(self._stream.device):
                self._captured.replay()

        def reset(self) -> None:
            self._drop()
            self._ended = self._instantiated = False

        def pool(self) -> Pool:
            if not self._ended:
                raise RuntimeError(
                    "Called XPUGraph::pool() without a preceding successful capture.")
            return self._pool

        def enable_debug_mode(self) -> None:
            """Do nothing, because there is nothing more to show."""

        def debug_dump(self, path: str) -> None:
            raise NotImplementedError("the simulated xpu device draws no graphs")

        raw_xpu_graph = raw_xpu_graph_exec = debug_dump

        def _drop(self) -> None:
            if self._captured is not None and graphs.launches.graph is not self._captured:
                self._captured.drop()
                self._captured = None

        def __del__(self) -> None:
            self._drop()

    XPUGraph.__name__ = "_XPUGraph"
    return XPUGraph


def _pool_class(graphs: Graphs) -> type:
    """Create the class of memory pools."""
    class XPUMemPool:
        """torch's class of this name: an identifier, because pools share no memory between graphs.
        """

        def __init__(
            self, allocator: Any = None, is_user_created: bool = True, use_on_oom: bool = False,
            no_split: bool = False,
        ) -> None:
            if allocator is not None:
                raise NotImplementedError(
                    "the simulated xpu device has no allocator but its own; make a pool of that")
            self._id = graphs.user_pool() if is_user_created else graphs.graph_pool()

        @property
        def id(self) -> Pool:
            return self._id

        @property
        def allocator(self) -> None:
            return None

        def use_count(self) -> int:
            return 1

    XPUMemPool.__name__ = "_XPUMemPool"
    return XPUMemPool
