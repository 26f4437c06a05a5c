"""The data of the model of schedules in rounds: bounds, costs, start, conversion to a schedule."""

import math
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.result import Number
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.backends.rows import Term
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.heterogeneous.round_numbers import RoundNumbers, RunKey, Variables
from lyra_opt.heterogeneous.bounds.dual_bound import simple_bound
from lyra_opt.heterogeneous.checker import completion_of
from lyra_opt.heterogeneous.heuristics.list_schedule import ListSchedule, without_waste
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Instance,
    Objective,
    Placement,
    RoundEntry,
    RoundSchedule,
)
from lyra_opt.heterogeneous.problem import PROBLEM


class RoundModel(RoundNumbers):
    """The complete model of an instance's schedules in rounds; implements `ModelData`."""

    __slots__ = ()

    @property
    def is_settled(self) -> bool:
        """Whether no job can run and the objective allows an empty schedule."""
        return not self.penalty and not any(True for _ in self.run_keys())

    @property
    def largest(self) -> Variables:
        """The upper bound of each variable."""
        one_round = self.objective is Objective.ROUND_PROGRESS
        jobs = range(len(self.jobs))
        return Variables(
            y={(m, v, t): self.most_runs(m) for m, v, t in self.run_keys()},
            w={(m, c, t): self.most_held(m, c) for m, c, t in self.held_keys()},
            z=dict.fromkeys(self.completion_keys(), 1),
            n={}
            if one_round
            else dict.fromkeys(jobs, int(not (self.must_complete and self.penalty))),
            p={j: self.jobs[j].worth[0] for j in jobs if one_round},
            M={(): self.instance.horizon_rounds} if self.objective is Objective.MAKESPAN else {},
        )

    def start(self, solution: RoundSchedule) -> list[Number]:
        """Return the values of all variables for a schedule without wasted GPUs."""
        return [value for kind in values_of(self, solution) for value in kind.values()]

    def solution(self, values: Values) -> RoundSchedule:
        """Return the schedule that the rounded values of the variables describe."""
        flat = iter(values)
        y = {key: round(next(flat)) for key in self.run_keys()}
        w = {key: round(next(flat)) for key in self.held_keys()}
        return without_waste(self.instance, schedule_of(self, y, w))

    def dual_bound(self, cost: Fraction) -> float:
        """Return the bound on the objective that follows from a lower bound on the model's cost."""
        if not self.penalty:
            return float_up(cost * self.unit.scale)
        rounds = math.ceil(cost)
        if rounds >= self.penalty:
            return math.inf
        return -float_up(-(rounds * self.unit.scale + self.unit.offset))

    @property
    def unit(self) -> CostUnit:
        """The conversion from the model's cost, without penalties, to the objective."""
        if not self.penalty:
            return CostUnit(-self.scale.unit)
        round_s, jobs = Fraction(self.instance.round_s), self.instance.jobs
        if self.objective is Objective.MAKESPAN:
            return CostUnit(round_s)
        released_s = sum((Fraction(job.release_s) for job in jobs), Fraction(0))
        return CostUnit(round_s / len(jobs), -released_s / len(jobs))

    def cost(self, variables: Variables) -> list[Term]:
        """Return the cost that the model minimises, as pairs of coefficient and variable."""
        terms: list[Term] = [(1, last) for last in variables.M.values()]
        if self.objective is Objective.MEAN_JCT:
            terms += [(t + 1, x) for (_, t), x in variables.z.items()]
        if self.penalty:
            terms += [(self.penalty, never) for never in variables.n.values()]
        if self.objective is Objective.UTILITY:
            terms += [
                (-self.jobs[j].worth[t - self.jobs[j].completions.start], x)
                for (j, t), x in variables.z.items()
            ]
        return terms + [(-1, made) for made in variables.p.values()]


