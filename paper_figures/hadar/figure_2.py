"""Figure 2: how long a decision takes, up to 2,048 active jobs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from instances.heterogeneous.clusters import hadar_60
from instances.heterogeneous.generated_jobs import gavel_like
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.heterogeneous.policy import ActiveJob, RoundState
from lyra_opt.stopwatch import Stopwatch
from paper_figures.comparison import Comparison, Entry, Source, Table
from paper_figures.hadar.cases import gangs_of
from paper_figures.hadar.schemes import (
    GAVEL,
    GAVEL_MAKESPAN,
    HADAR,
    NAMES,
    OURS,
    notes_on_missing,
)

if TYPE_CHECKING:
    from paper_figures.hadar.cases import Results, Setting

JOBS = (32, 128, 512, 2048)
SCHEMES = (HADAR, GAVEL, GAVEL_MAKESPAN, OURS)
ROUND_S = 360.0
REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCase:
    """The first decision on so many jobs, which Gavel's programme is part of.

    Parameters
    ----------
    scheme
        Who decides.
    jobs
        Active ones, on 60 GPUs.
    """

    scheme: str
    jobs: int

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme."""
        return self.scheme in ROUND_POLICIES

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return self.jobs / 100

    def run(self, setting: Setting) -> float:  # noqa: ARG002
        """Return the median of the wall times, a first run to load and compile left out."""
        cluster = hadar_60()
        jobs = gangs_of(gavel_like(jobs=self.jobs, seed=0, gpu_types=cluster.gpu_types))
        times_s = []
        for _ in range(REPEATS + 1):
            policy = ROUND_POLICIES[self.scheme]()
            state = RoundState(
                gpu_types=cluster.problem_types,
                servers=cluster.problem_servers(),
                now_s=0.0,
                round_s=ROUND_S,
            )
            policy.prepare(state, np.random.default_rng(0))
            state.jobs = [
                ActiveJob(
                    job=job,
                    order=order,
                    steps_left=job.steps,
                    submitted_s=0.0,
                    waiting_since_s=0.0,
                )
                for order, job in enumerate(jobs)
            ]
            stopwatch = Stopwatch()
            policy.decide(state)
            times_s.append(stopwatch.elapsed_s)
        return statistics.median(times_s[1:])


def cases(setting: Setting) -> list[DecisionCase]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [DecisionCase(scheme=scheme, jobs=jobs) for scheme in SCHEMES for jobs in JOBS]


def compare(results: Results) -> Comparison:
    """Return what is remembered beside ours."""
    entries = []
    for scheme in (GAVEL, GAVEL_MAKESPAN):
        hadar_s, gavel_s = (
            results.of(DecisionCase(scheme=name, jobs=JOBS[-1])) for name in (HADAR, scheme)
        )
        ratio = None if None in (hadar_s, gavel_s) else hadar_s / gavel_s
        entries.append(
            Entry.published_gain(
                f"Hadar over {NAMES[scheme]}",
                f"decision time at {JOBS[-1]:,} jobs",
                "1.0",
                ratio,
                source=Source.MEMORY,
            )
        )
    rows = []
    series = {}
    for scheme in SCHEMES:
        times_s = [results.of(DecisionCase(scheme=scheme, jobs=jobs)) for jobs in JOBS]
        series[NAMES[scheme]] = [
            (jobs, 1e3 * time_s)
            for jobs, time_s in zip(JOBS, times_s, strict=True)
            if time_s is not None
        ]
        rows.append(
            [
                NAMES[scheme],
                *("" if time_s is None else f"{1e3 * time_s:.3g}" for time_s in times_s),
            ]
        )
    return Comparison(
        name="hadar-figure-2",
        title="Hadar, Figure 2: decision time by active jobs",
        entries=entries,
        tables=[
            Table(
                title="Time of a decision (ms) by active jobs, 60 GPUs",
                header=["scheme", *(f"{jobs:,}" for jobs in JOBS)],
                rows=rows,
            )
        ],
        series=series,
        notes=[
            "What is remembered is that Hadar decides about as fast as Gavel solves its programme, "
            "and that both take minutes at 2,048 jobs; the former is read as a ratio of 1.",
            f"Wall time, the median of {REPEATS} runs after one to load and compile, while other "
            "simulations may run: of the same order on another day, not the same. Gavel's is a "
            "round in which shares are computed anew, at most every 1,920 s.",
            "Neither takes minutes here: Hadar's search keeps 8 states and is compiled, and jobs "
            "that are alike are one job to the programme of max-min fairness, where Gavel's "
            "generator draws few kinds (for the makespan steps count too, so that no two jobs are "
            "alike). Which of the two is faster says more on the programs than on the methods.",
            *notes_on_missing(SCHEMES),
        ],
    )
