"""Schemes by name: which there are, what they cannot run and why, and which GPUs jobs ask for."""

from dataclasses import replace
from functools import partial

import pytest

from lyra_opt.allocation.exact.mckp_dp import MckpDp
from lyra_opt.core.errors import UserError
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.heuristics.policy_solver import SUMMARIES as ROUND_SUMMARIES
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.heuristics.policy_solver import SUMMARIES as PLACEMENT_SUMMARIES
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy
from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.metrics import require_conserved
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
    find_scheme,
    prepare,
    scheme_names,
    scheme_of,
    simulate,
)
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds
from lyra_opt.simulation.topology import Topology
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import (
    borrowing,
    completions,
    job_of,
    lending,
    replay,
    workload_of,
)
from tests.lyra_opt.simulation.steps import FirstFits

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


def test_a_scheme_may_take_any_parameter():
    """As its function does; the name of the dictionary is no parameter."""
    taken = {}
    scheme = replace(scheme_of(OWN), make=lambda *, first=0, **others: taken.update(others))
    scheme.with_parameters({"second": 2}).make()
    assert taken == {"second": 2}
    strict = replace(scheme, make=lambda *rest, first=0: None)
    with pytest.raises(UserError, match="rest.*did you mean first|known: first"):
        strict.with_parameters({"rest": 1})


def test_an_unknown_scheme_is_refused():
    """With the nearest name, or the names of all."""
    with pytest.raises(UserError, match="scheme 'best-fti': unknown scheme; did you mean best"):
        find_scheme("best-fti")
    with pytest.raises(UserError, match=f"unknown scheme; known: {', '.join(scheme_names())}"):
        find_scheme("gang")


# What they cannot run.

GANG = workload_of(on_racks.job("x", 10, gang=2))
LARGE = workload_of(on_racks.job("x", 10, gang=3))
WIDE = workload_of(job_of("x", 0, 10, gpus_per_worker=2, model="m"))
MEASURED = workload_of(in_rounds.measured("x", 1))
RACKS = on_racks.cluster_of()
UNLIKE = in_rounds.cluster_of({"a": 2, "b": 2})
ONE_BY_ONE = "places GPUs one by one, but each worker of job x needs 2 GPUs"
OWN_SPEEDS = "computes job speeds with its own goodput model"


@pytest.mark.parametrize(
    ("name", "workload", "cluster", "reason"),
    [
        ("gavel-gandiva", MEASURED, UNLIKE, "the workload has no throughputs of such pairs"),
        ("allox", GANG, RACKS, "job x has a gang of 2 GPUs, but it runs only jobs with one GPU"),
        ("hadare", LARGE, RACKS, "3 GPUs, which no single server can run, and it never spreads"),
        ("gavel-cost", GANG, RACKS, "the prices of GPU types, but the cluster has only one type"),
        ("hadar", WIDE, RACKS, ONE_BY_ONE),
        ("dally", WIDE, RACKS, ONE_BY_ONE),
        ("pollux", GANG, RACKS, OWN_SPEEDS),
        ("pollux", GANG, UNLIKE, "its goodput model covers one GPU type"),
        ("lyra-tuned", MEASURED, UNLIKE, OWN_SPEEDS),
    ],
)
def test_what_a_scheme_cannot_run_is_refused(name, workload, cluster, reason):
    """With the reason; the same that says so beforehand."""
    scheme = find_scheme(name)
    found = scheme.obstacle(workload, cluster, Options().tenure(scheme.tenure))
    assert reason in found
    with pytest.raises(UserError, match=f"scheme {name} cannot run on .*{reason}"):
        simulate(workload, cluster, name)


@pytest.mark.parametrize(
    ("model", "communication", "message"),
    [
        ("m", ClosedForm(), "job x: model is 'm'"),
        (None, ClosedForm(), "job x names no model"),
        ("m", on_racks.slowdowns_of((1, 1, 1), most=3), "no line for model 'm' on 4 GPUs at tier"),
    ],
)
def test_a_model_that_is_not_known_is_refused(model, communication, message):
    """Or not said, or known for smaller gangs alone."""
    topology = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=2)
    jobs = workload_of(replace(on_racks.job("x", 1, gang=4), model=model))
    with pytest.raises(UserError, match=message):
        simulate(jobs, Cluster.of_racks(topology, communication), "fifo")


TENURES = (Forever(), Leases(), Rounds(), Epochs())


@pytest.mark.parametrize(
    ("name", "kind", "tenure"),
    [
        *(("hadar", "round", tenure) for tenure in TENURES if not isinstance(tenure, Rounds)),
        *(("pollux", "epoch", tenure) for tenure in TENURES if not isinstance(tenure, Epochs)),
    ],
)
def test_rules_in_rounds_or_epochs_need_them(name, kind, tenure):
    """Other tenures have none."""
    message = f"decides at the start of each {kind}, .* is {tenure.name}"
    with pytest.raises(UserError, match=message):
        simulate(workload_of(job_of("x", 0, 10)), Cluster.of_servers(1), name, tenure=tenure)


# Schemes of one's own.


def test_a_scheme_of_ones_own_borrows():
    """The reclaim solver vacates servers by default; whoever was there waits again."""
    cluster = borrowing(1, 1, 1, INFERENCE_GPU)
    jobs = [job_of("trains", 0, 500), job_of("borrows", 1, 30, fungible=True, checkpoints=True)]
    simulation = replay(jobs, cluster, OWN, plan=lending(1, 0, 1, interval_s=50))
    # A third as fast: 49 of 90 s by 50 s; after 63 s to reload from 100 s on, the other 41.
    assert completions(simulation) == pytest.approx([500, 100 + 63 + 41])
    assert simulation.runs[1].preemptions == 1
    require_conserved(simulation)


