"""What the README and the pages of the site show is what the program does."""

import ast
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lyra_opt.__main__ import make_parser
from lyra_opt.core.built_in import BUILT_IN
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.solver import solver_names
from lyra_opt.simulation.scheme import ComposedScheme, find_scheme, scheme_names
from tests.prose.extraction import CODE

ROOT = Path(__file__).parent.parent
MADE = ("docs/_gallery", "docs/api/generated", "docs/example_scheme")
"""What a build of the site writes below the pages, and an example with tests of its own."""
SITE = [
    "README.md",
    *sorted(
        page
        for path in ROOT.glob("docs/**/*.md")
        if not (page := path.relative_to(ROOT).as_posix()).startswith(MADE)
    ),
]
TIME = re.compile(r" *(\d[\d,.]* m?s|time \(m?s\))$", flags=re.MULTILINE)
TIME_OF_ROW = re.compile(r" {2,}[\d,.]+$", flags=re.MULTILINE)
"""The last cell of a row below the heading "time (ms)"."""
SLOW = re.compile(r"^\$ lyra-opt (counterexample|simulate)|lo\.simulate\(", flags=re.MULTILINE)
"""What searches, or replays days, for some ten seconds."""


def cost_of(shown):
    """Return the marks of a block that is run."""
    return [pytest.mark.slow] if SLOW.search(shown) else []


def text_of(page):
    """Return what a page says."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language, text):
    """Return the fenced blocks of one language."""
    fenced = re.findall(r"^```(\S*)[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for of, block in fenced if of == language]


def sessions():
    """Return the blocks that show a terminal, as cases that are called after their page."""
    return [
        pytest.param(page, block, id=f"{page}-{number}", marks=cost_of(block))
        for page in SITE
        for number, block in enumerate(blocks("", text_of(page)))
        if block.startswith("$ ")
    ]


def saved_files(page):
    """Return the files that a page has its readers save, by name."""
    shown = re.findall(
        r"Save this as `([\w.]+)`.*?^```\w+\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL
    )
    return dict(shown)


def without_times(lines):
    """Return the lines of a session without the times at their ends."""
    is_timed = any(re.search(r"time \(m?s\)$", line) for line in lines)
    kept = [TIME_OF_ROW.sub("", line) if is_timed else line for line in lines]
    return [TIME.sub("", line).rstrip() for line in kept]


@pytest.mark.parametrize(("page", "session"), sessions())
def test_terminal(page, session, tmp_path):
    """Every command, run in order, prints what is shown; times aside."""
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    for name, text in saved_files(page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
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
    shown = without_times(session.splitlines())
    got = without_times(printed)
    # The rule under the header is as wide as the table, which depends on the times.
    assert [line for line in got if "──" not in line] == [
        line for line in shown if "──" not in line
    ]


SNIPPETS = [
    pytest.param(page, snippet, marks=cost_of(snippet))
    for page in (*SITE, *(f"lyra_opt/{problem}/README.md" for problem in problems()))
    for snippet in blocks("python", text_of(page))
    if snippet.rstrip().rpartition("\n")[2].startswith("# ")
]
"""Those that end with what they print."""


@pytest.mark.parametrize(("page", "snippet"), SNIPPETS)
def test_python(page, snippet, capsys, monkeypatch, tmp_path):
    """The snippet prints what its last comments say; what it writes does not stay in the tree."""
    for path in ROOT.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, page, "exec"), {})
    said = []
    for line in reversed(snippet.splitlines()):
        if not line.startswith("# "):
            break
        said.insert(0, line.removeprefix("# "))
    assert capsys.readouterr().out.splitlines() == said


def test_pages_show_python():
    """Each of these has a snippet that is run."""
    assert {case.values[0] for case in SNIPPETS} >= {
        "README.md",
        *(f"lyra_opt/{problem}/README.md" for problem in problems()),
    }


def commands(page):
    """Return the commands that a page shows in fences, what is not this program's left off."""
    found = []
    for block in (*blocks("", text_of(page)), *blocks("sh", text_of(page))):
        for line in block.splitlines():
            if line.removeprefix("$ ").startswith("lyra-opt "):
                found.append(re.split(r" [|>#] ?", line.removeprefix("$ ").strip())[0].strip())
    return found


@pytest.mark.parametrize("page", [page for page in SITE if commands(page)])
def test_commands_are_understood(page):
    """Words and options are there; what they name is the user's, or tested with scenarios."""
    parser = make_parser()
    for command in commands(page):
        assert parser.parse_args(shlex.split(command)[1:]).run, command


