"""Sizes of memory's parts that are the same on every device.

Sources: the oneAPI GPU optimization guide ("Shared Local Memory"); the LSC messages in the vISA
documentation.
"""

CACHE_LINE_BYTES = 64
"""A line of L1 and L3."""
MAX_LANE_BYTES = 16
"""Most a lane moves with one message: 4 words of 32 bits."""
COLUMN_BYTES = 32
"""Of DPAS's operand B, in a lane; messages of 8 words exist, but IGC seldom makes use of them."""
SLM_BANKS = 16
SLM_BANK_BYTES = 4
"""Shared local memory moves a word of each bank a clock."""
