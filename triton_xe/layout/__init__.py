"""Layouts: which register, lane and warp holds which element."""

from triton_xe.layout.amd import AmdMfmaEncoding, AmdWmmaEncoding
from triton_xe.layout.dpas import DpasEncoding
from triton_xe.layout.encodings import (
    BlockedEncoding,
    DistributedEncoding,
    DotOperandEncoding,
    Encoding,
    GenericLinearEncoding,
    LinearEncoding,
    SliceEncoding,
    to_linear_layout,
)
from triton_xe.layout.gluon import AutoEncoding, CoalescedEncoding
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.nvidia import NvidiaMmaEncoding
from triton_xe.layout.parse import parse_encoding, read_aliases
from triton_xe.layout.shared import (
    AmdRotatingSharedEncoding,
    NvmmaSharedEncoding,
    PaddedSharedEncoding,
    PartitionedSharedEncoding,
    SharedEncoding,
    SharedLinearEncoding,
    SharedMemorySpace,
    SwizzledSharedEncoding,
)
from triton_xe.layout.tensor_memory import (
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
    TensorMemorySpace,
)

__all__ = [
    "AmdMfmaEncoding",
    "AmdRotatingSharedEncoding",
    "AmdWmmaEncoding",
    "AutoEncoding",
    "BlockedEncoding",
    "CoalescedEncoding",
    "DistributedEncoding",
    "DotOperandEncoding",
    "DpasEncoding",
    "Encoding",
    "GenericLinearEncoding",
    "LinearEncoding",
    "LinearLayout",
    "NvidiaMmaEncoding",
    "NvmmaSharedEncoding",
    "PaddedSharedEncoding",
    "PartitionedSharedEncoding",
    "SharedEncoding",
    "SharedLinearEncoding",
    "SharedMemorySpace",
    "SliceEncoding",
    "SwizzledSharedEncoding",
    "TensorMemoryEncoding",
    "TensorMemoryScalesEncoding",
    "TensorMemorySpace",
    "parse_encoding",
    "read_aliases",
    "to_linear_layout",
]
