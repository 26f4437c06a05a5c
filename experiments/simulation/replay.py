"""Run one scheme, check it, and keep what came of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.simulation.carried_out import carry_out, jobs_per_cpu_s, since
from experiments.simulation.setup import DAY_S, expected_makespan_s
from lyra_opt.simulation.decisions import DecisionError
from lyra_opt.simulation.engine import DECISION_KINDS, Simulation
from lyra_opt.simulation.metrics import measure, require_conserved

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from experiments.simulation.setup import Setup
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.scheme import Scheme

STEPS_OF_A_RUN = 4000
"""How many times the state of the cluster is noted in a run, about, or as often as servers move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of each job, in the order of the workload.

    Parameters
    ----------
    start_s, completion_s
        When it first started, and when it completed.
    queued_s
        How long it waited in all.
    jct_s
        From submission to completion.
    held_gpu_s
        GPU-seconds that it held, of either kind.
    preemptions
        How often it was sent back to the queue.
    ran_on_loan
        Whether it ever had workers on servers on loan.
    most_racks
        Racks of training servers that it spanned at once; 0 where racks do not matter.
    """

    start_s: np.ndarray
    completion_s: np.ndarray
    queued_s: np.ndarray
    jct_s: np.ndarray
    held_gpu_s: np.ndarray
    preemptions: np.ndarray
    ran_on_loan: np.ndarray
    most_racks: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The state of the cluster over time; each row holds until the next.

    Parameters
    ----------
    time_s
        Since time 0 of the workload.
    training_gpus_held, loan_gpus_held
        GPUs that jobs hold on training servers, and on servers on loan.
    servers_on_loan
        Inference servers on loan.
    queued_jobs, running_jobs
        Jobs that wait, and jobs that hold GPUs.
    inference_busy_share
        Share of the inference cluster's GPUs that serve.
    """

    time_s: np.ndarray
    training_gpus_held: np.ndarray
    loan_gpus_held: np.ndarray
    servers_on_loan: np.ndarray
    queued_jobs: np.ndarray
    running_jobs: np.ndarray
    inference_busy_share: np.ndarray


