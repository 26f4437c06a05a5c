"""The search finds what is there to be found, and never loses the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lyra_opt.experiments.calibration.document import (
    CalibrationTable,
    ParameterTable,
    TargetTable,
)
from lyra_opt.experiments.calibration.search import best_of, loss_of, means_of, search

if TYPE_CHECKING:
    from lyra_opt.experiments.calibration.evaluation import Candidate

TARGETS = (
    TargetTable(measure="queue_mean_s", value=100.0),
    TargetTable(measure="jct_mean_s", value=1000.0, tolerance=0.2),
)


def table(trials: int, refinements: int) -> CalibrationTable:
    """Return a calibration of two numbers from 0 to 99."""
    return CalibrationTable(
        format="lyra-opt/calibration",
        version=1,
        name="drawn",
        scenario="lyra-paper",
        queue="first-come",
        seeds=(0, 1),
        judged=(2,),
        trials=trials,
        refinements=refinements,
        targets=TARGETS,
        parameters=tuple(ParameterTable(path=name, least=0, most=99) for name in "ab"),
    )


def figures_of(candidate: Candidate) -> list[dict[str, float]]:
    """Return figures of two seeds, whose means are met by 40 and 70 alone."""
    a, b = candidate["a"], candidate["b"]
    return [
        {"queue_mean_s": 60.0 + a + noise, "jct_mean_s": 930.0 + b - noise} for noise in (-5, 5)
    ]


def test_the_best_is_found_and_kept() -> None:
    """Small changes of the best end where nothing is better; nothing gets lost on the way."""
    found = search(table(20, 150), figures_of, seed=0)
    assert len(found) == 170
    assert best_of(found).loss == min(trial.loss for trial in found)
    assert best_of(found).candidate == {"a": 40, "b": 70}
    assert best_of(found).loss == 0
    sampled = min(trial.loss for trial in found[:20])
    assert best_of(found).loss < sampled, "the sampler alone is not that lucky"


def test_same_seed_same_trials() -> None:
    """And another seed tries others."""
    one, same, other = (search(table(8, 8), figures_of, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert [trial.candidate for trial in one] != [trial.candidate for trial in other]


def test_values_stay_in_their_range() -> None:
    """Also where the best is at its end."""
    found = search(table(4, 60), lambda c: [{"queue_mean_s": c["a"], "jct_mean_s": 1.0}], seed=0)
    assert {0 <= value <= 99 for trial in found for value in trial.candidate.values()} == {True}
    assert best_of(found).candidate["a"] == 99


def test_loss_counts_in_tolerances() -> None:
    """The worst miss, and the mean of all."""
    means = means_of([{"queue_mean_s": 80, "jct_mean_s": 1300}, {"queue_mean_s": 90} | JCT])
    assert loss_of(table(1, 0), means) == pytest.approx(1.5 + (1.5 + 1.0) / 2)


JCT = {"jct_mean_s": 1100}
