"""What came of a calibration: what was chosen, what it is worth, and all that was tried."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.calibration.search import best_of
from lyra_opt.experiments.tables import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.calibration.document import CalibrationTable
    from lyra_opt.experiments.calibration.search import Trial

HEADER = (
    "",
    "published",
    "calibrated on",
    "ratio",
    "judged on",
    "ratio",
    "replayed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What came of a calibration.

    Parameters
    ----------
    table
        What was calibrated.
    seed
        Of the search.
    trials
        All that was tried.
    calibrated, judged
        Figures of the best on each seed that it was calibrated on, and on each other one.
    replayed
        Those of the latter by the simulated cluster, as far as it was asked.
    """

    table: CalibrationTable
    seed: int
    trials: tuple[Trial, ...]
    calibrated: tuple[Mapping[str, float], ...]
    judged: tuple[Mapping[str, float], ...]
    replayed: tuple[Mapping[str, float], ...] = ()

    @property
    def best(self) -> Trial:
        """What was chosen."""
        return best_of(self.trials)

    @property
    def worst_disagreement(self) -> float | None:
        """Largest relative difference of a replay's figure from the compiled schedule's."""
        differences = [
            abs(replayed[name] - value) / (abs(value) or 1.0)
            for replayed, compiled in zip(self.replayed, self.judged, strict=False)
            for name, value in compiled.items()
        ]
        return max(differences, default=None)

    def misses(self, of_seeds: Sequence[Mapping[str, float]]) -> list[str]:
        """Return the measures whose mean over seeds is off by more than their tolerance."""
        return [
            target.measure
            for target in self.table.targets
            if abs(_mean(of_seeds, target.measure) / target.value - 1) > target.tolerance
        ]

    def as_json_object(self) -> dict[str, Any]:
        """Return everything; of the trials the values, means and losses as rows."""
        table, keys = self.table, [each.path for each in self.table.parameters]
        names = [target.measure for target in table.targets]
        return {
            "calibration": table.name,
            "scenario": table.scenario,
            "changes": dict(table.changes),
            "queue": table.queue,
            "search_seed": self.seed,
            "parameters": dict(self.best.candidate),
            "loss": self.best.loss,
            "targets": [
                {
                    "measure": target.measure,
                    "value": target.value,
                    "tolerance": target.tolerance,
                    "calibrated_mean": _mean(self.calibrated, target.measure),
                    "judged_mean": _mean(self.judged, target.measure),
                    "calibrated": [each[target.measure] for each in self.calibrated],
                    "judged": [each[target.measure] for each in self.judged],
                    "replayed": [each[target.measure] for each in self.replayed],
                }
                for target in table.targets
            ],
            "seeds": list(table.seeds),
            "judged_seeds": list(table.judged),
            "missed": self.misses(self.calibrated),
            "missed_by_others": self.misses(self.judged),
            "worst_disagreement": self.worst_disagreement,
            "tried": {
                "columns": [*keys, *names, "loss"],
                "rows": [
                    [
                        *(trial.candidate[key] for key in keys),
                        *(float(f"{trial.means[name]:.6g}") for name in names),
                        float(f"{trial.loss:.6g}"),
                    ]
                    for trial in self.trials
                ],
            },
        }

    def rows(self) -> list[list[str]]:
        """Return a row for each target; see `HEADER`."""
        return [
            [
                target.measure,
                _shown(target.value),
                *_over_seeds(self.calibrated, target.measure, target.value),
                *_over_seeds(self.judged, target.measure, target.value),
                _over_seeds(self.replayed, target.measure, target.value)[0],
            ]
            for target in self.table.targets
        ]


def _mean(of_seeds: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.fmean(each[name] for each in of_seeds)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _over_seeds(
    of_seeds: Sequence[Mapping[str, float]], name: str, published: float
) -> tuple[str, str]:
    """Return mean, least and greatest, and the ratio of the mean."""
    if not of_seeds:
        return NOTHING, NOTHING
    values = [each[name] for each in of_seeds]
    mean = statistics.fmean(values)
    spread = f" ({_shown(min(values))} to {_shown(max(values))})" if len(values) > 1 else ""
    return f"{_shown(mean)}{spread}", f"{mean / published:.3f}"
