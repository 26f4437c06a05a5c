"""Fixed timers of least mean JCT over draws of jobs, by simulation optimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.validation import require_integer
from lyra_opt.experiments.tuning.timer_space import BASELINES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.experiments.tuning.timer_space import TimerSpace
    from lyra_opt.simulation.network.class_timers import ClassTimers

LEAST_TRIALS = len(BASELINES)
START_UP_TRIALS = 12
"""Beside the baselines, drawn evenly before the sampler has enough to learn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Timers that were tried.

    Parameters
    ----------
    timers
        Which.
    jct_s
        Mean JCT of each draw.
    baseline
        Name of the baseline that they are; empty for others.
    """

    timers: ClassTimers
    jct_s: tuple[float, ...]
    baseline: str = ""

    @property
    def mean_jct_s(self) -> float:
        """Over the draws: the objective."""
        return math.fsum(self.jct_s) / len(self.jct_s)


def load_optuna() -> Any:
    """Return Optuna, silenced; `UserError` that names the extra if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            'tuning needs Optuna, which is not installed: pip install "lyra-opt[tuning]"'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def tune(
    evaluate: Callable[[ClassTimers], Sequence[float]],
    space: TimerSpace,
    *,
    trials: int,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[Trial]:
    """Return what was tried, in order; the baselines first.

    Parameters
    ----------
    evaluate
        Returns the mean JCT of each draw under timers, the same draws for all of them.
    space
        The timers to choose from.
    trials
        How many are tried, at least the baselines; timers may be tried twice.
    seed
        Of the sampler.
    advance
        Is called after each trial.

    Raises
    ------
    UserError
        If Optuna is not installed, or there are too few trials.

    Notes
    -----
    Source: the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) of Optuna, timers
    as whole numbers with "for ever" above the largest; one after the other, so that the same seed
    gives the same trials however many processes simulate. No guarantee beyond the baselines.
    """
    require_integer("trials", trials, minimum=LEAST_TRIALS)
    optuna = load_optuna()
    sampler = optuna.samplers.TPESampler(
        seed=seed % 2**32, n_startup_trials=LEAST_TRIALS + START_UP_TRIALS, multivariate=True
    )
    study = optuna.create_study(sampler=sampler)
    baselines = space.baselines
    for steps in baselines.values():
        study.enqueue_trial(steps)
    found = []
    for baseline in [*baselines, *[""] * (trials - LEAST_TRIALS)]:
        asked = study.ask()
        timers = space.drawn(asked.suggest_int)
        trial = Trial(timers=timers, jct_s=tuple(evaluate(timers)), baseline=baseline)
        study.tell(asked, trial.mean_jct_s)
        found.append(trial)
        advance()
    return found


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial of least mean JCT over the draws, the first of equals."""
    return min(trials, key=lambda trial: trial.mean_jct_s)
