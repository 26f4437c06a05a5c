"""The knapsack's twins: one model in three files, right answers, no more claimed than proved."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation.exact.mckp_dp import MckpDp
from lyra_opt.allocation.knapsack.of_instance import KNAPSACK_OBJECTIVES, AllocationKnapsack
from lyra_opt.core.result import Status, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.formulations.allocation.cpsat_model import CPSAT
from lyra_opt.formulations.allocation.model_data import KnapsackModel, plain
from lyra_opt.formulations.exact_solver import proved_cost
from lyra_opt.testing.strategies import allocation_instances
from tests.formulations.backends import BACKENDS, lying
from tests.lyra_opt.allocation.exact.test_knapsack_solvers import fleet
from tests.lyra_opt.allocation.examples import instance_of, job

MODEL_SOLVERS = [name + form for name in BACKENDS for form in ("", "-strengthened")]

drawn = st.sampled_from(KNAPSACK_OBJECTIVES).flatmap(
    lambda objective: allocation_instances(objective=objective, max_gpus=20)
)
every_model_solver = pytest.mark.parametrize("name", MODEL_SOLVERS)


def cluster(objective="jct_reduction"):
    """Return an instance on which branch and bound has something to do."""
    return fleet(40, 2, objective, sizes=(2, 3, 5), gpus=240)


# The numbers


@given(drawn, st.integers(-200, 200))
def test_costs_are_rounded_down_and_little(instance, power):
    task = AllocationKnapsack.of(instance)
    none_s, cost_s = task.costs_s()
    data = plain(task, np.full(task.knapsack.classes, -1), 2.0**power)
    assert [k for choices in data.classes for k in choices] == list(range(len(data.items)))
    for c, choices in enumerate(data.classes):
        for k in choices:
            exact = float(none_s[c] if data.items[k] < 0 else cost_s[data.items[k]])
            scaled = Fraction(exact) * Fraction(2) ** data.exponent
            assert data.cost[k] <= scaled < data.cost[k] + 1
            assert abs(data.cost[k]) < 2**60
    floats = plain(task, np.full(task.knapsack.classes, -1), 2.0**power, in_floats=True)
    shift = Fraction(2) ** (floats.exponent - data.exponent)
    assert [Fraction(cost) for cost in floats.cost] == [cost * shift for cost in data.cost]


# The answers


@every_model_solver
@pytest.mark.parametrize("objective", KNAPSACK_OBJECTIVES)
def test_model_solver_proves_a_cluster(name, objective):
    instance = cluster(objective)
    best = lo.solve(instance, MckpDp)
    answer, again = (lo.solve(instance, name, seed=3) for _ in range(2))
    assert (answer.status, answer.message) == (Status.OPTIMAL, None)
    assert same_value(answer.objective, best.objective)
    assert (answer.solution, answer.counters) == (again.solution, again.counters)


def test_bounds_are_moved_to_the_safe_side():
    """By 2**-32 if they come from floats, which have a scale of their own."""
    task = AllocationKnapsack.of(cluster())
    less = AllocationKnapsack.of(cluster("joint"))

    def bound_s(bound, task, exponent):
        """Return the bound on the objective that follows from a backend's."""
        model = KnapsackModel(
            task=task, capacity=0, classes=(), items=(), weight=(), cost=(), exponent=exponent
        )
        return model.dual_bound(proved_cost(bound, is_done=True))

    assert 2.0**30 < bound_s(-(2**40), task, 10) < 2.0**30 * (1 + 2.0**-46)
    assert 1 + 2.0**-33 < bound_s(-(2.0**34), task, 4) / 2.0**30 < 1 + 2.0**-31
    assert 1 - 2.0**-31 < bound_s(2.0**34, less, 4) / 2.0**30 < 1 - 2.0**-33


# Backends that lie


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0] * 6, "exactly one choice of each class"),
        ([1, 1, 0, 0, 0, 0], "exactly one choice of each class"),
        ([0, 0, 1, 0, 0, 1], "used 4 GPUs, more than the 2 available"),
    ],
)
def test_choices_that_are_none_or_do_not_fit_are_reported(values, said):
    instance = instance_of(2, *(job(name, 1, 3, 5.0) for name in "ab"), objective="jct_reduction")
    answer = lo.solve(instance, lying(CPSAT, values=values, bound=-(2**50)))
    assert answer.status is Status.ERROR
    assert said in answer.message


@every_model_solver
def test_floats_decline_what_their_tolerance_could_break(name):
    skip = find_solver("allocation", name).supports(replace(cluster(), gpus=10**6))
    assert (skip is None) == name.startswith("cpsat")
