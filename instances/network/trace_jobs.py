"""Gangs from a job trace, which says when, how long and on how many GPUs, and seldom what ran."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.instances.network.job_sets import BATCH
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


VERSION = 1
"""Goes up when a seed gives another workload."""


def shares_of(models: Collection[str]) -> Mapping[str, int]:
    """Return how likely models are, in parts of their sum, where a trace does not say.

    Those of Dally's batch set if all of its models are known, else each known one as likely.
    """
    if all(model in models for model in BATCH.models):
        return BATCH.models
    return dict.fromkeys(models, 1)


def assigned_models(
    trace: Workload, *, seed: int, shares: Mapping[str, int] = BATCH.models
) -> Workload:
    """Return the jobs of a trace, each with the model that it names, or else one drawn by seed.

    A job's gang is its GPUs, elastic jobs with their base demand, and its work is its running time
    on all of them: in the trace the network cost it what it did, here that comes on top. Steps,
    weights, deadlines and the GPU types asked for are kept.

    Parameters
    ----------
    trace
        Any.
    seed
        Of the draws.
    shares
        How likely each model is, in parts of their sum; those of Dally's batch set by default.

    Notes
    -----
    Time O(jobs).
    """
    stream = IntegerStream(workload="network-models", version=VERSION, seed=seed)
    models, weights = list(shares), list(shares.values())
    drawn = sum(job.model is None for job in trace.jobs)
    return Workload(
        name=f"{trace.name}-network-models-seed{seed}" if drawn else trace.name,
        jobs=tuple(
            replace(
                Job.rigid(
                    id=job.id,
                    submit_s=job.submit_s,
                    gpus=job.min_gpus,
                    work_gpu_s=job.duration_s * job.min_gpus,
                    model=models[stream.weighted(weights)] if job.model is None else job.model,
                ),
                steps=job.steps,
                weight=job.weight,
                deadline_s=job.deadline_s,
                gpu_types=job.gpu_types,
            )
            for job in trace.jobs
        ),
        assumptions=(
            *trace.assumptions,
            _where_models_are_from(drawn, len(trace.jobs), shares),
            "Assumed: a job's running time in the trace is what it takes if the network costs "
            "nothing.",
        ),
    )


def _where_models_are_from(drawn: int, jobs: int, shares: Mapping[str, int]) -> str:
    """Return a sentence on what jobs train, of which so many are drawn."""
    if not drawn:
        return "What jobs train is as in the trace, whatever the seed."
    total = sum(shares.values())
    listed = ", ".join(f"{model} {100 * share / total:.3g} %" for model, share in shares.items())
    whose = "its jobs train" if drawn == jobs else f"{drawn:,} of its {jobs:,} jobs train"
    how = (
        "with the shares of Dally's batch set"
        if shares == BATCH.models
        else "from those of the slowdowns, each as likely"
    )
    return (
        f"Assigned by seed: the trace does not say what {whose}; models are drawn {how} ({listed})."
    )
