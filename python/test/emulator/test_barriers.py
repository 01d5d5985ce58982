"""Barriers, hangs, fairness, and orders of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

from python.test.emulator import rows
from python.test.emulator.assembled import launch, register, run
from triton_xe.runtime.emulator import AddressSpace, Fault, LocalIds, Program, iga

pytestmark = pytest.mark.intel_compiler


def barrier(threads: int, wait: bool = True) -> str:
    word = threads << 24 | threads << 16
    return (f"(W) mov (8|M0) r100.0<1>:ud 0:ud\n(W) mov (1|M0) r100.2<1>:ud 0x{word:X}:ud\n"
            "(W) send.gtwy (1|M0) null r100 null:0 0x0 0x02000004\n"
            + ("sync.bar null\n" if wait else ""))


def message(operation, vector=0, results=0, addresses=1):
    return operation | 2 << 7 | 2 << 9 | vector << 12 | 1 << 15 | results << 20 | addresses << 25


EXCHANGE = (
    "(W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 0xFF:ud\n"
    "(W) shl (1|M0) r4.0<1>:ud r2.0<0;1,0>:ud 2:w\n"
    "(W) add (1|M0) r6.0<1>:ud r2.0<0;1,0>:ud 100:w\n"
    f"(W) send.slm (1|M0) null r4 r6:1 0x0 0x{message(4):08X}\n"
    "{barrier}"
    "(W) add (1|M0) r8.0<1>:ud r2.0<0;1,0>:ud 1:w\n"
    "(W) and (1|M0) r8.0<1>:ud r8.0<0;1,0>:ud 7:w\n"
    "(W) shl (1|M0) r8.0<1>:ud r8.0<0;1,0>:ud 2:w\n"
    f"(W) send.slm (1|M0) r20 r8 null:0 0x0 0x{message(0, results=1):08X}\n")
ORDERS = [None, "in order", "reversed", "shuffled:1", "shuffled:2"]


def exchanged(text, order):
    done = launch("bmg", text, groups=(3, 1, 1), threads=8, slm_bytes=32)
    done.run(range(24) if order == "in order" else order)
    return register(done, 20, np.uint32, 1).reshape(3, 8)


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_orders_threads(order):
    text = EXCHANGE.format(barrier=barrier(8))
    np.testing.assert_array_equal(exchanged(text, order), [100 + (np.arange(8) + 1) % 8] * 3)


@pytest.mark.parametrize("order", ORDERS[1:])
def test_orders_show_a_missing_barrier(order):
    found = exchanged(EXCHANGE.format(barrier=""), order)
    assert (found != 100 + (np.arange(8) + 1) % 8).any()


def test_orders_show_a_barrier_taken_out_of_a_kernel():
    """Lockstep does not show it: there each thread stores before another one loads."""
    kernel = rows.compiled("prefix sum", "bmg")
    given, text = rows.arguments(kernel), iga.disassemble("bmg", kernel.program.code)
    assert text.count("sync.bar") == 1
    without = Program("bmg", iga.assemble("bmg", re.sub("sync.bar .*", "sync.nop null", text)),
                      kernel.program.name)
    expected = rows.run_simulated(kernel, given)
    for order in (None, "reversed", "shuffled:1"):
        for program in (kernel.program, without):
            found, _ = rows.run_native(kernel, given, order, program)
            is_right = all(map(np.array_equal, found, expected))
            assert is_right == (program is not without or order is None)


def test_a_split_barrier():
    """The signal comes early, the wait after other instructions."""
    text = EXCHANGE.format(barrier=barrier(8, wait=False)).replace(
        "(W) shl (1|M0) r8.0", "sync.bar null\n(W) shl (1|M0) r8.0")
    np.testing.assert_array_equal(exchanged(text, "reversed"), [100 + (np.arange(8) + 1) % 8] * 3)


def test_a_barrier_that_is_never_met_is_reported():
    text = ("(W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 0xFF:ud\n"
            "(W) cmp (1|M0) (eq)f0.0 null<1>:d r2.0<0;1,0>:d 2:w\n"
            "(W&f0.0) jmpi (1|M0) end\n" + barrier(4) + "end:\n(W) mov (1|M0) r20.0<1>:d 1:w")
    for order in (None, "reversed"):
        with pytest.raises(Fault, match=r"never ends.*threads? .*after barrier 0, at which 3 of 4 "
                                        "threads of work-group 0 have arrived") as caught:
            launch("bmg", text, threads=4).run(order)
        assert caught.value.what == "hang"


def test_a_loop_that_never_ends_is_reported():
    text = "again:\n(W) add (1|M0) r20.0<1>:d r20.0<0;1,0>:d 1:w\n(W) jmpi (1|M0) again"
    with pytest.raises(Fault, match=r"more than the limit of 1000; threads 0, 1 at 0x0 \(add\)"):
        launch("bmg", text, threads=2).run(limit=1000)
    waiting = launch("bmg", text, threads=2)
    waiting.program.lines = {0: "kernel.py:3"}
    with pytest.raises(Fault, match=r"still running after 0.01 s: an endless loop.*; threads 0, 1 "
                                    r"at 0x0 \(add, kernel.py:3\)"):
        waiting.run(seconds=0.01)


@pytest.mark.covering
@pytest.mark.parametrize("spinner", [0, 1])
@pytest.mark.parametrize("order", [None, "in order", "reversed"])
def test_a_thread_that_spins_does_not_starve_the_one_that_answers(spinner, order):
    """One thread loads until another, at a higher program counter, has stored."""
    space = AddressSpace()
    flag = space.put(np.zeros(16, np.uint32))
    load = 0 | 3 << 7 | 2 << 9 | 1 << 15 | 1 << 20 | 1 << 25
    store = 4 | 3 << 7 | 2 << 9 | 1 << 15 | 1 << 25
    text = (
        "(W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 0xFF:ud\n"
        f"(W) cmp (1|M0) (ne)f0.0 null<1>:d r2.0<0;1,0>:d {spinner}:w\n"
        "(W&f0.0) jmpi (1|M0) other\n"
        f"again:\n(W) send.ugm (1|M0) r20 r4 null:0 0x0 0x{load:08X}\n"
        "(W) cmp (1|M0) (eq)f0.0 null<1>:d r20.0<0;1,0>:d 0:w\n"
        "(W&f0.0) jmpi (1|M0) again\n"
        "(W) jmpi (1|M0) end\n"
        "other:\n(W) mov (1|M0) r6.0<1>:d 200:w\n"
        "wait:\n(W) add (1|M0) r6.0<1>:d r6.0<0;1,0>:d -1:w\n"
        "(W) cmp (1|M0) (gt)f0.0 null<1>:d r6.0<0;1,0>:d 0:w\n"
        "(W&f0.0) jmpi (1|M0) wait\n"
        "(W) mov (1|M0) r6.0<1>:d 7:w\n"
        f"(W) send.ugm (1|M0) null r4 r6:1 0x0 0x{store:08X}\n"
        "end:\n(W) mov (1|M0) r21.0<1>:d 1:w")
    done = launch("bmg", text, {4: np.array([flag], np.uint64)}, threads=2, space=space)
    done.run(range(2) if order == "in order" else order, limit=100_000)
    assert register(done, 20, np.uint32, 1)[spinner, 0] == 7
    assert done.instructions < 20_000


def test_threads_that_wait_for_a_lock_do_not_delay_the_one_that_has_it():
    """Eight threads take a lock in turn, and add to a number."""
    space, scalar = AddressSpace(), 3 << 7 | 2 << 9 | 1 << 25
    lock, total = (space.put(np.zeros(16, np.uint32)) for _ in range(2))
    exchange = 18 | 3 << 7 | 2 << 9 | 1 << 20 | 2 << 25
    text = (
        f"again:\n(W) send.ugm (1|M0) r20 r4 r8:2 0x0 0x{exchange:08X}\n"
        "(W) cmp (1|M0) (ne)f0.0 null<1>:d r20.0<0;1,0>:d 0:w\n"
        "(W&f0.0) jmpi (1|M0) again\n"
        f"(W) send.ugm (1|M0) r21 r6 null:0 0x0 0x{scalar | 1 << 15 | 1 << 20:08X}\n"
        "(W) add (1|M0) r21.0<1>:d r21.0<0;1,0>:d 1:w\n"
        f"(W) send.ugm (1|M0) null r6 r21:1 0x0 0x{scalar | 1 << 15 | 4:08X}\n"
        f"(W) send.ugm (1|M0) null r4 r8:1 0x0 0x{scalar | 1 << 15 | 4:08X}")
    registers = {4: np.array([lock], np.uint64), 6: np.array([total], np.uint64),
                 8: np.array([0], np.uint32), 9: np.array([1], np.uint32)}
    done = launch("bmg", text, registers, threads=8, space=space)
    done.run(limit=100_000)
    assert register(done, 21, np.uint32, 1)[:, 0].tolist() == list(range(1, 9))
    assert done.instructions < 1000


def test_named_barriers():
    """Two pairs of threads, each with a barrier of its own; producers do not wait."""
    text = (
        "(W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 0xFF:ud\n"
        "(W) shr (1|M0) r3.0<1>:ud r2.0<0;1,0>:ud 1:w\n"
        "(W) add (1|M0) r3.0<1>:ud r3.0<0;1,0>:ud 1:w\n"
        "(W) mov (8|M0) r100.0<1>:ud 0:ud\n"
        "(W) or (1|M0) r100.2<1>:ud r3.0<0;1,0>:ud 0x02020000:ud\n"
        "(W) shl (1|M0) r4.0<1>:ud r2.0<0;1,0>:ud 2:w\n"
        "(W) add (1|M0) r6.0<1>:ud r2.0<0;1,0>:ud 100:w\n"
        f"(W) send.slm (1|M0) null r4 r6:1 0x0 0x{message(4):08X}\n"
        "(W) send.gtwy (1|M0) null r100 null:0 0x0 0x02000004\n"
        "(W) mov (1|M0) f1.0<1>:uw r3.0<0;1,0>:uw\n"
        "sync.bar f1.0\n"
        "(W) xor (1|M0) r8.0<1>:ud r4.0<0;1,0>:ud 4:w\n"
        f"(W) send.slm (1|M0) r20 r8 null:0 0x0 0x{message(0, results=1):08X}\n")
    for order in (None, "reversed", "shuffled:5"):
        done = launch("pvc", text, threads=4, slm_bytes=16).run(order)
        np.testing.assert_array_equal(register(done, 20, np.uint32, 1)[:, 0], [101, 100, 103, 102])


def test_counters():
    text = "(W) mov (16|M0) r20.0<1>:d 1:w\n(W) add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w"
    done = run("bmg", text, threads=3, groups=(2, 1, 1))
    assert done.executed() == {"mov": 6, "add": 6, "send.gtwy": 6}
    assert done.instructions == 18


@pytest.mark.parametrize(("device", "grf"), [("bmg", 64), ("dg2", 32)])
def test_the_payload(device, grf):
    text = ("(W) mov (8|M0) r20.0<1>:ud r0.0<1;1,0>:ud\n"
            "(W) mov (8|M0) r21.0<1>:ud r3.0<1;1,0>:ud\n"
            "(W) mov (16|M0) r22.0<1>:uw r1.0<1;1,0>:uw\n"
            "(W) mov (16|M0) r23.0<1>:uw r2.0<1;1,0>:uw")
    done = run(device, text, groups=(2, 3, 2), threads=2, first_group=(5, 0, 1),
               indirect_offset=128, inline_data=bytes(range(32)),
               local_ids=LocalIds((8, 4, 1), (0, 1)))
    header, groups = register(done, 20, np.uint32, 8), np.arange(24) // 2
    np.testing.assert_array_equal(header[:, 0], 128)
    np.testing.assert_array_equal(header[:, 1], groups % 2 + 5)
    np.testing.assert_array_equal(header[:, 6], groups // 2 % 3)
    np.testing.assert_array_equal(header[:, 7], groups // 6 + 1)
    np.testing.assert_array_equal(header[:, 2] & 255, np.arange(24) % 2)
    np.testing.assert_array_equal(header[:, 2] >> 24, 2)
    np.testing.assert_array_equal(register(done, 21, np.uint8, 32)[5], np.arange(32))
    items = np.arange(16) + 16 * (np.arange(24)[:, None] % 2)
    np.testing.assert_array_equal(register(done, 22, np.uint16), items % 8)
    np.testing.assert_array_equal(register(done, 23, np.uint16), items // 8)


def test_an_end_inside_a_barrier_is_a_fault():
    text = ("(W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 0xFF:ud\n"
            "(W) cmp (1|M0) (eq)f0.0 null<1>:d r2.0<0;1,0>:d 2:w\n"
            "(W&f0.0) jmpi (1|M0) end\n" + barrier(4, wait=False)
            + "end:\n(W) mov (1|M0) r20.0<1>:d 1:w")
    with pytest.raises(Fault, match="work-group 0 has ended inside barrier 0: 3 of 4 threads"):
        launch("bmg", text, threads=4).run()


def test_contents_of_registers_and_local_memory_are_undefined():
    text = ("(W) mov (8|M0) r20.0<1>:ud r90.0<1;1,0>:ud\n(W) mov (1|M0) r4.0<1>:ud 0:ud\n"
            f"(W) send.slm (1|M0) r21 r4 null:0 0x0 0x{message(0, results=1):08X}")
    programs = [launch("bmg", text, slm_bytes=64, undefined=seed) for seed in (0, 1, 1)]
    for each in programs:
        each.threads.bytes[:, 90 * 64 : 91 * 64] = each.threads.bytes[:, 5 * 64 : 6 * 64]
    found = [[register(each.run() if i == 0 else each, 20 + i, np.uint32, 1)[0, 0]
              for i in range(2)] for each in programs]
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]
    assert found[1] == found[2]
