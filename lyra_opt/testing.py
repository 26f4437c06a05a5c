"""Hypothesis strategies for property tests of solvers, one's own included.

Needs the extra ``testing`` (``pip install lyra-opt[testing]``).

A strategy describes the *domain*: every valid instance within its limits can be drawn, and
failures shrink towards few servers, few jobs and small numbers. It is no model of any cluster;
for distributions that resemble one, see the generators in the package ``instances``.

>>> from hypothesis import given
>>> @given(reclaim_instances(semantics="rigid", max_servers=4))
... def test_every_job_weighs_something(instance):
...     assert instance.total_weight >= 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from lyra_opt.reclaim.instance import Job, ReclaimInstance, Semantics, Server, WorkerGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["reclaim_instances", "reclaim_servers_of"]


@st.composite
def reclaim_instances(
    draw: DrawFn,
    *,
    semantics: Semantics | str | None = None,
    min_servers: int = 0,
    max_servers: int = 7,
    max_jobs: int = 7,
    max_weight: int = 5,
    max_workers: int = 3,
    max_gpus_per_worker: int = 3,
    max_idle_gpus: int = 2,
    with_off_loan: bool = True,
    name: str = "drawn",
) -> ReclaimInstance:
    """Draw a valid reclaim instance.

    Among what can be drawn: no servers or jobs at all, empty servers, servers with equal
    contents, servers not on loan, jobs of weight 0, with flexible workers only, with several
    GPUs per worker; N_R from 0 to all servers on loan; interchangeable jobs that need none, some
    or all of their workers.

    Parameters
    ----------
    semantics
        Rigid or interchangeable; None draws one of the two.
    min_servers, max_servers
        How many servers, on loan or not.
    max_jobs
        Most jobs; there are none where there are no servers.
    max_weight
        Largest weight of a job; the smallest is 0.
    max_workers
        Most base and most flexible workers that a job has on one server.
    max_gpus_per_worker
        Most GPUs that one worker holds.
    max_idle_gpus
        Most GPUs of a server that no worker holds.
    with_off_loan
        Whether some servers may not be on loan.
    name
        The name of the instance.
    """
    drawn_semantics = Semantics(semantics or draw(st.sampled_from(Semantics)))
    server_ids = [f"s{number}" for number in range(draw(st.integers(min_servers, max_servers)))]
    job_ids = [f"j{number}" for number in range(draw(st.integers(0, max_jobs)))]
    job = _jobs(drawn_semantics, server_ids, max_weight, max_workers, max_gpus_per_worker)
    jobs = tuple(draw(job(job_id)) for job_id in job_ids if server_ids)
    # A server is as large as what was placed on it demands, so that no draw is thrown away.
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


def _jobs(
    semantics: Semantics,
    server_ids: list[str],
    max_weight: int,
    max_workers: int,
    max_gpus_per_worker: int,
) -> Callable[[str], SearchStrategy[Job]]:
    """Return a strategy for jobs on some of the servers, for a given job id."""
    counts = st.tuples(st.integers(0, max_workers), st.integers(0, max_workers)).filter(any)

    @st.composite
    def job(draw: DrawFn, job_id: str) -> Job:
        hosts = draw(st.lists(st.sampled_from(server_ids), min_size=1, unique=True))
        # One draw for all servers, half of the time: jobs that spread evenly are worth drawing.
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

    return job


def reclaim_servers_of(instance: ReclaimInstance) -> SearchStrategy[tuple[int, ...]]:
    """Return a strategy for the positions of ``reclaim_servers`` distinct servers on loan."""
    on_loan = [position for position, server in enumerate(instance.servers) if server.on_loan]
    return st.permutations(on_loan).map(
        lambda order: tuple(sorted(order[: instance.reclaim_servers]))
    )
