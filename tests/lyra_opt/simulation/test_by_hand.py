"""Replays small enough to work out by hand: who runs when, where, how fast, and what is counted.

``by_hand.toml`` lists them. Each is replayed on pools of GPUs, on leases or in rounds; what it
expects of jobs, totals and metrics is compared, and GPU-seconds, work and time must be conserved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.scheme import ComposedScheme, Options
from lyra_opt.simulation.tenure import PREEMPTION_S, Forever, Rounds
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import borrowing, job_from, replay
from tests.lyra_opt.simulation.steps import Script
from tests.tables import tables

if TYPE_CHECKING:
    from lyra_opt.simulation.scheme import Scheme

CASES = tables(__file__)
SETTINGS = frozenset(
    (
        *("why", "jobs", "alone", "borrow", "cluster", "types", "racks", "servers"),
        *("scheme", "script", "plan", "interval_s", "busy_share"),
        *("options", "every_event", "preemption_s", "leases", "rounds"),
    )
)
EXPECTED = frozenset(("runs", "totals", "metrics", "none", "parts"))


def cluster_of(case: dict[str, Any]) -> Cluster:
    if "alone" in case:
        return Cluster.of_servers(1, gpus_per_server=case["alone"])
    if "borrow" in case:
        gpus, servers, lent_gpus, speed = [*case["borrow"], 1.0][:4]
        return borrowing(gpus, servers, lent_gpus, GpuType(name="T4", relative_speed=speed))
    if "types" in case:
        types = tuple(GpuType(name=name, relative_speed=speed) for name, speed in case["types"])
        servers = tuple(Server(id=each.name, gpus={each.name: 1}) for each in types)
        return Cluster(name="typed", gpu_types=types, servers=servers)
    given = dict(case["cluster"])
    if "inference_gpu" in given:
        given["inference_gpu"] = GpuType(**given["inference_gpu"])
    return Cluster.of_servers(**given)


def scheme_of(given: str | dict[str, Any]) -> Scheme | str:
    """Return a scheme by name, or one put together from parts."""
    if isinstance(given, str):
        return given
    return ComposedScheme(name="of-parts", summary="for tests", **given)


def plan_of(case: dict[str, Any]) -> LoanPlan | None:
    if "plan" not in case:
        return None
    return LoanPlan(
        interval_s=case.get("interval_s", 100.0),
        on_loan=tuple(case["plan"]),
        busy_share=tuple(case.get("busy_share", (0.0,))),
    )


def options_of(case: dict[str, Any]) -> Options:
    forever = Forever(preemption_s=case.get("preemption_s", PREEMPTION_S))
    at_events = {"scaling_interval_s": 0} if case.get("every_event") else {}
    rounds = Rounds(**case.get("rounds", {}))
    return Options(forever=forever, rounds=rounds, **at_events, **case.get("options", {}))


def replayed(case: dict[str, Any]) -> Kernel:
    jobs = case["jobs"]
    if "servers" in case:
        measured = [in_rounds.gang(name, steps, release_s=at_s) for name, at_s, steps in jobs]
        return in_rounds.simulate(measured, in_rounds.cluster_of(*case["servers"]))
    if "leases" in case or "racks" in case:
        submitted = [
            on_racks.job(name, run_s, gang=gang[0] if gang else 1, submit_s=at_s)
            for name, at_s, run_s, *gang in jobs
        ]
        if "leases" in case:
            return on_racks.simulate(submitted, **case["leases"])
        cluster = on_racks.cluster_of(*case["racks"])
    else:
        submitted, cluster = [job_from(*fields) for fields in jobs], cluster_of(case)
    options = options_of(case)
    if "script" in case:
        workload = Workload(name="small", jobs=tuple(submitted))
        return Kernel(workload, cluster, Script(case["script"]), tenure=options.forever).run()
    scheme = scheme_of(case["scheme"])
    return replay(submitted, cluster, scheme, plan=plan_of(case), options=options)


def parts_of(simulation: Kernel) -> list[dict[str, float]]:
    """Return the parts of the JCT of each job that are not 0."""
    parts = time_parts(simulation.runs)
    return [
        {name: float(part_s[job]) for name, part_s in parts.items() if abs(part_s[job]) > 1e-9}
        for job in range(len(simulation.runs))
    ]


def matches(found: Any, expected: Any) -> bool:
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
