"""The parameters of the heterogeneous families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.parameters import (
    ChoiceParameter,
    FileParameter,
    IntegerParameter,
    NamesParameter,
    declared,
)

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_GPU_TYPES = "v100,p100,k80"
DEFAULT_THROUGHPUTS = "gavel"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeterogeneousParameters:
    """What a heterogeneous family is asked for."""

    jobs: int = declared(IntegerParameter(meaning="gangs", least=1, largest=10_000))
    objective: str = declared(
        ChoiceParameter(
            meaning="what is optimised",
            choices=("utility", "makespan", "mean_jct", "max_min_share", "throughput"),
            default="utility",
        )
    )
    rounds: int = declared(
        IntegerParameter(meaning="rounds of the horizon", least=2, largest=10_000, default=10)
    )
    gpus_of_type: int = declared(
        IntegerParameter(meaning="GPUs of each type", least=1, largest=10_000, default=4)
    )
    gpus_of_server: int = declared(
        IntegerParameter(
            meaning="GPUs of a server, all of one type", least=1, largest=64, default=4
        )
    )
    release_percent: int = declared(
        IntegerParameter(
            meaning="jobs are released in rounds up to this share of the horizon; 0 releases all "
            "at once",
            least=0,
            largest=100,
            default=50,
            metavar="P",
        )
    )
    gpu_types: str = declared(
        NamesParameter(
            meaning="types of GPUs, the fastest first",
            default=DEFAULT_GPU_TYPES,
            metavar="TYPE,...",
        )
    )
    throughputs: str | Path = declared(
        FileParameter(
            meaning="table of throughputs, by name or as a CSV file, see docs/formats.md",
            default=DEFAULT_THROUGHPUTS,
            metavar="TABLE",
            rule="must be the name of a table, or the path of a file",
        )
    )
    type_definitions: str | Path | None = declared(
        FileParameter(
            meaning="speeds of further types of GPUs, or other speeds of known ones (TOML)"
        )
    )
    largest_gang: int = declared(
        IntegerParameter(
            meaning="larger gangs are drawn again", least=1, largest=8, default=8, metavar="GPUS"
        )
    )
    forking: str = declared(
        ChoiceParameter(
            meaning="whether copies of a job may run at once", choices=("no", "yes"), default="no"
        )
    )
