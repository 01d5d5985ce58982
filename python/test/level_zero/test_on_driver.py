"""The runtime on Intel's own driver: everything is real but the execution of the kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from triton_xe.hardware.target import TARGETS

pytestmark = pytest.mark.intel_driver
Run = Callable[..., dict[str, Any]]
CHECKS = {
    "ZE_ENABLE_VALIDATION_LAYER": "1",
    "ZE_ENABLE_PARAMETER_VALIDATION": "1",
    "ZEL_ENABLE_BASIC_LEAK_CHECKER": "1",
}


def balanced(printed: str) -> bool:
    """Whether the loader's leak checker saw as many destroy calls as create calls."""
    assert "Check balance of create/destroy calls" in printed
    return "LEAK" not in printed


EMULATED = ("lnl", "ptl", "pvc", "dg2", "mtl", "arl-h")
"""Devices with which the driver answers, builds and launches in `emulator/kernel_driver` too."""


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.rest if name in EMULATED else ()) for name in TARGETS])
def test_build_launch_and_synchronize(name: str, on_driver: Run) -> None:
    out = on_driver(
        """
        kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
        a, b, c = (device.allocate(4096) for _ in range(3))
        device.copy_to_device(a.pointer, np.arange(1024, dtype=np.float32))
        device.launch(kernel, (16, 1, 1), (a.pointer, b.pointer, c.pointer, 1000))
        device.synchronize()
        device.copy_to_host(np.zeros(1024, np.float32), c.pointer)
        out.update(properties=device.properties(), ip=device.target.ip_version, lanes=lanes,
                   types=kernel.argument_types, registers=kernel.n_registers,
                   spills=kernel.n_spills, threads=kernel.max_threads, group=kernel.group_size)
        """,
        name,
        CHECKS,
    )
    expected = TARGETS[name]
    assert out["properties"]["arch"] == name
    assert tuple(out["ip"])[:2] == expected.ip_version[:2]
    assert out["properties"]["multiprocessor_count"] == expected.xe_cores
    assert out["properties"]["max_shared_mem"] == expected.max_slm_bytes
    assert out["lanes"] == expected.subgroup_size
    assert out["types"] == ["ptr", "ptr", "ptr", "i32"]
    assert (out["spills"], out["group"]) == (0, [64, 1, 1])
    assert out["registers"] in expected.grf_modes
    assert 512 <= out["threads"] <= 1024
    assert balanced(out["stdout"] + out["stderr"])


def test_refusals_are_one_sentence(on_driver: Run) -> None:
    out = on_driver(
        """
        kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
        a = device.allocate(4096)
        p, host = a.pointer, np.zeros(64, np.float32)
        def launch(*values, grid=(1, 1, 1)):
            return refusal(lambda: device.launch(kernel, grid, values))
        class Tensor:
            def data_ptr(self):
                return p
        out["good"] = [launch(p, p, p, 5), launch(Tensor(), None, 0, 5), launch(p, p, p, -1),
                       launch(p, p, p, 2**32 - 1), launch(p, p, p, 5, grid=(0, 1, 1))]
        out["host"] = launch(p, p, host.ctypes.data, 5)
        out["array"] = launch(p, p, host, 5)
        out["count"] = launch(p, p, p)
        out["range"] = launch(p, p, p, 2**32)
        out["float"] = launch(p, p, p, 2.5)
        out["grid"] = launch(p, p, p, 5, grid=(1, -1, 1))
        out["name"] = refusal(lambda: device.load(to_spirv(sample_kernel.vector_add()), "other"))
        out["memory"] = refusal(lambda: device.allocate(1 << 60))
        out["bytes"] = refusal(lambda: device.load(b"garbage!" * 8, "vector_add"))
        check = device.check_pointer
        out["check"] = [refusal(lambda: check(p)), refusal(lambda: check(host.ctypes.data))]
        kernel.close()
        kernel.close()
        out["closed"] = launch(p, p, p, 5)
        a.free()
        a.free()
        device.close()
        device.close()
        """
    )
    assert out["good"] == ["accepted"] * 5
    assert re.match(
        r"DeviceError: cannot launch kernel 'vector_add': argument 2 \(0x\w+\) points to plain "
        r"host memory", out["host"],
    )
    assert "argument 2 (ndarray) points to plain host memory" in out["array"]
    assert "it takes 4 arguments, got 3" in out["count"]
    assert "argument 3 (4294967296) does not fit the type" in out["range"]
    assert out["float"].startswith("TypeError")
    assert "is not of three whole numbers between 0" in out["grid"]
    assert "no kernel 'other'; it has: vector_add" in out["name"]
    assert "cannot allocate 1152921504606846976 bytes" in out["memory"]
    assert "not a SPIR-V module" in out["bytes"]
    assert out["check"][0] == "accepted"
    assert "plain host memory" in out["check"][1]
    assert "it or its device is closed" in out["closed"]


