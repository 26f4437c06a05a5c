"""Run one scheme on a setup: simulate, check the result, and collect figures and tables."""

from __future__ import annotations

import math
import time
import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.experiments.simulation.measuring.demand import load_by_type
from lyra_opt.experiments.simulation.measuring.measures import TIME_PARTS
from lyra_opt.experiments.simulation.scenario.keys import DECISION_KINDS
from lyra_opt.experiments.simulation.scenario.setup import POOLS, RACKS, SimulationError
from lyra_opt.instances.rows import GPU_TYPE_SEPARATOR
from lyra_opt.network.links import Tier
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.metrics import finish_time_fairness, measure, require_conserved
from lyra_opt.simulation.scheme import EPOCHS, FOREVER, LEASES, ROUNDS, prepare
from lyra_opt.simulation.series import CaptureObserver, ProgressObserver, SeriesObserver
from lyra_opt.simulation.view import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pandas as pd

    from lyra_opt.experiments.simulation.scenario.setup import Setup
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.series import Series
    from lyra_opt.simulation.view import Observer
    from lyra_opt.simulation.workload import Job

LEAST_CPU_TIME_S = 1e-9
ENGINE_NAMES = {FOREVER: "elastic", LEASES: LEASES, ROUNDS: ROUNDS, EPOCHS: EPOCHS}
"""Names of tenures under the key ``engine`` of JSON output, for clusters with a network."""

JOB_COLUMNS = (
    *("id", "submit_s", "work_worker_s", "min_workers", "max_workers", "gpus_per_worker"),
    *("fungible", "heterogeneous", "checkpoints", "model", "steps", "weight", "deadline_s"),
    *("priority", "tenant", "gpu_thousandths", "gpu_memory_mib"),
)
RUN_COLUMNS = (
    *("start_s", "completion_s", "queued_s", "jct_s", "held_gpu_s", "running_s", "done_gpu_s"),
    *("preemptions", "restarts", "losses", "migrations", "allocations", "most_copies"),
    *("ran_on_loan", "most_racks", "missed_deadline"),
)

_FIGURES = files("lyra_opt.experiments.simulation.running").joinpath("figures.toml")
FIGURES: Mapping[str, Any] = tomllib.loads(_FIGURES.read_text("utf-8"))
"""The keys of ``simulate --format json`` that are fields of `Metrics`, by kind of setup."""

FEW_JOBS = 100
"""With fewer jobs, the assumptions warn that single jobs decide the results."""


