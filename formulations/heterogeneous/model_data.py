"""The numbers that the models of schedules in rounds are made of.

Every backend states its model from one `RoundModel`. The symbols are those of the README beside
this file. Quantities are kept twice: as integers for CP-SAT and as floats near 1 for the others,
both rounded so that no schedule which the checker lets pass is cut off.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.rounding import float_up
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion
from lyra_opt.heterogeneous.checker import completion_of, due_steps, steps_in_round, worth
from lyra_opt.heterogeneous.instance import Objective, RoundEntry, RoundSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lyra_opt.heterogeneous.instance import (
        GangJob,
        HeterogeneousInstance,
        Placement,
    )

DUE_BITS = 44
"""Bits of a job's due steps in integers."""
WORTH_BITS = 50
"""Bits of the sum of all worths in integers."""
DUE_IN_FLOATS = 1e3
WORTH_IN_FLOATS = 1e6
MOST_SUM_BITS = 60


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


class Load(NamedTuple):
    """GPUs held for each unit of a variable w (``is_chosen``) or y, by its key."""

    gpus: int
    is_chosen: bool
    key: tuple[int, int, int]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobData:
    """A job in numbers.

    Parameters
    ----------
    slots
        Rounds in which it may run.
    completions
        Rounds in which it may complete.
    worth, worth_in_floats
        For each of `completions` (``utility``), and of its whole progress (``round_progress``,
        one entry), rounded up.
    due, steps
        Due steps and those of each level of each of its modes as integers.
    steps_in_floats
        The same where `DUE_IN_FLOATS` are due.
    gains, gains_in_floats
        Of ``round_progress``: what a level of a mode adds, in the unit of `worth`.
    """

    slots: range
    completions: range
    worth: tuple[int, ...] = ()
    worth_in_floats: tuple[float, ...] = ()
    due: int = 0
    steps: Mapping[tuple[int, int], int] = field(default_factory=dict)
    steps_in_floats: Mapping[tuple[int, int], float] = field(default_factory=dict)
    rounds_needed: tuple[tuple[int, Mapping[tuple[int, int], int]], ...] = ()
    gains: Mapping[tuple[int, int], int] = field(default_factory=dict)
    gains_in_floats: Mapping[tuple[int, int], float] = field(default_factory=dict)


class Variables(NamedTuple):
    """By key: (mode, level, round), (mode, cell, round), (job, round), job; and M, if any."""

    runs: Mapping[tuple[int, int, int], Any]
    held: Mapping[tuple[int, int, int], Any]
    completes: Mapping[tuple[int, int], Any]
    never: Mapping[int, Any]
    progress: Mapping[int, Any]
    last: Sequence[Any]

    def in_order(self) -> list[Any]:
        """Return all of them."""
        by_key = (self.runs, self.held, self.completes, self.never, self.progress)
        return [variable for of_kind in by_key for variable in of_kind.values()] + list(self.last)


@dataclass(frozen=True, slots=True)
class Built:
    """A backend's model with its variables."""

    model: Any
    variables: Variables
    has_start: bool

    @property
    def hinted(self) -> Sequence[Any]:
        """All variables, none without a start."""
        return self.variables.in_order() if self.has_start else []

    @property
    def decisions(self) -> Sequence[Any]:
        """Which modes run, and the GPUs that they hold."""
        return [*self.variables.runs.values(), *self.variables.held.values()]


