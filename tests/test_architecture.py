"""Imports run one way, without circles; what the layout promises is held here."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "lyra_opt": set(),
    "formulations": {"lyra_opt"},
    "instances": {"lyra_opt"},
    "experiments": {"lyra_opt", "formulations", "instances"},
    "paper_figures": {"lyra_opt", "formulations", "instances", "experiments"},
}
COMPOSITION_ROOT = "lyra_opt.__main__"  # the command line sees everything, and holds no logic


def modules() -> dict[str, Path]:
    """Return every module of the five packages by its dotted name."""
    found = {}
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imported_by(path: Path) -> set[str]:
    """Return the dotted names that a file imports, at any depth, for types alone too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_one_way(package: str) -> None:
    """lyra_opt <- formulations, instances <- experiments <- paper_figures."""
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package] - {package}
    for module, path in modules().items():
        if module.split(".")[0] == package and module != COMPOSITION_ROOT:
            used = {name.split(".")[0] for name in imported_by(path)}
            assert not used & forbidden, f"{module} imports {used & forbidden}"


def test_no_circles() -> None:
    """Not even for types: a module can be read after those that it imports."""
    known = modules()
    graph = {
        module: {name for name in imported_by(path) if name in known and name != module}
        for module, path in known.items()
    }
    # A package's own front page imports its modules, which is no circle unless they ask back.
    assert list(TopologicalSorter(graph).static_order())
