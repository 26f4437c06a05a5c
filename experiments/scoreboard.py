"""Rank solvers on library instances, by problem and difficulty grade, with 95 % intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from lyra_opt.core.errors import counted
from lyra_opt.core.numbers import Show, count, exact, percent, three_digits
from lyra_opt.core.result import Status
from lyra_opt.core.table import ENDS, Table, as_text, run_times, texts_with_interval
from lyra_opt.experiments.analysis import PROVED, Analysis, counted_proof_time_s
from lyra_opt.experiments.intervals import CONFIDENCE, bootstrap_interval
from lyra_opt.experiments.page import PLOTS_FOLDER, TEMPLATES, how_run
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.records import SolverRecord, StudyRecord
from lyra_opt.experiments.study_cells import LIBRARY
from lyra_opt.experiments.tables import column_of, table_of_frame, values_of
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import Grade

SHIFT_S = 1.0
"""Shift of the geometric mean: added to each time before the mean, and subtracted afterwards."""

WORST_GAP_PERCENT = 100.0
"""Cap on gaps: a larger gap, or a run without a solution, counts as this gap.

On an instance of which the library knows that it has no solution, the gap is 0.
"""

LATE_S, LATE_SHARE = 0.1, 0.05
"""An answer may exceed its limit by the larger of these seconds and this share of the limit."""

RESAMPLES = 1000

LEAST_FOR_INTERVAL = 5
"""Fewer instances have no bootstrap interval: their resamples say nothing about other instances."""

DIGITS = 4
"""Decimals of times and percentages for programs; the times of runs have no more."""

ALL_GRADES, NO_GRADE = "all grades", "not graded"
GRADES = (ALL_GRADES, *map(str, Grade), NO_GRADE)

LEAST_TIME_S = 5e-4
"""Shorter mean times are shown as 0: the logarithms are not more precise."""


def _seconds(value: float) -> str:
    return three_digits(0.0 if value < LEAST_TIME_S else value)


MEASURES = {
    "time_s": ("Time to proof", "s", _seconds),
    "proved_percent": ("Proved", "%", percent),
    "gap_to_best_percent": ("Gap to best known", "%", percent),
    "gap_to_bound_percent": ("Gap to best bound", "%", percent),
}

METHOD, COUNTED = (
    line.format(
        cap=WORST_GAP_PERCENT,
        late_s=LATE_S,
        late_percent=100 * LATE_SHARE,
        shift_s=SHIFT_S,
        confidence_percent=100 * CONFIDENCE,
        samples=RESAMPLES,
        least=LEAST_FOR_INTERVAL,
    )
    for line in (TEMPLATES / "scoreboard_method.txt").read_text("utf-8").splitlines()
)
"""How solvers are ranked; and how gaps, missing solutions and late answers count."""


@dataclass(frozen=True)
class Scoreboard:
    """The ranking of the solvers of a study on instances of the library.

    Parameters
    ----------
    study
        The study.
    analysis
        The analysis of its runs.
    """

    study: StudyRecord
    analysis: Analysis

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A data frame of the runs on supported library instances, with gaps capped at 100 %.

        Late answers have the status unknown, and neither objective nor gap; see `COUNTED`.
        """
        frame = _without_late(self.analysis.frame)
        is_counted = (frame.family == LIBRARY) & (frame.status != Status.UNSUPPORTED)
        known = library().known
        names = [str(run.family_parameters.get(LIBRARY)) for run in self.analysis.runs]
        grades = [str(known[name].grade) if name in known else NO_GRADE for name in names]
        has_none = [name in known and known[name].best_known is None for name in names]
        return frame.assign(
            grade=grades,
            counted_time_s=counted_proof_time_s(frame),
            proved_percent=100.0 * frame.status.isin(PROVED),
            gap_to_best_percent=_counted(frame.excess_over_best_percent, has_none),
            gap_to_bound_percent=_counted(frame.largest_excess_percent, has_none),
        )[is_counted]

    @property
    def problems(self) -> list[str]:
        """The problems with library instances, in the order of the study."""
        return list(self.frame.problem.unique())

    @cached_property
    def table(self) -> pd.DataFrame:
        """The ranking, with a row for each problem, difficulty grade and solver configuration.

        Columns: ``problem``, ``grade``, ``rank``, ``configuration``; ``instances``, the number that
        the solver supports; ``of``, the number of all instances; and for each of `MEASURES` its
        value and the ends ``_low`` and ``_high`` of its interval.
        """
        return pd.DataFrame(
            row
            for problem, of_problem in self.frame.groupby("problem", sort=False)
            for grade in GRADES
            for row in _rows(
                str(problem),
                grade,
                of_problem if grade == ALL_GRADES else of_problem[of_problem.grade == grade],
            )
        )

    def ranking(self, problem: str) -> pd.DataFrame:
        """Return the rows of `table` for one problem, with the column ``solver``."""
        rows = self.table[self.table.problem == problem]
        if rows.grade.nunique() == 2:  # all instances have one grade, so both blocks are the same
            rows = rows[rows.grade != ALL_GRADES]
        return rows.rename(columns={"configuration": "solver"})

    def shown(self, problem: str, own: str | None = None) -> Table:
        """Return the ranking of the solvers of one problem as a table with readable headings.

        The rows of the solver `own` are marked, and a table for papers has ranks only with it.
        """
        rows = self.ranking(problem)
        grades = [f"{row.grade}, {counted(row.of, 'instance')}" for row in rows.itertuples()]
        ranks = (
            rows["rank"]
            .astype(str)
            .where(rows.instances == rows.of, "(" + rows["rank"].astype(str) + ")")
        )
        names = [f"{name} (this run)" if name == own else name for name in rows.solver]
        columns = [
            column_of(rows, "grade", as_text, "Grade", texts=grades),
            column_of(rows, "rank", count, "Rank", texts=list(ranks)),
            column_of(rows, "solver", as_text, "Solver", texts=names),
            column_of(rows, "instances", count, "Instances"),
            *(
                column_of(rows, name, show, heading, unit, texts=_with_interval(rows, name, show))
                for name, (heading, unit, show) in MEASURES.items()
            ),
        ]
        by_key = {each.key: each for each in columns}
        printed = ["grade", "solver", "instances" if own is None else "rank", *MEASURES]
        printed.remove("gap_to_bound_percent")
        by_key["solver"] = column_of(rows, "solver", as_text, "Solver")
        paper = [by_key[key] for key in printed]
        marked = frozenset(np.flatnonzero(rows.solver == own).tolist())
        return Table(columns, paper=paper, marked=marked)

    @cached_property
    def results(self) -> pd.DataFrame:
        """The result of each solver on each instance, beside the best known value."""
        known, rows = library().known, self.frame
        best = [known[name].best_known if name in known else None for name in rows.instance_name]
        objectives = pd.Series([run.objective for run in self.analysis.runs], dtype=object)
        return pd.DataFrame(
            {
                "instance": rows.instance_name,
                "grade": rows.grade,
                "solver": rows.configuration,
                "status": rows.status.astype(str),
                "objective": objectives[rows.index].mask(rows.is_late, None),
                "best_known": pd.Series(best, index=rows.index, dtype=object),
                "gap_to_best_percent": rows.excess_over_best_percent,
                "time_s": rows.wall_time_s,
                "remark": [_remark(row) for row in rows.itertuples()],
            }
        )

    def results_of(self, solver: str) -> Table:
        """Return the result of one solver on each instance as a table with readable headings."""
        rows = self.results[self.results.solver == solver]
        columns = [
            column_of(rows, "instance", as_text, "Instance"),
            column_of(rows, "grade", as_text, "Grade"),
            column_of(rows, "status", as_text, "Status"),
            column_of(rows, "objective", exact, "Objective"),
            column_of(rows, "best_known", exact, "Best known"),
            column_of(rows, "gap_to_best_percent", percent, "Gap to best known", "%"),
            run_times("time_s", values_of(rows.time_s), "Time"),
        ]
        remarks = column_of(rows, "remark", as_text, "Remark")
        columns += [remarks] if any(remarks.cells) else []
        return Table(columns, paper=[each for each in columns if each.key != "grade"])

    @cached_property
    def records_in_words(self) -> str:
        """The names and dates of the library records that contain grades and best known values."""
        records = library().records
        return ", ".join(f"{each.library} of {each.date}" for each in records)

    def in_words(self) -> str:
        """Return sentences on the runs, their duration, the machine load and the records used."""
        runs = self.analysis.runs
        cells = self.frame.cell.nunique()
        limits = sorted({run.time_limit_s for run in runs if run.time_limit_s is not None})
        within = f" of at most {' or '.join(f'{limit:g}' for limit in limits)} s each"
        begun = pd.to_datetime([run.started_at for run in runs])
        minutes = (begun.max() - begun.min()).total_seconds() / 60
        left = self.study.runs - len(runs)
        missing = f" {left} of {self.study.runs} runs are missing." if left else ""
        return (
            f"{len(runs)} runs{within if limits else ''} on {cells} instances started within "
            f"{minutes:.0f} minutes, {how_run(self.study, runs).dates}.{missing} "
            f"{self._processor_in_words()}"
            f"Grades and best known values come from the record {self.records_in_words}."
        )

    def _processor_in_words(self) -> str:
        """Return a sentence with the ratio of processor time to wall time; empty without times."""
        timed = self.frame.dropna(subset=["cpu_time_s", "wall_time_s"])
        wall_time_s = timed.wall_time_s.sum()
        if not wall_time_s:
            return ""
        percent = 100 * timed.cpu_time_s.sum() / wall_time_s
        return (
            f"Processor time was {percent:.0f} % of wall time; on an otherwise idle machine it is "
            "about 100 %. "
        )

    def better_than_record(self) -> list[str]:
        """Return a line for each instance on which a run beats the best value in the record."""
        names = [(run, str(run.family_parameters[LIBRARY])) for run in self.improvements()]
        return [
            f"{name}: {run.configuration} found {run.objective}, "
            f"the record is {library().known[name].best_known}"
            for run, name in names
        ]

    def improvements(self) -> list[SolverRecord]:
        """Return the best run on each instance on which a run beats the record."""
        known = library().known
        found: dict[str, SolverRecord] = {}
        for run in self.analysis.runs:
            best = known.get(str(run.family_parameters.get(LIBRARY)))
            evidence = self.analysis.proofs.of_cell(run.cell)
            if best is None or evidence is None or run.objective is None:
                continue
            gap = evidence.gap_to_best(best.best_known)
            if gap and evidence.gap_to_best(run.objective) == 0:
                found.setdefault(best.id, run)
        return list(found.values())


