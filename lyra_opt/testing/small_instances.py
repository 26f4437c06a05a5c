"""The small instances of each problem in which counterexamples are searched.

Instances are drawn by the strategies of `lyra_opt.testing.strategies` within a few limits. A table
of measures defines which of two instances is smaller. For two problems, the *plain* instances can
also be enumerated, to prove that no smaller counterexample exists among them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, combinations_with_replacement, islice, product
from math import ceil
from typing import Any

from hypothesis.strategies import SearchStrategy

from lyra_opt.allocation.instance import ElasticJob
from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.allocation.instance import Objective as AllocationObjective
from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Number
from lyra_opt.core.rules import require_choice, require_integer
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES
from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
from lyra_opt.network.instance import Instance as NetworkInstance
from lyra_opt.preemption.instance import GPU
from lyra_opt.preemption.instance import Instance as PreemptionInstance
from lyra_opt.reclaim.instance import Instance as ReclaimInstance
from lyra_opt.reclaim.instance import Job, Semantics, Server, WorkerGroup
from lyra_opt.testing.drawn_instances import PREEMPTION_FEATURES
from lyra_opt.testing.strategies import (
    allocation_instances,
    heterogeneous_instances,
    network_instances,
    preemption_instances,
    reclaim_instances,
)

MOST = 1_000_000
"""Largest allowed limit."""


def _reclaim_measures(instance: ReclaimInstance) -> dict[str, Number]:
    jobs = instance.jobs
    return {
        "servers": len(instance.servers),
        "jobs": len(jobs),
        "workers": sum(job.total_workers for job in jobs),
        "weight": instance.total_weight,
        "gpus": sum(server.gpus for server in instance.servers),
        "reclaim_servers": instance.reclaim_servers,
        "servers_not_on_loan": sum(not server.on_loan for server in instance.servers),
        "flexible_workers": sum(job.total_workers - job.base_workers for job in jobs),
        "slack_workers": sum(job.total_workers - job.min_workers for job in jobs),
    }


def _plain_reclaim(space: "InstanceSpace", servers: int, jobs: int) -> Iterator[ReclaimInstance]:
    kinds = [
        (hosts, weight, slack)
        for span in range(1, servers + 1)
        for hosts in combinations(range(1, servers + 1), span)
        for weight in range(1, min(2, space.limits["weight"]) + 1)
        for slack in range(1 if space.variant == Semantics.RIGID else span + 1)
    ]
    for chosen in combinations_with_replacement(kinds, jobs):
        held = [sum(server in hosts for hosts, _, _ in chosen) for server in range(1, servers + 1)]
        for reclaim_servers in range(1, servers):
            yield ReclaimInstance(
                name=space.name,
                semantics=Semantics(space.variant),
                reclaim_servers=reclaim_servers,
                servers=tuple(
                    Server(id=f"s{number}", gpus=max(1, gpus))
                    for number, gpus in enumerate(held, start=1)
                ),
                jobs=tuple(
                    Job(
                        id=f"j{number}",
                        workers=tuple(WorkerGroup(server=f"s{host}", base=1) for host in hosts),
                        weight=weight,
                        min_workers=len(hosts) - slack,
                    )
                    for number, (hosts, weight, slack) in enumerate(chosen, start=1)
                ),
            )


def _allocation_measures(instance: AllocationInstance) -> dict[str, Number]:
    jobs = instance.jobs
    return {
        "jobs": len(jobs),
        "gpus": instance.gpus,
        "workers": sum(job.max_workers for job in jobs),
        "base_workers": sum(job.min_workers for job in jobs),
        "work_worker_s": sum(job.work_worker_s for job in jobs),
        "release_s": sum(job.release_s for job in jobs),
        "running_jobs": sum(job.running for job in jobs),
        "usable_gpus": sum(job.max_workers * job.gpus_per_worker for job in jobs),
        "scaling_loss_percent": round(100 * sum(job.scaling_loss for job in jobs)),
    }


def _plain_allocation(space: "InstanceSpace", jobs: int, gpus: int) -> Iterator[AllocationInstance]:
    reduces = space.variant == AllocationObjective.JCT_REDUCTION
    kinds = [
        (least, most, work)
        for least in range(1, gpus + 1)
        # More workers than GPUs cannot run; under jct_reduction, base demands have their own GPUs.
        for most in range(least, gpus + (least if reduces else 0) + 1)
        for work in range(1, min(3, space.limits["work"]) + 1)
    ]
    for chosen in combinations_with_replacement(kinds, jobs):
        yield AllocationInstance(
            name=space.name,
            objective=AllocationObjective(space.variant),
            gpus=gpus,
            jobs=tuple(
                ElasticJob(id=f"j{n}", min_workers=least, max_workers=most, work_worker_s=work)
                for n, (least, most, work) in enumerate(chosen, start=1)
            ),
        )


def _heterogeneous_measures(instance: HeterogeneousInstance) -> dict[str, Number]:
    jobs = instance.jobs
    return {
        "jobs": len(jobs),
        "servers": len(instance.servers),
        "types": len(instance.gpu_types),
        "gpus": sum(instance.gpus_of_type.values()),
        "workers": sum(job.gang for job in jobs),
        "rounds": instance.horizon_rounds,
        "steps": sum(job.steps for job in jobs),
        "held_gpus": sum(job.gang for job in jobs if job.current),
        "release_s": sum(job.release_s for job in jobs),
        "jobs_slower_apart": sum(job.spread_throughput is not None for job in jobs),
    }


def _network_measures(instance: NetworkInstance) -> dict[str, Number]:
    jobs = instance.jobs
    return {
        "jobs": len(jobs),
        "machines": len(instance.machines),
        "racks": len(instance.racks),
        "gpus": sum(machine.gpus for machine in instance.machines),
        "workers": sum(job.gang for job in jobs),
        "gpus_taken": sum(machine.gpus - machine.free_gpus for machine in instance.machines),
        "efficiencies": sum(len(job.efficiency) for job in jobs),
        "waiting_s": sum(job.waiting_s for job in jobs),
    }


def _preemption_measures(instance: PreemptionInstance) -> dict[str, Number]:
    gangs, shapes = instance.gangs, instance.demand.shapes if instance.demand else ()
    return {
        "nodes": len(instance.nodes),
        "gangs": len(gangs),
        "pods": sum(gang.size for gang in gangs),
        "pending_pods": sum(shape.count for shape in shapes),
        "shapes": len(shapes),
        "gpus": sum(node.capacity.get(GPU, 0) for node in instance.nodes),
        "requested_gpus": sum(shape.count * shape.request.get(GPU, 0) for shape in shapes),
        "spare_pods": sum(gang.size - gang.min_pods for gang in gangs),
        "nodes_to_empty": instance.empty_nodes + sum(node.must_be_empty for node in instance.nodes),
        "fixed_gangs": sum(gang.is_protected or not gang.is_movable for gang in gangs),
        "cordoned_nodes": sum(not node.is_usable for node in instance.nodes),
        "priorities": len({gang.priority for gang in gangs}),
        "other_queues": sum(gang.queue != "default" for gang in gangs),
        "starts": sum(gang.start_s != 0 for gang in gangs),
        "limited_shapes": sum(shape.max_per_node is not None for shape in shapes),
    }


def _with_a_choice(instance: ReclaimInstance) -> ReclaimInstance:
    """Return the instance with N_R changed to at least 1 and less than all servers on loan."""
    most = max(0, len(instance.index.on_loan) - 1)
    return replace(instance, reclaim_servers=min(max(1, instance.reclaim_servers), most))


def _with_usable_workers(instance: AllocationInstance) -> AllocationInstance:
    """Return the instance with each `max_workers` lowered to the workers that its GPUs can hold.

    With more workers, gaps would come from time-sharing alone.
    """
    reduces = instance.objective is AllocationObjective.JCT_REDUCTION
    jobs = []
    for job in instance.jobs:
        usable = instance.gpus // job.gpus_per_worker + (job.min_workers if reduces else 0)
        jobs.append(replace(job, max_workers=max(job.min_workers, min(job.max_workers, usable))))
    return replace(instance, jobs=tuple(jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Domain:
    """The strategy, limits and size measures that define the small instances of a problem.

    Parameters
    ----------
    strategy
        The Hypothesis strategy. Each limit is its parameter of that name with the prefix ``max_``.
    tidied
        Turns an instance into one that is of interest, usually itself.
    variant_key
        The parameter of the strategy for the variant.
    exact
        Limits that are also parameters of the strategy with the prefix ``min_``.
    fixed
        Other arguments of the strategy.
    limits
        Default limits of the instances.
    measures
        Measures of an instance, most important first. The first measure that differs decides which
        of two instances is smaller.
    least
        The least values of the first two measures, which together are the size.
    proved_by
        The solver whose proof of an optimum is trusted, by variant; "" for all other variants.
    plain, plain_in_words
        Enumerates the plain instances of a size; describes which instances are plain.
    """

    strategy: Callable[..., SearchStrategy[Any]]
    tidied: Callable[[Any], Any] = lambda instance: instance
    variant_key: str = "objective"
    exact: tuple[str, ...] = ("jobs",)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int]
    measures: Callable[[Any], dict[str, Number]]
    least: Mapping[str, int]
    proved_by: Mapping[str, str]
    plain: "Callable[[InstanceSpace, int, int], Iterator[Any]] | None" = None
    plain_in_words: str = ""


DOMAINS = {
    "allocation": _Domain(
        strategy=allocation_instances,
        tidied=_with_usable_workers,
        fixed={"with_fractions": False},
        limits={
            "jobs": 4,
            "gpus": 6,
            "min_workers": 3,
            "extra_workers": 3,
            "gpus_per_worker": 3,
            "work": 24,
            "release": 8,
        },
        measures=_allocation_measures,
        proved_by={"mean_jct": "exact", "": "mckp-core"},
        plain=_plain_allocation,
        least={"jobs": 2, "gpus": 1},
        plain_in_words="one GPU per worker, work up to 3, no releases, running jobs or scaling "
        "losses, jobs in one order",
    ),
    "heterogeneous": _Domain(
        strategy=heterogeneous_instances,
        limits={"jobs": 3, "types": 2, "servers": 2, "gpus": 2, "gang": 2, "rounds": 5, "steps": 4},
        measures=_heterogeneous_measures,
        least={"jobs": 1, "servers": 1},
        proved_by={**dict.fromkeys(SHARE_OBJECTIVES, "lp-highs"), "": "cpsat"},
    ),
    "network": _Domain(
        strategy=network_instances,
        limits={"jobs": 4, "racks": 2, "machines": 4, "gpus": 4},
        measures=_network_measures,
        least={"jobs": 1, "machines": 1},
        proved_by={"": "cpsat"},
    ),
    "preemption": _Domain(
        strategy=preemption_instances,
        variant_key="moves",
        exact=("nodes", "gangs"),
        # The objective has one term, because ratios of encoded objectives have no meaning.
        fixed={
            "objective": ("lost_pods",),
            "without": tuple(
                each for each in PREEMPTION_FEATURES if each not in ("minima", "emptying")
            ),
        },
        limits={"nodes": 3, "gangs": 4, "pods": 2, "pending": 2, "request": 4, "idle": 2},
        measures=_preemption_measures,
        proved_by={"": "exact"},
        least={"nodes": 1, "gangs": 1},
    ),
    "reclaim": _Domain(
        strategy=reclaim_instances,
        tidied=_with_a_choice,
        variant_key="semantics",
        exact=("servers", "jobs"),
        fixed={"max_idle_gpus": 0},
        limits={"servers": 6, "jobs": 6, "weight": 3, "workers": 2, "gpus_per_worker": 1},
        measures=_reclaim_measures,
        proved_by={"": "exact"},
        plain=_plain_reclaim,
        least={"servers": 2, "jobs": 1},
        plain_in_words="all servers on loan, at most one worker of a job on a server, one GPU per "
        "worker, weights up to 2, jobs in one order",
    ),
}


@dataclass(frozen=True, kw_only=True)
class InstanceSpace:
    """The small instances of one variant of a problem.

    Parameters
    ----------
    problem
        The name of the problem.
    variant
        A variant of the problem, such as ``rigid``.
    limits
        Limits by name that replace the defaults; at least 1 each, ``release`` at least 0.
    name
        The name of all instances, on which the solvers' random choices depend.

    Raises
    ------
    FieldError
        If the problem has no such variant or limit, or a limit is out of range.
    """

    problem: str
    variant: str
    limits: Mapping[str, int]
    name: str = "drawn"

    def __post_init__(self) -> None:
        require_choice("variant", self.variant, list(find_problem(self.problem).variants))
        for key, value in self.limits.items():
            require_choice("limit", key, list(self._domain.limits))
            if require_integer(key, value, minimum=int(key != "release")) > MOST:
                raise FieldError(key, value, f"must be at most {MOST}")
        object.__setattr__(self, "limits", {**self._domain.limits, **self.limits})

    @property
    def _domain(self) -> _Domain:
        return DOMAINS[self.problem]

    @property
    def prover(self) -> str:
        """The name of the solver whose proof of an optimum is trusted."""
        return self._domain.proved_by.get(self.variant, self._domain.proved_by[""])

    @property
    def plain_in_words(self) -> str:
        """A description of the plain instances; empty if they are not enumerated."""
        return self._domain.plain_in_words

    def measures(self, instance: Any) -> dict[str, Number]:
        """Return the measures of an instance by name, most important first.

        Two instances are compared by the first measure that differs: the smaller value makes the
        smaller instance.
        """
        return self._domain.measures(instance)

    def order(self, instance: Any) -> tuple[Number, ...]:
        """Return the sort key of an instance; smaller instances have smaller keys."""
        return tuple(self.measures(instance).values())

    def strategy(self, measures: Mapping[str, Number]) -> SearchStrategy[Any]:
        """Return a strategy for instances of a given size, limited by the other `measures`."""
        domain = self._domain
        limits = {
            key: max(1, min(most, ceil(measures[key]))) if key in measures else most
            for key, most in self.limits.items()
        }
        return domain.strategy(
            **{f"max_{key}": most for key, most in limits.items()},
            **{f"min_{key}": limits[key] for key in domain.exact},
            **{domain.variant_key: self.variant, "name": self.name},
            **domain.fixed,
        ).map(domain.tidied)

    def holds(self, instance: Any) -> bool:
        """Return whether an instance belongs to this space; its size is not checked."""
        return bool(self._domain.tidied(instance) == instance)

    def sizes(self) -> Iterator[dict[str, int]]:
        """Yield the sizes of instances in increasing order; a size is a pair of measures."""
        keys = list(self._domain.least)
        ranges = (range(least, self.limits[key] + 1) for key, least in self._domain.least.items())
        for size in product(*ranges):
            yield dict(zip(keys, size, strict=True))

    def plain(self, size: Mapping[str, int], most: int) -> list[Any] | None:
        """Return all plain instances of a size, smallest first; None if there are more than `most`.

        Also None if the plain instances of the problem cannot be enumerated.
        """
        if self._domain.plain is None:
            return None
        found = list(islice(self._domain.plain(self, *size.values()), most + 1))
        return sorted(found, key=self.order) if len(found) <= most else None
