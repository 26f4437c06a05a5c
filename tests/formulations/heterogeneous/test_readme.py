"""The README's instance is valid, and is solved."""

from __future__ import annotations

import json
import re
from pathlib import Path

import lyra_opt.formulations.heterogeneous
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.heterogeneous.problem import PROBLEM

README = Path(lyra_opt.formulations.heterogeneous.__path__[0]) / "README.md"


def test_the_example_is_solved():
    """To a proof."""
    (block,) = re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)
    instance = PROBLEM.parse_instance(json.loads(block))
    answer = solve_and_check(PROBLEM, instance, find_solver("heterogeneous", "cpsat"))
    assert answer.status is Status.OPTIMAL
