"""The backends' files state one model: same constraints, same order, same inequalities."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from formulations.reclaim import cpsat_model, mathopt_model, pulp_model
from formulations.reclaim.model_data import plain, strengthened
from lyra_opt.testing.strategies import reclaim_instances

if TYPE_CHECKING:
    from types import ModuleType

    from formulations.reclaim.model_data import ReclaimModel

TWINS = [pulp_model, cpsat_model, mathopt_model]
SHARED = ("build", "add_variables", "add_objective")


def functions(module: ModuleType) -> list[str]:
    """Return the functions that state the model, in the order of the file."""
    defined = [
        (function.__code__.co_firstlineno, name)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and (name in SHARED or function in module.CONSTRAINTS)
    ]
    return [name for _, name in sorted(defined)]


@pytest.mark.parametrize("twin", TWINS[1:], ids=lambda module: module.__name__)
def test_twins_state_the_same_constraints_in_the_same_order(twin):
    assert functions(twin) == functions(pulp_model)
    assert [f.__name__ for f in twin.CONSTRAINTS] == [f.__name__ for f in pulp_model.CONSTRAINTS]


@pytest.mark.parametrize("twin", TWINS[1:], ids=lambda module: module.__name__)
def test_twins_state_the_same_inequalities(twin):
    for name in functions(pulp_model):
        assert getattr(twin, name).__doc__ == getattr(pulp_model, name).__doc__


@pytest.mark.parametrize("module", TWINS, ids=lambda module: module.__name__)
def test_constraints_are_added_in_the_order_of_the_file(module):
    lines = [function.__code__.co_firstlineno for function in module.CONSTRAINTS]
    assert lines == sorted(lines)


def names_of_rows(data: ReclaimModel) -> list[list[str]]:
    """Return the names of the constraints that each backend's model holds."""
    pulp_rows = [row.name for row in pulp_model.build(data).model.constraints()]
    cpsat_rows = [row.name for row in cpsat_model.build(data).model.proto.constraints]
    mathopt_rows = [row.name for row in mathopt_model.build(data).model.linear_constraints()]
    return [pulp_rows, cpsat_rows, mathopt_rows]


@given(reclaim_instances())
@settings(max_examples=30)
def test_backends_hold_the_same_rows(instance):
    for form in (plain, strengthened):
        rows = names_of_rows(form(instance))
        assert rows[0] == rows[1] == rows[2]
