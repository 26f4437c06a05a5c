"""The result of a tuning: best values, comparison with other values and schemes, and trials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.numbers import MISSING, three_digits
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.tuning.search import best_of
from lyra_opt.experiments.tuning.tasks import SCHEDULE, TIMERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from lyra_opt.experiments.tuning.search import Trial
    from lyra_opt.experiments.tuning.tuning_file import TuningTable

BEST = "best found"
AUTO_TUNER = "dally"
JCT = "jct_mean_s"
PROVED = "bound of any schedule"
TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a tuning for one combination of values of the scenario's axes.

    Parameters
    ----------
    table
        The tuning file.
    point
        The value of each axis of the scenario at this point.
    trials
        All trials, in the order in which they ran.
    figures
        Measures (columns) by seed for each entry of the comparison: the values of ``start``,
        `BEST`, the other schemes and the clairvoyant schedules.
    replayed
        Figures of the best values on the simulated cluster by judged seed, if trials are compiled.
    assumptions
        Assumptions of the simulations with the best values, one sentence each.
    """

    table: TuningTable
    point: Mapping[str, Any]
    trials: Sequence[Trial]
    figures: Mapping[str, pd.DataFrame]
    replayed: pd.DataFrame
    assumptions: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The combination of axis values as text; empty for a scenario without axes."""
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())

    @property
    def values(self) -> dict[str, float]:
        """The best value of each parameter, by key."""
        table = self.table
        paths = [each.path for each in table.parameters]
        return dict(zip(paths, best_of(self.trials).values(table), strict=True))

    @cached_property
    def tried(self) -> pd.DataFrame:
        """A row per trial: the values of the parameters, the mean measures and the ``loss``."""
        import pandas as pd

        rows = [
            [
                *trial.values(self.table),
                *(trial.means[name] for name in self.table.measures),
                trial.loss,
            ]
            for trial in self.trials
        ]
        return pd.DataFrame(
            rows, columns=[*self.values, *self.table.measures, "loss"], dtype=object
        )

    def of(self, name: str, seeds: Sequence[int]) -> pd.DataFrame:
        """Return the measures of a compared entry on some seeds; empty if none of them was run."""
        figures = self.figures[name]
        return figures[figures.index.isin(seeds)]

    @property
    def worst_disagreement(self) -> float | None:
        """Largest relative difference between the simulated cluster and the compiled schedule."""
        if self.replayed.empty:
            return None
        compiled = self.of(BEST, self.table.judged)
        scale = compiled.abs().mask(compiled == 0, 1.0)
        return float(((self.replayed - compiled).abs() / scale).max().max())

    def missed(self, seeds: Sequence[int]) -> list[str]:
        """Return the measures whose mean over some seeds is outside the tolerance of its target."""
        means = self.of(BEST, seeds).mean()
        return [
            target.name
            for target in self.table.targets
            if abs(means[target.name] / target.value - 1) > target.tolerance
        ]

    def as_json_object(self) -> dict[str, Any]:
        """Return the content of ``tuning.json``; a value of inf is null."""
        table = self.table
        targets = {each.name: each for each in table.targets}
        tuned, judged = (self.of(BEST, seeds) for seeds in (table.seeds, table.judged))
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
                    "tuned": tuned[name].to_list(),
                    "judged": judged[name].to_list(),
                    "replayed": self.replayed[name].to_list(),
                }
                for name in table.measures
            ],
            "seeds": list(table.seeds),
            "judged_seeds": list(table.judged),
            "missed": self.missed(table.seeds),
            "missed_by_others": self.missed(table.judged),
            "worst_disagreement": self.worst_disagreement,
            "compared": [
                {
                    "name": name,
                    "tuned": self.of(name, table.seeds).to_dict("records"),
                    "judged": self.of(name, table.judged).to_dict("records"),
                }
                for name in self.figures
            ],
            "tried": {
                "columns": list(self.tried),
                "rows": [
                    [_finite(value) for value in row] for row in self.tried.to_numpy().tolist()
                ],
            },
            "assumptions": list(self.assumptions),
        }

    def comparison(self) -> Table:
        """Return the comparison: per target or entry, a mean and a ratio on both groups of seeds.

        Ratios are to published figures, or to the best values by seed. Brackets have the range.
        """
        table = self.table
        tuned, judged = (self.of(BEST, seeds) for seeds in (table.seeds, table.judged))
        rows: list[tuple[str, Sequence[_MeanAndRatio]]] = []
        for each in table.targets:
            cells = [_mean_and_ratio(best[each.name], each.value) for best in (tuned, judged)]
            rows.append((f"{each.name}, published {each.value:g}", cells))
        if table.measure is not None:
            for name in self.figures:
                pairs = ((self.of(name, table.seeds), tuned), (self.of(name, table.judged), judged))
                cells = [
                    _mean_and_ratio(own[table.measure], best[table.measure]) for own, best in pairs
                ]
                rows.append((name, cells))
        columns = [Column(key="name", values=[name for name, _ in rows], heading="")]
        for place, (key, heading) in enumerate((("tuned", "tuned on"), ("judged", "judged on"))):
            cells = [of_row[place] for _, of_row in rows]
            columns += [
                Column(
                    key=f"{key}_mean",
                    values=[cell.mean for cell in cells],
                    show=three_digits,
                    heading=heading,
                    texts=[cell.mean_text for cell in cells],
                ),
                Column(
                    key=f"{key}_ratio",
                    values=[cell.ratio for cell in cells],
                    show=three_digits,
                    heading="ratio",
                    texts=[cell.ratio_text for cell in cells],
                ),
            ]
        return Table(columns, f"{self.name or table.name}: {', '.join(table.measures)}")

    def shares_in_words(self) -> str:
        """Return a sentence that splits the auto-tuner's excess over the best schedule into parts.

        The parts are those of the tuner, of the timers and of the job order. The sentence is empty
        without a clairvoyant search or without the auto-tuner among the schemes.
        """
        if not {SCHEDULE, AUTO_TUNER} <= self.figures.keys():
            return ""
        sums = {name: math.fsum(self.of(name, self.table.seeds)[JCT]) for name in self.figures}
        whole = sums[AUTO_TUNER] - sums[SCHEDULE]
        if whole <= 0:
            return f"No schedule found is better than the schedule of {AUTO_TUNER}."
        tuner, timers, order = (
            f"{round(100 * (sums[worse] - sums[better]) / whole, 1) + 0.0:.1f}"
            for worse, better in ((AUTO_TUNER, BEST), (BEST, TIMERS), (TIMERS, SCHEDULE))
        )
        return (
            f"The distance from {AUTO_TUNER} to the {SCHEDULE} splits into {tuner} % for the tuner "
            f"against the {BEST}, {timers} % for {TIMERS}, and {order} % for the order of jobs."
        )


def with_clairvoyant(
    jct_s: pd.DataFrame, bound_s: pd.Series, in_order: Sequence[str]
) -> pd.DataFrame:
    """Replace clairvoyant schedules by better schedules of other entries, and add the bound.

    Parameters
    ----------
    jct_s
        Mean JCT in seconds by seed (rows) and entry (columns), including `TIMERS` and `SCHEDULE`.
    bound_s
        Proved lower bound on the mean JCT, by seed; it becomes the column `PROVED`.
    in_order
        Entries whose jobs choose in Dally's order: `TIMERS` takes their best schedule.

    Raises
    ------
    SimulationError
        If a schedule beats the proved bound.
    """
    timers_s = jct_s[[*in_order, TIMERS]].min(axis=1)
    found = jct_s.assign(**{TIMERS: timers_s, SCHEDULE: jct_s.min(axis=1), PROVED: bound_s})
    for seed, least_s in found[SCHEDULE].items():
        if least_s < bound_s[seed] * (1 - TOLERANCE):
            raise SimulationError(
                f"seed {seed}: a schedule has a mean JCT of {least_s} s, but {bound_s[seed]} s is "
                "a proved lower bound"
            )
    return found


class _MeanAndRatio(NamedTuple):
    """A mean and its ratio to the reference, as numbers and as texts with ranges over the seeds."""

    mean: float | None = None
    mean_text: str = MISSING
    ratio: float | None = None
    ratio_text: str = MISSING


def _mean_and_ratio(values: pd.Series, reference: pd.Series | float) -> _MeanAndRatio:
    ratios = values / reference
    if values.empty or not ratios.map(math.isfinite).all():
        return _MeanAndRatio()
    mean = float(values.mean())
    ratio = mean / float(reference if isinstance(reference, float) else reference.mean())
    texts = three_digits(mean), f"{ratio:.3f}"
    if len(values) > 1:
        texts = (
            f"{texts[0]} ({three_digits(values.min())} to {three_digits(values.max())})",
            f"{texts[1]} ({ratios.min():.3f} to {ratios.max():.3f})",
        )
    return _MeanAndRatio(mean, texts[0], ratio, texts[1])


def _finite(value: float) -> float | None:
    return None if value == math.inf else value