def test_a_module_the_driver_refuses_gives_the_build_log(on_driver: Run) -> None:
    out = on_driver(
        """
        text = sample_kernel.vector_add(lanes)
        add = "%z = fadd float %x, %y"
        call = text.replace(add, "%z = call spir_func float @mystery(float %x)")
        unknown = to_spirv(call + "declare spir_func float @mystery(float)")
        out["unknown"] = refusal(lambda: device.load(unknown, "vector_add"))
        wide = "%d = fpext float %x to double\\n%e = fdiv double %d, 3.0\\n"
        double = to_spirv(text.replace(add, wide + "%z = fptrunc double %e to float"))
        out["double"] = refusal(lambda: device.load(double, "vector_add"))
        spirv = bytearray(to_spirv(text))
        spirv[4:8] = (99 << 16).to_bytes(4, "little")
        out["version"] = refusal(lambda: device.load(bytes(spirv), "vector_add"))
        """,
        "dg2",
    )
    assert "calls functions that nothing defines: mystery" in out["unknown"]
    refused = "the module could not be compiled (ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"
    assert refused in out["double"]
    assert "build log:" in out["double"]
    assert "Double type is not supported" in out["double"].split("build log:")[1]
    assert "SPIR-V version 99.0 is not supported" in out["version"]


def test_spills_lead_to_one_rebuild_with_256_registers(on_driver: Run) -> None:
    out = on_driver(
        """
        spirv = to_spirv(sample_kernel.register_pressure(150, lanes))
        def facts(**options):
            k = device.load(spirv, "register_pressure", **options)
            return [k.n_registers, k.n_spills, k.report.spills_at_128, k.report.from_cache]
        out["first"], out["second"] = facts(), facts()
        out["fixed"] = facts(build_flags="-cl-intel-128-GRF-per-thread")
        out["large"] = facts(build_flags="-ze-opt-large-register-file")
        few = to_spirv(sample_kernel.register_pressure(4, lanes))
        out["few"] = device.load(few, "register_pressure").n_registers
        """
    )
    registers, spills, at_128, from_cache = out["first"]
    assert (registers, spills, from_cache) == (256, 0, False)
    assert at_128 > 0
    assert out["second"] == [256, 0, at_128, True]
    assert out["fixed"] == [128, at_128, 0, False]
    assert out["large"] == [256, 0, 0, False]
    assert out["few"] == 128


def test_many_launches_from_eight_threads_keep_memory_flat(on_driver: Run) -> None:
    out = on_driver(
        """
        import resource
        spirv = to_spirv(sample_kernel.vector_add(lanes))
        kernels = [device.load(spirv, "vector_add") for _ in range(8)]
        buffers = [device.allocate(4096 * (i + 1)) for i in range(8)]
        def rss():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        errors = []
        def work(me, count):
            try:
                for i in range(count):
                    a, b, c = (buffers[(me + i + k) % 8].pointer for k in range(3))
                    device.launch(kernels[me], (i % 7, 1 + i % 3, 1), (a, b, c, i))
                    if i % 500 == 0:
                        device.synchronize()
            except Exception as error:
                errors.append(repr(error))
        def together(count):
            threads = [threading.Thread(target=work, args=(n, count)) for n in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            device.synchronize()
        together(250)
        before = rss()
        together(1250)
        out["grown"] = rss() - before
        def again():
            kernel = device.load(spirv, "vector_add")
            device.launch(kernel, (1, 1, 1), [b.pointer for b in buffers[:3]] + [1])
            device.synchronize()
            kernel.close()
        for _ in range(20): again()
        before = rss()
        for _ in range(60): again()
        out["grown_by_loading"] = rss() - before
        out["errors"] = errors
        """,
        extra=CHECKS,
    )
    assert out["errors"] == []
    assert out["grown"] < 4 << 20
    assert out["grown_by_loading"] < 2 << 20
    assert balanced(out["stdout"] + out["stderr"])


