"""The figures of elastic allocation: knapsacks, a long schedule, proofs and certified gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from scipy.stats import gmean

from lyra_opt.allocation.instance import Objective
from lyra_opt.core.gaps import relative_gap
from lyra_opt.core.result import Status
from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.experiments.bench.trials import interleaved, medians, proved_within, slowest
from lyra_opt.instances.family import generate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from lyra_opt.allocation.instance import Instance


@dataclass(frozen=True, slots=True)
class Case:
    """Instances that differ in their seed alone.

    Parameters
    ----------
    label
        What figures call them.
    family
        Such as ``load``.
    parameters
        The family's own, beside the jobs.
    """

    label: str
    family: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def instances(self, jobs: int, seeds: int) -> list[Instance]:
        """Return those with the seeds 0 to `seeds` - 1."""
        return [
            generate("allocation", self.family, seed=seed, jobs=jobs, **self.parameters)
            for seed in range(seeds)
        ]


def _load(load_percent: int, release_percent: int = 0, *, is_mixed: bool = False) -> Case:
    label = f"load {load_percent} %"
    parameters: dict[str, Any] = {"load_percent": load_percent}
    if release_percent:
        label += f", releases over {release_percent} %"
        parameters["release_percent"] = release_percent
    if is_mixed:
        label += ", 1 to 8 GPUs a worker, scaling loss 20 %"
        parameters |= {"gpus_per_worker": "mixed", "scaling_loss_percent": 20}
    return Case(label, "load", parameters)


def _knapsacks(jobs: int, gpus: int, extra_workers: int | None) -> Case:
    """Return one-shot instances with 1, 2, 4 or 8 GPUs a worker, where the greedy can fail."""
    parameters = {
        "objective": "jct_reduction",
        "gpus": gpus,
        "extra_workers": extra_workers,
        "gpus_per_worker": "mixed",
    }
    return Case(f"{jobs} jobs, {gpus} GPUs", "load", parameters)


OWN_KNAPSACK_SOLVERS = ("mckp-dp", "mckp-core")
GENERAL_SOLVERS = tuple(
    name + suffix
    for name in ("pulp-highs", "mathopt-highs", "mathopt-gscip", "cpsat", "pulp-cbc")
    for suffix in ("", "-strengthened")
)
"""Plain and strengthened: the best of them on each instance is the rival."""

# The largest knapsack that Lyra (EuroSys 2023) times has 354 items and 245 GPUs and takes 20 ms.
# How its items fall to jobs is not said: few extra workers a job, and more.
PAPER_SHAPES = ((118, 3), (59, 6))
PAPER_GPUS = 245
PAPER_RUNS = 11
PAPER_TARGET_S = 1e-3

MIDDLE_JOBS, MIDDLE_EXTRA_WORKERS, MIDDLE_GPUS = 300, 8, 4_000
MIDDLE_RUNS = 3
MIDDLE_TARGET_S = 5e-3
MIDDLE_RATIO_TARGET = 5.0
GENERAL_LIMIT_S = 10.0

LARGE_JOBS, LARGE_GPUS = 10_000, 50_000
LARGE_RUNS = 3
LARGE_TARGET_S = 0.5
LARGE_WITNESS = "mathopt-gscip-strengthened"
"""A general solver that is quick at that size: it proves the first instance once more."""

SCHEDULED_JOBS = 10_000
SCHEDULED_CASES = (_load(100, 100), _load(400, 50), _load(400, 50, is_mixed=True))
MOST_SCHEDULED_SEEDS = 2  # checking a schedule takes several times as long as making it
SCHEDULED_TARGET_S = 5.0

FITTING_JOBS = 8
LIGHT = Case("light", "light")
FITTING_CASES = (
    LIGHT,
    _load(60),
    _load(100),
    _load(100, 50),
    _load(100, 50, is_mixed=True),
)
"""All base demands fit together; in `LIGHT` all jobs run from time 0."""
OVERBOOKED_JOBS = 5
OVERBOOKED_CASES = (_load(200, 50), _load(200, 100), _load(400, 50), _load(400, 100))
"""Base demands do not fit together, and jobs are released over time."""
PROOF_CASES = (*OVERBOOKED_CASES, _load(400), _load(200, 50, is_mixed=True))
COMPARED_CASES = (LIGHT, *OVERBOOKED_CASES)
"""Whose optima say how much of a certified gap is the bound's."""
PROOF_TARGET_S = 60.0

