"""The README's instance and schema: the one is valid, the other is the one that is shipped."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import formulations.heterogeneous
from instances.schemas import load_schema
from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.heterogeneous.problem import PROBLEM
from lyra_opt.testing.strategies import heterogeneous_instances, round_schedules_of

README = Path(formulations.heterogeneous.__path__[0]) / "README.md"
EXAMPLE, SCHEMA = (
    json.loads(block) for block in re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)
)
INSTANCE = Draft202012Validator(SCHEMA)
SOLUTION = Draft202012Validator(load_schema("heterogeneous-solution"))


def test_the_schema_is_the_one_that_is_shipped() -> None:
    """Two copies, one content; both are schemas."""
    assert load_schema("heterogeneous") == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator.check_schema(load_schema("heterogeneous-solution"))


def test_the_example_is_solved() -> None:
    """It parses, and so does its proved solution."""
    INSTANCE.validate(EXAMPLE)
    instance = PROBLEM.parse_instance(EXAMPLE)
    answer = solve_and_check(PROBLEM, instance, find_solver("heterogeneous", "cpsat"))
    assert answer.status is Status.OPTIMAL
    SOLUTION.validate(PROBLEM.solution_document(instance, answer.solution, answer.objective))


@given(heterogeneous_instances())
def test_drawn_instances_pass(instance: Any) -> None:
    """What the parser writes, the schema takes."""
    INSTANCE.validate(json.loads(json.dumps(PROBLEM.instance_document(instance))))


@given(st.data())
def test_drawn_schedules_pass(data: st.DataObject) -> None:
    """Solutions too."""
    instance = data.draw(heterogeneous_instances(objective="utility"))
    solution = data.draw(round_schedules_of(instance))
    SOLUTION.validate(PROBLEM.solution_document(instance, solution, 0.0))


DEFECTS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "other_format": (("format",), "lyra-opt/reclaim"),
    "other_version": (("version",), 2),
    "empty_name": (("name",), ""),
    "unknown_objective": (("objective",), "speed"),
    "no_round": (("round_s",), 0),
    "horizon": (("horizon_rounds",), 100_001),
    "restart": (("restart_s",), 1),
    "forking": (("forking",), 1),
    "no_types": (("gpu_types",), []),
    "type_key": (("gpu_types", 0, "cores"), 1),
    "price": (("gpu_types", 0, "price_per_hour"), 0),
    "servers": (("servers",), {}),
    "server_gpus": (("servers", 0, "gpus"), 2),
    "gang": (("jobs", 0, "gang"), 0),
    "steps": (("jobs", 0, "steps"), -1),
    "steps_huge": (("jobs", 0, "steps"), 1e61),
    "rate": (("jobs", 0, "throughput", "v100"), -1),
    "rates": (("jobs", 0, "throughput"), []),
    "weight": (("jobs", 0, "weight"), 0),
    "utility": (("jobs", 0, "utility"), "fast"),
    "kind": (("jobs", 0, "utility", "kind"), "other"),
    "deadline": (("jobs", 1, "utility", "deadline_s"), 0),
    "scale_of_deadline": (("jobs", 1, "utility", "scale"), 1),
    "entries": (("jobs", 2, "utility", "entries"), []),
    "entry": (("jobs", 2, "utility", "entries", 0), [1]),
    "current": (("jobs", 0, "current", "s1"), 2),
    "current_none": (("jobs", 0, "current", "s1", "v100"), 0),
    "job_key": (("jobs", 0, "gpus"), 1),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_refused_by_schema_and_parser(defect: str) -> None:
    """Both, so that neither promises what the other does not keep."""
    path, value = DEFECTS[defect]
    changed = copy.deepcopy(EXAMPLE)
    target = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert not INSTANCE.is_valid(changed)
    with pytest.raises(FieldError):
        PROBLEM.parse_instance(changed)
