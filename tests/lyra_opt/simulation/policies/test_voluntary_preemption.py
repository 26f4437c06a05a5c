"""Who is stopped for whom: only where it pays, within the budget, and not for long."""

from __future__ import annotations

import pytest
from hypothesis import given

from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policies.voluntary_preemption import VoluntaryPreemption
from lyra_opt.simulation.scheme import ComposedScheme
from tests.lyra_opt.simulation.replays import (
    Case,
    cases,
    preemptions,
    replay,
)

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("changed", "pays"),
    [
        ({}, True),
        ({"left_gpu_s": 1.9 * HOUR_S}, False),  # not twice as much
        ({"left_s": 0.9 * HOUR_S}, False),  # too soon done
        ({"lost_gpu_s": 0.2 * HOUR_S}, False),  # too much is lost
    ],
)
def test_when_it_pays(changed: dict[str, float], pays: bool) -> None:
    """Each of the three conditions is needed."""
    asked = {
        "waiting_gpu_s": HOUR_S,
        "left_gpu_s": 2 * HOUR_S,
        "left_s": HOUR_S,
        "lost_gpu_s": 0.1 * HOUR_S,
    }
    assert VoluntaryPreemption().pays(**asked | changed) is pays


@given(case=cases())
def test_the_budget_holds_and_nobody_is_lost(case: Case) -> None:
    """On small clusters of every kind, with calls for servers on loan, which count as well."""
    rule = VoluntaryPreemption(
        budget=0.5, waited_run_times=0.0, least_left_h=0.0, lost_share=1.0, interval_s=0.0
    )
    stopping = ComposedScheme(
        name="stopping",
        summary="for tests",
        queue="shortest-base",
        reclaimer="lyra-greedy",
        scaling="knapsack:mckp-core",
        voluntary_preemption=rule,
    )
    simulation = replay(case.jobs, case.cluster, stopping, plan=case.plan, options=case.options)
    require_conserved(simulation)
    assert all(run.completion_s >= 0 for run in simulation.runs)
    if not simulation.totals.reclaims:
        assert preemptions(simulation) <= 0.5 * len(case.jobs)
