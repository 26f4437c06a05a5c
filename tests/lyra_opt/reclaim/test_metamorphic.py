"""What must not change, or change in one direction only, when an instance is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.reclaim import Instance, Job, Server, Solution, WorkerGroup
from lyra_opt.reclaim.bounds.dual_bound import dual_bound
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.lyra_opt.reclaim import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBLEM = find_problem("reclaim")
PROVERS = ("brute-force", "cpsat-strengthened", "pulp-highs-strengthened")


@pytest.fixture(params=PROVERS)
def prover(request: pytest.FixtureRequest) -> str:
    """The name of an exact solver."""
    return request.param


def proved_optimum(solver: str, instance: Instance) -> int:
    answer = solve_and_check(PROBLEM, instance, find_solver("reclaim", solver))
    assert answer.status == "optimal", answer.message
    return answer.objective


def shuffled(
    instance: Instance, servers: Sequence[int], jobs: Sequence[int], prefix: str
) -> Instance:
    """Return the same fleet in another file order, with every id changed."""
    return replace(
        instance,
        servers=tuple(
            replace(instance.servers[s], id=prefix + instance.servers[s].id) for s in servers
        ),
        jobs=tuple(
            replace(
                instance.jobs[j],
                id=prefix + instance.jobs[j].id,
                workers=tuple(
                    replace(group, server=prefix + group.server)
                    for group in reversed(instance.jobs[j].workers)
                ),
            )
            for j in jobs
        ),
    )


def test_renaming_and_reordering(prover: str) -> None:
    """Proved optima and bounds do not depend on file order or on ids."""

    @given(reclaim_instances(max_servers=6), st.data())
    @draws(40)
    def unchanged(instance: Instance, data: st.DataObject) -> None:
        servers = data.draw(st.permutations(range(len(instance.servers))))
        jobs = data.draw(st.permutations(range(len(instance.jobs))))
        other = shuffled(instance, servers, jobs, data.draw(st.sampled_from(["", "z", "é "])))
        assert proved_optimum(prover, other) == proved_optimum(prover, instance)
        assert dual_bound(other) == dual_bound(instance)

    unchanged()


def test_adding_a_job(prover: str) -> None:
    """One more job never lowers the optimum, nor the bound, by any of its workers' places."""

    @given(reclaim_instances(min_servers=1, max_servers=6), st.data())
    @draws(40)
    def never_lower(instance: Instance, data: st.DataObject) -> None:
        hosts = data.draw(st.sets(st.sampled_from(instance.servers), min_size=1, max_size=3))
        job = Job(
            id="one more",
            weight=data.draw(st.integers(0, 3)),
            workers=tuple(
                WorkerGroup(server=server.id, base=1) for server in sorted(hosts, key=_id)
            ),
        )
        roomy = tuple(replace(server, gpus=server.gpus + 1) for server in instance.servers)
        more = replace(instance, servers=roomy, jobs=(*instance.jobs, job))
        assert proved_optimum(prover, more) >= proved_optimum(prover, instance)
        assert dual_bound(more) >= dual_bound(instance)

    never_lower()


def _id(server: Server) -> str:
    return server.id


@given(reclaim_instances(min_servers=2), st.data())
def test_a_superset_never_costs_less(instance: Instance, data: st.DataObject) -> None:
    """Reclaiming more servers preempts at least the same jobs."""
    on_loan = [server.id for server in instance.servers if server.on_loan]
    assume(on_loan)
    more = data.draw(st.lists(st.sampled_from(on_loan), unique=True))
    fewer = more[: data.draw(st.integers(0, len(more)))]
    costs = [
        reference.objective(
            replace(instance, reclaim_servers=len(servers)), Solution(tuple(servers))
        )
        for servers in (fewer, more)
    ]
    assert costs[0] <= costs[1]


def test_reclaiming_more_servers(prover: str) -> None:
    """The optimum and the bound do not fall as N_R grows; the ends are 0 and all that can die."""

    @given(reclaim_instances(max_servers=6))
    @draws(25)
    def never_falls(instance: Instance) -> None:
        on_loan = sum(server.on_loan for server in instance.servers)
        steps = [replace(instance, reclaim_servers=k) for k in range(on_loan + 1)]
        optima = [proved_optimum(prover, step) for step in steps]
        assert optima == sorted(optima)
        assert optima[0] == 0
        bounds = [dual_bound(step) for step in steps]
        assert bounds == sorted(bounds)

    never_falls()


def test_scaling_weights(prover: str) -> None:
    """All weights times a factor: the optimum times that factor."""

    @given(reclaim_instances(max_servers=6), st.sampled_from([0, 2, 7, 1000]))
    @draws(40)
    def scales(instance: Instance, factor: int) -> None:
        heavier = replace(
            instance,
            jobs=tuple(replace(job, weight=factor * job.weight) for job in instance.jobs),
        )
        assert proved_optimum(prover, heavier) == factor * proved_optimum(prover, instance)

    scales()


@given(reclaim_instances(semantics="rigid", max_servers=6))
@draws(60)
def test_without_slack_the_semantics_agree(instance: Instance) -> None:
    """If every worker is base and needed, interchangeable is rigid."""
    base_only = replace(
        instance,
        jobs=tuple(
            replace(
                job,
                min_workers=job.total_workers,
                workers=tuple(
                    WorkerGroup(server=group.server, base=group.workers) for group in job.workers
                ),
            )
            for job in instance.jobs
        ),
    )
    elastic = replace(base_only, semantics="interchangeable")
    assert reference.optimum(base_only) == reference.optimum(elastic)
