"""What a solver's own file does as it is loaded ends no command."""

import json

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.isolation import loading
from lyra_opt.core.solver import SOLVERS
from tests.conftest import assert_one_line_error

EXITS = "import os\nos._exit(3)\n"


def test_a_file_that_never_ends(write, monkeypatch):
    """Is given a while."""
    monkeypatch.setattr(loading, "LONGEST_LOADING_S", 0.2)
    path = write("while True: pass\n", "own.py")
    with pytest.raises(UserError, match="cannot be loaded: did not end within 0.2 s"):
        loading.require_loadable(f"{path}:Own")


def test_a_plug_in_that_ends_its_process(run, tmp_path, monkeypatch):
    """Is a line of the list, beside those that can run."""
    metadata = tmp_path / "ending-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ending\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[lyra_opt.solvers]\nreclaim.ending = ending:E\n")
    (tmp_path / "ending.py").write_text(EXITS)
    monkeypatch.syspath_prepend(tmp_path)
    SOLVERS.forget()
    try:
        exit_code, out, _ = run("solvers", "--problem", "reclaim", "--format=json")
        asked = ("--heuristic", "ending", "--against", "optimum")  # of a problem that is not said
        refused = run("counterexample", *asked)
    finally:
        monkeypatch.undo()
        SOLVERS.forget()
    assert exit_code == 0
    assert_one_line_error(refused, "exited with code 3")
    known = {record["name"]: record for record in json.loads(out)}
    assert not known["ending"]["available"]
    assert known["ending"]["reason"].endswith("its process exited with code 3")
    assert known["exact"]["available"]
