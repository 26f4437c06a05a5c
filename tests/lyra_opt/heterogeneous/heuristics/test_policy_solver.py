"""Round policies as solvers: valid schedules, honest answers, the same ones in other units."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.result import Status, same_value
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, SUMMARIES, run_policy
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, UtilityTable
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job, run


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
    first, second = (run(name, one) for one in (instance, faster(instance, 4)))
    assert (first.schedule, first.last_round) == (second.schedule, second.last_round)


def faster(instance, factor):
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


def sooner(utility, factor):
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
        answer = lo.solve(replace(instance, objective=objective), "yarn-cs")
        assert answer.status is Status.UNKNOWN
        assert answer.message == "1 of 2 jobs do not complete within the horizon"
    answer = lo.solve(replace(instance, objective="utility"), "yarn-cs")
    assert answer.objective == pytest.approx(1 / 3)


def test_what_a_policy_sees():
    """Steps left, service, waiting and placements are those of the rounds before."""
    jobs = [job("x", 2.5), job("y", 1, release_s=0.5)]
    seen = []

    def see(number, state, decision):
        keys = "steps_left", "attained_gpu_s", "waiting_since_s", "started_s"
        jobs = [(active.job.id, *(getattr(active, key) for key in keys)) for active in state.jobs]
        seen.append((state.is_changed, *jobs))

    rng = np.random.default_rng(0)
    run_policy(ROUND_POLICIES["yarn-cs"](), instance_of([{"a": 1}], jobs), rng, see)
    assert seen == [
        (True, ("x", 2.5, 0.0, 0.0, -1.0)),
        (True, ("x", 1.5, 1.0, -1.0, 0.0), ("y", 1, 0.0, 0.5, -1.0)),
        (False, ("x", 0.5, 2.0, -1.0, 0.0), ("y", 1, 0.0, 0.5, -1.0)),
        (True, ("y", 1, 0.0, 0.5, -1.0)),
    ]


def test_a_round_of_progress_pays_for_restarts():
    """Both jobs run; the one that stays where it is loses nothing."""
    jobs = [job("stays", 20, current={"s0": {"a": 1}}), job("moves", 20)]
    times = {"round_s": 10.0, "restart_s": 2.0, "horizon_rounds": 1}
    instance = instance_of([{"a": 2}], jobs, objective="round_progress", **times)
    assert same_value(lo.solve(instance, "yarn-cs").objective, 0.5 + 0.4)


@pytest.mark.parametrize(
    ("name", "gang", "reason"), [("hadare", 1, "forking"), ("allox", 2, "one-GPU jobs only")]
)
def test_what_a_policy_cannot_run_is_skipped(name, gang, reason):
    """With its reason, not with a wrong schedule."""
    skip = find_solver("heterogeneous", name).supports(
        instance_of([{"a": 2}], [job("x", 3, gang=gang)])
    )
    assert reason in skip.reason


def test_runs_are_as_long_as_the_jobs():
    """A policy is asked only while there are jobs."""
    found = run("yarn-cs", instance_of([{"a": 1}], [job("x", 3), job("late", 1, release_s=100)]))
    assert found.decisions == 4
    assert found.last_round == {"x": 2, "late": 100}
