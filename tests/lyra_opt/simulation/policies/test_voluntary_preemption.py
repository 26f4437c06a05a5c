"""Who is stopped for whom: only where it pays, within the budget, and not for long."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policies.voluntary_preemption import VoluntaryPreemption
from lyra_opt.simulation.scheme import ComposedScheme
from tests.lyra_opt.simulation.product import draw, kind_of
from tests.lyra_opt.simulation.replays import lending, preemptions, replay

HOUR_S = 3600.0
BESIDE_LOANS = [
    seed
    for seed in range(2000)
    if (kind := kind_of(seed)).cluster == "pools+loans" and kind.policy_kind == "composed"
]
"""Seeds of small clusters beside servers that are lent, and of jobs for them."""


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


@given(seed=st.sampled_from(BESIDE_LOANS))
def test_the_budget_holds_and_nobody_is_lost(seed: int) -> None:
    """Beside calls for servers on loan, which count as well."""
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
    drawn = draw(seed)
    jobs = drawn.workload.jobs
    plan = drawn.plan or lending(0)
    assume(all(map(drawn.cluster.holds, jobs)))  # some draws are refused on purpose
    assume(max(plan.on_loan) <= drawn.cluster.inference_servers)
    simulation = replay(jobs, drawn.cluster, stopping, plan=plan, options=drawn.options)
    require_conserved(simulation)
    assert all(run.completion_s >= 0 for run in simulation.runs)
    if not simulation.totals.reclaims:
        assert preemptions(simulation) <= 0.5 * len(jobs)
