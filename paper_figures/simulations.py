"""The simulations behind Lyra's tables and figures: which there are, and what comes of them.

Tables share simulations: each `Case` is run once, in worker processes, and every table picks its
numbers from the results.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.simulation.replay import replay, step_means
from experiments.simulation.scenario import DEFAULT_FORECASTER, DEFAULT_HEADROOM
from experiments.simulation.setup import (
    LOAN_INTERVAL_S,
    Loaning,
    Setup,
    make_loaning,
    plan_days,
)
from instances.workloads.lyra_like import (
    GPUS_PER_SERVER,
    PUBLISHED_DAYS,
    PUBLISHED_INFERENCE_SERVERS,
    PUBLISHED_TRAINING_GPUS,
    bootstrapped,
    inference_demand,
    lyra_like,
)
from instances.workloads.scenario import Scenario
from instances.workloads.transform import rescaled
from lyra_opt.problem import find_problem
from lyra_opt.result import Limits, Status
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.loaning.forecast import find_forecaster
from lyra_opt.simulation.loaning.orchestrator import Orchestrator
from lyra_opt.simulation.scheme import ComposedScheme, Options, find_scheme, scheme_names
from lyra_opt.simulation.workload import InferenceDemand, Job, Workload
from lyra_opt.solver import find_solver
from lyra_opt.solving import solve_and_check
from paper_figures.comparison import gain
from paper_figures.runs import CaseResults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from experiments.simulation.replay import Replay
    from lyra_opt.simulation.series import Series

HOUR_S, DAY_S = 3600, 86_400

BASIC = Scenario()
ADVANCED = Scenario(heterogeneous_percent=10)
HETEROGENEOUS = Scenario(heterogeneous_percent=10, fungible_percent=0)
IDEAL = Scenario(all_elastic=True)

BOOTSTRAP_DAYS = 10
PUBLISHED_BOOTSTRAPS = 10
FEW_BOOTSTRAPS = 2

MOST_TABLE_SEEDS = 3

PUBLISHED_LOAD = 0.77
"""GPU time that the generated workload asks for at the paper's size, where seeds hardly differ."""

TESTBED = Cluster.of_servers(4, inference_servers=4)
TESTBED_JOBS = 180
TESTBED_ELASTIC_PERCENT = 6
TESTBED_SPAN_S = 8 * HOUR_S
TESTBED_WIDEST_JOB = 16
# Shares of the jobs and running times up to them: 2 minutes to 2 hours as published, and a mean of
# 2,540 s, by which the published means of JCT and queuing time differ.
TESTBED_DURATIONS_S = ((0.0, 120.0), (0.5, 1400.0), (1.0, 7200.0))
TESTBED_DAY_TAKES_S = 8 * HOUR_S

