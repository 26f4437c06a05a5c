"""What the README shows is what the program does."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.allocation import ElasticJob, Objective
from lyra_opt.allocation import Instance as AllocationInstance
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.solver import solver_names
from lyra_opt.simulation.scheme import ComposedScheme, find_scheme, scheme_names
from lyra_opt.testing.conformance import assert_conforms

if TYPE_CHECKING:
    from lyra_opt.reclaim import Instance as ReclaimInstance

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TIME = re.compile(r" *(\d+\.\d+ m?s|time)$", flags=re.MULTILINE)


def blocks(language: str, text: str = README) -> list[str]:
    """Return the fenced blocks of one language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for of, block in fenced if of == language]


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
    """The snippet prints what its last comments say."""
    (snippet,) = blocks("python", (ROOT / page).read_text())
    monkeypatch.chdir(ROOT)
    exec(compile(snippet, page, "exec"), {})
    code = snippet.rpartition("\nprint(")[2]
    said = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == said


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


def shown_in_the_guide(file: str) -> dict[str, Any]:
    """Run a file that the contributing guide shows after its name; return what it defines."""
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition(f"`{file}`:\n")[2]
    shown = re.findall(r"^ *```python\n(.*?)^ *```$", guide, flags=re.MULTILINE | re.DOTALL)
    module: dict[str, Any] = {"__name__": file.removesuffix(".py")}
    exec(compile(textwrap.dedent(shown[0]), file, "exec"), module)
    return module


def test_the_solver_of_the_contributing_guide_conforms(figure_5: ReclaimInstance) -> None:
    """The file that it shows is a solver, and passes the suite."""
    solver = shown_in_the_guide("first_in_file.py")["FirstInFile"]()
    assert_conforms(solver, find_problem("reclaim"), figure_5, optimum=1)


def test_the_policy_of_the_contributing_guide_conforms() -> None:
    """It gives the longer of two jobs all that it can use, and what is left to the other."""
    instance = AllocationInstance(
        name="two-jobs",
        objective=Objective.MEAN_JCT,
        gpus=4,
        jobs=(
            ElasticJob(id="short", min_workers=1, max_workers=3, work_worker_s=30),
            ElasticJob(id="long", min_workers=1, max_workers=3, work_worker_s=60),
        ),
    )
    policy = shown_in_the_guide("longest_first.py")["LongestFirst"]()
    answer = assert_conforms(policy, find_problem("allocation"), instance)
    # The long job has three workers for 20 s, the short one one and then, for 10 s, three.
    assert answer.objective == pytest.approx((20 + 20 + 10 / 3) / 2)


PACKAGES = ("lyra_opt", "formulations", "instances", "experiments", "paper_figures")
PROSE = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")),
]
PROSE += [str(p.relative_to(ROOT)) for name in PACKAGES for p in (ROOT / name).rglob("README.md")]
SOURCES = [str(p.relative_to(ROOT)) for name in PACKAGES for p in (ROOT / name).rglob("*.py")]
OF_OTHERS = {
    "scheduler/scheduler.py",
    "scheduler/utils.py",
    "generate_trace.py",
    "pollux.py",
    "simulator/applications.py",
    "simulator/simulator.py",
}
"""Files of other projects, in docstrings that name the project."""
OF_READERS = {"first_in_file.py", "longest_first.py", "least_remaining.py"}
"""Files that the contributing guide shows."""
ROOMS = ("lyra_opt/reclaim", "lyra_opt/reclaim/bounds")
"""Where the file names stand that every problem has, which the guide lists without a folder."""


def passages(page: str) -> list[str]:
    """Return the rows, items and paragraphs of a page, or the docstrings of a module."""
    text = (ROOT / page).read_text()
    if not page.endswith(".py"):
        return re.split(r"\n(?=\s*\n|\||- |\d+\. )", text)
    return [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def written_out(path: str) -> list[str]:
    """Return the paths that one with braces stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [
        whole
        for part in braces[1].split(",")
        for whole in written_out(path[: braces.start()] + part + path[braces.end() :])
    ]


def paths_of_nothing(page: str) -> list[str]:
    """Return the paths of Python files in a page that lead nowhere.

    A path counts from the root, from the page's folder, or from a folder that the passage links to,
    names or has a file of.
    """
    missing = []
    for passage in passages(page):
        named = re.findall(r"(?<![\w*])[\w./{},-]*[\w}]\.py\b", passage)
        paths = [path for name in named for path in written_out(name)]
        here = (ROOT / page).parent
        folders = [ROOT, here, *(ROOT / path for path in paths if (ROOT / path).is_file())]
        folders += [here / link for link in re.findall(r"\]\(([^)#:]+)\)", passage)]
        folders += [ROOT / folder for folder in re.findall(r"`([\w/]+)/`", passage)]
        if page == "CONTRIBUTING.md":
            folders += [ROOT / room for room in ROOMS]
        missing += [
            path
            for path in paths
            if path not in OF_OTHERS | OF_READERS
            and not re.search(r"my_|NAME", path)
            and not any(
                (base / path).is_file()
                for base in (each.parent if each.is_file() else each for each in folders)
            )
        ]
    return missing


def names_of_nothing(page: str) -> list[str]:
    """Return the dotted names in a page that are no module, no object and no entry-point group."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    pattern = rf"(?<![\w./-])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+"
    missing = []
    for name in re.findall(pattern, "\n".join(passages(page))):
        if name in groups or "my_" in name or (ROOT / name).is_file():
            continue
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    return missing


@pytest.mark.parametrize("page", PROSE)
def test_what_a_page_names_exists(page: str) -> None:
    """Python files, and dotted names of ours."""
    assert not paths_of_nothing(page)
    assert not names_of_nothing(page)


def test_what_docstrings_name_exists() -> None:
    """As for pages."""
    missing = {page: paths_of_nothing(page) + names_of_nothing(page) for page in SOURCES}
    assert not {page: names for page, names in missing.items() if names}


ANSWER_KEYS = (ROOT / "docs/formats.md").read_text().partition("\n## Answer (`solve --json`)\n")[2]


@pytest.mark.parametrize("problem", problems())
def test_every_key_of_an_answer_is_explained(problem: str) -> None:
    """In a row that names the problem."""
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", ANSWER_KEYS.partition("\n## ")[0], re.MULTILINE)
    explained = {
        key for keys, meaning in rows if problem in meaning for key in re.findall(r"`(\w+)`", keys)
    }
    assert set(find_problem(problem).answer_keys) <= explained