@pytest.mark.parametrize("given", [FirstFits, FirstFits(), OWN, lambda: OWN])
def test_however_a_scheme_is_given(given):
    """A policy, class or object, is the scheme that runs it; an object serves many runs.

    Jobs that fit start; those that do not wait for room.
    """
    jobs = [job_of("a", 0, 10, 3), job_of("b", 1, 5, 2), job_of("c", 2, 5), job_of("d", 3, 1, 4)]
    cluster = Cluster.of_servers(2, gpus_per_server=2)
    scheme = scheme_of(given)
    assert (scheme.name, scheme.summary) in (
        ("own", "for tests"),
        ("FirstFits", "Starts whoever fits, by submission."),
    )
    for each in (given, scheme, scheme):
        simulation = replay(jobs, cluster, each)
        assert completions(simulation) == [10, 15, 7, 16]
        require_conserved(simulation)


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
        found, expected = (simulate(GANG, RACKS, each) for each in (scheme, like))
        assert completions(found) == completions(expected)


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
        ({"scaling": "policy:mckp-dp"}, "'mckp-dp' must be a policy that makes one decision per"),
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
    jobs = [job_of(f"j{n}", n, 400, max_workers=3, fungible=True) for n in range(9)]
    outcomes = []
    for reclaimer, scaling in (
        ("lyra-greedy", "knapsack:mckp-dp"),
        (NoneOfMine, MckpDp()),
        ("lyra-greedy", "policy:srw"),
        (NoneOfMine(), type(find_solver("allocation", "srw"))),
    ):
        scheme = ComposedScheme(name="m", summary="", reclaimer=reclaimer, scaling=scaling)
        outcomes.append(completions(replay(jobs, cluster, scheme, plan=lending(2, 1, 2, 0))))
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


def test_a_solver_of_ones_own_answers_also_if_one_answer_is_certain():
    asked = []

    class Mine(MckpDp):
        def solve(self, instance, **options):
            asked.append(instance.gpus)
            return super().solve(instance, **options)

    jobs = [job_of(f"j{n}", 0, 400 * n, max_workers=3) for n in (1, 2)]
    scheme = ComposedScheme(name="m", summary="", scaling=Mine())
    replay(jobs, Cluster.of_servers(1, gpus_per_server=4), scheme)
    assert asked


def test_distance_can_be_ignored():
    """Then gangs run as fast anywhere, and may train what they like."""
    simulation = simulate(LARGE, RACKS, "fifo", ignores_distance=True)
    assert completions(simulation) == [10]
    assert completions(simulate(LARGE, RACKS, "fifo")) == [20]
    unsaid = workload_of(job_of("x", 0, 10, 3))
    assert completions(simulate(unsaid, RACKS, "fifo", ignores_distance=True)) == [10]


TWO_TYPES = in_rounds.cluster_of({"fast": 2}, {"slow": 2}, {"slow": 2}, slow=0.5)
SCHEMES = (
    *(name for name in scheme_names() if name != "gavel-gandiva"),  # it needs packed rates
    OWN,
)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_to_ask_for_all_types_is_to_ask_for_none(scheme):
    """Bit for bit, with loans, elastic, fungible and heterogeneous jobs."""
    cluster, plan = TWO_TYPES, None
    if scheme != "gavel-cost":
        lent = {"inference_servers": 3, "inference_gpus_per_server": 3}
        cluster, plan = Cluster.of_servers(2, gpus_per_server=2, **lent), lending(3)
    fields = [
        {},
        {"fungible": True},
        {"heterogeneous": True, "max_workers": 4},
        {"fungible": True, "max_workers": 3},
        {"max_workers": 2},
    ]
    jobs = [job_of(f"j{n}", 7 * n, 40 + 31 * n, **fields[n % len(fields)]) for n in range(10)]
    every = tuple(gpu_type.name for gpu_type in cluster.gpu_types)
    asking = [replace(job, gpu_types=every) for job in jobs]
    one, other = (
        [(run.completion_s, run.queued_s, run.held_gpu_s) for run in found.runs]
        + found.totals.held_gpu_s
        for found in (replay(each, cluster, scheme, plan=plan) for each in (jobs, asking))
    )
    assert one == other


NEVER_RUNS = replace(in_rounds.measured("x", 1, fast=1.0, slow=0), gpu_types=("slow",))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (job_of("x", 0, 60, gpu_types=("A100", "H100")), "job x needs 1 GPUs of type A100 or H100"),
        (
            job_of("x", 0, 60, 3, gpu_types=("fast",)),
            "needs 3 GPUs of type fast, but cluster small",
        ),
        (NEVER_RUNS, "a gang of 1 GPUs, but no GPU type that it asks for in cluster small"),
    ],
)
def test_a_job_that_can_never_run_is_refused(job, message):
    """In one line, before anything runs."""
    with pytest.raises(UserError, match=message):
        simulate(workload_of(job), TWO_TYPES, "gavel-las")


def test_own_policies_may_not_place_it_elsewhere():
    """`View.is_able` says so, and `View.fit` keeps to it."""
    kernel = prepare(workload_of(job_of("x", 0, 60, gpu_types=("slow",))), TWO_TYPES, OWN)
    (run,) = kernel.runs
    able = [pool.gpu_type.name for pool in TWO_TYPES.pools if kernel.is_able(run, pool.number)]
    assert able == ["slow"]
