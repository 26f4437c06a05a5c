"""Cut instances of three decision problems from a moment of a placement log.

The state of the cluster is that of the log. The decision is ours: how many servers must be given
back, and that the jobs that waited start now. Every instance states what was assumed.
"""

import math
from collections import Counter
from collections.abc import Mapping

from lyra_opt import network, preemption, reclaim
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import ProblemInstance
from lyra_opt.instances.snapshots.placement_logs import RACK, WHOLE
from lyra_opt.instances.snapshots.snapshot import GPU, GPU_THOUSANDTHS, PendingGang, Snapshot
from lyra_opt.network.links import TIER_OF_LABEL, Tier

RECLAIM_SHARE = 0.2
"""Share of the servers with GPUs that is reclaimed by default."""

ROUNDED = (
    "Parts of GPUs count as whole GPUs, and a server has as many GPUs as its workers then need."
)


def cut(
    snapshot: Snapshot, name: str, *, reclaim_servers: int | None = None
) -> dict[str, ProblemInstance]:
    """Return instances from a moment of a placement log, by the name of their problem.

    Parameters
    ----------
    snapshot
        The moment, as `lyra_opt.instances.snapshots.placement_logs.read_moments` returns it.
    name
        The end of the names of the instances.
    reclaim_servers
        Number of servers to reclaim; None for `RECLAIM_SHARE` of them, rounded up.

    Returns
    -------
    dict
        ``reclaim``, and, if jobs waited at the moment, ``network`` and ``preemption``.

    Raises
    ------
    UserError
        If more servers are to be reclaimed than the log has.

    Notes
    -----
    Takes O(workers + servers) time.
    """
    found = {"reclaim": _reclaim(snapshot, f"reclaim-{name}", reclaim_servers)}
    if snapshot.pending:
        found["network"] = _network(snapshot, f"network-{name}")
        found["preemption"] = _preemption(snapshot, f"preemption-{name}")
    return found


def _gpus(amounts: Mapping[str, int]) -> int:
    """Return the number of GPUs of a capacity or a request, rounded up."""
    return amounts.get(GPU, 0) + -(-amounts.get(GPU_THOUSANDTHS, 0) // WHOLE)


def _said(snapshot: Snapshot, *more: str) -> str:
    rounded = [ROUNDED] if any(GPU_THOUSANDTHS in each.capacity for each in snapshot.nodes) else []
    return " ".join((*more, *rounded, *snapshot.assumptions))


def _reclaim(snapshot: Snapshot, name: str, count: int | None) -> ProblemInstance:
    held: dict[str, Counter[str]] = {gang.id: Counter() for gang in snapshot.gangs}
    used: Counter[str] = Counter()
    for gang in snapshot.gangs:
        for pod in gang.pods:
            held[gang.id][pod.node] += _gpus(pod.request)
            used[pod.node] += _gpus(pod.request)
    gpus = {node.name: max(_gpus(node.capacity), used[node.name]) for node in snapshot.nodes}
    servers = [reclaim.Server(id=node, gpus=each) for node, each in gpus.items() if each]
    if count is None:
        count = math.ceil(RECLAIM_SHARE * len(servers))
    if count > len(servers):
        raise UserError(f"--reclaim is {count}: the log has {len(servers)} servers with GPUs")
    return reclaim.Instance(
        name=name,
        assumptions=_said(
            snapshot,
            "The log does not say which servers were on loan: all are. The number of servers to "
            "reclaim is chosen. A job has one base worker for each GPU, and every job counts once.",
        ),
        reclaim_servers=count,
        servers=servers,
        jobs=[
            reclaim.Job(
                id=job,
                workers=[reclaim.WorkerGroup(server=node, base=each) for node, each in of.items()],
            )
            for job, of in held.items()
        ],
    )


def _network(snapshot: Snapshot, name: str) -> ProblemInstance:
    used: Counter[str] = Counter()
    for gang in snapshot.gangs:
        for pod in gang.pods:
            used[pod.node] += WHOLE * pod.request.get(GPU, 0) + pod.request.get(GPU_THOUSANDTHS, 0)
    has_racks = any(RACK in node.labels for node in snapshot.nodes)
    racks = "The racks are those of the log." if has_racks else "The log has no racks: one has all."
    machines = [
        network.Machine(
            id=node.name,
            rack=node.labels.get(RACK, "unknown" if has_racks else "all"),
            gpus=_gpus(node.capacity),
            free_gpus=max(0, _gpus(node.capacity) - -(-used[node.name] // WHOLE)),
        )
        for node in snapshot.nodes
        if _gpus(node.capacity)
    ]
    jobs = []
    for waiting in snapshot.pending:
        size = sum(len(shape.names) * _gpus(shape.request) for shape in waiting.shapes)
        tiers = (Tier.MACHINE.label,) if size == 1 else TIER_OF_LABEL
        waiting_s = max(0.0, (snapshot.newest_s or 0.0) - waiting.since_s)
        jobs.append(
            network.WaitingJob(
                id=waiting.id,
                gang=size,
                efficiency=dict.fromkeys(tiers, 1.0),
                waiting_s=waiting_s,
            )
        )
    return network.Instance(
        name=name,
        assumptions=_said(
            snapshot,
            f"{racks} The log has no speeds, so the objective counts GPUs in use and tiers, and a "
            "gang may span any tier.",
        ),
        objective=network.Objective.FEWEST_TIERS,
        machines=machines,
        jobs=jobs,
    )


def _preemption(snapshot: Snapshot, name: str) -> ProblemInstance:
    def order(gang: PendingGang) -> tuple[int, float]:
        return -gang.priority, gang.since_s

    pending = min(snapshot.pending, key=order)
    has_priorities = pending.priority or any(gang.priority for gang in snapshot.gangs)
    return preemption.Instance(
        name=name,
        assumptions=_said(
            snapshot,
            f"Job {pending.id} has waited for longest of the jobs with the highest priority, and "
            "must start now. A job that loses a worker is lost.",
        ),
        nodes=[
            preemption.Node(
                id=node.name,
                capacity={key: amount for key, amount in node.capacity.items() if amount},
                domains=dict(node.labels),
            )
            for node in snapshot.nodes
        ],
        gangs=[
            preemption.Gang(
                id=gang.id,
                priority=gang.priority,
                queue=gang.queue,
                start_s=gang.start_s,
                min_pods=gang.min_pods,
                pods=[
                    preemption.PodGroup(node=node, request=dict(request), count=count)
                    for (node, request), count in Counter(
                        (pod.node, tuple(pod.request.items())) for pod in gang.pods
                    ).items()
                ],
            )
            for gang in snapshot.gangs
        ],
        demand=preemption.Demand(
            priority=pending.priority,
            queue=pending.queue,
            shapes=[
                preemption.Shape(id=f"pods-{place}", count=len(shape.names), request=shape.request)
                for place, shape in enumerate(pending.shapes)
            ],
        ),
        victims="lower" if has_priorities else "any",
    )
