"""Hypothesis strategies for property tests of solvers, including your own.

A strategy covers the *domain*: it can draw every valid instance within its limits, and failures
shrink towards few servers, few jobs and small numbers. It does not model a real cluster; for
realistic distributions, see the generators in the package ``instances``.

>>> from hypothesis import given
>>> @given(reclaim_instances(semantics="rigid", max_servers=4))
... def test_every_job_weighs_something(instance):
...     assert instance.total_weight >= 0
"""

from collections.abc import Callable
from fractions import Fraction
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from lyra_opt.heterogeneous.checker import due_steps
from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
from lyra_opt.heterogeneous.instance import RoundEntry, RoundSchedule
from lyra_opt.network.instance import GangPlacement, Solution
from lyra_opt.network.instance import Instance as NetworkInstance
from lyra_opt.reclaim.instance import Instance as ReclaimInstance
from lyra_opt.testing import drawn_instances
from lyra_opt.testing.choices import Choices

__all__ = [
    "allocation_instances",
    "heterogeneous_instances",
    "network_instances",
    "network_solutions_of",
    "preemption_instances",
    "reclaim_instances",
    "reclaim_servers_of",
    "round_schedules_of",
]

P = ParamSpec("P")
T = TypeVar("T")


def strategy_of(drawn: Callable[Concatenate[Choices, P], T]) -> Callable[P, SearchStrategy[T]]:
    """Return a function that makes strategies of a function that draws from `Choices`."""

    def by_hypothesis(draw: DrawFn, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drawn(Choices(lambda low, high: draw(st.integers(low, high))), *args, **kwargs)

    update_wrapper(by_hypothesis, drawn)
    return st.composite(by_hypothesis)


reclaim_instances = strategy_of(drawn_instances.reclaim_instance)
allocation_instances = strategy_of(drawn_instances.allocation_instance)
heterogeneous_instances = strategy_of(drawn_instances.heterogeneous_instance)
network_instances = strategy_of(drawn_instances.network_instance)
preemption_instances = strategy_of(drawn_instances.preemption_instance)


def reclaim_servers_of(instance: ReclaimInstance) -> SearchStrategy[tuple[int, ...]]:
    """Return a strategy for the positions of ``reclaim_servers`` distinct servers on loan."""
    on_loan = [position for position, server in enumerate(instance.servers) if server.on_loan]
    return st.permutations(on_loan).map(
        lambda order: tuple(sorted(order[: instance.reclaim_servers]))
    )


@strategy_of
def round_schedules_of(choose: Choices, instance: HeterogeneousInstance) -> RoundSchedule:
    """Draw a round-based schedule that is valid, except that jobs may be incomplete.

    Round by round, jobs that are not complete are placed, in random order, on free GPUs. A
    placement on which a job cannot run is left out.
    """
    entries = []
    done = dict.fromkeys((job.id for job in instance.jobs), Fraction(0))
    for number in range(instance.horizon_rounds):
        free = {server.id: dict(server.gpus) for server in instance.servers}
        before = dict(done)
        for job in choose.order(instance.jobs):
            if number < instance.first_round(job) or before[job.id] >= due_steps(job):
                continue
            for part in [{place: free[place]} for place in free] if instance.forking else [free]:
                is_placed = not choose.yes(4)
                gpus = drawn_instances.take_gpus(choose, part, job.gang) if is_placed else {}
                if gpus and job.rate_of(gpus):
                    entries.append(RoundEntry(job=job.id, round=number, gpus=gpus))
                    done[job.id] += Fraction(job.rate_of(gpus)) * Fraction(instance.round_s)
    return RoundSchedule(tuple(entries))


@strategy_of
def network_solutions_of(choose: Choices, instance: NetworkInstance) -> Solution:
    """Draw a valid solution: gangs in random order, on free GPUs, at tiers that they accept."""
    free = {machine.id: machine.free_gpus for machine in instance.machines}
    placements = []
    for job in choose.order(instance.jobs):
        slots = [machine for machine, count in free.items() for _ in range(count)]
        # Half of the samples take GPUs in file order, because random GPUs are rarely close.
        taken = slots[: job.gang] if choose.yes() else choose.some(slots, job.gang, job.gang)
        if len(taken) < job.gang or choose.yes(3):
            continue
        gpus = {machine: taken.count(machine) for machine in dict.fromkeys(taken)}
        tier = instance.tier_of(gpus)
        if tier not in instance.tiers_of(job):
            continue
        for machine, count in gpus.items():
            free[machine] -= count
        placements.append(GangPlacement(job=job.id, tier=tier.label, gpus=gpus))
    return Solution(tuple(placements))
