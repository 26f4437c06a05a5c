"""``solve --proof`` and ``verify --proof``: proofs are written and read, bad input is one line."""

import io
import json

import pytest

from lyra_opt.__main__ import main
from lyra_opt.instances.library import library


@pytest.fixture
def fleet(tmp_path):
    """Return the file of Lyra's worked example."""
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(library().document("lyra-figure-5")))
    return path


def test_a_proof_is_written_and_holds(fleet, tmp_path, capsys):
    """Of what a heuristic found, too: who found it does not matter."""
    proof = tmp_path / "proof.json"
    assert main(["solve", str(fleet), "--solver", "lyra-greedy", "--proof", str(proof)]) == 0
    capsys.readouterr()
    assert main(["verify", str(fleet), "--proof", str(proof)]) == 0
    assert "no solution is better than 1, and the proof's solution has this value" in (
        capsys.readouterr().out
    )
    changed = json.loads(proof.read_text()) | {"bound": "2"}
    proof.write_text(json.dumps(changed))
    assert main(["verify", str(fleet), "--proof", str(proof), "--format=json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["holds"]
    assert "claims 2, but proves only 1" in found["refutation"]


def test_instances_and_proofs_can_come_from_the_library_and_through_pipes(
    fleet, tmp_path, run, monkeypatch
):
    proof = tmp_path / "proof.json"
    pipes = [("lyra-figure-5", proof, fleet), ("-", proof, fleet), (fleet, "-", proof)]
    for instance, given, piped in pipes:
        for words in [("solve", instance, "--proof", proof)] * (given == proof) + [
            ("verify", instance, "--proof", given)
        ]:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped.read_bytes())))
            assert run(*words)[0] == 0


def test_what_cannot_be_proved_is_not_written(fleet, tmp_path, capsys):
    """Exit code 1, and no file."""
    proof = tmp_path / "proof.json"
    document = json.loads(fleet.read_text()) | {"reclaim_servers": 1}
    document["servers"].append({"id": "idle", "gpus": 8})
    fleet.write_text(json.dumps(document))
    assert main(["solve", str(fleet), "--solver", "random", "--seed", "1", "--proof", str(proof)])
    assert "a better point exists, with cost 0" in capsys.readouterr().err
    schedule = tmp_path / "jobs.json"
    schedule.write_text(json.dumps(library().document("lyra-table-4")))
    assert main(["solve", str(schedule), "--proof", str(proof)]) == 1
    assert "has no proofs for this objective" in capsys.readouterr().err
    assert not proof.exists()
