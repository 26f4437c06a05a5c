"""Any cluster x speed x tenure x policy runs to its end and conserves what must be conserved.

What is drawn and what is checked: `tests.lyra_opt.simulation.product`. A failure names the seed,
and `python -m tests.lyra_opt.simulation.product SEED` replays it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.network.links import Tier
from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.communication import SlowdownTable
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import prepare, simulate
from lyra_opt.simulation.tenure import Leases, Rounds
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import sampled
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.product import (
    CLUSTERS,
    POLICIES,
    TENURES,
    TUNED,
    failure_of,
    kind_of,
    policy_kind,
    preempts,
    require_same,
)
from tests.lyra_opt.simulation.replays import job_of, lending, replay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.simulation.view import View

SEEDS = range(12_000)
SAMPLE = SEEDS[5::13]
"""Every policy is in it, since 13 is prime."""

LEAST = 100
MOST_NAMED = 10


def run_all(seeds: Iterable[int]) -> None:
    """Run seeds; fail with those that fail, and why."""
    failures = []
    runs = refusals = 0
    for seed in seeds:
        failure, outcome = failure_of(seed)
        runs += 1
        if outcome is None:
            failures.append(failure)
        elif outcome.kernel is None:
            refusals += 1
    if failures:
        named = "\n".join(failures[:MOST_NAMED])
        pytest.fail(f"{len(failures)} of {runs} fail, such as\n{named}", pytrace=False)
    assert 3 * refusals < runs


def test_every_part_is_in_the_sample():
    """Every policy, cluster and tenure."""
    kinds = [kind_of(seed) for seed in SAMPLE]
    assert {kind.policy for kind in kinds} == set(POLICIES)
    assert {kind.cluster for kind in kinds} == set(CLUSTERS)
    assert {kind.tenure for kind in kinds} == set(TENURES)


@pytest.mark.parametrize("part", sampled([(part,) for part in range(8)], 4))
def test_a_sample_of_all_combinations(part):
    """Runs are sound, and the same each time, whoever looks on."""
    run_all(SAMPLE[part::8])


@pytest.mark.slow
def test_all_combinations():
    """Takes three minutes or so."""
    run_all(SEEDS)


def test_every_pair_of_parts_is_drawn_often():
    """At least a hundred times each, as far as it is possible at all.

    Policies are counted by their shape, since 36 policies have too few turns each. A policy alone
    has each cluster and each tenure that it can have ten times at least.
    """
    kinds = [kind_of(seed) for seed in SEEDS]
    pairs: Counter[tuple[str, ...]] = Counter()
    of_policy: Counter[tuple[str, str]] = Counter()
    for kind in kinds:
        parts = (kind.cluster, kind.tenure, f"policy {kind.policy_kind}", *kind.parts)
        pairs.update(combinations(parts, 2))
        of_policy.update(((kind.policy, kind.cluster), (kind.policy, kind.tenure)))
    shapes = [f"policy {name}" for name in ("composed", "rounds", "placement", "own")]
    for cluster, tenure in product(CLUSTERS, TENURES):
        assert pairs[cluster, tenure] >= LEAST
    for cluster, shape in product(CLUSTERS, shapes):
        assert pairs[cluster, shape] >= LEAST
    for tenure, shape in product(TENURES, shapes):
        if shape != "policy rounds" or tenure == "rounds":
            assert pairs[tenure, shape] >= LEAST
    speeds = ("elastic", "rigid", "given", "measured", "spread", "near", "far", "ignored")
    for shape, speed in product(shapes, speeds):
        assert pairs[shape, speed] >= LEAST
    assert pairs["policy composed", "tuned"] >= LEAST
    for policy in POLICIES:
        for cluster in CLUSTERS:
            if policy not in TUNED and policy != "gavel-cost":
                assert of_policy[policy, cluster] >= 10
        for tenure in TENURES:
            kind = policy_kind(policy)
            if preempts(policy) and not tenure.startswith("forever"):
                continue
            if kind not in ("rounds", "epochs") or tenure == kind:
                assert of_policy[policy, tenure] >= 10


# Found by it, as small as can be.


def measured(name: str, gang: int, rates: dict[str, float], spread: dict[str, float]) -> Job:
    """Return a job of ten steps whose speed was measured near and far."""
    return Job.of_gang(
        GangJob(id=name, gang=gang, steps=10, throughput=rates, spread_throughput=spread)
    )


def workload_of(*jobs: Job) -> Workload:
    return Workload(name="small", jobs=jobs)


def test_leases_are_not_passed_over_when_servers_move():
    """Loans end, and begin, while the last job runs."""
    cluster = Cluster.of_servers(
        1,
        gpus_per_server=1,
        inference_servers=1,
        inference_gpus_per_server=1,
        inference_gpu=GpuType(name="V100"),
    )
    found = []
    for repeats_itself in (False, True):
        kernel = prepare(
            workload_of(job_of("x", 0, 200, fungible=True, checkpoints=True)),
            cluster,
            "no-wait",
            plan=lending(1, 1, 0, interval_s=50),
            tenure=Leases(lease_s=5, hand_over_s_per_gpu=0),
        )
        assert kernel.policy.repeats_itself
        kernel.policy.repeats_itself = repeats_itself
        found.append(kernel.run())
    assert found[0].totals.there_gpu_s == [200, 100]
    require_same(*found)


@pytest.mark.parametrize("leases", [14, 3048])
def test_a_job_that_fills_its_last_lease_ends_in_it(leases):
    """Whether leases are replayed or passed over, although 1.1 steps a lease are rounded."""
    found = []
    for repeats_itself in (False, True):
        kernel = prepare(
            workload_of(Job.of_gang(in_rounds.gang("x", leases * 1.1, release_s=17.3, a=1.1))),
            in_rounds.cluster_of({"a": 1}),
            "no-wait",
            tenure=Leases(lease_s=1, hand_over_s_per_gpu=0.5),
        )
        kernel.policy.repeats_itself = repeats_itself
        found.append(kernel.run())
    assert [kernel.runs[0].allocations for kernel in found] == [leases, leases]
    require_same(*found)


def test_copies_are_slowed_by_distance_within_a_machine():
    """As the only copy of a job is."""
    jobs = workload_of(on_racks.job("x", 100, gang=2))
    rounds = Rounds(round_s=1000, restart_s=0, merge_s=0)
    completed_s = []
    for machines in (1, 2):
        cluster = on_racks.cluster_of(1, machines, 2, slowdowns=(2.0, 2.0, 4.0))
        run = simulate(jobs, cluster, "hadare", tenure=rounds).runs[0]
        assert run.most_copies == machines
        completed_s.append(run.completion_s)
    assert completed_s == [200, 100]


def test_a_worker_that_fits_no_server_on_which_it_runs_is_refused():
    """It would wait for ever."""
    cluster = in_rounds.cluster_of({"a": 2}, {"b": 1}, {"b": 1})
    gang = in_rounds.gang("x", 10, gang=2, b=1.0)
    job = Job(id="x", submit_s=0, work_worker_s=10, gpus_per_worker=2, measured=gang)
    with pytest.raises(UserError, match="job x"):
        simulate(workload_of(job), cluster, "fifo")


@pytest.mark.parametrize(
    "name", ["best-fit", "no-wait", "priced-placement", "gavel-throughput", "hadar", "yarn-cs"]
)
def test_gangs_that_must_not_be_spread_where_distance_counts(name):
    """On one type of GPUs it has no speed across machines, on the other it has."""
    topology = Topology(name="t", racks=(Rack(machines=2, gpus_per_machine=1),) * 2)
    table = SlowdownTable({("m", 2, tier): 1.0 for tier in Tier})
    cluster = Cluster.of_racks(topology, table, gpu_types=(GpuType(name="a"), GpuType(name="b")))
    job = measured("x", 2, {"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 1.0})
    rounds = Rounds(restart_s=0, merge_s=0)
    tenure = rounds if policy_kind(name) == "rounds" else Leases()
    found = simulate(workload_of(replace(job, model="m")), cluster, name, tenure=tenure)
    assert found.runs[0].completion_s == 10


BORROWING = Cluster.of_servers(
    1, gpus_per_server=1, inference_servers=4, inference_gpus_per_server=2
)


def test_measured_jobs_borrow_as_many_gpus_as_were_measured():
    """Their speed there is that of their gang, without replicas; spread they have none."""
    x = measured("x", 1, {"V100": 1.0, "T4": 1.0}, {"V100": 1.0, "T4": 0.0})
    y = replace(x, id="y", fungible=True)
    found = simulate(workload_of(x, y), BORROWING, "lyra-loaning", plan=lending(4))
    assert [run.completion_s for run in found.runs] == [10, 10]
    assert [run.held_gpu_s for run in found.runs] == [10, 10]


@pytest.mark.parametrize("name", ["hadare", "yarn-cs", "gavel-las", "priced-progress"])
def test_measured_jobs_stay_on_own_gpus_in_rounds(name):
    """However fast they would be on borrowed ones."""
    job = in_rounds.gang("x", 10, V100=1.0, T4=2.0)
    found = simulate(
        workload_of(Job.of_gang(job)),
        BORROWING,
        name,
        plan=lending(4),
        tenure=Rounds(restart_s=0, merge_s=0),
    )
    assert found.runs[0].completion_s == 10


@pytest.mark.parametrize("name", ["hadar", "priced-progress"])
def test_fungible_jobs_are_on_one_kind_of_gpus(name):
    """Rules that mix types must not mix own and borrowed ones for them."""
    cluster = Cluster.of_servers(
        1,
        gpus_per_server=2,
        inference_servers=1,
        inference_gpus_per_server=1,
        inference_gpu=GpuType(name="V100"),
    )
    jobs = [job_of("z", 0, 500), job_of("x", 0, 50, 2, fungible=True)]
    found = replay(jobs, cluster, name, plan=lending(1, interval_s=1000))
    _, lent_gpu_s = found.totals.held_gpu_s
    ran_on_loan = found.runs[1].ran_on_loan
    assert lent_gpu_s == (found.runs[1].held_gpu_s if ran_on_loan else 0)


def test_a_gang_that_fits_the_own_gpus_does_not_wait_for_both_kinds():
    """Hadar buys from the borrowed server first, as it has most free GPUs, and then an own one."""
    cluster = Cluster.of_servers(
        2,
        gpus_per_server=2,
        inference_servers=1,
        inference_gpus_per_server=3,
        inference_gpu=GpuType(name="V100"),
    )
    job = job_of("x", 0, 50, 4, fungible=True)
    found = simulate(
        workload_of(job), cluster, "hadar", plan=lending(1), tenure=Rounds(restart_s=0)
    )
    assert found.runs[0].completion_s == 50


class MovesAway(QueuePolicy):
    """Moves whoever is on a server that is called back, from the first one to the second."""

    def decide(self, view: View) -> None:
        for run in list(self.waiting.values()):
            self.start(view, run, view.reserve(run, {1: 2}))

    def reclaim(self, view: View, count: int) -> list[int]:
        run = view.runs[0]
        parts = view.reserve(run, {2: 2})
        view.lift(run)
        view.put(run, parts)
        return [1]


def test_jobs_that_move_at_a_recall_are_no_collateral():
    """Nothing is vacated but what is called back."""
    kernel = Kernel(
        workload_of(job_of("x", 0, 300, 2, fungible=True)),
        Cluster.of_servers(1, gpus_per_server=2, inference_servers=2, inference_gpus_per_server=2),
        MovesAway("moves-away"),
        plan=lending(2, 1),
    ).run()
    assert kernel.totals.vacated_gpus == 2
    assert measure(kernel).collateral_share == 0
