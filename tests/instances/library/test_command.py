"""``lyra-opt library``: what it prints, writes and refuses."""

import json

from lyra_opt.instances.library import library


def test_list_is_an_array_of_all(run):
    exit_code, out, err = run("library", "list", "--format=json")
    assert (exit_code, err) == (0, "")
    found = json.loads(out)
    assert [each["id"] for each in found] == list(library().entries)
    keys = {"id", "problem", "grade", "status", "best_known", "best_bound", "proof", "provenance"}
    assert all(keys <= each.keys() for each in found)


def test_list_fits_a_narrow_terminal(run, monkeypatch):
    """Columns that do not fit are left out, and the last line but one says which."""
    monkeypatch.setattr("lyra_opt.commands.output.terminal_width", lambda: 60)
    _, out, _ = run("library", "list", "--problem", "reclaim", "--grade", "open")
    assert max(map(len, out.splitlines())) <= 60
    assert out.split()[:4] == ["best", "instance", "known", "bound"]
    gone = out.replace("\n", " ").partition("columns that do not fit: ")[2]
    assert gone.startswith("problem; grade; variant; size; proof. Show them with --format csv")


def test_verify_says_what_is_wrong(run, monkeypatch):
    """With exit code 1, and goes on with the others."""
    known = library().known
    wrong = {**known, "waiting-pays": known["lyra-table-4"]}
    monkeypatch.setitem(vars(library()), "known", wrong)
    exit_code, out, _ = run("library", "verify", "waiting-pays", "lyra-figure-5")
    assert exit_code == 1
    assert out.startswith("waiting-pays: WRONG: ")
    assert out.splitlines()[-1] == "1 of 2 instances are right"
