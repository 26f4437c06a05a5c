"""Quotas: what tenants may hold, who is served next, and what is taken back from whom."""

import random
from dataclasses import asdict, replace

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.preemption import LostPods, PlacedPods, Solution
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import measure
from lyra_opt.simulation.policies.composition import BORROW, IGNORE, PARTITION
from lyra_opt.simulation.preempting import PreemptionRule, preemption_instance
from lyra_opt.simulation.quotas import Quota, Quotas
from lyra_opt.simulation.scheme import Options, find_scheme, scheme_names, simulate
from lyra_opt.simulation.tenure import Forever
from tests.lyra_opt.simulation.replays import (
    EVERY_EVENT,
    SAME_GPU,
    completions,
    job_of,
    lending,
    workload_of,
)
from tests.optima import objective, optimum
from tests.reference.drawing import UNKNOWN
from tests.reference.tenants import Member, Replay, Work
from tests.tables import tables

PAUSE_S = 5


def drawn_members(rng, gpus):
    """Return tenants with quotas in one level, or some of them in a group."""
    names = ["a", "b", "c", "d"][: rng.randint(1, 4)]
    left, members = gpus, []
    groups = [None]
    if rng.random() < 0.5:
        quota = rng.randint(0, gpus)
        members.append(Member("team", quota, rng.choice([None, quota, gpus])))
        groups, left = [None, "team"], gpus - quota
    left_of = {None: left, "team": gpus - left}
    for name in names:
        group = rng.choice(groups)
        if groups[1:] and name == "a":
            group = "team"
        quota = rng.randint(0, left_of[group])
        left_of[group] -= quota
        most = rng.choice([None, None, quota, gpus])
        members.append(Member(name, quota, most, group))
    return members


def drawn_replay(seed):
    """Return a small replay whose jobs can all run."""
    rng = random.Random(seed)
    gpus = rng.randint(4, 12)
    members = drawn_members(rng, gpus)
    mode = rng.choice([BORROW, BORROW, PARTITION])
    replay = Replay(
        gpus=gpus,
        members=members,
        jobs=[],
        queue=rng.choice(["first-come", "first-come-overtaking"]),
        mode=mode,
        takes_back=rng.random() < 0.8,
        pause_s=PAUSE_S,
    )
    quotas = quotas_of(members)
    limits = quotas.limits(borrows=mode == BORROW)
    submit_s, jobs = 0, []
    for order in range(rng.randint(4, 16)):
        tenant = rng.choice(list(quotas.tenants))
        most = int(min(gpus, limits[quotas.tenants[tenant]], rng.choice([2, 3, gpus])))
        submit_s += rng.choice([0, 1, 1, 7])
        if most:
            jobs.append(Work(order, tenant, submit_s, rng.randint(1, most), rng.randint(5, 40)))
    replay.jobs = [*jobs] or [Work(0, next(iter(quotas.tenants)), 0, 0, 1)]
    for order, job in enumerate(replay.jobs):
        job.order = order
    return replay


def quotas_of(members):
    """Return the members as the simulation takes them."""
    return Quotas(
        quotas=tuple(
            Quota(name=each.name, gpus=each.gpus, most_gpus=each.most, group=each.group)
            for each in members
        )
    )


def simulated(drawn, quotas, **parameters):
    """Return what the simulation makes of a drawn replay."""
    jobs = [
        job_of(str(job.order), job.submit_s, job.duration_s, job.gpus, tenant=job.tenant)
        for job in drawn.jobs
    ]
    scheme = find_scheme("fifo").with_parameters(
        {
            "queue": drawn.queue,
            "quotas": drawn.mode,
            "takes_back": "brute-force" if drawn.takes_back else None,
            **parameters,
        }
    )
    cluster = replace(Cluster.of_servers(1, gpus_per_server=drawn.gpus), tenants=quotas)
    options = Options(forever=Forever(preemption_s=PAUSE_S))
    return simulate(workload_of(*jobs), cluster, scheme, options=options)


def check(seed):
    """Hold a replay against the second implementation; return how many jobs were taken back."""
    drawn = drawn_replay(seed)
    if not drawn.jobs[0].gpus:
        return 0
    drawn.run()
    quotas = quotas_of(list(drawn.members))
    simulation = simulated(drawn, quotas)
    assert completions(simulation) == [job.completed_s for job in drawn.jobs]
    assert [run.preemptions for run in simulation.runs] == [job.stops for job in drawn.jobs]
    for name, use in simulation.tenants.use_of_tenants().items():
        assert use.above_quota_gpu_s == drawn.above_gpu_s.get(name, 0)
        assert use.below_quota_s == drawn.below_s.get(name, 0)
        assert use.taken_back == drawn.taken_back.get(name, 0)
    return sum(drawn.taken_back.values())


