"""Compile host modules with LLVM, cache the objects on disk, and load them into the process.

Objects are cached in `<cache>/simulator` (`code_cache`).  The key hashes the module text, the host
CPU and llvmlite's version.  It also hashes the sources of the simulator, of `triton_xe.llvm`, and
of the tables of devices and intrinsics.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.locks import ForkLock, fork_waits_for
from triton_xe.runtime import checked_files, code_cache
from triton_xe.runtime.simulator.library.symbols import is_symbol, parts
from triton_xe.runtime.simulator.run import elf
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, host_cpu, in_libmvec
from triton_xe.runtime.simulator.run.near import near_each_other

# llvmlite has no lock of its own that survives a fork while another thread is in LLVM
fork_waits_for(llvm.ffi.lib._lock.__enter__, llvm.ffi.lib._lock.__exit__)
code_lock = ForkLock()


@cache
def source_hash() -> str:
    """Hash of the sources that objects depend on: the simulator's, and packages that it uses."""
    tables = [_file_of(f"triton_xe.{table}") for table in ("hardware", "intrinsics", "llvm")]

    def files() -> list[str]:
        folders = Path(__file__).parents[1], *(Path(table).parent for table in tables)
        return [file for folder in folders
                for _, file in sorted(checked_files.sources_below(str(folder)))]

    def digest() -> str:
        return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files())).hexdigest()

    kept = checked_files.cached_digest(
        knobs.cache_dir() / "sources", [__file__, *tables], files, digest)
    return f"{llvmlite.__version__} {kept}"


def _file_of(module: str) -> str:
    """Path of a module, without importing it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    return str(spec.origin)


def fresh_machine(host: HostCpu) -> llvm.TargetMachine:
    """Create a code generator of LLVM for a CPU."""
    return llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.name, features=host.features, opt=2, reloc="pic", codemodel="small", jit=True
    )


_target_machine = cache(fresh_machine)


def object_key(text: str, kind: str) -> str:
    host = host_cpu()
    digest = hashlib.sha256()
    for part in (source_hash(), host.triple, host.name, host.features, kind, text):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def compile_object(text: str, kind: str) -> bytes:
    """Compile a host module of a kind (kernel, coroutine or library), or find it in the cache."""
    return _cached_object(text, kind, lambda: text)


def _cached_object(known_by: str, kind: str, text: Callable[[], str]) -> bytes:
    """Compile a module, or find its object in the cache; `known_by` identifies its text."""
    path = code_cache.file("simulator", object_key(known_by, kind), ".o")
    kept = code_cache.read(path)
    if kept is not None:
        return kept
    made = compiled(text(), kind)
    code_cache.write(path, made)
    return made


def compiled(text: str, kind: str) -> bytes:
    """Compile a module to an object."""
    with code_lock:
        machine = _target_machine(host_cpu())
        try:
            module = llvm.parse_assembly(text)
            module.triple = host_cpu().triple
            module.data_layout = str(machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise DeviceError(f"the simulator wrote a wrong host module: {error}") from None
        _passes(kind)(module, machine)
        if kind != AS_WRITTEN or "i1" in text:
            module = _load_whole_bytes(module)
        return bytes(machine.emit_object(module))


def _passes(kind: str) -> Callable[[llvm.ModuleRef, llvm.TargetMachine], None]:
    if kind == AS_WRITTEN or IN_PIECES in kind:
        return lower
    return optimise if kind == LIBRARY else shorten


def _load_whole_bytes(module: llvm.ModuleRef) -> llvm.ModuleRef:
    whole = load_whole_bytes(text := str(module))
    return module if whole is text else llvm.parse_assembly(whole)


_BITS = re.compile(r"%(\S+) = load (i(\d+)|<(\d+) x i1>), (?!ptr %index\.addr,)(ptr .*)")
"""Loads of integers and flags, except a coroutine's index, which LLVM stores in the same form."""


def load_whole_bytes(text: str) -> str:
    """Rewrite LLVM IR to load flags by whole bytes; return `text` itself if it does so already.

        %m = load <1 x i1>, ptr %p, align 4   ->   %"m.bytes" = load i8, ptr %p, align 4
                                                   %"m.bits" = trunc i8 %"m.bytes" to i1
                                                   %m = bitcast i1 %"m.bits" to <1 x i1>

    LLVM keeps `<16 x i1>` in the frame of a coroutine and loads as much of it as is used
    (`VectorCombine`).  Its code generators take the other bits of these bytes for zero (22.1), but
    they are the flags of other lanes.
    """
    return text if (made := _BITS.sub(_with_bytes, text)) == text else made


