"""What a bound speaks of: what schedules may do, and which jobs its mean is over."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lyra_opt.simulation.workload import Job, Workload


class Reading(Enum):
    """What schedules may do that a bound holds for."""

    RESTART = "restart"
    """A rigid job without checkpoints that is stopped starts from nothing, so that its last run is
    one piece, on one pool; elastic jobs, those with checkpoints, and those that may be on own and
    borrowed GPUs at once are as in the other."""
    CONSERVED = "conserved"
    """Jobs may be stopped, resized and moved at any moment, and lose nothing."""


ALL = "all"

JOB_CLASSES: Mapping[str, Callable[[Job], float]] = {
    ALL: lambda job: 1.0,  # noqa: ARG005
    "weighted": lambda job: job.weight,
    "rigid": lambda job: float(not job.is_elastic),
    "elastic": lambda job: float(job.is_elastic),
    "fungible": lambda job: float(job.fungible),
}
"""What a job counts for in a mean, by the name of the mean; jobs that count for nothing take part
in the schedule all the same."""


def weights_of(workload: Workload, job_class: str) -> NDArray[np.float64]:
    """Return what each job counts for.

    Raises
    ------
    FieldError
        If it is no class, or no job is of it.
    """
    import numpy as np

    if job_class not in JOB_CLASSES:
        raise FieldError("job_class", job_class, f"must be one of {', '.join(JOB_CLASSES)}")
    weight = np.array([JOB_CLASSES[job_class](job) for job in workload.jobs])
    if not weight.any():
        raise FieldError("job_class", job_class, f"must be that of a job of {workload.name}")
    return weight
