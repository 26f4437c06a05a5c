"""Models state one inequality per constraint, in order, and have the same rows in all backends."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt import formulations
from lyra_opt.allocation.knapsack.of_instance import KNAPSACK_OBJECTIVES, AllocationKnapsack
from lyra_opt.formulations.allocation import model_data as knapsack
from lyra_opt.formulations.exact_model import ExactModelSolver
from lyra_opt.formulations.heterogeneous import model as rounds
from lyra_opt.formulations.heterogeneous.round_model import RoundModel
from lyra_opt.formulations.network.patterns import model as patterns
from lyra_opt.formulations.network.patterns.data import PatternModel
from lyra_opt.formulations.network.tiers import model as tiers
from lyra_opt.formulations.network.tiers.data import TierModel
from lyra_opt.formulations.preemption import model as preemption
from lyra_opt.formulations.preemption.model_data import PreemptionModel
from lyra_opt.formulations.reclaim import model_data as reclaiming
from lyra_opt.heterogeneous.exact.shares import data as shares
from lyra_opt.heterogeneous.instance import SCHEDULE_OBJECTIVES
from lyra_opt.testing.strategies import (
    allocation_instances,
    heterogeneous_instances,
    network_instances,
    preemption_instances,
    reclaim_instances,
)
from tests.draws import draws


def backends(package):
    """Return the files of a model, one per backend."""
    names = ("pulp_model", "cpsat_model", "mathopt_model")
    return [import_module(f"lyra_opt.formulations.{package}.{name}") for name in names]


TWINS = {
    "reclaim": backends("reclaim"),
    "allocation": backends("allocation"),
    "rounds": [rounds],
    "shares": [shares],
    "tiers": [tiers],
    "patterns": [patterns],
    "preemption": [preemption],
}
"""The files of each model: one for all backends, or one per backend."""
every_group = pytest.mark.parametrize("group", TWINS)


def stated(module):
    """Return name and docstring of each constraint and of the objective, in order."""
    names = ("add_objective", "cost", "gain")
    (objective,) = (vars(module)[name] for name in names if name in vars(module))
    return [(each.__name__, each.__doc__) for each in (*module.CONSTRAINTS, objective)]


@every_group
def test_twins_state_the_same_inequalities_in_the_same_order(group):
    """Line by line; whoever mends one file has to mend its twins."""
    first, *others = TWINS[group]
    assert all(doc and "``" in doc for _, doc in stated(first))
    for other in others:
        assert stated(other) == stated(first)


@every_group
def test_constraints_are_added_in_the_order_of_the_file(group):
    """Those that two models share stand in one file, the others as they are added."""
    for module in TWINS[group]:
        own = [each for each in module.CONSTRAINTS if each.__module__ == module.__name__]
        lines = [each.__code__.co_firstlineno for each in own]
        assert lines == sorted(lines)


def rows(solver, data):
    """Return the names of the rows of a model, in order."""
    model = solver.build(data).model
    rows_of = {
        "pulp": lambda: model.constraints(),
        "cpsat": lambda: model.proto.constraints,
        "mathopt": lambda: model.linear_constraints(),
        "": lambda: model.rows,
    }
    return [row.name for row in rows_of[solver.language]()]


def solvers(group):
    """Return all solvers of a model."""
    for module in TWINS[group]:
        for each in vars(module).values():
            found = each if isinstance(each, tuple) else (each,)
            yield from (one for one in found if isinstance(one, ExactModelSolver))


def knapsack_models(instance):
    """Return both forms, from no item at all."""
    task = AllocationKnapsack.of(instance)
    start = np.full(task.knapsack.classes, -1)
    forms = (knapsack.plain, knapsack.strengthened) if task.knapsack.items else ()
    return [form(task, start, 1.0) for form in forms]


def preemption_models(instance):
    """Return the first stage, and a stage without cost that keeps the values of all terms."""
    model = PreemptionModel.of(instance)
    values = [term.largest for term in instance.terms.terms]
    none = range(len(values), len(values))
    return [model.at(model.stages()[0]), model.at(none, values)]


MODELS = {
    "reclaim": (
        reclaim_instances(),
        lambda one: [reclaiming.plain(one), reclaiming.strengthened(one)],
    ),
    "allocation": (
        st.sampled_from(KNAPSACK_OBJECTIVES).flatmap(
            lambda kind: allocation_instances(objective=kind, max_gpus=20)
        ),
        knapsack_models,
    ),
    "rounds": (
        st.sampled_from(sorted(SCHEDULE_OBJECTIVES)).flatmap(
            lambda kind: heterogeneous_instances(objective=kind)
        ),
        lambda one: [RoundModel.of(one)],
    ),
    "tiers": (network_instances(), lambda one: [TierModel.of(one)]),
    "patterns": (network_instances(), lambda one: [PatternModel.of(one)]),
    "preemption": (preemption_instances(), preemption_models),
}


@pytest.mark.parametrize("group", MODELS)
@given(data=st.data())
@draws(20)
def test_twins_hold_the_same_rows(group, data):
    """By name, in order."""
    strategy, models = MODELS[group]
    for model in models(data.draw(strategy)):
        if not model.is_settled:
            first, *others = (rows(solver, model) for solver in solvers(group))
            assert others
            assert all(other == first for other in others)


@pytest.mark.parametrize("group", MODELS)
def test_every_constraint_is_in_the_readme(group):
    """By its name, in the folder of the problem."""
    first = TWINS[group][0]
    problem = first.__name__.split(".")[2]
    readme = (Path(formulations.__path__[0]) / problem / "README.md").read_text()
    for name, _ in stated(first)[:-1]:
        assert name.replace("_", r"\_") in readme or name in readme
