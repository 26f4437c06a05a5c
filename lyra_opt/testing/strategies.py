"""Hypothesis strategies for property tests of solvers, including your own.

A strategy covers the *domain*: it can draw every valid instance within its limits, and failures
shrink towards few servers, few jobs and small numbers. It does not model a real cluster; for
realistic distributions, see the generators in the package ``instances``.

>>> from hypothesis import given
>>> @given(reclaim_instances(semantics="rigid", max_servers=4))
... def test_every_job_weighs_something(instance):
...     assert instance.total_weight >= 0
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.core.rules import require_choice
from lyra_opt.heterogeneous.checker import due_steps
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    GangJob,
    GpuServer,
    GpuType,
    PackedRate,
    RoundEntry,
    RoundSchedule,
)
from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
from lyra_opt.heterogeneous.instance import Objective as HeterogeneousObjective
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, UtilityTable
from lyra_opt.network.instance import GangPlacement, Machine, Solution, WaitingJob
from lyra_opt.network.instance import Instance as NetworkInstance
from lyra_opt.network.instance import Objective as NetworkObjective
from lyra_opt.network.links import Tier
from lyra_opt.preemption.instance import (
    GPU,
    VICTIMS,
    Budget,
    Demand,
    Gang,
    Moves,
    Node,
    PodGroup,
    Shape,
)
from lyra_opt.preemption.instance import Instance as PreemptionInstance
from lyra_opt.preemption.objective import BUDGET_COUNTS, TERMS
from lyra_opt.reclaim.instance import Instance as ReclaimInstance
from lyra_opt.reclaim.instance import Job, Semantics, Server, WorkerGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from lyra_opt.heterogeneous.utility import Utility

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


@st.composite
def reclaim_instances(
    draw: DrawFn,
    *,
    semantics: Semantics | str | None = None,
    min_servers: int = 0,
    max_servers: int = 7,
    min_jobs: int = 0,
    max_jobs: int = 7,
    max_weight: int = 5,
    max_workers: int = 3,
    max_gpus_per_worker: int = 3,
    max_idle_gpus: int = 2,
    with_off_loan: bool = True,
    name: str = "drawn",
) -> ReclaimInstance:
    """Draw a valid reclaim instance.

    It may have no servers or jobs, empty servers, servers with equal contents, and servers that are
    not on loan. Jobs may have weight 0, only flexible workers, or several GPUs per worker. N_R is
    from 0 to all servers on loan. Interchangeable jobs need none, some or all of their workers.

    Parameters
    ----------
    semantics
        Rigid or interchangeable; None draws one of them.
    min_servers, max_servers
        Number of servers, on loan or not.
    min_jobs, max_jobs
        Number of jobs; 0 if there are no servers.
    max_weight
        Largest weight of a job; the smallest is 0.
    max_workers
        Most base workers, and most flexible workers, of a job on one server.
    max_gpus_per_worker
        Most GPUs of a worker.
    max_idle_gpus
        Most GPUs of a server that no worker holds.
    with_off_loan
        Whether some servers may not be on loan.
    name
        The name of the instance.
    """
    drawn_semantics = Semantics(semantics or draw(st.sampled_from(Semantics)))
    server_ids = [f"s{number}" for number in range(draw(st.integers(min_servers, max_servers)))]
    job_ids = [f"j{number}" for number in range(draw(st.integers(min_jobs, max_jobs)))]
    bounds = (max_weight, max_workers, max_gpus_per_worker)
    jobs = tuple(
        draw(_placed_jobs(job_id, drawn_semantics, server_ids, *bounds))
        for job_id in job_ids
        if server_ids
    )
    # Servers have enough GPUs for their workers, so that no drawn instance is rejected.
    held_gpus = dict.fromkeys(server_ids, 0)
    for placed in jobs:
        for group in placed.workers:
            held_gpus[group.server] += group.workers * placed.gpus_per_worker
    on_loan = st.sampled_from((True, True, True, False)) if with_off_loan else st.just(True)
    servers = tuple(
        Server(
            id=server,
            gpus=max(1, held + draw(st.integers(0, max_idle_gpus))),
            on_loan=draw(on_loan),
        )
        for server, held in held_gpus.items()
    )
    return ReclaimInstance(
        name=name,
        semantics=drawn_semantics,
        reclaim_servers=draw(st.integers(0, sum(server.on_loan for server in servers))),
        servers=servers,
        jobs=jobs,
    )


@st.composite
def _placed_jobs(
    draw: DrawFn,
    job_id: str,
    semantics: Semantics,
    server_ids: list[str],
    max_weight: int,
    max_workers: int,
    max_gpus_per_worker: int,
) -> Job:
    """Draw a job with workers on some of the servers."""
    hosts = draw(st.lists(st.sampled_from(server_ids), min_size=1, unique=True))
    counts = st.tuples(st.integers(0, max_workers), st.integers(0, max_workers)).filter(any)
    # Half of the jobs get equal groups on every server; independent draws rarely produce that.
    even = draw(st.none() | counts)
    workers = []
    for server in hosts:
        base, flexible = even or draw(counts)
        workers.append(WorkerGroup(server=server, base=base, flexible=flexible))
    total_workers = sum(group.workers for group in workers)
    rigid = semantics is Semantics.RIGID
    return Job(
        id=job_id,
        workers=tuple(workers),
        weight=draw(st.integers(0, max_weight)),
        gpus_per_worker=draw(st.integers(1, max_gpus_per_worker)),
        **({} if rigid else {"min_workers": draw(st.integers(0, total_workers))}),
    )


def reclaim_servers_of(instance: ReclaimInstance) -> SearchStrategy[tuple[int, ...]]:
    """Return a strategy for the positions of ``reclaim_servers`` distinct servers on loan."""
    on_loan = [position for position, server in enumerate(instance.servers) if server.on_loan]
    return st.permutations(on_loan).map(
        lambda order: tuple(sorted(order[: instance.reclaim_servers]))
    )


SCALING_LOSSES = (0.0, 0.2, 0.5, 1.0)


@st.composite
def allocation_instances(
    draw: DrawFn,
    *,
    objective: Objective | str | None = None,
    min_jobs: int = 1,
    max_jobs: int = 4,
    max_min_workers: int = 3,
    max_extra_workers: int = 3,
    max_gpus_per_worker: int = 2,
    max_gpus: int = 12,
    max_work: int = 40,
    max_release: int = 12,
    with_fractions: bool = True,
    with_releases: bool = True,
    with_running: bool = True,
    name: str = "drawn",
) -> AllocationInstance:
    """Draw a valid allocation instance.

    The instance may have several GPUs per worker, jobs with w_min = w_max, equal jobs, running
    jobs, equal releases, and workers that contribute nothing (scaling loss 1). Jobs may fit only in
    part or, if the objective allows it, not at all. Under `jct_reduction` and `two_phase`, the
    cluster may have no GPUs.

    Parameters
    ----------
    objective
        The objective; None draws one of the four.
    min_jobs, max_jobs
        Number of jobs.
    max_min_workers
        Largest base demand, in workers.
    max_extra_workers
        Most workers beyond the base demand.
    max_gpus_per_worker
        Most GPUs of a worker.
    max_gpus
        Most GPUs, unless base demands that must fit need more.
    max_work
        Most work of a job, in worker-seconds.
    max_release
        Latest release, in seconds.
    with_fractions
        Whether work and releases may be multiples of 1/8; otherwise they are whole numbers.
    with_releases, with_running
        Whether jobs may be released after 0, and may be running. Both are drawn for every
        objective, even if it ignores them.
    name
        The name of the instance.
    """
    drawn_objective = Objective(objective or draw(st.sampled_from(Objective)))
    parts = 8 if with_fractions else 1
    works = st.integers(1, max_work * parts).map(lambda eighths: eighths / parts)
    releases = st.integers(0, max_release * parts).map(lambda eighths: eighths / parts)
    # In half of the instances, all jobs have the same scaling loss, so that values often tie.
    losses = st.sampled_from(SCALING_LOSSES)
    common_loss = draw(st.none() | losses)
    jobs = []
    for number in range(draw(st.integers(min_jobs, max_jobs))):
        min_workers = draw(st.integers(1, max_min_workers))
        running = with_running and draw(st.sampled_from((False, False, True)))
        jobs.append(
            ElasticJob(
                id=f"j{number}",
                min_workers=min_workers,
                max_workers=min_workers + draw(st.integers(0, max_extra_workers)),
                work_worker_s=draw(works),
                gpus_per_worker=draw(st.integers(1, max_gpus_per_worker)),
                release_s=draw(releases) if with_releases and not running else 0.0,
                running=running,
                scaling_loss=draw(losses) if common_loss is None else common_loss,
            )
        )
    # The cluster can hold all demands that must fit, so that no drawn instance is rejected.
    least_gpus = 0
    if drawn_objective is not Objective.JCT_REDUCTION:
        least_gpus = sum(job.min_gpus for job in jobs if job.running)
    if drawn_objective is Objective.MEAN_JCT:
        least_gpus = max(least_gpus, *(job.min_gpus for job in jobs))
    if drawn_objective is Objective.JOINT:
        least_gpus = max(least_gpus, 1)
    return AllocationInstance(
        name=name,
        objective=drawn_objective,
        gpus=draw(st.integers(least_gpus, max(least_gpus, max_gpus))),
        jobs=tuple(jobs),
    )


GANG_RATES = (0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0)


@st.composite
def heterogeneous_instances(
    draw: DrawFn,
    *,
    objective: HeterogeneousObjective | str | None = None,
    forking: bool | None = None,
    min_jobs: int = 1,
    max_jobs: int = 3,
    max_types: int = 3,
    max_servers: int = 3,
    max_gpus: int = 2,
    max_gang: int = 3,
    max_rounds: int = 6,
    max_steps: int = 5,
    with_releases: bool = True,
    with_packing: bool = False,
    name: str = "drawn",
) -> HeterogeneousInstance:
    """Draw a valid heterogeneous instance.

    Servers may have several types, and types may have no GPUs. Gangs may fit nowhere (schedules
    only), may be unable to run on some types, and may be slower or faster when spread. Jobs may be
    equal or hold GPUs already, horizons may be too short, and restarts may take a whole round.

    Parameters
    ----------
    objective
        The objective; None draws any.
    forking
        Whether copies may run at once; None draws it if the objective allows both.
    min_jobs, max_jobs
        Number of jobs.
    max_types, max_servers
        Most GPU types and most servers; there is at least one of each.
    max_gpus
        Most GPUs of a type on a server.
    max_gang
        Largest gang; smaller if the objective shares time, because gangs must then fit.
    max_rounds
        Most rounds of a schedule.
    max_steps
        Most steps of a job; steps are multiples of one half.
    with_releases
        Whether jobs may be released after 0.
    with_packing
        Whether jobs may share GPUs, which only objectives that share time allow; some jobs then
        have the same kind.
    name
        The name of the instance.
    """
    drawn_objective = HeterogeneousObjective(
        objective or draw(st.sampled_from(HeterogeneousObjective))
    )
    shares = drawn_objective in SHARE_OBJECTIVES
    one_round = drawn_objective is HeterogeneousObjective.ROUND_PROGRESS
    types = [f"t{number}" for number in range(draw(st.integers(1, max_types)))]
    counts = st.fixed_dictionaries({gpu_type: st.integers(0, max_gpus) for gpu_type in types})
    servers = tuple(
        GpuServer(id=f"s{number}", gpus=draw(counts.filter(lambda gpus: any(gpus.values()))))
        for number in range(draw(st.integers(1, max_servers)))
    )
    gpus_of_type = {
        gpu_type: sum(server.gpus.get(gpu_type, 0) for server in servers) for gpu_type in types
    }
    largest = max(gpus_of_type.values()) if shares else max_gang
    rates = st.fixed_dictionaries(
        {gpu_type: st.sampled_from(GANG_RATES) for gpu_type in types}
    ).filter(lambda of_type: any(of_type.values()))
    round_s = draw(st.sampled_from((1.0, 1.0, 2.0, 0.5)))
    free = {server.id: dict(server.gpus) for server in servers}
    jobs = []
    for number in range(draw(st.integers(min_jobs, max_jobs))):
        gang = draw(st.integers(1, min(max_gang, largest)))
        throughput = draw(rates)
        if shares and not any(
            throughput[gpu_type] and gpus_of_type[gpu_type] >= gang for gpu_type in types
        ):
            throughput[max(types, key=lambda gpu_type: gpus_of_type[gpu_type])] = 1.0
        holds = draw(st.booleans())
        jobs.append(
            GangJob(
                id=f"j{number}",
                gang=gang,
                steps=draw(st.integers(1, 2 * max_steps)) / 2,
                throughput=throughput,
                spread_throughput=draw(st.none() | rates),
                release_s=draw(st.integers(0, 4)) / 2 if with_releases else 0.0,
                weight=draw(st.sampled_from((1.0, 1.0, 2.0, 0.5))),
                utility=draw(_utilities()),
                elapsed_s=draw(st.integers(0, 4)) / 2,
                isolated_elapsed_s=draw(st.integers(0, 4)) / 2,
                current=_taken(draw, free, gang) if holds else {},
            )
        )
    if forking is None and not shares:
        forking = draw(st.booleans())
    packed = _packed(draw, jobs, types) if with_packing and shares else ()
    return HeterogeneousInstance(
        name=name,
        objective=drawn_objective,
        gpu_types=tuple(
            GpuType(name=gpu_type, price_per_hour=draw(st.sampled_from((1.0, 0.5, 3.0))))
            for gpu_type in types
        ),
        servers=servers,
        jobs=tuple(jobs),
        packed=packed,
        round_s=round_s,
        horizon_rounds=1 if one_round else draw(st.integers(1, max_rounds)),
        restart_s=draw(st.sampled_from((0.0, 0.25, 1.0))) * round_s if one_round else 0.0,
        forking=bool(forking),
    )


def _packed(draw: DrawFn, jobs: list[GangJob], types: list[str]) -> tuple[PackedRate, ...]:
    """Give each job a kind, perhaps that of an earlier job; return rates for pairs of kinds."""
    for number, job in enumerate(jobs):
        like = draw(st.integers(0, number))
        first = jobs[like]
        kind = f"k{number}" if like == number else first.kind
        jobs[number] = replace(
            job, kind=kind, gang=first.gang, throughput=first.throughput, current={}
        )
    of_kind = {job.kind: job.gang for job in jobs}
    rates = st.dictionaries(st.sampled_from(types), st.sampled_from(GANG_RATES))
    return tuple(
        PackedRate(kind=str(kind), beside=str(beside), throughput=draw(rates))
        for kind, gang in of_kind.items()
        for beside, other_gang in of_kind.items()
        if gang == other_gang and draw(st.booleans())
    )


def _utilities() -> SearchStrategy[Utility]:
    """Return a strategy for utilities whose steps are near the completions of small schedules."""
    times = st.integers(1, 16).map(lambda halves: halves / 2)
    values = st.integers(0, 4).map(float)
    tables = st.lists(times, min_size=1, max_size=3, unique=True).flatmap(
        lambda ends: st.lists(values, min_size=len(ends), max_size=len(ends)).map(
            lambda found: UtilityTable(
                entries=tuple(zip(sorted(ends), sorted(found, reverse=True), strict=True))
            )
        )
    )
    deadlines = st.builds(
        lambda deadline_s, value, part: Deadline(
            deadline_s=deadline_s, value=value, late_value=value * part
        ),
        times,
        values,
        st.sampled_from((0.0, 0.25, 1.0)),
    )
    return (
        st.sampled_from((1.0, 3.0)).map(lambda scale: InverseJct(scale=scale)) | deadlines | tables
    )


def _taken(draw: DrawFn, free: dict[str, dict[str, int]], gang: int) -> dict[str, dict[str, int]]:
    """Take random free GPUs for a gang; return an empty placement if too few are free."""
    places = [
        (server, gpu_type)
        for server, types in free.items()
        for gpu_type, count in types.items()
        for _ in range(count)
    ]
    if len(places) < gang:
        return {}
    taken: dict[str, dict[str, int]] = {}
    for server, gpu_type in draw(st.permutations(places))[:gang]:
        free[server][gpu_type] -= 1
        taken.setdefault(server, {}).setdefault(gpu_type, 0)
        taken[server][gpu_type] += 1
    return taken


@st.composite
def round_schedules_of(draw: DrawFn, instance: HeterogeneousInstance) -> RoundSchedule:
    """Draw a round-based schedule that is valid, except that jobs may be incomplete.

    Round by round, jobs that are not complete are placed, in random order, on free GPUs. A
    placement on which a job cannot run is left out.
    """
    entries = []
    done = dict.fromkeys((job.id for job in instance.jobs), Fraction(0))
    for number in range(instance.horizon_rounds):
        free = {server.id: dict(server.gpus) for server in instance.servers}
        before = dict(done)
        for job in draw(st.permutations(instance.jobs)):
            if number < instance.first_round(job) or before[job.id] >= due_steps(job):
                continue
            on = [{place: free[place]} for place in free] if instance.forking else [free]
            for part in on:
                is_placed = draw(st.sampled_from((True, True, True, False)))
                gpus = _taken(draw, part, job.gang) if is_placed else {}
                if gpus and job.rate_of(gpus):
                    entries.append(RoundEntry(job=job.id, round=number, gpus=gpus))
                    done[job.id] += Fraction(job.rate_of(gpus)) * Fraction(instance.round_s)
    return RoundSchedule(tuple(entries))


EFFICIENCIES = (1.0, 1.0, 0.9, 0.75, 0.5, 0.3, 0.05)
WAITS_S = (0.0, 0.0, 1.0, 3600.0, 7200.0)
TIMERS_S = (0.0, 0.0, 3600.0, 7200.5, None)


@st.composite
def network_instances(
    draw: DrawFn,
    *,
    objective: NetworkObjective | str | None = None,
    min_jobs: int = 1,
    max_jobs: int = 5,
    max_racks: int = 3,
    max_machines: int = 5,
    max_gpus: int = 4,
    with_timers: bool = True,
    name: str = "drawn",
) -> NetworkInstance:
    """Draw a valid network instance.

    Machines of a rack may not be adjacent in the file, may have different sizes, and may be full or
    empty; there may be no free GPU at all. Gangs may fit nowhere, be unable to run at some tiers,
    run better across more of the network, be equal, or have no value. Timers may hold a gang back,
    some of them for ever.

    Parameters
    ----------
    objective
        The objective; None draws one of the four.
    min_jobs, max_jobs
        Number of jobs.
    max_racks, max_machines
        Most racks, and most machines in all racks; there is at least one of each.
    max_gpus
        Most GPUs of a machine.
    with_timers
        Whether timers may hold a gang back; otherwise all timers have expired.
    name
        The name of the instance.
    """
    racks = [f"r{number}" for number in range(draw(st.integers(1, max_racks)))]
    machines = []
    for number in range(draw(st.integers(1, max_machines))):
        gpus = draw(st.integers(1, max_gpus))
        machines.append(
            Machine(
                id=f"m{number}",
                rack=draw(st.sampled_from(racks)),
                gpus=gpus,
                free_gpus=draw(st.just(gpus) | st.integers(0, gpus)),
                affinity=draw(st.none() | st.integers(1, max_gpus)),
            )
        )
    cluster = sum(machine.gpus for machine in machines)
    # Half of the gangs fit on a machine, because wide gangs alone leave nothing to pack.
    gangs = st.integers(1, max_gpus) | st.integers(1, cluster + 1)
    jobs = []
    for number in range(draw(st.integers(min_jobs, max_jobs))):
        gang = draw(gangs)
        tiers = [tier.label for tier in Tier] if gang > 1 else [Tier.MACHINE.label]
        kept = draw(st.just(set(tiers)) | st.sets(st.sampled_from(tiers), min_size=1))
        efficiency = {tier: draw(st.sampled_from(EFFICIENCIES)) for tier in tiers if tier in kept}
        jobs.append(
            WaitingJob(
                id=f"j{number}",
                gang=gang,
                efficiency=efficiency,
                score=draw(st.sampled_from((0.0, 0.0, 0.25, 0.7, 1.0))),
                waiting_s=draw(st.sampled_from(WAITS_S)),
                rack_timer_s=draw(st.sampled_from(TIMERS_S)) if with_timers else 0.0,
                network_timer_s=draw(st.sampled_from(TIMERS_S)) if with_timers else 0.0,
                weight=draw(st.sampled_from((1.0, 1.0, 2.0, 0.3))),
                remaining_s=draw(st.sampled_from((3600.0, 1.0, 5000.0))),
                attained_gpu_s=draw(st.sampled_from((0.0, 0.0, 1e4))),
                needs_consolidation=draw(st.booleans()),
            )
        )
    return NetworkInstance(
        name=name,
        objective=NetworkObjective(objective or draw(st.sampled_from(NetworkObjective))),
        machines=tuple(machines),
        jobs=tuple(jobs),
        waiting_weight_per_s=draw(st.sampled_from((1e-6, 0.0, 1e-4))),
    )


@st.composite
def network_solutions_of(draw: DrawFn, instance: NetworkInstance) -> Solution:
    """Draw a valid solution: gangs in random order, on free GPUs, at tiers that they accept."""
    free = {machine.id: machine.free_gpus for machine in instance.machines}
    placements = []
    for job in draw(st.permutations(instance.jobs)):
        slots = [machine for machine, count in free.items() for _ in range(count)]
        # Half of the samples take GPUs in file order, because random GPUs are rarely close.
        together = draw(st.booleans())
        taken = (slots if together else draw(st.permutations(slots)))[: job.gang]
        if len(taken) < job.gang or not draw(st.sampled_from((True, True, False))):
            continue
        gpus = {machine: taken.count(machine) for machine in dict.fromkeys(taken)}
        tier = instance.tier_of(gpus)
        if tier not in instance.tiers_of(job):
            continue
        for machine, count in gpus.items():
            free[machine] -= count
        placements.append(GangPlacement(job=job.id, tier=tier.label, gpus=gpus))
    return Solution(tuple(placements))


RACK, LABEL = "rack", "zone"
PRIORITIES = (0, 0, 1, 2, -1)
PREEMPTION_FEATURES = (
    *("vectors", "labels", "levels", "minima", "optional", "several-shapes", "emptying"),
    *("budgets", "victims"),
)
"""The features of preemption instances that `preemption_instances` can leave out."""


@st.composite
def preemption_instances(
    draw: DrawFn,
    *,
    moves: Moves | str | None = None,
    objective: Sequence[str] | None = None,
    min_nodes: int = 1,
    max_nodes: int = 4,
    min_gangs: int = 0,
    max_gangs: int = 4,
    max_pods: int = 2,
    max_pending: int = 3,
    max_request: int = 3,
    max_idle: int = 2,
    without: Collection[str] = (),
    name: str = "drawn",
) -> PreemptionInstance:
    """Draw a valid preemption instance, for which a solution need not exist.

    Nodes may be cordoned, full or empty, may lack a resource or a domain, and may have to be
    emptied. Gangs may have several groups of pods on a node, request nothing, and be protected or
    unable to move. The pending gang may have pods that need not be placed.

    Parameters
    ----------
    moves
        Which gangs may move pods; None draws it.
    objective
        The terms of the objective; None draws the default or any terms in any order.
    min_nodes, max_nodes
        Number of nodes.
    min_gangs, max_gangs
        Number of running gangs.
    max_pods
        Most pods of a pod group; a gang has one or two groups.
    max_pending
        Most pending pods of a shape.
    max_request
        Largest amount of a resource that a pod requests.
    max_idle
        Largest amount of a resource on a node that no pod holds.
    without
        Features that no instance has: ``vectors`` (other resources than GPUs), ``labels``,
        ``levels`` (a rack that pending pods require or prefer), ``minima`` (gangs that survive the
        loss of some pods), ``optional`` (pending pods that need not be placed),
        ``several-shapes``, ``emptying`` (nodes to be emptied), ``budgets``, and ``victims`` (other
        rules than the default for the gangs that may lose pods).
    name
        The name of the instance.

    Raises
    ------
    FieldError
        If an entry of `without` is not a feature.
    """
    has = dict.fromkeys(PREEMPTION_FEATURES, True)
    has |= {require_choice("without", each, PREEMPTION_FEATURES): False for each in without}
    resources = draw(st.sampled_from([(GPU,), (GPU,), (GPU, "cpu"), ("cpu",)]))
    resources = resources if has["vectors"] else (GPU,)
    labels = st.sampled_from([{}, {}, {LABEL: "a"}, {LABEL: "b"}] if has["labels"] else [{}])
    amounts = {resource: st.integers(0, max_request) for resource in resources}
    requests = st.fixed_dictionaries({}, optional=amounts)
    node_ids = [f"n{number}" for number in range(draw(st.integers(min_nodes, max_nodes)))]
    groups = st.builds(
        PodGroup,
        node=st.sampled_from(node_ids),
        request=requests,
        count=st.integers(1, max_pods),
        selector=labels,
    )
    gangs = [
        draw(_gangs(f"g{number}", groups, with_minima=has["minima"]))
        for number in range(draw(st.integers(min_gangs, max_gangs)))
    ]
    has_level = has["levels"] and draw(st.booleans())
    has_emptying = has["emptying"] and draw(st.booleans())
    nodes = [
        Node(
            id=node_id,
            # Nodes have enough capacity for their pods, so that no drawn instance is rejected.
            capacity=draw(_capacities(gangs, node_id, resources, max_idle)),
            domains={RACK: draw(st.sampled_from(("r0", "r1")))}
            if has_level and (not number or draw(st.booleans()))
            else {},
            labels=draw(labels),
            is_usable=draw(st.sampled_from((True, True, True, False))),
            must_be_empty=has_emptying and draw(st.sampled_from((False, False, True))),
        )
        for number, node_id in enumerate(node_ids)
    ]
    selector = draw(labels)
    candidates = [
        node for node in nodes if not node.must_be_empty and selector.items() <= node.labels.items()
    ]
    empty_nodes = draw(st.integers(0, len(candidates))) if has_emptying else 0
    demand = None
    if not (empty_nodes or any(node.must_be_empty for node in nodes)) or draw(st.booleans()):
        shapes = draw(_shapes(requests, labels, max_pending, has))
        demand = Demand(
            priority=draw(st.sampled_from((2, 2, *PRIORITIES))),
            queue=draw(st.sampled_from(("default", "other"))),
            shapes=shapes,
            level=RACK if has_level else None,
            is_level_required=not has_level or draw(st.booleans()),
        )
    victims = (None, "any", "none") if demand is None else (None, *VICTIMS)
    known = [f"lost:{each}" for each in dict.fromkeys(r for node in nodes for r in node.capacity)]
    terms = st.lists(st.sampled_from((*TERMS, *known)), min_size=1, max_size=4, unique=True)
    # Without these two, the instance computes them.
    rules: dict[str, Any] = {
        "victims": draw(st.sampled_from(victims)) if has["victims"] else None,
        "objective": objective or draw(st.none() | terms),
    }
    return PreemptionInstance(
        name=name,
        moves=Moves(moves or draw(st.sampled_from(Moves))),
        nodes=nodes,
        gangs=gangs,
        demand=demand,
        empty_nodes=empty_nodes,
        empty_selector=selector,
        budgets=draw(_budgets(gangs, known)) if has["budgets"] and gangs else [],
        **rules,
    )


@st.composite
def _gangs(
    draw: DrawFn, gang_id: str, groups: SearchStrategy[PodGroup], *, with_minima: bool
) -> Gang:
    pods = draw(st.lists(groups, min_size=1, max_size=2))
    size = sum(group.count for group in pods)
    return Gang(
        id=gang_id,
        priority=draw(st.sampled_from(PRIORITIES)),
        pods=pods,
        min_pods=draw(st.integers(1, size)) if with_minima else size,
        is_protected=draw(st.sampled_from((False, False, False, True))),
        is_movable=draw(st.sampled_from((True, True, True, False))),
        queue=draw(st.sampled_from(("default", "other"))),
        weight=draw(st.integers(0, 3)),
        start_s=float(draw(st.integers(-2, 2))),
    )


@st.composite
def _shapes(
    draw: DrawFn,
    requests: SearchStrategy[Mapping[str, int]],
    labels: SearchStrategy[Mapping[str, str]],
    max_pending: int,
    has: Mapping[str, bool],
) -> list[Shape]:
    shapes = []
    for number in range(draw(st.integers(1, 2)) if has["several-shapes"] else 1):
        count = draw(st.integers(1, max_pending))
        shape = Shape(
            id=f"s{number}",
            count=count,
            request=draw(requests),
            min_count=draw(st.integers(0, count)) if has["optional"] else count,
            max_per_node=draw(st.none() | st.integers(1, count)),
            selector=draw(labels),
        )
        shapes.append(shape)
    return shapes


@st.composite
def _capacities(
    draw: DrawFn, gangs: Sequence[Gang], node_id: str, resources: Sequence[str], max_idle: int
) -> Mapping[str, int]:
    """Draw a capacity that holds the pods on a node; what is 0 may be left out."""
    groups = [group for gang in gangs for group in gang.pods if group.node == node_id]
    capacity = {}
    for resource in resources:
        held = sum(group.count * group.request.get(resource, 0) for group in groups)
        amount = held + draw(st.integers(0, max_idle))
        if amount or draw(st.booleans()):
            capacity[resource] = amount
    return capacity


@st.composite
def _budgets(draw: DrawFn, gangs: Sequence[Gang], lost: Sequence[str]) -> list[Budget]:
    """Draw up to two budgets; a hard one is not broken before anything is lost."""
    names = st.sampled_from([gang.id for gang in gangs])
    budgets = []
    for number in range(draw(st.integers(0, 2))):
        is_hard, most = draw(st.booleans()), draw(st.integers(0, 4))
        budget = Budget(
            id=f"b{number}",
            gangs=draw(st.lists(names, min_size=1, unique=True)),
            counts=draw(st.sampled_from((*BUDGET_COUNTS, *lost))),
            most=most,
            used=draw(st.integers(0, most if is_hard else 4)),
            is_hard=is_hard,
        )
        budgets.append(budget)
    return budgets
