"""Brute force for reclaiming: evaluate every choice of servers."""

import math
from collections.abc import Iterator
from itertools import combinations

from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time
from lyra_opt.formulations.brute_force import BruteForceSolver, too_many
from lyra_opt.reclaim.instance import Instance, Semantics, Solution
from lyra_opt.reclaim.problem import PROBLEM

MOST_CHOICES = 5_000_000
CHOICES_BETWEEN_TIME_CHECKS = 1000


class BruteForce(BruteForceSolver):
    """Brute-force solver that evaluates every choice of N_R servers on loan to take back.

    Choices are enumerated in lexicographic order of file positions. The first choice of least cost
    is kept, so the answer is unique. The search uses only the records of the instance, neither its
    arrays nor a reduction, and prunes nothing. An error in the arrays or the reduction therefore
    shows up as a different optimum. Complexity O(C(n, N_R) * servers changed * jobs on a server).
    """

    of = PROBLEM
    variants = tuple(Semantics)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why brute force refuses the instance; None if it can solve the instance."""
        servers = sum(server.on_loan for server in instance.servers)
        choices = math.comb(servers, instance.reclaim_servers)
        return too_many(
            choices,
            MOST_CHOICES,
            f"{instance.reclaim_servers} of {servers} servers can be chosen in {{}} ways",
        )

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Enumerate choices of servers; yield each that costs less than all choices before it."""
        least: int | None = None
        for tried, (chosen, cost) in enumerate(_choices(instance)):
            if least is None or cost < least:
                least = cost
                yield Solution.of_positions(instance, chosen)
            if tried % CHOICES_BETWEEN_TIME_CHECKS == 0:
                require_time()

    def simple_bound(self, instance: Instance) -> int:  # noqa: ARG002
        """Return 0, a lower bound because weights are not negative."""
        return 0


def _choices(instance: Instance) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every choice of servers, as file positions in lexicographic order, with its cost.

    The cost is updated only for the servers that differ from the previous choice.
    """
    on_loan = [position for position, server in enumerate(instance.servers) if server.on_loan]
    counter = _LossCounter(instance)
    before: tuple[int, ...] = ()
    for chosen in combinations(on_loan, instance.reclaim_servers):
        pairs = enumerate(zip(before, chosen, strict=False))
        first = next((place for place, (old, new) in pairs if old != new), 0)
        for position in before[first:]:
            counter.count(position, -1)
        for position in chosen[first:]:
            counter.count(position, 1)
        yield chosen, counter.cost
        before = chosen


class _LossCounter:
    """The workers that each job loses to the chosen servers, and the total weight preempted."""

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

    def count(self, position: int, sign: int) -> None:
        """Count the workers on the server at `position` as lost (sign 1) or as kept (sign -1)."""
        for job, workers in self._hosted_at[position]:
            was_preempted = self._lost[job] > self._slack[job]
            self._lost[job] += sign * workers
            if was_preempted is not (self._lost[job] > self._slack[job]):
                self.cost += sign * self._weight[job]
