"""``lyra-opt solvers``: list the solvers and their properties."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from lyra_opt.commands.output import print_formatted, print_line, print_table, stdout_kept_clean
from lyra_opt.core.errors import UserError
from lyra_opt.core.table import Column, Table


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt solvers`` and return the exit code."""
    from lyra_opt.core.problem import find_problem
    from lyra_opt.core.solver import MAKERS, made_solver_names

    if arguments.problem is not None:
        find_problem(arguments.problem)
    records = solver_records(arguments.problem)
    tables = [_table(*group) for group in groupby(records, key=itemgetter("problem"))]
    if print_formatted(arguments.form, tables, records):
        return 0
    for table in tables:
        if arguments.problem is None:
            print(f"{table.title}:")
        print_table(table)
    if arguments.backends:
        made = ", ".join(made_solver_names())
        print_line(f"also, if installed: {made}; add the form of a model to the name")
    elif makers := " and ".join(MAKERS.names()):
        print_line(f"{makers} can call further solvers: --backends lists their names")
    return 0


def _table(problem: str, records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the solvers of a problem as a table."""
    rows = [
        {
            "solver": record["name"],
            "what it is": record["summary"] or "",
            "proves optima of": _shown(record["proves_optimality"], all_of=record["variants"]),
            "takes": _shown(record["variants"]),
            "gives a bound": "yes" if record["gives_bound"] else "no",
            "available": record["reason"] or "yes",
        }
        for record in records
    ]
    is_available = all(row["available"] == "yes" for row in rows)
    least = ("gives a bound", *(["available"] if is_available else []), "takes")
    columns = [Column(key=name, values=[row[name] for row in rows]) for name in rows[0]]
    return Table(columns, problem, least)


def solver_records(problem: str | None) -> list[dict[str, Any]]:
    """Return the objects that ``solvers --format json`` prints, for one problem or for all."""
    from lyra_opt.core.solver import solver_names

    with stdout_kept_clean():  # a user's solver may print while it is loaded
        return [_record(of, name) for of, name in solver_names(problem)]


def _record(problem: str, name: str) -> dict[str, Any]:
    """Return the properties of a solver, or the reason why it cannot be loaded."""
    from lyra_opt.core.isolation.loading import find_solver_safely

    record: dict[str, Any] = {"name": name, "problem": problem}
    try:
        solver = find_solver_safely(problem, name)
    except UserError as error:
        unknown = dict.fromkeys(("summary", "variants", "proves_optimality", "gives_bound"))
        return record | unknown | {"available": False, "reason": str(error)}
    missing = solver.availability()
    return record | {
        "summary": solver.summary,
        "variants": list(solver.variants),
        "proves_optimality": list(solver.exact_variants),
        "gives_bound": solver.gives_bound,
        "available": missing is None,
        "reason": None if missing is None else missing.reason,
    }


def _shown(variants: Sequence[str] | None, all_of: Sequence[str] | None = None) -> str:
    if not variants:
        return "" if variants is None else "none"
    return "all" if variants == all_of else ", ".join(variants)
