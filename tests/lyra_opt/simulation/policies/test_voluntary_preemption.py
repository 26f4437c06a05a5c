"""Who is stopped for whom: only where it pays, within the budget, and not for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policies.voluntary_preemption import VoluntaryPreemption
from lyra_opt.simulation.scheme import ComposedScheme, Options
from lyra_opt.simulation.tenure import Forever
from tests.lyra_opt.simulation.replays import (
    Case,
    cases,
    completions,
    job_of,
    preemptions,
    replay,
    starts,
)

if TYPE_CHECKING:
    from typing import Any

HOUR_S = 3600.0
NO_PAUSE = Options(forever=Forever(preemption_s=0))


def scheme(**fields: Any) -> ComposedScheme:
    """Return a scheme that stops jobs, with some figures of its own."""
    rule = VoluntaryPreemption(**{"budget": 1.0, "interval_s": 0.0} | fields)
    return ComposedScheme(
        name="stopping", summary="for tests", queue="shortest-base", voluntary_preemption=rule
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"budget": -1}, "budget"), ({"area_ratio": 0.5}, "area_ratio"), ({"lost_share": -1}, "lost")],
)
def test_bad_figures_are_refused(fields: dict[str, float], named: str) -> None:
    """With the field that is wrong."""
    with pytest.raises(FieldError, match=named):
        VoluntaryPreemption(**fields)


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


def long_and_short(*, checkpoints: bool) -> list[Any]:
    """Return a job of 10 hours, and one of an hour that comes after 2; the third is an event."""
    return [
        job_of("long", 0, 10 * HOUR_S, 2, checkpoints=checkpoints),
        job_of("short", 2 * HOUR_S, HOUR_S, 2),
        job_of("other", 3 * HOUR_S, 20 * HOUR_S, 2),
    ]


def test_a_long_job_makes_way_for_a_short_one() -> None:
    """It has waited as long as it runs; the long one keeps what it did and goes on after it."""
    cluster = Cluster.of_servers(1, gpus_per_server=2)
    jobs = long_and_short(checkpoints=True)
    simulation = replay(jobs, cluster, scheme(), options=NO_PAUSE)
    assert completions(simulation)[:2] == [11 * HOUR_S, 4 * HOUR_S]
    assert preemptions(simulation) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"budget": 0.3},  # of two jobs: none
        {"waited_run_times": 1.5},
        {"area_ratio": 8.0},
        {"least_left_h": 7.5},
    ],
)
def test_what_keeps_a_job_running(fields: dict[str, float]) -> None:
    """Each condition by itself, and the budget."""
    cluster = Cluster.of_servers(1, gpus_per_server=2)
    jobs = long_and_short(checkpoints=True)
    simulation = replay(jobs, cluster, scheme(**fields), options=NO_PAUSE)
    assert preemptions(simulation) == 0
    assert starts(simulation)[1] == 10 * HOUR_S


def test_a_job_without_a_checkpoint_is_stopped_only_where_little_is_lost() -> None:
    """3 hours of work are three times what the short job has left."""
    cluster = Cluster.of_servers(1, gpus_per_server=2)
    jobs = long_and_short(checkpoints=False)
    for lost_share, stopped in ((2.9, 0), (3.0, 1)):
        simulation = replay(jobs, cluster, scheme(lost_share=lost_share), options=NO_PAUSE)
        assert preemptions(simulation) == stopped


def test_several_jobs_make_way_for_a_wide_one_or_none() -> None:
    """Where too few may be stopped, nobody is until the others are done."""
    wide = job_of("wide", 2 * HOUR_S, HOUR_S, 4)
    event = job_of("event", 3 * HOUR_S, 50 * HOUR_S, 4)
    for other_s, stopped, start_s in (
        (10 * HOUR_S, 2, 3 * HOUR_S),
        (4 * HOUR_S, 1, 4 * HOUR_S),
    ):
        jobs = [
            job_of("a", 0, 10 * HOUR_S, 2, checkpoints=True),
            job_of("b", 0, other_s, 2, checkpoints=True),
            wide,
            event,
        ]
        cluster = Cluster.of_servers(1, gpus_per_server=4)
        simulation = replay(jobs, cluster, scheme(), options=NO_PAUSE)
        assert preemptions(simulation) == stopped
        assert starts(simulation)[2] == start_s


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
