"""Where a program at an address ends: branches, threads that end early, and bytes after it."""

import pytest

from triton_xe.runtime.emulator import AddressSpace, Program, iga

pytestmark = pytest.mark.skipif(iga.unavailable() is not None, reason="libiga64 is missing")
END = "send.gtwy (1|M0) null r1 null:0 0x0 0x02000010 {EOT}\n"


def program_at(text: str, after: bytes) -> Program:
    space = AddressSpace()
    return Program.at_address("bmg", space, space.put(iga.assemble("bmg", text) + after))


@pytest.mark.parametrize("fill", [0, 300], ids=["near", "further than is decoded at first"])
def test_a_program_ends_behind_the_last_branch_target(fill):
    """The first thread may end early; what follows its end belongs to the program."""
    middle = "mov (16|M0) r10.0<1>:ud r11.0<1;1,0>:ud\n" * fill
    text = f"jmpi Later\n{END}{middle}Later:\nmov (16|M0) r2.0<1>:ud 0x1:ud\n{END}"
    found = program_at(text, bytes(range(1, 256)) * 8)
    assert len(found.instructions) == 4 + fill
    assert [i.is_end for i in found.instructions].count(True) == 2
    assert found.instructions[-1].is_end
