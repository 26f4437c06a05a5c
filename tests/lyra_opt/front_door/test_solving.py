"""Solving, comparing and verifying at the front door: as on the command line, in Python's terms."""

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.core.fields import keys_of
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver
from tests.conftest import FIGURE_5
from tests.tables import tables


class LastServers(HeuristicSolver):
    """Take the last servers of the file: somebody's own rule, in their script."""

    name = "last-servers"
    problem = "reclaim"
    variants = ("rigid",)

    def apply(self, instance, rng):
        count = instance.reclaim_servers
        solution = lo.reclaim.Solution(tuple(each.id for each in instance.servers[-count:]))
        objective = lo.reclaim.check(instance, solution).objective
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)


@pytest.fixture
def fleet():
    return lo.load(FIGURE_5)


def test_a_solver_is_a_name_a_class_or_an_object(fleet):
    """And the problem's own choice where none is given."""
    assert lo.solve(fleet).solver == "lyra-greedy"
    assert lo.solve(fleet, "exact").status == "optimal"
    for own in (LastServers, LastServers()):
        answer = lo.solve(fleet, own)
        assert (answer.solver, answer.status) == ("last-servers", "feasible")
        assert len(answer.solution.servers) == fleet.reclaim_servers


@pytest.mark.parametrize(
    ("name", "of_solution", "measure", "wrong", "meant"), tables(__file__)["attributes"]
)
def test_an_answer_has_what_its_solution_has(name, of_solution, measure, wrong, meant):
    """And the measures: also copied, and offered by completion; a wrong name gets the nearest."""
    (path,) = Path(FIGURE_5).parent.rglob(f"{name}.json")
    answer = lo.solve(lo.load(path))
    fields = {each.in_documents: each.name for each in keys_of(type(answer.solution))}
    for each in (answer, pickle.loads(pickle.dumps(answer))):
        assert getattr(each, of_solution) == getattr(answer.solution, fields[of_solution])
        assert getattr(each, measure) == answer.measures[measure]
    assert {of_solution, measure, "objective", *answer.problem.answer_keys} <= set(dir(answer))
    with pytest.raises(AttributeError, match=f"no attribute '{wrong}'; did you mean {meant}\\?$"):
        getattr(answer, wrong)
    unsolved = replace(answer, solution=None, measures={})
    assert getattr(unsolved, of_solution) is getattr(unsolved, measure) is None


def test_certify_brings_a_witness(fleet):
    """Which `print` names."""
    answer = lo.solve(fleet, "exact", certify=True)
    assert answer.witness.proves
    assert "witness:           cpsat-strengthened confirms the answer" in str(answer)
    assert lo.solve(fleet, "exact").witness is None


def test_compare_is_a_frame_of_numbers(fleet):
    """A row a solver, by name; distances by all answers of the call."""
    table = lo.compare(fleet, ["random", "exact", LastServers, "lyra-greedy-elastic"])
    assert list(table.index) == ["random", "exact", "last-servers", "lyra-greedy-elastic"]
    assert table.index.name == "solver"
    assert list(table.status) == ["feasible", "optimal", "feasible", "unsupported"]
    assert table.objective["random"] == 2
    assert (table.gap_to_optimum_at_most["random"], table.gap_to_best["exact"]) == (1.0, 0.0)
    assert math.isnan(table.gap["random"])
    assert set(table.optimum) == {1.0}
    assert "interchangeable" in table.message["lyra-greedy-elastic"]
    for column in ("gap_to_best", "wall_time_s"):
        assert table[column].dtype == float
    for column in ("objective", "dual_bound", "optimum"):
        assert table[column].dtype == "Int64"  # which holds integers that floats do not
    assert table.collateral_gpus["exact"] == 0


def test_compare_takes_any_sequence(fleet):
    """Names as NumPy and pandas have them; None is the problem's own choice."""
    for given in (np.array(["scf", "exact"]), pd.Series(["scf", "exact"]), ("scf", "exact")):
        assert list(lo.compare(fleet, given).index) == ["scf", "exact"]
    assert list(lo.compare(fleet, [None]).index) == ["lyra-greedy"]


