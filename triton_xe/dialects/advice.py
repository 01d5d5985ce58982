"""Advice for operations of MLIR that no pass lowers: what to write instead."""

_REMEDIES = {
    "arith.convertf": "convert with arith.truncf or arith.extf",
    "arith.flush_denormals": "compare the value's size with the smallest normal number",
    "arith.scaling_extf": "use tt.dot_scaled, or multiply by the scale",
    "arith.scaling_truncf": "divide by the scale, and convert with tt.fp_to_fp",
    "math.ipowi": "multiply in a loop",
    "math.isnormal": "compare the value's size with the smallest normal number",
    "scf.execute_region": "write its operations where it is",
    "scf.forall": "use scf.for",
    "scf.forall.in_parallel": "use scf.for",
    "scf.index_switch": "use scf.if",
    "scf.parallel": "use scf.for, or programs of the grid",
    "scf.reduce": "use tt.reduce",
    "scf.reduce.return": "use tt.reduce",
    "cf.assert": "use tt.assert (tl.device_assert)",
    "cf.switch": "use cf.cond_br",
    "ub.unreachable": "return from the function, after tt.assert if this must not happen",
}


def remedy_of(name: str) -> str:
    """The end of a refusal: what to write instead of the operation."""
    return _REMEDIES.get(name, "rewrite this line without it")
