"""Shares of time where two jobs may share GPUs: the programmes against others, and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import lyra_opt as lo
from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous import PROBLEM, Instance, Objective
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.programme import merged
from lyra_opt.heterogeneous.exact.shares.water_filling import fill
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, PackedRate, pairs_of
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job

RATE = PackedRate(kind="k", beside="k", throughput={"a": 1.5})
ALIKE = job("y0", 12.0, throughput={"a": 2.0}, kind="k")
EXACT = ("lp-highs", "lp-glop", "lp-sifting")
OBJECTIVES = sorted(map(str, SHARE_OBJECTIVES))


def packable(objective: str, *, gpus: int = 1, part: float = 0.75, jobs: int = 2) -> Instance:
    """Return jobs of one kind, alone at 2 steps a second, each at a part of it beside another."""
    alike = [job(f"j{n}", 12.0, throughput={"a": 2.0}, kind="k") for n in range(jobs)]
    packed = (PackedRate(kind="k", beside="k", throughput={"a": 2.0 * part}),)
    return instance_of([{"a": gpus}], alike, objective=objective, packed=packed)


@pytest.mark.parametrize("solver", EXACT)
@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("max_min_share", 0.75),
        ("throughput", 3.0),
        ("cost", 3.0),
        ("makespan_share", 8.0),
        ("finish_time_fairness", 8 / 12),
    ],
)
def test_two_jobs_on_one_gpu(solver, objective, expected):
    """Packed all the time at three quarters of their speed, where alone each had half of it."""
    answer = lo.solve(packable(objective), solver)
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(expected, rel=1e-9)
    assert answer.solution.packed == {"j0": {"j1": {"a": pytest.approx(1.0)}}}


@pytest.mark.parametrize("part", [0.4, 0.5])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_packing_that_does_not_pay_is_worth_nothing(objective, part):
    """At half of the speed or less two jobs do no more than in turns."""
    packed = lo.solve(packable(objective, part=part), "lp-highs")
    alone = lo.solve(replace(packable(objective), packed=()), "lp-highs")
    assert packed.objective == pytest.approx(alone.objective, rel=1e-9)


def test_three_jobs_alike_take_turns_in_pairs():
    """Three pairs, a third of the time each: two thirds of the time at three quarters."""
    answer = lo.solve(packable("max_min_share", jobs=3), "lp-highs")
    assert answer.objective == pytest.approx(0.5, rel=1e-9)
    shares = [of for others in answer.solution.packed.values() for of in others.values()]
    assert shares == [{"a": pytest.approx(1 / 3)}] * 3  # jobs alike share alike


def by_definition(instance: Instance) -> float:
    """Return the optimum of max_min_share or throughput: jobs and pairs one by one, by SciPy."""
    names = list(instance.gpus_of_type)
    columns: list[tuple[str, dict[int, float]]] = []
    for place, alone in enumerate(instance.jobs):
        for name in names:
            if alone.throughput.get(name) and alone.gang <= instance.gpus_of_type[name]:
                columns.append((name, {place: alone.throughput[name]}))
    for first, second, rates in pairs_of(instance.jobs, instance.packed, instance.gpus_of_type):
        columns += [(name, {first: rates[0][name], second: rates[1][name]}) for name in rates[0]]
    jobs, total = instance.jobs, sum(instance.gpus_of_type.values())
    time = [[float(place in rates) for _, rates in columns] for place in range(len(jobs))]
    gpus = [[jobs[min(rates)].gang * (kind == name) for kind, rates in columns] for name in names]
    limits = [1.0] * len(jobs) + [float(instance.gpus_of_type[name]) for name in names]
    rate = np.array([[rates.get(place, 0.0) for _, rates in columns] for place in range(len(jobs))])
    weight = np.array([each.weight for each in jobs])
    if instance.objective is Objective.THROUGHPUT:
        return -linprog(-(weight @ rate), time + gpus, limits).fun
    equal = [
        sum(
            each.throughput.get(name, 0.0) * there / total
            for name, there in instance.gpus_of_type.items()
            if each.gang <= there
        )
        for each in jobs
    ]
    scale = np.array([each.gang for each in jobs]) / weight / np.array(equal)
    rows = [[*row, 0.0] for row in time + gpus]
    rows += [[*(-row), 1.0] for row in rate * scale[:, None]]
    objective = [0.0] * len(columns) + [-1.0]
    bounds = [(0, None)] * len(columns) + [(None, None)]
    return -linprog(objective, rows, limits + [0.0] * len(jobs), bounds=bounds).fun


@draws(15)
@given(
    st.sampled_from(["max_min_share", "throughput"]).flatmap(
        lambda o: heterogeneous_instances(objective=o, max_jobs=5, with_packing=True)
    )
)
def test_the_optimum_is_that_of_the_definition(instance):
    """Jobs alike made one, prices and repairs: none of it is in the definition."""
    answer = lo.solve(instance, "lp-highs")
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(by_definition(instance), rel=1e-7)


@draws(12)
@given(
    st.sampled_from(OBJECTIVES).flatmap(
        lambda o: heterogeneous_instances(objective=o, max_jobs=4, with_packing=True)
    )
)
def test_packing_never_hurts_and_the_simple_bound_holds(instance):
    """A job alone is the special case: without packed rates the optimum is no better."""
    sign = 1 if instance.objective.sense == "max" else -1
    packed, alone = (lo.solve(one, "lp-highs") for one in (instance, replace(instance, packed=())))
    if packed.status is Status.INFEASIBLE:
        assert alone.status is Status.INFEASIBLE
        return
    if alone.objective is not None:
        assert sign * packed.objective >= sign * alone.objective * (1 - sign * 1e-8)
    assert sign * PROBLEM.dual_bound(instance) >= sign * packed.objective


@draws(12)
@given(heterogeneous_instances(objective="max_min_share", max_jobs=5, with_packing=True))
def test_jobs_alike_and_their_pairs_are_made_one(instance):
    """With prices of either the whole programme has the bound, and shares are as good."""
    solver = find_solver("heterogeneous", "lp-highs")
    whole = ShareArrays.of(instance).max_min_share()
    small = merged(whole)
    assert len(small.programme.sets) <= len(whole.sets)
    point, apart = solver.point_of(whole), solver.merged_point_of(whole)
    bounds = [whole.dual_bound(found.prices, tolerance=0.0) for found in (point, apart)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-7)
    assert min(whole.got(whole.repaired(point.shares))) == pytest.approx(bounds[0], rel=1e-7)


def test_water_filling_goes_on_where_the_least_share_stops():
    """Two jobs packed all the time are saturated; a third has a type of its own."""
    two = packable("max_min_share")
    jobs = *two.jobs, job("alone", 1.0, throughput={"b": 2.0})
    instance = instance_of([{"a": 1, "b": 1}], jobs, objective="max_min_share", packed=two.packed)
    # An equal part of the GPUs is half of either type.
    assert fill(ShareArrays.of(instance)).levels == pytest.approx([1.5, 1.5, 2.0], rel=1e-6)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"packed": [replace(RATE, beside="nobody")]}, r"packed\[0\].beside"),
    ({"packed": [RATE, RATE]}, r"packed\[1\].beside.*twice"),
    ({"packed": [replace(RATE, throughput={"b": 1.0})]}, r"packed\[0\].throughput"),
    ({"objective": "makespan"}, "packed.*must be empty"),
    ({"packed": [replace(RATE, beside="large")]}, "must be a kind with gang 1"),
    ({"jobs": [ALIKE, replace(ALIKE, id="y", throughput={"a": 1.0})]}, r"jobs\[1\].kind"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_what_packed_rates_may_not_be(changes, message):
    """Each broken rule is refused with field and rule."""
    two = packable("max_min_share", gpus=2)
    larger = job("x", 1.0, gang=2, kind="large")
    with pytest.raises(FieldError, match=message):
        replace(two, **{"jobs": [ALIKE, larger], **changes})
