"""The figures of overshoot: each solver that takes an instance is measured, whatever it does."""

from __future__ import annotations

import pytest

from lyra_opt.core.problem import find_problem
from lyra_opt.experiments.bench import overshoot
from lyra_opt.instances.family import generate

VARIANTS = [
    (problem, variant) for problem, variants in overshoot.VARIANTS.items() for variant in variants
]


@pytest.mark.parametrize(("problem", "variant"), VARIANTS)
def test_every_case_is_an_instance_of_its_variant(problem: str, variant: str) -> None:
    case = overshoot.case_of(problem, variant, overshoot.WARM_UP_SIZE)
    instance = generate(problem, **case.parameters)
    assert str(instance.variant) == variant
    assert find_problem(problem).name == problem


def test_solvers_are_measured_and_those_that_do_not_take_it_are_left_out() -> None:
    case = overshoot.case_of("reclaim", "rigid", 10)
    found = dict(overshoot._overshoots(case, ["scf", "lyra-greedy-elastic", "exact"]))
    assert found.keys() == {"scf", "exact"}
    assert all(overshoot_s >= 0 for overshoot_s in found.values())


def test_backends_have_another_target() -> None:
    assert overshoot.is_own("reclaim", "exact")
    assert not overshoot.is_own("reclaim", "cpsat")
