"""Add throughputs on each GPU type to the jobs of a workload, by named or random models."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Utility
from lyra_opt.instances.heterogeneous.offline import LATE_WORTH_DIVISOR
from lyra_opt.instances.heterogeneous.throughputs import SCALED, JobType, ThroughputTable
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.cluster import GpuType
from lyra_opt.simulation.workload import Job, Workload

VERSION = 1
"""The version of the assignment of models, raised whenever a seed gives another workload."""

LISTED_MODELS = 5


def with_throughputs(
    workload: Workload,
    table: ThroughputTable,
    gpu_types: Sequence[GpuType],
    *,
    seed: int,
    measured_on: Callable[[Job], GpuType | None] = lambda job: None,  # noqa: ARG005
) -> Workload:
    """Return a workload whose jobs have training steps and a rate for each GPU type.

    A job that names a model of the table gets the rates of the model, and keeps its own steps if
    known. If the job names no batch size and the table has several, a random one is used. Any other
    job gets a random model, with equal probability for all models that were measured on its number
    of GPUs and run on a GPU type that the job accepts. Jobs that already have rates keep them. Jobs
    on part of a GPU get no rates, because no table has any.

    Parameters
    ----------
    workload
        Any workload. Rates are those of the base demand. Jobs with rates keep their progress when
        they are preempted; all their other properties stay.
    table
        The throughput table.
    gpu_types
        The GPU types for which jobs get rates: those of the cluster.
    seed
        The random seed.
    measured_on
        Returns the GPU type on which the running time of a job was measured. None if not known; the
        running time is then assumed to be that on the table's reference.

    Raises
    ------
    FieldError
        If no job type of the table runs on any of the GPU types, or the speed of a type is not
        known.

    Notes
    -----
    If a job type was not measured on a job's number of GPUs, the rate of the next smaller number is
    scaled in proportion to the GPUs. Takes O(jobs) time, and O(job types) per distinct number of
    GPUs.
    """
    models = IntegerStream(workload="assigned-models", version=VERSION, seed=seed)
    batch_sizes = IntegerStream(workload="assigned-batch-sizes", version=VERSION, seed=seed)
    choices_of: dict[tuple[int, tuple[str, ...]], tuple[JobType, ...]] = {}
    told = _Told(table)
    jobs = []
    for job in workload.jobs:
        if job.measured is not None or job.is_slice:
            jobs.append(job)
            continue
        named = () if job.model is None else table.types_named(job.model, job.min_gpus)
        if named:
            kind = named[0] if len(named) == 1 else named[batch_sizes.below(len(named))]
        else:
            key = job.min_gpus, job.gpu_types
            choices = choices_of.get(key)
            if choices is None:
                # A job that no available GPU type suits gets a model too; later checks reject it.
                taken = [found for found in gpu_types if job.takes(found.name)] or gpu_types
                choices = choices_of[key] = table.types_for(job.min_gpus, taken)
            kind = choices[models.below(len(choices))]
        told.note(job, kind, named)
        on = measured_on(job)
        gang = table.gang_of(
            job.id,
            kind,
            gang=job.min_gpus,
            reference_s=job.duration_s
            if on is None
            else table.reference_s(kind, job.duration_s, on),
            release_s=job.submit_s,
            gpu_types=gpu_types,
            steps=job.steps if named else None,
            weight=job.weight,
            utility=_utility(job),
        )
        jobs.append(_measured(job, gang))
    return replace(
        workload,
        name=f"{workload.name}-models-seed{seed}",
        jobs=tuple(jobs),
        assumptions=(*workload.assumptions, *told.sentences(), *table.remarks(gpu_types)),
        packed=table.packed_rates([job.measured for job in jobs], gpu_types),
    )


def _measured(job: Job, gang: GangJob) -> Job:
    """Return a job with measured rates, and with its work converted to time at its best rate."""
    work_worker_s = gang.steps / gang.best_rate * job.min_workers
    believed = job.estimated_work_worker_s
    return replace(
        job,
        work_worker_s=work_worker_s,
        # The estimate is scaled like the work, so its relative error does not change.
        estimated_work_worker_s=(
            None if believed is None else believed * (work_worker_s / job.work_worker_s)
        ),
        checkpoints=True,
        steps=gang.steps,
        measured=gang,
    )


def _utility(job: Job) -> Utility | None:
    """Return the utility function of a job with a deadline; None for the default utility."""
    if job.deadline_s is None:
        return None
    # Late jobs keep some utility; otherwise utility-maximising policies would never run them.
    in_time = InverseJct().at(job.deadline_s)
    return Deadline(
        deadline_s=job.deadline_s, value=in_time, late_value=in_time / LATE_WORTH_DIVISOR
    )


class _Told:
    """Counts how jobs specify their models, for sentences in results."""

    def __init__(self, table: ThroughputTable) -> None:
        self._table = table
        self._known = self._with_steps = self._without_batch_size = self._silent = 0
        self._unknown: dict[str, int] = {}
        self._is_scaled = self._has_deadlines = False

    def note(self, job: Job, kind: JobType, named: Sequence[JobType]) -> None:
        """Count how one job specifies its model."""
        self._is_scaled |= kind.gang != job.min_gpus
        self._has_deadlines |= job.deadline_s is not None
        if named:
            self._known += 1
            self._with_steps += job.steps is not None
            self._without_batch_size += len(named) > 1
        elif job.model is None:
            self._silent += 1
        else:
            self._unknown[job.model] = self._unknown.get(job.model, 0) + 1

    def sentences(self) -> list[str]:
        """Return sentences on the assumptions about models, for results."""
        table, unknown = self._table, sum(self._unknown.values())
        found = []
        own = (
            f", or its own steps if the trace states them for a model of the table "
            f"({_jobs(self._with_steps)})"
            if self._with_steps
            else ""
        )
        if self._known or self._silent or unknown:
            found.append(
                f"{table.in_words} A job has the steps that {table.reference} does in its running "
                f"time{own}."
            )
        if self._known:
            found.append(f"Models of the table that jobs name are used ({_jobs(self._known)}).")
        if self._without_batch_size:
            found.append(
                "Assigned by seed: one of the model's batch sizes, if a job names none "
                f"({_jobs(self._without_batch_size)})."
            )
        model = f"Assigned by seed: a model of table {table.name} on the job's number of GPUs, if"
        if self._silent:
            found.append(f"{model} a job names no model ({_jobs(self._silent)}).")
        if unknown:
            listed = ", ".join(sorted(self._unknown)[:LISTED_MODELS])
            more = ", ..." if len(self._unknown) > LISTED_MODELS else ""
            found.append(
                f"{model} the table lacks the model of a job ({_jobs(unknown)}: {listed}{more})."
            )
        if self._is_scaled:
            found.append(SCALED)
        if self._has_deadlines:
            found.append(
                "Assumed: for schemes that maximise utility, a job that meets its deadline has the "
                "utility of a job without a deadline that completes at the deadline; a late job "
                f"has {100 / LATE_WORTH_DIVISOR:g} % of it."
            )
        return found


def _jobs(count: int) -> str:
    return f"{count:,} job{'s' * (count != 1)}"