def test_compare_begins_with_what_matters(fleet):
    """Status, objective, bound and gap; the text has every column, however wide the terminal is."""
    table = lo.compare(fleet, ["lyra-greedy", "exact"])
    first, last = list(table.columns[:4]), list(table.columns[-2:])
    assert first == ["status", "objective", "dual_bound", "gap"]
    assert last == ["gap_to_optimum_at_most", "optimum"]
    assert {"status", "objective", "optimum"} <= set(str(table).split())
    assert "gap to optimum at most (%)" in table._repr_html_()
    answer = lo.solve(fleet, "exact")
    assert pickle.loads(pickle.dumps(answer)) == answer


@pytest.mark.parametrize("wrong", [[], "exact", 3, ["exact", "sorcery"], ["exact", "exact"]])
def test_compare_refuses_before_it_solves(fleet, wrong, monkeypatch):
    """No solver, a name in place of a list, an unknown name."""
    monkeypatch.setattr("lyra_opt.front_door.solving.solve", lambda *_, **__: pytest.fail("solved"))
    with pytest.raises(lo.UserError, match="solvers must be a list|sorcery|named twice"):
        lo.compare(fleet, wrong)


def test_a_start_is_an_answer_a_solution_or_a_file(fleet, tmp_path):
    """A rule that stops at its own choice returns the start where that is better."""
    best, saved = lo.solve(fleet, "exact"), tmp_path / "best.json"
    lo.save(best, saved)
    assert lo.solve(fleet, LastServers).objective == 2
    for start in (best, best.solution, saved):
        answer = lo.solve(fleet, LastServers, start=start)
        assert (answer.objective, answer.start_kept) == (1, True)
        assert "itself found a solution with objective 2" in answer.message
        assert "feasible (start kept)" in str(answer)
        title = lo.plot(fleet, [answer]).axes[0].get_title("left")
        assert title.startswith("last-servers (start kept)")
    assert lo.solve(fleet, "exact", start=lo.solve(fleet, LastServers)).start_kept is False
    assert lo.compare(fleet, [LastServers], start=best).start_kept.tolist() == [True]
    with pytest.raises(lo.UserError, match="a solution of reclaim must be an answer, a file or"):
        lo.solve(fleet, start=lo.solve)


def test_a_start_for_another_instance_is_refused(fleet, tmp_path):
    """Its servers may have the same names, and mean others."""
    other = replace(fleet, name="another")
    answer, saved = lo.solve(other, "exact"), tmp_path / "another.json"
    lo.save(answer, saved)
    for start in (answer, saved):
        with pytest.raises(
            lo.UserError, match='for the instance "another", not for "lyra-figure-5"'
        ):
            lo.solve(fleet, start=start)


def test_verify_takes_answers_solutions_and_files(fleet, write, tmp_path):
    """All are right here."""
    answer = lo.solve(fleet, "exact")
    saved = tmp_path / "solution.json"
    lo.save(answer, saved)
    written = write(json.dumps(answer.as_json_object("fleet.json")), "answer.json")
    for claimed in (answer, answer.solution, saved, str(written)):
        verification = lo.verify(fleet, claimed)
        assert verification
        assert verification.objective == 1
        assert str(verification).splitlines()[:2] == ["valid", "objective: 1"]


def test_verify_finds_what_is_wrong(fleet):
    """In a solution, in what an answer claims, and in an answer without one."""
    answer = lo.solve(fleet, "exact")
    lie = lo.verify(fleet, replace(answer, objective=0, dual_bound=0))
    assert not lie
    assert "objective is claimed to be 0, but is 1" in str(lie)
    short = lo.verify(fleet, lo.reclaim.Solution(("s1",)))
    assert "1 servers are chosen, but reclaim_servers is 2" in short.violations[0]
    assert not lo.verify(fleet, lo.solve(fleet, "lyra-greedy-elastic"))
    other = replace(answer, instance=replace(fleet, name="another"))
    assert "is for the instance" in lo.verify(fleet, other).violations[0]


@pytest.mark.parametrize("nonsense", [None, 3, {"servers": ["s1", "s2"]}])
def test_verify_refuses_nonsense(fleet, nonsense):
    """Naming what it takes."""
    with pytest.raises(lo.UserError, match="a solution of reclaim must be an answer, a file or"):
        lo.verify(fleet, nonsense)


def test_all_problems_have_the_same_words():
    """Each default solver's answer is compared and verified."""
    for name in ("lyra-figure-6", "lyra-table-2", "hadar-motivating", "hurt-first"):
        instance = lo.load(name)
        answer = lo.solve(instance)
        assert lo.verify(instance, answer)
        assert lo.verify(instance, answer.solution)
        assert len(lo.compare(instance, [answer.solver])) == 1
