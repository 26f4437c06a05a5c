"""Every registered solver on odd instances, held against brute force; ``make fuzz`` tries more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lyra_opt.core.solver import solver_names
from lyra_opt.reclaim.exact.solver import Exact
from tests.fuzz import running
from tests.fuzz.running import asked, try_many, variant_of
from tests.reference import PROBLEMS
from tests.reference.drawing import Draw

SEED = 1
SAMPLE = 60
"""Instances of a problem in ``make test``."""
MANY = 5000
"""The same in ``make test-slow``, other ones."""


def assert_faultless(problem: str, numbers: range) -> None:
    """Assert that all went well and that something was shown by it."""
    tally = try_many(SEED, problem, numbers)
    assert [(failure.kind, failure.text) for failure in tally.failures] == []
    assert tally.total("instances") == len(numbers)
    for what in ("with a known optimum", "optima confirmed", "bounds checked"):
        assert tally.total(what) > len(numbers) / 2, what
    assert tally.total("with a limit") > 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_answers_agree_with_brute_force(problem):
    """No false optimum, no bound beyond it, no invalid solution, no error, limits or not."""
    assert_faultless(problem, range(SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_many_answers_agree_with_brute_force(problem):
    """The same for more."""
    assert_faultless(problem, range(SAMPLE, SAMPLE + MANY))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_solver_is_asked(problem):
    """Sooner or later, those that are registered later too."""
    names = set()
    for number in range(MANY):
        solvers = asked(Draw(f"{number}"), problem, variant_of(problem, number))
        names |= {solver.name for solver in solvers}
    assert names == {name for _, name in solver_names(problem)}


class Liar(Exact):
    """A solver that reports a wrong objective."""

    name = "liar"

    def solve(self, instance, **options):
        told = super().solve(instance, **options)
        return replace(told, objective=told.objective + 1)


def test_failures_name_the_command_that_shows_them(monkeypatch):
    monkeypatch.setattr(running, "solvers_of", lambda *_: (Liar(),))
    tally = try_many(SEED, "reclaim", range(20, 24))
    assert {failure.command for failure in tally.failures} == {
        f"python -m tests.fuzz --seed {SEED} --of reclaim --number {each}" for each in range(20, 24)
    }
    assert tally.total("faults") == len(tally.failures) == tally.total("runs")
    assert all("the solver claims objective" in failure.text for failure in tally.failures)
