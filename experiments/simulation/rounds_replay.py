"""Run one round policy, check it, and keep what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.simulation.carried_out import carry_out, jobs_per_cpu_s, since
from lyra_opt.errors import UserError
from lyra_opt.heterogeneous.policies import ROUND_POLICIES, SUMMARIES
from lyra_opt.simulation.rounds.engine import PolicyError, RoundSimulation
from lyra_opt.simulation.rounds.metrics import (
    finish_time_fairness,
    measure_rounds,
    require_rounds_conserved,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.simulation.rounds_setup import RoundSetup
    from lyra_opt.heterogeneous.policy import RoundPolicy
    from lyra_opt.simulation.rounds.metrics import RoundMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScheme:
    """A round policy by name.

    Parameters
    ----------
    name
        The name the command line knows it by.
    summary
        What it does, on one line.
    make
        Makes one for a run.
    """

    name: str
    summary: str
    make: Callable[[], RoundPolicy]


def find_round_scheme(name: str) -> RoundScheme:
    """Return the round policy called `name`; `UserError` that names all if there is none."""
    if name not in ROUND_POLICIES:
        raise UserError(f"--scheme is {name!r}: must be one of: {', '.join(ROUND_POLICIES)}")
    return RoundScheme(name=name, summary=SUMMARIES[name], make=ROUND_POLICIES[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcomes:
    """What became of each job, in the order of the workload.

    Parameters
    ----------
    start_s, completion_s
        When it first started, and when it completed.
    queued_s
        How long it waited in all.
    jct_s
        From submission to completion.
    working_gpu_s
        GPU-seconds in which its gang and copies worked.
    fairness
        Its finish-time fairness; see `RoundMetrics`.
    restarts, preemptions
        How often it began elsewhere, and was interrupted.
    most_copies
        At once.
    """

    start_s: np.ndarray
    completion_s: np.ndarray
    queued_s: np.ndarray
    jct_s: np.ndarray
    working_gpu_s: np.ndarray
    fairness: np.ndarray
    restarts: np.ndarray
    preemptions: np.ndarray
    most_copies: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSeries:
    """The state of the cluster over time; each row holds until the next.

    Parameters
    ----------
    time_s
        Since time 0 of the workload.
    queued_jobs, running_jobs
        Jobs that wait, and jobs that run.
    copies
        Gangs that run, those of copies included.
    busy_servers
        Servers on which anything runs.
    gpus_given
        GPUs given for the round, by type.
    """

    time_s: np.ndarray
    queued_jobs: np.ndarray
    running_jobs: np.ndarray
    copies: np.ndarray
    busy_servers: np.ndarray
    gpus_given: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReplay:
    """A finished and checked run of one round policy.

    Parameters
    ----------
    setup
        What was simulated.
    scheme
        Who decided.
    metrics
        Its figures.
    outcomes, series
        By job, and over time.
    forks
        Whether it ran copies of jobs.
    wall_time_s, cpu_time_s
        Of the simulation alone; loading solvers and compiling their kernels not counted in the
        former.
    """

    setup: RoundSetup
    scheme: RoundScheme
    metrics: RoundMetrics
    outcomes: RoundOutcomes
    series: RoundSeries
    forks: bool
    wall_time_s: float
    cpu_time_s: float

    @property
    def first_submission_s(self) -> float:
        """When the first job is submitted."""
        return self.setup.workload.first_submission_s

    @property
    def last_submission_s(self) -> float:
        """When the last job is submitted."""
        return self.setup.workload.last_submission_s

    @property
    def given_over_time(self) -> np.ndarray:
        """Share of the GPUs that are given to jobs, at the moments of the series."""
        given: np.ndarray = np.sum(list(self.series.gpus_given.values()), axis=0)
        share: np.ndarray = given / self.setup.cluster.gpus
        return share

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, a sentence each; those of the setup, and of this run."""
        if not self.forks:
            return self.setup.assumptions
        options = self.setup.options
        worth = ", ".join(f"{share:g}" for share in options.copy_efficiency)
        return (
            *self.setup.assumptions,
            "Assumed: copies of a job share what is left of it by their speed; merging them takes "
            f"{options.merge_s:g} s of each round; a step of 1, 2, ... copies is worth {worth} "
            "(the last one for more copies too). HadarE's costs were not found.",
        )

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``simulate --json``."""
        setup, options, cluster = self.setup, self.setup.options, self.setup.cluster
        return {
            "workload": setup.workload.name,
            "cluster": cluster.name,
            "scheme": self.scheme.name,
            "seed": options.seed,
            "servers": len(cluster.servers),
            "gpus": dict(cluster.gpus_of_type),
            "round_s": options.round_s,
            "restart_s": options.restart_s,
            "merge_s": options.merge_s,
            "copy_efficiency": list(options.copy_efficiency),
            "dropped": setup.dropped,
            **asdict(self.metrics),
            "ttd_s": self.metrics.ttd_s,
            "wall_time_s": self.wall_time_s,
            "jobs_per_cpu_s": jobs_per_cpu_s(self.metrics.jobs, self.cpu_time_s),
            "assumptions": list(self.assumptions),
        }


def replay_rounds(
    setup: RoundSetup, scheme: RoundScheme, *, progress: Callable[[float], None] | None = None
) -> RoundReplay:
    """Run a round policy.

    Parameters
    ----------
    setup
        What is simulated.
    scheme
        Who decides.
    progress
        Is given the simulated seconds so far.

    Raises
    ------
    SimulationError
        If the policy breaks a rule or leaves jobs waiting for ever, or GPU-seconds or steps are
        not conserved.
    UserError
        If a job can never run.
    """
    policy = scheme.make()
    simulation = RoundSimulation(
        setup.workload,
        setup.cluster,
        policy,
        options=setup.options,
        progress=since(progress, setup.workload.first_submission_s),
    )
    effort = carry_out(
        simulation.run,
        scheme=scheme.name,
        failures=PolicyError,
        require_conserved=lambda: require_rounds_conserved(simulation),
    )
    return RoundReplay(
        setup=setup,
        scheme=scheme,
        metrics=measure_rounds(simulation),
        outcomes=_outcomes(simulation),
        series=_series(simulation),
        forks=policy.forks,
        wall_time_s=effort.wall_time_s,
        cpu_time_s=effort.cpu_time_s,
    )


def _outcomes(simulation: RoundSimulation) -> RoundOutcomes:
    runs = simulation.runs
    return RoundOutcomes(
        start_s=np.array([run.active.started_s for run in runs]),
        completion_s=np.array([run.completion_s for run in runs]),
        queued_s=np.array([run.queued_s for run in runs]),
        jct_s=np.array([run.jct_s for run in runs]),
        working_gpu_s=np.array([run.working_gpu_s for run in runs]),
        fairness=finish_time_fairness(simulation),
        restarts=np.array([run.restarts for run in runs], dtype=np.int64),
        preemptions=np.array([run.preemptions for run in runs], dtype=np.int64),
        most_copies=np.array([run.most_copies for run in runs], dtype=np.int64),
    )


def _series(simulation: RoundSimulation) -> RoundSeries:
    columns = [np.array(column) for column in zip(*simulation.totals.series, strict=True)]
    time_s, *counts = columns
    queued, running, copies, servers, *given = (count.astype(np.int64) for count in counts)
    return RoundSeries(
        time_s=time_s,
        queued_jobs=queued,
        running_jobs=running,
        copies=copies,
        busy_servers=servers,
        gpus_given=dict(zip(simulation.cluster.gpus_of_type, given, strict=True)),
    )
