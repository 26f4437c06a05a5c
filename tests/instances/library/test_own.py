"""Solutions that are handed in, and the records of one's own that they go to."""

import json
import shutil
from pathlib import Path

import pytest

from lyra_opt.core.documents import format_document, read_json_object
from lyra_opt.instances.library import library
from lyra_opt.instances.library.own import LibraryWithOwn, submitted, write_submissions
from tests.conftest import assert_one_line_error
from tests.instances.library.parts import part_of_library
from tests.tables import tables

TABLES = tables(__file__)


NAME = "lyra-figure-5"
"""Of an instance whose optimum is 1."""


@pytest.fixture
def knowing(tmp_path, monkeypatch):
    """Return what makes a library of one instance, of which it knows what it is told."""
    monkeypatch.chdir(tmp_path)

    def make(**known):
        folder = tmp_path / f"library{len(list(tmp_path.glob('library*')))}"
        found = part_of_library(folder, NAME)
        (record,) = (folder / "records").iterdir()
        best = {
            "id": NAME,
            "grade": "open",
            "best_known": 2,
            "found_by": "somebody",
            "found_with": "a rule",
            "proof": "none",
        }
        told = {**json.loads(record.read_text()), "date": "2026-01-01", "instances": [best | known]}
        record.unlink()
        if known.get("id") != "":
            record.write_text(format_document(told))
        monkeypatch.setattr("lyra_opt.instances.library.library", lambda _edition=None: found)
        return found

    return make


@pytest.fixture
def optimum(tmp_path):
    """Return a file of a solution that is worth 1."""
    path = tmp_path / "solution.json"
    shutil.copyfile(library().solution_file(NAME), path)
    return path


def test_what_is_better_goes_into_a_record_of_ones_own(knowing, optimum, tmp_path, run):
    """With who and when and the solution; commands count it where they are told to."""
    before = knowing()
    files = {path: path.read_bytes() for path in before.folder.rglob("*.json")}
    exit_code, out, err = run("library", "submit", optimum, "--by", "A. Author", "--record", "own")
    assert (exit_code, err) == (0, "")
    assert out.startswith(f"{NAME}: 1 is better than the best known so far, 2")
    (record,) = (tmp_path / "own" / "records").glob("best-known-20*.json")
    (best,) = json.loads(record.read_text())["instances"]
    assert (best["best_known"], best["found_by"]) == (1, "A. Author")
    assert json.loads(record.read_text())["date"] in record.name
    assert {path: path.read_bytes() for path in before.folder.rglob("*.json")} == files
    for options, value in (((), 2), (("--record", "own"), 1)):
        _, out, _ = run("library", "list", "--format=json", *options)
        assert [each["best_known"] for each in json.loads(out)] == [value]
        _, out, _ = run("library", "show", NAME, *options)
        assert f"best known: {value}" in out
    assert run("library", "verify", NAME, "--record", "own")[0] == 0
    exit_code, out, _ = run("library", "submit", optimum, "--record", "own")
    assert (exit_code, out) == (
        1,
        f"{NAME}: refused: 1 is not better than the best known, 1, found by A. Author with a "
        "submitted solution\n",
    )


def test_of_equal_ones_the_first_counts(knowing, optimum, run):
    knowing()
    exit_code, out, _ = run("library", "submit", optimum, optimum, "--format=json")
    assert exit_code == 1
    assert [each["accepted"] for each in json.loads(out)] == [True, False]
    assert [each["best_known_before"] for each in json.loads(out)] == [2, 1]


def test_what_is_not_valid_is_refused(knowing, optimum, tmp_path, run):
    knowing()
    optimum.write_text(optimum.read_text().replace('"objective": 1', '"objective": 0'))
    exit_code, out, _ = run("library", "submit", optimum, "--record", "own")
    assert exit_code == 1
    assert out == f"{NAME}: refused: not valid: objective is claimed to be 0, but is 1\n"
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("known", "grade", "proof", "denies"),
    TABLES["proved"],
    ids=["meets the bound", "leaves a gap", "refutes the bound", "nothing known"],
)
def test_what_is_proved_follows_from_the_bound(
    known, grade, proof, denies, knowing, optimum, tmp_path
):
    """A bound that a solution refutes is dropped, and said to be wrong."""
    shelf = LibraryWithOwn(knowing(**known).folder, tmp_path / "own")
    (found,) = submitted(shelf, [str(optimum)], "me")
    assert (found.now.grade, found.now.proof, found.denies_bound) == (grade, proof, denies)
    assert ("please report it" in found.in_words()) == denies
    assert (found.now.best_bound is None) == (denies or known.get("id") == "")
    write_submissions(shelf, [found], "2026-02-03")
    again = LibraryWithOwn(shelf.folder, tmp_path / "own")
    assert again.known[NAME] == found.now
    assert again.solution(NAME)[1]["objective"] == 1


