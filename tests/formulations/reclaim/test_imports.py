"""Heavy packages are imported late, and PuLP and OR-Tools load and solve in either order."""

import subprocess
import sys

import pytest

from tests.tables import tables

TABLES = tables(__file__)
SOLVE_IN_ORDER = TABLES["solve_in_order"]
IMPORT_ALL = TABLES["import_all"]


def run_python(program, *arguments):
    """Return what a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout


@pytest.mark.parametrize(
    "names",
    [
        ["pulp-highs", "cpsat", "mathopt-highs", "mathopt-gscip", "pulp-cbc"],
        ["mathopt-highs", "cpsat", "mathopt-gscip", "pulp-cbc", "pulp-highs"],
    ],
    ids=["PuLP first", "OR-Tools first"],
)
def test_pulp_and_or_tools_solve_in_one_process(names, write_json, figure_5_document):
    """Two builds of HiGHS under one library name crash or refuse to load unless versions match."""
    instance = write_json("figure-5.json", figure_5_document)
    printed = run_python(SOLVE_IN_ORDER, str(instance), *names)
    assert printed.splitlines() == [f"{name} optimal 1 None" for name in names]


def test_finding_and_asking_solvers_imports_no_backend():
    assert run_python(IMPORT_ALL).split() == []