@pytest.mark.parametrize("page", SITE)
def test_targets_of_make_exist(page):
    """And the studies that they run."""
    makefile = (ROOT / "Makefile").read_text()
    for target, study in re.findall(r"`?make ([a-z-]+)(?:\s+STUDY=([\w-]+))?`", text_of(page)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
        assert not study or (ROOT / f"experiments/studies/{study}.toml").is_file(), study


@pytest.mark.parametrize("page", [*SITE, *(f"lyra_opt/{name}/README.md" for name in problems())])
def test_links_lead_somewhere(page):
    """To files and folders of the tree."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_readme_is_short():
    """It is read before anything is built; what is longer is a page of the site."""
    assert len((ROOT / "README.md").read_bytes()) <= 8 * 1024


def test_instance():
    """The example of the format is an instance."""
    (text,) = blocks("json", text_of("docs/problems/reclaim.md"))
    instance = find_problem("reclaim").parse_instance(json.loads(text))
    assert instance.reclaim_servers == 1


@pytest.mark.parametrize("problem", problems())
def test_the_table_of_a_problem_has_its_solvers(problem):
    """Named in the first column, and no others: `exact` of one problem says nothing of another."""
    text = text_of(f"docs/problems/{problem}.md")
    (table,) = re.findall(r"^\| solver \| what.*?\n(?=\n|$)", text, flags=re.MULTILINE | re.DOTALL)
    named = set()
    for cell in re.findall(r"^\| (`.*?) \|", re.sub(r" \(.*?\)", "", table), flags=re.MULTILINE):
        for part in cell.split("; "):
            also, _, suffix = part.partition(", also with the suffix ")
            names = re.findall(r"`([^`]+)`", also)
            named |= {name + end for name in names for end in ("", suffix.strip("`"))}
    assert named == {name for _, name in solver_names(problem)}


def test_every_composed_scheme_is_in_the_table():
    """Named in the first column, those that belong together in one row."""
    text = text_of("docs/cluster/index.md")
    (table,) = re.findall(r"^\| scheme \|.*?\n(?=\n)", text, flags=re.MULTILINE | re.DOTALL)
    named = {
        name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert named == {
        name for name in scheme_names() if isinstance(find_scheme(name), ComposedScheme)
    }


PROSE = ["CONTRIBUTING.md", *SITE]
PROSE += [str(p.relative_to(ROOT)) for name in CODE for p in (ROOT / name).rglob("README.md")]
SOURCES = [str(p.relative_to(ROOT)) for name in CODE for p in (ROOT / name).rglob("*.py")]
OF_OTHERS = {
    "scheduler/scheduler.py",
    "scheduler/utils.py",
    "generate_trace.py",
    "pollux.py",
    "simulator/applications.py",
    "simulator/simulator.py",
}
"""Files of other projects, in docstrings that name the project."""
OF_READERS = {
    *("mine.py", "first_in_file.py", "small_exact.py", "longest_first.py", "least_remaining.py"),
    *("random_swaps.py", "own_milp.py", "preempted_first.py", "aged_smallest.py"),
}
"""Files that the page on solvers of one's own shows."""
ROOMS = ("lyra_opt/reclaim", "lyra_opt/reclaim/bounds")
"""Where the file names stand that every problem has, which the guide lists without a folder."""


def passages(page):
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


def written_out(path):
    """Return the paths that one with braces stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [
        whole
        for part in braces[1].split(",")
        for whole in written_out(path[: braces.start()] + part + path[braces.end() :])
    ]


def paths_of_nothing(page):
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


def names_of_nothing(page):
    """Return the dotted names in a page that are no module, no object and no entry-point group."""
    pattern = rf"(?<![\w./-])(?:{'|'.join(CODE)})(?:\.[A-Za-z_]\w*)+"
    missing = []
    for name in re.findall(pattern, "\n".join(passages(page))):
        if name in BUILT_IN or "my_" in name or (ROOT / name).is_file():
            continue
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    return missing


@pytest.mark.parametrize("page", PROSE)
def test_what_a_page_names_exists(page):
    """Python files, and dotted names of ours."""
    assert not paths_of_nothing(page)
    assert not names_of_nothing(page)


def test_what_docstrings_name_exists():
    """As for pages."""
    missing = {page: paths_of_nothing(page) + names_of_nothing(page) for page in SOURCES}
    assert not {page: names for page, names in missing.items() if names}


ANSWER_KEYS = (ROOT / "docs/formats/answer.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("problem", problems())
def test_every_key_of_an_answer_is_explained(problem):
    """In a row that names the problem."""
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", ANSWER_KEYS, re.MULTILINE)
    explained = {
        key for keys, meaning in rows if problem in meaning for key in re.findall(r"`(\w+)`", keys)
    }
    assert set(find_problem(problem).answer_keys) <= explained
