"""The runs behind the tables: which there are, and what comes of them.

Tables share runs: each case is run once, in worker processes, and every table picks its numbers
from the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from instances.heterogeneous.clusters import GPUS_PER_SERVER, cluster_of, find_cluster, hadar_60
from instances.heterogeneous.generated_jobs import gavel_like, mix
from instances.heterogeneous.trace_jobs import HADAR_JOBS, PHILLY_TRACE, hadar_480
from instances.traces import locate
from lyra_opt.simulation.scheme import Options, scheme_names
from lyra_opt.simulation.tenure import RESTART_S, ROUND_S, Rounds
from paper_figures.runs import CaseResults, simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from experiments.simulation.replay import Replay
    from lyra_opt.heterogeneous.instance import GangJob
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.workload import Workload

TYPES = ("v100", "p100", "k80")
SERVERS_OF_TYPE = 5
LEAST_SERVERS_OF_TYPE = 2
"""So that gangs of 8 fit GPUs of one type."""

STAND_IN_DAYS = 15
"""Of generated jobs, from which Hadar's are drawn where the Philly trace is not there."""

TESTBEDS = {"hadare-aws": "AWS", "hadare-lab": "laboratory"}
"""Clusters of HadarE by name, and what they are called."""

REMEMBERED_OF_JOBS = "the classes of jobs, their models and what a restart costs"
REMEMBERED_OF_TESTBEDS = "the nodes of the testbeds and the jobs of the mixes"

HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How much is simulated.

    Parameters
    ----------
    scale
        Jobs, and servers of each type (two at least), as a share of the paper's 480 jobs and 15
        servers; above 0, at most 1.
    seeds
        Draws of jobs that means are over, at least 1.
    """

    scale: float
    seeds: int

    @property
    def jobs(self) -> int:
        """Jobs drawn from the trace."""
        return max(1, round(HADAR_JOBS * self.scale))

    @property
    def cluster(self) -> Cluster:
        """Where they run."""
        if self.scale == 1:
            return hadar_60()
        servers = max(LEAST_SERVERS_OF_TYPE, round(SERVERS_OF_TYPE * self.scale))
        return cluster_of(dict.fromkeys(TYPES, GPUS_PER_SERVER * servers))

    def in_words(self) -> str:
        """Return the sizes in a sentence."""
        cluster = self.cluster
        per_gpu, published = self.jobs / cluster.gpus, HADAR_JOBS / hadar_60().gpus
        loaded = f"{per_gpu:.3g} jobs for each GPU" + (
            ", as in the paper"
            if abs(per_gpu / published - 1) < 0.05
            else f" ({published:.3g} in the paper)"
        )
        return (
            f"Simulated at scale {self.scale:g}: {self.jobs} jobs on {cluster.gpus} GPUs "
            f"({', '.join(f'{count} {name}' for name, count in cluster.gpus_of_type.items())}; "
            f"{loaded}), {self.seeds} draw{'s' * (self.seeds != 1)} of jobs by seed. Mixes of "
            "HadarE and the questions of our own are of their own size whatever the scale."
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of a simulation.

    Parameters
    ----------
    metrics
        Its figures.
    jct_s
        Of each job.
    completed_s
        When each job completed, from the first submission.
    """

    metrics: Metrics
    jct_s: np.ndarray
    completed_s: np.ndarray

    @classmethod
    def of(cls, finished: Replay) -> Self:
        """Return what came of a simulation."""
        jobs = finished.jobs
        return cls(
            metrics=finished.metrics,
            jct_s=jobs.jct_s.to_numpy(),
            completed_s=jobs.completion_s.to_numpy() - finished.first_submission_s,
        )

    @property
    def ttd_s(self) -> float:
        """Total time duration."""
        return self.metrics.makespan_s

    @property
    def last_tenth_from_s(self) -> float:
        """When nine tenths of the jobs are complete."""
        return float(np.quantile(self.completed_s, 0.9))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCase:
    """Hadar's jobs on Hadar's cluster, both by scale.

    Parameters
    ----------
    scheme
        Who decides.
    seed
        Of the jobs that are drawn.
    """

    scheme: str
    seed: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme."""
        return self.scheme in scheme_names()

    @property
    def cost(self) -> float:
        """See `Case`."""
        return 100.0 if self.scheme in ("hadar", "priced-progress", "gavel-makespan") else 30.0

    def run(self, setting: Setting) -> Run:
        """Simulate it."""
        cluster = setting.cluster
        jobs = hadar_480(
            source_trace(), seed=self.seed, gpu_types=cluster.gpu_types, jobs=setting.jobs
        )
        return Run.of(simulated(self.scheme, jobs, cluster, Options(seed=self.seed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixCase:
    """A mix on a testbed of HadarE, of the same size whatever the scale.

    Parameters
    ----------
    scheme
        Who decides.
    testbed
        One of `TESTBEDS`.
    jobs
        Of the mix.
    round_s
        Slot length.
    """

    scheme: str
    testbed: str
    jobs: int
    round_s: float = ROUND_S

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme."""
        return self.scheme in scheme_names()

    @property
    def cost(self) -> float:
        """See `Case`."""
        return self.jobs / self.round_s

    def run(self, setting: Setting) -> Run:  # noqa: ARG002
        """Simulate it."""
        cluster = find_cluster(self.testbed)
        jobs = mix(self.jobs, gpu_types=cluster.gpu_types)
        options = Options(rounds=Rounds(round_s=self.round_s))
        return Run.of(simulated(self.scheme, jobs, cluster, options))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCase:
    """One-GPU jobs of Gavel's generator on a testbed of HadarE, all submitted at once.

    Parameters
    ----------
    scheme
        Who decides.
    testbed
        One of `TESTBEDS`.
    seed
        Of the jobs.
    """

    scheme: str
    testbed: str
    seed: int

    JOBS = 8

    @property
    def is_known(self) -> bool:
        """Whether there is such a scheme."""
        return self.scheme in scheme_names()

    @property
    def cost(self) -> float:
        """See `Case`."""
        return 1.0

    def workload(self) -> Workload:
        """Return its jobs."""
        return gavel_like(
            jobs=self.JOBS,
            seed=self.seed,
            gpu_types=find_cluster(self.testbed).gpu_types,
            largest_gang=1,
        )

    def run(self, setting: Setting) -> Run:  # noqa: ARG002
        """Simulate it."""
        cluster = find_cluster(self.testbed)
        return Run.of(simulated(self.scheme, self.workload(), cluster, Options()))