def scoreboard_of(study: StudyRecord, analysis: Analysis) -> Scoreboard | None:
    """Return the ranking of a study; None if no instance is from the library."""
    found = Scoreboard(study, analysis)
    return None if found.frame.empty else found


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a ranking or of results for programs, without digits beyond `DIGITS`."""
    measured = [name for name in frame if name.endswith(("_s", "_percent", "_low", "_high"))]
    return table_of_frame(frame.round(dict.fromkeys(measured, DIGITS))).records()


def _without_late(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs, with late answers as runs without a solution."""
    limit_s = frame.time_limit_s.astype(float)
    late = frame.wall_time_s > limit_s + np.maximum(LATE_S, LATE_SHARE * limit_s)
    late &= ~frame.status.isin([Status.ERROR, Status.UNSUPPORTED])
    gone = ("objective", "proof_time_s", "excess_over_best_percent", "largest_excess_percent")
    return frame.assign(
        is_late=late,
        claimed_status=frame.status,
        status=frame.status.mask(late, Status.UNKNOWN),
        **{name: frame[name].mask(late) for name in gone},
    )


def _remark(row: Any) -> str | None:
    """Return why a run has no solution that counts; None if it has one."""
    if row.is_late:
        return f"late: {row.claimed_status} after {three_digits(row.wall_time_s)} s"
    if row.status not in (Status.UNKNOWN, Status.ERROR):
        return None
    stopped = f"stopped by its {row.stopped_by} limit"
    given = (row.message, stopped if isinstance(row.stopped_by, str) else None)
    return next((each for each in given if isinstance(each, str)), "found no solution")