GAP_JOBS = 50
POLICIES = ("best-fill", "rollout")
CERTIFICATE_RUNS = 3
CERTIFICATE_LIMIT_S = 1.0
LIGHT_GAP_TARGET_PERCENT = 3.0
OVERBOOKED_GAP_TARGET_PERCENT = 15.0


def allocation_figures(seeds: int) -> Iterator[Figure]:
    """Measure all figures of elastic allocation, one at a time."""
    yield from paper_figures(seeds)
    yield from middle_figures(seeds)
    yield from large_figures(seeds)
    yield from schedule_figures(min(seeds, MOST_SCHEDULED_SEEDS))
    yield from proof_figures(2 * seeds)
    yield from gap_figures(seeds)


def paper_figures(seeds: int) -> Iterator[Figure]:
    """Time the knapsack at the largest size of Lyra's paper."""
    instances = [
        instance
        for jobs, extra_workers in PAPER_SHAPES
        for instance in _knapsacks(jobs, PAPER_GPUS, extra_workers).instances(jobs, seeds)
    ]
    names = OWN_KNAPSACK_SOLVERS
    runs = interleaved("knapsacks of the paper", "allocation", names, instances, runs=PAPER_RUNS)
    size = f"{_items(instances[0])} items, {PAPER_GPUS} GPUs"
    times_s = medians(runs)
    for name in names:
        yield timed_figure(
            f"{name}, {size}",
            list(runs.time_s[runs.solver == name]),
            remark=f"slowest instance's median {1000 * times_s[name].max():.2f} ms",
        )
    yield slowest(
        f"the better of the two on each instance, {size}",
        medians(runs, "proof_s").min(axis=1),
        PAPER_TARGET_S,
        "jobs times extra workers: "
        + ", ".join(f"{jobs} x {extra}" for jobs, extra in PAPER_SHAPES)
        + "; 1, 2, 4 or 8 GPUs a worker; 20 ms in Lyra's paper, on another machine",
    )


def middle_figures(seeds: int) -> Iterator[Figure]:
    """Compare our knapsack solvers with the general ones at a few hundred jobs."""
    case = _knapsacks(MIDDLE_JOBS, MIDDLE_GPUS, MIDDLE_EXTRA_WORKERS)
    general = list(GENERAL_SOLVERS)
    runs = interleaved(
        "knapsacks of a few hundred jobs",
        "allocation",
        [*OWN_KNAPSACK_SOLVERS, *general],
        case.instances(MIDDLE_JOBS, seeds),
        runs=MIDDLE_RUNS,
        limit_s=GENERAL_LIMIT_S,
    )
    size = f"{case.label}, {MIDDLE_EXTRA_WORKERS} items a job"
    yield timed_figure(f"mckp-dp, {size}", list(runs.time_s[runs.solver == "mckp-dp"]))
    proofs_s = medians(runs, "proof_s")
    core_s, rival_s = proofs_s["mckp-core"], proofs_s[general].min(axis=1)
    yield slowest(
        f"mckp-core, {size}", core_s, MIDDLE_TARGET_S, "beside the items a job may take none"
    )
    ratios = rival_s / core_s
    medians_ms = 1000 * proofs_s[general].median()
    yield replace(
        timed_figure(
            f"best general solver of each instance against mckp-core, {size}", list(rival_s)
        ),
        statistic="geometric mean of the ratios of times to proof",
        measured=float(gmean(ratios)),
        target=MIDDLE_RATIO_TARGET,
        at_least=True,
        remark=f"ratios {ratios.min():.3g} to {ratios.max():.3g}; median ms: "
        + ", ".join(f"{name} {time_ms:.0f}" for name, time_ms in medians_ms.items()),
    )


