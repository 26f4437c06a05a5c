"""Heavy packages are imported late, and PuLP and OR-Tools load and solve in either order."""

import subprocess
import sys

import pytest

SOLVE_IN_ORDER = """
import sys
from lyra_opt.core.loading import load_instance
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check

loaded = load_instance(sys.argv[1])
for name in sys.argv[2:]:
    answer = solve_and_check(loaded.problem, loaded.instance, find_solver("reclaim", name))
    print(name, answer.status, answer.objective, answer.message)
"""
IMPORT_ALL = """
import sys
from lyra_opt.core.solver import find_solver, solver_names

for problem, name in solver_names("reclaim"):
    if name.startswith(("pulp", "cpsat", "mathopt", "brute")):
        assert find_solver(problem, name).availability() is None
print(*sorted({"pulp", "highspy", "ortools", "pandas"} & set(sys.modules)))
"""


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
