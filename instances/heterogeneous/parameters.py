"""The parameters of the heterogeneous families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.instances.parameters import choice, file, integer, names

if TYPE_CHECKING:
    from pathlib import Path

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
