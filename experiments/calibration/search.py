"""Values of parameters under which figures are nearest to what was published, with Optuna."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.experiments.tuning.search import load_optuna

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.experiments.calibration.document import CalibrationTable, ParameterTable
    from lyra_opt.experiments.calibration.evaluation import Candidate

    OfSeeds = Sequence[Mapping[str, float]]

START_UP_SHARE = 0.25
"""Of the trials that Optuna chooses, those drawn evenly before it has enough to learn from."""

MOST_CHANGED = 4
STEP_SHARE = 0.08
"""Standard deviation of a change, as a share of the range of a parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Values that were tried.

    Parameters
    ----------
    candidate
        Which.
    means
        Of each figure, over the seeds.
    loss
        What is least where all targets are met best; see `loss_of`.
    """

    candidate: Candidate
    means: Mapping[str, float]
    loss: float


def means_of(of_seeds: OfSeeds) -> dict[str, float]:
    """Return the means of figures over seeds."""
    return {name: statistics.fmean(each[name] for each in of_seeds) for name in of_seeds[0]}


def loss_of(table: CalibrationTable, means: Mapping[str, float]) -> float:
    """Return how far the worst figure is off, in tolerances, plus the mean of all."""
    misses = [
        abs(means[target.measure] / target.value - 1) / target.tolerance for target in table.targets
    ]
    return max(misses) + math.fsum(misses) / len(misses)


def search(
    table: CalibrationTable,
    evaluate: Callable[[Candidate], OfSeeds],
    *,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[Trial]:
    """Return what was tried, in order.

    Parameters
    ----------
    table
        What is calibrated.
    evaluate
        Returns the figures of a candidate on each seed, the same seeds for all of them.
    seed
        Of the search.
    advance
        Is called after each trial.

    Raises
    ------
    UserError
        If Optuna is not installed.

    Notes
    -----
    Source: the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) of Optuna, all
    parameters together; then the best so far with a few values changed a little, again and again.
    One after the other, so that the same seed gives the same trials. No guarantee.
    """
    optuna = load_optuna()
    sampler = optuna.samplers.TPESampler(
        seed=seed % 2**32,
        n_startup_trials=max(1, round(START_UP_SHARE * table.trials)),
        multivariate=True,
    )
    study = optuna.create_study(sampler=sampler)
    rng = np.random.default_rng(seed)
    found: list[Trial] = []

    def tried(candidate: Candidate) -> Trial:
        means = means_of(evaluate(candidate))
        trial = Trial(candidate=candidate, means=means, loss=loss_of(table, means))
        found.append(trial)
        advance()
        return trial

    for _ in range(table.trials):
        asked = study.ask()
        candidate = {
            each.path: asked.suggest_int(each.path, each.least, each.most)
            for each in table.parameters
        }
        study.tell(asked, tried(candidate).loss)
    for _ in range(table.refinements):
        tried(_changed(best_of(found).candidate, table.parameters, rng))
    return found


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial of least loss, the first of equals."""
    return min(trials, key=lambda trial: trial.loss)


def _changed(
    best: Candidate, parameters: Sequence[ParameterTable], rng: np.random.Generator
) -> Candidate:
    """Return a candidate with a few values that are a little other."""
    few = rng.integers(1, min(MOST_CHANGED, len(parameters)) + 1)
    changed = dict(best)
    for place in rng.choice(len(parameters), size=few, replace=False):
        each = parameters[place]
        step = max(1.0, STEP_SHARE * (each.most - each.least)) * rng.standard_normal()
        value = best[each.path] + math.copysign(max(1, round(abs(step))), step)
        changed[each.path] = int(min(each.most, max(each.least, value)))
    return changed
