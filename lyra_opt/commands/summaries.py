"""The summary of each solver over several instances: mean gap and spread, with nothing dropped."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.errors import counted
from lyra_opt.core.gaps import GAP, gap_words
from lyra_opt.core.numbers import UP, count, percent
from lyra_opt.core.result import Status
from lyra_opt.core.table import Column, Table, run_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.gaps import GapWords
    from lyra_opt.core.solving import Answer


class Outcome(NamedTuple):
    """The result of one solver on one instance.

    The gap is that to the proved optimum, or the largest that the best bound permits; None without
    a solution, and for an objective of several terms.
    """

    status: str
    is_solved: bool
    is_proved: bool
    is_optimal: bool
    gap: float | None
    wall_time_s: float | None


@dataclass(frozen=True)
class SolverSummary:
    """The gaps of one solver on the instances of one problem; `gap` names them."""

    problem: str
    solver: str
    gap: GapWords
    outcomes: Sequence[Outcome]

    @property
    def gaps_percent(self) -> list[float]:
        """The finite gaps; without objectives of several terms, and without missed optima of 0."""
        gaps = [each.gap for each in self.outcomes if each.is_solved]
        return [100 * gap for gap in gaps if gap is not None and math.isfinite(gap)]

    @property
    def optimal(self) -> int:
        """The number of instances on which the solution is proved optimal."""
        return sum(each.is_optimal for each in self.outcomes)

    @property
    def unproved(self) -> int:
        """The number of solved instances without a proved optimum."""
        return sum(each.is_solved and not each.is_proved for each in self.outcomes)

    def left_out(self) -> str:
        """Return how many instances have no gap in percent, and why; empty if all have one."""
        statuses = [each.status for each in self.outcomes if not each.is_solved]
        named = (Status.INFEASIBLE, Status.ERROR, Status.UNSUPPORTED)
        solved = sum(each.is_solved for each in self.outcomes)
        reasons = {
            "without a percentage": solved - len(self.gaps_percent),
            "infeasible": statuses.count(Status.INFEASIBLE),
            "failed": statuses.count(Status.ERROR),
            "unsupported": statuses.count(Status.UNSUPPORTED),
            "without a solution": sum(status not in named for status in statuses),
        }
        return ", ".join(f"{number} {reason}" for reason, number in reasons.items() if number)

    def in_words(self) -> str:
        """Return the summary as a sentence.

        For example "reclaim, scf: 1.3 % over the optimum on average (median 0.0 %, maximum 12.5 %),
        150 instances, 130 of them optimal; 2 failed".
        """
        gaps, where = self.gaps_percent, self.gap.where
        said = f"{self.optimal} optimal of {counted(len(self.outcomes), 'instance')}"
        if gaps:
            at_most, rounding = ("at most ", UP) if self.unproved else ("", None)
            show = partial(percent, rounding=rounding)
            said = (
                f"{at_most}{show(statistics.fmean(gaps))} % {where} the optimum on average "
                f"(median {show(statistics.median(gaps))} %, maximum {show(max(gaps))} %), "
                f"{counted(len(gaps), 'instance')}, {self.optimal} of them optimal"
            )
        if self.unproved:
            said += f", {self.unproved} compared with a bound"
        name = f"{self.problem}, {self.solver}"
        return f"{name}: {'; '.join(filter(None, (said, self.left_out())))}"


def summaries_of(rows: Iterable[tuple[Answer[Any], Evidence]]) -> list[SolverSummary]:
    """Return the summary of each solver of each problem, in order of their first answers."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    words = {}
    for answer, evidence in rows:
        gap = evidence.gap_to_optimum_at_most(answer.objective)
        outcome = _outcome(answer, gap, is_proved=evidence.optimum is not None)
        if evidence.terms.keys:
            outcome = outcome._replace(gap=None)
        found.setdefault((answer.problem.name, answer.solver), []).append(outcome)
        words[answer.problem.name, answer.solver] = gap_words(answer.sense)
    return [SolverSummary(*names, words[names], outcomes) for names, outcomes in found.items()]


def summaries_of_frame(frame: pd.DataFrame) -> list[SolverSummary]:
    """Return the summary of each solver in a frame of ``lo.compare`` of several instances."""
    found: dict[str, list[Outcome]] = {}
    plain = frame.reset_index().astype(object)
    for row in plain.where(plain.notna(), None).itertuples():
        outcome = _outcome(row, row.gap_to_optimum_at_most, is_proved=row.optimum is not None)
        found.setdefault(row.solver, []).append(outcome)
    words = gap_words(frame.attrs["sense"])
    return [SolverSummary("", solver, words, outcomes) for solver, outcomes in found.items()]


def _outcome(found: Any, gap: float | None, *, is_proved: bool) -> Outcome:
    """Return the outcome of an answer, or of a row with its attributes."""
    return Outcome(
        status=found.status,
        is_solved=found.objective is not None,
        is_proved=is_proved,
        is_optimal=is_proved and gap == 0,
        gap=gap,
        wall_time_s=found.wall_time_s,
    )


def summary_table(summaries: Sequence[SolverSummary]) -> Table:
    """Return the summaries as a table with one row per solver."""
    nouns = {each.gap.noun for each in summaries}
    noun = nouns.pop() if len(nouns) == 1 else GAP.noun
    gaps = [each.gaps_percent for each in summaries]
    marks = ["≤ " if each.unproved else "" for each in summaries]

    def of_gaps(name: str, key: str, values: Sequence[float | None]) -> Column:
        texts = [
            ("" if value is None else mark) + percent(value, rounding=UP if mark else None)
            for mark, value in zip(marks, values, strict=True)
        ]
        return Column(
            key=f"{key}_{noun}_percent",
            values=values,
            show=percent,
            heading=f"{name} {noun}",
            unit="%",
            texts=texts,
        )

    times = [
        [each.wall_time_s for each in summary.outcomes if each.wall_time_s is not None]
        for summary in summaries
    ]
    instances = [len(each.outcomes) for each in summaries]
    columns = [
        Column(key="problem", values=[each.problem for each in summaries]),
        Column(key="solver", values=[each.solver for each in summaries]),
        of_gaps("mean", "mean", [statistics.fmean(each) if each else None for each in gaps]),
        Column(
            key=f"sd_{noun}_percent",
            values=[statistics.stdev(each) if len(each) > 1 else None for each in gaps],
            show=percent,
            heading="SD",
            unit="%",
        ),
        of_gaps("maximum", "max", [max(each, default=None) for each in gaps]),
        Column(key="optimal", values=[each.optimal for each in summaries], show=count),
        run_times(
            "median_time_s",
            [statistics.median(each) if each else None for each in times],
            "median time",
        ),
        Column(
            key="compared",
            values=list(map(len, gaps)),
            show=count,
            heading="instances",
            texts=[f"{len(each)} of {total}" for each, total in zip(gaps, instances, strict=True)],
        ),
    ]
    is_one = len({each.problem for each in summaries}) == 1
    least = (f"sd_{noun}_percent", "median_time_s")
    return Table(columns[is_one:], "Summary over all instances", least)
