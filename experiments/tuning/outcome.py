"""The result of a search: the best values, their figures beside others, and all trials."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.tables import NOTHING
from lyra_opt.experiments.tuning.search import best_of
from lyra_opt.experiments.tuning.tasks import BOUND, SCHEDULE, TIMERS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lyra_opt.experiments.tuning.search import Trial
    from lyra_opt.experiments.tuning.tuning_file import TuningTable

BEST = "best found"
AUTO_TUNER = "dally"
JCT = "jct_mean_s"
PROVED = "bound of any schedule"
TOLERANCE = 1e-9
HEADER = ("", "tuned on", "ratio", "judged on", "ratio")
"""Of `Found.rows`: ratios to published figures, or to the best values on the same draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The figures of a row of the comparison, for each seed and each judged seed."""

    name: str
    tuned: Sequence[Mapping[str, float]]
    judged: Sequence[Mapping[str, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result for one point of the scenario's axes.

    Parameters
    ----------
    table
        The tuning file.
    point
        The values of the axes.
    trials
        All trials in order.
    compared
        The values of ``start``, the other schemes, the best values, and a clairvoyant.
    replayed
        Figures of the best by the simulated cluster on the judged seeds, where trials are compiled.
    assumptions
        The assumptions of the best values' runs, a sentence each.
    """

    table: TuningTable
    point: Mapping[str, Any]
    trials: Sequence[Trial]
    compared: Sequence[Compared]
    replayed: Sequence[Mapping[str, float]] = ()
    assumptions: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The point in words; empty for a scenario without axes."""
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())

    @property
    def best(self) -> Compared:
        """The figures of the best values."""
        return next(each for each in self.compared if each.name == BEST)

    @property
    def values(self) -> dict[str, float]:
        """The best value of each parameter, by key."""
        table = self.table
        paths = [each.path for each in table.parameters]
        return dict(zip(paths, best_of(self.trials).values(table), strict=True))

    @property
    def worst_disagreement(self) -> float | None:
        """Largest relative difference between the simulated cluster and the compiled schedule."""
        differences = [
            abs(replayed[name] - value) / (abs(value) or 1.0)
            for replayed, compiled in zip(self.replayed, self.best.judged, strict=False)
            for name, value in compiled.items()
        ]
        return max(differences, default=None)

    def missed(self, of_seeds: Sequence[Mapping[str, float]]) -> list[str]:
        """Return the measures whose mean over seeds misses the target by more than allowed."""
        return [
            target.measure
            for target in self.table.targets
            if of_seeds
            and abs(_mean(of_seeds, target.measure) / target.value - 1) > target.tolerance
        ]

    def as_json_object(self) -> dict[str, Any]:
        """Return all of it; of trials the values, means and losses as rows. inf is null."""
        table, paths = self.table, list(self.values)
        targets = {each.measure: each for each in table.targets}
        return {
            **({"axes": dict(self.point)} if self.point else {}),
            "tuning": table.name,
            "scenario": table.scenario,
            "search_seed": table.seed,
            "parameters": {path: _finite(value) for path, value in self.values.items()},
            "loss": best_of(self.trials).loss,
            "targets": [
                {
                    "measure": name,
                    "value": targets[name].value if name in targets else None,
                    "tolerance": targets[name].tolerance if name in targets else None,
                    "tuned": [each[name] for each in self.best.tuned],
                    "judged": [each[name] for each in self.best.judged],
                    "replayed": [each[name] for each in self.replayed],
                }
                for name in table.measures
            ],
            "seeds": list(table.seeds),
            "judged_seeds": list(table.judged),
            "missed": self.missed(self.best.tuned),
            "missed_by_others": self.missed(self.best.judged),
            "worst_disagreement": self.worst_disagreement,
            "compared": [
                {
                    "name": each.name,
                    "tuned": [dict(figures) for figures in each.tuned],
                    "judged": [dict(figures) for figures in each.judged],
                }
                for each in self.compared
            ],
            "tried": {
                "columns": [*paths, *table.measures, "loss"],
                "rows": [
                    [
                        *map(_finite, trial.values(table)),
                        *(trial.means[name] for name in table.measures),
                        trial.loss,
                    ]
                    for trial in self.trials
                ],
            },
            "assumptions": list(self.assumptions),
        }

    def rows(self) -> list[list[str]]:
        """Return a row for each target, or for each row of the comparison; see `HEADER`."""
        name, best = self.table.measures[0], self.best
        if self.table.targets:
            return [
                [
                    f"{target.measure}, published {target.value:g}",
                    *_cells([each[target.measure] for each in best.tuned], [target.value]),
                    *_cells([each[target.measure] for each in best.judged], [target.value]),
                ]
                for target in self.table.targets
            ]
        return [
            [
                row.name,
                *_cells([each[name] for each in row.tuned], [each[name] for each in best.tuned]),
                *_cells([each[name] for each in row.judged], [each[name] for each in best.judged]),
            ]
            for row in self.compared
        ]


def with_clairvoyant(
    compared: Sequence[Compared],
    timers: Sequence[Mapping[str, float]],
    schedules: Sequence[Mapping[str, float]],
    in_order: Collection[str],
) -> list[Compared]:
    """Return a comparison with the schedules of a clairvoyant and the proved bound.

    Schedules of the comparison count as found by the clairvoyant too.

    Parameters
    ----------
    timers, schedules
        Figures of `ClairvoyantTask` for each seed, with Dally's order and with any order.
    in_order
        The names of the rows in which jobs choose in Dally's order.

    Raises
    ------
    SimulationError
        If a schedule beats the proved bound.
    """
    timers_s, schedule_s = [], []
    for draw, (kept, free) in enumerate(zip(timers, schedules, strict=True)):
        by_row = {each.name: each.tuned[draw][JCT] for each in compared}
        timers_s.append(min(kept[JCT], *(by_row[name] for name in in_order)))
        schedule_s.append(min(free[JCT], timers_s[-1], *by_row.values()))
        if schedule_s[-1] < free[BOUND] * (1 - TOLERANCE):
            raise SimulationError(
                f"draw {draw}: a schedule has a mean JCT of {schedule_s[-1]} s, but {free[BOUND]} "
                "s is proved to be the least"
            )
    found = {TIMERS: timers_s, SCHEDULE: schedule_s, PROVED: [each[BOUND] for each in schedules]}
    rows = [
        Compared(name=label, tuned=[{JCT: value} for value in values])
        for label, values in found.items()
    ]
    return [*compared, *rows]


def shares_in_words(compared: Sequence[Compared]) -> str:
    """Return how the auto-tuner's distance from the best schedule found splits into three parts."""
    if not {SCHEDULE, AUTO_TUNER} <= {row.name for row in compared}:
        return ""
    sums = {row.name: math.fsum(each[JCT] for each in row.tuned) for row in compared}
    whole = sums[AUTO_TUNER] - sums[SCHEDULE]
    if whole <= 0:
        return f"No schedule was found that is better than that of {AUTO_TUNER}."
    tuner, timers, order = (
        _percent((sums[worse] - sums[better]) / whole)
        for worse, better in ((AUTO_TUNER, BEST), (BEST, TIMERS), (TIMERS, SCHEDULE))
    )
    return (
        f"The distance from {AUTO_TUNER} to the {SCHEDULE} splits into {tuner} % for the tuner "
        f"against the {BEST}, {timers} % for {TIMERS}, and {order} % for the order of jobs."
    )


def _cells(values: Sequence[float], references: Sequence[float]) -> tuple[str, str]:
    """Return the mean, and its ratio to the reference, each with the least and greatest by seed."""
    if not values or 0 in references:
        return NOTHING, NOTHING
    references = references if len(references) == len(values) else [references[0]] * len(values)
    ratios = [value / other for value, other in zip(values, references, strict=True)]
    mean = statistics.fmean(values)
    ratio = mean / statistics.fmean(references)
    if len(values) == 1:
        return _shown(mean), f"{ratio:.3f}"
    return (
        f"{_shown(mean)} ({_shown(min(values))} to {_shown(max(values))})",
        f"{ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
    )


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f}"


def _mean(of_seeds: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.fmean(each[name] for each in of_seeds)


def _finite(value: float) -> float | None:
    return None if value == math.inf else value
