"""What came of tuning: the timers, and what they are worth in hindsight and on fresh draws."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.tables import NOTHING
from lyra_opt.experiments.tuning.search import best_of
from lyra_opt.simulation.scheme import find_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.experiments.tuning.search import Trial
    from lyra_opt.experiments.tuning.situation import Candidate
    from lyra_opt.simulation.network.class_timers import ClassTimers
    from lyra_opt.simulation.scheme import Scheme

AUTO_TUNER = "dally"
TUNED = "best found"
HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A candidate on the draws that timers were tuned on, and on fresh ones.

    Parameters
    ----------
    name
        What it is called.
    jct_s, fresh_jct_s
        Mean JCT of each draw; of fresh ones none where they were not asked.
    """

    name: str
    jct_s: tuple[float, ...]
    fresh_jct_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was found.

    Parameters
    ----------
    trials
        All that was tried.
    compared
        The baselines, Dally's auto-tuner, other schemes, the best timers, and what a clairvoyant
        could have, where that was asked for.
    """

    trials: tuple[Trial, ...]
    compared: tuple[Compared, ...]

    @property
    def timers(self) -> ClassTimers:
        """The best on the draws that they were tuned on."""
        return best_of(self.trials).timers

    @property
    def best(self) -> Compared:
        """How they did."""
        return next(each for each in self.compared if each.name == TUNED)

    def as_json_object(self) -> dict[str, Any]:
        """Return everything; timers for ever are null."""
        return {
            "timers": _classes(self.timers),
            "compared": [
                {
                    "name": each.name,
                    "jct_mean_s": statistics.fmean(each.jct_s),
                    "fresh_jct_mean_s": (
                        statistics.fmean(each.fresh_jct_s) if each.fresh_jct_s else None
                    ),
                    "jct_s": list(each.jct_s),
                    "fresh_jct_s": list(each.fresh_jct_s),
                }
                for each in self.compared
            ],
            "tried": [
                {
                    "baseline": trial.baseline or None,
                    "jct_mean_s": trial.mean_jct_s,
                    "jct_s": list(trial.jct_s),
                    "timers": _classes(trial.timers),
                }
                for trial in self.trials
            ],
        }

    def rows(self) -> list[list[str]]:
        """Return a row for each candidate; see `HEADER`."""
        return [
            [
                each.name,
                *_compared_in_words(each.jct_s, self.best.jct_s),
                *_compared_in_words(each.fresh_jct_s, self.best.fresh_jct_s),
            ]
            for each in self.compared
        ]


def _compared_in_words(jct_s: Sequence[float], best_s: Sequence[float]) -> tuple[str, str]:
    if not jct_s:
        return NOTHING, NOTHING
    return f"{statistics.fmean(jct_s) / HOUR_S:.2f}", regret_in_words(jct_s, best_s)


HEADER = (
    "",
    "mean JCT (h)",
    "above best found (%)",
    "fresh draws: mean JCT (h)",
    "above best found (%)",
)


def compare(
    trials: Sequence[Trial],
    evaluate: Callable[[Candidate], Sequence[float]],
    evaluate_fresh: Callable[[Candidate], Sequence[float]],
    schemes: Sequence[Scheme] = (),
) -> Tuning:
    """Return what was found beside the baselines, Dally's auto-tuner and other schemes.

    Parameters
    ----------
    evaluate, evaluate_fresh
        Return the mean JCT of each draw that was tuned on, and of each that was not.
    schemes
        Left out where a baseline, or the auto-tuner, has the name.
    """
    candidates: dict[str, Candidate] = {
        trial.baseline: trial.timers for trial in trials if trial.baseline
    }
    for scheme in (find_scheme(AUTO_TUNER), *schemes):
        candidates.setdefault(scheme.name, scheme)
    candidates[TUNED] = best_of(trials).timers
    return Tuning(
        trials=tuple(trials),
        compared=tuple(
            Compared(
                name=name,
                jct_s=tuple(evaluate(candidate)),
                fresh_jct_s=tuple(evaluate_fresh(candidate)),
            )
            for name, candidate in candidates.items()
        ),
    )


def regret(jct_s: Sequence[float], reference_s: Sequence[float]) -> float:
    """Return by what share the mean over draws is above a reference, below 0 where it is less."""
    return math.fsum(jct_s) / math.fsum(reference_s) - 1


def regret_in_words(jct_s: Sequence[float], reference_s: Sequence[float]) -> str:
    """Return the regret in per cent and, of several draws, the least and the greatest.

    >>> regret_in_words((11.0, 24.0), (10.0, 20.0))
    '16.7 (10.0 to 20.0)'
    """
    of_draws = [
        regret([value], [reference]) for value, reference in zip(jct_s, reference_s, strict=True)
    ]
    text = percent(regret(jct_s, reference_s))
    if len(of_draws) == 1:
        return text
    return f"{text} ({percent(min(of_draws))} to {percent(max(of_draws))})"


def percent(share: float) -> str:
    """Return a share in per cent, with a digit behind the point and no sign before 0.

    >>> percent(0.123), percent(-1e-9)
    ('12.3', '0.0')
    """
    return f"{round(100 * share, 1) + 0.0:.1f}"


def _classes(timers: ClassTimers) -> list[dict[str, float | None]]:
    return [
        {
            "largest_gang": each.largest_gang,
            "rack_leases": _or_none(each.rack_leases),
            "network_leases": _or_none(each.network_leases),
        }
        for each in timers.classes
    ]


def _or_none(leases: float) -> float | None:
    return None if leases == math.inf else leases
