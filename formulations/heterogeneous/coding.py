"""From schedules to values of variables, and back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lyra_opt.formulations.heterogeneous.round_numbers import Variables
from lyra_opt.heterogeneous.checker import completion_of
from lyra_opt.heterogeneous.instance import Objective, RoundEntry, RoundSchedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.heterogeneous.round_numbers import RoundNumbers, RunKey
    from lyra_opt.heterogeneous.instance import Placement


def coded(model: RoundNumbers, schedule: RoundSchedule) -> Variables:
    """Return the values of all variables for a schedule without waste."""
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
    """Return the schedule without jobs that complete where that is worth nothing."""
    if model.objective is Objective.ROUND_PROGRESS:
        return schedule
    kept: list[RoundEntry] = []
    for job, data in zip(model.instance.jobs, model.jobs, strict=True):
        entries = [entry for entry in schedule.entries if entry.job == job.id]
        if completion_of(model.instance, job, entries) in data.completions:
            kept += entries
    return RoundSchedule(tuple(kept))


def _fuller_first(model: RoundNumbers, schedule: RoundSchedule) -> RoundSchedule:
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
    model: RoundNumbers, j: int, gpus: Placement, place_of: Mapping[str, int]
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


def decoded(model: RoundNumbers, y: Mapping[RunKey, int], w: Mapping[RunKey, int]) -> RoundSchedule:
    """Return the schedule that values of y and w stand for."""
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
