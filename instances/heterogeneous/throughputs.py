"""Tables of throughput: how many steps a second kinds of jobs do on GPUs of each type.

See `lyra_opt.instances.heterogeneous.throughput_files` for those that come with the toolkit and for
a user's own.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer, require_number, require_text
from lyra_opt.heterogeneous.instance import GangJob, PackedRate
from lyra_opt.heterogeneous.utility import InverseJct
from lyra_opt.instances.traces import model_name
from lyra_opt.simulation.cluster import LENT, GpuType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lyra_opt.heterogeneous.utility import Utility

    PackedRates = Mapping[tuple[int, str, str], Mapping[str, float]]
    """By number of GPUs, name of a kind and of the kind beside it; steps a second by type."""

SCALED = (
    "Assumed: gangs of numbers of GPUs on which their model was not measured have the rate of the "
    "next smaller number, times the ratio of the GPUs."
)

_BATCH_SIZE = re.compile(r" *\(batch size (\d+)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """A kind of job: a model that was measured on some GPUs of one server, and of several.

    Parameters
    ----------
    model
        Its name in the table.
    batch_size
        Of each step; None where the model has but one.
    gang
        GPUs.
    throughput
        Steps a second on one server, by type; 0 where it does not fit.
    spread_throughput
        Steps a second on several servers; types on which it does not run so are left out. None
        where that makes no difference.
    """

    model: str
    batch_size: int | None
    gang: int
    throughput: Mapping[str, float]
    spread_throughput: Mapping[str, float] | None

    @property
    def name(self) -> str:
        """Model and batch size."""
        return model_name(self.model, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class ThroughputTable:
    """Steps a second by kind of job, number of GPUs and GPU type.

    Parameters
    ----------
    name
        What it is called in results.
    reference
        The type on whose rates those of types rest that were not measured, and on which jobs take
        their running time; every kind has a rate on it above 0.
    reference_speed
        Its relative speed; None where it is not known, so that nothing can rest on it.
    gpu_types
        On which anything was measured.
    job_types
        At least one; model, batch size and number of GPUs are unique.
    source
        Where its figures are from: a clause for results.
    packed
        What kinds do while one of another kind, or of their own, runs on the same GPUs.
    left_out
        Job types of its file that have no rate on the reference, each with its number of GPUs.

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
            rule = f"must be one of the table's types: {', '.join(self.gpu_types)}"
            raise FieldError("reference", self.reference, rule)
        if self.reference_speed is not None:
            require_number("reference_speed", self.reference_speed, minimum=0, above=True)
        if not self.job_types:
            raise FieldError("job_types", [], "must not be empty")
        seen = set()
        for position, job_type in enumerate(self.job_types):
            key = job_type.name, job_type.gang
            if key in seen:
                rule = "must not occur twice with as many GPUs"
                raise FieldError(f"job_types[{position}]", job_type.name, rule)
            seen.add(key)
            if not job_type.throughput.get(self.reference):
                rule = f"must have a rate above 0 on {self.reference}, the reference"
                raise FieldError(f"job_types[{position}]", job_type.name, rule)
        for gang, *kinds in self.packed:
            for name in kinds:
                if (name, gang) not in seen:
                    rule = f"must be a kind on {gang} GPUs, since it has rates beside another"
                    raise FieldError("packed", name, rule)

    @cached_property
    def measured_gangs(self) -> tuple[int, ...]:
        """The numbers of GPUs on which anything was measured, ascending."""
        return tuple(sorted({job_type.gang for job_type in self.job_types}))

    @cached_property
    def _kinds_by_name(self) -> dict[str, list[JobType]]:
        """Kinds by plain name, with the batch size and without it."""
        found: dict[str, list[JobType]] = {}
        for job_type in self.job_types:
            for name in {_plain(job_type.name), _plain(job_type.model)}:
                found.setdefault(name, []).append(job_type)
        return found

    def types_for(self, gang: int, gpu_types: Sequence[GpuType]) -> tuple[JobType, ...]:
        """Return what a gang can be: kinds of as many GPUs that run on one of the types.

        For a number of GPUs on which nothing was measured, those of the next smaller one.

        Raises
        ------
        FieldError
            If there is none.
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
            raise FieldError("gpu_types", names, "must have one on which a job can run")
        return found

    def runs_on(self, job_type: JobType, gpu_types: Sequence[GpuType]) -> bool:
        """Whether a kind runs on one of the types."""
        return any(self._rates_on(job_type.throughput, gpu_types).values())

    def find_type(self, model: str, batch_size: int | None, gang: int) -> JobType:
        """Return a kind of job by what it is.

        Raises
        ------
        FieldError
            If it was not measured.
        """
        measured = max((count for count in self.measured_gangs if count <= gang), default=0)
        for found in self.job_types:
            if (found.model, found.batch_size, found.gang) == (model, batch_size, measured):
                return found
        raise FieldError(
            "model", model, f"must be measured with batches of {batch_size} on {gang} GPUs"
        )

    def types_named(self, name: str, gang: int) -> tuple[JobType, ...]:
        """Return what a job that says its model can be, in the order of the table.

        Parameters
        ----------
        name
            ``MODEL-BATCH``, ``MODEL`` or ``MODEL (batch size BATCH)``, in letters of any case.
        gang
            Its GPUs; where a kind was not measured on so many, the next smaller number counts.

        Returns
        -------
        tuple of JobType
            Empty where the table does not have it; several where the batch size is not said.
        """
        largest: dict[str, JobType] = {}
        for found in self._kinds_by_name.get(_plain(name), ()):
            known = largest.get(found.name)
            if found.gang <= gang and (known is None or known.gang < found.gang):
                largest[found.name] = found
        return tuple(largest.values())

    def types_beside(self, known: Mapping[str, GpuType]) -> dict[str, GpuType]:
        """Return known types by name, and those of the table that are not among them.

        What jobs without rates do on the latter is the geometric mean over its kinds.
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
        """Return those of the types on which nothing was measured."""
        return [gpu_type for gpu_type in gpu_types if self._column_of(gpu_type) is None]

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.gpu_types}

    def _column_of(self, gpu_type: GpuType) -> str | None:
        """Return what a type is called in the table, where letters may be of another case."""
        return self._columns.get(gpu_type.name.removesuffix(LENT).casefold())

    def _rates_on(
        self, measured: Mapping[str, float], gpu_types: Sequence[GpuType]
    ) -> dict[str, float]:
        """Return rates on types: measured ones, or the reference's times their speed beside it."""
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
        """Return how long a job that ran for `duration_s` on a type runs on reference GPUs.

        By its measured rates where there are any on the type, or else by the type's relative speed.
        """
        column = self._column_of(gpu_type)
        rate = 0.0 if column is None else job_type.throughput.get(column, 0.0)
        speed = rate / job_type.throughput[self.reference] if rate else self._speed_of(gpu_type)
        return duration_s * speed

    def _speed_of(self, gpu_type: GpuType) -> float:
        """Return the speed of a type beside the reference."""
        if self.reference_speed is None:
            rule = (
                f"must be a column of table {self.name}, or the table's reference "
                f"{self.reference} must be a type whose relative_speed is given"
            )
            raise FieldError("gpu_types", gpu_type.name, rule)
        return gpu_type.relative_speed / self.reference_speed

    def kind_of(self, job_type: JobType, gang: int) -> str | None:
        """Return what a job of a kind on so many GPUs is called in packed rates.

        None where nothing is known of it beside others.
        """
        if not self.packed or gang != job_type.gang:
            return None
        return f"{job_type.name} on {gang}"

    def packed_rates(
        self, jobs: Iterable[GangJob | None], gpu_types: Sequence[GpuType]
    ) -> tuple[PackedRate, ...]:
        """Return how fast jobs of kinds that are there are beside one another, on these types.

        None stands for a job that nobody measured.
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
        """Whose rates these are, a sentence for results."""
        return f"Rates are those of table {self.name}, {self.source}."

    def remarks(self, gpu_types: Sequence[GpuType]) -> tuple[str, ...]:
        """Return which job types are left out and what is assumed of types not measured."""
        found = []
        if self.left_out:
            found.append(
                f"Left out of table {self.name}, because they have no rate on {self.reference}, "
                f"the reference: {', '.join(f'{kind} GPUs' for kind in self.left_out)}."
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
            f"Assumed: for every model alike, rates are those on {self.reference} times: {listed}. "
            "They were not measured."
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
        """Return a job of a kind.

        Parameters
        ----------
        name
            Its id.
        job_type
            What it trains.
        gang
            Its GPUs; where the kind was measured on fewer, it is faster by the ratio of the two.
        reference_s
            How long it runs on reference GPUs of one server, above 0.
        release_s, weight, utility
            As in `GangJob`; None leaves the latter at its default.
        gpu_types
            For which it gets rates. Where it runs on none of them, it gets that of the reference
            beside them, so that it is a job all the same, which nothing can run.
        steps
            Above 0; None for those that reference GPUs do in `reference_s`.
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
    """Return a model's name, with its batch size or without it, as it is compared."""
    return _BATCH_SIZE.sub(r"-\1", name.strip().casefold())