def step_means(time_s: np.ndarray, values: np.ndarray, edges_s: np.ndarray) -> np.ndarray:
    """Return the time average of a step function over each interval between neighbouring edges.

    >>> steps = np.array([0.0, 10.0, 30.0]), np.array([1.0, 4.0, 0.0])
    >>> step_means(*steps, np.array([0.0, 20.0, 40.0]))
    array([2.5, 2. ])
    """
    areas = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(time_s))))
    # The last value holds until the end of the last interval, and for at least one second.
    end_s = max(float(edges_s[-1]), float(time_s[-1]) + 1.0)
    moments = np.append(time_s, end_s)
    areas = np.append(areas, areas[-1] + values[-1] * (end_s - time_s[-1]))
    means: np.ndarray = np.diff(np.interp(edges_s, moments, areas)) / np.diff(edges_s)
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedReplay:
    """A finished and checked run of one scheme.

    Parameters
    ----------
    setup, scheme
        The setup that was simulated, and the scheme that ran the cluster.
    metrics
        Figures of the run.
    jobs
        A row per job in the order of the workload: its inputs (`JOB_COLUMNS`), its outcome
        (`RUN_COLUMNS`, see `lyra_opt.simulation.job_run.JobRun`) and the parts of its JCT (see
        `lyra_opt.simulation.least_run`). ``gpu_types`` lists the types that it requests, separated
        as in traces. ``cost`` is missing if no GPU type has a price. ``communication_share`` is the
        share of its GPU-seconds of running lost to the network, ``fairness`` its finish-time
        fairness.
    series
        The state of the cluster over time.
    borrows
        Whether jobs could run on servers on loan.
    wall_time_s, cpu_time_s
        Time of the simulation alone; the wall time excludes loading and compiling of solvers.
    """

    setup: Setup
    scheme: Scheme
    metrics: Metrics
    jobs: pd.DataFrame
    series: Series
    borrows: bool
    wall_time_s: float
    cpu_time_s: float

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the setup and of this run, one sentence each."""
        setup, scheme, plan = self.setup, self.scheme, self.setup.plan
        sentences = setup.assumptions_under(scheme.tenure)
        if scheme.has_copies:
            rounds = setup.options.rounds
            worth = ", ".join(f"{share:g}" for share in rounds.copy_efficiency)
            sentences += (
                "Assumed: copies of a job share its remaining work by their speed; merging them "
                f"takes {rounds.merge_s:g} s of each round; a step of 1, 2, ... copies is worth "
                f"{worth} (the last value also for more copies). HadarE's costs were not found.",
            )
        if plan is not None:
            planned_s = len(plan.on_loan) * plan.interval_s
            if self.metrics.makespan_s > planned_s:
                sentences += (
                    f"Loans are planned for {planned_s / DAY_S:g} days; scheme {scheme.name} takes "
                    "longer, and keeps the last loans until it ends.",
                )
            if not self.borrows:
                sentences += (f"Scheme {scheme.name} borrows none of the inference servers.",)
        if self.metrics.jobs < FEW_JOBS:
            sentences += (
                f"A replay of fewer than {FEW_JOBS} jobs says little: a single job can decide a "
                "mean or a percentile.",
            )
        if not self.metrics.queue_max_s:
            sentences += (
                f"No job waits under scheme {scheme.name}. Fewer servers or a higher jobs.load "
                "make jobs wait.",
            )
        return sentences

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``simulate --format json``; its keys depend on the setup."""
        setup, metrics = self.setup, asdict(self.metrics)
        keys = [*FIGURES[setup.kind], *(part.key for part in TIME_PARTS)]
        keys += FIGURES["loans"] if setup.loaning is not None else ()
        if any(job.is_elastic for job in setup.workload.jobs):
            keys.append("scaling_operations")
        if len(setup.cluster.own_gpus) > 1:
            keys.append("gpu_usage_by_type")
        return {
            "workload": setup.workload.name,
            **self._settings(),
            "dropped": setup.dropped,
            **({"load_by_type": loads} if (loads := load_by_type(setup)) else {}),
            **{key: metrics[FIGURES["renamed"].get(key, key)] for key in keys},
            **{key: metrics[key] for key in FIGURES["if_known"] if metrics[key] is not None},
            **self._by_priority(),
            **self._by_tenant(),
            **(self._usage_of_pools() if setup.kind == POOLS else {}),
            "wall_time_s": self.wall_time_s,
            "jobs_per_cpu_s": self.metrics.jobs / max(self.cpu_time_s, LEAST_CPU_TIME_S),
            "assumptions": list(self.assumptions),
        }

    def _by_priority(self) -> dict[str, Any]:
        if self.metrics.preemptions_by_priority is None:
            return {}
        return {"lost_gpu_s": self.metrics.lost_gpu_s} | self._by_level(FIGURES["by_priority"])

    def _by_tenant(self) -> dict[str, Any]:
        metrics = self.metrics
        quotas, taken_back = self.setup.cluster.tenants, metrics.taken_back_by_tenant
        if quotas is None or taken_back is None:
            return {}
        groups_and_others = [each.name for each in quotas.quotas if each.group is None]
        return {
            "jain_index": metrics.jain_index,
            "taken_back": sum(taken_back.get(name, 0) for name in groups_and_others),
            **self._by_level(FIGURES["by_tenant"]),
        }

    def _by_level(self, figures: Mapping[str, str]) -> dict[str, Any]:
        """Return the figures of each priority or tenant, whose name replaces the N of a key."""
        return {
            key.replace("N", str(level)): value
            for key, name in figures.items()
            for level, value in getattr(self.metrics, name).items()
        }

    def _settings(self) -> dict[str, Any]:
        """Return the settings that ``simulate --format json`` prints for this kind of setup."""
        setup, cluster, options = self.setup, self.setup.cluster, self.setup.options
        tenure, topology = self.scheme.tenure, cluster.topology
        orchestrator = None if setup.loaning is None else setup.loaning.orchestrator
        leases = options.leases if tenure == LEASES else None
        rounds = options.rounds if tenure == ROUNDS else None
        load = setup.workload.load(setup.reference_gpus)
        known = {
            "scenario": setup.scenario,
            "cluster": cluster.name,
            "topology": topology and topology.name,
            "network": cluster.network,
            "scheme": self.scheme.name,
            "engine": ENGINE_NAMES[tenure],
            "seed": options.seed,
            "servers": len(cluster.own_servers),
            "gpus_per_server": max(cluster.most_on_a_server.values()),
            "inference_servers": cluster.inference_servers,
            "racks": topology and len(topology.racks),
            "machines": topology and topology.machines,
            "gpus": cluster.gpus if setup.kind == RACKS else dict(cluster.gpus_of_type),
            "forecaster": orchestrator and orchestrator.forecaster.name,
            "headroom": orchestrator and orchestrator.headroom,
            "load": load if math.isfinite(load) else None,
            "lease_s": leases and leases.lease_s,
            "hand_over_s_per_gpu": leases and leases.hand_over_s_per_gpu,
            "round_s": rounds and rounds.round_s,
            "restart_s": rounds and rounds.restart_s,
            "merge_s": rounds and rounds.merge_s,
            "copy_efficiency": rounds and list(rounds.copy_efficiency),
        }
        return {key: known[key] for key in FIGURES["settings"][setup.kind]}

    def _usage_of_pools(self) -> dict[str, Any]:
        cluster, series, loaning = self.setup.cluster, self.series, self.setup.loaning
        own, lent = series.own_gpus_held, series.gpus_held_on_loan
        busy = (own + lent + series.gpus_serving) / (cluster.gpus + cluster.inference_gpus)
        held, servers = map(self._mean_while_submitting, (lent, series.servers_on_loan))
        loan_usage = shortfall = None
        if held is not None and servers:
            loan_usage = held / (servers * cluster.inference_gpus / cluster.inference_servers)
        if loaning is not None and self.borrows:
            shortfall = loaning.shortfall_share(self.metrics.makespan_s)
        return {
            "training_usage_while_submitting": self._mean_while_submitting(own / cluster.gpus),
            "overall_usage_while_submitting": self._mean_while_submitting(busy),
            "loan_usage_while_submitting": loan_usage,
            "inference_shortfall_share": shortfall,
        }

    def _mean_while_submitting(self, values: np.ndarray) -> float | None:
        """Return the time average of `values` from the first to the last submission.

        None if all jobs are submitted at one moment.
        """
        jobs = self.setup.workload.jobs
        edges_s = np.array([jobs[0].submit_s, jobs[-1].submit_s])
        if edges_s[0] == edges_s[1]:
            return None
        return float(step_means(self.series.time_s, values, edges_s)[0])