def values_of(model: RoundNumbers, schedule: RoundSchedule) -> Variables:
    """Return the values of all variables for a schedule without wasted GPUs."""
    instance = model.instance
    schedule = _fuller_first(model, _within_windows(model, schedule))
    y, w = dict.fromkeys(model.run_keys(), 0), dict.fromkeys(model.held_keys(), 0)
    place_of = {server: p for p, place in enumerate(model.places) for server in place.servers}
    entries: dict[str, list[RoundEntry]] = defaultdict(list)
    gained: dict[int, Number] = defaultdict(int)
    for entry in schedule.entries:
        entries[entry.job].append(entry)
        j = instance.job_position[entry.job]
        m, v, counts = _mode_of(model, j, entry.gpus, place_of)
        y[m, v, entry.round] += 1
        gained[j] += model.jobs[j].gains.get((m, v), 0)
        if model.modes[m].fixed is None:
            for c, cell in enumerate(model.modes[m].cells):
                w[m, c, entry.round] += counts.get((cell.place, cell.gpu_type), 0)
    if instance.objective is Objective.ROUND_PROGRESS:
        p = {j: min(data.worth[0], gained[j]) for j, data in enumerate(model.jobs)}
        return Variables(y, w, {}, {}, p, {})
    completion = {
        j: completion_of(instance, job, entries[job.id]) for j, job in enumerate(instance.jobs)
    }
    last = max((t for t in completion.values() if t is not None), default=-1) + 1
    return Variables(
        y=y,
        w=w,
        z={(j, t): int(t == completion[j]) for j, t in model.completion_keys()},
        n={j: int(t is None) for j, t in completion.items()},
        p={},
        M={(): last} if instance.objective is Objective.MAKESPAN else {},
    )


def _within_windows(model: RoundNumbers, schedule: RoundSchedule) -> RoundSchedule:
    """Remove jobs that complete outside the rounds in which the model lets them complete."""
    if model.objective is Objective.ROUND_PROGRESS:
        return schedule
    kept: list[RoundEntry] = []
    for job, data in zip(model.instance.jobs, model.jobs, strict=True):
        entries = [entry for entry in schedule.entries if entry.job == job.id]
        if completion_of(model.instance, job, entries) in data.completions:
            kept += entries
    return RoundSchedule(tuple(kept))


def _fuller_first(model: RoundNumbers, schedule: RoundSchedule) -> RoundSchedule:
    """Permute equal servers in each round so that the fullest server is first in file order."""
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
    model: RoundNumbers, j: int, gpus: Placement, place_of: Mapping[str, int]
) -> tuple[int, int, dict[tuple[int, str], int]]:
    """Return the model's mode and rate level of a placement, and its GPUs by place and type."""
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
    raise AssertionError("the placement matches no mode of the model")


def schedule_of(
    model: RoundNumbers, y: Mapping[RunKey, int], w: Mapping[RunKey, int]
) -> RoundSchedule:
    """Return the schedule that values of the variables y and w describe."""
    instance = model.instance
    free: dict[int, dict[str, dict[str, int]]] = {}

    def left(t: int) -> dict[str, dict[str, int]]:
        if t not in free:
            free[t] = {server.id: dict(server.gpus) for server in instance.servers}
        return free[t]

    chosen = sorted(
        (t, model.modes[m].stays is None, m, v)
        for (m, v, t), count in y.items()
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
            counts = mode.fixed or tuple(w[m, c, t] for c in range(len(mode.cells)))
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


MOST_RUNS = 200_000


def supports(instance: Instance, _: bool) -> Unsupported | None:
    """Return why the model cannot handle the instance's objective or size; None if it can."""
    if instance.objective in SHARE_OBJECTIVES:
        return Unsupported(f"the model supports schedules in rounds only, not {instance.objective}")
    servers = 1 if not instance.forking else len(instance.servers)
    if any(job.spread_throughput is not None for job in instance.jobs):
        servers = len(instance.servers)
    runs = len(instance.jobs) * servers * len(instance.gpu_types) * instance.horizon_rounds
    if runs <= MOST_RUNS:
        return None
    return Unsupported(
        f"the model supports jobs x servers x types x rounds up to {MOST_RUNS}; "
        f"this instance has {runs}"
    )


def rounded_bound(instance: Instance) -> float:
    """Return a bound on the objective that needs no solver, rounded to the safe side."""
    bound = simple_bound(instance)
    return float_up(bound) if instance.variant.sense == "max" else -float_up(-bound)


ROUNDS = Formulation(
    problem=PROBLEM,
    variants=tuple(str(objective) for objective in Objective if objective not in SHARE_OBJECTIVES),
    supports=supports,
    data=lambda instance, start, in_floats: RoundModel.of(instance, start, in_floats=in_floats),
    whole=lambda instance, in_floats: RoundModel.of(
        instance, in_floats=in_floats, must_complete=True
    ),
    begin=best_of(ListSchedule()),
    simple_bound=rounded_bound,
    summary="Model of schedules in rounds",
    tidied=without_waste,
)
