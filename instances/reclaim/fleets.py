"""Families with a structure of their own: ``grid``, ``reg4``, ``hyp8``, ``planted`` and ``span``.

The docstring of each function that places jobs says what the family draws.
"""

from __future__ import annotations

from functools import partial
from math import isqrt
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.instances.randomness import DrawableSet
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, FleetFamily

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation


def _torus_rows(servers: int) -> int:
    """Return the largest divisor that is at most the square root; `UserError` if that is 1."""
    rows = max(divisor for divisor in range(1, isqrt(servers) + 1) if servers % divisor == 0)
    if rows < 2:
        raise UserError(
            f"--servers is {servers}: must be a product of two integers of at least 2 "
            "for family grid"
        )
    return rows


def _torus(servers: int, _stream: IntegerStream) -> list[Allocation]:
    """Return a two-worker job for each edge of the rows x columns torus.

    Server ``row * columns + column`` stands at (row, column). Two rows (or columns) are
    neighbours once, not twice: there are no duplicate edges.
    """
    rows = _torus_rows(servers)
    columns = servers // rows
    edges = {}  # keeps its order, so that the first of two equal edges counts
    for server in range(servers):
        row, column = divmod(server, columns)
        for neighbour in (
            row * columns + (column + 1) % columns,
            (row + 1) % rows * columns + column,
        ):
            edges[frozenset((server, neighbour))] = {server: 1, neighbour: 1}
    return list(edges.values())


GRID = FleetFamily(
    "grid",
    version=1,
    summary="servers on a torus, a job on any two neighbours; no seed",
    place=_torus,
    is_drawn=False,
    require_servers=_torus_rows,
)


SWITCHES_PER_WORKER = 10
"""Proposed switches for each worker; Milo et al. (2003) find no bias left well before that."""

HYP8_SPAN = 8
REG4_LEAST_SERVERS = 5  # as many as its complete graph has


def _require_servers(servers: int, *, least: int, family: str) -> None:
    if servers < least:
        raise UserError(f"--servers is {servers}: must be at least {least} for family {family}")


def _switched(
    members: list[list[int]], stream: IntegerStream, *, forbid_equal_jobs: bool
) -> list[Allocation]:
    """Return jobs of the same spans, on servers with as many jobs each, in random structure.

    A switch draws two workers and lets their jobs swap servers, unless a job would then be on
    one server twice (or, with `forbid_equal_jobs`, two jobs on equal servers). Spans and jobs
    per server stay as they are, and the start is valid, so there is a result for any size.
    Source: the switching Markov chain for random graphs of given degrees; Milo, Kashtan,
    Itzkovitz, Newman and Alon, arXiv:cond-mat/0312028 (2003).

    Parameters
    ----------
    members
        The distinct servers of each job, equally many; a valid start. Changed in place.
    stream
        Where the draws come from.
    forbid_equal_jobs
        Whether a simple graph must stay one.
    """
    span = len(members[0])
    workers = len(members) * span
    present = {frozenset(servers) for servers in members}
    for _ in range(SWITCHES_PER_WORKER * workers):
        one, one_slot = divmod(stream.below(workers), span)
        other, other_slot = divmod(stream.below(workers), span)
        one_server, other_server = members[one][one_slot], members[other][other_slot]
        if other_server in members[one] or one_server in members[other]:
            continue
        if forbid_equal_jobs:
            before = frozenset(members[one]), frozenset(members[other])
            after = (
                before[0] - {one_server} | {other_server},
                before[1] - {other_server} | {one_server},
            )
            if after[0] == after[1] or not present.isdisjoint(after):
                continue
            present.difference_update(before)
            present.update(after)
        members[one][one_slot], members[other][other_slot] = other_server, one_server
    return [dict.fromkeys(servers, 1) for servers in members]


def _random_regular_graph(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Return a two-worker job for each edge of a simple graph in which all degrees are 4."""
    circulant = [
        [server, (server + step) % servers] for step in (1, 2) for server in range(servers)
    ]
    return _switched(circulant, stream, forbid_equal_jobs=True)


def _random_hypergraph(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Return as many jobs as servers, each on 8 distinct servers, 8 on each server."""
    circulant = [[(job + step) % servers for step in range(HYP8_SPAN)] for job in range(servers)]
    return _switched(circulant, stream, forbid_equal_jobs=False)


REG4 = FleetFamily(
    "reg4",
    version=1,
    summary="random graph of degree 4, servers its vertices and jobs its edges",
    place=_random_regular_graph,
    require_servers=partial(_require_servers, least=REG4_LEAST_SERVERS, family="reg4"),
)
HYP8 = FleetFamily(
    "hyp8",
    version=1,
    summary="every server has 8 jobs, every job spans 8 random servers",
    place=_random_hypergraph,
    require_servers=partial(_require_servers, least=HYP8_SPAN, family="hyp8"),
)


PLANTED_PERCENT = 30
PLANTED_JOBS = 16
"""With a span of half the planted servers, they fill the 8 GPUs of each on average."""
UNPLANTED_SPAN = 8
NOISE_PERCENT = 8


def _planted(servers: int, stream: IntegerStream) -> list[Allocation]:
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
    groups = [planted] * PLANTED_JOBS + [others] * len(others)
    spans = {planted: -(-len(planted) // 2), others: min(UNPLANTED_SPAN, len(others))}

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
    place=_planted,
)


WIDE_JOBS = 12
LOCAL_JOB_PERCENT = 50


def _wide_and_local(servers: int, stream: IntegerStream) -> list[Allocation]:
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
    place=_wide_and_local,
)
