"""The synthetic reclaim families: pinned bytes, and the structure that each promises."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.documents import format_document
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import family_names, find_family, generate
from lyra_opt.instances.reclaim.placement import CHURN_ROUNDS
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


def test_best_fit_uses_as_few_servers_as_it_can():
    instance = generate("reclaim", "bf-dist", servers=300, reclaim=0)
    for job in instance.jobs:
        assert len(job.workers) == -(-job.total_workers // 8)


@pytest.mark.parametrize("mix", ["trace", "dist"])
def test_placements_differ_in_fragmentation(mix):
    mean_span = [
        Fraction(sum(spans(instance)), len(instance.jobs))
        for rule in ("bf", "rnd", "messy")
        for instance in [generate("reclaim", f"{rule}-{mix}", servers=300, reclaim=0)]
    ]
    assert mean_span == sorted(mean_span)
    assert mean_span[2] > Fraction(3, 2) * mean_span[0]


def test_messy_wide_jobs_span_about_thirty_servers():
    widest = [
        len(job.workers)
        for seed in range(5)
        for job in generate("reclaim", "messy-dist", servers=520, reclaim=0, seed=seed).jobs
        if job.total_workers == 64
    ]
    assert widest
    assert all(25 <= span <= 32 for span in widest)


def test_job_sizes_follow_their_mix():
    sizes = Counter(
        job.total_workers for job in generate("reclaim", "rnd-trace", servers=5000, reclaim=0).jobs
    )
    jobs = sizes.total()
    assert set(sizes) == {1, 2, 4, 8, 16, 32, 64}
    for gpus, per_mille in {1: 650, 2: 110, 4: 110, 8: 90, 16: 22, 32: 10, 64: 8}.items():
        assert abs(1000 * sizes[gpus] - per_mille * jobs) <= 6 * (1000 * per_mille * jobs) ** 0.5
    assert CHURN_ROUNDS == 3


@pytest.mark.parametrize("servers", [1, 2, 3, 8, 24, 100])
def test_span_has_wide_and_local_jobs(servers):
    instance = generate("reclaim", "span", servers=servers, reclaim=1)
    wide, local = instance.jobs[:12], instance.jobs[12:]
    if servers >= 8:
        assert len(wide) == 12
        assert all(servers // 8 <= len(job.workers) <= servers // 3 for job in wide)
    assert all(len(job.workers) == 1 for job in local)
    assert all(len(jobs) <= 8 for jobs in jobs_by_server(instance).values())


@pytest.mark.parametrize(
    ("servers", "jobs"), [(4, 4), (6, 9), (8, 12), (9, 18), (12, 24), (20, 40)]
)
def test_grid_is_a_torus(servers, jobs):
    instance = generate("reclaim", "grid", servers=servers, reclaim=1)
    assert len(instance.jobs) == jobs
    assert set(spans(instance)) == {2}
    assert len({frozenset(group.server for group in job.workers) for job in instance.jobs}) == jobs
    degrees = {len(found) for found in jobs_by_server(instance).values()}
    assert degrees == {2 * jobs // servers}


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


def test_planted_set_is_cheap():
    instance = generate("reclaim", "planted", servers=100, reclaim=30)
    wide = {job.id for job in instance.jobs[:16]}
    share = {
        server: len(jobs & wide) / len(jobs) for server, jobs in jobs_by_server(instance).items()
    }
    planted = sorted(share, key=share.__getitem__)[-30:]
    assert min(share[server] for server in planted) > 0.5
    assert max(share[server] for server in set(share) - set(planted)) < 0.5
    touched = set().union(*(jobs_by_server(instance)[server] for server in planted))
    assert 16 <= len(touched) <= 16 + 30  # the wide jobs, and what noise brings
    assert used_gpus(instance) >= 0.97 * 800
    assert all(group.base == 1 for job in instance.jobs for group in job.workers)


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


@pytest.mark.parametrize("family", ["net", "net-joined"])
@pytest.mark.parametrize("order", [7, 11])
def test_net_is_eight_parallel_classes(family, order):
    instance = generate("reclaim", family, reclaim=order - 1)
    found = jobs_by_server(instance)
    block = [server for server in found if server.startswith("block-")]
    points = [server for server in found if server.startswith("net-")]
    assert (len(block), len(points)) == (order - 1, order**2)
    lines = [job for job in instance.jobs if job.id.startswith(("vertical-", "slope-"))]
    assert len(lines) == 8 * order
    assert {len(line.workers) for line in lines} == {order}
    ids = {line.id for line in lines}
    assert all(len(found[point] & ids) == 8 for point in points)
    assert all(len(found[one] & found[other]) <= 1 for one, other in combinations(points, 2))
    is_joined = family == "net-joined"
    assert len(instance.jobs) == len(lines) + 8 + is_joined
    assert {server.gpus for server in instance.servers} == {8 + is_joined}
    if is_joined:
        assert found["block-1"] & found["net-1"] == {"joining"}


def test_interchangeable_jobs_need_their_share():
    instance = generate(
        "reclaim",
        "messy-dist",
        servers=400,
        reclaim=40,
        semantics="interchangeable",
        min_workers_percent=30,
    )
    wide = [job for job in instance.jobs if job.total_workers > 1]
    elastic = [job for job in wide if job.min_workers < job.total_workers]
    assert all(job.min_workers == -(-job.total_workers * 30 // 100) for job in elastic)
    assert 50 <= 100 * len(elastic) / len(wide) <= 70
    assert all(job.min_workers == 1 for job in instance.jobs if job.total_workers == 1)


def test_off_loan_servers_are_drawn():
    instances = [
        generate("reclaim", "grid", servers=20, reclaim=1, off_loan_percent=34, seed=seed)
        for seed in (0, 1)
    ]
    loans = [[server.on_loan for server in instance.servers] for instance in instances]
    assert [loan.count(False) for loan in loans] == [6, 6]
    assert loans[0] != loans[1]


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