def _with_bytes(load: re.Match[str]) -> str:
    """Replace a load of flags by a load of whole bytes, from a match of its text."""
    name, t, *widths, rest = load.groups()
    bits = int(widths[0] or widths[1])
    if bits % 8 == 0:
        return load.group()
    whole, some = (f'%"{name.strip(chr(34))}.{part}"' for part in ("bytes", "bits"))
    nbits = -(-bits // 8) * 8
    return (f"{whole} = load i{nbits}, {rest}\n  {some} = trunc i{nbits} {whole} to i{bits}\n"
            f"  %{name} = bitcast i{bits} {some} to {t}")


IN_PIECES = " in pieces"
"""Suffix of the kind of kernels that are split into pieces (see `pieces`)."""
LIBRARY = "library"
"""The kind of library functions, which have loops and are short."""
AS_WRITTEN = f"{LIBRARY} as written"
"""Kind of library functions that LLVM's passes do not improve."""
_UNIMPROVED = frozenset({"san", "dpas"})
"""Families of functions that LLVM's passes do not improve: checks, and DPAS without branches."""


def lower(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Split coroutines, promote variables to registers, and fold constant branches.

    LLVM's other passes gain little if vectors are in memory, and in the checks.  InstCombine
    takes 5 s for 12,000 instructions in one block, and 0.8 s for 4,200 in which selects of selects
    are many (`sanitizer.parts`).
    """
    _split_coroutines(module, machine)
    manager = llvm.create_new_module_pass_manager()
    manager.add_sroa_pass()
    manager.add_sccp_pass()
    manager.add_simplify_cfg_pass()
    manager.add_aggressive_dce_pass()
    manager.run(module, _builder(machine))


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run LLVM's pipeline of level 1, which hoists loop-invariant code."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    manager.run(module, builder)


def shorten(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Simplify a kernel, split its coroutine, and simplify the parts.

    The pipeline of level 1 takes three to four times as long, most of it in further runs of
    InstCombine.  Its code is 2 to 6 % shorter, and 13 % for scaled products of e2m1.
    """
    _simplify(module, machine)
    _split_coroutines(module, machine)
    _simplify(module, machine)


def _simplify(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    manager = llvm.create_new_module_pass_manager()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.add_aggressive_dce_pass()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, _builder(machine))


def _split_coroutines(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run LLVM's pipeline of level 0, which splits coroutines and inlines `alwaysinline` calls."""
    builder = _builder(machine)
    builder.getModulePassManager().run(module, builder)


def _builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    return llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))


class NativeCode:
    """Objects that are loaded into the process together; finds addresses by symbol.

    `DeviceError` if they call a function that this process lacks, for which LLVM would assume
    address 0.
    """

    def __init__(self, *objects: bytes) -> None:
        empty = llvm.parse_assembly("")
        self.engine = llvm.create_mcjit_compiler(empty, fresh_machine(host_cpu()))
        self.engine.remove_module(empty)  # otherwise LLVM sets up all of its passes for it
        provide(elf.undefined_names(*objects))
        with near_each_other(sum(map(elf.bytes_in_memory, objects))):
            for data in objects:
                self.engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
            self.engine.finalize_object()

    def address(self, symbol: str) -> int:
        found = int(self.engine.get_function_address(symbol))
        if not found:
            raise DeviceError(f"the simulator's code has no symbol {symbol}")
        return found


def provide(names: list[str]) -> None:
    """Compile and load library functions that are called; refuse unknown ones."""
    for name in names:
        if llvm.address_of_symbol(name) or in_libmvec(name):
            continue
        if not is_symbol(name) and not _is_named_by_llvm(name):
            raise DeviceError(
                f"the simulator's code for this CPU ({host_cpu().name}) calls {name}, which this "
                "process does not have"
            )
        helper_address(name)


def _is_named_by_llvm(name: str) -> bool:
    from triton_xe.runtime.simulator.library.half import NAMED_BY_LLVM

    return name in NAMED_BY_LLVM


loaded_code: dict[str, NativeCode] = {}


def helper_address(name: str, host: HostCpu | None = None) -> int:
    """Address of a library function, compiled and loaded once per process.

    Its code depends on its name and the host alone, so that a cached object needs no text.
    """
    with code_lock:
        if name not in loaded_code:
            _hold(name, NativeCode(_helper_object(name, host or host_cpu())))
        return loaded_code[name].address(name)


def _helper_object(name: str, on: HostCpu) -> bytes:
    kind = AS_WRITTEN if parts(name)[0] in _UNIMPROVED else LIBRARY
    return _cached_object(f"{name} {on}", kind, lambda: _source(name, on))


def _hold(name: str, code: NativeCode) -> None:
    loaded_code[name] = code
    llvm.add_symbol(name, code.address(name))


def _source(name: str, host: HostCpu) -> str:
    from triton_xe.runtime.simulator.library import sources

    return sources.source(name, host).text


def load_kernel(text: str, helpers: tuple[str, ...], kind: str, runner: str) -> NativeCode:
    """Compile (or find) and load a host module, with the library functions it calls.

    The first kernel is loaded together with its runner, because a second loader takes longer.
    """
    with code_lock:
        for name in helpers:
            helper_address(name)
        kernel = compile_object(text, kind)
        if runner in loaded_code:
            return NativeCode(kernel)
        code = NativeCode(kernel, _helper_object(runner, host_cpu()))
        _hold(runner, code)
        return code
