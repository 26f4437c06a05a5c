"""The library is complete, frozen and right; what is damaged is said in a line."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from lyra_opt.core.documents import read_json_object
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.problem import problems
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import FromFamily, FromTrace, Grade, Proof
from lyra_opt.instances.library.shelf import Library, verified
from lyra_opt.proofs import (
    order_stand_alone,
    preemption_stand_alone,
    reclaim_stand_alone,
    stand_alone,
)
from lyra_opt.proofs.files import checked_proof
from tests.instances.library.parts import part_of_library

LARGEST_REPOSITORY_MIB = 12
SAMPLED = 40
"""Every so manieth instance is verified by the fast tests."""


@pytest.fixture
def damaged(tmp_path):
    """Return a library of one written instance, whose files a test may change."""
    return part_of_library(tmp_path / "library", "lyra-figure-5")


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_it_is_as_large_as_it_says():
    """240 instances, 30 a problem, 60 that are hard or open; all with what is known of them."""
    shelf = library()
    entries, known = shelf.entries.values(), shelf.known
    assert len(entries) >= 240
    of_problem = Counter(entry.problem for entry in entries)
    assert set(of_problem) == set(problems())
    assert min(of_problem.values()) >= 30
    assert set(known) == set(shelf.entries)
    grades = Counter(best.grade for best in known.values())
    assert grades[Grade.HARD] + grades[Grade.OPEN] >= 60
    assert len({entry.sha256 for entry in entries}) == len(entries)


def test_it_has_fleets_of_ten_thousand_servers_and_both_traces():
    entries = library().entries.values()
    assert max(entry.size for entry in entries if entry.problem == "reclaim") == 10_000
    traces = [each.provenance for each in entries if isinstance(each.provenance, FromTrace)]
    assert {"CC BY 4.0", "MIT"} <= {each.licence for each in traces}


def test_what_is_said_of_each_instance_fits_together():
    shelf = library()
    for name, entry in shelf.entries.items():
        best = shelf.known[name]
        assert (best.status == "open") == (best.grade is Grade.OPEN) == (best.proof is Proof.NONE)
        assert (best.proof is Proof.TWO_METHODS) <= (len(best.proved_with) > 1)
        assert (best.proof is Proof.CERTIFICATE) == (best.proof_file is not None)
        assert shelf.solution_file(name).exists() == (best.best_known is not None)
        assert entry.file is None or (shelf.folder / entry.file).exists()
        proof = shelf.proof_file(name)
        assert proof is None or proof.exists()


def test_files_are_small_and_none_is_left_over():
    shelf = library()
    files = {path for path in shelf.folder.rglob("*.json*") if path.is_file()}
    assert sum(path.stat().st_size for path in files) < LARGEST_REPOSITORY_MIB * 2**20
    entries = shelf.entries.values()
    known = {shelf.folder / entry.file for entry in entries if entry.file is not None}
    solved = [best.id for best in shelf.known.values() if best.best_known is not None]
    known |= {shelf.solution_file(name) for name in solved}
    known |= {path for entry in entries if (path := shelf.proof_file(entry.id)) is not None}
    known |= {path for path in files if path.parent.name in ("catalogues", "records")}
    assert files == known


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if place % SAMPLED else ())
        for place, name in enumerate(library().entries)
    ],
)
def test_every_instance_is_right(name, monkeypatch):
    """Its content, its best solution and its certificate; those without a file are made anew.

    Trees on jobs take minutes, so only the test of the stand-alone checkers goes through them.
    """
    monkeypatch.setattr(
        reclaim_stand_alone,
        "check",
        lambda instance, proof: (
            int(proof["bound"]),
            reclaim_stand_alone.Fleet(instance).value(proof["solution"]),
        ),
    )
    assert verified(library(), name).faults == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, entry in library().entries.items()
        if entry.file is not None and isinstance(entry.provenance, FromFamily)
    ],
)
def test_every_file_of_a_family_is_made_again_from_its_seed(name, tmp_path):
    """Apart from its file, too."""
    shelf = library()
    edition = shelf.edition_of(shelf.entry(name))
    document = json.loads((shelf.folder / "catalogues" / f"{edition}.json").read_text())
    (entry,) = (each for each in document["instances"] if each["id"] == name)
    del entry["file"]
    (tmp_path / "catalogues").mkdir()
    (tmp_path / "catalogues" / "one.json").write_text(
        json.dumps({**document, "instances": [entry]})
    )
    assert Library(tmp_path).document(name) == shelf.document(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, best in library().known.items() if best.proof is Proof.CERTIFICATE]
)
def test_every_certificate_is_accepted_by_the_stand_alone_checker(name, run, tmp_path):
    """In a process of its own, which imports nothing of ours, on the files that users get."""
    assert run("library", "get", name, "--out", tmp_path)[0] == 0
    files = [tmp_path / f"{name}.json", tmp_path / "proofs" / f"{name}.proof.json"]
    entry = library().entry(name)
    is_order = (entry.problem, entry.variant) == ("allocation", "mean_jct")
    is_jobs = json.loads(files[1].read_text()).get("kind") == reclaim_stand_alone.KIND
    checker = order_stand_alone if is_order else reclaim_stand_alone if is_jobs else stand_alone
    if entry.problem == "preemption":
        checker = preemption_stand_alone
    command = [sys.executable, "-I", str(checker.__file__), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "proved: " in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if file.stat().st_size > 2**16 else ())
        for name, entry in library().entries.items()
        if entry.variant in ("mean_jct", "utility", "makespan", "round_progress")
        if (file := library().proof_file(name)) is not None
    ],
)
def test_certificates_of_schedules_hold(name):
    """All of them but the largest in every run: each takes a fraction of a second."""
    shelf = library()
    loaded = shelf.load(name)
    document = loaded.problem.instance_document(loaded.instance)
    file = shelf.proof_file(name)
    proof = checked_proof(loaded, document, read_json_object(file), str(file))
    assert float(proof.bound) == pytest.approx(shelf.known[name].best_known, rel=1e-6)


def test_another_content_is_refused(damaged):
    change(damaged.folder / "lyra-figure-5.json", '"reclaim_servers": 2', '"reclaim_servers": 1')
    with pytest.raises(UserError, match=r"lyra-figure-5\.json: its content has the SHA-256"):
        damaged.load("lyra-figure-5")


def test_a_generator_of_another_version_is_refused(damaged):
    path = damaged.folder / "catalogues" / "library-2026.1.json"
    made = {"kind": "family", "family": "decoy", "version": 99, "seed": 0, "parameters": {}}
    document = json.loads(path.read_text())
    entry = {**document["instances"][0], "provenance": made}
    del entry["file"]
    path.write_text(json.dumps({**document, "instances": [entry]}))
    with pytest.raises(UserError, match="requires version 99 of family decoy; the installed"):
        damaged.load("lyra-figure-5")


def test_a_catalogue_that_is_none_is_refused(damaged):
    path = damaged.folder / "catalogues" / "library-2026.1.json"
    change(path, '"sha256"', '"sha"')
    with pytest.raises(InputError, match=r"library-2026\.1\.json: instances\[0\]\.sha is"):
        _ = damaged.entries


def test_faults_are_named(damaged):
    solution = damaged.folder / "solutions" / "lyra-figure-5.solution.json"
    change(solution, '"objective": 1', '"objective": 0')
    (fault,) = verified(damaged, "lyra-figure-5").faults
    assert "objective" in fault
    change(solution, '"objective": 0', '"objective": 1')
    record = next((damaged.folder / "records").glob("*.json"))
    change(record, '"best_known": 1', '"best_known": 0')
    (fault, *_) = verified(Library(damaged.folder), "lyra-figure-5").faults
    assert fault == "its best known objective is 0, but its solution has 1"
