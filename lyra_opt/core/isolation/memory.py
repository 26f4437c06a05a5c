"""The memory of a process and of the processes it started."""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

RESET_PEAK = "5"  # written to clear_refs, this resets the peak resident size; see proc(5)


def reset_peak_memory() -> None:
    """Reset the peak memory of this process, if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return


def peak_memory_mib() -> float:
    """Return the peak resident memory of this process since `reset_peak_memory`, in MiB.

    It includes loaded libraries. If the peak cannot be reset, it is the peak since the process
    began.
    """
    peak_mib = _status_mib("self", "VmHWM:")
    return _largest_mib(resource.RUSAGE_SELF) if peak_mib is None else peak_mib


def largest_child_mib() -> float:
    """Return the peak memory of the largest process that this process waited for, in MiB."""
    return _largest_mib(resource.RUSAGE_CHILDREN)


def resident_mib(process: int | str = "self") -> float:
    """Return the resident memory of a process in MiB; 0 if the system does not report it."""
    return _status_mib(str(process), "VmRSS:") or 0.0


class Family:
    """A process and all its descendants, observed from outside."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def kill(self) -> None:
        """Kill the processes that the last call of `memory_mib` found."""
        for each in self._seen:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)

    def memory_mib(self, process: int) -> float:
        """Return the resident memory of a process and its descendants, in MiB; 0 if unknown.

        Shared pages count once per process. A new process does not count when it is first seen,
        because until it runs its own program it is a copy of its parent.
        """
        descendants = set(family(process))
        known = descendants & self._seen | {process}
        self._seen = descendants
        return sum(map(resident_mib, known))


def family(process: int) -> Iterator[int]:
    """Yield a process and its descendants; only the process if the system does not report them."""
    yield process
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        started = [child for thread in threads for child in _children(thread)]
    except OSError:  # the process has ended
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
