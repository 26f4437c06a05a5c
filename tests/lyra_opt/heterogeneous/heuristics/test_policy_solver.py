"""Round policies as solvers: valid schedules, honest answers, the same ones in other units."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Status, same_value
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, SUMMARIES, run_policy
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, UtilityTable
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job, run, solved

if TYPE_CHECKING:
    from lyra_opt.heterogeneous import Instance
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.heterogeneous.utility import Utility


def test_every_policy_is_a_solver_with_a_summary():
    """What `simulate` may be asked for, `solve` may be asked for too."""
    registered = {name for _, name in solver_names("heterogeneous")}
    assert registered >= {*ROUND_POLICIES, "hadar-committed"}
    assert list(SUMMARIES) == list(ROUND_POLICIES)
    assert all(make().name == name for name, make in ROUND_POLICIES.items())


@pytest.mark.parametrize("name", sorted({*ROUND_POLICIES} - {"allox", "hadare", "tiresias"}))
@draws(15)
@given(data=st.data())
def test_speeds_times_c_and_times_over_c_leave_decisions_alone(name, data):
    """All steps a second times 4 and all times by 4: the same entries, all times a quarter."""
    instance = data.draw(heterogeneous_instances(objective="mean_jct", forking=False, max_jobs=4))
    first = run_policy(ROUND_POLICIES[name](), instance, np.random.default_rng(0))
    second = run_policy(ROUND_POLICIES[name](), faster(instance, 4), np.random.default_rng(0))
    assert first.schedule == second.schedule
    assert first.last_round == second.last_round


def faster(instance: Instance, factor: float) -> Instance:
    """Return the instance with speeds times `factor`, a power of 2, and times over it."""
    jobs = tuple(
        replace(
            job,
            throughput={name: factor * rate for name, rate in job.throughput.items()},
            spread_throughput=job.spread_throughput
            and {name: factor * rate for name, rate in job.spread_throughput.items()},
            release_s=job.release_s / factor,
            elapsed_s=job.elapsed_s / factor,
            isolated_elapsed_s=job.isolated_elapsed_s / factor,
            utility=sooner(job.utility, factor),
        )
        for job in instance.jobs
    )
    return replace(instance, jobs=jobs, round_s=instance.round_s / factor)


def sooner(utility: Utility, factor: float) -> Utility:
    if isinstance(utility, Deadline):
        return replace(utility, deadline_s=utility.deadline_s / factor)
    if isinstance(utility, UtilityTable):
        return UtilityTable(
            entries=tuple((time / factor, value) for time, value in utility.entries)
        )
    return InverseJct(scale=utility.scale / factor)


def test_a_short_horizon_is_unknown_and_says_so():
    """A policy that does not complete all jobs has proved nothing."""
    instance = instance_of([{"a": 1}], [job("x", 3), job("y", 3)], horizon_rounds=5)
    for objective in ("makespan", "mean_jct"):
        answer = solved("yarn-cs", replace(instance, objective=objective))
        assert answer.status is Status.UNKNOWN
        assert answer.message == "1 of 2 jobs do not complete within the horizon"
    answer = solved("yarn-cs", replace(instance, objective="utility"))
    assert answer.objective == pytest.approx(1 / 3)


def test_what_a_policy_sees():
    """Steps left, service, waiting and placements are those of the rounds before."""
    jobs = [job("x", 2.5), job("y", 1, release_s=0.5)]
    instance = instance_of([{"a": 1}], jobs, round_s=1.0)
    seen = []

    def see(number: int, state: RoundState, decision: Decision) -> None:
        seen.append(
            [
                (
                    active.job.id,
                    active.steps_left,
                    active.attained_gpu_s,
                    active.waiting_since_s,
                    active.started_s,
                    state.is_changed,
                )
                for active in state.jobs
            ]
        )

    run_policy(ROUND_POLICIES["yarn-cs"](), instance, np.random.default_rng(0), see)
    assert seen == [
        [("x", 2.5, 0.0, 0.0, -1.0, True)],
        [("x", 1.5, 1.0, -1.0, 0.0, True), ("y", 1, 0.0, 0.5, -1.0, True)],
        [("x", 0.5, 2.0, -1.0, 0.0, False), ("y", 1, 0.0, 0.5, -1.0, False)],
        [("y", 1, 0.0, 0.5, -1.0, True)],
    ]


def test_a_round_of_progress_pays_for_restarts():
    """Both jobs run; the one that stays where it is loses nothing."""
    jobs = [job("stays", 20, current={"s0": {"a": 1}}), job("moves", 20)]
    instance = instance_of(
        [{"a": 2}],
        jobs,
        objective="round_progress",
        round_s=10.0,
        restart_s=2.0,
        horizon_rounds=1,
    )
    assert same_value(solved("yarn-cs", instance).objective, 0.5 + 0.4)


def test_copies_ask_for_forking():
    """A skip with its reason, not a wrong schedule."""
    solver = find_solver("heterogeneous", "hadare")
    skip = solver.supports(instance_of([{"a": 1}], [job("x", 3)]))
    assert skip is not None
    assert "forking" in skip.reason
    skip = find_solver("heterogeneous", "allox").supports(
        instance_of([{"a": 2}], [job("x", 3, gang=2)])
    )
    assert skip is not None
    assert "one-GPU jobs only" in skip.reason


def test_runs_are_as_long_as_the_jobs():
    """A policy is asked only while there are jobs."""
    found = run("yarn-cs", instance_of([{"a": 1}], [job("x", 3), job("late", 1, release_s=100)]))
    assert found.decisions == 4
    assert found.last_round == {"x": 2, "late": 100}