LONGEST_CHECK_S = 2.0
"""Seconds to prove how good a decision was; what is not proved by then is counted apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One simulation of a scale.

    Parameters
    ----------
    scheme
        Its name.
    changes
        Fields of the scheme that are other than it has them, with their values.
    scenario
        What is assumed of the jobs.
    load
        The load on the training cluster; None leaves the published one.
    bootstrap
        Number of the trace that is drawn from the days of the workload; None for the workload
        itself.
    is_testbed
        Whether it is the paper's testbed, whatever the scale.
    seed
        Of the workload, the inference demand and what the scheme draws.
    """

    scheme: str
    changes: tuple[tuple[str, Any], ...] = ()
    scenario: Scenario = BASIC
    load: float | None = None
    bootstrap: int | None = None
    is_testbed: bool = False
    seed: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme."""
        return self.scheme in scheme_names()

    @property
    def composed(self) -> ComposedScheme:
        """The scheme, changed."""
        found = find_scheme(self.scheme)
        assert isinstance(found, ComposedScheme), "schemes here are those of Lyra's paper"
        return replace(found, **dict(self.changes))

    @property
    def checks_reclaims(self) -> bool:
        """Whether every choice of servers to give back is held against the proved optimum.

        That is so for Lyra itself in Basic, about which the page on gaps asks.
        """
        plain = Case(scheme="lyra", load=self.load, seed=self.seed)
        return self == plain

    @property
    def cost(self) -> float:
        """How long it takes, roughly and relative to others, so that long ones start first."""
        scaling = self.composed.scaling
        if self.is_testbed or scaling is None:
            return 1.0
        share = 5.0 + self.scenario.effective_elastic_percent
        return share * (4.0 if scaling.startswith("knapsack") else 1.0)

    def run(self, setting: Setting) -> Result:
        """Simulate it."""
        setup = _setup(replace(self, scheme="", changes=()), setting)
        watch = _ReclaimWatch(checks=self.checks_reclaims)
        finished = replay(setup, self.composed, capture=watch, captured_kinds=("reclaim",))
        return _result(finished, watch.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How much is simulated.

    Parameters
    ----------
    scale
        Size of both clusters and of the workload as a share of the paper's, above 0, at most 1;
        jobs are as large as in the paper, and there are fewer of them.
    seeds
        Workloads over which the page on gaps takes means, at least 1.
    """

    scale: float = 0.1
    seeds: int = 4

    @property
    def table_seeds(self) -> int:
        """Workloads over which tables take means, where they do."""
        return min(self.seeds, MOST_TABLE_SEEDS)

    @property
    def servers(self) -> int:
        """Training servers."""
        return max(1, round(PUBLISHED_TRAINING_GPUS // GPUS_PER_SERVER * self.scale))

    @property
    def inference_servers(self) -> int:
        """Inference servers."""
        return max(1, round(PUBLISHED_INFERENCE_SERVERS * self.scale))

    @property
    def bootstraps(self) -> int:
        """How many bootstrapped traces are simulated: all that the paper has at its size."""
        return PUBLISHED_BOOTSTRAPS if self.scale == 1 else FEW_BOOTSTRAPS

    def in_words(self) -> str:
        """Return the sizes in a sentence."""
        return (
            f"Simulated at scale {self.scale:g}: {self.servers} training servers and "
            f"{self.inference_servers} inference servers of {GPUS_PER_SERVER} GPUs each, "
            f"{PUBLISHED_DAYS} days, the load per server of the paper's size."
        )


@dataclass(slots=True)
class ReclaimDecisions:
    """How the choices of servers to give back compare with the optimum.

    Parameters
    ----------
    decisions
        Choices that were made.
    hosted
        Jobs on servers on loan at these moments, added up.
    forced
        Choices in which Lyra's greedy preempts at least one job; the others are optimal. Counted
        where the case asks for it, as are the following.
    suboptimal
        Choices of which it is proved that the greedy preempts more jobs than are needed.
    unproved
        Choices that are neither proved optimal nor proved not to be.
    excess
        Jobs that the greedy preempts beyond the optimum.
    """

    decisions: int = 0
    hosted: int = 0
    forced: int = 0
    suboptimal: int = 0
    unproved: int = 0
    excess: int = 0


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a simulation.

    Parameters
    ----------
    record
        Its figures by key of ``simulate --json``.
    jobs, series
        By job, and over time.
    submit_s
        When each job was submitted.
    has_checkpoints
        Whether each job keeps its progress when it is preempted.
    overall_usage
        Share of the GPUs of both clusters that are in use, at the moments of the series.
    reclaims
        Its choices of servers to give back.
    """

    record: dict[str, Any]
    jobs: pd.DataFrame
    series: Series
    submit_s: np.ndarray
    has_checkpoints: np.ndarray
    overall_usage: np.ndarray
    reclaims: ReclaimDecisions

    @property
    def cpu_time_s(self) -> float:
        """CPU time of the simulation."""
        return float(self.record["jobs"] / self.record["jobs_per_cpu_s"])

    @cached_property
    def lossy_preemptions_per_submission(self) -> float:
        """Preemptions that cost a job its progress, for each job."""
        lossy = self.jobs.preemptions[~self.has_checkpoints]
        return float(lossy.sum()) / len(self.submit_s)

    @property
    def preemptions_per_hosted_job(self) -> float:
        """Jobs preempted, for each job that runs on servers on loan when some are reclaimed."""
        hosted = self.reclaims.hosted
        return float(self.jobs.preemptions.sum()) / hosted if hosted else 0.0

    def hourly_usage(self, first_hour: int, hours: int) -> np.ndarray:
        """Return the usage of both clusters together, hour by hour from the first submission."""
        edges_s = self.submit_s[0] + HOUR_S * np.arange(first_hour, first_hour + hours + 1.0)
        return step_means(self.series.time_s, self.overall_usage, edges_s)

    def daily_loan_usage(self, days: int) -> list[float | None]:
        """Return the share of the GPUs on loan that jobs hold, by day; None without loans."""
        series = self.series
        edges_s = self.submit_s[0] + DAY_S * np.arange(days + 1.0)
        held = step_means(series.time_s, series.gpus_held_on_loan, edges_s)
        lent = step_means(series.time_s, series.servers_on_loan * GPUS_PER_SERVER, edges_s)
        return [
            float(used) / float(there) if there else None
            for used, there in zip(held, lent, strict=True)
        ]

    def queued_shares(self, *, step_s: float, steps: int) -> np.ndarray:
        """Return the share of jobs that had to queue, by time of submission; steps without none."""
        place = ((self.submit_s - self.submit_s[0]) // step_s).astype(np.int64)
        shares = [
            np.mean(self.jobs.queued_s[place == step] > 0)
            for step in range(steps)
            if np.any(place == step)
        ]
        return np.array(shares)


class Results(CaseResults[Setting]):
    """What came of the cases of a setting."""

    def of(self, case: Case) -> Result | None:
        """Return what came of a case; None if it was not run."""
        return self._found.get(case)

    def over_seeds(self, case: Case, seeds: int | None = None) -> list[Result]:
        """Return what came of a case with each seed; empty if its scheme is not there.

        Parameters
        ----------
        seeds
            How many; None for those of tables.
        """
        cases = with_seeds(case, seeds or self.setting.table_seeds)
        return [self._found[each] for each in cases if each in self._found]


def with_seeds(case: Case, seeds: int) -> list[Case]:
    """Return a case with the seeds 0, 1 and so on."""
    return [replace(case, seed=seed) for seed in range(seeds)]


def mean_and_spread(
    results: Sequence[Result], measure: Callable[[Result], float]
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean of a measure and, of several results, the least and the greatest."""
    values = [measure(result) for result in results]
    if not values:
        return None, None
    return statistics.fmean(values), (min(values), max(values)) if len(values) > 1 else None


def paired_gain(
    references: Sequence[Result],
    results: Sequence[Result],
    measure: Callable[[Result], float],
    *,
    more_is_better: bool = False,
) -> float | None:
    """Return the geometric mean of gains over seeds, or the gain of the means if one is 0."""
    if not results:
        return None
    before = [measure(result) for result in references]
    after = [measure(result) for result in results]
    if min(*before, *after) > 0:
        gains = map(partial(gain, more_is_better=more_is_better), before, after)
        return statistics.geometric_mean(gains)
    return gain(statistics.fmean(before), statistics.fmean(after), more_is_better=more_is_better)


def _result(finished: Replay, reclaims: ReclaimDecisions) -> Result:
    jobs = finished.setup.workload.jobs
    return Result(
        record=finished.as_json_object(),
        jobs=finished.jobs,
        series=finished.series,
        submit_s=np.array([job.submit_s for job in jobs]),
        has_checkpoints=np.array([job.checkpoints for job in jobs], dtype=np.bool_),
        overall_usage=finished.overall_usage_over_time,
        reclaims=reclaims,
    )


@dataclass(slots=True)
class _ReclaimWatch:
    """Counts the choices of servers to give back and, if asked to, judges Lyra's greedy there."""

    checks: bool
    found: ReclaimDecisions = field(default_factory=ReclaimDecisions)

    def __call__(self, kind: str, instance: Any) -> None:
        assert kind == "reclaim", "no other decisions are asked for"
        self.found.decisions += 1
        self.found.hosted += len(instance.jobs)
        if self.checks:
            self._check(instance)

    def _check(self, instance: Any) -> None:
        problem = find_problem("reclaim")
        greedy = solve_and_check(problem, instance, find_solver("reclaim", "lyra-greedy"))
        if greedy.objective == 0:
            return
        self.found.forced += 1
        best = solve_and_check(
            problem,
            instance,
            find_solver("reclaim", "exact"),
            limits=Limits(time_s=LONGEST_CHECK_S),
        )
        if greedy.objective is None or best.objective is None:
            self.found.unproved += 1
        elif best.objective < greedy.objective:
            self.found.suboptimal += 1
            self.found.excess += round(greedy.objective - best.objective)
        elif best.status is not Status.OPTIMAL:
            self.found.unproved += 1


@lru_cache(maxsize=4)
def _setup(case: Case, setting: Setting) -> Setup:
    """Return what a case simulates, whatever its scheme."""
    return _testbed(case) if case.is_testbed else _clusters(case, setting)


def _clusters(case: Case, setting: Setting) -> Setup:
    cluster = Cluster.of_servers(setting.servers, inference_servers=setting.inference_servers)
    workload = lyra_like(training_gpus=cluster.gpus, seed=case.seed, **_shares(case.scenario))
    load = case.load
    if load is None and setting.scale < 1:
        # The few widest of the long jobs make the loads of small workloads differ by seed.
        load = PUBLISHED_LOAD
    if load is not None:
        workload = rescaled(workload, load=load, gpus=cluster.gpus)
    if case.bootstrap is not None:
        workload = bootstrapped(workload, days=BOOTSTRAP_DAYS, seed=case.bootstrap)
    return Setup(
        workload=workload,
        scenario="lyra",
        cluster=cluster,
        options=_options(case),
        loaning=make_loaning(workload, cluster, seed=case.seed),
    )


def _shares(scenario: Scenario) -> dict[str, Any]:
    return {name: getattr(scenario, name) for name in Scenario.__slots__}


def _options(case: Case) -> Options:
    # Of the scenario Ideal the paper says that heterogeneous training loses nothing.
    if case.scenario.all_elastic:
        return Options(seed=case.seed, mixed_efficiency=1.0)
    return Options(seed=case.seed)


def _testbed(case: Case) -> Setup:
    workload = scaled_to_testbed(case.seed)
    return Setup(
        workload=workload,
        scenario="testbed",
        cluster=TESTBED,
        options=_options(case),
        loaning=_testbed_loans(workload, case.seed),
    )


def scaled_to_testbed(seed: int) -> Workload:
    """Return 180 jobs scaled from a generated workload as the paper scales its own.

    11 of them are elastic (10 in the paper), each asks for half the GPUs and none for more than
    16, submissions last 8 hours, running times 2 minutes to 2 hours in the order of the original
    ones.
    """
    original = lyra_like(
        training_gpus=TESTBED.gpus,
        jobs=TESTBED_JOBS,
        seed=seed,
        elastic_percent=TESTBED_ELASTIC_PERCENT,
    )
    jobs = original.jobs
    first_s = jobs[0].submit_s
    faster = TESTBED_SPAN_S / original.submission_span_s
    by_length = sorted(range(len(jobs)), key=lambda place: jobs[place].duration_s)
    shares, durations_s = zip(*TESTBED_DURATIONS_S, strict=True)
    duration_s = {
        place: float(np.interp((rank + 0.5) / len(jobs), shares, durations_s))
        for rank, place in enumerate(by_length)
    }
    scaled: list[Job] = []
    for place, job in enumerate(jobs):
        workers = min(max(1, job.min_workers // 2), TESTBED_WIDEST_JOB)
        scaled.append(
            replace(
                job,
                submit_s=(job.submit_s - first_s) * faster,
                work_worker_s=duration_s[place] * workers,
                min_workers=workers,
                max_workers=workers * job.max_workers // job.min_workers,
            )
        )
    return Workload(
        name=f"{original.name}-testbed",
        jobs=tuple(scaled),
        assumptions=(*original.assumptions, "Scaled to the paper's testbed."),
    )


def _testbed_loans(workload: Workload, seed: int) -> Loaning:
    """Return loans by a day of inference demand that passes within the 8 hours."""
    days = math.ceil(plan_days(workload, TESTBED) * DAY_S / TESTBED_DAY_TAKES_S)
    day = inference_demand(days=days, seed=seed, servers=TESTBED.inference_servers)
    demand = InferenceDemand(
        name=f"{day.name}-testbed",
        step_s=day.step_s * TESTBED_DAY_TAKES_S / DAY_S,
        busy_share=day.busy_share,
        assumptions=(*day.assumptions, "A day of demand passes within 8 hours."),
    )
    orchestrator = Orchestrator(
        servers=TESTBED.inference_servers,
        forecaster=find_forecaster(DEFAULT_FORECASTER),
        headroom=DEFAULT_HEADROOM,
        interval_s=LOAN_INTERVAL_S,
    )
    plan = orchestrator.plan(demand, math.ceil(days * TESTBED_DAY_TAKES_S / LOAN_INTERVAL_S))
    return Loaning(demand=demand, orchestrator=orchestrator, plan=plan)