@pytest.mark.parametrize(
    "draws", [range(200), pytest.param(range(200, 5200), marks=pytest.mark.slow)]
)
def test_replays_are_those_of_a_second_implementation(draws):
    """Order of service, borrowing, limits, what is taken back, and times above and below quota."""
    assert sum(check(seed) for seed in draws) > len(draws) / 10


def test_one_tenant_changes_nothing():
    """A single tenant with all GPUs: every outcome of every composed scheme stays the same."""
    jobs = [
        job_of(str(k), k // 2, 3 + 7 * k % 11, 1 + k % 3, max_workers=1 + k % 3 + k % 2, tenant="a")
        for k in range(30)
    ]
    cluster = Cluster.of_servers(3, gpus_per_server=2, inference_servers=2)
    quotas = Quotas(quotas=(Quota(name="a", gpus=6),))
    plan = lending(0, 1, 2, 1, 0, interval_s=20)
    for name in scheme_names():
        scheme = find_scheme(name)
        if scheme.knows_tenants and scheme.tenure == "forever":
            alone, with_quota = (
                asdict(measure(simulate(workload_of(*jobs), each, scheme, plan=plan)))
                for each in (cluster, replace(cluster, tenants=quotas))
            )
            for key, value in alone.items():
                if not (key.endswith("_by_tenant") or key.startswith(("jain", "decision"))):
                    assert with_quota[key] == value, (name, key)


def starts(simulation):
    """Return when each job started first, in the order of the workload."""
    return [run.start_s for run in simulation.runs]


def on_two_servers(takes_back, **parameters):
    """Tenant a borrows all of two servers; then b needs one server of its quota."""
    jobs = [job_of(f"a{k}", 0, 100 + k, 2, gpus_per_worker=1, tenant="a") for k in range(4)]
    jobs.append(job_of("b", 10, 20, 2, gpus_per_worker=2, tenant="b"))
    quotas = Quotas(quotas=(Quota(name="a", gpus=4), Quota(name="b", gpus=4)))
    cluster = replace(Cluster.of_servers(2, gpus_per_server=4), tenants=quotas)
    scheme = find_scheme("fifo").with_parameters({"takes_back": takes_back, **parameters})
    return simulate(workload_of(*jobs), cluster, scheme)


@pytest.mark.parametrize("takes_back", ["exact", "kueue", "reclaim:exact", "reclaim:lyra-greedy"])
def test_any_rule_can_take_back(takes_back):
    """Preemption and reclaim solvers stop just enough borrowed jobs, those that started last."""
    simulation = on_two_servers(takes_back)
    assert starts(simulation)[4] == 10
    assert [run.preemptions for run in simulation.runs] == [0, 0, 1, 1, 0]


def test_nothing_is_taken_back_without_a_rule_or_from_a_partition():
    """Without a rule the owner waits; in a partition nobody borrows; ignored quotas do nothing."""
    assert starts(on_two_servers(None))[4] > 10
    assert starts(on_two_servers(None, quotas=PARTITION))[:4] == [0, 0, 100, 101]
    ignored = on_two_servers("exact", quotas=IGNORE)
    assert starts(ignored)[4] > 10
    assert ignored.tenants.use_of_tenants()["a"].above_quota_gpu_s > 0


def test_priorities_count_within_a_tenant():
    """A preempter stops jobs of lower priority of the same tenant alone."""
    jobs = [
        job_of("a", 0, 100, 2, tenant="a"),
        job_of("b", 0, 100, 2, tenant="b"),
        job_of("b-urgent", 5, 10, 2, tenant="b", priority=1),
    ]
    quotas = Quotas(quotas=(Quota(name="a", gpus=2), Quota(name="b", gpus=2)))
    cluster = replace(Cluster.of_servers(1, gpus_per_server=4), tenants=quotas)
    scheme = find_scheme("fifo").with_parameters({"queue": "priority", "preempter": "exact"})
    simulation = simulate(workload_of(*jobs), cluster, scheme)
    assert [run.preemptions for run in simulation.runs] == [0, 1, 0]


def test_elastic_jobs_grow_within_the_limit():
    """Flexible workers are borrowed GPUs too."""
    job = job_of("a", 0, 100, 1, max_workers=8, tenant="a")
    quotas = Quotas(quotas=(Quota(name="a", gpus=2, most_gpus=3), Quota(name="b", gpus=2)))
    cluster = replace(Cluster.of_servers(1, gpus_per_server=8), tenants=quotas)
    for name, gpus in (("borrow", 3), ("partition", 2), ("ignore", 8)):
        scheme = find_scheme("lyra-scaling").with_parameters({"quotas": name})
        assert completions(simulate(workload_of(job), cluster, scheme)) == [
            pytest.approx(100 / gpus)
        ]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("a", 1, None, None), ("a", 1, None, None)], "must not occur twice"),
        ([("a", 1, None, "team")], "must be the name of a group that comes before"),
        ([("team", 1, None, None), ("a", 2, None, "team")], "must not have more GPUs"),
        ([("a", 2, 1, None)], "must be an integer of at least 2"),
    ],
)
def test_wrong_quotas_are_refused(members, words):
    """Names, groups, sums and limits."""
    with pytest.raises(FieldError, match=words):
        quotas_of([Member(*each) for each in members])


