"""The parameters of the families of each problem; the command line is built from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.instances.parameters import (
    choice,
    file,
    integer,
    names,
    option,
    parameters_of,
    require_parameter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

LARGEST_FLEET = 100_000
"""Servers of the largest instance that the families make."""

DEFAULT_MIN_WORKERS_PERCENT = 50
DEFAULT_RECLAIM_PERCENT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimParameters:
    """What a reclaim family is asked for; what it does not take is at its default.

    ``servers`` is 0 where the family sets its own size, ``min_workers_percent`` None in a rigid
    instance, and ``reclaim_percent`` None once N_R is known by it.

    Raises
    ------
    UserError
        If ``--min-workers-percent`` is given for the rigid semantics, or there are fewer
        servers on loan than `reclaim`.
    """

    servers: int = integer("servers of the fleet, 8 GPUs each", 1, LARGEST_FLEET, absent=0)
    reclaim: int = integer("servers to give back, N_R", 0, LARGEST_FLEET, metavar="K")
    reclaim_percent: int | None = integer(
        "N_R as a share of the servers, rounded half up, at least 1; in place of --reclaim "
        f"(default {DEFAULT_RECLAIM_PERCENT})",
        1,
        100,
        metavar="P",
    )
    trace: str | Path | None = file(
        "job trace, CSV plain or gzip, with the columns job_id, submit_time_s, duration_s, gpus",
        family="snapshot",
    )
    placement: str = choice(
        "how the replay of a trace places jobs: best fit, random order or 1-2-GPU workers anywhere",
        ("bf", "rnd", "messy"),
        default="bf",
        family="snapshot",
    )
    load_percent: int | str = integer(
        "GPU time that the trace asks for over its submission span, as a share of "
        "what the fleet has; arrivals are moved together or apart to reach it, and the word "
        "trace keeps the trace's own clock",
        1,
        1000,
        word="trace",
        default=95,
        metavar="P",
        family="snapshot",
    )
    semantics: str = choice(
        "when a job is preempted", ("rigid", "interchangeable"), default="rigid"
    )
    min_workers_percent: int | None = integer(
        "interchangeable: 60 % of the jobs of several workers survive with this share "
        f"of them, rounded up; the others need all (default {DEFAULT_MIN_WORKERS_PERCENT})",
        0,
        100,
        metavar="P",
    )
    off_loan_percent: int = integer(
        "share of the servers, drawn by seed and rounded down, that is not on loan",
        0,
        100,
        default=0,
        metavar="P",
    )

    def __post_init__(self) -> None:
        if self.semantics == "interchangeable" and self.min_workers_percent is None:
            object.__setattr__(self, "min_workers_percent", DEFAULT_MIN_WORKERS_PERCENT)
        elif self.semantics == "rigid" and self.min_workers_percent is not None:
            raise UserError(
                f"--min-workers-percent is {self.min_workers_percent}: must not be given for "
                "--semantics rigid, where a job needs all its base workers"
            )
        on_loan = self.servers - self.off_loan_servers
        if self.servers and self.reclaim > on_loan:
            raise UserError(
                f"--reclaim is {self.reclaim}: must be at most the {on_loan} servers on loan"
            )

    @property
    def off_loan_servers(self) -> int:
        """How many servers are not on loan."""
        return self.servers * self.off_loan_percent // 100

    @property
    def needs_draws(self) -> bool:
        """Whether the seed decides on more than the placement of the jobs."""
        return self.semantics == "interchangeable" or self.off_loan_servers > 0

    @property
    def variant_label(self) -> str:
        """What an instance's name says of semantics and loan; empty for the defaults."""
        label = ""
        if self.semantics == "interchangeable":
            label += f"-interchangeable{self.min_workers_percent}"
        if self.off_loan_percent:
            label += f"-offloan{self.off_loan_percent}"
        return label


