"""The assumptions of a bound: what happens to preempted work, and which jobs its mean covers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.nearest_names import one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.core.arrays import FloatArray
    from lyra_opt.simulation.workload import Job, Workload


class Reading(Enum):
    """The assumption of a bound about preempted work: rigid jobs lose it, or all jobs keep it."""

    RESTART = "restart"
    """A rigid job without checkpoints loses its progress when it is stopped, so its last run is
    uninterrupted and on one pool. Elastic jobs, jobs with checkpoints, and jobs that can use own
    and borrowed GPUs at once are treated as in `CONSERVED`."""
    CONSERVED = "conserved"
    """Jobs may be stopped, resized and moved at any time without losing work."""


ALL = "all"

JOB_CLASSES: Mapping[str, Callable[[Job], float]] = {
    ALL: lambda job: 1.0,  # noqa: ARG005
    "weighted": lambda job: job.weight,
    "rigid": lambda job: float(not job.is_elastic),
    "elastic": lambda job: float(job.is_elastic),
    "fungible": lambda job: float(job.fungible),
}
"""Weight of a job in a mean, by name of the mean. Jobs with weight 0 still take part in the
schedule.
"""


def weights_of(workload: Workload, job_class: str) -> FloatArray:
    """Return the weight of each job in the mean over a class of jobs.

    Raises
    ------
    FieldError
        If the class is unknown, or contains no job of the workload.
    """
    import numpy as np

    if job_class not in JOB_CLASSES:
        raise FieldError("job_class", job_class, one_of(job_class, JOB_CLASSES))
    weight = np.array([JOB_CLASSES[job_class](job) for job in workload.jobs])
    if not weight.any():
        raise FieldError("job_class", job_class, f"must contain a job of workload {workload.name}")
    return weight
