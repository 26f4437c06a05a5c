"""Gangs from a job trace, which says when, how long and on how many GPUs, but not what ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.network.job_sets import BATCH
from instances.randomness import IntegerStream
from lyra_opt.simulation.leases.setup import NetworkJob, NetworkWorkload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.simulation.workload import Workload

VERSION = 1
"""Goes up when a seed gives another workload."""


def assigned_models(
    trace: Workload, *, seed: int, shares: Mapping[str, int] = BATCH.models
) -> NetworkWorkload:
    """Return the jobs of a trace, each with a model drawn by seed.

    A job's gang is its GPUs, elastic jobs with their base demand, and its work is its running time
    on all of them: in the trace the network cost it what it did, here that comes on top.

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
    total = sum(weights)
    listed = ", ".join(f"{model} {100 * shares[model] / total:.3g} %" for model in models)
    return NetworkWorkload(
        name=f"{trace.name}-network-models-seed{seed}",
        jobs=tuple(
            NetworkJob(
                id=job.id,
                submit_s=job.submit_s,
                gang=job.min_gpus,
                work_gpu_s=job.duration_s * job.min_gpus,
                model=models[stream.weighted(weights)],
            )
            for job in trace.jobs
        ),
        assumptions=(
            *trace.assumptions,
            f"Assigned by seed: the trace does not say what its jobs train; models are drawn with "
            f"the shares of Dally's batch set ({listed}).",
            "Assumed: a job's running time in the trace is what it takes if the network costs "
            "nothing.",
        ),
    )
