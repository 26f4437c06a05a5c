"""Knapsack solvers on instances: right for three objectives, within the arithmetic they claim."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import ElasticJob, NamedWorkers
from lyra_opt.allocation.checker import started_by_two_phase
from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.exact.mckp_dp import MckpDp
from lyra_opt.allocation.heuristics.mckp_greedy import MckpGreedy
from lyra_opt.allocation.knapsack.of_instance import (
    KNAPSACK_OBJECTIVES,
    AllocationKnapsack,
    JobArrays,
)
from lyra_opt.allocation.knapsack.unique_choice import unique_choice
from lyra_opt.core.result import Status, same_value
from lyra_opt.testing.strategies import allocation_instances
from tests.lyra_opt.allocation.examples import instance_of, job

SOLVERS = [MckpDp(), MckpCore(), MckpGreedy()]
EXACT = SOLVERS[:2]

drawn = st.sampled_from(KNAPSACK_OBJECTIVES).flatmap(
    lambda objective: allocation_instances(objective=objective)
)


@given(drawn)
def test_values_and_costs_are_the_exact_ones_rounded(instance):
    """Without cancellation, so that proofs within 2**-48 hold."""
    task = AllocationKnapsack.of(instance)
    knapsack = task.knapsack
    none_s, cost_s = task.costs_s()
    horizon = Fraction(0)
    if instance.objective == "joint":
        work = sum(Fraction(each.work_worker_s) * each.gpus_per_worker for each in instance.jobs)
        horizon = work / instance.gpus
    for c, position in enumerate(task.jobs.tolist()):
        elastic = instance.jobs[position]
        granted = int(task.base_workers[position])
        without = elastic.duration_s(elastic.min_workers) + (0 if granted else horizon)
        for item in range(knapsack.start[c], knapsack.start[c + 1]):
            workers = granted + int(knapsack.weight[item]) // elastic.gpus_per_worker
            assert elastic.min_workers <= workers <= elastic.max_workers
            value = without - elastic.duration_s(workers)
            margin = abs(value) / 2**49
            assert abs(Fraction(float(knapsack.value[item])) - value) <= margin
            if instance.objective == "jct_reduction":
                assert cost_s[item] == -knapsack.value[item]
            else:
                cost = elastic.duration_s(workers)
                assert abs(Fraction(float(cost_s[item])) - cost) <= cost / 2**49
                assert abs(Fraction(float(none_s[c])) - without) <= without / 2**49


@given(allocation_instances(objective="jct_reduction"))
def test_exact_solvers_return_the_choice_that_is_certainly_best(instance):
    jobs = tuple(replace(each, gpus_per_worker=1) for each in instance.jobs)
    instance = replace(instance, jobs=jobs)
    arrays = JobArrays.of(instance)
    if instance.gpus and (arrays.max_workers > arrays.min_workers).any():
        extra = unique_choice(arrays, instance.gpus)
        for solver in EXACT if extra is not None else ():
            found = lo.solve(instance, solver).solution
            assert found.workers == tuple((arrays.min_workers + extra).tolist())


def test_no_choice_is_certainly_best_among_equal_jobs_or_wide_workers():
    for gpus, extra in ((1, None), (2, [1, 1])):
        arrays = JobArrays.of(instance_of(2, job("a", 1, 2, 5.0), job("b", 1, 2, 5.0)))
        found = unique_choice(arrays, gpus)
        assert (None if found is None else found.tolist()) == extra
    wide = replace(arrays, gpus_per_worker=arrays.gpus_per_worker + 1)
    assert unique_choice(wide, 4) is None


@given(drawn, st.data())
def test_allocation_and_choice_are_inverse(instance, data):
    task = AllocationKnapsack.of(instance)
    start = task.knapsack.start
    chosen = np.array(
        [data.draw(st.integers(start[c] - 1, start[c + 1] - 1)) for c in range(len(task.jobs))],
        dtype=np.int64,
    )
    chosen = np.where(chosen < start[:-1], -1, chosen)
    workers = task.workers(task.allocation(chosen))
    assert task.choice(workers).tolist() == chosen.tolist()


@given(allocation_instances(objective="two_phase", max_jobs=6, max_gpus=20))
def test_first_phase_is_the_checkers(instance):
    started = JobArrays.of(instance).started_by_two_phase(instance)
    assert started.tolist() == started_by_two_phase(instance)


def test_first_phase_tells_quotients_apart_that_are_one_float():
    """Three times work / 3 in two ways, and a fraction below: file order only among equals."""
    works = [(3.0, 3), (1.0, 1), (math.nextafter(3.0, 0), 3)]
    assert len({work / most for work, most in works[:2]}) == 1
    jobs = [job(f"{place}", 1, most, work) for place, (work, most) in enumerate(works)]
    twins = [replace(each, id=f"again {each.id}") for each in jobs]
    instance = instance_of(3, *jobs, *twins, objective="two_phase")
    started = JobArrays.of(instance).started_by_two_phase(instance).tolist()
    assert started == started_by_two_phase(instance)
    assert started == [True, False, True, False, False, True]


def fleet(jobs, seed, objective="jct_reduction", sizes=(1, 2, 4, 8), gpus=None):
    """Return an instance of the size of a cluster."""
    rng = np.random.default_rng(seed)
    drawn_jobs = [
        ElasticJob(
            id=f"j{n}",
            min_workers=int(rng.integers(1, 5)),
            max_workers=int(rng.integers(5, 13)),
            gpus_per_worker=int(rng.choice(sizes)),
            work_worker_s=float(rng.lognormal(8, 1.5)),
            scaling_loss=float(rng.choice((0.0, 0.0, 0.2, 0.1))),
            running=bool(rng.integers(4) == 0),
        )
        for n in range(jobs)
    ]
    return instance_of(gpus or 10 * jobs, *drawn_jobs, objective=objective)


def alone(gpus, *row, **more):
    """Return one job whose extra workers are a knapsack."""
    return instance_of(gpus, job("a", *row, **more), objective="jct_reduction")


def test_ten_thousand_jobs_are_proved():
    """The largest of the figures to reach, with waiting as one more choice."""
    answer = lo.solve(fleet(10_000, 2, "joint", gpus=50_000), MckpCore())
    assert (answer.status, answer.message) == (Status.OPTIMAL, None)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_a_start_may_name_jobs(solver):
    instance = fleet(6, 3)
    best = lo.solve(instance, MckpDp())
    workers = zip(instance.jobs, best.solution.workers, strict=True)
    named = NamedWorkers({each.id: count for each, count in workers})
    assert same_value(lo.solve(instance, solver, start=named).objective, best.objective)


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (fleet(3, 1, "mean_jct"), "mean_jct is not a knapsack"),
        (alone(1, 1, 2, 1e-300), "work_worker_s 1e-300"),
        (alone(2**40, 1, 2**40, 1.0), "at most 10000000 items"),
        (alone(2**40, 1, 2, 1.0, gpus_per_worker=2**30), "at most 67108864"),
    ],
    ids=["schedule", "tiny work", "items", "GPUs"],
)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_instances_beyond_the_arithmetic_are_declined(solver, instance, reason):
    answer = lo.solve(instance, solver)
    assert answer.status is Status.UNSUPPORTED
    assert reason in answer.message


def test_a_table_too_large_is_declined_and_the_core_needs_none():
    instance = fleet(10_000, 2, gpus=50_000)
    answer = lo.solve(instance, MckpDp())
    assert answer.status is Status.UNSUPPORTED
    assert "mckp-core needs no table" in answer.message