def test_a_later_record_of_the_library_that_is_as_good_counts(knowing, optimum, tmp_path):
    """One's own are there until the library has caught up."""
    shelf = LibraryWithOwn(knowing().folder, tmp_path / "own")
    write_submissions(shelf, submitted(shelf, [str(optimum)], "me"), "2026-02-03")
    assert LibraryWithOwn(shelf.folder, tmp_path / "own").is_own(NAME)
    caught_up = LibraryWithOwn(knowing(best_known=1).folder, tmp_path / "own")
    assert not caught_up.is_own(NAME)
    assert caught_up.known[NAME].found_by == "somebody"


@pytest.mark.parametrize(("content", "part"), TABLES["bad_input"])
def test_bad_input_is_a_line_and_writes_nothing(
    content, part, knowing, optimum, write, tmp_path, run
):
    """Nor is a good solution before it kept."""
    knowing()
    bad = write(content, "bad.json")
    assert_one_line_error(run("library", "submit", optimum, bad, "--record", "own"), part)
    assert not (tmp_path / "own").exists()


CERTIFIED = ["lyra-figure-5", "split-topology-v1-k8", "one-short-v1-rack-nodes6-k5"]
"""One instance of the first edition and two of the second, the last of which has no solution."""


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """Return a library of three solved instances without any bound or proof."""
    monkeypatch.chdir(tmp_path)
    shelf = part_of_library(tmp_path / "library", *CERTIFIED)
    for path in (shelf.folder / "records").iterdir():
        record = json.loads(path.read_text())
        bare = {"grade": "open", "proof": "none", "proof_file": None, "best_bound": None}
        for best in record["instances"]:
            best |= {**bare, "bound_with": None, "bound_by": None}
        path.write_text(format_document(record))
    monkeypatch.setattr("lyra_opt.instances.library.library", lambda _edition=None: shelf)
    return shelf


def certificate(name, **changed):
    """Write the certificate of an instance, with changes, to a file of the working folder."""
    document = read_json_object(library().proof_file(name)) | changed
    path = Path(f"proof-of-{document.get('bound')}.json")
    path.write_text(format_document(document))
    return path


@pytest.mark.parametrize("name", CERTIFIED)
def test_a_certificate_proves_an_optimum_in_a_record_of_ones_own(name, bare, run):
    """For both editions; solutions by others are still there, and the next one proves no more."""
    file = certificate(name)
    exit_code, out, err = run("library", "submit", file, "--by", "A. Author", "--record", "own")
    assert (exit_code, err) == (0, "")
    assert "a certificate" in out
    exit_code, out, _ = run("library", "verify", name, "--record", "own")
    assert (exit_code, "its certificate proves" in out) == (0, True)
    shelf = LibraryWithOwn(bare.folder, Path("own"))
    assert shelf.known[name].grade == "hard"
    assert shelf.proof_file(name) == Path("own", "proofs", f"{name}.proof.json")
    exit_code, out, _ = run("library", "submit", file, "--record", "own")
    assert (exit_code, out) == (
        1,
        f"{name}: refused: it proves no more than a certificate that is known\n",
    )


def test_a_weaker_bound_with_a_certificate_is_kept_until_it_is_beaten(bare, run):
    """A bound below the best known value counts as a bound; a forged one is refused."""
    weak = certificate(NAME, bound="0", nodes=[{"multipliers": []}])
    for status, out in ((0, "a certificate of the bound 0"), (1, "proves no more than the bound")):
        found = run("library", "submit", weak, "--by", "A. Author", "--record", "own")
        assert (found[0], out in found[1]) == (status, True)
    best = LibraryWithOwn(bare.folder, Path("own")).known[NAME]
    assert (best.best_known, best.best_bound, best.bound_by) == (1, 0, "A. Author")
    assert best.proof == "none"
    forged = certificate(NAME, bound="2")
    assert "refused: not proved" in run("library", "submit", forged, "--record", "own")[1]
    assert run("library", "submit", certificate(NAME), "--record", "own")[0] == 0
    assert LibraryWithOwn(bare.folder, Path("own")).known[NAME].best_bound == 1


def test_options_that_cannot_be(knowing, optimum, run):
    knowing()
    assert_one_line_error(run("library", "list", "--record", "none"), "the folder does not exist")
    assert_one_line_error(run("library", "submit", optimum, "--record", optimum), "is a file")
    assert_one_line_error(run("library", "submit", optimum, "--by", "two\nlines"), "by")
