"""Packing: two jobs that share the same GPUs, and how fast each is then.

Source: space sharing of Gavel (OSDI 2020, section 3.1, and its public code): rows of its shares are
single jobs and pairs of jobs with as many workers each, and a job does the steps of all its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import declared, key
from lyra_opt.core.rules import Named, Text
from lyra_opt.heterogeneous.utility import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Kindred(Protocol):
    """What is asked of a job here; see `lyra_opt.heterogeneous.instance.GangJob`."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def gang(self) -> int:
        """Its GPUs."""

    @property
    def throughput(self) -> Mapping[str, float]:
        """Steps a second by type."""

    @property
    def kind(self) -> str | None:
        """What it trains."""


@declared()
class PackedRate:
    """How fast jobs of a kind are while another job runs on the same GPUs."""

    kind: str = key(Text(), "the kind of a job")
    beside: str = key(
        Text(), "the kind of the job beside it, of the same gang; may be the same kind"
    )
    throughput: Mapping[str, float] = key(
        Named(Quantity()),
        "steps a second of the whole gang of the first, by GPU type; 0 or left out where the two "
        "do not run together",
    )


class Pair(NamedTuple):
    """Two jobs that may share GPUs.

    Parameters
    ----------
    first, second
        File positions, ascending.
    rates
        Of each, by those types on which both run, and of which there are GPUs for the gang.
    """

    first: int
    second: int
    rates: tuple[Mapping[str, float], Mapping[str, float]]


def pairs_of(
    jobs: Sequence[Kindred], packed: Sequence[PackedRate], gpus_of_type: Mapping[str, int]
) -> list[Pair]:
    """Return the pairs of jobs that may share GPUs, by file order; O(kinds^2 types + pairs).

    Parameters
    ----------
    jobs, packed, gpus_of_type
        Of an instance.
    """
    if not packed:
        return []
    members: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        if job.kind is not None:
            members.setdefault(job.kind, []).append(position)
    known = {(entry.kind, entry.beside): entry.throughput for entry in packed}
    pairs = []
    for (kind, beside), rates in known.items():
        others = known.get((beside, kind))
        if others is None:
            continue
        gang = jobs[members[kind][0]].gang
        types = [
            name
            for name, gpus in gpus_of_type.items()
            if gang <= gpus and rates.get(name) and others.get(name)
        ]
        if not types:
            continue
        both = {name: rates[name] for name in types}, {name: others[name] for name in types}
        pairs += [
            Pair(first, second, both)
            for first in members[kind]
            for second in members[beside]
            if first < second
        ]
    return sorted(pairs, key=lambda pair: pair[:2])


def require_sound_packing(
    jobs: Sequence[Kindred], packed: Sequence[PackedRate], gpu_types: Sequence[str]
) -> None:
    """Check what holds between kinds, jobs and packed rates of an instance.

    Raises
    ------
    FieldError
        That names the field and the rule.
    """
    of_kind = _jobs_of_kinds(jobs)
    seen = set()
    for position, entry in enumerate(packed):
        path = f"packed[{position}]"
        for name in ("kind", "beside"):
            if getattr(entry, name) not in of_kind:
                rule = "must be the kind of a job"
                raise FieldError(f"{path}.{name}", getattr(entry, name), rule)
        gang = of_kind[entry.kind].gang
        if of_kind[entry.beside].gang != gang:
            rule = f"must have the gang of {entry.kind}, {gang}, to share its GPUs"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        if (entry.kind, entry.beside) in seen:
            rule = f"must occur once only beside {entry.kind}"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        seen.add((entry.kind, entry.beside))
        for name in entry.throughput:
            if name not in gpu_types:
                rule = f"must be one of the gpu_types: {', '.join(sorted(gpu_types))}"
                raise FieldError(f"{path}.throughput", name, rule)


def _jobs_of_kinds(jobs: Sequence[Kindred]) -> dict[str, Kindred]:
    """Return the first job of each kind; all of a kind are the same on GPUs."""
    found: dict[str, Kindred] = {}
    for position, job in enumerate(jobs):
        if job.kind is None:
            continue
        first = found.setdefault(job.kind, job)
        if (job.gang, job.throughput) != (first.gang, first.throughput):
            rule = f"must have the gang and the throughput of job {first.id}, of the same kind"
            raise FieldError(f"jobs[{position}].kind", job.kind, rule)
    return found
