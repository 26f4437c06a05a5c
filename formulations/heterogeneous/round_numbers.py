"""The coefficients and indices of the model of schedules in rounds, for any backend.

Gangs are modelled by places, cells and modes, as few as an exact model allows. Quantities are
integers for CP-SAT and floats near 1 for other backends. Both are rounded so that the model keeps
every schedule that the checker accepts. The README in this folder defines the symbols.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Self

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.result import Number
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion
from lyra_opt.heterogeneous.checker import due_steps, steps_in_round, worth
from lyra_opt.heterogeneous.instance import (
    MOST_ROUNDS,
    GangJob,
    Instance,
    Objective,
    Placement,
    RoundSchedule,
)

RunKey = tuple[int, int, int]


class Place(NamedTuple):
    """A set of interchangeable GPUs, on one or several servers.

    Parameters
    ----------
    gpus
        The number of GPUs of each type.
    servers
        The servers that hold them.
    """

    gpus: Mapping[str, int]
    servers: tuple[str, ...]


class Cell(NamedTuple):
    """The GPUs of one type in one `Place`, with the rate at which a gang runs on them."""

    place: int
    gpu_type: str
    rate: float


class Level(NamedTuple):
    """A rate at which a gang can run, set by its slowest GPU, with the steps done per round."""

    rate: float
    steps: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to place a gang: on one server, spread over several, or anywhere.

    Parameters
    ----------
    job
        The position of the job in the instance.
    gang
        The number of GPUs of the gang.
    cells
        The cells whose GPUs the gang may use.
    fixed
        The number of GPUs in each cell, if it is fixed; else None.
    levels
        The possible levels, fastest first.
    limited
        For each server, the cells that together must not hold the whole gang.
    stays
        The job's current placement, if the mode means to stay there; else None.
    """

    job: int
    gang: int
    cells: tuple[Cell, ...]
    levels: tuple[Level, ...]
    fixed: tuple[int, ...] | None = None
    limited: tuple[tuple[int, ...], ...] = ()
    stays: Placement | None = None


class Group(NamedTuple):
    """A set of placement modes of one job, of which at most `most` run at once.

    `most` is 1, or with forking the number of servers that may run a copy.
    """

    job: int
    modes: tuple[int, ...]
    most: int


def _is_alike(instance: Instance, job: GangJob) -> bool:
    """Whether the job's rate depends only on the GPU types, not on the servers."""
    if job.gang == 1 or job.spread_throughput is None:
        return True
    return all(
        job.throughput.get(name, 0.0) == job.spread_throughput.get(name, 0.0)
        for name in instance.gpus_of_type
    )