def counted(values: Mapping[str, Any], *, family: str, sets_own_size: bool) -> dict[str, Any]:
    """Return what was asked for with N_R in place of the share that it is given as or by default.

    Parameters
    ----------
    values
        What was asked for, by name; None stands for a value not given.
    family
        The family's name, for errors.
    sets_own_size
        Whether the family has no servers that N_R could be a share of.

    Raises
    ------
    UserError
        If the share is given beside N_R or without servers, or breaks its rule.
    """
    given = {name: value for name, value in values.items() if value is not None}
    percent = given.pop("reclaim_percent", None)
    if percent is None:
        if sets_own_size or "reclaim" in given or "servers" not in given:
            return given
        percent = DEFAULT_RECLAIM_PERCENT
    parameters = parameters_of(ReclaimParameters)
    require_parameter("reclaim_percent", parameters["reclaim_percent"], percent)
    share = f"{option('reclaim_percent')} is {percent}"
    if "reclaim" in given:
        raise UserError(f"{share}: cannot be combined with --reclaim")
    if sets_own_size:
        raise UserError(f"{share}: is refused by family {family}, whose size --reclaim sets")
    if "servers" not in given:
        raise UserError(f"{share}: is a share of --servers, which is missing")
    require_parameter("servers", parameters["servers"], given["servers"])
    return given | {"reclaim": max(1, (2 * given["servers"] * percent + 100) // 200)}


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
                f"--load-percent is {self.load_percent}: cannot be combined with --gpus, which "
                "sets the load"
            )


DEFAULT_GPU_TYPES = "v100,p100,k80"
DEFAULT_THROUGHPUTS = "gavel"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeterogeneousParameters:
    """What a heterogeneous family is asked for."""

    jobs: int = integer("gangs", 1, 10_000)
    objective: str = choice(
        "what is optimised",
        (
            *("utility", "makespan", "mean_jct", "max_min_share", "finish_time_fairness"),
            *("makespan_share", "throughput", "cost"),
        ),
        default="utility",
    )
    rounds: int = integer("rounds of the horizon", 2, 10_000, default=10)
    gpus_of_type: int = integer("GPUs of each type", 1, 10_000, default=4)
    gpus_of_server: int = integer("GPUs of a server, all of one type", 1, 64, default=4)
    release_percent: int = integer(
        "jobs are released in rounds up to this share of the horizon; 0 releases all at once",
        0,
        100,
        default=50,
        metavar="P",
    )
    gpu_types: str = names(
        "types of GPUs, the fastest first", default=DEFAULT_GPU_TYPES, metavar="TYPE,..."
    )
    throughputs: str | Path = file(
        "table of throughputs, by name or as a CSV or JSON file, see docs/formats.md",
        default=DEFAULT_THROUGHPUTS,
        metavar="TABLE",
        rule="must be the name of a table, or the path of a file",
    )
    type_definitions: str | Path | None = file(
        "speeds of further types of GPUs, or other speeds of known ones (TOML)"
    )
    largest_gang: int = integer("larger gangs are drawn again", 1, 8, default=8, metavar="GPUS")
    forking: str = choice("whether copies of a job may run at once", ("no", "yes"), default="no")
    packing: str = choice(
        "whether two gangs may share GPUs, and whose rates they have then; for shares of time",
        ("no", "drawn", "measured"),
        default="no",
    )


LARGEST_NETWORK_GPUS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters:
    """What a network family is asked for."""

    jobs: int = integer("waiting gangs", 1, 10_000)
    objective: str = choice(
        "what is maximised",
        ("epoch", "work_rate", "fewest_tiers", "least_fragmentation"),
        default="epoch",
    )
    racks: int = integer("racks", 1, 1_000, default=4)
    machines_per_rack: int = integer("machines of a rack", 1, 1_000, default=4)
    gpus_per_machine: int = integer("GPUs of a machine", 1, 64, default=8)
    busy_percent: int = integer(
        "share of the GPUs that running gangs hold, at most", 0, 100, default=60, metavar="P"
    )
    network: str = choice(
        "links", ("shipped", "congested-1", "congested-2", "congested-3"), default="congested-2"
    )
    timers: str = choice(
        "how long gangs wait for GPUs close together: 6 hours for a rack and 12 for "
        "the network, as Dally's tuner at the least; or not at all",
        ("least", "none"),
        default="least",
    )
