"""Replays small enough to work out by hand: who runs when, where, how fast, and what is counted.

``by_hand.toml`` lists them. Each is replayed on pools of GPUs, on leases or in rounds; what it
expects of jobs, totals and metrics is compared, and GPU-seconds, work and time must be conserved.
"""

from dataclasses import replace

import pytest

from lyra_opt.heterogeneous.instance import PackedRate
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.scheme import ComposedScheme, Options, find_scheme, simulate
from lyra_opt.simulation.tenure import PREEMPTION_S, Forever, Leases, Rounds
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import borrowing, job_from, workload_of
from tests.lyra_opt.simulation.steps import Script, numbered
from tests.tables import tables

CASES = tables(__file__)
SETTINGS = frozenset(
    (
        *("why", "jobs", "packed", "alone", "borrow", "cluster", "types", "racks", "servers"),
        *("lent", "slowdowns", "scheme", "parameters", "script", "turns", "places", "moves"),
        *("plan", "interval_s", "busy_share", "options", "every_event", "preemption_s"),
        *("leases", "rounds"),
    )
)
EXPECTED = frozenset(("runs", "totals", "metrics", "none", "parts"))


def workload(case):
    """Return jobs by their work; gangs that train ``m`` on racks; measured gangs on `servers`."""
    jobs = case["jobs"]
    if "servers" in case:
        found = workload_of(
            *(
                in_rounds.measured(name, steps, release_s=at_s, **dict(*fields))
                for name, at_s, steps, *fields in jobs
            )
        )
        return replace(found, packed=packed(found, case["packed"])) if "packed" in case else found
    if "leases" in case or "racks" in case:
        return workload_of(
            *(
                on_racks.job(name, run_s, gang=gang[0] if gang else 1, submit_s=at_s)
                for name, at_s, run_s, *gang in jobs
            )
        )
    return workload_of(*(job_from(*fields) for fields in jobs))


def packed(jobs, part):
    """Return rates that give any two kinds of the same size this part of their speed."""
    kinds = {job.measured.kind: job.measured for job in jobs.jobs}
    return tuple(
        PackedRate(
            kind=one.kind,
            beside=two.kind,
            throughput={name: part * rate for name, rate in one.throughput.items()},
        )
        for one in kinds.values()
        for two in kinds.values()
        if one.gang == two.gang
    )


def cluster_of(case):
    if "alone" in case:
        return Cluster.of_servers(1, gpus_per_server=case["alone"])
    if "borrow" in case:
        gpus, servers, lent_gpus, speed = [*case["borrow"], 1.0][:4]
        return borrowing(gpus, servers, lent_gpus, GpuType(name="T4", relative_speed=speed))
    if "types" in case:
        given = [(*each, *(1, 1.0)[len(each) - 2 :]) for each in case["types"]]
        return Cluster(
            name="typed",
            gpu_types=tuple(
                GpuType(name=name, relative_speed=speed, price_per_hour=price)
                for name, speed, _, price in given
            ),
            servers=tuple(Server(id=name, gpus={name: gpus}) for name, _, gpus, _ in given),
        )
    if "servers" in case:
        cluster = in_rounds.cluster_of(*case["servers"])
        for name, gpus in case.get("lent", {}).items():
            cluster = cluster.with_lent(1, gpus_per_server=gpus, gpu_type=GpuType(name=name))
        return cluster
    if "leases" in case or "racks" in case:
        slowdowns = case.get("slowdowns", on_racks.SLOWDOWN_OF_TIER)
        return on_racks.cluster_of(*case.get("racks", ()), slowdowns=slowdowns)
    given = dict(case["cluster"])
    if "inference_gpu" in given:
        given["inference_gpu"] = GpuType(**given["inference_gpu"])
    return Cluster.of_servers(**given)


def plan_of(case):
    if "plan" not in case:
        return None
    return LoanPlan(
        interval_s=case.get("interval_s", 100.0),
        on_loan=tuple(case["plan"]),
        busy_share=tuple(case.get("busy_share", (0.0,))),
    )


def options_of(case):
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in case.get("rounds", {}).items()}
    free = {"round_s": 10.0, "restart_s": 0.0, "merge_s": 0.0} if "servers" in case else {}
    return Options(
        forever=Forever(preemption_s=case.get("preemption_s", PREEMPTION_S)),
        leases=Leases(**{"lease_s": 100.0, "hand_over_s_per_gpu": 0.0, **case.get("leases", {})}),
        rounds=Rounds(**free | given),
        **{"scaling_interval_s": 0} if case.get("every_event") else {},
        **case.get("options", {}),
    )


def scheme_of(case):
    """Return a scheme by name, with parameters, or one put together from parts."""
    given = case["scheme"]
    if isinstance(given, str):
        return find_scheme(given).with_parameters(case.get("parameters", {}))
    return ComposedScheme(name="of-parts", summary="for tests", **given)


def replayed(case):
    jobs, cluster, plan, options = workload(case), cluster_of(case), plan_of(case), options_of(case)
    if "scheme" in case:
        return simulate(jobs, cluster, scheme_of(case), plan=plan, options=options)
    if "script" in case:
        return Kernel(jobs, cluster, Script(case["script"]), tenure=options.forever).run()
    if "servers" in case:
        in_turn = in_rounds.in_turn(case["turns"]) if "turns" in case else in_rounds.FirstFit()
        return in_rounds.run_rule(in_turn, jobs, cluster, options.rounds, plan=plan)
    rule = on_racks.FirstGpus()
    if "places" in case:
        places = {name: numbered(gpus) for name, gpus in case["places"].items()}
        moves = [(at_s, name, numbered(gpus)) for at_s, name, gpus in case.get("moves", ())]
        rule = on_racks.placed(places, moves)
    return on_racks.run_rule(rule, jobs, cluster, options.leases)


def parts_of(simulation):
    """Return the parts of the JCT of each job that are not 0."""
    parts = time_parts(simulation.runs)
    return [
        {name: float(part_s[job]) for name, part_s in parts.items() if abs(part_s[job]) > 1e-9}
        for job in range(len(simulation.runs))
    ]


def matches(found, expected):
    """Return whether a value is the one expected: a number nearly so, "any" whatever it is."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(matches, found, expected))
    if expected in ("any", "none"):
        return expected == "any" or found is None
    return bool(found == pytest.approx(expected))


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name):
    case = CASES[name]
    assert case.keys() <= SETTINGS | EXPECTED
    simulation = replayed(case)
    metrics = measure(simulation)
    for key, expected in case.get("runs", {}).items():
        found = [getattr(run, key) for run in simulation.runs]
        assert matches(found, expected), (key, found, case.get("why", ""))
    for what, where in (("totals", simulation.totals), ("metrics", metrics)):
        for key, expected in case.get(what, {}).items():
            found = getattr(where, key)
            assert matches(found, expected), (key, found, case.get("why", ""))
    if "parts" in case:
        assert parts_of(simulation) == [pytest.approx(each) for each in case["parts"]]
    for key in case.get("none", ()):
        assert getattr(metrics, key) is None, key
    require_conserved(simulation)