def step_means(time_s: np.ndarray, values: np.ndarray, edges_s: np.ndarray) -> np.ndarray:
    """Return the mean over time, between neighbouring edges, of values that hold until the next.

    >>> steps = np.array([0.0, 10.0, 30.0]), np.array([1.0, 4.0, 0.0])
    >>> step_means(*steps, np.array([0.0, 20.0, 40.0]))
    array([2.5, 2. ])
    """
    areas = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(time_s))))
    # Beyond the last moment its value holds on.
    end_s = max(float(edges_s[-1]), float(time_s[-1]) + 1.0)
    moments = np.append(time_s, end_s)
    areas = np.append(areas, areas[-1] + values[-1] * (end_s - time_s[-1]))
    means: np.ndarray = np.diff(np.interp(edges_s, moments, areas)) / np.diff(edges_s)
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A finished and checked run of one scheme.

    Parameters
    ----------
    setup
        What was simulated.
    scheme
        How the cluster was run.
    metrics
        Its figures.
    outcomes, series
        By job, and over time.
    wall_time_s, cpu_time_s
        Of the simulation alone; loading solvers and compiling their kernels not counted in the
        former.
    """

    setup: Setup
    scheme: Scheme
    metrics: Metrics
    outcomes: Outcomes
    series: Series
    wall_time_s: float
    cpu_time_s: float

    @property
    def first_submission_s(self) -> float:
        """When the first job is submitted."""
        return self.setup.workload.jobs[0].submit_s

    @property
    def last_submission_s(self) -> float:
        """When the last job is submitted."""
        return self.setup.workload.jobs[-1].submit_s

    @property
    def training_usage_over_time(self) -> np.ndarray:
        """Share of the training GPUs that jobs hold, at the moments of the series."""
        usage: np.ndarray = self.series.training_gpus_held / self.setup.cluster.gpus
        return usage

    @property
    def overall_usage_over_time(self) -> np.ndarray:
        """Share of the GPUs of both clusters that jobs hold or inference needs."""
        cluster, series = self.setup.cluster, self.series
        inference_gpus = cluster.inference_servers * cluster.inference_gpus_per_server
        busy: np.ndarray = (
            series.training_gpus_held
            + series.loan_gpus_held
            + series.inference_busy_share * inference_gpus
        )
        return busy / (cluster.gpus + inference_gpus)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, a sentence each; those of the setup, and of this run."""
        plan = self.setup.plan
        sentences = self.setup.assumptions
        if plan is not None:
            planned_s = len(plan.on_loan) * plan.interval_s
            if self.metrics.makespan_s > planned_s:
                days = planned_s / DAY_S
                sentences += (
                    f"Loans are planned for {days:g} days; scheme {self.scheme.name} takes longer, "
                    "and the last loans stand until it ends.",
                )
        return sentences

    def _while_submitting(self, values: np.ndarray) -> float | None:
        """Return the mean of values of the series from the first submission to the last."""
        jobs = self.setup.workload.jobs
        edges_s = np.array([jobs[0].submit_s, jobs[-1].submit_s])
        if edges_s[0] == edges_s[1]:
            return None
        return float(step_means(self.series.time_s, values, edges_s)[0])

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``simulate --json``."""
        setup, metrics = self.setup, asdict(self.metrics)
        cluster, loaning = setup.cluster, setup.loaning
        load = setup.workload.load(cluster.gpus)
        borrows = loaning is not None and self.scheme.borrows
        return {
            "workload": setup.workload.name,
            "scenario": setup.scenario,
            "scheme": self.scheme.name,
            "seed": setup.options.seed,
            "servers": cluster.servers,
            "gpus_per_server": cluster.gpus_per_server,
            "inference_servers": cluster.inference_servers,
            "forecaster": None if loaning is None else loaning.orchestrator.forecaster.name,
            "headroom": None if loaning is None else loaning.orchestrator.headroom,
            "load": load if math.isfinite(load) else None,
            "dropped": setup.dropped,
            **metrics,
            "training_usage_while_submitting": self._while_submitting(
                self.training_usage_over_time
            ),
            "overall_usage_while_submitting": self._while_submitting(self.overall_usage_over_time),
            "inference_shortfall_share": (
                loaning.shortfall_share(self.metrics.makespan_s)
                if loaning is not None and borrows
                else None
            ),
            "wall_time_s": self.wall_time_s,
            "jobs_per_cpu_s": jobs_per_cpu_s(self.metrics.jobs, self.cpu_time_s),
            "assumptions": list(self.assumptions),
        }


def replay(
    setup: Setup,
    scheme: Scheme,
    *,
    capture: Callable[[str, Any], None] | None = None,
    captured_kinds: Collection[str] = DECISION_KINDS,
    progress: Callable[[float], None] | None = None,
) -> Replay:
    """Run a scheme.

    Parameters
    ----------
    setup
        What is simulated.
    scheme
        How the cluster is run.
    capture, captured_kinds
        As for `lyra_opt.simulation.engine.Simulation`.
    progress
        Is given the simulated seconds so far.

    Raises
    ------
    SimulationError
        If a solver has no answer, or GPU-seconds are not conserved.
    UserError
        If a job can never run.
    """
    simulation = _NotedSimulation(
        setup.workload,
        setup.cluster,
        scheme,
        plan=setup.plan,
        options=setup.options,
        capture=capture,
        captured_kinds=captured_kinds,
        progress=since(progress, setup.workload.jobs[0].submit_s),
    )
    effort = carry_out(
        simulation.run,
        scheme=scheme.name,
        failures=DecisionError,
        require_conserved=lambda: require_conserved(simulation),
    )
    return Replay(
        setup=setup,
        scheme=scheme,
        metrics=measure(simulation),
        outcomes=_outcomes(simulation),
        series=_series(simulation),
        wall_time_s=effort.wall_time_s,
        cpu_time_s=effort.cpu_time_s,
    )


class _NotedSimulation(Simulation):
    """Notes its state, and says how far it is, between the ticks of the plan or without one.

    A state is that at the end of its moment: a job that is sent back to the queue and starts again
    at once does not wait.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._step_s = expected_makespan_s(self.workload, self.cluster) / STEPS_OF_A_RUN
        ticks_suffice = self._plan is not None and self._step_s >= self._plan.interval_s
        self._next_note_s = math.inf if ticks_suffice else self.now_s + self._step_s
        self._is_note_due = True

    def run(self) -> Simulation:
        super().run()
        super()._note_state()
        return self

    def _note_state(self) -> None:
        self._is_note_due = True

    def _advance(self, now_s: float) -> None:
        if self._is_note_due and now_s > self.now_s:
            super()._note_state()
            self._is_note_due = False
        if now_s >= self._next_note_s:
            self._note_at(self._next_note_s, now_s)
            steps = math.floor((now_s - self._next_note_s) / self._step_s)
            if steps:  # nothing has changed in between
                self._note_at(self._next_note_s + steps * self._step_s, now_s)
            self._next_note_s += (steps + 1) * self._step_s
            if self._progress is not None:
                self._progress(now_s)
        super()._advance(now_s)

    def _note_at(self, time_s: float, now_s: float) -> None:
        """Note the state of a moment that is over, or of this one when it is."""
        if time_s >= now_s:
            self._note_state()
        else:
            super()._advance(time_s)
            super()._note_state()


def _outcomes(simulation: Simulation) -> Outcomes:
    runs = simulation.runs
    completion_s = np.array([run.completion_s for run in runs])
    return Outcomes(
        start_s=np.array([run.start_s for run in runs]),
        completion_s=completion_s,
        queued_s=np.array([run.queued_s for run in runs]),
        jct_s=completion_s - np.array([run.job.submit_s for run in runs]),
        held_gpu_s=np.array([run.held_gpu_s for run in runs]),
        preemptions=np.array([run.preemptions for run in runs], dtype=np.int64),
        ran_on_loan=np.array([run.ran_on_loan for run in runs], dtype=np.bool_),
        most_racks=np.array([run.most_racks for run in runs], dtype=np.int64),
    )


def _series(simulation: Simulation) -> Series:
    columns = [np.array(column) for column in zip(*simulation.totals.series, strict=True)]
    time_s, training, loan, on_loan, queued, running, busy = columns
    return Series(
        time_s=time_s,
        training_gpus_held=training,
        loan_gpus_held=loan,
        servers_on_loan=on_loan,
        queued_jobs=queued,
        running_jobs=running,
        inference_busy_share=busy,
    )
