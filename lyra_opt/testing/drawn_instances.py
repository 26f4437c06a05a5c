"""Random small instances of the five problems; each problem's instances are described once.

The functions draw from `Choices`. `lyra_opt.testing.strategies` makes Hypothesis strategies of
them, and a seeded generator draws the same instances faster.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.core.rules import require_choice
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    GangJob,
    GpuServer,
    GpuType,
    PackedRate,
)
from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
from lyra_opt.heterogeneous.instance import Objective as HeterogeneousObjective
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Utility, UtilityTable
from lyra_opt.network.instance import Instance as NetworkInstance
from lyra_opt.network.instance import Machine, WaitingJob
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
from lyra_opt.testing.choices import Choices


def reclaim_instance(
    choose: Choices,
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
    drawn_semantics = Semantics(semantics or choose.one_of(*Semantics))
    servers = [f"s{number}" for number in range(choose.integer(min_servers, max_servers))]
    held_gpus = dict.fromkeys(servers, 0)

    def counts() -> tuple[int, int]:
        base, flexible = choose.integer(0, max_workers), choose.integer(0, max_workers)
        return (base, flexible) if base or flexible else (1, 0)

    jobs = []
    for number in range(choose.integer(min_jobs, max_jobs) if servers else 0):
        gpus_per_worker = choose.integer(1, max_gpus_per_worker)
        # Half of the jobs get equal groups on every server; independent draws rarely produce that.
        even = counts() if choose.yes() else None
        workers = []
        for server in choose.some(servers, 1, len(servers)):
            base, flexible = even or counts()
            workers.append(WorkerGroup(server=server, base=base, flexible=flexible))
            held_gpus[server] += (base + flexible) * gpus_per_worker
        most = sum(group.workers for group in workers)
        rigid = drawn_semantics is Semantics.RIGID
        least: dict[str, Any] = {} if rigid else {"min_workers": choose.integer(0, most)}
        job = Job(
            id=f"j{number}",
            workers=tuple(workers),
            weight=choose.integer(0, max_weight),
            gpus_per_worker=gpus_per_worker,
            **least,
        )
        jobs.append(job)
    # Servers have enough GPUs for their workers, so that no drawn instance is rejected.
    on_loan = {server: not (with_off_loan and choose.yes(4)) for server in servers}
    return ReclaimInstance(
        name=name,
        semantics=drawn_semantics,
        reclaim_servers=choose.integer(0, sum(on_loan.values())),
        servers=tuple(
            Server(
                id=server,
                gpus=max(1, held + choose.integer(0, max_idle_gpus)),
                on_loan=on_loan[server],
            )
            for server, held in held_gpus.items()
        ),
        jobs=tuple(jobs),
    )


SCALING_LOSSES = (0.0, 0.2, 0.5, 1.0)


def allocation_instance(
    choose: Choices,
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
    drawn_objective = Objective(objective or choose.one_of(*Objective))
    parts = 8 if with_fractions else 1
    # In half of the instances, all jobs have the same scaling loss, so that values often tie.
    common_loss = choose.one_of(*SCALING_LOSSES) if choose.yes() else None
    jobs = []
    for number in range(choose.integer(min_jobs, max_jobs)):
        least = choose.integer(1, max_min_workers)
        running = with_running and choose.yes(3)
        is_late = with_releases and not running
        loss = choose.one_of(*SCALING_LOSSES) if common_loss is None else common_loss
        job = ElasticJob(
            id=f"j{number}",
            min_workers=least,
            max_workers=least + choose.integer(0, max_extra_workers),
            work_worker_s=choose.integer(1, max_work * parts) / parts,
            gpus_per_worker=choose.integer(1, max_gpus_per_worker),
            release_s=choose.integer(0, max_release * parts) / parts if is_late else 0.0,
            running=running,
            scaling_loss=loss,
        )
        jobs.append(job)
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
        gpus=choose.integer(least_gpus, max(least_gpus, max_gpus)),
        jobs=tuple(jobs),
    )


GANG_RATES = (0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0)


def heterogeneous_instance(
    choose: Choices,
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
    drawn_objective = HeterogeneousObjective(objective or choose.one_of(*HeterogeneousObjective))
    shares = drawn_objective in SHARE_OBJECTIVES
    one_round = drawn_objective is HeterogeneousObjective.ROUND_PROGRESS
    types = [f"t{number}" for number in range(choose.integer(1, max_types))]
    servers = []
    for number in range(choose.integer(1, max_servers)):
        gpus = {gpu_type: choose.integer(0, max_gpus) for gpu_type in types}
        gpus |= {} if any(gpus.values()) else {choose.one_of(*types): 1}
        servers.append(GpuServer(id=f"s{number}", gpus=gpus))
    counts = {each: sum(server.gpus.get(each, 0) for server in servers) for each in types}
    free = {server.id: dict(server.gpus) for server in servers}
    jobs = []
    for number in range(choose.integer(min_jobs, max_jobs)):
        gang = choose.integer(1, min(max_gang, max(counts.values())) if shares else max_gang)
        job = _gang_job(choose, f"j{number}", gang, types, max_steps)
        if shares and not any(job.throughput[each] and counts[each] >= gang for each in types):
            able = max(types, key=lambda gpu_type: counts[gpu_type])
            job = replace(job, throughput={**job.throughput, able: 1.0})
        release_s = choose.integer(0, 4) / 2 if with_releases else 0.0
        current = take_gpus(choose, free, gang) if choose.yes() else {}
        jobs.append(replace(job, release_s=release_s, current=current))
    packed = _packed(choose, jobs, types) if with_packing and shares else ()
    round_s = choose.one_of(1.0, 1.0, 2.0, 0.5)
    return HeterogeneousInstance(
        name=name,
        objective=drawn_objective,
        gpu_types=tuple(
            GpuType(name=gpu_type, price_per_hour=choose.one_of(1.0, 0.5, 3.0))
            for gpu_type in types
        ),
        servers=tuple(servers),
        jobs=tuple(jobs),
        packed=packed,
        round_s=round_s,
        horizon_rounds=1 if one_round else choose.integer(1, max_rounds),
        restart_s=choose.one_of(0.0, 0.25, 1.0) * round_s if one_round else 0.0,
        forking=choose.yes() if forking is None and not shares else bool(forking),
    )


def _gang_job(choose: Choices, job_id: str, gang: int, types: list[str], max_steps: int) -> GangJob:
    """Draw a job that was not there before, and that runs on some type of GPU."""

    def rates() -> dict[str, float]:
        found = {gpu_type: choose.one_of(*GANG_RATES) for gpu_type in types}
        return found if any(found.values()) else found | {choose.one_of(*types): 1.0}

    return GangJob(
        id=job_id,
        gang=gang,
        steps=choose.integer(1, 2 * max_steps) / 2,
        throughput=rates(),
        spread_throughput=rates() if choose.yes() else None,
        weight=choose.one_of(1.0, 1.0, 2.0, 0.5),
        utility=_utility(choose),
        elapsed_s=choose.integer(0, 4) / 2,
        isolated_elapsed_s=choose.integer(0, 4) / 2,
    )


def _packed(choose: Choices, jobs: list[GangJob], types: list[str]) -> tuple[PackedRate, ...]:
    """Give each job a kind, perhaps that of an earlier job; return rates for pairs of kinds."""
    for number, job in enumerate(jobs):
        like = choose.integer(0, number)
        first = jobs[like]
        kind = f"k{number}" if like == number else first.kind
        jobs[number] = replace(
            job, kind=kind, gang=first.gang, throughput=first.throughput, current={}
        )
    of_kind = {job.kind: job.gang for job in jobs}
    return tuple(
        PackedRate(
            kind=str(kind),
            beside=str(beside),
            throughput={each: choose.one_of(*GANG_RATES) for each in types if choose.yes()},
        )
        for kind, gang in of_kind.items()
        for beside, other_gang in of_kind.items()
        if gang == other_gang and choose.yes()
    )


def _utility(choose: Choices) -> Utility:
    """Draw a utility whose steps are near the completions of small schedules."""
    kind = choose.one_of("inverse", "deadline", "table")
    if kind == "inverse":
        return InverseJct(scale=choose.one_of(1.0, 3.0))
    if kind == "deadline":
        value = float(choose.integer(0, 4))
        late_value = value * choose.one_of(0.0, 0.25, 1.0)
        deadline_s = choose.integer(1, 16) / 2
        return Deadline(deadline_s=deadline_s, value=value, late_value=late_value)
    ends = sorted(choose.some(range(1, 17), 1, 3))
    values = sorted((choose.integer(0, 4) for _ in ends), reverse=True)
    entries = ((end / 2, float(value)) for end, value in zip(ends, values, strict=True))
    return UtilityTable(entries=tuple(entries))


def take_gpus(
    choose: Choices, free: dict[str, dict[str, int]], gang: int
) -> dict[str, dict[str, int]]:
    """Take random free GPUs for a gang; return an empty placement if too few are free."""
    places = [
        (server, gpu_type)
        for server, types in free.items()
        for gpu_type, count in types.items()
        for _ in range(count)
    ]
    taken: dict[str, dict[str, int]] = {}
    for server, gpu_type in choose.some(places, gang, gang) if len(places) >= gang else ():
        free[server][gpu_type] -= 1
        of_server = taken.setdefault(server, {})
        of_server[gpu_type] = of_server.get(gpu_type, 0) + 1
    return taken


EFFICIENCIES = (1.0, 1.0, 0.9, 0.75, 0.5, 0.3, 0.05)
WAITS_S = (0.0, 0.0, 1.0, 3600.0, 7200.0)
TIMERS_S = (0.0, 0.0, 3600.0, 7200.5, None)


def network_instance(
    choose: Choices,
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
    racks = [f"r{number}" for number in range(choose.integer(1, max_racks))]
    machines = []
    for number in range(choose.integer(1, max_machines)):
        gpus = choose.integer(1, max_gpus)
        machine = Machine(
            id=f"m{number}",
            rack=choose.one_of(*racks),
            gpus=gpus,
            free_gpus=choose.integer(0, gpus) if choose.yes() else gpus,
            affinity=choose.integer(1, max_gpus) if choose.yes() else None,
        )
        machines.append(machine)
    cluster = sum(machine.gpus for machine in machines)
    timers_s = TIMERS_S if with_timers else (0.0,)
    jobs = []
    for number in range(choose.integer(min_jobs, max_jobs)):
        # Half of the gangs fit on a machine, because wide gangs alone leave nothing to pack.
        gang = choose.integer(1, cluster + 1 if choose.yes() else max_gpus)
        tiers = [tier.label for tier in Tier] if gang > 1 else [Tier.MACHINE.label]
        kept = choose.some(tiers, 1, len(tiers)) if choose.yes() else tiers
        job = WaitingJob(
            id=f"j{number}",
            gang=gang,
            efficiency={tier: choose.one_of(*EFFICIENCIES) for tier in tiers if tier in kept},
            score=choose.one_of(0.0, 0.0, 0.25, 0.7, 1.0),
            waiting_s=choose.one_of(*WAITS_S),
            rack_timer_s=choose.one_of(*timers_s),
            network_timer_s=choose.one_of(*timers_s),
            weight=choose.one_of(1.0, 1.0, 2.0, 0.3),
            remaining_s=choose.one_of(3600.0, 1.0, 5000.0),
            attained_gpu_s=choose.one_of(0.0, 0.0, 1e4),
            needs_consolidation=choose.yes(),
        )
        jobs.append(job)
    return NetworkInstance(
        name=name,
        objective=NetworkObjective(objective or choose.one_of(*NetworkObjective)),
        machines=tuple(machines),
        jobs=tuple(jobs),
        waiting_weight_per_s=choose.one_of(1e-6, 0.0, 1e-4),
    )


RACK, LABEL = "rack", "zone"
PRIORITIES = (0, 0, 1, 2, -1)
RESOURCES = ((GPU,), (GPU,), (GPU, "cpu"), ("cpu",), ("cpu", GPU, "memory"))
PREEMPTION_FEATURES = (
    *("vectors", "labels", "levels", "minima", "optional", "several-shapes", "emptying"),
    *("budgets", "victims"),
)
"""The features of preemption instances that can be left out."""


def preemption_instance(
    choose: Choices,
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
        Most pods of a pod group; a gang has one to three groups.
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
    resources = choose.one_of(*RESOURCES) if has["vectors"] else (GPU,)

    def labels() -> dict[str, str]:
        return choose.one_of({}, {}, {LABEL: "a"}, {LABEL: "b"}) if has["labels"] else {}

    def request() -> dict[str, int]:
        return {each: choose.integer(0, max_request) for each in resources if not choose.yes(4)}

    ids = [f"n{number}" for number in range(choose.integer(min_nodes, max_nodes))]

    def pods() -> PodGroup:
        node, count = choose.one_of(*ids), choose.integer(1, max_pods)
        return PodGroup(node=node, request=request(), count=count, selector=labels())

    gangs = [
        _gang(choose, f"g{number}", pods, with_minima=has["minima"])
        for number in range(choose.integer(min_gangs, max_gangs))
    ]
    has_level, has_emptying = (has[each] and choose.yes() for each in ("levels", "emptying"))
    capacities = {node: _capacity(choose, gangs, node, resources, max_idle) for node in ids}
    nodes = _nodes(choose, capacities, labels, has_level=has_level, has_emptying=has_emptying)
    selector = labels()
    candidates = [
        node for node in nodes if not node.must_be_empty and selector.items() <= node.labels.items()
    ]
    empty_nodes = choose.integer(0, len(candidates)) if has_emptying else 0
    demand = None
    if not (empty_nodes or any(node.must_be_empty for node in nodes)) or choose.yes():
        demand = _demand(choose, request, labels, max_pending, has, RACK if has_level else None)
    lost = [f"lost:{each}" for each in dict.fromkeys(r for node in nodes for r in node.capacity)]
    rules = _rules(choose, lost, (None, *VICTIMS) if demand else (None, "any", "none"))
    rules |= {"objective": objective} if objective else {}
    rules |= {} if has["victims"] else {"victims": None}
    return PreemptionInstance(
        name=name,
        moves=Moves(moves or choose.one_of(*Moves)),
        nodes=nodes,
        gangs=gangs,
        demand=demand,
        empty_nodes=empty_nodes,
        empty_selector=selector,
        budgets=_budgets(choose, gangs, lost) if has["budgets"] and gangs else [],
        **rules,
    )


def _gang(
    choose: Choices, gang_id: str, pod_group: Callable[[], PodGroup], *, with_minima: bool
) -> Gang:
    pods = [pod_group() for _ in range(choose.one_of(1, 1, 2, 3))]
    size = sum(group.count for group in pods)
    return Gang(
        id=gang_id,
        priority=choose.one_of(*PRIORITIES),
        pods=pods,
        min_pods=choose.integer(1, size) if with_minima else size,
        is_protected=choose.yes(4),
        is_movable=not choose.yes(4),
        queue=choose.one_of("default", "other"),
        weight=choose.integer(0, 3),
        start_s=float(choose.integer(-2, 2)),
    )


def _nodes(
    choose: Choices,
    capacities: Mapping[str, Mapping[str, int]],
    labels: Callable[[], Mapping[str, str]],
    *,
    has_level: bool,
    has_emptying: bool,
) -> list[Node]:
    """Draw nodes; if there is a level, the first node has a domain."""
    nodes: list[Node] = []
    for node_id, capacity in capacities.items():
        has_domain = has_level and (not nodes or choose.yes())
        node = Node(
            id=node_id,
            capacity=capacity,
            domains={RACK: choose.one_of("r0", "r1")} if has_domain else {},
            labels=labels(),
            is_usable=not choose.yes(4),
            must_be_empty=has_emptying and choose.yes(3),
        )
        nodes.append(node)
    return nodes


def _rules(choose: Choices, lost: Sequence[str], victims: Sequence[str | None]) -> dict[str, Any]:
    """Draw victims and an objective; the instance computes those that are None."""
    objective = choose.some((*TERMS, *lost), 1, 4) if choose.yes() else None
    return {"victims": choose.one_of(*victims), "objective": objective}


def _capacity(
    choose: Choices, gangs: Sequence[Gang], node: str, resources: Sequence[str], max_idle: int
) -> Mapping[str, int]:
    """Draw a capacity that holds the pods on a node, so that no drawn instance is rejected."""
    groups = [group for gang in gangs for group in gang.pods if group.node == node]
    capacity = {}
    for resource in resources:
        held = sum(group.count * group.request.get(resource, 0) for group in groups)
        amount = held + choose.integer(0, max_idle)
        if amount or choose.yes():
            capacity[resource] = amount
    return capacity


def _demand(
    choose: Choices,
    request: Callable[[], Mapping[str, int]],
    labels: Callable[[], Mapping[str, str]],
    max_pending: int,
    has: Mapping[str, bool],
    level: str | None,
) -> Demand:
    shapes = []
    for number in range(choose.integer(1, 2) if has["several-shapes"] else 1):
        count = choose.integer(1, max_pending)
        shape = Shape(
            id=f"s{number}",
            count=count,
            request=request(),
            min_count=choose.integer(0, count) if has["optional"] else count,
            max_per_node=choose.integer(1, count) if choose.yes() else None,
            selector=labels(),
        )
        shapes.append(shape)
    return Demand(
        priority=choose.one_of(2, 2, *PRIORITIES),
        queue=choose.one_of("default", "other"),
        shapes=shapes,
        level=level,
        is_level_required=level is None or choose.yes(),
    )


def _budgets(choose: Choices, gangs: Sequence[Gang], lost: Sequence[str]) -> list[Budget]:
    """Draw up to two budgets; a hard one is not broken before anything is lost."""
    budgets = []
    for number in range(choose.integer(0, 2)):
        is_hard, most = choose.yes(), choose.integer(0, 4)
        budget = Budget(
            id=f"b{number}",
            gangs=choose.some([gang.id for gang in gangs], 1, len(gangs)),
            counts=choose.one_of(*BUDGET_COUNTS, *lost),
            most=most,
            used=choose.integer(0, most if is_hard else 4),
            is_hard=is_hard,
        )
        budgets.append(budget)
    return budgets
