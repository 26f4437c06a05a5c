"""The model of schedules in rounds: what its rows are made of, whatever the backend.

Each method yields what stands in the rows of one constraint: where they are, and (coefficient,
variable) or variables alone, in a backend's own type.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.arithmetic import float_up
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.heterogeneous.coding import coded, decoded
from lyra_opt.formulations.heterogeneous.round_numbers import RoundNumbers, Variables
from lyra_opt.heterogeneous.heuristics.list_schedule import without_waste
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.heterogeneous.instance import RoundSchedule

    Terms = list[tuple[Number, Any]]


class RoundModel(RoundNumbers):
    """Everything that a backend needs; implements `formulations.exact_model.ModelData`."""

    __slots__ = ()

    @property
    def is_settled(self) -> bool:
        """Whether nothing can run, in objectives that take a schedule of nothing."""
        return not self.penalty and not any(True for _ in self.run_keys())

    @property
    def largest(self) -> Variables:
        """The largest value of each variable."""
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
        """Return the values of all variables for a schedule without waste."""
        return [value for kind in coded(self, solution) for value in kind.values()]

    def solution(self, values: Values) -> RoundSchedule:
        """Return the schedule that values of all variables stand for once they are rounded."""
        flat = iter(values)
        y = {key: round(next(flat)) for key in self.run_keys()}
        w = {key: round(next(flat)) for key in self.held_keys()}
        return without_waste(self.instance, decoded(self, y, w))

    def dual_bound(self, cost: Fraction) -> float:
        """Return the bound on the objective that a lower bound on the model's cost is."""
        if not self.penalty:
            return float_up(cost * self.unit.scale)
        rounds = math.ceil(cost)
        if rounds >= self.penalty:
            return math.inf
        return -float_up(-(rounds * self.unit.scale + self.unit.offset))

    @property
    def unit(self) -> CostUnit:
        """Of a cost without penalties: rounds, or minus what is worth as much as `scale.unit`."""
        if not self.penalty:
            return CostUnit(-self.scale.unit)
        round_s, jobs = Fraction(self.instance.round_s), self.instance.jobs
        if self.objective is Objective.MAKESPAN:
            return CostUnit(round_s)
        released_s = sum((Fraction(job.release_s) for job in jobs), Fraction(0))
        return CostUnit(round_s / len(jobs), -released_s / len(jobs))

    # Rows

    def group_runs(
        self, variables: Variables
    ) -> Iterator[tuple[int, int, list[Any], int, list[Any]]]:
        """Yield group, round, what runs, how many may, and z from then on (1 without z)."""
        for g, group in enumerate(self.groups):
            for t in self.jobs[group.job].slots:
                runs = self._runs(variables, group.modes, t)
                later = [variables.z[key] for key in self.completions_from(group.job, t)]
                one_round = self.objective is Objective.ROUND_PROGRESS
                yield g, t, runs, group.most, [1] if one_round else later

    def gangs(self, variables: Variables) -> Iterator[tuple[int, int, int, list[Any], list[Any]]]:
        """Yield mode with a choice of GPUs, round, gang, GPUs held by cell, and what runs."""
        for m, mode in self.modes_with_choice():
            for t in self.jobs[mode.job].slots:
                held = [variables.w[m, c, t] for c in range(len(mode.cells))]
                yield m, t, mode.gang, held, self._runs(variables, (m,), t)

    def bottlenecks(
        self, variables: Variables
    ) -> Iterator[tuple[int, int, int, int, list[Any], list[Any]]]:
        """Yield mode, level, round, gang, GPUs held that are slower, and what runs slower."""
        for m, mode in self.modes_with_choice():
            for v, cells in self.slower_cells(m):
                for t in self.jobs[mode.job].slots:
                    held = [variables.w[m, c, t] for c in cells]
                    slower = [variables.y[m, u, t] for u in range(v + 1, len(mode.levels))]
                    yield m, v, t, mode.gang, held, slower

    def spread_gangs(
        self, variables: Variables
    ) -> Iterator[tuple[int, int, int, int, list[Any], list[Any]]]:
        """Yield spread mode, server, round, gang, GPUs held of that server, and what runs."""
        for m, mode in enumerate(self.modes):
            for h, cells in enumerate(mode.limited):
                for t in self.jobs[mode.job].slots:
                    held = [variables.w[m, c, t] for c in cells]
                    yield m, h, t, mode.gang, held, self._runs(variables, (m,), t)

    def loads(self, variables: Variables) -> Iterator[tuple[int, int, int, int, Terms]]:
        """Yield place, type, round, how many GPUs there are, and what holds them, if anything."""
        using: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        for m, mode in enumerate(self.modes):
            for c, cell in enumerate(mode.cells):
                using[cell.place, cell.gpu_type].append((m, c))
        position = {kind.name: r for r, kind in enumerate(self.instance.gpu_types)}
        for (p, name), pairs in using.items():
            pairs.sort(key=lambda pair: self.modes[pair[0]].fixed is not None)
            for t in self.rounds():
                if held := self._held(variables, pairs, t):
                    yield p, position[name], t, self.places[p].gpus[name], held

    def alike_loads(self, variables: Variables) -> Iterator[tuple[int, int, int, Terms, Terms]]:
        """Yield two places that are alike, a round, and what is held on each of them then."""
        for p, q in self.alike_servers():
            pairs = [
                [
                    (m, c)
                    for m, mode in enumerate(self.modes)
                    for c, cell in enumerate(mode.cells)
                    if cell.place == place
                ]
                for place in (p, q)
            ]
            for t in self.rounds():
                first, second = (self._held(variables, of_place, t) for of_place in pairs)
                if second:
                    yield p, q, t, first, second

    def work(self, variables: Variables) -> Iterator[tuple[int, int, Number, list[Any], Terms]]:
        """Yield job, round, steps due, z until then, and the steps done until then."""
        for j, t in self.completion_keys():
            done = self._until(variables, j, t, self.jobs[j].steps)
            yield j, t, self.jobs[j].due, self._completed(variables, j, t), done

    def counted_rounds(
        self, variables: Variables
    ) -> Iterator[tuple[int, int, int, int, list[Any], Terms]]:
        """Yield job, level, round, rounds needed, z until then, and the rounds run until then."""
        for j, t in self.completion_keys():
            for a, (needed, counts) in enumerate(self.jobs[j].rounds_needed):
                counted = self._until(variables, j, t, counts)
                yield j, a, t, needed, self._completed(variables, j, t), counted

    def endings(self, variables: Variables) -> Iterator[tuple[int, list[Any], Any]]:
        """Yield job, z, and n."""
        for j, never in variables.n.items():
            yield j, [variables.z[key] for key in self.completions_from(j, 0)], never

    def last_rounds(self, variables: Variables) -> Iterator[tuple[int, Terms, Any]]:
        """Yield job, rounds until it completes, and M (``makespan``)."""
        for last in variables.M.values():
            for j, job in enumerate(self.jobs):
                yield j, [(t + 1, variables.z[j, t]) for t in job.completions], last

    def gains(self, variables: Variables) -> Iterator[tuple[int, Any, Terms]]:
        """Yield job, p, and the progress that it makes (``round_progress``)."""
        for j, made in variables.p.items():
            job = self.jobs[j]
            yield j, made, self._until(variables, j, job.slots.stop - 1, job.gains)

    def cost(self, variables: Variables) -> Terms:
        """Return what is minimised."""
        terms: Terms = [(1, last) for last in variables.M.values()]
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

    def _runs(self, variables: Variables, modes: Iterable[int], t: int) -> list[Any]:
        return [variables.y[key] for key in self.runs_of(modes, t)]

    def _held(self, variables: Variables, pairs: Iterable[tuple[int, int]], t: int) -> Terms:
        """Return what may be held in a round by modes in their cells."""
        held: Terms = []
        for m, c in pairs:
            mode = self.modes[m]
            if t in self.jobs[mode.job].slots:
                if mode.fixed is None:
                    held.append((1, variables.w[m, c, t]))
                else:
                    held += [(mode.fixed[c], run) for run in self._runs(variables, (m,), t)]
        return held

    def _completed(self, variables: Variables, j: int, t: int) -> list[Any]:
        return [variables.z[key] for key in self.completions_until(j, t)]

    def _until(self, variables: Variables, j: int, t: int, each: Any) -> Terms:
        """Return what a job's runs until a round count, `each` by mode and level."""
        return [
            (each[m, v], variables.y[m, v, s])
            for s in range(self.jobs[j].slots.start, t + 1)
            for m, v, _ in self.runs_of(self.modes_of(j), s)
        ]
