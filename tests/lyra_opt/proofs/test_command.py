"""``solve --proof`` and ``verify --proof`` with files that come through pipes."""

import io

from tests.conftest import FIGURE_5


def test_instances_and_proofs_can_come_from_the_library_and_through_pipes(
    tmp_path, run, monkeypatch
):
    """The standard input stands for the instance or for the proof."""
    proof = tmp_path / "proof.json"
    assert run("solve", "lyra-figure-5", "--proof", proof)[0] == 0
    for words, piped in (
        (("solve", "-", "--proof", proof), FIGURE_5),
        (("verify", "-", "--proof", proof), FIGURE_5),
        (("verify", FIGURE_5, "--proof", "-"), proof),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped.read_bytes())))
        assert run(*words)[0] == 0