def gangs_of(workload: Workload) -> tuple[GangJob, ...]:
    """Return jobs of which all were measured, as standalone instances have them."""
    gangs = tuple(job.measured for job in workload.jobs if job.measured is not None)
    assert len(gangs) == len(workload.jobs), "all were measured"
    return gangs


def has_trace() -> bool:
    """Whether the Philly trace is there."""
    return locate(PHILLY_TRACE).is_file()


@cache
def source_trace() -> Workload:
    """Return what Hadar's jobs are drawn from."""
    if has_trace():
        from instances.workloads.readers import read_workload

        return read_workload(locate(PHILLY_TRACE))
    from instances.workloads.lyra_like import lyra_like

    return lyra_like(days=STAND_IN_DAYS)


def notes_on_jobs() -> tuple[str, ...]:
    """Return what the simulated jobs are, a sentence each."""
    if has_trace():
        drawn = "Jobs are drawn by seed from the Philly trace, as Hadar's are."
    else:
        drawn = (
            "The Philly trace is not here (the folder LYRA_OPT_TRACES would have it), so that jobs "
            "are drawn by seed from generated ones; the paper draws its own from the trace."
        )
    return (
        drawn,
        "Which jobs are drawn is from memory: classes by GPU time (0-1, 1-10, 10-50 and 60-100 "
        "hours), each as likely, of the hours 3 to 10 of a day. Their throughputs are Gavel's, for "
        "the paper's own table was not found.",
        f"Rounds last {ROUND_S:g} s; a gang that starts or moves loses {RESTART_S:g} s (from "
        "memory).",
    )


class Results(CaseResults[Setting]):
    """What came of the cases of a setting."""

    def over_seeds(self, scheme: str) -> list[Run]:
        """Return what came of a scheme with each seed; empty if it is not there."""
        cases = [TraceCase(scheme=scheme, seed=seed) for seed in range(self.setting.seeds)]
        return [self._found[case] for case in cases if case in self._found]


def trace_cases(scheme: str, setting: Setting) -> list[TraceCase]:
    """Return the runs of a scheme with each seed."""
    return [TraceCase(scheme=scheme, seed=seed) for seed in range(setting.seeds)]


def ratios(
    before: Sequence[Run], after: Sequence[Run], measure: Callable[[Run], float]
) -> list[float]:
    """Return a measure of some runs over that of others, by pairs; empty if any are missing."""
    return [
        measure(first) / measure(second)
        for first, second in zip(before, after, strict=False)
        if measure(second)
    ]


def hours(seconds: float) -> str:
    """Return a time in hours, as tables show it."""
    return f"{seconds / HOUR_S:.1f}"
