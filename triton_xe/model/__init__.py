"""A time model of Xe devices: from instructions and bytes of a launch to microseconds."""
