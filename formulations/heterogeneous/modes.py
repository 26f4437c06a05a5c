"""Where gangs may be, in as few ways as leave the model exact: places, cells, modes, groups."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.heterogeneous.checker import steps_in_round

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import GangJob, Instance, Placement


class Place(NamedTuple):
    """GPUs that need not be told apart.

    Parameters
    ----------
    gpus
        How many of each type.
    servers
        Whose they are.
    """

    gpus: Mapping[str, int]
    servers: tuple[str, ...]


class Cell(NamedTuple):
    """GPUs of one type at one place, as a mode uses them: at a rate, and how many at most."""

    place: int
    gpu_type: str
    rate: float


class Level(NamedTuple):
    """A rate at which a mode runs: that of its slowest GPU; steps that it does in a round."""

    rate: float
    steps: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to place a gang.

    Parameters
    ----------
    job
        Position of the job.
    gang
        Its GPUs.
    cells
        Where they may be.
    fixed
        How many are in each cell, where that is no choice; else None.
    levels
        Fastest first.
    limited
        Cells of one server, which must not hold the whole gang; for each server.
    stays
        The job's current placement if this mode is to stay there, else None.
    """

    job: int
    gang: int
    cells: tuple[Cell, ...]
    levels: tuple[Level, ...]
    fixed: tuple[int, ...] | None = None
    limited: tuple[tuple[int, ...], ...] = ()
    stays: Placement | None = None


class Group(NamedTuple):
    """Modes of one job of which `most` run at once (1, or the servers that copies may be on)."""

    job: int
    modes: tuple[int, ...]
    most: int


def _is_alike(instance: Instance, job: GangJob) -> bool:
    """Whether the rate of a job depends on the types of its GPUs alone, not on their servers."""
    if job.gang == 1 or job.spread_throughput is None:
        return True
    return all(
        job.throughput.get(name, 0.0) == job.spread_throughput.get(name, 0.0)
        for name in instance.gpus_of_type
    )


def places_of(instance: Instance) -> tuple[Place, ...]:
    """Return the GPUs in as few places as leaves the model exact.

    One place for the whole cluster if servers play no part. Else servers with a single GPU of the
    same type are one: a gang of several GPUs is spread wherever it uses them, a gang of one, or a
    copy, uses one of them, and which does not matter.
    """
    if not instance.forking and all(_is_alike(instance, job) for job in instance.jobs):
        gpus = {name: count for name, count in instance.gpus_of_type.items() if count}
        return (Place(gpus, tuple(server.id for server in instance.servers)),)
    places: list[Place] = []
    single: dict[str, list[str]] = {}
    for server in instance.servers:
        if sum(server.gpus.values()) == 1:
            single.setdefault(next(iter(server.gpus)), []).append(server.id)
        else:
            places.append(Place(dict(server.gpus), (server.id,)))
    places += [Place({name: len(ids)}, tuple(ids)) for name, ids in single.items()]
    return tuple(places)


def modes_of(
    instance: Instance, places: Sequence[Place]
) -> tuple[tuple[Mode, ...], tuple[Group, ...]]:
    """Return the ways to place each gang, and which of them run at once."""
    modes: list[Mode] = []
    groups = []
    everywhere = tuple(range(len(places)))
    for j, job in enumerate(instance.jobs):
        by_group: dict[int, list[Mode]] = defaultdict(list)
        if instance.forking:
            for p, place in enumerate(places):
                if job.gang > 1 and len(place.servers) > 1:  # no copy on several servers
                    continue
                by_group[p] += _modes_on(instance, j, (p,), places, job.throughput)
                if by_group[p] and _stays_on(job, place.servers):
                    by_group[p] += _stay_mode(instance, j, places)
        else:
            if _is_alike(instance, job):
                by_group[0] += _modes_on(instance, j, everywhere, places, job.throughput)
            else:
                assert job.spread_throughput is not None
                for p, place in enumerate(places):
                    if len(place.servers) == 1:
                        by_group[0] += _modes_on(instance, j, (p,), places, job.throughput)
                by_group[0] += _modes_on(
                    instance, j, everywhere, places, job.spread_throughput, is_spread=True
                )
            by_group[0] += _stay_mode(instance, j, places)
        for p, found in by_group.items():
            if found:
                most = len(places[p].servers) if instance.forking else 1
                groups.append(Group(j, tuple(range(len(modes), len(modes) + len(found))), most))
                modes += found
    return tuple(modes), tuple(groups)


def _stays_on(job: GangJob, servers: Sequence[str]) -> bool:
    return len(job.current) == 1 and next(iter(job.current)) in servers


def _stay_mode(instance: Instance, j: int, places: Sequence[Place]) -> list[Mode]:
    """Return the mode of staying where a job is, if that saves a restart."""
    job = instance.jobs[j]
    if not instance.restart_s or not job.current or not job.rate_of(job.current):
        return []
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for server, types in job.current.items():
        (p,) = (p for p, place in enumerate(places) if server in place.servers)
        for name, count in types.items():
            counts[p, name] += count
    rate = job.rate_of(job.current)
    return [
        Mode(
            job=j,
            gang=job.gang,
            cells=tuple(Cell(p, name, rate) for p, name in counts),
            fixed=tuple(counts.values()),
            levels=(Level(rate, steps_in_round(instance, job, job.current)),),
            stays={server: dict(types) for server, types in job.current.items()},
        )
    ]


def _modes_on(
    instance: Instance,
    j: int,
    on: Sequence[int],
    places: Sequence[Place],
    rates: Mapping[str, float],
    *,
    is_spread: bool = False,
) -> list[Mode]:
    """Return the modes of a gang on some places: one, or one for each cell of a single GPU."""
    job = instance.jobs[j]
    run_s = Fraction(instance.round_s) - Fraction(instance.restart_s)
    cells = [
        Cell(p, name, rates.get(name, 0.0))
        for p in on
        for name in places[p].gpus
        if rates.get(name, 0.0) > 0
    ]

    def fits(found: Sequence[Cell]) -> bool:
        gpus = sum(places[cell.place].gpus[cell.gpu_type] for cell in found)
        several = len({s for cell in found for s in places[cell.place].servers}) > 1
        return gpus >= job.gang and (several or not is_spread)

    def level(rate: float) -> Level:
        return Level(rate, Fraction(rate) * run_s)

    if job.gang == 1 or (len(cells) == 1 and not is_spread):
        return [
            Mode(job=j, gang=job.gang, cells=(cell,), fixed=(job.gang,), levels=(level(cell.rate),))
            for cell in cells
            if fits([cell])
        ]
    levels = tuple(
        level(rate)
        for rate in sorted({cell.rate for cell in cells}, reverse=True)
        if fits([cell for cell in cells if cell.rate >= rate])
    )
    if not levels:
        return []
    limited = tuple(
        tuple(c for c, cell in enumerate(cells) if cell.place == p)
        for p in on
        if is_spread and len(places[p].servers) == 1
    )
    return [
        Mode(
            job=j,
            gang=job.gang,
            cells=tuple(cells),
            levels=levels,
            limited=tuple(group for group in limited if group),
        )
    ]
