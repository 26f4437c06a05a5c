"""Solvers that take turns on the same instances, in this process; a frame with a row a run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pandas as pd

from lyra_opt.commands.progress import progress
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import refute_claims, solve_and_check
from lyra_opt.experiments.bench.timing import Figure, timed_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.solving import Answer

LISTED = 5
"""Runs that a remark names."""


def interleaved(
    what: str,
    problem: str,
    names: Sequence[str],
    instances: Sequence[Any],
    *,
    runs: int = 1,
    limit_s: float | None = None,
    certifies: bool = False,
    warms_up: bool = True,
) -> pd.DataFrame:
    """Return checked runs of solvers that take turns; see `frame_of` for the columns.

    Parameters
    ----------
    what
        Shown while it runs.
    problem, names
        The solvers; each goes first in its turn.
    instances
        What they solve.
    runs
        How often each solver solves each instance.
    limit_s
        Of a run.
    certifies
        Whether the problem's own bound is computed beside each answer.
    warms_up
        Whether each solver first solves the first instance without being counted.

    Raises
    ------
    RuntimeError
        If an answer is an error, or contradicts another: see `require_agreement`.
    """
    found_problem = find_problem(problem)
    solvers = [find_solver(problem, name) for name in names]
    limits = Limits(time_s=limit_s)

    def solve(instance: Any, solver: Any) -> Answer:
        return solve_and_check(found_problem, instance, solver, limits=limits, certify=certifies)

    if warms_up:
        require_agreement([solve(instances[0], solver) for solver in solvers])
    frames = []
    with progress(what, len(instances) * runs * len(solvers)) as advance:
        for place, instance in enumerate(instances):
            answers = []
            for run in range(runs):
                first = run % len(solvers)
                for solver in (*solvers[first:], *solvers[:first]):
                    answers.append(solve(instance, solver))
                    advance()
            require_agreement(answers)
            frames.append(frame_of(answers, place, limit_s))
    return pd.concat(frames, ignore_index=True)


def frame_of(
    answers: Sequence[Answer], place: int = 0, limit_s: float | None = None
) -> pd.DataFrame:
    """Return a row for each answer to one instance.

    Parameters
    ----------
    place
        Of the instance among all; column ``place``.
    limit_s
        What a run without a proof counts as in ``proof_s``, or longer if it took longer.
    """
    rows = []
    for answer in answers:
        time_s = inf if answer.wall_time_s is None else answer.wall_time_s
        is_proved = answer.status is Status.OPTIMAL
        rows.append(
            {
                "place": place,
                "instance": answer.instance.name,
                "solver": answer.solver,
                "status": answer.status,
                "objective": answer.objective,
                "dual_bound": answer.dual_bound,
                "gap_percent": inf if answer.gap is None else 100 * answer.gap,
                "time_s": time_s,
                "proof_s": time_s if is_proved else max(limit_s or 0.0, time_s),
                "bound_s": answer.certify_time_s or 0.0,
                **answer.counters,
            }
        )
    return pd.DataFrame(rows)


def require_agreement(answers: Sequence[Answer]) -> None:
    """Refuse answers to one instance that cannot all be true.

    Raises
    ------
    RuntimeError
        If one is an error or a skip, if a bound lies beyond another's valid solution, or if two
        proved objectives differ by more than the proof gap.
    """
    for answer in refute_claims(answers):
        if answer.objective is None:
            raise RuntimeError(
                f"{answer.solver} on {answer.instance.name}: {answer.status}, {answer.message}"
            )
    proved = [
        (answer, answer.objective)
        for answer in answers
        if answer.status is Status.OPTIMAL and answer.objective is not None
    ]
    for answer, objective in proved[1:]:
        first, of_first = proved[0]
        if not same_value(objective, of_first, tolerance=answer.instance.variant.proof_gap):
            raise RuntimeError(
                f"{answer.instance.name}: {answer.solver} proves {objective}, "
                f"{first.solver} proves {of_first}"
            )


def medians(runs: pd.DataFrame, column: str = "time_s") -> pd.DataFrame:
    """Return the median of a column over the runs of a solver, a row an instance."""
    found: pd.DataFrame = runs.pivot_table(
        index="place", columns="solver", values=column, aggfunc="median", sort=False
    )
    return found


def proved_within(what: str, runs: pd.DataFrame, target_s: float, remark: str = "") -> Figure:
    """Return how many runs are proved in time; all are meant to.

    Parameters
    ----------
    runs
        With the columns ``instance``, ``status``, ``objective``, ``dual_bound`` and ``time_s``.
    remark
        After what is named of those that are not.
    """
    late = runs[(runs.status != Status.OPTIMAL) | (runs.time_s > target_s)]
    return replace(
        timed_figure(what, list(runs.time_s)),
        statistic=f"proved within {target_s:g} s:",
        measured=len(runs) - len(late),
        target=len(runs),
        at_least=True,
        remark="; ".join(filter(None, [listed(late), remark])),
    )


def listed(runs: pd.DataFrame) -> str:
    """Return runs in words, the first few; empty without any."""
    named = [
        f"{run.instance}, {run.status}, objective {run.objective:g}, bound {run.dual_bound:g}, "
        f"{run.time_s:.3g} s"
        for run in runs[:LISTED].itertuples()
    ]
    if len(runs) > LISTED:
        named.append(f"and {len(runs) - LISTED} more")
    return ("not: " if named else "") + "; ".join(named)


def slowest(what: str, medians_s: pd.Series, target_s: float, remark: str) -> Figure:
    """Return a figure whose slowest instance is held to the target."""
    return replace(
        timed_figure(what, list(medians_s)),
        statistic="slowest instance",
        measured=float(1000 * medians_s.max()),
        target=1000 * target_s,
        unit="ms",
        remark=remark,
    )
