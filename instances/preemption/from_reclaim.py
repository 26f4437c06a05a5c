"""Convert reclaim instances to preemption instances, in which N_R nodes must be emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.preemption.instance import GPU, Gang, Instance, Node, PodGroup
from lyra_opt.reclaim.instance import Semantics
from lyra_opt.reclaim.instance import Solution as ReclaimSolution

if TYPE_CHECKING:
    from lyra_opt.preemption.instance import Solution
    from lyra_opt.reclaim.instance import Instance as ReclaimInstance
    from lyra_opt.reclaim.instance import Job

ON_LOAN = "on-loan"
"""The label of the nodes that can be chosen to be emptied; its value is ``true`` or ``false``."""


def from_reclaim(instance: ReclaimInstance) -> Instance:
    """Return the preemption instance with the same optimum as a reclaim instance.

    Servers become nodes, and jobs become gangs. N_R of the nodes on loan must be emptied, no gang
    is pending, no pod moves, and the objective is the weight of the lost gangs.

    A job is preempted if and only if its gang must be lost:

    - Rigid: a job is preempted if it loses one base worker. Its gang has its base workers as pods
      and needs all of them. Flexible workers are left out: they can always leave, cost nothing, and
      hold GPUs that no other pod needs. They cannot be pods of the gang, because the pods of a gang
      are interchangeable, and it could lose a base worker instead.
    - Interchangeable: the gang has all workers as pods and needs `min_workers` of them.

    Jobs that are never preempted are left out. These are rigid jobs without base workers, and
    interchangeable jobs that need no worker.

    Parameters
    ----------
    instance
        A reclaim instance, rigid or interchangeable.

    Raises
    ------
    FieldError
        If N_R is 0, because a preemption instance must empty a node or place a pod, or if a job has
        more than 1,000,000 workers on a server.
    """
    if not instance.reclaim_servers:
        rule = "must be at least 1, because a preemption instance must empty a node or place a pod"
        raise FieldError("reclaim_servers", 0, rule)
    is_rigid = instance.semantics is Semantics.RIGID
    nodes = [
        Node(
            id=server.id,
            capacity={GPU: server.gpus},
            labels={ON_LOAN: "true" if server.on_loan else "false"},
        )
        for server in instance.servers
    ]
    return Instance(
        name=instance.name,
        nodes=nodes,
        gangs=[
            _gang(job, is_rigid=is_rigid)
            for job in instance.jobs
            if (job.base_workers if is_rigid else job.min_workers)
        ],
        empty_nodes=instance.reclaim_servers,
        empty_selector={ON_LOAN: "true"},
        objective=("weighted_gangs",),
    )


def _gang(job: Job, *, is_rigid: bool) -> Gang:
    """Return the gang of a job that can be preempted."""
    request = {GPU: job.gpus_per_worker}
    counts = {group.server: group.base if is_rigid else group.workers for group in job.workers}
    pods = [PodGroup(node=n, count=count, request=request) for n, count in counts.items() if count]
    least = job.base_workers if is_rigid else job.min_workers
    return Gang(id=job.id, pods=pods, min_pods=least, weight=job.weight)


def reclaim_solution(solution: Solution) -> ReclaimSolution:
    """Return the reclaim solution with the servers that a solution of the conversion empties."""
    return ReclaimSolution(solution.emptied_nodes)
