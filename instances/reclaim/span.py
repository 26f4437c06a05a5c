"""Family ``span``: a dozen wide jobs over random servers, and local jobs beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, FleetFamily

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation

WIDE_JOBS = 12
LOCAL_JOB_PERCENT = 50


def _place(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Return the wide jobs, then the local ones in order of their server.

    Each wide job draws its span from n/8 to n/3 (rounded down, at least 1) and has one worker
    on each of that many servers, drawn among those with a free GPU; it spans fewer where fewer
    are left, and is left out where none is. Then every server with a free GPU has, with a
    chance of a half, one local job, of one worker up to all that are free, each equally likely.
    """
    free = [GPUS_PER_SERVER] * servers
    jobs: list[Allocation] = []
    for _ in range(WIDE_JOBS):
        span = stream.between(max(1, servers // 8), max(1, servers // 3))
        with_room = [server for server in range(servers) if free[server]]
        chosen = stream.sample(with_room, min(span, len(with_room)))
        for server in chosen:
            free[server] -= 1
        if chosen:
            jobs.append(dict.fromkeys(chosen, 1))
    jobs.extend(
        {server: stream.between(1, free[server])}
        for server in range(servers)
        if free[server] and stream.percent(LOCAL_JOB_PERCENT)
    )
    return jobs


SPAN = FleetFamily(
    "span",
    version=1,
    summary="12 jobs, each over n/8 to n/3 random servers, and jobs on one server",
    place=_place,
)
