"""Memory of a process, and of those that it has started."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    peak_mib = _status_mib("self", "VmHWM:")
    return _largest_mib(resource.RUSAGE_SELF) if peak_mib is None else peak_mib


def largest_child_mib() -> float:
    """Return the peak of the largest process that this one has started and waited for, in MiB."""
    return _largest_mib(resource.RUSAGE_CHILDREN)


def resident_mib(process: int | str = "self") -> float:
    """Return the resident memory of a process, in MiB; 0 where the system does not tell."""
    return _status_mib(str(process), "VmRSS:") or 0.0


class Family:
    """A process and all that it has started, watched from outside."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def kill(self) -> None:
        """Kill the processes that `memory_mib` saw last; those of a parent that has ended go on."""
        for each in self._seen:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)

    def memory_mib(self, process: int) -> float:
        """Return the resident memory of them together, in MiB; 0 where the system does not tell.

        Pages that they share are counted once for each. One that is seen for the first time does
        not count yet: until it runs its own program it is a copy of the one that started it.
        """
        descendants = set(family(process))
        known = descendants & self._seen | {process}
        self._seen = descendants
        return sum(map(resident_mib, known))


def family(process: int) -> Iterator[int]:
    """Yield a process and its descendants; the process alone where the system does not tell."""
    yield process
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        started = [child for thread in threads for child in _children(thread)]
    except OSError:  # it has ended
        return
    for child in started:
        yield from family(child)


def _children(thread: Path) -> list[int]:
    return [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]


def _status_mib(process: str, key: str) -> float | None:
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return next(
        (int(line.split()[1]) / 2**10 for line in text.splitlines() if line.startswith(key)), None
    )


def _largest_mib(whose: int) -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes on macOS, KiB elsewhere
    return resource.getrusage(whose).ru_maxrss / unit
