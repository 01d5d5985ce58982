"""Control flow against a plain loop over channels."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import launch, register, run
from triton_xe.runtime.emulator import Fault

pytestmark = pytest.mark.intel_compiler
LIMITS = np.array([0, 1, 5, 3, 9, 2, 2, 7, 4, 1, 0, 6, 8, 3, 5, 1], np.int32)
START = "(W) mov (16|M0) r20.0<1>:d 0:w\n(W) mov (16|M0) r22.0<1>:d 0:w\n"


def counted(text, device="bmg", **more):
    done = run(device, START + text, {4: LIMITS}, **more)
    return register(done, 20, np.int32)


def test_a_loop_with_goto():
    text = """
    loop:
      cmp (16|M0) (ge)f0.0 null<1>:d r20.0<1;1,0>:d r4.0<1;1,0>:d
      (f0.0) goto (16|M0) done done
      add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w
      goto (16|M0) loop loop
    done:
      join (16|M0) end
    end:
    """
    np.testing.assert_array_equal(counted(text)[0], LIMITS)


def test_if_and_else():
    text = """
      cmp (16|M0) (gt)f0.0 null<1>:d r4.0<1;1,0>:d 4:w
      (f0.0) if (16|M0) other end
      mov (16|M0) r20.0<1>:d 100:w
      else (16|M0) end end
    other:
      mov (16|M0) r20.0<1>:d 200:w
    end:
      endif (16|M0) after
    after:
      add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w
    """
    np.testing.assert_array_equal(counted(text)[0], np.where(LIMITS > 4, 101, 201))


def test_while_and_break():
    text = """
    loop:
      cmp (16|M0) (ge)f0.0 null<1>:d r20.0<1;1,0>:d r4.0<1;1,0>:d
      (f0.0) break (16|M0) done done
      add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w
      cmp (16|M0) (lt)f1.0 null<1>:d r20.0<1;1,0>:d 6:w
      (f1.0) while (16|M0) loop
    done:
      add (16|M0) r22.0<1>:d r22.0<1;1,0>:d 1:w
    """
    np.testing.assert_array_equal(counted(text)[0], np.minimum(LIMITS, 6))


def test_a_jump_looks_at_the_first_channel():
    text = """
      cmp (16|M0) (eq)f0.0 null<1>:d r4.0<1;1,0>:d 0:w
      (W&f0.0) jmpi (1|M0) over
      mov (16|M0) r20.0<1>:d 1:w
    over:
      add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 10:w
    """
    np.testing.assert_array_equal(counted(text)[0], np.full(16, 10))


def test_a_jump_through_a_register():
    """To the address of the jump plus the register, for each thread its own."""
    text = """
      (W) mul (1|M0) r2.0<1>:d r3.0<0;1,0>:d 32:w
      (W) add (1|M0) r2.0<1>:d r2.0<0;1,0>:d 16:w
      (W) jmpi (1|M0) r2.0
      (W) mov (16|M0) r20.0<1>:ud 1:ud
      (W) jmpi (1|M0) end
      (W) mov (16|M0) r20.0<1>:ud 2:ud
      (W) jmpi (1|M0) end
      (W) mov (16|M0) r20.0<1>:ud 3:ud
    end:
      (W) nop
    """
    numbers = np.array([[2], [0], [1], [2]], np.int32)
    done = run("bmg", START + text.replace("      (W) nop\n", ""), {3: numbers}, threads=4)
    np.testing.assert_array_equal(register(done, 20, np.int32)[:, 0], [3, 1, 2, 3])


def test_a_jump_to_nowhere_is_a_fault():
    with pytest.raises(Fault, match="jumps to 0x1000"):
        run("bmg", "(W) jmpi (1|M0) r2.0", {2: np.array([0x1000], np.int32)})


def test_the_dispatch_mask_turns_channels_on():
    """mov sr0.2: SIMD32 code in a thread of 16 channels."""
    text = ("(W) mov (16|M0) r20.0<1>:d 0:w\n(W) mov (16|M0) r21.0<1>:d 0:w\n{0}"
            "mov (32|M0) r20.0<1>:d 7:w")
    before = register(run("bmg", text.format("")), 20, np.int32, 32)[0]
    np.testing.assert_array_equal(before, [7] * 16 + [0] * 16)
    mask = "(W) mov (1|M0) sr0.2<1>:ud 0xFFFF00FF:ud\n"
    after = register(run("bmg", text.format(mask)), 20, np.int32, 32)[0]
    np.testing.assert_array_equal(after, [7] * 8 + [0] * 8 + [7] * 16)


def test_channels_beyond_the_threads_are_off():
    text = "(W) mov (16|M0) r20.0<1>:d 0:w\nmov (16|M0) r20.0<1>:d 1:w"
    done = run("bmg", text, threads=2, last_thread_mask=0x1F)
    np.testing.assert_array_equal(register(done, 20, np.int32).sum(1), [16, 5])


@pytest.mark.parametrize("order", [None, "reversed", "shuffled:3"])
def test_threads_with_different_loops(order):
    text = START + """
    loop:
      add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w
      cmp (16|M0) (lt)f0.0 null<1>:d r20.0<1;1,0>:d r4.0<1;1,0>:d
      (f0.0) while (16|M0) loop
    """
    limits = np.random.default_rng(1).integers(1, 50, (8, 16)).astype(np.int32)
    done = launch("bmg", text, {4: limits}, threads=8).run(order)
    np.testing.assert_array_equal(register(done, 20, np.int32), limits)
    steps = 2 + 3 * limits.max(1)
    assert done.instructions == int(steps.sum()) + 8
