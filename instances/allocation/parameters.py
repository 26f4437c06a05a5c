"""The parameters of the allocation families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.parameters import ChoiceParameter, IntegerParameter
from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instances.parameters import Parameter

LARGEST_JOBS = 100_000
"""Jobs of the largest instance that the families make."""

LARGEST_GPUS = 10_000_000
MOST_EXTRA_WORKERS = 100_000
DEFAULT_LOAD_PERCENT = 100

PARAMETERS: Mapping[str, Parameter] = {
    "jobs": IntegerParameter(help="elastic jobs", least=1, largest=LARGEST_JOBS),
    "objective": ChoiceParameter(
        help="what is optimised (default mean_jct)",
        choices=("jct_reduction", "two_phase", "joint", "mean_jct"),
        default="mean_jct",
    ),
    "gpus": IntegerParameter(
        help="GPUs of the cluster, in place of --load-percent (family light: default 3.2 a job)",
        least=1,
        largest=LARGEST_GPUS,
    ),
    "load_percent": IntegerParameter(
        help="GPUs of all base demands (for jct_reduction: of all extra workers), as a share of "
        "the GPUs that there are, from slack to overbooked (family load; default "
        f"{DEFAULT_LOAD_PERCENT})",
        least=1,
        largest=1000,
        metavar="P",
    ),
    "release_percent": IntegerParameter(
        help="jobs are released over this share of the time in which all GPUs could do all the "
        "work; 0 releases all at once (family load; default 0)",
        least=0,
        largest=1000,
        default=0,
        metavar="P",
    ),
    "scaling_loss_percent": IntegerParameter(
        help="what each worker beyond the base demand falls short of a worker of it (family "
        "load; default 0)",
        least=0,
        largest=100,
        default=0,
        metavar="P",
    ),
    "gpus_per_worker": ChoiceParameter(
        help="GPUs that a worker holds; mixed draws 1, 2, 4 or 8 for each job (family load; "
        "default 1)",
        choices=("1", "2", "4", "8", "mixed"),
        default="1",
    ),
    "extra_workers": IntegerParameter(
        help="workers beyond the base demand that a job can use (family load: by default drawn, "
        "up to three times the base demand; family worst-case: by default 0.9 a job)",
        least=0,
        largest=MOST_EXTRA_WORKERS,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationParameters:
    """Checked parameters of one allocation family; those it does not take are at their default.

    Parameters
    ----------
    jobs
        Elastic jobs.
    objective
        What is optimised.
    gpus
        GPUs of the cluster, None where they follow from the load.
    load_percent
        GPUs demanded as a share of those that there are, None where `gpus` are given.
    release_percent, scaling_loss_percent, gpus_per_worker, extra_workers
        See `PARAMETERS`.

    Raises
    ------
    UserError
        If both ``--gpus`` and ``--load-percent`` are given.
    """

    jobs: int
    objective: str = "mean_jct"
    gpus: int | None = None
    load_percent: int | None = None
    release_percent: int = 0
    scaling_loss_percent: int = 0
    gpus_per_worker: str = "1"
    extra_workers: int | None = None

    def __post_init__(self) -> None:
        if self.gpus is None:
            if self.load_percent is None:
                object.__setattr__(self, "load_percent", DEFAULT_LOAD_PERCENT)
        elif self.load_percent is not None:
            raise UserError(
                f"--load-percent is {self.load_percent}: must not be given beside --gpus, which "
                "sets the load"
            )
