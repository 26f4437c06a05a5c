"""The synthetic reclaim families: pinned bytes, and the structure that each promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.documents import format_document
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import family_names, find_family, generate
from lyra_opt.reclaim import Instance, check
from tests.draws import draws
from tests.tables import tables

TABLES = tables(__file__)


PLACED = [f"{rule}-{mix}" for rule in ("bf", "rnd", "messy") for mix in ("trace", "dist")]
FLEET_FAMILIES = [*PLACED, "span", "grid", "reg4", "hyp8", "planted"]
SOLVED_FAMILIES = ["decoy", "net", "net-joined"]


def content(instance: Instance) -> str:
    return format_document(find_problem("reclaim").instance_document(instance))


def spans(instance: Instance) -> list[int]:
    return [len(job.workers) for job in instance.jobs]


def jobs_by_server(instance: Instance) -> dict[str, set[str]]:
    jobs: dict[str, set[str]] = {server.id: set() for server in instance.servers}
    for job in instance.jobs:
        for group in job.workers:
            jobs[group.server].add(job.id)
    return jobs


def used_gpus(instance: Instance) -> int:
    return sum(job.total_workers for job in instance.jobs)


def test_every_family_is_covered_here():
    assert {*FLEET_FAMILIES, *SOLVED_FAMILIES, "snapshot"} == set(family_names("reclaim"))


@pytest.mark.parametrize("family", FLEET_FAMILIES)
@pytest.mark.parametrize("servers", [8, 9, 20, 60])
@pytest.mark.parametrize("seed", [0, 1])
def test_instances_are_what_was_asked_for(family, servers, seed):
    instance = generate("reclaim", family, servers=servers, reclaim=3, seed=seed)
    assert len(instance.servers) == servers
    assert instance.reclaim_servers == 3
    assert all(server.gpus == 8 and server.on_loan for server in instance.servers)
    assert all(job.weight == job.gpus_per_worker == 1 for job in instance.jobs)
    assert all(group.flexible == 0 for job in instance.jobs for group in job.workers)
    assert instance.jobs
    assert content(instance) == content(
        generate("reclaim", family, servers=servers, reclaim=3, seed=seed)
    )


@pytest.mark.parametrize("family", sorted({*FLEET_FAMILIES} - {"grid"}))
def test_seeds_differ(family):
    first, second = (generate("reclaim", family, servers=40, reclaim=5, seed=s) for s in (0, 1))
    assert first.jobs != second.jobs


@pytest.mark.parametrize("family", FLEET_FAMILIES)
def test_question_does_not_change_the_fleet(family):
    def ask(**question):
        return generate("reclaim", family, servers=40, seed=3, **question)

    plain = ask(reclaim=5)
    other = ask(reclaim=9, semantics="interchangeable", off_loan_percent=25)
    assert [job.workers for job in plain.jobs] == [job.workers for job in other.jobs]
    assert ask(reclaim=9, off_loan_percent=25).servers == other.servers


@pytest.mark.parametrize("family", PLACED)
@pytest.mark.parametrize("servers", [1, 2, 5, 30, 300])
def test_placed_load(family, servers):
    instance = generate("reclaim", family, servers=servers, reclaim=0)
    least = 95 if servers >= 30 else 85  # the last job may not fit a small fleet
    assert least * servers * 8 <= 100 * used_gpus(instance) <= 800 * servers


@given(st.integers(5, 40), st.integers(0, 50))
@draws(30)
def test_reg4_is_a_simple_graph_of_degree_4(servers, seed):
    instance = generate("reclaim", "reg4", servers=servers, reclaim=1, seed=seed)
    assert set(spans(instance)) == {2}
    edges = {frozenset(group.server for group in job.workers) for job in instance.jobs}
    assert len(edges) == len(instance.jobs) == 2 * servers
    assert {len(jobs) for jobs in jobs_by_server(instance).values()} == {4}


@given(st.integers(8, 40), st.integers(0, 50))
@draws(30)
def test_hyp8_is_regular_in_both_ways(servers, seed):
    instance = generate("reclaim", "hyp8", servers=servers, reclaim=1, seed=seed)
    assert set(spans(instance)) == {8}
    assert {len(jobs) for jobs in jobs_by_server(instance).values()} == {8}


@pytest.mark.parametrize("servers", range(1, 12))
def test_planted_of_any_size(servers):
    instance = generate("reclaim", "planted", servers=servers, reclaim=1)
    assert all(len(jobs) <= 8 for jobs in jobs_by_server(instance).values())


@pytest.mark.parametrize(("family", "reclaim", "servers", "optimal"), TABLES["known_optimum"])
def test_known_optimum_is_reached(family, reclaim, servers, optimal):
    instance = generate("reclaim", family, reclaim=reclaim)
    solution, objective = find_family("reclaim", family).known_optimum({"reclaim": reclaim})
    report = check(instance, solution)
    assert (report.violations, report.objective, objective) == ((), optimal, optimal)
    assert len(instance.servers) == servers
    assert all(jobs_by_server(instance).values())  # so that nothing is free of charge


@pytest.mark.parametrize(
    ("percent", "servers", "reclaimed"),
    [(15, 10, 2), (30, 5, 2), (29, 50, 15), (10, 4, 1), (1, 4, 1), (100, 7, 7)],
)
def test_shares_round_half_up_and_give_at_least_one(percent, servers, reclaimed):
    of_share = generate("reclaim", "rnd-dist", servers=servers, reclaim_percent=percent)
    assert of_share == generate("reclaim", "rnd-dist", servers=servers, reclaim=reclaimed)


def test_largest_decoy_is_the_largest_fleet():
    from lyra_opt.instances.family_parameters import LARGEST_FLEET
    from lyra_opt.instances.reclaim.solved import LARGEST_RECLAIM

    def servers(k: int) -> int:
        return 2 * k - (-64 * k**2 // 7)

    assert servers(LARGEST_RECLAIM) <= LARGEST_FLEET < servers(LARGEST_RECLAIM + 1)
