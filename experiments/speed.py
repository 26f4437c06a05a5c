"""How fast solvers are beside one another: counts, medians and ratios, unsolved ones included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from experiments.analysis import (
    Group,
    family_label,
    group_label,
    size_name,
    time_to_proof_ms,
)
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from experiments.analysis import Analysis
    from experiments.records import SolverRecord

SHORTEST_TIME_S = 1e-6
"""What a clock can tell; a shorter time counts as this, so that every ratio is finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One row of a table of speed: one configuration on the instances of one group.

    Parameters
    ----------
    group, configuration
        What was run on what.
    instances
        All runs of the row.
    proved
        Runs that ended with a proof, that of the problem's own bound included.
    median_time_ms, max_time_ms
        Of the solver's wall time, over all runs that did not fail, proof or not.
    time_ratio
        Geometric mean of the wall time over that of the yardstick on the same instance, of the
        instances on which neither failed.
    proof_time_ratio
        The same of the times to the proof, `counted_proof_time_s`: without one, the limit.
    """

    group: Group
    configuration: str
    instances: int
    proved: int
    median_time_ms: float | None
    max_time_ms: float | None
    time_ratio: float | None
    proof_time_ratio: float | None


def speed_table(
    analysis: Analysis, yardstick: str, group_of: Callable[[SolverRecord], Group]
) -> list[Speed]:
    """Return a row for each group and configuration; ratios are to the configuration `yardstick`.

    `by_group`, `by_size` and `by_family_and_size` are there for `group_of`.
    """
    of_yardstick = [run for run in analysis.runs if run.configuration == yardstick]
    times, proof_times = wall_times_s(of_yardstick), counted_proof_times_s(of_yardstick)
    rows = []
    for group, configuration, runs in analysis.grouped(group_of):
        found = wall_times_s(runs)
        times_ms = [1e3 * time_s for time_s in found.values()]
        rows.append(
            Speed(
                group=group,
                configuration=configuration,
                instances=len(runs),
                proved=sum(run.status is Status.OPTIMAL for run in runs),
                median_time_ms=median(times_ms) if times_ms else None,
                max_time_ms=max(times_ms, default=None),
                time_ratio=geometric_mean_ratio(found, times),
                proof_time_ratio=geometric_mean_ratio(counted_proof_times_s(runs), proof_times),
            )
        )
    return rows


def by_group(run: SolverRecord) -> Group:
    """Put runs together that the study sums up."""
    return Group(family=group_label(run))


def by_size(run: SolverRecord) -> Group:
    """Put runs together by size too; families that set their own size are one row."""
    name = size_name(run)
    return Group(family=group_label(run), axes=((name, run.family_parameters.get(name)),))


def by_family_and_size(run: SolverRecord) -> Group:
    """Put runs of one family and size together."""
    return Group(family=family_label(run), axes=((size_name(run), run.size),))


def wall_times_s(runs: Iterable[SolverRecord]) -> dict[str, float]:
    """Return the solver's time by instance; runs that failed or were refused have none."""
    return {
        run.cell: run.wall_time_s
        for run in runs
        if run.wall_time_s is not None and run.status not in (Status.ERROR, Status.UNSUPPORTED)
    }


def counted_proof_times_s(runs: Iterable[SolverRecord]) -> dict[str, float]:
    """Return by instance the time that a run counts with; see `counted_proof_time_s`."""
    counted = {run.cell: counted_proof_time_s(run) for run in runs}
    return {cell: time_s for cell, time_s in counted.items() if time_s is not None}


def counted_proof_time_s(run: SolverRecord) -> float | None:
    """Return how long the proof took; without a proof the time limit, also for a failed run.

    None where there is nothing to count: an instance that the solver declines, or a run without
    a limit that proved nothing.
    """
    if run.status is Status.UNSUPPORTED:
        return None
    time_ms = time_to_proof_ms(run)
    return run.time_limit_s if time_ms is None else time_ms / 1e3


def geometric_mean_ratio(
    times_s: Mapping[str, float], yardstick_s: Mapping[str, float]
) -> float | None:
    """Return the geometric mean of the ratios over the instances that both have.

    None if they have none in common.
    """
    logarithms = [
        math.log(max(time_s, SHORTEST_TIME_S) / max(yardstick_s[cell], SHORTEST_TIME_S))
        for cell, time_s in times_s.items()
        if cell in yardstick_s
    ]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None
