"""An edition adds instances and changes none; commands can go back to an earlier one."""

import hashlib
import json
import re
from collections import Counter

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.experiments.library.plan import points_of, read_plan
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import FromFamily, FromTrace, Grade
from lyra_opt.instances.library.shelf import Library, verified
from tests.instances.library.parts import part_of_library

FROZEN = {
    "library-2026.1": (
        "d28567c7a6e25a3186f28abb22f2bd10e1055141ec43c5bbe28a8591f4ba8891",
        "6e777cccce9641a73f9e3283c0733f01dfc42259f3673217a4384b8108e1ef93",
    ),
    "library-2026.2": (
        "10b7797330f7c496e495c73554ea8936a07e3baf7eede11ffa330a52c9489f06",
        "cf6c76953e55745276b6c5b2fb322eb8095bfe0156c4938f03d5a944d1be5bb8",
    ),
}
"""The SHA-256 of the catalogue of each edition, and of all its instance files one after another."""

FIRST, SECOND = library().catalogues
IMPOSSIBLE, SEVERAL_TERMS = "one-short-v1-rack-nodes6-k5", "split-topology-v1-k8"
PREEMPTION = [entry.id for entry in library().of_problem("preemption")]
EASY = [name for name in PREEMPTION if library().known[name].grade is Grade.EASY]
PROVED = [name for name in PREEMPTION if library().known[name].grade is not Grade.OPEN]
QUICK = {IMPOSSIBLE, SEVERAL_TERMS, *EASY[::4]}


@pytest.mark.parametrize("catalogue", library().catalogues, ids=lambda each: each.name)
def test_an_edition_never_changes(catalogue):
    """Whoever publishes a gap on an edition must find the same instances in ten years."""
    folder, files = library().folder, hashlib.sha256()
    for entry in catalogue.instances:
        if entry.file is not None:
            files.update((folder / entry.file).read_bytes())
    own = hashlib.sha256((folder / "catalogues" / f"{catalogue.name}.json").read_bytes())
    assert (own.hexdigest(), files.hexdigest()) == FROZEN[catalogue.name]


def test_an_edition_has_the_instances_of_all_earlier_ones():
    first, newest = library("library-2026.1"), library()
    assert (first.edition, newest.edition) == ("library-2026.1", "library-2026.2")
    added = {entry.id for entry in SECOND.instances}
    assert set(first.entries) == {entry.id for entry in FIRST.instances}
    assert set(newest.entries) == set(first.entries) | added
    assert not set(first.entries) & added


def test_commands_and_functions_go_back_to_an_edition(run):
    _, out, _ = run("library", "list", "--format=json", "--edition", "library-2026.1")
    assert {each["library"] for each in json.loads(out)} == {"library-2026.1"}
    assert len(json.loads(out)) == len(lo.library(edition="library-2026.1")) == 280
    assert len(lo.library()) == len(library().entries)
    later = SECOND.instances[0].id
    for command in (("show", later), ("verify", later), ("score", "exact", "--id", later)):
        exit_code, _, err = run("library", *command, "--edition", "library-2026.1")
        assert (exit_code, "unknown instance of the library" in err) == (2, True)
    with pytest.raises(UserError, match=r"edition 'x': must be library-2026\.1 or library-2026"):
        lo.library(edition="x")


def test_the_tenth_edition_of_a_year_follows_the_ninth(tmp_path):
    shelf = part_of_library(tmp_path / "library", "lyra-figure-5")
    path = shelf.folder / "catalogues" / "library-2026.1.json"
    for name in ("library-2026.9", "library-2026.10"):
        text = path.read_text().replace("library-2026.1", name)
        (path.parent / f"{name}.json").write_text(text)
    names = [each.name for each in Library(shelf.folder).catalogues]
    assert names == ["library-2026.1", "library-2026.9", "library-2026.10"]


def test_the_second_edition_adds_preemption_real_loans_and_real_clusters():
    known = library().known
    assert Counter(entry.problem for entry in SECOND.instances) == {"preemption": 74, "reclaim": 11}
    grades = Counter(known[name].grade for name in PREEMPTION)
    assert set(grades) == set(Grade)
    assert [known[name].status for name in PREEMPTION].count("infeasible") >= 4
    loans = [entry.provenance for entry in SECOND.instances if entry.page == "loans"]
    assert all(isinstance(each, FromTrace) for each in loans)
    assert len({each.trace for each in loans}) == 3


def test_the_catalogue_has_the_instances_of_the_plan():
    plan = read_plan(library().folder / "plans" / "library-2026.2.toml")
    sources = [entry.provenance for entry in SECOND.instances]
    made = [each for each in sources if isinstance(each, FromFamily)]
    assert [(each.family, each.parameters, each.seed) for each in made] == [
        (table.family, *point) for table in plan.families for point in points_of(table)
    ]
    taken = sum(table.most for table in plan.captures)
    assert len(plan.written) + taken == len(sources) - len(made)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PROVED]
)
def test_a_solver_that_proved_an_optimum_of_preemption_proves_it_again(name):
    loaded, best = library().load(name), library().known[name]
    solver = next(run.method for run in best.runs if run.status == best.status)
    exact, limits = find_solver(loaded.problem.name, solver), Limits(time_s=300)
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
    shelf = part_of_library(tmp_path / "library", name)
    (record,) = (shelf.folder / "records").iterdir()
    changed = re.sub(r'"best_known": \w+', f'"best_known": {stated}', record.read_text())
    record.write_text(changed)
    assert fault in verified(shelf, name).faults[-1]
