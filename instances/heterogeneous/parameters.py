"""The parameters of the heterogeneous families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.parameters import ChoiceParameter, FileParameter, IntegerParameter, NamesParameter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from instances.parameters import Parameter

LARGEST_JOBS = 10_000
LARGEST_ROUNDS = 10_000
LARGEST_GPUS_OF_TYPE = 10_000
LARGEST_GPUS_OF_SERVER = 64

DEFAULT_ROUNDS = 10
DEFAULT_GPUS = 4
DEFAULT_RELEASE_PERCENT = 50
DEFAULT_GPU_TYPES = "v100,p100,k80"
DEFAULT_THROUGHPUTS = "gavel"
DEFAULT_LARGEST_GANG = 8

PARAMETERS: Mapping[str, Parameter] = {
    "jobs": IntegerParameter(help="gangs", least=1, largest=LARGEST_JOBS),
    "objective": ChoiceParameter(
        help="what is optimised (default utility)",
        choices=("utility", "makespan", "mean_jct", "max_min_share", "throughput"),
        default="utility",
    ),
    "rounds": IntegerParameter(
        help=f"rounds of the horizon (default {DEFAULT_ROUNDS})",
        least=2,
        largest=LARGEST_ROUNDS,
        default=DEFAULT_ROUNDS,
    ),
    "gpus_of_type": IntegerParameter(
        help=f"GPUs of each type (default {DEFAULT_GPUS})",
        least=1,
        largest=LARGEST_GPUS_OF_TYPE,
        default=DEFAULT_GPUS,
    ),
    "gpus_of_server": IntegerParameter(
        help=f"GPUs of a server, all of one type (default {DEFAULT_GPUS})",
        least=1,
        largest=LARGEST_GPUS_OF_SERVER,
        default=DEFAULT_GPUS,
    ),
    "release_percent": IntegerParameter(
        help="jobs are released in rounds up to this share of the horizon; 0 releases all at once "
        f"(default {DEFAULT_RELEASE_PERCENT})",
        least=0,
        largest=100,
        default=DEFAULT_RELEASE_PERCENT,
        metavar="P",
    ),
    "gpu_types": NamesParameter(
        help=f"types of GPUs, the fastest first (default {DEFAULT_GPU_TYPES})",
        default=DEFAULT_GPU_TYPES,
        metavar="TYPE,...",
    ),
    "throughputs": FileParameter(
        help="table of throughputs, by name or as a CSV file (default "
        f"{DEFAULT_THROUGHPUTS}); see docs/formats.md",
        default=DEFAULT_THROUGHPUTS,
        metavar="TABLE",
        rule="must be the name of a table, or the path of a file",
    ),
    "type_definitions": FileParameter(
        help="speeds of further types of GPUs, or other speeds of known ones (TOML)"
    ),
    "largest_gang": IntegerParameter(
        help=f"larger gangs are drawn again (default {DEFAULT_LARGEST_GANG})",
        least=1,
        largest=DEFAULT_LARGEST_GANG,
        default=DEFAULT_LARGEST_GANG,
        metavar="GPUS",
    ),
    "forking": ChoiceParameter(
        help="whether copies of a job may run at once (default no)",
        choices=("no", "yes"),
        default="no",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeterogeneousParameters:
    """Checked parameters of a heterogeneous family; see `PARAMETERS`."""

    jobs: int
    objective: str = "utility"
    rounds: int = DEFAULT_ROUNDS
    gpus_of_type: int = DEFAULT_GPUS
    gpus_of_server: int = DEFAULT_GPUS
    release_percent: int = DEFAULT_RELEASE_PERCENT
    gpu_types: str = DEFAULT_GPU_TYPES
    throughputs: str | Path = DEFAULT_THROUGHPUTS
    type_definitions: str | Path | None = None
    largest_gang: int = DEFAULT_LARGEST_GANG
    forking: str = "no"
