"""The parameters of the allocation families."""

from __future__ import annotations

from dataclasses import dataclass

from lyra_opt.core.errors import UserError
from lyra_opt.instances.parameters import choice, integer

LARGEST_JOBS = 100_000
"""Jobs of the largest instance that the families make."""

LARGEST_GPUS = 10_000_000
MOST_EXTRA_WORKERS = 100_000
DEFAULT_LOAD_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationParameters:
    """What an allocation family is asked for; what it does not take is at its default.

    ``gpus`` is None where they follow from the load, and ``load_percent`` where GPUs are given.

    Raises
    ------
    UserError
        If both ``--gpus`` and ``--load-percent`` are given.
    """

    jobs: int = integer("elastic jobs", 1, LARGEST_JOBS)
    objective: str = choice(
        "what is optimised", ("jct_reduction", "two_phase", "joint", "mean_jct"), default="mean_jct"
    )
    gpus: int | None = integer(
        "GPUs of the cluster, in place of --load-percent (family light: default 3.2 a job)",
        1,
        LARGEST_GPUS,
    )
    load_percent: int | None = integer(
        "GPUs of all base demands (for jct_reduction: of all extra workers), as a "
        "share of the GPUs that there are, from slack to overbooked (family load; default "
        f"{DEFAULT_LOAD_PERCENT})",
        1,
        1000,
        metavar="P",
    )
    release_percent: int = integer(
        "jobs are released over this share of the time in which all GPUs could do all "
        "the work; 0 releases all at once",
        0,
        1000,
        default=0,
        metavar="P",
        family="load",
    )
    scaling_loss_percent: int = integer(
        "what each worker beyond the base demand falls short of a worker of it",
        0,
        100,
        default=0,
        metavar="P",
        family="load",
    )
    gpus_per_worker: str = choice(
        "GPUs that a worker holds; mixed draws 1, 2, 4 or 8 for each job",
        ("1", "2", "4", "8", "mixed"),
        default="1",
        family="load",
    )
    extra_workers: int | None = integer(
        "workers beyond the base demand that a job can use (family load: by default "
        "drawn, up to three times the base demand; family worst-case: by default 0.9 a job)",
        0,
        MOST_EXTRA_WORKERS,
    )

    def __post_init__(self) -> None:
        if self.gpus is None:
            if self.load_percent is None:
                object.__setattr__(self, "load_percent", DEFAULT_LOAD_PERCENT)
        elif self.load_percent is not None:
            raise UserError(
                f"--load-percent is {self.load_percent}: must not be given beside --gpus, which "
                "sets the load"
            )
