"""The summary of each solver over several instances: mean gap and spread, with nothing dropped."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import counted
from lyra_opt.core.gaps import gap_words
from lyra_opt.core.numbers import count, percent
from lyra_opt.core.result import Status
from lyra_opt.core.table import Column, Table, as_text, run_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.solving import Answer


@dataclass(frozen=True)
class SolverSummary:
    """The gaps of one solver on the instances of one problem, each with the evidence on it.

    A gap is that to the proved optimum. If the optimum of an instance is not proved, it is the
    largest gap that the best bound permits.
    """

    problem: str
    solver: str
    rows: Sequence[tuple[Answer[Any], Evidence]]

    @property
    def gaps_percent(self) -> list[float]:
        """The finite gaps; without objectives of several terms, and without missed optima of 0."""
        gaps = (
            evidence.gap_to_optimum_at_most(answer.objective)
            for answer, evidence in self.rows
            if not evidence.terms.keys
        )
        return [100 * gap for gap in gaps if gap is not None and math.isfinite(gap)]

    @property
    def optimal(self) -> int:
        """The number of instances on which the solution is proved optimal."""
        return sum(self._is_optimal(*row) for row in self.rows)

    def _is_optimal(self, answer: Answer[Any], evidence: Evidence) -> bool:
        objective = answer.objective
        if objective is None or evidence.optimum is None:
            return False
        return evidence.gap_to_optimum_at_most(objective) == 0

    @property
    def unproved(self) -> int:
        """The number of solved instances without a proved optimum."""
        return sum(
            answer.objective is not None and evidence.optimum is None
            for answer, evidence in self.rows
        )

    def left_out(self) -> str:
        """Return how many instances have no gap in percent, and why; empty if all have one."""
        statuses = [answer.status for answer, _ in self.rows if answer.objective is None]
        named = (Status.INFEASIBLE, Status.ERROR, Status.UNSUPPORTED)
        solved = sum(answer.objective is not None for answer, _ in self.rows)
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
        gaps, where = self.gaps_percent, gap_words(self.rows[0][0].sense).where
        said = f"{self.optimal} optimal of {counted(len(self.rows), 'instance')}"
        if gaps:
            at_most = "at most " if self.unproved else ""
            said = (
                f"{at_most}{percent(statistics.fmean(gaps))} % {where} the optimum on average "
                f"(median {percent(statistics.median(gaps))} %, maximum {percent(max(gaps))} %), "
                f"{counted(len(gaps), 'instance')}, {self.optimal} of them optimal"
            )
        if self.unproved:
            said += f", {self.unproved} compared with a bound"
        name = f"{self.problem}, {self.solver}"
        return f"{name}: {'; '.join(filter(None, (said, self.left_out())))}"


def summaries_of(rows: Iterable[tuple[Answer[Any], Evidence]]) -> list[SolverSummary]:
    """Return the summary of each solver of each problem, in order of their first answers."""
    found: dict[tuple[str, str], list[tuple[Answer[Any], Evidence]]] = {}
    for answer, evidence in rows:
        found.setdefault((answer.problem.name, answer.solver), []).append((answer, evidence))
    return [SolverSummary(*names, of_solver) for names, of_solver in found.items()]


def summary_table(summaries: Sequence[SolverSummary]) -> Table:
    """Return the summaries as a table with one row per solver."""
    noun = gap_words(*(each.rows[0][0].sense for each in summaries)).noun
    gaps = [each.gaps_percent for each in summaries]
    marks = ["≤ " if each.unproved else "" for each in summaries]

    def of_gaps(name: str, key: str, values: Sequence[float | None]) -> Column:
        texts = [
            ("" if value is None else mark) + percent(value)
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
        [answer.wall_time_s for answer, _ in each.rows if answer.wall_time_s is not None]
        for each in summaries
    ]
    columns = [
        Column(key="problem", values=[each.problem for each in summaries]),
        Column(key="solver", values=[each.solver for each in summaries]),
        Column(key="instances", values=[len(each.rows) for each in summaries], show=count),
        Column(key="compared", values=list(map(len, gaps)), show=count),
        of_gaps("mean", "mean", [statistics.fmean(each) if each else None for each in gaps]),
        Column(
            key=f"sd_{noun}_percent",
            values=[statistics.stdev(each) if len(each) > 1 else None for each in gaps],
            show=percent,
            heading="standard deviation",
            unit="%",
        ),
        of_gaps("median", "median", [statistics.median(each) if each else None for each in gaps]),
        of_gaps("maximum", "max", [max(each, default=None) for each in gaps]),
        Column(key="optimal", values=[each.optimal for each in summaries], show=count),
        run_times(
            "median_time_s",
            [statistics.median(each) if each else None for each in times],
            "median time",
        ),
        Column(key="left_out", values=[each.left_out() for each in summaries], show=as_text),
    ]
    is_one = len({each.problem for each in summaries}) == 1
    return Table(columns[is_one:], "Summary over all instances")
