"""Replays small enough to work out by hand: who runs when, where, how fast, and what is counted.

``by_hand.toml`` lists them. Each is replayed on pools of GPUs, on leases or in rounds; what it
expects of jobs, totals and metrics is compared, and GPU-seconds, work and time must be conserved.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.scheme import ComposedScheme, Options
from lyra_opt.simulation.tenure import PREEMPTION_S, Forever
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import borrowing, job_from, replay

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.scheme import Scheme

CASES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("by_hand.toml").read_text(encoding="utf-8")
)
SETTINGS = frozenset(
    ("why", "jobs", "alone", "borrow", "cluster", "scheme", "plan", "interval_s", "busy_share")
) | {"options", "every_event", "preemption_s", "leases", "servers"}
EXPECTED = frozenset(("runs", "totals", "metrics", "none"))


def cluster_of(case: dict[str, Any]) -> Cluster:
    if "alone" in case:
        return Cluster.of_servers(1, gpus_per_server=case["alone"])
    if "borrow" in case:
        gpus, servers, lent_gpus, speed = [*case["borrow"], 1.0][:4]
        return borrowing(gpus, servers, lent_gpus, GpuType(name="T4", relative_speed=speed))
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
    return Options(forever=forever, **at_events, **case.get("options", {}))


def replayed(case: dict[str, Any]) -> Kernel:
    jobs = case["jobs"]
    if "leases" in case:
        gangs = [
            on_racks.job(name, run_s, gang=gang[0] if gang else 1, submit_s=at_s)
            for name, at_s, run_s, *gang in jobs
        ]
        return on_racks.simulate(gangs, **case["leases"])
    if "servers" in case:
        measured = [in_rounds.gang(name, steps, release_s=at_s) for name, at_s, steps in jobs]
        return in_rounds.simulate(measured, in_rounds.cluster_of(*case["servers"]))
    return replay(
        [job_from(*fields) for fields in jobs],
        cluster_of(case),
        scheme_of(case["scheme"]),
        plan=plan_of(case),
        options=options_of(case),
    )


def matches(found: Any, expected: Any) -> bool:
    """Return whether a value is the one expected: a number nearly so, "any" whatever it is."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(matches, found, expected))
    if expected in ("any", "none"):
        return expected == "any" or found is None
    return bool(found == pytest.approx(expected))


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name: str) -> None:
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
    for key in case.get("none", ()):
        assert getattr(metrics, key) is None, key
    require_conserved(simulation)
