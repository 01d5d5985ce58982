"""The error of a launch, in a form in which two launches can be compared."""

from __future__ import annotations

from triton_xe.runtime.recording.folder import Finding


def finding_of(error: Exception) -> Finding:
    """Convert an error of a launch; errors of the simulator name programs and source location."""
    return Finding(
        type(error).__name__, str(getattr(error, "what", "")), str(getattr(error, "location", "")),
        tuple(getattr(error, "programs", ())), str(error))