class Start(NamedTuple):
    """The values of all variables: integers, but for p_j of backends in floats."""

    values: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundModel:
    """Everything that a backend needs to state the model; made by `round_model`."""

    instance: HeterogeneousInstance
    places: tuple[Place, ...]
    modes: tuple[Mode, ...]
    groups: tuple[Group, ...]
    jobs: tuple[JobData, ...]
    worth_unit: Fraction
    """What 1 of `JobData.worth` is worth."""
    worth_unit_in_floats: Fraction
    penalty: int
    """What a job that never completes costs, in rounds; 0 where that is allowed."""

    @property
    def objective(self) -> Objective:
        """The instance's."""
        return self.instance.objective

    def run_keys(self) -> Iterator[tuple[int, int, int]]:
        """Yield (mode, level, round) of the variables y."""
        for m, mode in enumerate(self.modes):
            for t in self.jobs[mode.job].slots:
                for v in range(len(mode.levels)):
                    yield m, v, t

    def held_keys(self) -> Iterator[tuple[int, int, int]]:
        """Yield (mode, cell, round) of the variables w."""
        for m, mode in enumerate(self.modes):
            if mode.fixed is None:
                for t in self.jobs[mode.job].slots:
                    for c in range(len(mode.cells)):
                        yield m, c, t

    def runs_of(self, modes: Iterable[int], t: int) -> list[tuple[int, int, int]]:
        """Return the keys of all levels of some modes in a round."""
        return [(m, v, t) for m in modes for v in range(len(self.modes[m].levels))]

    def completions_from(self, j: int, t: int) -> list[tuple[int, int]]:
        """Return the keys of the completions of a job in a round or later."""
        return [(j, s) for s in self.jobs[j].completions if s >= t]

    def completions_until(self, j: int, t: int) -> list[tuple[int, int]]:
        """Return the keys of the completions of a job in a round or before."""
        return [(j, s) for s in self.jobs[j].completions if s <= t]

    def most_runs(self, m: int) -> int:
        """Return how many copies run in a mode at once at most."""
        if self.modes[m].stays is not None:
            return 1
        return next(group.most for group in self.groups if m in group.modes)

    def slower_cells(self, m: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the levels of a mode but the slowest, and the cells slower than each."""
        mode = self.modes[m]
        for v, level in enumerate(mode.levels[:-1]):
            yield v, [c for c, cell in enumerate(mode.cells) if cell.rate < level.rate]

    def alike_servers(self) -> list[tuple[int, int]]:
        """Return pairs of places, each a server, with equal GPUs: the next one in file order.

        Empty where a job may save its restart, since then its own servers are unlike others.
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

    def alike_loads(self) -> Iterator[tuple[int, int, int, list[Load], list[Load]]]:
        """Yield two places that are alike, a round, and what is held on each of them then."""
        for p, q in self.alike_servers():
            for t in self.rounds():
                first, second = list(self._held_on(p, t)), list(self._held_on(q, t))
                if second:
                    yield p, q, t, first, second

    def _held_on(self, p: int, t: int) -> Iterator[Load]:
        """Yield what may be held on a place in a round."""
        for m, mode in enumerate(self.modes):
            if t not in self.jobs[mode.job].slots:
                continue
            for c, cell in enumerate(mode.cells):
                if cell.place != p:
                    continue
                if mode.fixed is None:
                    yield Load(1, True, (m, c, t))
                else:
                    for key in self.runs_of((m,), t):
                        yield Load(mode.fixed[c], False, key)

    def modes_with_choice(self) -> Iterator[tuple[int, Mode]]:
        """Yield the modes whose GPUs are to be chosen."""
        return ((m, mode) for m, mode in enumerate(self.modes) if mode.fixed is None)

    def most_held(self, m: int, c: int) -> int:
        """Return the most GPUs that a mode holds in a cell."""
        cell = self.modes[m].cells[c]
        return min(self.modes[m].gang, self.places[cell.place].gpus[cell.gpu_type])

    def users(self) -> Iterator[tuple[int, str, int, list[tuple[int, int]]]]:
        """Yield place, type, how many GPUs there are, and the (mode, cell) that use them."""
        using: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        for m, mode in enumerate(self.modes):
            for c, cell in enumerate(mode.cells):
                using[cell.place, cell.gpu_type].append((m, c))
        for (place, name), pairs in using.items():
            yield place, name, self.places[place].gpus[name], pairs

    def rounds(self) -> range:
        """Return all rounds in which something may run."""
        return range(
            min((job.slots.start for job in self.jobs if job.slots), default=0),
            max((job.slots.stop for job in self.jobs if job.slots), default=0),
        )

    def modes_of(self, j: int) -> list[int]:
        """Return the modes of a job."""
        return [m for m, mode in enumerate(self.modes) if mode.job == j]

    def start(self, schedule: RoundSchedule | None, *, in_floats: bool) -> Start:
        """Return the values of all variables for a schedule without waste."""
        if schedule is None:
            return Start([])
        return Start(_start_values(self, self._within_windows(schedule), in_floats=in_floats))

    def _within_windows(self, schedule: RoundSchedule) -> RoundSchedule:
        """Return the schedule without jobs that complete where that is worth nothing."""
        if self.objective is Objective.ROUND_PROGRESS:
            return schedule
        kept: list[RoundEntry] = []
        for job, data in zip(self.instance.jobs, self.jobs, strict=True):
            entries = [entry for entry in schedule.entries if entry.job == job.id]
            if completion_of(self.instance, job, entries) in data.completions:
                kept += entries
        return RoundSchedule(tuple(kept))

    def schedule(self, values: Sequence[float]) -> RoundSchedule:
        """Return the schedule that values of `Built.decisions` stand for, rounded."""
        keys = [*self.run_keys(), *self.held_keys()]
        runs: dict[tuple[int, int, int], int] = {}
        held: dict[tuple[int, int, int], int] = {}
        split = sum(1 for _ in self.run_keys())
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            (runs if place < split else held)[key] = round(value)
        return _decoded(self, runs, held)


def round_model(
    instance: HeterogeneousInstance, start: tuple[RoundSchedule, float] | None
) -> RoundModel:
    """Return the model's numbers; a schedule and its value narrow the rounds to be looked at."""
    places = _places(instance)
    modes, groups = _modes(instance, places)
    windows = _windows(instance, start)
    is_round = instance.objective is Objective.ROUND_PROGRESS
    worths: list[list[Fraction]] = []
    for job, completions in zip(instance.jobs, windows, strict=True):
        if is_round:
            worths.append([Fraction(job.weight)])
        elif instance.objective is Objective.UTILITY:
            worths.append([worth(instance, job, t) for t in completions])
        else:
            worths.append([])
    total = sum((max(of) for of in worths if of), Fraction(0)) or Fraction(1)
    unit = total / 2**WORTH_BITS
    float_unit = total / Fraction(WORTH_IN_FLOATS)
    jobs = []
    for j, job in enumerate(instance.jobs):
        own = {
            (m, v): level
            for m, mode in enumerate(modes)
            if mode.job == j
            for v, level in enumerate(mode.levels)
        }
        completions = windows[j]
        slots = range(instance.first_round(job), completions.stop) if completions else range(0)
        jobs.append(
            _job_data(job, own, slots, completions, worths[j], unit, float_unit, is_round=is_round)
        )
    penalty = 0
    if instance.objective is Objective.MAKESPAN:
        penalty = instance.horizon_rounds + 1
    elif instance.objective is Objective.MEAN_JCT:
        penalty = instance.horizon_rounds * len(instance.jobs) + 1
    return RoundModel(
        instance=instance,
        places=places,
        modes=modes,
        groups=groups,
        jobs=tuple(jobs),
        worth_unit=unit,
        worth_unit_in_floats=float_unit,
        penalty=penalty,
    )


def _job_data(
    job: GangJob,
    own: Mapping[tuple[int, int], Level],
    slots: range,
    completions: range,
    worths: Sequence[Fraction],
    unit: Fraction,
    float_unit: Fraction,
    *,
    is_round: bool,
) -> JobData:
    whole = Fraction(job.steps) if is_round else due_steps(job)
    parts = {key: min(Fraction(1), level.steps / whole) for key, level in own.items()}
    copies = len({m for m, _ in own})
    bits = min(DUE_BITS, MOST_SUM_BITS - (max(1, len(slots)) * max(1, copies)).bit_length())
    common: dict[str, Any] = {
        "worth": tuple(math.ceil(value / unit) for value in worths),
        "worth_in_floats": tuple(float_up(value / float_unit) for value in worths),
    }
    if is_round:
        gains = {key: math.ceil(worths[0] / unit * part) for key, part in parts.items()}
        floats = {key: float_up(worths[0] / float_unit * part) for key, part in parts.items()}
        return JobData(
            slots=slots, completions=range(0), gains=gains, gains_in_floats=floats, **common
        )
    due = 2**bits
    steps = {key: math.ceil(part * due) for key, part in parts.items()}
    floats = {key: float_up(part * Fraction(DUE_IN_FLOATS)) for key, part in parts.items()}
    needed = []
    for rate in sorted(set(parts.values())):
        counts = {key: math.ceil(part / rate) for key, part in parts.items()}
        needed.append((math.ceil(1 / rate), counts))
    return JobData(
        slots=slots,
        completions=completions,
        due=due,
        steps=steps,
        steps_in_floats=floats,
        rounds_needed=tuple(needed),
        **common,
    )


def _windows(
    instance: HeterogeneousInstance, start: tuple[RoundSchedule, float] | None
) -> list[range]:
    """Return the rounds in which each job may complete in a schedule no worse than the start."""
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


def _is_alike(instance: HeterogeneousInstance, job: GangJob) -> bool:
    """Whether the rate of a job depends on the types of its GPUs alone, not on their servers."""
    if job.gang == 1 or job.spread_throughput is None:
        return True
    return all(
        job.throughput.get(name, 0.0) == job.spread_throughput.get(name, 0.0)
        for name in instance.gpus_of_type
    )


def _places(instance: HeterogeneousInstance) -> tuple[Place, ...]:
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


def _modes(
    instance: HeterogeneousInstance, places: Sequence[Place]
) -> tuple[tuple[Mode, ...], tuple[Group, ...]]:
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


def _stay_mode(instance: HeterogeneousInstance, j: int, places: Sequence[Place]) -> list[Mode]:
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
    instance: HeterogeneousInstance,
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


# From schedules to values of variables, and back


def _start_values(model: RoundModel, schedule: RoundSchedule, *, in_floats: bool) -> list[Any]:
    instance = model.instance
    runs = dict.fromkeys(model.run_keys(), 0)
    held = dict.fromkeys(model.held_keys(), 0)
    place_of = {server: p for p, place in enumerate(model.places) for server in place.servers}
    schedule = _fuller_first(model, schedule)
    entries: dict[str, list[RoundEntry]] = defaultdict(list)
    gains: dict[int, float] = defaultdict(int)
    for entry in schedule.entries:
        entries[entry.job].append(entry)
        j = instance.job_position[entry.job]
        m, v, counts = _mode_of(model, j, entry.gpus, place_of)
        runs[m, v, entry.round] += 1
        data = model.jobs[j]
        gains[j] += (data.gains_in_floats if in_floats else data.gains).get((m, v), 0)
        if model.modes[m].fixed is None:
            for c, cell in enumerate(model.modes[m].cells):
                held[m, c, entry.round] += counts.get((cell.place, cell.gpu_type), 0)
    completes: dict[tuple[int, int], int] = {}
    never: dict[int, int] = {}
    progress: dict[int, float] = {}
    completions = {}
    for j, job in enumerate(instance.jobs):
        if instance.objective is Objective.ROUND_PROGRESS:
            data = model.jobs[j]
            progress[j] = min((data.worth_in_floats if in_floats else data.worth)[0], gains[j])
            continue
        completion = completion_of(instance, job, entries[job.id])
        for t in model.jobs[j].completions:
            completes[j, t] = int(t == completion)
        never[j] = int(completion is None)
        if completion is not None:
            completions[j] = completion
    last = [max(completions.values(), default=-1) + 1] * (instance.objective is Objective.MAKESPAN)
    by_key: tuple[Mapping[Any, float], ...] = (runs, held, completes, never, progress)
    return [value for of_kind in by_key for value in of_kind.values()] + last


def _fuller_first(model: RoundModel, schedule: RoundSchedule) -> RoundSchedule:
    """Return the schedule with servers that are alike renamed in each round, the fullest first."""
    after = dict(model.alike_servers())
    classes = [[p] for p in after if p not in after.values()]
    for chain in classes:
        while chain[-1] in after:
            chain.append(after[chain[-1]])
    entries = []
    for t in sorted({entry.round for entry in schedule.entries}):
        here = [entry for entry in schedule.entries if entry.round == t]
        load: dict[str, int] = defaultdict(int)
        for entry in here:
            for server, types in entry.gpus.items():
                load[server] += sum(types.values())
        names: dict[str, str] = {}
        for chain in classes:
            servers = [model.places[p].servers[0] for p in chain]
            fullest = sorted(servers, key=lambda server: -load.get(server, 0))
            names |= dict(zip(fullest, servers, strict=True))
        entries += [
            RoundEntry(
                job=entry.job,
                round=t,
                gpus={names.get(server, server): types for server, types in entry.gpus.items()},
            )
            for entry in here
        ]
    return RoundSchedule(tuple(entries))


def _mode_of(
    model: RoundModel, j: int, gpus: Placement, place_of: Mapping[str, int]
) -> tuple[int, int, dict[tuple[int, str], int]]:
    """Return the mode and the level of a placement, and its GPUs by place and type."""
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for server, types in gpus.items():
        for name, count in types.items():
            counts[place_of[server], name] += count
    rate = model.instance.jobs[j].rate_of(gpus)
    for m in sorted(model.modes_of(j), key=lambda m: model.modes[m].stays is None):
        mode = model.modes[m]
        if mode.stays is not None:
            if mode.stays == gpus:
                return m, 0, counts
            continue
        where = {(cell.place, cell.gpu_type) for cell in mode.cells}
        one_server = all(
            sum(counts.get((mode.cells[c].place, mode.cells[c].gpu_type), 0) for c in group)
            < mode.gang
            for group in mode.limited
        )
        if not set(counts) <= where or not one_server:
            continue
        for v, level in enumerate(mode.levels):
            if level.rate == rate:
                return m, v, counts
    raise AssertionError("every valid placement is in some mode")


def _decoded(
    model: RoundModel,
    runs: Mapping[tuple[int, int, int], int],
    held: Mapping[tuple[int, int, int], int],
) -> RoundSchedule:
    instance = model.instance
    free: dict[int, dict[str, dict[str, int]]] = {}

    def left(t: int) -> dict[str, dict[str, int]]:
        if t not in free:
            free[t] = {server.id: dict(server.gpus) for server in instance.servers}
        return free[t]

    chosen = sorted(
        (t, model.modes[m].stays is None, m, v)
        for (m, v, t), count in runs.items()
        for _ in range(count)
    )
    entries = []
    used: set[tuple[int, int, str]] = set()
    for t, _, m, _ in chosen:
        mode = model.modes[m]
        placement: Placement = {}
        if mode.stays is not None:
            placement = {server: dict(types) for server, types in mode.stays.items()}
            for server, types in placement.items():
                for name, count in types.items():
                    left(t)[server][name] -= count
        else:
            counts = mode.fixed or tuple(held[m, c, t] for c in range(len(mode.cells)))
            for cell, wanted in zip(mode.cells, counts, strict=True):
                needed = wanted
                for server in model.places[cell.place].servers:
                    there = min(needed, left(t)[server].get(cell.gpu_type, 0))
                    if instance.forking and (t, mode.job, server) in used:
                        continue
                    if there > 0:
                        placement.setdefault(server, {})[cell.gpu_type] = there
                        left(t)[server][cell.gpu_type] -= there
                        needed -= there
        used |= {(t, mode.job, server) for server in placement}
        entries.append(RoundEntry(job=instance.jobs[mode.job].id, round=t, gpus=placement))
    return RoundSchedule(tuple(entries))