def large_figures(seeds: int) -> Iterator[Figure]:
    """Time the proof of a knapsack as large as a data centre."""
    case = _knapsacks(LARGE_JOBS, LARGE_GPUS, None)
    instances = case.instances(LARGE_JOBS, seeds)
    runs = interleaved("large knapsacks", "allocation", ["mckp-core"], instances, runs=LARGE_RUNS)
    of_first = interleaved(
        "large knapsack, witness",
        "allocation",
        ["mckp-core", LARGE_WITNESS],
        instances[:1],
        limit_s=GENERAL_LIMIT_S,
        warms_up=False,
    )
    (witness,) = of_first[of_first.solver == LARGE_WITNESS].itertuples()
    asked = sum(job.max_gpus - job.min_gpus for job in instances[0].jobs)
    yield proved_within(
        f"mckp-core, {case.label}",
        runs,
        LARGE_TARGET_S,
        f"instances: {len(instances)}; the first has {_items(instances[0])} items, which ask for "
        f"{asked} GPUs; {LARGE_WITNESS} on it: {witness.status} in {witness.time_s:.3g} s",
    )


def schedule_figures(seeds: int) -> Iterator[Figure]:
    """Time a schedule of many jobs that are released over time."""
    instances = [
        instance for case in SCHEDULED_CASES for instance in case.instances(SCHEDULED_JOBS, seeds)
    ]
    runs = interleaved("long schedules", "allocation", ["srw"], instances)
    yield slowest(
        f"srw, schedule of {SCHEDULED_JOBS} jobs with releases",
        runs.time_s,
        SCHEDULED_TARGET_S,
        "; ".join(case.label for case in SCHEDULED_CASES),
    )


def proof_figures(seeds: int) -> Iterator[Figure]:
    """Measure proofs of `exact`, and how far bound and policies are from its optima."""
    yield from _proofs("base demands fit", FITTING_JOBS, FITTING_CASES, seeds)
    yield from _proofs("base demands do not fit", OVERBOOKED_JOBS, PROOF_CASES, seeds)


def _proofs(rule: str, jobs: int, cases: Sequence[Case], seeds: int) -> Iterator[Figure]:
    import pandas as pd

    found = {
        case.label: interleaved(
            f"exact, {jobs} jobs, {case.label}",
            "allocation",
            ["exact", *POLICIES],
            case.instances(jobs, seeds),
            limit_s=PROOF_TARGET_S,
            certifies=True,
            warms_up=case is cases[0],
        )
        for case in cases
    }
    runs = pd.concat(found.values())
    yield proved_within(
        f"exact, {jobs} jobs whose {rule}",
        runs[runs.solver == "exact"],
        PROOF_TARGET_S,
        f"{seeds} each of: {'; '.join(found)}",
    )
    for case in cases:
        if case in COMPARED_CASES:
            yield from loss_figures(f"{jobs} jobs, {case.label}", found[case.label])


