"""Family ``planted``: a set of servers that is cheap to reclaim, hidden among random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.instances.randomness import DrawableSet
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, FleetFamily

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation

PLANTED_PERCENT = 30
WIDE_JOBS = 16
"""With a span of half the planted servers, they fill the 8 GPUs of each on average."""
OTHER_JOB_SPAN = 8
NOISE_PERCENT = 8


def _place(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Return the wide jobs of the planted servers, then the jobs of the others.

    30 % of the servers (rounded up), drawn at random, are planted. 16 wide jobs have one worker
    on each of half of them (rounded up), drawn for each job; one job for every other server has
    one worker on each of 8 of the other servers, drawn likewise. Of all workers 8 % are noise:
    they go to a server drawn from the whole fleet.

    Every server has 8 GPUs and a job at most one worker on it. A worker draws among the servers
    with a free GPU and without its job; it is left out where there is none. Jobs are placed in
    random order, so that neither kind is cut short more often.
    """
    order = list(range(servers))
    stream.shuffle(order)
    planted_servers = -(-servers * PLANTED_PERCENT // 100)
    # The servers that the next worker may get: of the planted, of the others, of the fleet.
    planted, others = DrawableSet(order[:planted_servers]), DrawableSet(order[planted_servers:])
    fleet = DrawableSet(order)
    group_of = {server: planted if server in planted else others for server in order}
    groups = [planted] * WIDE_JOBS + [others] * len(others)
    spans = {planted: -(-len(planted) // 2), others: min(OTHER_JOB_SPAN, len(others))}

    free = [GPUS_PER_SERVER] * servers
    jobs: list[Allocation] = [{} for _ in groups]
    turns = list(range(len(groups)))
    stream.shuffle(turns)
    for turn in turns:
        group, job = groups[turn], jobs[turn]
        for _ in range(spans[group]):
            candidates = fleet if stream.percent(NOISE_PERCENT) else group
            if candidates:
                server = candidates.draw(stream)
                job[server] = 1
                free[server] -= 1
                fleet.remove(server)
                group_of[server].remove(server)
        for server in job:
            if free[server]:
                fleet.add(server)
                group_of[server].add(server)
    return [job for job in jobs if job]


PLANTED = FleetFamily(
    "planted",
    version=1,
    summary="30 % of the servers share 16 wide jobs, the rest random ones of span 8; 8 % noise",
    place=_place,
)
