"""Every registered solver on odd instances, held against brute force; ``make fuzz`` tries more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.solver import find_solver, solver_names
from tests.fuzz import __main__ as command
from tests.fuzz import running
from tests.fuzz.liars import CAUGHT_ALONE, Liar
from tests.fuzz.running import asked, try_many, variant_of
from tests.reference import PROBLEMS
from tests.reference.drawing import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture
def _a_liar_among_them(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    honest = find_solver("reclaim", "exact")
    lie = CAUGHT_ALONE["a wrong objective"]

    class Registered(Liar):
        """One whose lies are the same however often it is asked."""

        def solve(self, instance, **options):  # type: ignore[no-untyped-def]
            told = self.honest.solve(instance, **options)
            return self.lie(Draw("the same"), self.truth, instance, told)

    liar = Registered(honest, lie, Draw("the same"), None)  # type: ignore[arg-type]
    monkeypatch.setattr(running, "solvers_of", lambda *_: (liar,))
    monkeypatch.setattr(running, "find_solver", lambda *_: liar)
    return


@pytest.mark.usefixtures("_a_liar_among_them")
def test_a_failure_is_made_small_and_shown(tmp_path, capsys):
    """What is written is as small as can be, and the command names it."""
    tally = try_many(SEED, "reclaim", range(20, 24))
    assert tally.total("faults") == len(tally.failures) == tally.total("runs") > 0
    command.write_failures(tally.failures, tmp_path)
    said = capsys.readouterr().out
    first = next(tmp_path.glob("*-1-1.json"))
    assert f"lyra-opt solve {first} --solver liar" in said
    assert "the solver claims objective" in said
    document = json.loads(first.read_text())
    assert (document["servers"], document["jobs"], document["reclaim_servers"]) == ([], [], 0)
