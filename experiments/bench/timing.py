"""Time functions and processes, and keep the figures with their targets."""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.experiments.tables import NOTHING, TextTable

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
        Seconds; None where the figure is no time.
    statistic
        What is held to the target, such as "median" or "mean certified gap".
    measured, target
        Its value, and the value that it is meant to stay within; None where there is no target.
    unit
        Of both; empty for counts and ratios.
    at_least
        Whether the target is the least that is meant to be reached, not the most.
    remark
        What else a reader should know, such as the size of the instance.
    """

    what: str
    runs: int
    median_s: float | None = None
    maximum_s: float | None = None
    statistic: str = ""
    measured: float | None = None
    target: float | None = None
    unit: str = ""
    at_least: bool = False
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was reached."""
        if self.target is None or self.measured is None:
            return ""
        reached = self.measured >= self.target if self.at_least else self.measured <= self.target
        return "reached" if reached else "MISSED"

    def measured_in_words(self) -> str:
        """Return what was measured."""
        if self.measured is None:
            return ""
        return f"{self.statistic} {_rounded(self.measured)} {self.unit}".rstrip()

    def target_in_words(self) -> str:
        """Return what was meant to be reached."""
        if self.target is None:
            return ""
        return f"at {'least' if self.at_least else 'most'} {self.target:g} {self.unit}".rstrip()


def figures_table(figures: Sequence[Figure]) -> TextTable:
    """Return figures for people."""
    columns = {
        "What": [figure.what for figure in figures],
        "Runs": [str(figure.runs) for figure in figures],
        "Median (ms)": [_milliseconds(figure.median_s) for figure in figures],
        "Maximum (ms)": [_milliseconds(figure.maximum_s) for figure in figures],
        "Measured": [figure.measured_in_words() for figure in figures],
        "Target": [figure.target_in_words() for figure in figures],
        "Verdict": [figure.verdict for figure in figures],
        "Remark": [figure.remark for figure in figures],
    }
    return TextTable(columns, ("What", "Measured", "Target", "Verdict", "Remark"))


def timed_figure(
    what: str, times_s: Sequence[float], target_s: float | None = None, remark: str = ""
) -> Figure:
    """Return the figure of some times, whose median is held to the target if there is one."""
    figure = Figure(
        what=what,
        runs=len(times_s),
        median_s=statistics.median(times_s),
        maximum_s=max(times_s),
        remark=remark,
    )
    if target_s is None:
        return figure
    measured_ms = 1000 * statistics.median(times_s)
    return replace(
        figure, statistic="median", measured=measured_ms, target=1000 * target_s, unit="ms"
    )


def time_function(
    what: str,
    function: Callable[[], object],
    *,
    runs: int,
    target_s: float | None = None,
    remark: str = "",
) -> Figure:
    """Return the figure of `times_of`; the median is held to the target."""
    return timed_figure(what, times_of(function, runs), target_s, remark)


def times_of(function: Callable[[], object], runs: int) -> list[float]:
    """Call `function` once untimed, then `runs` times; it may compile in the first call."""
    function()
    times_s = []
    for _ in range(runs):
        started = time.perf_counter()
        function()
        times_s.append(time.perf_counter() - started)
    return times_s


def decision_figure(
    what: str,
    decide: Callable[[Any], object],
    states: Sequence[Any],
    *,
    runs: int,
    target_s: float | None = None,
) -> Figure:
    """Return the figure of a decision in each of some states; the median is held to the target."""
    times_s = [time_s for state in states for time_s in times_of(partial(decide, state), runs)]
    return timed_figure(f"{what}, one decision", times_s, target_s)


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
    return timed_figure(what, times_s, target_s, remark)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest of the values that so many percent of them do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50), percentile([4.0, 1.0, 3.0, 2.0], 51)
    (2.0, 3.0)
    """
    return float(np.percentile(values, percent, method="inverted_cdf"))


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _milliseconds(time_s: float | None) -> str:
    return NOTHING if time_s is None else f"{1000 * time_s:.2f}"