def test_a_forked_child_is_refused_and_the_parent_goes_on(on_driver: Run) -> None:
    out = on_driver(
        """
        kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
        a = device.allocate(4096)
        p = a.pointer
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = [refusal(lambda: device.launch(kernel, (1, 1, 1), (p, p, p, 1))),
                    refusal(lambda: device.allocate(64)), refusal(device.synchronize),
                    refusal(open_devices)]
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        out["child"] = json.loads(os.read(read, 10000))
        device.launch(kernel, (1, 1, 1), (p, p, p, 1))
        device.synchronize()
        """
    )
    assert "fork()" in out["child"][0]
    assert all("start worker processes with the 'spawn'" in said for said in out["child"][1:])


def test_events_shared_memory_and_copies(on_driver: Run) -> None:
    out = on_driver(
        """
        from triton_xe.runtime.level_zero.objects import Memory, describe_pointer
        kinds = {}
        for kind in ("device", "shared", "host"):
            memory = Memory(device.context, device.physical, 256, kind=kind)
            kinds[kind] = describe_pointer(device.context.handle, memory.pointer + 8).kind
        out["kinds"] = kinds
        kernel = device.load(to_spirv(sample_kernel.vector_add(lanes)), "vector_add")
        kept = [Memory(device.context, device.physical, 4096, kind=k) for k in ("shared", "host")]
        shared, host = (memory.pointer for memory in kept)
        kept.append(Memory(device.context, device.physical, 4096))
        device.launch(kernel, (1, 1, 1), (shared, host, kept[2].pointer + 64, 5))
        out["known"] = [device.state.knows(m.pointer + 4095) for m in kept]
        out["behind"] = device.state.knows(kept[2].pointer + 4096)
        out["stream"] = refusal(
            lambda: device.launch(kernel, (1, 1, 1), (shared, host, shared, 5), stream=4096))
        events = [device.record_event() for _ in range(130)]
        out["done"] = any(event.is_done() for event in events)
        device.synchronize()
        buffer = device.allocate(64)
        out["alignment"] = device.allocate(100, 1 << 16).pointer % (1 << 16)
        temporary = device.allocate(4096).pointer
        out["freed"] = refusal(
            lambda: device.launch(kernel, (1, 1, 1), (temporary, host, shared, 5)))
        out["empty"] = device.allocate(0).pointer > 0
        out["copies"] = [
            refusal(lambda: device.copy_to_device(buffer.pointer, b"abc")),
            refusal(lambda: device.copy_to_host(np.zeros(0), buffer.pointer)),
            refusal(lambda: device.copy_to_host(np.zeros((8, 8))[:, 0], buffer.pointer)),
            refusal(lambda: device.copy_to_host(np.frombuffer(b"abc"*8), buffer.pointer)),
            refusal(lambda: device.allocate(64, 3)),
        ]
        """,
        extra=CHECKS,
    )
    assert out["kinds"] == {"device": "device", "shared": "shared", "host": "host"}
    assert (out["known"], out["behind"]) == ([False, False, True], False)
    assert "no SYCL runtime is loaded" in out["stream"]
    assert out["done"] is False
    assert (out["alignment"], out["empty"]) == (0, True)
    assert "plain host memory" in out["freed"]
    assert out["copies"][:2] == ["accepted", "accepted"]
    assert "C-contiguous" in out["copies"][2]
    assert "read-only" in out["copies"][3]
    assert "power of two" in out["copies"][4]


def test_second_process_takes_the_native_binary_and_damage_is_repaired(on_driver: Run) -> None:
    code = """
        from triton_xe import knobs
        spirv = to_spirv(sample_kernel.vector_add(lanes))
        out["from_cache"] = device.load(spirv, "vector_add").report.from_cache
        files = sorted(knobs.cache_dir().glob("native/*/*"))
        out["files"] = len(files)
        size = files[0].stat().st_size
        damage = os.environ.get("DAMAGE")
        if damage:
            data = files[0].read_bytes()
            files[0].write_bytes(data[: size // 2] if damage == "cut" else b"x" + data)
        """
    assert on_driver(code)["from_cache"] is False
    assert on_driver(code, extra={"DAMAGE": "cut"})["from_cache"] is True
    assert on_driver(code, extra={"DAMAGE": "head"})["from_cache"] is False
    again = on_driver(code)
    assert (again["from_cache"], again["files"]) == (False, 1)
    assert on_driver(code)["from_cache"] is True
