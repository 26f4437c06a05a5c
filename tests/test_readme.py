"""What the README shows is what the program does."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.solver import solver_names
from lyra_opt.simulation.scheme import ComposedScheme, find_scheme, scheme_names
from lyra_opt.testing.conformance import assert_conforms

if TYPE_CHECKING:
    from lyra_opt.reclaim import ReclaimInstance

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TIME = re.compile(r" *(\d+\.\d+ m?s|time)$", flags=re.MULTILINE)


def blocks(language: str, text: str = README) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def sessions() -> list[str]:
    """Return the blocks that show a terminal."""
    return [block for block in blocks("") if block.startswith("$ ")]


@pytest.mark.parametrize("session", sessions())
def test_terminal(session: str, tmp_path: Path) -> None:
    """Every command, run in order, prints what is shown; times aside."""
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    printed = []
    for line in session.splitlines():
        if line.startswith("$ "):
            command = line.removeprefix("$ ").replace(
                "lyra-opt", f"{shlex.quote(sys.executable)} -m lyra_opt", 1
            )
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
            )
            printed += [line, *done.stdout.splitlines()]
    shown = [TIME.sub("", line).rstrip() for line in session.splitlines()]
    got = [TIME.sub("", line).rstrip() for line in printed]
    # The rule under the header is as wide as the table, which depends on the times.
    assert [line for line in got if "──" not in line] == [
        line for line in shown if "──" not in line
    ]


PAGES = ["README.md", *(f"lyra_opt/{problem}/README.md" for problem in problems())]


@pytest.mark.parametrize("page", PAGES)
def test_python(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snippet prints what its last comment says."""
    (snippet,) = blocks("python", (ROOT / page).read_text())
    monkeypatch.chdir(ROOT)
    exec(compile(snippet, page, "exec"), {})
    assert capsys.readouterr().out.strip() == snippet.strip().splitlines()[-1].removeprefix("# ")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """To files and folders of the tree."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert targets
    for target in targets:
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_instance() -> None:
    """The example of the format is an instance."""
    (text,) = blocks("json")
    instance = find_problem("reclaim").parse_instance(json.loads(text))
    assert instance.reclaim_servers == 1


SECTIONS = {
    "reclaim": "Solvers",
    "allocation": "Elastic allocation",
    "heterogeneous": "Unlike GPUs",
    "network": "Gangs in a network",
}


@pytest.mark.parametrize("problem", problems())
def test_the_table_of_a_problem_has_its_solvers(problem: str) -> None:
    """Named in the first column, and no others: `exact` of one problem says nothing of another."""
    section = README.partition(f"\n## {SECTIONS[problem]}\n")[2].partition("\n## ")[0]
    (table,) = re.findall(r"^\| solver \| what.*?\n(?=\n)", section, flags=re.MULTILINE | re.DOTALL)
    named = set()
    for cell in re.findall(r"^\| (`.*?) \|", re.sub(r" \(.*?\)", "", table), flags=re.MULTILINE):
        for part in cell.split("; "):
            also, _, suffix = part.partition(", also with the suffix ")
            names = re.findall(r"`([^`]+)`", also)
            named |= {name + end for name in names for end in ("", suffix.strip("`"))}
    assert named == {name for _, name in solver_names(problem)}


def test_every_composed_scheme_is_in_the_table() -> None:
    """Named in the first column, those that belong together in one row."""
    (table,) = re.findall(r"^\| scheme \|.*?\n(?=\n)", README, flags=re.MULTILINE | re.DOTALL)
    named = {
        name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert named == {
        name for name in scheme_names() if isinstance(find_scheme(name), ComposedScheme)
    }


def test_the_solver_of_the_contributing_guide_conforms(figure_5: ReclaimInstance) -> None:
    """The file that it shows is a solver, and passes the suite."""
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    (shown,) = re.findall(r"^ *```python\n(.*?)^ *```$", guide, flags=re.MULTILINE | re.DOTALL)
    module: dict[str, Any] = {"__name__": "first_in_file"}
    exec(compile(textwrap.dedent(shown), "CONTRIBUTING.md", "exec"), module)
    assert_conforms(module["FirstInFile"](), find_problem("reclaim"), figure_5, optimum=1)