def replay(
    setup: Setup,
    scheme: Scheme,
    *,
    capture: Callable[[str, Any], None] | None = None,
    captured_kinds: Collection[str] = DECISION_KINDS,
    progress: Callable[[float, int, int], None] | None = None,
) -> FinishedReplay:
    """Simulate a setup under a scheme, and check the result.

    Parameters
    ----------
    setup, scheme
        The setup to simulate, and the scheme that runs the cluster.
    capture, captured_kinds
        A function that is called with each decision as a problem and an instance, and the problems
        whose decisions it is called with.
    progress
        A function that is told the progress; see `lyra_opt.simulation.series.ProgressObserver`.

    Raises
    ------
    SimulationError
        If the scheme breaks a rule, leaves jobs waiting for ever or finds no answer, or if
        GPU-seconds, work or time are not conserved.
    UserError
        If a job can never run, or the scheme cannot run the workload on the cluster.
    """
    series = SeriesObserver()
    observers: list[Observer] = [series]
    if progress is not None:
        observers.append(ProgressObserver(progress))
    if capture is not None:
        observers.append(CaptureObserver(capture, frozenset(captured_kinds)))
    simulation = prepare(
        setup.workload,
        setup.cluster,
        scheme,
        plan=setup.plan,
        options=setup.options,
        observers=observers,
    )
    cpu_before_s = time.process_time()
    stopwatch = Stopwatch()
    try:
        simulation.run()
    except PolicyError as error:
        # The key of the run, which precedes the message, already names the scheme.
        policy = f"policy {simulation.policy.name}, "
        raise SimulationError(str(error).removeprefix(policy)) from error
    wall_time_s, cpu_time_s = stopwatch.elapsed_s, time.process_time() - cpu_before_s
    try:
        require_conserved(simulation)
    except AssertionError as error:
        where = f"at {simulation.now_s:g} s"
        raise SimulationError(f"{where}: error in the simulation: {error}") from error
    fairness = finish_time_fairness(simulation)
    return FinishedReplay(
        setup=setup,
        scheme=scheme,
        metrics=measure(simulation, fairness),
        jobs=_jobs_table(simulation, fairness),
        series=series.series,
        borrows=simulation.loans.is_active,
        wall_time_s=wall_time_s,
        cpu_time_s=cpu_time_s,
    )


def input_table(jobs: Sequence[Job]) -> pd.DataFrame:
    """Return the inputs of jobs as a table: `JOB_COLUMNS`, and the GPU types that they request."""
    import pandas as pd

    of_job = {name: [getattr(job, name) for job in jobs] for name in JOB_COLUMNS}
    return pd.DataFrame(
        {**of_job, "gpu_types": [GPU_TYPE_SEPARATOR.join(job.gpu_types) for job in jobs]}
    )


def _jobs_table(simulation: Kernel, fairness: np.ndarray) -> pd.DataFrame:
    runs = simulation.runs
    of_run = {name: [getattr(run, name) for run in runs] for name in RUN_COLUMNS}
    computing_gpu_s = np.array(of_run["done_gpu_s"])
    has_prices = simulation.cluster.price_per_s_of_pool is not None
    by_tier = np.array([run.allocations_by_tier for run in runs], dtype=np.int64)
    table = input_table(simulation.workload.jobs).assign(
        **{
            **of_run,
            **time_parts(runs),
            "cost": [run.cost if has_prices else None for run in runs],
            # Rounding may make the share of communication slightly negative.
            "communication_share": np.maximum(
                0.0, 1 - computing_gpu_s / [run.ran_gpu_s for run in runs]
            ),
            "fairness": fairness,
            **{f"{tier.name.lower()}_allocations": by_tier[:, tier] for tier in Tier},
        }
    )
    return table.rename(columns={"id": "job_id", "done_gpu_s": "computing_gpu_s"})


def series_table(series: Series) -> pd.DataFrame:
    """Return the cluster's state over time as a table of means from each row's time to the next."""
    import pandas as pd

    columns = asdict(series)
    held = columns.pop("gpus_held")
    columns["own_gpus_held"] = series.own_gpus_held
    return pd.DataFrame(columns | {f"gpus_held_{name}": values for name, values in held.items()})