@pytest.mark.parametrize(("scheme", "job", "words"), tables(__file__)["refused"])
def test_what_cannot_run_with_quotas_is_refused(scheme, job, words):
    """Unknown tenants, jobs above the limit, and schemes that cannot keep quotas."""
    quotas = Quotas(quotas=(Quota(name="a", gpus=2, most_gpus=3),))
    cluster = replace(Cluster.of_servers(1, gpus_per_server=8), tenants=quotas)
    with pytest.raises(UserError, match=words):
        simulate(workload_of(job_of("j", 0, 10, **job)), cluster, scheme)
    with pytest.raises(FieldError, match="must have at most the 1 own GPUs"):
        replace(Cluster.of_servers(1, gpus_per_server=1), tenants=quotas)


def test_a_job_on_own_and_borrowed_gpus_gives_up_own_ones_alone():
    """It shrinks by the own server that is emptied, and keeps its workers on loan."""
    jobs = [
        job_of("a", 0, 100, 4, max_workers=12, heterogeneous=True, tenant="a"),
        job_of("b", 5, 1000, 4, tenant="b"),
    ]
    quotas = Quotas(quotas=(Quota(name="a", gpus=4), Quota(name="b", gpus=4)))
    cluster = Cluster.of_servers(
        2,
        gpus_per_server=4,
        inference_servers=1,
        inference_gpus_per_server=4,
        inference_gpu=SAME_GPU,
    )
    simulation = simulate(
        workload_of(*jobs),
        replace(cluster, tenants=quotas),
        find_scheme("lyra").with_parameters(
            {"takes_back": "reclaim:exact", "shrinks_longer_only": True}
        ),
        plan=lending(1, 1),
        options=replace(EVERY_EVENT, mixed_efficiency=1.0),
    )
    assert starts(simulation) == [0, 5]
    assert completions(simulation)[0] == 5 + (400 - 5 * 12) / 8
    assert [run.preemptions for run in simulation.runs] == [0, 0]


@pytest.mark.parametrize("seed", range(40))
def test_kept_answers_are_as_good_as_new_ones(seed, monkeypatch):
    """Among all jobs that may give way, including those that are alike, no others cost less."""
    rng = random.Random(seed)
    jobs = []
    for number in range(40):
        gang, tenant, priority = rng.choice([1, 1, 2, 3, 5]), rng.choice("aabc"), rng.randint(0, 1)
        fields = {"max_workers": gang + rng.choice([0, 0, 1, 3]), "priority": priority}
        jobs.append(
            job_of(str(number), number // 2, rng.randint(5, 40), gang, tenant=tenant, **fields)
        )
    quotas = Quotas(
        quotas=tuple(
            Quota(name=name, gpus=gpus) for name, gpus in zip("abc", (2, 6, 6), strict=True)
        )
    )
    costs = []
    choose = PreemptionRule.choose

    def compared(rule, view, pending, victims):
        found = choose(rule, view, pending, victims)
        if found is not None:
            instance = preemption_instance(view, pending, victims)
            lost = {str(run.order): sum(gpus.values()) for run, gpus in found.shrunk}
            solution = Solution(
                lost_gangs=[str(run.order) for run in found.stopped],
                lost_pods=[LostPods(gang=name, count=count) for name, count in lost.items()],
                placements=[PlacedPods(node=instance.nodes[0].id, count=pending.pods)],
            )
            costs.append((objective(instance, solution), optimum(instance)))
        return found

    monkeypatch.setattr(PreemptionRule, "choose", compared)
    scheme = find_scheme("lyra-scaling").with_parameters({"shrinks_longer_only": True})
    cluster = replace(Cluster.of_servers(1, gpus_per_server=14), tenants=quotas)
    simulate(workload_of(*jobs), cluster, scheme, options=EVERY_EVENT)
    assert any(best != UNKNOWN for _, best in costs)
    assert all(best in (cost, UNKNOWN) for cost, best in costs)