def places_of(instance: Instance) -> tuple[Place, ...]:
    """Partition the GPUs into as few sets of interchangeable GPUs as keep the model exact.

    The whole cluster is one place if servers do not matter. Otherwise the servers that have a
    single GPU of one type form a place. There, a gang of several GPUs is spread in any case, and a
    gang or copy with one GPU may use any of the servers.
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
    """Return all placement modes of gangs, and the groups that limit how many run at once."""
    modes: list[Mode] = []
    groups = []
    everywhere = tuple(range(len(places)))
    for j, job in enumerate(instance.jobs):
        by_group: dict[int, list[Mode]] = defaultdict(list)
        if instance.forking:
            for p, place in enumerate(places):
                if job.gang > 1 and len(place.servers) > 1:  # a copy needs a single server
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
    """Return the mode in which a job keeps its current GPUs, if that saves a restart."""
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
    """Return the placement modes of a gang on given places; a one-GPU gang has one per cell."""
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


DUE_BITS = 44
"""Bits of the steps that a job needs, for backends in integers."""
WORTH_BITS = 50
"""Bits of the sum of all utilities, for backends in integers."""
DUE_IN_FLOATS = 1e3
WORTH_IN_FLOATS = 1e6
MOST_SUM_BITS = 60


class Variables(NamedTuple):
    """The variables of the model of schedules in rounds, in the backend's own type.

    The README in this folder defines the symbols.

    Parameters
    ----------
    y
        Runs, by mode, level and round.
    w
        GPUs held, by mode, cell and round.
    z
        Completion, by job and round.
    n, p
        No completion, and progress, by job.
    M
        The makespan in rounds, with an empty key; only for ``makespan``.
    """

    y: Mapping[RunKey, Any]
    w: Mapping[RunKey, Any]
    z: Mapping[tuple[int, int], Any]
    n: Mapping[int, Any]
    p: Mapping[int, Any]
    M: Mapping[tuple[()], Any]


class Scale(NamedTuple):
    """The conversion of exact utilities and steps to numbers of a backend, rounded up.

    Parameters
    ----------
    unit
        The utility of one unit.
    in_floats
        Whether the backend computes in floats; otherwise it computes in integers only.
    """

    unit: Fraction
    in_floats: bool

    def of(self, value: Fraction) -> Number:
        """Convert an exact utility into scaled units, rounded up."""
        return float_up(value / self.unit) if self.in_floats else math.ceil(value / self.unit)

    def due(self, most_runs: int) -> Number:
        """Return the number to which a job's steps are scaled, so that sums do not overflow."""
        bits = min(DUE_BITS, MOST_SUM_BITS - most_runs.bit_length())
        return DUE_IN_FLOATS if self.in_floats else 2**bits

    def steps(self, part: Fraction, due: Number) -> Number:
        """Return the scaled steps for a fraction `part` of all steps of a job, rounded up."""
        exact = part * Fraction(due)
        return float_up(exact) if self.in_floats else math.ceil(exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobData:
    """The coefficients and the possible rounds of one job in the model of schedules in rounds.

    Parameters
    ----------
    slots
        The rounds in which the job may run.
    completions
        The rounds in which the job may complete.
    worth
        For ``utility``, the utility of completing in each round of `completions`. For
        ``round_progress``, the value of complete progress, as the only entry.
    due, steps
        The steps due, and the steps per round of each level of each of its modes.
    rounds_needed
        For the steps of each level, the number of such rounds that the job needs, and the number of
        them that a round at each level of each mode counts for.
    gains
        For ``round_progress``, the value that a level of a mode adds, in the unit of `worth`.
    """

    slots: range
    completions: range
    worth: tuple[Number, ...] = ()
    due: Number = 0
    steps: Mapping[tuple[int, int], Number] = field(default_factory=dict)
    rounds_needed: tuple[tuple[int, Mapping[tuple[int, int], int]], ...] = ()
    gains: Mapping[tuple[int, int], Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundNumbers:
    """The coefficients of the round-based model of an instance, and the keys of its variables.

    Parameters
    ----------
    instance
        The instance.
    places, modes, groups
        The possible placements of gangs.
    jobs
        The jobs as numbers.
    scale
        The unit of `JobData.worth`, and whether the backend computes in floats.
    penalty
        The cost, in rounds, of a job that never completes; 0 if that is allowed.
    must_complete
        Whether every job must complete if there is a penalty.
    """

    instance: Instance
    places: tuple[Place, ...]
    modes: tuple[Mode, ...]
    groups: tuple[Group, ...]
    jobs: tuple[JobData, ...]
    scale: Scale
    penalty: int
    must_complete: bool = False

    @classmethod
    def of(
        cls,
        instance: Instance,
        start: tuple[RoundSchedule, float] | None = None,
        *,
        in_floats: bool = False,
        must_complete: bool = False,
    ) -> Self:
        """Compute the coefficients; a start schedule narrows the possible rounds of each job."""
        places = places_of(instance)
        modes, groups = modes_of(instance, places)
        windows = windows_of(instance, start)
        worths = [
            _worths(instance, job, completions)
            for job, completions in zip(instance.jobs, windows, strict=True)
        ]
        total = sum((max(of) for of in worths if of), Fraction(0)) or Fraction(1)
        scale = Scale(total / Fraction(WORTH_IN_FLOATS if in_floats else 2**WORTH_BITS), in_floats)
        levels: dict[int, dict[tuple[int, int], Level]] = defaultdict(dict)
        for m, mode in enumerate(modes):
            for v, level in enumerate(mode.levels):
                levels[mode.job][m, v] = level
        penalty = 0
        if instance.objective is Objective.MAKESPAN:
            penalty = instance.horizon_rounds + 1
        elif instance.objective is Objective.MEAN_JCT:
            penalty = instance.horizon_rounds * len(instance.jobs) + 1
        return cls(
            instance=instance,
            places=places,
            modes=modes,
            groups=groups,
            jobs=tuple(
                _job_data(instance, j, levels[j], windows[j], worths[j], scale)
                for j in range(len(instance.jobs))
            ),
            scale=scale,
            penalty=penalty,
            must_complete=must_complete,
        )

    @property
    def objective(self) -> Objective:
        """The objective of the instance."""
        return self.instance.objective

    def run_keys(self) -> Iterator[RunKey]:
        """Yield the key (mode, level, round) of each variable y, the number of running copies."""
        for m, mode in enumerate(self.modes):
            for t in self.jobs[mode.job].slots:
                for v in range(len(mode.levels)):
                    yield m, v, t

    def held_keys(self) -> Iterator[RunKey]:
        """Yield the key (mode, cell, round) of each variable w, the number of GPUs held."""
        for m, mode in enumerate(self.modes):
            if mode.fixed is None:
                for t in self.jobs[mode.job].slots:
                    for c in range(len(mode.cells)):
                        yield m, c, t

    def completion_keys(self) -> Iterator[tuple[int, int]]:
        """Yield the key (job, round) of each variable z, which is 1 if the job completes."""
        for j, job in enumerate(self.jobs):
            for t in job.completions:
                yield j, t

    def runs_of(self, modes: Iterable[int], t: int) -> list[RunKey]:
        """Return the keys of the run variables y of given modes in round t."""
        return [(m, v, t) for m in modes for v in range(len(self.modes[m].levels))]

    def completions_from(self, j: int, t: int) -> list[tuple[int, int]]:
        """Return the keys of the variables z for a completion of job j in round t or later."""
        return [(j, s) for s in self.jobs[j].completions if s >= t]

    def completions_until(self, j: int, t: int) -> list[tuple[int, int]]:
        """Return the keys of the variables z for a completion of job j in round t or earlier."""
        return [(j, s) for s in self.jobs[j].completions if s <= t]

    def most_runs(self, m: int) -> int:
        """Return the largest number of copies that run in mode m at once."""
        if self.modes[m].stays is not None:
            return 1
        return next(group.most for group in self.groups if m in group.modes)

    def slower_cells(self, m: int) -> Iterator[tuple[int, list[int]]]:
        """Yield each level of a mode except the slowest, with the cells slower than that level."""
        mode = self.modes[m]
        for v, level in enumerate(mode.levels[:-1]):
            yield v, [c for c, cell in enumerate(mode.cells) if cell.rate < level.rate]

    def alike_servers(self) -> list[tuple[int, int]]:
        """Return pairs of servers with equal GPUs, each paired with the next one in file order.

        Empty if a job may keep its current GPUs and save a restart, because then its servers differ
        from equal ones.
        """
        if any(mode.stays is not None for mode in self.modes):
            return []
        last: dict[tuple[tuple[str, int], ...], int] = {}
        pairs = []
        for p, place in enumerate(self.places):
            shape = tuple(sorted(place.gpus.items()))
            if len(place.servers) == 1:
                if shape in last:
                    pairs.append((last[shape], p))
                last[shape] = p
        return pairs

    def modes_with_choice(self) -> Iterator[tuple[int, Mode]]:
        """Yield the modes for which the model chooses the GPUs per cell."""
        return ((m, mode) for m, mode in enumerate(self.modes) if mode.fixed is None)

    def most_held(self, m: int, c: int) -> int:
        """Return the largest number of GPUs that mode m can hold in cell c."""
        cell = self.modes[m].cells[c]
        return min(self.modes[m].gang, self.places[cell.place].gpus[cell.gpu_type])

    def rounds(self) -> range:
        """Return all rounds in which some job may run."""
        return range(
            min((job.slots.start for job in self.jobs if job.slots), default=0),
            max((job.slots.stop for job in self.jobs if job.slots), default=0),
        )

    def modes_of(self, j: int) -> list[int]:
        """Return the indices of the placement modes of job j."""
        return [m for m, mode in enumerate(self.modes) if mode.job == j]


def _worths(instance: Instance, job: GangJob, completions: Sequence[int]) -> list[Fraction]:
    """Return a job's unscaled utilities: per completion round, or one for complete progress."""
    if instance.objective is Objective.ROUND_PROGRESS:
        return [Fraction(job.weight)]
    if instance.objective is Objective.UTILITY:
        return [worth(instance, job, t) for t in completions]
    return []


def _job_data(
    instance: Instance,
    j: int,
    levels: Mapping[tuple[int, int], Level],
    completions: range,
    worths: Sequence[Fraction],
    scale: Scale,
) -> JobData:
    """Return the model coefficients of job j; `levels` has the rate levels of its modes."""
    job = instance.jobs[j]
    slots = range(instance.first_round(job), completions.stop) if completions else range(0)
    worth_in_units = tuple(scale.of(value) for value in worths)
    if instance.objective is Objective.ROUND_PROGRESS:
        whole = Fraction(job.steps)
        gains = {
            key: scale.of(worths[0] * min(Fraction(1), level.steps / whole))
            for key, level in levels.items()
        }
        return JobData(slots=slots, completions=range(0), worth=worth_in_units, gains=gains)
    parts = {key: min(Fraction(1), level.steps / due_steps(job)) for key, level in levels.items()}
    due = scale.due(max(1, len(slots)) * max(1, len({m for m, _ in levels})))
    return JobData(
        slots=slots,
        completions=completions,
        worth=worth_in_units,
        due=due,
        steps={key: scale.steps(part, due) for key, part in parts.items()},
        rounds_needed=tuple(
            (math.ceil(1 / rate), {key: math.ceil(part / rate) for key, part in parts.items()})
            for rate in sorted(set(parts.values()))
            if rate * MOST_ROUNDS >= 1  # slower levels give redundant rows with huge numbers
        ),
    )


def windows_of(instance: Instance, start: tuple[RoundSchedule, float] | None) -> list[range]:
    """Return the possible completion rounds of each job in schedules no worse than the start."""
    if instance.objective is Objective.ROUND_PROGRESS:
        return [range(0 if instance.first_round(job) else 1) for job in instance.jobs]
    earliest = [earliest_completion(instance, job) for job in instance.jobs]
    latest = [instance.horizon_rounds] * len(instance.jobs)
    if instance.objective is Objective.UTILITY:
        for j, (job, first) in enumerate(zip(instance.jobs, earliest, strict=True)):
            while (
                first is not None and latest[j] > first and not worth(instance, job, latest[j] - 1)
            ):
                latest[j] -= 1
    elif start is not None:
        round_s, jobs = Fraction(instance.round_s), len(instance.jobs)
        if instance.objective is Objective.MAKESPAN:
            latest = [round(Fraction(start[1]) / round_s)] * jobs
        else:
            released_s = sum((Fraction(job.release_s) for job in instance.jobs), Fraction(0))
            rounds = round((Fraction(start[1]) * jobs + released_s) / round_s)
            least = sum(1 + first for first in earliest if first is not None)
            latest = [
                min(instance.horizon_rounds, rounds - least + 1 + (first or 0))
                for first in earliest
            ]
    return [
        range(0) if first is None else range(first, max(first, last))
        for first, last in zip(earliest, latest, strict=True)
    ]
