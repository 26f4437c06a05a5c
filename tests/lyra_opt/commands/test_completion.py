"""Completion of words, as a shell asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.draws import sampled
from tests.tables import beside, tables

COMPLETE = beside(__file__, "complete.sh")


def completions(*words):
    """Return what bash proposes for the last of these words."""
    folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "-", "lyra-opt", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(("words", "proposed"), sampled(tables(__file__)["completions"], 3))
def test_bash_completes_names(words, proposed):
    """Of everything that has a name, the names there are at the time."""
    assert set(proposed) <= completions(*words)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_code(shell, capsys):
    """The line of the help would otherwise fail at the start of the user's shell."""
    from lyra_opt.__main__ import main

    assert main(["completion", shell]) == 0
    assert "_ARGCOMPLETE" in capsys.readouterr().out
