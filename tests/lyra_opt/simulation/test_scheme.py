"""Schemes by name: which there are, what they cannot run and why, and which GPUs jobs ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lyra_opt.allocation.exact.mckp_dp import MckpDp
from lyra_opt.core.errors import UserError
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.heuristics.policy_solver import SUMMARIES as ROUND_SUMMARIES
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.heuristics.policy_solver import SUMMARIES as PLACEMENT_SUMMARIES
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy
from lyra_opt.simulation.class_timers import ClassTimers, TimerClass
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import (
    EPOCHS,
    FOREVER,
    LEASES,
    ROUNDS,
    ComposedScheme,
    Options,
    OwnScheme,
    PlacementScheme,
    RoundScheme,
    Scheme,
    find_scheme,
    prepare,
    scheme_names,
    scheme_of,
    simulate,
)
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import completions, job_of, lending, replay

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.view import View


class FirstFits(QueuePolicy):
    """Starts whoever fits, by submission."""

    def decide(self, view: View) -> None:
        for run in list(self.waiting.values()):
            parts = view.fit(run)
            if parts is not None:
                self.start(view, run, parts)


OWN = OwnScheme(name="own", summary="for tests", make=FirstFits)


# Which there are.


def test_every_rule_is_a_scheme():
    """Nothing is forgotten, and no name stands for two schemes."""
    names = scheme_names()
    assert names == sorted(set(names))
    schemes = [find_scheme(name) for name in names]
    assert [scheme.name for scheme in schemes] == names
    of_kind = {
        kind: {scheme.name for scheme in schemes if isinstance(scheme, kind)}
        for kind in (ComposedScheme, RoundScheme, PlacementScheme)
    }
    assert of_kind[RoundScheme] == set(ROUND_POLICIES)
    assert of_kind[PlacementScheme] == set(PLACEMENT_POLICIES)
    assert sum(map(len, of_kind.values())) + len({"pollux"}) == len(names)


def test_summaries_and_tenures():
    """Those of the rules, which decide when these expect it."""
    for name in scheme_names():
        scheme = find_scheme(name)
        assert scheme.summary
        assert "\n" not in scheme.summary
        if isinstance(scheme, RoundScheme):
            assert (scheme.summary, scheme.tenure) == (ROUND_SUMMARIES[name], ROUNDS)
            assert scheme.make().name == name
        elif isinstance(scheme, PlacementScheme):
            assert (scheme.summary, scheme.tenure) == (PLACEMENT_SUMMARIES[name], LEASES)
            assert scheme.make().name == name
        else:
            assert scheme.tenure == (EPOCHS if name == "pollux" else FOREVER)


def test_an_unknown_scheme_is_refused():
    """With the nearest name, or the names of all."""
    with pytest.raises(UserError, match="scheme 'best-fti': unknown scheme; did you mean best"):
        find_scheme("best-fti")
    with pytest.raises(UserError, match=f"unknown scheme; known: {', '.join(scheme_names())}"):
        find_scheme("gang")


# What they cannot run.

GANG = Workload(name="gang", jobs=(on_racks.job("x", 10, gang=2),))
LARGE = Workload(name="large", jobs=(on_racks.job("x", 10, gang=3),))
WIDE = Workload(name="wide", jobs=(replace(job_of("x", 0, 10, gpus_per_worker=2), model="m"),))
MEASURED = Workload(name="measured", jobs=(Job.of_gang(in_rounds.gang("x", 1)),))
RACKS = on_racks.cluster_of()
UNLIKE = in_rounds.cluster_of({"a": 2, "b": 2})


@pytest.mark.parametrize(
    ("name", "workload", "cluster", "reason"),
    [
        ("gavel-gandiva", MEASURED, UNLIKE, "the workload has no throughputs of such pairs"),
        ("allox", GANG, RACKS, "job x has a gang of 2 GPUs, but it runs only jobs with one GPU"),
        (
            "hadare",
            LARGE,
            RACKS,
            "gang of 3 GPUs, which no single server can run, and it never spreads a gang",
        ),
        (
            "gavel-cost",
            GANG,
            RACKS,
            "compares the prices of GPU types, but the cluster has only one type",
        ),
        ("hadar", WIDE, RACKS, "places GPUs one by one, but each worker of job x needs 2 GPUs"),
        ("dally", WIDE, RACKS, "places GPUs one by one, but each worker of job x needs 2 GPUs"),
        ("pollux", GANG, RACKS, "computes job speeds with its own goodput model"),
        ("pollux", GANG, UNLIKE, "its goodput model covers one GPU type"),
        ("lyra-tuned", MEASURED, UNLIKE, "computes job speeds with its own goodput model"),
    ],
)
def test_what_a_scheme_cannot_run_is_refused(name, workload, cluster, reason):
    """With the reason; the same that says so beforehand."""
    scheme = find_scheme(name)
    found = scheme.obstacle(workload, cluster, Options().tenure(scheme.tenure))
    assert found is not None
    assert reason in found
    with pytest.raises(UserError, match=f"scheme {name} cannot run on .*{reason}"):
        simulate(workload, cluster, name)


@pytest.mark.parametrize("tenure", [Forever(), Leases(), Epochs()])
def test_rules_in_rounds_are_asked_in_rounds(tenure):
    """Other tenures have none."""
    with pytest.raises(UserError, match=f"decides at the start of each round, .* is {tenure.name}"):
        simulate(GANG, RACKS, "hadar", tenure=tenure)


@pytest.mark.parametrize("tenure", [Forever(), Leases(), Rounds()])
def test_pollux_is_asked_in_epochs(tenure):
    """Other tenures have none."""
    with pytest.raises(UserError, match=f"decides at the start of each epoch, .* is {tenure.name}"):
        simulate(GANG, Cluster.of_servers(1), "pollux", tenure=tenure)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in scheme_names()
        if name not in ("gavel-cost", "gavel-gandiva", "lyra-tuned", "pollux")
    ],
)
def test_every_other_scheme_runs_where_it_is_not_at_home(name):
    """On one GPU of one type, of two types, in racks; jobs described by steps or by work."""
    one = Workload(name="one", jobs=(on_racks.job("x", 100),))
    for workload in (one, MEASURED):
        for cluster in (Cluster.of_servers(2), UNLIKE, Cluster.of_servers(2, servers_per_rack=1)):
            simulation = simulate(workload, cluster, name)
            require_conserved(simulation)
    require_conserved(simulate(one, RACKS, name))


# Schemes of one's own.


def test_a_scheme_of_ones_own():
    """Jobs that fit start; those that do not wait for room."""
    jobs = [job_of("a", 0, 10, 3), job_of("b", 1, 5, 2), job_of("c", 2, 5), job_of("d", 3, 1, 4)]
    simulation = replay(jobs, Cluster.of_servers(2, gpus_per_server=2), OWN)
    assert completions(simulation) == [10, 15, 7, 16]
    require_conserved(simulation)


def test_a_scheme_of_ones_own_borrows():
    """The reclaim solver vacates servers by default; whoever was there waits again."""
    cluster = Cluster.of_servers(
        1, gpus_per_server=1, inference_servers=1, inference_gpus_per_server=1
    )
    jobs = [job_of("trains", 0, 500), job_of("borrows", 1, 30, fungible=True, checkpoints=True)]
    simulation = replay(jobs, cluster, OWN, plan=lending(1, 0, 1, interval_s=50))
    # A third as fast: 49 of 90 s by 50 s; after 63 s to reload from 100 s on, the other 41.
    assert completions(simulation) == pytest.approx([500, 100 + 63 + 41])
    assert simulation.runs[1].preemptions == 1
    require_conserved(simulation)


@pytest.mark.parametrize("given", [FirstFits, FirstFits(), OWN, lambda: OWN])
def test_however_a_scheme_is_given(given):
    """A policy, class or object, is the scheme that runs it; an object serves many runs."""
    jobs = (job_of("a", 0, 10, 3), job_of("b", 1, 5, 2), job_of("c", 2, 5), job_of("d", 3, 1, 4))
    workload = Workload(name="w", jobs=jobs)
    cluster = Cluster.of_servers(2, gpus_per_server=2)
    scheme = scheme_of(given)
    assert (scheme.name, scheme.summary) in (
        ("own", "for tests"),
        ("FirstFits", "Starts whoever fits, by submission."),
    )
    for each in (given, scheme, scheme):
        assert completions(simulate(workload, cluster, each)) == [10, 15, 7, 16]


@pytest.mark.parametrize(
    ("policy", "kind", "like"),
    [
        (ROUND_POLICIES["hadar"], RoundScheme, "hadar"),
        (ROUND_POLICIES["tiresias"](), RoundScheme, "tiresias"),
        (PLACEMENT_POLICIES["no-wait"], PlacementScheme, "no-wait"),
        (PLACEMENT_POLICIES["best-fit"](), PlacementScheme, "best-fit"),
    ],
)
def test_policies_of_problems_are_schemes(policy, kind, like):
    """They run as the registered scheme of the same rule does."""
    scheme = scheme_of(policy)
    assert isinstance(scheme, kind)
    assert scheme.tenure == find_scheme(like).tenure
    for _ in range(2):
        assert completions(simulate(GANG, RACKS, scheme)) == completions(
            simulate(GANG, RACKS, like)
        )


class NoneOfMine(LyraGreedy):
    """A reclaim solver of one's own."""

    name = "none-of-mine"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"reclaimer": "lyra-gredy"}, "solver 'lyra-gredy': .*mean lyra-greedy"),
        ({"reclaimer": "hadar"}, "'hadar': is a solver of heterogeneous, not of reclaim"),
        ({"reclaimer": "lyra-greedy-elastic"}, "solves interchangeable .* needs rigid instances"),
        ({"reclaimer": MckpDp}, "solver MckpDp is a solver of allocation, not of reclaim"),
        ({"reclaimer": FirstFits}, "solver FirstFits must be a "),
        (
            {"scaling": "policy:mckp-dp"},
            "scaling: 'mckp-dp' must be a policy that decides step by step",
        ),
        ({"scaling": "knapsack:srw"}, "'srw' solves mean_jct instances"),
        ({"scaling": NoneOfMine()}, "solver NoneOfMine is a solver of reclaim"),
    ],
)
def test_parts_that_are_not_there_are_found_out_first(parts, message):
    """Before the run, whether or not it would have come to them."""
    scheme = ComposedScheme(name="mine", summary="for tests", **parts)
    with pytest.raises(UserError, match=message):
        prepare(GANG, RACKS, scheme)
    if "reclaimer" in parts:
        with pytest.raises(UserError, match=message):
            prepare(GANG, RACKS, partial(FirstFits, **parts))


