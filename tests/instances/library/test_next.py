"""The instances set aside for the next edition are generated again, and their optima hold."""

import re
from collections import Counter

import pytest

from lyra_opt.core.loading import content_hash
from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.experiments.library.plan import points_of, read_plan
from lyra_opt.instances.family import find_family
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import FromFamily, Grade
from lyra_opt.instances.library.shelf import Library, verified
from tests.instances.library.parts import part_of_library

NEXT = Library(library().folder / "next")
IMPOSSIBLE, SEVERAL_TERMS = "one-short-v1-rack-nodes6-k5", "split-topology-v1-k8"
EASY = [name for name, best in NEXT.known.items() if best.grade is Grade.EASY]
QUICK = {IMPOSSIBLE, SEVERAL_TERMS, *EASY[::4]}


def test_it_adds_instances_of_preemption_that_no_edition_has():
    entries, known = NEXT.entries, NEXT.known
    assert {entry.problem for entry in entries.values()} == {"preemption"}
    assert not set(entries) & set(library().entries)
    assert len({entry.sha256 for entry in entries.values()}) == len(entries) >= 40
    assert set(known) == set(entries)
    grades = Counter(best.grade for best in known.values())
    assert min(grades[grade] for grade in Grade) >= 10
    assert [best.status for best in known.values()].count("infeasible") >= 4
    assert max(entry.size for entry in entries.values()) == 5_040


def test_the_catalogue_has_the_instances_of_the_plan():
    plan = read_plan(library().folder / "plans" / "library-2026.2.toml")
    sources = [entry.provenance for entry in NEXT.entries.values()]
    made = [each for each in sources if isinstance(each, FromFamily)]
    assert [(each.family, each.parameters, each.seed) for each in made] == [
        (table.family, *point) for table in plan.families for point in points_of(table)
    ]
    assert sum(table.most for table in plan.captures) == len(sources) - len(made)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NEXT.entries],
)
def test_an_instance_is_generated_again_and_its_optimum_holds(name):
    """A solver that proved the optimum for the record proves it again."""
    entry, best = NEXT.entry(name), NEXT.known[name]
    assert verified(NEXT, name).faults == ()
    loaded, made = NEXT.load(name), entry.provenance
    if isinstance(made, FromFamily):
        generated = find_family(entry.problem, made.family).generate(made.parameters, made.seed)
        assert content_hash(loaded.problem, generated) == entry.sha256
    if best.grade is not Grade.OPEN:
        solver = next(run.method for run in best.runs if run.status == best.status)
        exact, limits = find_solver(entry.problem, solver), Limits(time_s=300)
        answer = solve_and_check(loaded.problem, loaded.instance, exact, limits=limits)
        assert (answer.status, answer.objective) == (best.status, best.best_known)


@pytest.mark.parametrize(
    ("name", "stated", "fault"),
    [
        (SEVERAL_TERMS, "5914", "its certificate proves 5,913"),
        (SEVERAL_TERMS, "null", "its certificate does not prove that no solution exists"),
        (IMPOSSIBLE, "1", "No such file"),
    ],
)
def test_another_value_than_the_proved_one_is_a_fault(name, stated, fault, tmp_path):
    shelf = part_of_library(tmp_path / "library", name, source=NEXT.folder)
    (record,) = (shelf.folder / "records").iterdir()
    changed = re.sub(r'"best_known": \w+', f'"best_known": {stated}', record.read_text())
    record.write_text(changed)
    assert fault in verified(shelf, name).faults[-1]
