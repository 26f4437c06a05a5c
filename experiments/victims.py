"""Tables of a study of preemption: excess over the optimum, failures, and needless victims.

Usage: ``python -m lyra_opt.experiments.victims FOLDER``, where the folder has the results of
``lyra-opt study preemption-gap`` or of another study of preemption. The tables are Markdown.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import count, percent
from lyra_opt.core.result import Status
from lyra_opt.core.table import Table, as_text
from lyra_opt.experiments.frames import stored_runs
from lyra_opt.experiments.proofs import Proofs
from lyra_opt.experiments.records import SolverRecord
from lyra_opt.experiments.tables import column_of
from lyra_opt.instances.family import find_family
from lyra_opt.preemption import PROBLEM, check
from lyra_opt.preemption.put_back import could_stay

COUNTS = {"cases": "cases", "failed": "finds nothing"}
SHARES = {
    "optimal": "optimal (%)",
    **{name: f"{name} excess (%)" for name in ("mean", "median", "total")},
    "wasteful": "solutions with needless victims (%)",
    "needless": "needless lost pods (%)",
}
"""The headings of the columns of `summary` in tables; `COUNTS` has those of the first columns."""


def victims_frame(folder: Path) -> pd.DataFrame:
    """Return one row per run on a generated instance whose proved optimum is above 0.

    Such an instance needs victims or moves. Runs of solvers that refuse the instance are left out.
    The columns are:

    group, family, solver
        The group of the instance, the family that generates it, and the solver.
    is_single
        Whether the objective has one term; only then the excess in percent is meaningful.
    objective, optimum
        The objective of the run and the optimum; the objective is NaN without a solution.
    lost, could_stay
        Number of lost pods, and of lost pods that could have stayed
        (`lyra_opt.preemption.put_back.could_stay`); NaN without a solution.

    Raises
    ------
    UserError
        If the folder does not have the results of a study of preemption.
    """
    runs = stored_runs(folder)
    if {getattr(run, "problem", None) for run in runs} != {PROBLEM.name}:
        raise UserError(f"{folder}: must have the results of a study of {PROBLEM.name}")
    return pd.DataFrame(_rows(runs))


def _rows(runs: list[SolverRecord]) -> Iterator[dict[str, Any]]:
    @cache
    def instance_of(cell: str) -> Any:
        run = next(each for each in runs if each.cell == cell)
        return find_family(PROBLEM.name, run.family).generate(run.family_parameters, run.seed)

    optima = Proofs(runs).optima
    for run in runs:
        if not optima.get(run.cell) or run.status is Status.UNSUPPORTED:
            continue
        instance = instance_of(run.cell)
        row: dict[str, Any] = {
            "group": run.family_group,
            "family": run.family,
            "solver": run.configuration,
            "cell": run.cell,
            "is_single": len(instance.terms.terms) == 1,
            "optimum": optima[run.cell],
        }
        if run.solution is not None:
            solution, _ = PROBLEM.parse_solution(dict(run.solution))
            row["objective"] = run.objective
            row["lost"] = check(instance, solution).lost_pods_in_all
            row["could_stay"] = sum(could_stay(instance, solution).values())
        yield row


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per group and solver, in the order of `victims_frame`.

    All shares and excesses are in percent. The columns are:

    cases, failed
        Number of cases, and number of cases without a solution.
    optimal
        Share of the cases with an optimal solution.
    mean, median, total
        Excess over the optimum, for cases with a solution. The total excess compares the sum of
        the objectives with the sum of the optima.
    wasteful
        Share of the solutions in which at least one lost pod could have stayed.
    needless
        Share of the lost pods that could have stayed.
    """
    # Objectives that encode several terms can exceed 64 bits. They are only tested for equality.
    frame = frame.assign(optimal=100 * frame.objective.eq(frame.optimum))
    plain = frame.where(frame.is_single & frame.objective.notna())
    frame["paid"], frame["least"] = (plain[name].astype(float) for name in ("objective", "optimum"))
    frame["excess"] = 100 * (frame.paid / frame.least - 1)
    frame["wasteful"] = 100 * (frame.could_stay > 0).where(frame.could_stay.notna()).astype(float)
    groups = frame.groupby(["group", "solver"], sort=False)
    sums = groups[["paid", "least", "lost", "could_stay"]].sum()
    found = groups.agg(
        cases=("cell", "size"),
        failed=("objective", lambda values: values.isna().sum()),
        optimal=("optimal", "mean"),
        mean=("excess", "mean"),
        median=("excess", "median"),
    )
    found["total"] = 100 * (sums.paid / sums.least - 1)
    found["wasteful"] = groups.wasteful.mean()
    found["needless"] = 100 * sums.could_stay / sums.lost
    return found.reset_index()


def tables(frame: pd.DataFrame) -> str:
    """Return Markdown tables: one per group, and one per family that has several groups."""
    in_groups = frame.groupby("family").group.transform("nunique") > 1
    families = frame[in_groups].assign(group=frame.family[in_groups] + " (all groups)")
    found = pd.concat([summary(frame), summary(families)])
    columns = {name: (count, heading) for name, heading in COUNTS.items()}
    columns |= {name: (percent, heading) for name, heading in SHARES.items()}
    return "\n".join(
        Table(
            [
                column_of(rows, "solver", as_text, "solver"),
                *(
                    column_of(rows, name, show, heading)
                    for name, (show, heading) in columns.items()
                ),
            ],
            group,
        ).text("markdown")
        for group, rows in found.groupby("group", sort=False)
    )


def main(folder: str = "results/preemption-gap") -> int:
    """Print the tables of a folder; return 0, or 2 if its results are not of preemption."""
    try:
        print(tables(victims_frame(Path(folder))))
    except UserError as error:
        print(f"lyra-opt: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