def _counted(gap_percent: pd.Series, has_no_solution: list[bool]) -> pd.Series:
    gap_percent = gap_percent.mask(pd.Series(has_no_solution, index=gap_percent.index), 0.0)
    return gap_percent.clip(upper=WORST_GAP_PERCENT).fillna(WORST_GAP_PERCENT)


def _rows(problem: str, grade: str, frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the ranking of solvers on the instances of one problem and grade, best solver first."""
    instances = frame.cell.nunique()
    rows: list[dict[str, Any]] = [
        {
            "configuration": configuration,
            "instances": len(runs),
            "of": instances,
            **_of_times("time_s", runs.counted_time_s),
            **mean_with_interval("proved_percent", runs.proved_percent),
            **mean_with_interval("gap_to_best_percent", runs.gap_to_best_percent),
            **mean_with_interval("gap_to_bound_percent", runs.gap_to_bound_percent),
        }
        for configuration, runs in frame.groupby("configuration", sort=False)
    ]

    def merit(row: Mapping[str, Any]) -> tuple[float, ...]:
        values = (row["time_s"], -row["proved_percent"], row["gap_to_best_percent"])
        return tuple(round(value, 6) for value in values)

    rows.sort(key=merit)
    rank = 0
    for place, row in enumerate(rows):
        if place == 0 or merit(row) != merit(rows[place - 1]):
            rank = place + 1
        yield {"problem": problem, "grade": grade, "rank": rank, **row}


def mean_with_interval(name: str, values: pd.Series) -> dict[str, float]:
    """Return the mean and its 95 % bootstrap interval; the ends are NaN for very few values."""
    low = high = float("nan")
    if len(values) >= LEAST_FOR_INTERVAL:
        low, high = bootstrap_interval(values.to_numpy(float), RESAMPLES)
    return {name: float(values.mean()), f"{name}_low": low, f"{name}_high": high}


def _of_times(name: str, times_s: pd.Series) -> dict[str, float]:
    """Return the shifted geometric mean of times, and its interval computed on logarithms."""
    logs = mean_with_interval(name, np.log(times_s + SHIFT_S))
    return {key: float(np.exp(value) - SHIFT_S) for key, value in logs.items()}


def _with_interval(rows: pd.DataFrame, name: str, show: Show) -> list[str]:
    """Return each value of a measure as text, with its interval in brackets if it has one."""
    low, high = (rows[f"{name}{end}"] for end in ENDS)
    return texts_with_interval(rows[name], low, high, show)


def scoreboard_page(scoreboard: Scoreboard, plots: Sequence[Plot]) -> str:
    """Return the scoreboard as a Markdown page with the plots of the report."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template("scoreboard.md.jinja").render(
        scoreboard=scoreboard,
        method=METHOD,
        how=how_run(scoreboard.study, scoreboard.analysis.runs),
        plots={plot.name: plot for plot in plots},
        folder=PLOTS_FOLDER,
    )
    return page.rstrip("\n") + "\n"
