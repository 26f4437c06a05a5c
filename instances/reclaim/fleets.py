"""Reclaim families with special structures: ``grid``, ``reg4``, ``hyp8``, ``planted``, ``span``.

The functions that place the jobs describe the random instances in their docstrings.
"""

from functools import partial
from math import isqrt

from lyra_opt.core.errors import UserError
from lyra_opt.instances.randomness import DrawableSet, IntegerStream
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, Allocation, FleetFamily


def _torus_rows(servers: int) -> int:
    """Return the largest divisor of `servers` up to its square root; `UserError` if that is 1."""
    rows = max(divisor for divisor in range(1, isqrt(servers) + 1) if servers % divisor == 0)
    if rows < 2:
        raise UserError(
            f"--servers is {servers}: must be a product of two integers of at least 2 "
            "for family grid"
        )
    return rows


def _torus(servers: int, _stream: IntegerStream) -> list[Allocation]:
    """Return a two-worker job for each edge of a torus with servers as vertices.

    Server ``row * columns + column`` is the vertex (row, column). A torus with two rows or two
    columns has no duplicate edges: two neighbouring servers share one job.
    """
    rows = _torus_rows(servers)
    columns = servers // rows
    edges = {}  # a dict keeps the order in which edges first occur
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
    summary="servers on a torus, one job on each pair of neighbours; no seed",
    place=_torus,
    is_drawn=False,
    require_servers=_torus_rows,
)


SWITCHES_PER_WORKER = 10
"""Proposed switches per worker; Milo et al. (2003) find that fewer switches already remove bias."""

HYP8_SPAN = 8
REG4_LEAST_SERVERS = 5  # the complete graph of degree 4 has 5 vertices


def _require_servers(servers: int, *, least: int, family: str) -> None:
    if servers < least:
        raise UserError(f"--servers is {servers}: must be at least {least} for family {family}")


def _switched(
    members: list[list[int]], stream: IntegerStream, *, forbid_equal_jobs: bool
) -> list[Allocation]:
    """Return random jobs with the given spans and the given number of jobs on each server.

    A switch draws two workers and exchanges their servers. It is rejected if a job would then have
    two workers on one server or, with `forbid_equal_jobs`, if two jobs would have the same servers.
    Switches change neither the spans nor the number of jobs per server, so the result is valid.
    Source: the switching Markov chain for random graphs of given degrees; Milo, Kashtan,
    Itzkovitz, Newman and Alon, arXiv:cond-mat/0312028 (2003).

    Parameters
    ----------
    members
        The servers of each job, a valid start: distinct, and equally many for all jobs. The lists
        are changed in place.
    stream
        The source of random numbers.
    forbid_equal_jobs
        Whether two jobs must not have the same servers, as in a simple graph.
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
    """Return a two-worker job for each edge of a random simple graph in which all degrees are 4."""
    circulant = [
        [server, (server + step) % servers] for step in (1, 2) for server in range(servers)
    ]
    return _switched(circulant, stream, forbid_equal_jobs=True)


def _random_hypergraph(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Return random jobs, one per server, that each span 8 servers, with 8 jobs on each server."""
    circulant = [[(job + step) % servers for step in range(HYP8_SPAN)] for job in range(servers)]
    return _switched(circulant, stream, forbid_equal_jobs=False)


REG4 = FleetFamily(
    "reg4",
    version=1,
    summary="random graph of degree 4 whose vertices are servers and whose edges are jobs",
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
"""16 jobs that each span half of the planted servers use 8 GPUs per planted server on average."""
UNPLANTED_SPAN = 8
NOISE_PERCENT = 8


def _planted(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Place 16 wide jobs on a random (planted) 30 % of the servers, and narrow jobs on the others.

    A random 30 % of the servers (rounded up) are planted. Each of 16 wide jobs has one worker on
    each server of a random half (rounded up) of the planted servers. There are as many further jobs
    as other servers, each with one worker on each of 8 random other servers. As noise, 8 % of all
    workers are placed on a random server of the whole fleet instead.

    Every server has 8 GPUs, and a job has at most one worker on a server. The server of a worker is
    drawn from the servers that have a free GPU and no worker of the same job; a worker is left out
    if no such server exists. Jobs are placed in random order, so that both kinds lose workers
    equally often.
    """
    order = list(range(servers))
    stream.shuffle(order)
    planted_servers = -(-servers * PLANTED_PERCENT // 100)
    # Each set holds servers that can still take a worker of the current job.
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
    summary="30 % of the servers share 16 wide jobs, the others jobs of span 8; 8 % noise",
    place=_planted,
)


WIDE_JOBS = 12
LOCAL_JOB_PERCENT = 50


def _wide_and_local(servers: int, stream: IntegerStream) -> list[Allocation]:
    """Place 12 wide jobs on random servers, then jobs on one server each; return them in order.

    The span of each wide job is drawn from n/8 to n/3 (rounded down, at least 1) for n servers. The
    job has one worker on each of so many random servers with a free GPU. It spans fewer servers if
    fewer have a free GPU, and is left out if none has. Then every server with free GPUs gets a
    one-server job with probability 1/2; its number of workers is drawn from 1 to the free GPUs.
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
    summary="12 wide jobs that each span n/8 to n/3 random servers, and jobs on one server",
    place=_wide_and_local,
)
