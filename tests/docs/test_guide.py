"""The files of one's own that the page on them shows run as it says, without a package."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import lyra_opt as lo
from tests.conftest import FIGURE_5
from tests.experiments.simulation.conftest import THREE_JOBS

OWN = (Path(__file__).parents[2] / "docs/own.md").read_text()


def fences(language):
    """Return the fenced blocks of a language, each with the line above it."""
    pattern = rf"^([^\n]*)\n\n```{language}\n(.*?)^```$"
    return re.findall(pattern, OWN, flags=re.MULTILINE | re.DOTALL)


FILES = {
    named[1]: block
    for above, block in fences("python")
    if (named := re.search(r"`(\w+\.py)`:", above))
}
SNIPPETS = [block for above, block in fences("python") if not re.search(r"`\w+\.py`:", above)]
COMMANDS = [line for _, block in fences("sh") for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the files, and what they are tried on."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "fleet.json").write_bytes(FIGURE_5.read_bytes())
    queue = lo.generate("allocation", "load", jobs=5, load_percent=150)
    lo.save(queue, tmp_path / "queue.json")
    (tmp_path / "jobs.csv").write_text(THREE_JOBS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_one_of_each():
    """Four solvers, two schemes, a policy and a waiting order; Python shows all but one scheme."""
    assert len(FILES) == 8
    for name in FILES:
        assert any(f"{name}:" in command for command in COMMANDS)
    modules = {name.removesuffix(".py") for name in FILES}
    shown = {name for name in modules for snippet in SNIPPETS if f"from {name} " in snippet}
    assert shown == modules - {"aged_smallest"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, folder, run):
    """Each does what it is for."""
    program, *arguments = shlex.split(command)
    assert program == "lyra-opt"
    exit_code, out, err = run(*arguments)
    assert exit_code == 0, err
    assert out


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets(snippet, folder):
    """As a script beside the file."""
    (folder / "script.py").write_text(snippet)
    ran = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    if "SmallExact" in snippet:
        assert ran.stdout.endswith(fences("text")[0][1])


@pytest.mark.slow
def test_files_are_typed(folder):
    """`mypy --strict` has nothing to say of them."""
    command = [sys.executable, "-m", "mypy", "--strict", *FILES]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
