"""Imports run one way, without circles; what the layout promises is held here."""

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from tests.tables import tables

ROOT = Path(__file__).parent.parent
TABLES = tables(__file__)
PROBLEMS = ("allocation", "heterogeneous", "network", "preemption", "reclaim")
MAY_IMPORT = {package: set(others) for package, others in TABLES["may_import"].items()}
ROOMS_MAY_IMPORT = {
    room: {*others, *(PROBLEMS if "problems" in others else ())}
    for room, others in TABLES["sub_packages"].items()
}
MOST_OF_A_PREFIX = 3
"""Modules of one folder that begin with one word; more are a folder."""
MOST_LINES = 100
COMPOSITION_ROOTS = ("lyra_opt", "lyra_opt.__main__", "lyra_opt.registry")
"""The registry, the front door and the command line see every package."""


def modules():
    """Return every module of the five packages by its dotted name."""
    found = {}
    for package in MAY_IMPORT:
        above = ROOT if package == "lyra_opt" else ROOT / "lyra_opt"
        for path in (ROOT / package).rglob("*.py"):
            parts = (*above.parts[len(ROOT.parts) :], *path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


@cache
def parsed(path):
    """Return the syntax tree of a file, which several tests walk."""
    return ast.parse(path.read_text())


def package_of(module):
    """Return which of the five folders of the source tree holds a module of lyra_opt."""
    return next((part for part in module.split(".")[1:2] if part in MAY_IMPORT), "lyra_opt")


def imported_by(path):
    """Return the dotted names that a file imports, at any depth, for types alone too."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_nothing_is_imported_through_a_string():
    """An installed package has other names at the top, and neither ruff nor a test sees it."""
    found = {
        module
        for module, path in modules().items()
        for node in ast.walk(parsed(path))
        if {getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")}
        & set(TABLES["names"]["ways_to_import_by_string"])
    }
    assert found == set(TABLES["import_by_string"])


def test_libraries_take_solvers_and_not_their_names():
    """A solver that is asked for by name is a dependency that no rule of imports sees."""
    found = {
        module
        for module, path in modules().items()
        if package_of(module) in ("lyra_opt", "formulations", "instances")
        if not is_root(module) and not module.startswith("lyra_opt.commands.")
        if imported_by(path) & set(TABLES["names"]["look_ups"])
    }
    assert found == set(TABLES["may_look_up"])


def is_root(module):
    """Return whether a module may import every package."""
    return module in COMPOSITION_ROOTS or module.startswith("lyra_opt.front_door.")


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_one_way(package):
    """lyra_opt <- formulations, instances <- experiments <- paper_figures."""
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package] - {package}
    for module, path in modules().items():
        if package_of(module) == package and not is_root(module):
            used = {package_of(name) for name in imported_by(path) if name.startswith("lyra_opt")}
            assert not used & forbidden, f"{module} imports {used & forbidden}"


@pytest.mark.parametrize("room", ROOMS_MAY_IMPORT)
def test_rooms_import_one_way(room):
    """Core <- problems, none of which knows another, <- simulation, and testing <- commands."""
    forbidden = set(ROOMS_MAY_IMPORT) - ROOMS_MAY_IMPORT[room] - {room}
    for module, path in modules().items():
        if module.startswith(f"lyra_opt.{room}."):
            used = {".".join(name.split(".")[:2]) for name in imported_by(path)}
            assert not used & {f"lyra_opt.{other}" for other in forbidden}, module


def test_the_reference_shares_no_code_with_the_packages():
    """An error of the product cannot be repeated by importing it."""
    for path in (ROOT / "tests" / "reference").glob("*.py"):
        assert not [name for name in imported_by(path) if name.startswith("lyra_opt")], path


def test_no_circles():
    """Not even for types: a module can be read after those that it imports."""
    known = modules()
    graph = {
        module: {name for name in imported_by(path) if name in known and name != module}
        for module, path in known.items()
    }
    # A package's own front page imports its modules, which is no circle unless they ask back.
    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_has_the_same_rooms(problem):
    """Whoever knows one problem knows where to look in all."""
    folder = ROOT / "lyra_opt" / problem
    files = {"README.md", "__init__.py", "instance.py", "checker.py", "problem.py", "plot.py"}
    rooms = {"bounds", "heuristics", "exact"}
    assert files <= {path.name for path in folder.iterdir() if path.is_file()}
    assert rooms <= {path.parent.name for path in folder.glob("*/__init__.py")}
    front_page = import_module(f"lyra_opt.{problem}")
    kinds = {name.removeprefix(problem.capitalize()) for name in front_page.__all__}
    assert kinds >= {"Instance", "Report", "check", "PROBLEM"}
    dual_bound = import_module(f"lyra_opt.{problem}.bounds.dual_bound").dual_bound
    assert list(signature(dual_bound).parameters) == ["instance"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_folders_stand_for_prefixes(problem):
    """No two modules of a folder begin with the same word unless they mirror one another."""
    for folder in (ROOT / "lyra_opt" / problem).rglob("*"):
        prefixes = Counter(
            path.stem.partition("_")[0] for path in folder.glob("*_*.py") if path.stem != "__init__"
        )
        assert all(count <= MOST_OF_A_PREFIX for count in prefixes.values()), (folder, prefixes)


def test_the_root_holds_the_front_door_and_rooms():
    """What is neither a command nor a problem has a room with a name."""
    root = ROOT / "lyra_opt"
    files = {path.name for path in root.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "command_line.toml", "py.typed", "registry.py"}
    links = {path.name for path in root.iterdir() if path.is_symlink()}
    assert links == set(MAY_IMPORT) - {"lyra_opt"}
    rooms = {path.parent.name for path in root.glob("*/__init__.py")} - links
    assert rooms == {*ROOMS_MAY_IMPORT, "front_door"}


def test_functions_are_short_enough_to_follow():
    """With their docstrings; ruff counts parameters. What is longer says why."""
    longer = {
        f"{module}.{node.name}"
        for module, path in modules().items()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_LINES
    }
    assert longer == set(TABLES["longer"])
