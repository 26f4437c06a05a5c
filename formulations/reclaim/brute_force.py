"""Reclaiming by trying every choice: slow, plain, and right; the oracle of the tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.stopwatch import require_time
from lyra_opt.formulations.brute_force import BruteForceSolver, too_many
from lyra_opt.reclaim.instance import Semantics, Solution
from lyra_opt.reclaim.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.core.solver import Unsupported
    from lyra_opt.reclaim.instance import Instance

MOST_CHOICES = 5_000_000
CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK = 1000


class BruteForce(BruteForceSolver):
    """Cost every choice of N_R servers on loan.

    Choices are enumerated in lexicographic order of file positions and the first of least cost
    is kept, which of the best choices makes the answer unique. Works on the instance's own
    records, on neither its arrays nor any reduction, and cuts nothing off, so that an error in
    those cannot hide here. Complexity O(C(n, N_R) * servers changed * jobs on a server).
    """

    of = PROBLEM
    variants = tuple(Semantics)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        servers = sum(server.on_loan for server in instance.servers)
        choices = math.comb(servers, instance.reclaim_servers)
        return too_many(
            choices,
            MOST_CHOICES,
            f"{instance.reclaim_servers} of {servers} servers can be chosen in {{}} ways",
        )

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Yield each choice that costs less than all before."""
        least: int | None = None
        for tried, (chosen, cost) in enumerate(_choices(instance)):
            if least is None or cost < least:
                least = cost
                yield Solution.of_positions(instance, chosen)
            if tried % CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
                require_time()

    def simple_bound(self, instance: Instance) -> int:  # noqa: ARG002
        """Return 0: no weight is negative."""
        return 0


def _choices(instance: Instance) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every choice of servers, as file positions, with its cost, lexicographically.

    From one choice to the next only the servers that differ are given back and taken.
    """
    on_loan = [position for position, server in enumerate(instance.servers) if server.on_loan]
    counter = _LossCounter(instance)
    size = instance.reclaim_servers
    chosen = list(range(size))  # numbers in on_loan, ascending
    for number in chosen:
        counter.take(on_loan[number])
    while True:
        yield tuple(on_loan[number] for number in chosen), counter.cost
        last_movable = size - 1
        while last_movable >= 0 and chosen[last_movable] == len(on_loan) - size + last_movable:
            last_movable -= 1
        if last_movable < 0:
            return
        for number in chosen[last_movable:]:
            counter.give_back(on_loan[number])
        first = chosen[last_movable] + 1
        chosen[last_movable:] = range(first, first + size - last_movable)
        for number in chosen[last_movable:]:
            counter.take(on_loan[number])


class _LossCounter:
    """The workers that each job loses to the servers taken, and the weight it costs."""

    def __init__(self, instance: Instance) -> None:
        self.cost = 0
        self._weight = [job.weight for job in instance.jobs]
        self._lost = [0] * len(instance.jobs)
        self._slack = []
        hosted: dict[str, list[tuple[int, int]]] = {}
        for number, job in enumerate(instance.jobs):
            rigid = instance.semantics is Semantics.RIGID
            self._slack.append(0 if rigid else job.total_workers - job.min_workers)
            for group in job.workers:
                losses = group.base if rigid else group.workers
                if losses:
                    hosted.setdefault(group.server, []).append((number, losses))
        self._hosted_at = [hosted.get(server.id, []) for server in instance.servers]

    def take(self, position: int) -> None:
        """Count the workers on the server at `position` as lost."""
        for job, workers in self._hosted_at[position]:
            survived = self._lost[job] <= self._slack[job]
            self._lost[job] += workers
            if survived and self._lost[job] > self._slack[job]:
                self.cost += self._weight[job]

    def give_back(self, position: int) -> None:
        """Count the workers on the server at `position` as not lost any more."""
        for job, workers in self._hosted_at[position]:
            was_preempted = self._lost[job] > self._slack[job]
            self._lost[job] -= workers
            if was_preempted and self._lost[job] <= self._slack[job]:
                self.cost -= self._weight[job]
