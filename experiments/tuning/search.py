"""Search for the best values of a tuning file's parameters, with Optuna."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.tuning.tuning_file import TuningTable

Steps = Mapping[str, int]

MOST_CHANGED = 4
STEP_SHARE = 0.08
"""Standard deviation of a refinement's change, as a share of the parameter's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One tried set of parameter values, with its mean figures over the seeds.

    Parameters
    ----------
    steps
        The step of each parameter, by key; see `ParameterTable.value`.
    means
        Mean of each measure over the seeds.
    loss
        The number that the search minimises; see `loss_of`.
    """

    steps: Steps
    means: Mapping[str, float]
    loss: float

    def values(self, table: TuningTable) -> list[float]:
        """Return the value of each parameter, in the order of the tuning file."""
        return [each.value(self.steps[each.path]) for each in table.parameters]


def load_optuna() -> Any:
    """Return the module Optuna with its log silenced; raise `UserError` if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            'tuning needs Optuna, which is not installed: pip install "lyra-opt[tuning]"'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def loss_of(table: TuningTable, means: Mapping[str, float]) -> float:
    """Return the mean of the measure, or a loss for the distance from all targets.

    With targets the loss is the worst miss plus the mean miss, where each miss is divided by the
    target's tolerance. With `TuningTable.largest_miss` it is the mean miss, each at most that.
    """
    if table.measure is not None:
        return means[table.measure]
    misses = [
        abs(means[target.name] / target.value - 1) / target.tolerance for target in table.targets
    ]
    if table.largest_miss is not None:
        return math.fsum(min(each, table.largest_miss) for each in misses) / len(misses)
    return max(misses) + math.fsum(misses) / len(misses)


def search(
    table: TuningTable, evaluate: Callable[[Sequence[Steps]], Sequence[Mapping[str, float]]]
) -> list[Trial]:
    """Search for the parameter values of least loss; return all trials in order.

    Parameters
    ----------
    evaluate
        Returns the mean figures over the seeds for each candidate of a batch; candidates of a batch
        may run in parallel.

    Raises
    ------
    UserError
        If Optuna is not installed.

    Notes
    -----
    Source: Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) over all
    parameters jointly, followed by small random changes of the best trial. A tuning file always
    gives the same trials, whatever runs the simulations. An interrupted search therefore repeats
    its choices and reads their results from the store. There is no guarantee beyond the values of
    ``start``.
    """
    optuna = load_optuna()
    first = len(table.start) + table.random
    sampler = optuna.samplers.TPESampler(
        seed=table.seed % 2**32, n_startup_trials=first, multivariate=True
    )
    study = optuna.create_study(sampler=sampler)
    for each in table.start:
        pairs = zip(table.parameters, each.values, strict=True)
        study.enqueue_trial({parameter.path: parameter.step(value) for parameter, value in pairs})
    found: list[Trial] = []

    def tried(candidates: Sequence[Steps]) -> list[Trial]:
        new = [
            Trial(steps=steps, means=means, loss=loss_of(table, means))
            for steps, means in zip(candidates, evaluate(candidates), strict=True)
        ]
        found.extend(new)
        return new

    while len(found) < table.trials:
        asked, chosen = [], []
        for _ in range(min(table.batch if found else first, table.trials - len(found))):
            asked.append(study.ask())
            chosen.append(
                {
                    each.path: asked[-1].suggest_int(each.path, each.least, each.largest_step)
                    for each in table.parameters
                }
            )
        for each, trial in zip(asked, tried(chosen), strict=True):
            study.tell(each, trial.loss)
    rng = np.random.default_rng(table.seed)
    last = table.trials + table.refinements
    while len(found) < last:
        best, count = best_of(found).steps, min(table.batch, last - len(found))
        tried([_changed(table, best, rng) for _ in range(count)])
    return found


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial of least loss; the earliest of several with equal loss."""
    return min(trials, key=lambda trial: trial.loss)


def _changed(table: TuningTable, best: Steps, rng: np.random.Generator) -> Steps:
    """Return the best steps after a small random change of up to `MOST_CHANGED` parameters."""
    few = rng.integers(1, min(MOST_CHANGED, len(table.parameters)) + 1)
    changed = dict(best)
    for place in rng.choice(len(table.parameters), size=few, replace=False):
        each = table.parameters[place]
        spread = STEP_SHARE * (each.largest_step - each.least)
        step = max(1.0, spread) * rng.standard_normal()
        moved = best[each.path] + math.copysign(max(1, round(abs(step))), step)
        changed[each.path] = int(min(each.largest_step, max(each.least, moved)))
    return changed
