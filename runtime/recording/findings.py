"""What went wrong in a launch, in a form that two launches can be compared by."""

from __future__ import annotations

from triton_xe.runtime.recording.folder import Finding


def finding_of(error: Exception) -> Finding:
    """An error of a launch; the simulator's say what they are about."""
    return Finding(
        type(error).__name__, str(getattr(error, "what", "")), str(getattr(error, "location", "")),
        tuple(getattr(error, "programs", ())), str(error))
