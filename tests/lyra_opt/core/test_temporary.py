"""Killed processes leave nothing for good, and nobody loses what is in use or not ours."""

import os
import subprocess
import sys

from lyra_opt.core.temporary import FOLDER, LOCK, UNFINISHED, remove_leftovers
from tests.tables import tables

WORKS = tables(__file__)["works"]


def start(folder):
    """Start a process that has a temporary folder and is writing a file, until it is told more."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        text=True,
    )


def test_the_next_start_removes_what_a_killed_process_left(tmp_path, monkeypatch):
    """It keeps what a living process uses, links, and folders of other people or programs."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{FOLDER}link").symlink_to(elsewhere)
    (tmp_path / f"{FOLDER}results").mkdir()
    (tmp_path / f"{UNFINISHED}link").symlink_to(elsewhere / LOCK)
    kept = set(tmp_path.iterdir())

    def read(process):
        assert process.stdout.readline()
        return set(tmp_path.iterdir())

    with start(tmp_path) as killed:
        left = read(killed) - kept
        with start(tmp_path) as living:
            used = read(living) - kept - left
            killed.kill()
            killed.wait()
            assert (len(left), len(used)) == (2, 2)
            with monkeypatch.context() as patch:
                patch.setattr("os.geteuid", lambda: -1)
                remove_leftovers.__wrapped__(tmp_path)
            assert set(tmp_path.iterdir()) == kept | left | used
            with start(tmp_path) as following:
                assert not read(following) & left
                following.communicate()
            assert set(tmp_path.iterdir()) == kept | used | {tmp_path / "target"}
            living.communicate()
    assert set(tmp_path.iterdir()) == kept | {tmp_path / "target"}
    assert (tmp_path / "target").read_text() == "whole"
    assert (elsewhere / LOCK).exists()
