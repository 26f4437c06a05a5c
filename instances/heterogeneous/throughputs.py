"""Throughput tables: the steps per second of job types on each GPU type.

Module `lyra_opt.instances.heterogeneous.throughput_files` reads tables from files and has the
built-in tables.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lyra_opt.core.errors import FieldError
from lyra_opt.core.nearest_names import one_of
from lyra_opt.core.rules import require_integer, require_number, require_text
from lyra_opt.heterogeneous.instance import GangJob, PackedRate
from lyra_opt.heterogeneous.utility import InverseJct, Utility
from lyra_opt.instances.traces import model_name
from lyra_opt.simulation.cluster import LENT, GpuType

PackedRates = Mapping[tuple[int, str, str], Mapping[str, float]]
"""Steps per second by GPU type, for (GPUs, name of job type, name of other job type)."""

SCALED = (
    "Assumed: the rate of a gang whose number of GPUs was not measured is the rate of the next "
    "smaller measured number, in proportion to the GPUs."
)

_BATCH_SIZE = re.compile(r" *\(batch size (\d+)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """A model with its batch size and number of GPUs, and its measured rates on each GPU type.

    Parameters
    ----------
    model
        The name of the model in the table.
    batch_size
        The batch size of a step; None if the model has only one.
    gang
        The number of GPUs.
    throughput
        Steps per second on one server, by GPU type; 0 if the job does not fit.
    spread_throughput
        Steps per second on several servers, by GPU type; types on which the job cannot run on
        several servers are missing. None if the number of servers makes no difference.
    """

    model: str
    batch_size: int | None
    gang: int
    throughput: Mapping[str, float]
    spread_throughput: Mapping[str, float] | None

    @property
    def name(self) -> str:
        """The name of the model with its batch size, such as ``ResNet-18-128``."""
        return model_name(self.model, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class ThroughputTable:
    """Steps per second for each model, number of GPUs and GPU type.

    Parameters
    ----------
    name
        The name of the table in results.
    reference
        The reference GPU type. Running times of jobs are those on this type, rates on types without
        measurements are derived from its rates, and every job type has a rate above 0 on it.
    reference_speed
        The relative speed of the reference; None if not known, so that no rates can be derived.
    gpu_types
        The GPU types with measurements.
    job_types
        The job types, at least one; the combination of model, batch size and GPUs is unique.
    source
        The source of the measurements, a phrase for results.
    packed
        The rates of job types that share their GPUs with another job of the same or another type.
    left_out
        Job types of the file without a rate on the reference, each with its number of GPUs.

    Raises
    ------
    FieldError
        If a rule is broken.
    """

    name: str
    reference: str
    reference_speed: float | None
    gpu_types: tuple[str, ...]
    job_types: tuple[JobType, ...]
    source: str
    packed: PackedRates = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if self.reference not in self.gpu_types:
            rule = one_of(self.reference, self.gpu_types, "the table's types")
            raise FieldError("reference", self.reference, rule)
        if self.reference_speed is not None:
            require_number("reference_speed", self.reference_speed, minimum=0, above=True)
        if not self.job_types:
            raise FieldError("job_types", [], "must not be empty")
        seen = set()
        for position, job_type in enumerate(self.job_types):
            key = job_type.name, job_type.gang
            if key in seen:
                rule = "must not occur twice with the same number of GPUs"
                raise FieldError(f"job_types[{position}]", job_type.name, rule)
            seen.add(key)
            if not job_type.throughput.get(self.reference):
                rule = f"must have a rate above 0 on {self.reference}, the reference"
                raise FieldError(f"job_types[{position}]", job_type.name, rule)
        for gang, *kinds in self.packed:
            for name in kinds:
                if (name, gang) not in seen:
                    rule = (
                        f"must also have rates alone on {gang} GPUs, because it has rates in a pair"
                    )
                    raise FieldError("packed", name, rule)

    @cached_property
    def measured_gangs(self) -> tuple[int, ...]:
        """The numbers of GPUs for which the table has rates, in ascending order."""
        return tuple(sorted({job_type.gang for job_type in self.job_types}))

    @cached_property
    def _kinds_by_name(self) -> dict[str, list[JobType]]:
        """The job types by lower-case name of the model, with and without the batch size."""
        found: dict[str, list[JobType]] = {}
        for job_type in self.job_types:
            for name in {_plain(job_type.name), _plain(job_type.model)}:
                found.setdefault(name, []).append(job_type)
        return found

    def types_for(self, gang: int, gpu_types: Sequence[GpuType]) -> tuple[JobType, ...]:
        """Return the job types that were measured on `gang` GPUs and run on at least one GPU type.

        If nothing was measured on `gang` GPUs, the next smaller measured number is used.

        Raises
        ------
        FieldError
            If no job type matches.
        """
        require_integer("gang", gang, minimum=1)
        measured = max((count for count in self.measured_gangs if count <= gang), default=0)
        if not measured:
            rule = (
                f"must be at least {self.measured_gangs[0]}, the fewest GPUs of table {self.name}"
            )
            raise FieldError("gang", gang, rule)
        found = tuple(
            job_type
            for job_type in self.job_types
            if job_type.gang == measured and self.runs_on(job_type, gpu_types)
        )
        if not found:
            names = [gpu_type.name for gpu_type in gpu_types]
            raise FieldError("gpu_types", names, "must include a type on which a job can run")
        return found

    def runs_on(self, job_type: JobType, gpu_types: Sequence[GpuType]) -> bool:
        """Return whether a job type runs on at least one of the GPU types."""
        return any(self._rates_on(job_type.throughput, gpu_types).values())

    def find_type(self, model: str, batch_size: int | None, gang: int) -> JobType:
        """Return the job type measured for a model and batch size on `gang` GPUs, or fewer.

        If the table has no measurements on `gang` GPUs, the next smaller measured number is used.

        Raises
        ------
        FieldError
            If the table has no such job type.
        """
        measured = max((count for count in self.measured_gangs if count <= gang), default=0)
        for found in self.job_types:
            if (found.model, found.batch_size, found.gang) == (model, batch_size, measured):
                return found
        raise FieldError(
            "model", model, f"must be measured with batches of {batch_size} on {gang} GPUs"
        )

    def types_named(self, name: str, gang: int) -> tuple[JobType, ...]:
        """Return the job types that match a model's name, in the order of the table.

        Parameters
        ----------
        name
            ``MODEL-BATCH``, ``MODEL`` or ``MODEL (batch size BATCH)``, in upper or lower case.
        gang
            The number of GPUs; if it was not measured, the next smaller measured number is used.

        Returns
        -------
        tuple of JobType
            Empty if the table lacks the model; several types if the name has no batch size.
        """
        largest: dict[str, JobType] = {}
        for found in self._kinds_by_name.get(_plain(name), ()):
            known = largest.get(found.name)
            if found.gang <= gang and (known is None or known.gang < found.gang):
                largest[found.name] = found
        return tuple(largest.values())

    def types_beside(self, known: Mapping[str, GpuType]) -> dict[str, GpuType]:
        """Return the GPU types `known`, and those that only the throughput table has, by name.

        The relative speed of an added GPU type is the geometric mean over the job types of the
        table.
        """
        found = dict(known)
        for name in self.gpu_types:
            if name not in found:
                ratios = [
                    job_type.throughput[name] / job_type.throughput[self.reference]
                    for job_type in self.job_types
                    if job_type.throughput.get(name)
                ]
                mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
                found[name] = GpuType(
                    name=name,
                    relative_speed=mean * (self.reference_speed or 1.0),
                    source=f"geometric mean over the kinds of table {self.name}",
                )
        return found

    def lacking(self, gpu_types: Sequence[GpuType]) -> list[GpuType]:
        """Return the GPU types of `gpu_types` for which the table has no measurements."""
        return [gpu_type for gpu_type in gpu_types if self._column_of(gpu_type) is None]

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.gpu_types}

    def _column_of(self, gpu_type: GpuType) -> str | None:
        """Return the table's name of a GPU type, ignoring case; None if it is missing."""
        return self._columns.get(gpu_type.name.removesuffix(LENT).casefold())

    def _rates_on(
        self, measured: Mapping[str, float], gpu_types: Sequence[GpuType]
    ) -> dict[str, float]:
        """Return a job type's rate on each GPU type, measured or derived from the reference."""
        rates = {}
        for gpu_type in gpu_types:
            column = self._column_of(gpu_type)
            if column is None:
                if self.reference in measured:
                    rates[gpu_type.name] = measured[self.reference] * self._speed_of(gpu_type)
            elif column in measured:
                rates[gpu_type.name] = measured[column]
        return rates

    def reference_s(self, job_type: JobType, duration_s: float, gpu_type: GpuType) -> float:
        """Convert a running time on a GPU type into the running time on reference GPUs.

        The ratio of the measured rates is used if the type was measured, else its relative speed.
        """
        column = self._column_of(gpu_type)
        rate = 0.0 if column is None else job_type.throughput.get(column, 0.0)
        speed = rate / job_type.throughput[self.reference] if rate else self._speed_of(gpu_type)
        return duration_s * speed

    def _speed_of(self, gpu_type: GpuType) -> float:
        """Return the speed of a GPU type relative to the reference."""
        if self.reference_speed is None:
            rule = (
                f"must be a column of table {self.name}, because the relative_speed of the "
                f"table's reference {self.reference} is not known"
            )
            raise FieldError("gpu_types", gpu_type.name, rule)
        return gpu_type.relative_speed / self.reference_speed

    def kind_of(self, job_type: JobType, gang: int) -> str | None:
        """Return the name under which the table has a job type's rates for GPU sharing, or None.

        Packed rates exist only for numbers of GPUs that were measured.
        """
        if not self.packed or gang != job_type.gang:
            return None
        return f"{job_type.name} on {gang}"

    def packed_rates(
        self, jobs: Iterable[GangJob | None], gpu_types: Sequence[GpuType]
    ) -> tuple[PackedRate, ...]:
        """Return the rates at which two job types of `jobs` run when they share GPUs.

        A job of None has no measured rates.
        """
        there = {job.kind for job in jobs if job is not None}
        found = []
        for (gang, *names), rates in self.packed.items():
            kind, beside = (f"{name} on {gang}" for name in names)
            if kind in there and beside in there:
                columns = {gpu_type.name: self._column_of(gpu_type) for gpu_type in gpu_types}
                measured = {
                    name: rates[column]
                    for name, column in columns.items()
                    if column is not None and column in rates
                }
                found.append(PackedRate(kind=kind, beside=beside, throughput=measured))
        return tuple(found)

    @property
    def in_words(self) -> str:
        """A sentence for results that names the table and its source."""
        return f"Rates are those of table {self.name}, {self.source}."

    def remarks(self, gpu_types: Sequence[GpuType]) -> tuple[str, ...]:
        """Return sentences on job types left out and on GPU types without measurements."""
        found = []
        if self.left_out:
            found.append(
                f"Left out of table {self.name}, because they have no rate on the reference "
                f"{self.reference}: {', '.join(f'{kind} GPUs' for kind in self.left_out)}."
            )
        lacking = self.lacking(gpu_types)
        if not lacking:
            return tuple(found)
        listed = "; ".join(
            f"{gpu_type.name} {self._speed_of(gpu_type):.2f}"
            + (f" ({gpu_type.source})" if gpu_type.source else "")
            for gpu_type in lacking
        )
        found.append(
            f"Assumed: the speed of all models, relative to {self.reference}, is: {listed}. "
            "These GPU types were not measured."
        )
        return tuple(found)

    def gang_of(
        self,
        name: str,
        job_type: JobType,
        *,
        gang: int,
        reference_s: float,
        release_s: float,
        gpu_types: Sequence[GpuType],
        steps: float | None = None,
        utility: Utility | None = None,
        weight: float = 1.0,
    ) -> GangJob:
        """Return a gang job of a given job type, with its steps and its rate on each GPU type.

        Parameters
        ----------
        name
            The id of the job.
        job_type
            The job type.
        gang
            The number of GPUs; rates are scaled in proportion if fewer GPUs were measured.
        reference_s
            The running time on reference GPUs of one server, above 0.
        release_s, weight, utility
            The fields of these names of `GangJob`; a utility of None stands for the default.
        gpu_types
            The GPU types for which the job gets rates. If the job runs on none of them, it also
            gets a rate on the reference, because a job without any rate is not valid.
        steps
            The number of steps, above 0; None for the steps of reference GPUs in `reference_s`.
        """
        require_number("reference_s", reference_s, minimum=0, above=True)
        scale = gang / job_type.gang
        reference_rate = job_type.throughput[self.reference]
        rates = {
            on: rate * scale for on, rate in self._rates_on(job_type.throughput, gpu_types).items()
        }
        if not any(rates.values()):
            rates = {gpu_type.name: 0.0 for gpu_type in gpu_types}
            rates[self.reference] = reference_rate * scale
        spread = None
        if gang > 1 and job_type.spread_throughput is not None:
            spread = {
                on: rate * scale
                for on, rate in self._rates_on(job_type.spread_throughput, gpu_types).items()
            }
        return GangJob(
            id=name,
            gang=gang,
            steps=reference_s * reference_rate * scale if steps is None else steps,
            throughput=rates,
            spread_throughput=spread,
            release_s=release_s,
            weight=weight,
            utility=InverseJct() if utility is None else utility,
            kind=self.kind_of(job_type, gang),
        )


def _plain(name: str) -> str:
    """Return the name of a model in lower case, with its batch size in the form ``MODEL-BATCH``."""
    return _BATCH_SIZE.sub(r"-\1", name.strip().casefold())
