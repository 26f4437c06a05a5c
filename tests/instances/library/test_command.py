"""``lyra-opt library``: what it prints, writes and refuses."""

import json

import pytest

from lyra_opt.instances.library import library
from tests.conftest import assert_one_line_error
from tests.tables import tables

TABLES = tables(__file__)


def test_list_is_an_array_of_all(run):
    exit_code, out, err = run("library", "list", "--format=json")
    assert (exit_code, err) == (0, "")
    found = json.loads(out)
    assert [each["id"] for each in found] == list(library().entries)
    keys = {"id", "problem", "grade", "status", "best_known", "best_bound", "proof", "provenance"}
    assert all(keys <= each.keys() for each in found)


def test_list_of_some(run):
    _, out, _ = run("library", "list", "--format=json", "--problem", "network", "--grade", "easy")
    found = json.loads(out)
    assert {(each["problem"], each["grade"]) for each in found} == {("network", "easy")}
    _, out, _ = run("library", "list", "--status", "open")
    assert f"of {len(library().entries)} instances" in out


def test_list_fits_a_narrow_terminal(run, monkeypatch):
    """Columns that do not fit are left out, and the last line but one says which."""
    monkeypatch.setattr("lyra_opt.commands.output.terminal_width", lambda: 60)
    _, out, _ = run("library", "list", "--problem", "reclaim", "--grade", "open")
    assert max(map(len, out.splitlines())) <= 60
    assert out.split()[:4] == ["best", "instance", "known", "bound"]
    gone = out.replace("\n", " ").partition("columns that do not fit: ")[2]
    assert gone.startswith("problem; grade; variant; size; proof. Show them with --format csv")


def test_solve_and_verify_take_ids(run, tmp_path, monkeypatch):
    """Also of an instance without a file; a file of that name wins."""
    monkeypatch.chdir(tmp_path)
    for name in ("lyra-figure-5", "decoy-v1-k7"):
        given = ("solve", name, "--solver", "exact", "--out", "s.json", "--proof", "p.json")
        exit_code, out, _ = run(*given)
        assert (exit_code, out.splitlines()[0]) == (0, name)
        assert run("verify", name, "s.json")[0] == 0
    assert run("library", "get", "decoy-v1-k7", "--out", ".")[0] == 0
    assert run("verify", "decoy-v1-k7.json", "--proof", "p.json")[0] == 0
    assert_one_line_error(run("solve", "lyra-figure-55"), "did you mean lyra-figure-5?")
    (tmp_path / "lyra-figure-5").write_text("{}")
    assert_one_line_error(run("solve", "lyra-figure-5"), "lyra-figure-5: format is missing")


def test_show(run):
    exit_code, out, _ = run("library", "show", "lyra-figure-5")
    assert exit_code == 0
    assert "grade: easy" in out
    assert "provenance: Lyra (EuroSys 2023), Figure 5" in out
    _, out, _ = run("library", "show", "lyra-figure-5", "--format=json")
    shown = json.loads(out)
    assert (shown["best_known"], shown["recorded_on"]) == (1, "2026-11-23")


def test_get_writes_what_other_commands_take(run, tmp_path):
    """An instance with a certificate, and one made on demand."""
    names = ("lyra-figure-5", "decoy-v1-k7")
    exit_code, out, _ = run("library", "get", *names, "--out", tmp_path / "new")
    assert exit_code == 0
    assert all((tmp_path / path).exists() for path in out.splitlines())
    folder = tmp_path / "new"
    for name in names:
        files = folder / f"{name}.json", folder / "solutions" / f"{name}.solution.json"
        assert run("verify", *files)[0] == 0
    proof = folder / "proofs" / "lyra-figure-5.proof.json"
    assert run("verify", folder / "lyra-figure-5.json", "--proof", proof)[0] == 0


def test_verify(run):
    exit_code, out, _ = run("library", "verify", "lyra-figure-5", "waiting-pays")
    assert exit_code == 0
    assert out.splitlines()[-1] == "2 of 2 instances are right"


def test_verify_says_what_is_wrong(run, monkeypatch):
    """With exit code 1, and goes on with the others."""
    known = library().known
    wrong = {**known, "waiting-pays": known["lyra-table-4"]}
    monkeypatch.setitem(vars(library()), "known", wrong)
    exit_code, out, _ = run("library", "verify", "waiting-pays", "lyra-figure-5")
    assert exit_code == 1
    assert out.startswith("waiting-pays: WRONG: ")
    assert out.splitlines()[-1] == "1 of 2 instances are right"


OCCUPIED = (["get", "lyra-figure-5", "--out", __file__], "is a file, not a folder")


@pytest.mark.parametrize(("words", "part"), [*TABLES["bad_input"], OCCUPIED])
def test_bad_input_is_a_line(run, tmp_path, monkeypatch, words, part):
    monkeypatch.chdir(tmp_path)
    assert_one_line_error(run("library", *words), part)
    assert list(tmp_path.iterdir()) == []
