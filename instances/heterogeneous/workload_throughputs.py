"""Rates for the jobs of any workload: by the model that a job says, or one drawn by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.instances.heterogeneous.offline import LATE_WORTH_DIVISOR
from lyra_opt.instances.heterogeneous.throughputs import SCALED
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.heterogeneous.instance import GangJob
    from lyra_opt.heterogeneous.utility import Utility
    from lyra_opt.instances.heterogeneous.throughputs import JobType, ThroughputTable
    from lyra_opt.simulation.cluster import GpuType
    from lyra_opt.simulation.workload import Job, Workload

VERSION = 1
"""Goes up when a seed gives another workload."""

LISTED_MODELS = 5


def with_throughputs(
    workload: Workload,
    table: ThroughputTable,
    gpu_types: Sequence[GpuType],
    *,
    seed: int,
    measured_on: Callable[[Job], GpuType | None] = lambda job: None,  # noqa: ARG005
) -> Workload:
    """Return the jobs of a workload, each with steps and rates by type of GPU.

    A job that says a model of the table gets its rates, and keeps its steps where it says them;
    where it says no batch size and the table has several, one is drawn. Any other job gets a model
    drawn by seed, each as likely of those that were measured on as many GPUs and run on a type that
    the job takes. Jobs that have rates already keep them.

    Parameters
    ----------
    workload
        Any. Rates are those of the base demand; all else that jobs are stays, but that they keep
        their progress.
    table
        Of throughputs.
    gpu_types
        For which the jobs get rates; those of the cluster.
    seed
        Of the draws.
    measured_on
        Returns the GPU type on which the running time of a job was measured; None where it is not
        known, and then it is taken for a time on the table's reference.

    Raises
    ------
    FieldError
        If no kind of job of the table runs on any of the types, or nothing is known of how fast
        one of them is.

    Notes
    -----
    A kind that was not measured on a job's number of GPUs has the rate of the next smaller number,
    times the ratio of the two. Time O(jobs), and O(kinds) for each number of GPUs.
    """
    models = IntegerStream(workload="assigned-models", version=VERSION, seed=seed)
    batch_sizes = IntegerStream(workload="assigned-batch-sizes", version=VERSION, seed=seed)
    choices_of: dict[tuple[int, tuple[str, ...]], tuple[JobType, ...]] = {}
    told = _Told(table)
    jobs = []
    for job in workload.jobs:
        if job.measured is not None:
            jobs.append(job)
            continue
        named = () if job.model is None else table.types_named(job.model, job.min_gpus)
        if named:
            kind = named[0] if len(named) == 1 else named[batch_sizes.below(len(named))]
        else:
            key = job.min_gpus, job.gpu_types
            choices = choices_of.get(key)
            if choices is None:
                # Whoever asks for types that are not there gets a model all the same: that it can
                # run nowhere is for the cluster to say.
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
    """Return a job with what was measured; see `Job.of_gang` for what its work is then."""
    work_worker_s = gang.steps / gang.best_rate * job.min_workers
    believed = job.estimated_work_worker_s
    return replace(
        job,
        work_worker_s=work_worker_s,
        # Who misjudges a job misjudges it by as much, whatever its work is counted in.
        estimated_work_worker_s=(
            None if believed is None else believed * (work_worker_s / job.work_worker_s)
        ),
        checkpoints=True,
        steps=gang.steps,
        measured=gang,
    )


def _utility(job: Job) -> Utility | None:
    """Return what a job's completion is worth; None for what it usually is."""
    if job.deadline_s is None:
        return None
    # Late it must be worth something, or rules that go by worth alone never run it.
    in_time = InverseJct().at(job.deadline_s)
    return Deadline(
        deadline_s=job.deadline_s, value=in_time, late_value=in_time / LATE_WORTH_DIVISOR
    )


class _Told:
    """What jobs say of their models, counted for results."""

    def __init__(self, table: ThroughputTable) -> None:
        self._table = table
        self._known = self._with_steps = self._without_batch_size = self._silent = 0
        self._unknown: dict[str, int] = {}
        self._is_scaled = self._has_deadlines = False

    def note(self, job: Job, kind: JobType, named: Sequence[JobType]) -> None:
        """Count a job."""
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
        """Return what is assumed."""
        table, unknown = self._table, sum(self._unknown.values())
        found = []
        own = (
            f", but for those that say how many of a model of the table ({_jobs(self._with_steps)})"
            if self._with_steps
            else ""
        )
        if self._known or self._silent or unknown:
            found.append(
                f"{table.in_words} A job has the steps that {table.reference} does in its running "
                f"time{own}."
            )
        if self._known:
            found.append(f"Models are those that jobs say, of the table ({_jobs(self._known)}).")
        if self._without_batch_size:
            found.append(
                "Assigned by seed: one of the model's batch sizes, where none is said "
                f"({_jobs(self._without_batch_size)})."
            )
        model = f"Assigned by seed: a model of table {table.name} on as many GPUs, where"
        if self._silent:
            found.append(f"{model} a job does not say what it runs ({_jobs(self._silent)}).")
        if unknown:
            listed = ", ".join(sorted(self._unknown)[:LISTED_MODELS])
            more = ", ..." if len(self._unknown) > LISTED_MODELS else ""
            found.append(
                f"{model} the table has not what is said ({_jobs(unknown)}: {listed}{more})."
            )
        if self._is_scaled:
            found.append(SCALED)
        if self._has_deadlines:
            found.append(
                "Assumed: to schemes that go by utility, a job with a deadline is worth in time "
                "what another is that takes as long, and late "
                f"{100 / LATE_WORTH_DIVISOR:g} % of it."
            )
        return found


def _jobs(count: int) -> str:
    return f"{count:,} job{'s' * (count != 1)}"
