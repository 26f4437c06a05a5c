"""The 83 kinds of jobs whose throughput Gavel's authors measured, and gangs made of them.

The figures are those of the public repository stanford-futuredata/gavel
(scheduler/simulation_throughputs.json, MIT licence, copyright its authors), alone on the GPUs,
rounded to three digits: ``gavel_throughputs_steps_per_s.csv`` beside this file.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from instances.heterogeneous.speeds import DERIVED_SPEEDS
from lyra_opt.errors import FieldError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.heterogeneous.utility import InverseJct
from lyra_opt.validation import require_integer, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.utility import Utility

TABLE = "gavel_throughputs_steps_per_s.csv"
REFERENCE = "v100"
"""On whose rates those of GPUs rest that were not measured."""

MEASURED_TYPES = ("v100", "p100", "k80")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """A model that was measured on some GPUs of one server, and on as many servers' GPUs.

    Parameters
    ----------
    model
        Its name in Gavel's tables.
    batch_size
        Of each step; None where the model has but one.
    gang
        GPUs.
    throughput
        Steps a second on one server, by type; 0 where it does not fit.
    spread_throughput
        Steps a second on several servers; types without a measurement are left out.
    """

    model: str
    batch_size: int | None
    gang: int
    throughput: Mapping[str, float]
    spread_throughput: Mapping[str, float]

    @property
    def name(self) -> str:
        """Model and batch size."""
        return self.model if self.batch_size is None else f"{self.model}-{self.batch_size}"


@cache
def job_types() -> tuple[JobType, ...]:
    """Return all of them, in the order of the table."""
    text = (files("instances.heterogeneous") / TABLE).read_text(encoding="utf-8")
    return tuple(
        JobType(
            model=row["model"],
            batch_size=int(row["batch_size"]) if row["batch_size"] else None,
            gang=int(row["gpus"]),
            throughput={name: float(row[name]) for name in MEASURED_TYPES if row[name]},
            spread_throughput={
                name: float(row[f"{name}_unconsolidated"])
                for name in MEASURED_TYPES
                if row[f"{name}_unconsolidated"]
            },
        )
        for row in csv.DictReader(text.splitlines())
    )


def measured_gangs() -> tuple[int, ...]:
    """Return the numbers of GPUs on which anything was measured."""
    return tuple(sorted({job_type.gang for job_type in job_types()}))


def types_for(gang: int, gpu_types: Sequence[str]) -> tuple[JobType, ...]:
    """Return what a gang can be: the kinds measured on as many GPUs that run on one of the types.

    For a number of GPUs on which nothing was measured, those of the next smaller one.

    Raises
    ------
    FieldError
        If there is none.
    """
    require_integer("gang", gang, minimum=1)
    measured = max(count for count in measured_gangs() if count <= gang)
    found = tuple(
        job_type
        for job_type in job_types()
        if job_type.gang == measured and any(rates_on(job_type.throughput, gpu_types).values())
    )
    if not found:
        raise FieldError("gpu_types", list(gpu_types), "must have one on which a job can run")
    return found


def find_type(model: str, batch_size: int | None, gang: int) -> JobType:
    """Return a kind of job by what it is.

    Raises
    ------
    FieldError
        If it was not measured.
    """
    measured = max((count for count in measured_gangs() if count <= gang), default=0)
    for job_type in job_types():
        if (job_type.model, job_type.batch_size, job_type.gang) == (model, batch_size, measured):
            return job_type
    raise FieldError(
        "model", model, f"must be measured with batches of {batch_size} on {gang} GPUs"
    )


def rates_on(measured: Mapping[str, float], gpu_types: Sequence[str]) -> dict[str, float]:
    """Return rates on types of GPUs: measured ones, or the V100's times `DERIVED_SPEEDS`."""
    rates = {}
    for name in gpu_types:
        if name in measured:
            rates[name] = measured[name]
        elif name in DERIVED_SPEEDS and REFERENCE in measured:
            rates[name] = measured[REFERENCE] * DERIVED_SPEEDS[name]
    return rates


def gang_of(
    name: str,
    job_type: JobType,
    *,
    gang: int,
    v100_s: float,
    release_s: float,
    gpu_types: Sequence[str],
    utility: Utility | None = None,
    weight: float = 1.0,
) -> GangJob:
    """Return a job that runs for so long on V100 of one server.

    Parameters
    ----------
    name
        Its id.
    job_type
        What it trains.
    gang
        Its GPUs; where the type was measured on fewer, it is faster by the ratio of the two.
    v100_s
        Above 0.
    release_s, weight, utility
        As in `GangJob`; None leaves the latter at its default.
    gpu_types
        For which it gets rates.
    """
    require_number("v100_s", v100_s, minimum=0, above=True)
    scale = gang / job_type.gang
    rates, spread = (
        {on: rate * scale for on, rate in rates_on(measured, gpu_types).items()}
        for measured in (job_type.throughput, job_type.spread_throughput)
    )
    return GangJob(
        id=name,
        gang=gang,
        steps=v100_s * job_type.throughput[REFERENCE] * scale,
        throughput=rates,
        spread_throughput=spread if gang > 1 else None,
        release_s=release_s,
        weight=weight,
        utility=InverseJct() if utility is None else utility,
    )
