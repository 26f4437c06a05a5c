"""The parameters of instance generators, by problem, from which the command line is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import UserError
from lyra_opt.instances.parameters import (
    choice,
    file,
    integer,
    names,
    option,
    parameters_of,
    percent,
    require_parameter,
)

LARGEST_FLEET = 100_000
"""The largest number of servers in an instance of a family."""

DEFAULT_MIN_WORKERS_PERCENT = 50
DEFAULT_RECLAIM_PERCENT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimParameters:
    """The parameters for generating reclaim instances; unused parameters have their defaults.

    ``servers`` is 0 if the family sets its own size, and ``min_workers_percent`` is None for rigid
    instances. ``reclaim_percent`` is None after it was converted to N_R.

    Raises
    ------
    UserError
        If ``--min-workers-percent`` is given for rigid semantics, or `reclaim` exceeds the
        number of servers on loan.
    """

    servers: int = integer("number of servers, with 8 GPUs each", 1, LARGEST_FLEET, absent=0)
    reclaim: int = integer("N_R, the number of servers to take back", 0, LARGEST_FLEET, metavar="K")
    reclaim_percent: int | None = percent(
        f"N_R as % of the servers, instead of --reclaim (default {DEFAULT_RECLAIM_PERCENT})",
        least=1,
    )
    trace: str | Path | None = file("job trace in any known layout", family="snapshot")
    items: str | Path | None = file(
        "set-union knapsack problem in the layout of He et al. (2018)", family="set-union"
    )
    placement: str = choice(
        "placement of jobs: best fit, random order, or 1-2-GPU workers anywhere",
        ("bf", "rnd", "messy"),
        default="bf",
        family="snapshot",
    )
    load_percent: int | str = percent(
        "load in % of the GPU time, reached by scaling the submission times; trace keeps them",
        least=1,
        largest=1000,
        word="trace",
        default=95,
        family="snapshot",
    )
    semantics: str = choice(
        "semantics of preemption", ("rigid", "interchangeable"), default="rigid"
    )
    min_workers_percent: int | None = percent(
        "interchangeable: % of its workers with which a job survives, for 60 % of the jobs "
        f"(default {DEFAULT_MIN_WORKERS_PERCENT})"
    )
    off_loan_percent: int = percent(
        "% of the servers that are not on loan, drawn by seed", default=0
    )

    def __post_init__(self) -> None:
        if self.semantics == "interchangeable" and self.min_workers_percent is None:
            object.__setattr__(self, "min_workers_percent", DEFAULT_MIN_WORKERS_PERCENT)
        elif self.semantics == "rigid" and self.min_workers_percent is not None:
            raise UserError(
                f"--min-workers-percent is {self.min_workers_percent}: cannot be combined with "
                "--semantics rigid, where a job needs all its base workers"
            )
        on_loan = self.servers - self.off_loan_servers
        if self.servers and self.reclaim > on_loan:
            raise UserError(
                f"--reclaim is {self.reclaim}: must be at most the {on_loan} servers on loan"
            )

    @property
    def off_loan_servers(self) -> int:
        """The number of servers that are not on loan."""
        return self.servers * self.off_loan_percent // 100

    @property
    def needs_draws(self) -> bool:
        """Whether the seed also determines the elastic jobs or the servers that are not on loan."""
        return self.semantics == "interchangeable" or self.off_loan_servers > 0

    @property
    def variant_label(self) -> str:
        """The part of the instance name for semantics and loans; empty for the defaults."""
        label = ""
        if self.semantics == "interchangeable":
            label += f"-interchangeable{self.min_workers_percent}"
        if self.off_loan_percent:
            label += f"-offloan{self.off_loan_percent}"
        return label


def counted(values: Mapping[str, Any], *, family: str, sets_own_size: bool) -> dict[str, Any]:
    """Convert ``reclaim_percent``, or its default, to N_R, the number of servers to take back.

    Parameters
    ----------
    values
        The given values by name; None if a value was not given.
    family
        The name of the family, for errors.
    sets_own_size
        Whether the family determines its number of servers itself.

    Raises
    ------
    UserError
        If ``reclaim_percent`` is combined with N_R, is given without servers, or is out of
        range.
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
        raise UserError(f"{share}: family {family} needs --reclaim, which sets its size")
    if "servers" not in given:
        raise UserError(f"{share}: needs --servers")
    require_parameter("servers", parameters["servers"], given["servers"])
    return given | {"reclaim": max(1, (2 * given["servers"] * percent + 100) // 200)}


LARGEST_JOBS = 100_000
"""The largest number of jobs in an instance of a family."""

LARGEST_GPUS = 10_000_000
MOST_EXTRA_WORKERS = 100_000
DEFAULT_LOAD_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationParameters:
    """The parameters for generating allocation instances; unused parameters have their defaults.

    ``gpus`` is None if the load determines it, and ``load_percent`` is None if GPUs are given.

    Raises
    ------
    UserError
        If both ``--gpus`` and ``--load-percent`` are given.
    """

    jobs: int = integer("number of elastic jobs", 1, LARGEST_JOBS)
    objective: str = choice(
        "objective of the instances",
        ("jct_reduction", "two_phase", "joint", "mean_jct"),
        default="mean_jct",
    )
    gpus: int | None = integer(
        "GPUs of the cluster, instead of --load-percent (family light: default 3.2 per job)",
        1,
        LARGEST_GPUS,
    )
    load_percent: int | None = percent(
        "requested GPUs in % of the capacity: base demands, or extra workers for jct_reduction "
        f"(family load; default {DEFAULT_LOAD_PERCENT})",
        least=1,
        largest=1000,
    )
    release_percent: int = percent(
        "release period in % of the time that all GPUs need for all work; 0: all at once",
        largest=1000,
        default=0,
        family="load",
    )
    scaling_loss_percent: int = percent(
        "loss of speed, in %, of each worker above the base demand", default=0, family="load"
    )
    gpus_per_worker: str = choice(
        "GPUs per worker; mixed draws 1, 2, 4 or 8 for each job",
        ("1", "2", "4", "8", "mixed"),
        default="1",
        family="load",
    )
    extra_workers: int | None = integer(
        "largest number of workers above the base demand (default: drawn by family load; 0.9 per "
        "job in family worst-case)",
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
    """The parameters for generating instances of the heterogeneous problem."""

    jobs: int = integer("number of gangs", 1, 10_000)
    objective: str = choice(
        "objective of the instances",
        (
            *("utility", "makespan", "mean_jct", "max_min_share", "finish_time_fairness"),
            *("makespan_share", "throughput", "cost"),
        ),
        default="utility",
    )
    rounds: int = integer("number of rounds", 2, 10_000, default=10)
    gpus_of_type: int = integer("number of GPUs of each type", 1, 10_000, default=4)
    gpus_of_server: int = integer("GPUs per server, all of one type", 1, 64, default=4)
    release_percent: int = percent("release period in % of the rounds; 0: all at once", default=50)
    gpu_types: str = names(
        "GPU types, the fastest first", default=DEFAULT_GPU_TYPES, metavar="TYPE,..."
    )
    throughputs: str | Path = file(
        "throughput table: a name, or a CSV or JSON file",
        default=DEFAULT_THROUGHPUTS,
        metavar="TABLE",
        rule="must be the name of a table, or the path of a file",
    )
    type_definitions: str | Path | None = file(
        "TOML file with speeds of more GPU types, or other speeds for known types"
    )
    largest_gang: int = integer("largest gang in GPUs", 1, 8, default=8, metavar="GPUS")
    forking: str = choice("whether copies of a job can run at once", ("no", "yes"), default="no")
    packing: str = choice(
        "whether two gangs can share GPUs, with drawn or measured rates; for time shares",
        ("no", "drawn", "measured"),
        default="no",
    )


LARGEST_NETWORK_GPUS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters:
    """The parameters for generating instances of the network problem."""

    jobs: int = integer("number of waiting gangs", 1, 10_000)
    objective: str = choice(
        "objective of the instances",
        ("epoch", "work_rate", "fewest_tiers", "least_fragmentation"),
        default="epoch",
    )
    racks: int = integer("number of racks", 1, 1_000, default=4)
    machines_per_rack: int = integer("machines per rack", 1, 1_000, default=4)
    gpus_per_machine: int = integer("GPUs per machine", 1, 64, default=8)
    busy_percent: int = percent(
        "largest share of the GPUs that running gangs hold, in %", default=60
    )
    network: str = choice(
        "links between machines and racks",
        ("shipped", "congested-1", "congested-2", "congested-3"),
        default="congested-2",
    )
    timers: str = choice(
        "delay timers: least waits 6 hours for a rack and 12 hours for the network",
        ("least", "none"),
        default="least",
    )
