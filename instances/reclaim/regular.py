"""Families ``reg4`` and ``hyp8``: every server looks alike, and only the structure counts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.instances.reclaim.family import FleetFamily

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation

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