def test_solvers_of_ones_own_are_parts():
    """As objects and as classes, what a scheme of registered ones does."""
    cluster = Cluster.of_servers(1, inference_servers=2, inference_gpus_per_server=3)
    jobs = tuple(replace(job_of(f"j{n}", n, 400, fungible=True), max_workers=3) for n in range(9))
    workload = Workload(name="w", jobs=jobs)
    plan = lending(2, 1, 2, 0, interval_s=100)
    outcomes = [
        completions(
            simulate(
                workload,
                cluster,
                ComposedScheme(name="m", summary="", reclaimer=reclaimer, scaling=scaling),
                plan=plan,
            )
        )
        for reclaimer, scaling in (
            ("lyra-greedy", "knapsack:mckp-dp"),
            (NoneOfMine, MckpDp()),
            ("lyra-greedy", "policy:srw"),
            (NoneOfMine(), type(find_solver("allocation", "srw"))),
        )
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


def test_timers_of_ones_own():
    """A rule with other parameters is a scheme of the same name."""
    never = ClassTimers(
        (TimerClass(largest_gang=9, rack_leases=float("inf"), network_leases=float("inf")),)
    )
    at_once = ClassTimers((TimerClass(largest_gang=9, rack_leases=0, network_leases=0),))
    scheme = find_scheme("manual")
    assert isinstance(scheme, PlacementScheme)
    jobs = tuple(
        on_racks.job(name, 1000, gang=gang) for name, gang in (("x", 1), ("y", 1), ("z", 1))
    )
    workload = Workload(name="w", jobs=(*jobs, on_racks.job("w", 10, gang=2)))
    cluster = on_racks.cluster_of(1, 2, 2)
    for timers, other in ((never, "consolidated"), (at_once, "no-wait")):
        found = simulate(workload, cluster, replace(scheme, make=timers.policy))
        assert completions(found) == completions(simulate(workload, cluster, other))


def test_distance_can_be_ignored():
    """Then gangs run as fast anywhere, and may train what they like."""
    simulation = simulate(LARGE, RACKS, "fifo", ignores_distance=True)
    assert completions(simulation) == [10]
    assert completions(simulate(LARGE, RACKS, "fifo")) == [20]
    unsaid = Workload(name="unsaid", jobs=(Job.rigid(id="x", submit_s=0, gpus=3, work_gpu_s=30),))
    assert completions(simulate(unsaid, RACKS, "fifo", ignores_distance=True)) == [10]


def test_a_prepared_simulation_has_not_begun():
    """`run` carries it out."""
    kernel = prepare(GANG, RACKS, "fifo")
    assert completions(kernel) == [-1]
    assert completions(kernel.run()) == [10]


FAST, SLOW = GpuType(name="fast"), GpuType(name="slow", relative_speed=0.5)
TWO_TYPES = Cluster(
    name="two types",
    gpu_types=(FAST, SLOW),
    servers=(
        Server(id="f0", gpus={"fast": 2}),
        Server(id="s0", gpus={"slow": 2}),
        Server(id="s1", gpus={"slow": 2}),
    ),
)
SCHEMES: tuple[Scheme | str, ...] = (
    *(name for name in scheme_names() if name != "gavel-gandiva"),  # it needs packed rates
    OWN,
)


def replayed(jobs: list[Job], scheme: Scheme | str, cluster: Cluster = TWO_TYPES) -> Kernel:
    """Return the replay of jobs; with a loan plan where there are servers to lend."""
    plan = lending(cluster.inference_servers) if cluster.inference_servers else None
    workload = Workload(name="asked", jobs=tuple(jobs))
    found = prepare(workload, cluster, scheme, plan=plan)
    return found.run()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_to_ask_for_all_types_is_to_ask_for_none(scheme):
    """Bit for bit, with loans, elastic, fungible and heterogeneous jobs."""
    cluster = Cluster.of_servers(
        2, gpus_per_server=2, inference_servers=3, inference_gpus_per_server=3
    )
    if scheme == "gavel-cost":
        cluster = TWO_TYPES
    fields = [
        {},
        {"fungible": True},
        {"heterogeneous": True, "max_workers": 4},
        {"fungible": True, "max_workers": 3},
        {"max_workers": 2},
    ]
    jobs = [
        job_of(f"j{place}", 7 * place, 40 + 31 * place, **fields[place % len(fields)])
        for place in range(10)
    ]
    every = tuple(gpu_type.name for gpu_type in cluster.gpu_types)
    asking = [replace(job, gpu_types=every) for job in jobs]
    one, other = (replayed(submitted, scheme, cluster) for submitted in (jobs, asking))
    for mine, theirs in zip(one.runs, other.runs, strict=True):
        assert mine.completion_s == theirs.completion_s
        assert mine.queued_s == theirs.queued_s
        assert mine.held_gpu_s == theirs.held_gpu_s
    assert one.totals.held_gpu_s == other.totals.held_gpu_s


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (job_of("x", 0, 60, gpu_types=("A100", "H100")), "job x needs 1 GPUs of type A100 or H100"),
        (
            job_of("x", 0, 60, 3, gpu_types=("fast",)),
            "job x needs 3 GPUs of type fast, but cluster two ty",
        ),
        (
            replace(
                Job.of_gang(GangJob(id="x", gang=1, steps=1, throughput={"fast": 1.0, "slow": 0})),
                gpu_types=("slow",),
            ),
            "job x has a gang of 1 GPUs, but no GPU type that it asks for in cluster two types",
        ),
    ],
)
def test_a_job_that_can_never_run_is_refused(job, message):
    """In one line, before anything runs."""
    with pytest.raises(UserError, match=message):
        simulate(Workload(name="asked", jobs=(job,)), TWO_TYPES, "gavel-las")


def test_own_policies_may_not_place_it_elsewhere():
    """`View.is_able` says so, and `View.fit` keeps to it."""
    jobs = [job_of("x", 0, 60, gpu_types=("slow",))]
    kernel = prepare(Workload(name="asked", jobs=tuple(jobs)), TWO_TYPES, OWN)
    assert isinstance(kernel.policy, FirstFits)
    able = [
        pool.gpu_type.name
        for pool in TWO_TYPES.pools
        if kernel.is_able(kernel.runs[0], pool.number)
    ]
    assert able == ["slow"]
