"""Read the solution files (``.sol``) of HiGHS, SCIP, CBC and Gurobi, recognised by content."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError, show_value

INTEGER_TOLERANCE = 1e-5
"""The largest distance from an integer that is rounded; solvers accept 1e-6, Gurobi 1e-5."""

EMPTY = "Model status\nEmpty\n"
"""HiGHS' file for a model without variables, whose only solution is empty."""

NO_SOLUTION = re.compile(
    r"^(?:Model status\n|solution status:\s*)(.*infeasible.*)", re.MULTILINE | re.IGNORECASE
)
"""The lines in which HiGHS and SCIP state that no solution exists."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one solver's files, as regular expressions.

    Parameters
    ----------
    solver
        Name of the solver.
    begin
        Matches the beginning of a file in this layout.
    objective
        Finds the objective.
    rows
        Finds the part of the file with one variable per line.
    row
        Matches a line with the name and the value of a variable.
    """

    solver: str
    begin: str
    objective: str
    rows: str
    row: str


_TABLES = (files("lyra_opt.formulations") / "solution_files.toml").read_text("utf-8")
LAYOUTS = [Layout(**table) for table in tomllib.loads(_TABLES)["layouts"]]


class SolverFile(NamedTuple):
    """The content of a solver's solution file.

    Parameters
    ----------
    objective
        The objective that the solver states; None if the file has none.
    values
        The values of the variables by name, where a missing variable is 0; None without a solution.
    """

    objective: float | None
    values: Mapping[str, float] | None


def read_solver_file(path: str | Path) -> SolverFile:
    """Read the solution file of a solver, which may be compressed.

    Raises
    ------
    InputError
        If the file has another layout, or is damaged; names the line.
    """
    text = read_text(path).replace("\r\n", "\n")
    layout = next((each for each in LAYOUTS if re.match(each.begin, text)), None)
    if layout is None:
        known = "HiGHS (raw or sparse style), SCIP, CBC or Gurobi"
        raise InputError(str(path), f"must be a solution file of {known}")
    part = re.search(layout.rows, text, re.MULTILINE)
    if part is None:
        return SolverFile(None, {} if text.startswith(EMPTY) else None)
    stated = NO_SOLUTION.search(text, 0, part.start("rows"))
    if stated is not None:
        rule = "so its values are not a solution; write the file of a run that found one"
        raise InputError(str(path), f"states {show_value(stated[1])}, {rule}")
    values: dict[str, float] = {}
    before = text.count("\n", 0, part.start("rows"))
    for number, line in enumerate(part["rows"].splitlines(), before + 1):
        if line.strip():
            row = re.fullmatch(layout.row, line.strip())
            value = math.nan if row is None else _number(row[2])
            if row is None or row[1] in values or not math.isfinite(value):
                rule = f"must name a new variable and its value, as {layout.solver} writes them"
                raise InputError(str(path), f"line {number}: {rule}, not {show_value(line)}")
            values[row[1]] = value
    count = part.groupdict().get("count")
    if count is not None and int(count) != len(values):
        raise InputError(str(path), f"has {len(values)} of {count} variables; it is cut off")
    claimed = re.search(layout.objective, text, re.MULTILINE)
    return SolverFile(None if claimed is None else _number(claimed[1]), values)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