def loss_figures(what: str, runs: pd.DataFrame) -> Iterator[Figure]:
    """Yield how far the bound lies below the proved optima and the policies lie above them.

    Parameters
    ----------
    what
        The instances.
    runs
        Of `exact` and of `POLICIES`, certified, one of each on each instance; instances that
        `exact` has not proved are left out.
    """
    is_proof = (runs.solver == "exact") & (runs.status == Status.OPTIMAL)
    optima = runs[is_proof].set_index("place").objective
    if optima.empty:
        return
    of_policies = runs[runs.place.isin(optima.index)].pivot(index="place", columns="solver")
    bounds = of_policies.dual_bound[POLICIES[0]]
    gaps = [
        -100 * relative_gap(bound, optimum, Objective.MEAN_JCT)  # a bound lies on the better side
        for optimum, bound in zip(optima, bounds[optima.index], strict=True)
    ]
    yield Figure(
        what=f"gap of the bound to the optimum, {what}",
        runs=len(optima),
        statistic="mean",
        measured=sum(gaps) / len(gaps),
        unit="%",
        remark=f"largest {max(gaps):.2f} %",
    )
    objectives = of_policies.objective[list(POLICIES)]
    excess = objectives.apply(
        lambda row: row.map(
            lambda objective: 100 * relative_gap(objective, optima[row.name], Objective.MEAN_JCT)
        ),
        axis=1,
    )
    better = excess.min(axis=1)
    yield Figure(
        what=f"excess of the better policy over the optimum, {what}",
        runs=len(optima),
        statistic="mean",
        measured=float(better.mean()),
        unit="%",
        remark=f"largest {better.max():.2f} %; "
        + "; ".join(
            f"{name} mean {excess[name].mean():.2f}, largest {excess[name].max():.2f} %"
            for name in POLICIES
        ),
    )


def gap_figures(seeds: int) -> Iterator[Figure]:
    """Measure the certified gap of the policies where no optimum is known."""
    for case in COMPARED_CASES:
        is_light = case is LIGHT
        what = f"certified gap, {GAP_JOBS} jobs, {case.label}"
        runs = interleaved(
            what,
            "allocation",
            POLICIES,
            case.instances(GAP_JOBS, seeds),
            runs=CERTIFICATE_RUNS if is_light else 1,
            certifies=True,
            warms_up=is_light,
        )
        if is_light:
            yield certified(what, runs, LIGHT_GAP_TARGET_PERCENT, CERTIFICATE_LIMIT_S)
        else:
            yield certified(what, runs, OVERBOOKED_GAP_TARGET_PERCENT)


def certified(
    what: str, runs: pd.DataFrame, target_percent: float, limit_s: float | None = None
) -> Figure:
    """Return the certified gaps of instances, the largest of which is held to the target.

    Parameters
    ----------
    what
        The instances.
    runs
        Of the policies, certified.
    target_percent, limit_s
        What a gap is meant to stay within, and what its certificate may take.
    """
    found = [certificate(of_instance, limit_s) for _, of_instance in runs.groupby("place")]
    gaps, times_s = zip(*found, strict=True)
    policies = [
        f"{name} {of.gap_percent.mean():.2f} and {of.gap_percent.max():.2f} % in "
        f"{1000 * of.groupby('place').time_s.median().median():.0f} ms"
        for name, of in runs.groupby("solver", sort=False)
    ]
    bound_s = runs.groupby("place").bound_s.median().median()
    return replace(
        timed_figure(what, times_s),
        statistic="largest" if limit_s is None else f"largest within {limit_s:g} s",
        measured=max(gaps),
        target=target_percent,
        unit="%",
        remark=f"mean {sum(gaps) / len(gaps):.2f} %; the best of the policies, the time is that "
        "of them all and the bound; mean, largest and median time of each: "
        f"{', '.join(policies)}; bound {1000 * bound_s:.0f} ms",
    )


def certificate(runs: pd.DataFrame, limit_s: float | None = None) -> tuple[float, float]:
    """Return the least certified gap of one instance in percent, and the seconds that it takes.

    The bound and then the policies in order are counted as long as they fit within the limit
    together. If not even the first one does, nothing is certified: 100 %.

    Parameters
    ----------
    runs
        Of the policies, certified; times are medians.
    limit_s
        What the bound and the policies may take.
    """
    gap_percent = math.inf
    counted_s = spent_s = float(runs.bound_s.median())
    for _, of_policy in runs.groupby("solver", sort=False):
        spent_s += float(of_policy.time_s.median())
        if limit_s is not None and spent_s > limit_s:
            break
        counted_s = spent_s
        gap_percent = min(gap_percent, float(of_policy.gap_percent.iloc[0]))
    return gap_percent, counted_s


def _items(instance: Instance) -> int:
    return sum(job.max_workers - job.min_workers for job in instance.jobs)
