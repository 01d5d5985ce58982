"""Sizes in the memory hierarchy that are equal on every device.

Sources: the oneAPI GPU optimization guide ("Shared Local Memory"); the LSC messages in the vISA
documentation.
"""

CACHE_LINE_BYTES = 64
"""Bytes of a line of L1 and L3."""
MAX_LANE_BYTES = 16
"""Most bytes that a lane moves with one message: 4 words of 32 bits."""
COLUMN_BYTES = 32
"""Bytes of DPAS operand B per lane.  Messages of 8 words exist, but IGC seldom uses them."""
SLM_BANKS = 16
SLM_BANK_BYTES = 4
"""Bytes that each bank of shared local memory moves per clock."""
