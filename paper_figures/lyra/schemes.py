"""What the simulated tables and figures have in common: cases by the paper's names, and gains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paper_figures.comparison import gain
from paper_figures.simulations import ADVANCED, HETEROGENEOUS, IDEAL, Case

if TYPE_CHECKING:
    from paper_figures.simulations import Result, Results

BASELINE = Case(scheme="fifo")
LYRA = Case(scheme="lyra")
ADVANCED_LYRA = Case(scheme="lyra", scenario=ADVANCED)
HETEROGENEOUS_LYRA = Case(scheme="lyra", scenario=HETEROGENEOUS)
IDEAL_LYRA = Case(scheme="lyra", scenario=IDEAL)

# Not in the paper: the Baseline with nothing but Lyra's order of jobs.
REORDERED = Case(scheme="fifo", changes=(("queue", "shortest-base"),))

# Loaning without scaling.
OPPORTUNISTIC = Case(scheme="opportunistic")
RANDOM = Case(scheme="random")
SCF = Case(scheme="scf")
LOANING = Case(scheme="lyra-loaning")

# Scaling without loaning.
GANDIVA = Case(scheme="gandiva")
AFS = Case(scheme="afs")
POLLUX = Case(scheme="pollux")
SCALING = Case(scheme="lyra-scaling")
TUNED = Case(scheme="lyra-tuned")

GAINS = {"queue": "queue_mean_s", "JCT": "jct_mean_s"}
"""Key of the mean whose gain the paper plots."""

NO_MODELS = (
    "Not run: schemes that tune batch sizes (Pollux, Lyra+TunedJobs) are not among the schemes of "
    "this installation."
)


def gain_over(reference: Result, result: Result | None, key: str) -> float | None:
    """Return how many times less a figure of a result is than a reference's; None without one."""
    if result is None:
        return None
    return gain(float(reference.record[key]), float(result.record[key]))


def gain_over_baseline(results: Results, case: Case, key: str) -> float | None:
    """Return the gain over the Baseline on the same workload."""
    return gain_over(baseline_of(results, case), results.of(case), key)


def baseline_case(case: Case) -> Case:
    """Return the Baseline of a case, which is the same for every scenario.

    First come, first served without loans and scaling takes no notice of who is elastic, fungible
    and so on.
    """
    return replace(
        BASELINE,
        seed=case.seed,
        load=case.load,
        bootstrap=case.bootstrap,
        is_testbed=case.is_testbed,
    )


def baseline_of(results: Results, case: Case) -> Result:
    """Return what came of the Baseline of a case."""
    result = results.of(baseline_case(case))
    assert result is not None, "the Baseline is always there"
    return result


def notes_on_missing(*cases: Case) -> list[str]:
    """Return a note if one of the cases is not run."""
    return [] if all(case.is_known for case in cases) else [NO_MODELS]
