"""Time functions and processes, and keep the figures with their targets."""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured figure.

    Parameters
    ----------
    what
        What was timed, on what.
    runs
        How many runs the figures are over.
    median_s, maximum_s
        Seconds.
    target_s
        The median is meant to stay within this; None where there is no target.
    remark
        What else a reader should know, such as the size of the instance.
    """

    what: str
    runs: int
    median_s: float
    maximum_s: float
    target_s: float | None = None
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was reached."""
        if self.target_s is None:
            return ""
        return "reached" if self.median_s <= self.target_s else "MISSED"


def time_function(
    what: str,
    function: Callable[[], object],
    *,
    runs: int,
    target_s: float | None = None,
    remark: str = "",
) -> Figure:
    """Call `function` once untimed, then `runs` times; it may compile in the first call."""
    function()
    times_s = []
    for _ in range(runs):
        started = time.perf_counter()
        function()
        times_s.append(time.perf_counter() - started)
    return _figure(what, times_s, target_s, remark)


def time_process(
    what: str,
    command: Sequence[str],
    *,
    runs: int,
    target_s: float | None = None,
    remark: str = "",
    environment: dict[str, str] | None = None,
    warm_up: bool = True,
) -> Figure:
    """Run a command to its end `runs` times, after one run that is not counted.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    times_s = []
    for run in range(runs + warm_up):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603
        if run >= warm_up:
            times_s.append(time.perf_counter() - started)
    return _figure(what, times_s, target_s, remark)


def _figure(what: str, times_s: Sequence[float], target_s: float | None, remark: str) -> Figure:
    return Figure(
        what=what,
        runs=len(times_s),
        median_s=statistics.median(times_s),
        maximum_s=max(times_s),
        target_s=target_s,
        remark=remark,
    )
