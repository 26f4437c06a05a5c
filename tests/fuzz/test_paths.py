"""Paths and variables as nobody means them: one line and exit code 2, or a page as usual."""

import os
import subprocess
import sys

import pytest

from lyra_opt.__main__ import main
from tests.fuzz.test_stores import TRACE
from tests.tables import tables

SIMULATE = ("simulate", "plain", "--processes", "1", "--set", "cluster.servers=1", "--scheme=fifo")
COMMANDS = tables(__file__)["commands"]


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Return a trace in the working folder, where a and b are links to one another."""
    monkeypatch.chdir(tmp_path)
    for name, target in ("ab", "ba"):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "three.csv").write_text(TRACE)
    return "three.csv"


@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_and_nothing_else(command, trace, capsys):
    words = [*SIMULATE, *command[1:]] if command[0] == "simulate" else command
    assert main([word.replace("NO_UTF_8", "x\udcff") for word in words]) == 2
    written = capsys.readouterr()
    assert (written.out, written.err.count("\n")) == ("", 1)
    assert "internal error" not in written.err
    assert "need quotes" in written.err or command[-1] != "schemes=[lyra]"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["nonsense", "module://nowhere", "qtagg"])
def test_a_page_is_drawn(backend, trace, tmp_path):
    """Whatever backend a notebook leaves behind, in a folder whose name is not UTF-8."""
    out = os.fsdecode(b"o\xff")
    command = [sys.executable, "-m", "lyra_opt", *SIMULATE, "--jobs", trace, "--out", out]
    subprocess.run(command, check=True, env=os.environ | {"MPLBACKEND": backend})
    assert (tmp_path / out / "report.html").stat().st_size > 0
