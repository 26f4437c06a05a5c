"""Peak memory of one run inside a process that does many runs."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

RESET_PEAK = "5"  # proc(5), clear_refs: set the peak resident size back to the present one


def reset_peak_memory() -> None:
    """Start a new peak where the system allows it; otherwise the process's peak goes on."""
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return


def peak_memory_mib() -> float:
    """Return the peak resident memory of this process since `reset_peak_memory`, in MiB.

    It counts the whole process, loaded libraries included. Where the peak cannot be reset it is
    the largest since the process began.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
