"""The function ``lo.summary``, which writes results as the tables of the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, without_inner_frames
from lyra_opt.core.numbers import in_unit, percent, signed, unit_of
from lyra_opt.core.table import RAW
from lyra_opt.core.texts import PrintedText

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from lyra_opt.core.table import Table
    from lyra_opt.experiments.simulation.showing.results import Runs
    from lyra_opt.front_door.planning import ReadablePlan
    from lyra_opt.front_door.results import ReadableDiff

COMPARED = ("status", "objective", "dual_bound", "wall_time_s")
"""The columns of a comparison that are shown; JSON, CSV and the frame itself have all."""


@without_inner_frames
def summary(
    results: Runs | pd.DataFrame | ReadableDiff | ReadablePlan | str | Path,
    format: str = "table",  # noqa: A002 - the name of the option
    measures: Sequence[str] = (),
) -> str:
    """Return results as a table for a terminal, a program or a paper.

    Parameters
    ----------
    results
        The runs that `simulate` returned; a plan; a data frame of `compare`, of which the main
        columns are shown and, for several instances, the averages of each solver; another data
        frame, such as one computed from `load_study`; the differences that `diff` returned; or a
        folder that ``lyra-opt study`` or `simulate` wrote, of which the report's table is shown.
    format
        ``"table"``, ``"markdown"`` or ``"latex"`` (whose comments name the packages it needs) with
        the digits that a paper would print, or ``"json"`` or ``"csv"`` with raw numbers. In data
        frames the unit of a column follows from its name, such as ``jct_mean_s``.
    measures
        For runs that `simulate` returned: the measures to show instead of the main ones, as in
        ``runs.summary``.

    Returns
    -------
    str
        The table, or several tables with an empty line between them.

    Raises
    ------
    UserError
        If the format or a measure is unknown, or a folder has no results.

    Examples
    --------
    >>> import pandas as pd
    >>> gaps = pd.DataFrame({"solver": ["scf"], "excess_percent": [1.26]})
    >>> print(summary(gaps, "markdown"), end="")
    | solver | excess (%) |
    | --- | ---: |
    | scf | 1.3 |
    """
    from lyra_opt.core.table import text_of_tables
    from lyra_opt.experiments.simulation.showing.results import Runs
    from lyra_opt.front_door.planning import ReadablePlan
    from lyra_opt.front_door.results import ReadableDiff

    if isinstance(results, Runs):
        return results.summary(format, measures)
    if measures:
        raise FieldError("measures", list(measures), "can only be chosen for runs of lo.simulate")
    if isinstance(results, ReadablePlan | ReadableDiff):
        return results.summary(format)
    return PrintedText(text_of_tables(_tables(results, format), format))


def _tables(results: Any, form: str) -> list[Table]:
    from lyra_opt.commands.summaries import summaries_of_frame, summary_table
    from lyra_opt.core.table import Table
    from lyra_opt.experiments.simulation.showing.results import replays_frame, results_tables
    from lyra_opt.experiments.tables import table_of_frame

    if isinstance(results, str | Path):
        from lyra_opt.experiments.frames import stored_runs
        from lyra_opt.experiments.records import ReplayRecord
        from lyra_opt.experiments.report import make_report
        from lyra_opt.experiments.simulation.running.replays import load_replays

        folder = Path(results)
        if not isinstance(stored_runs(folder)[0], ReplayRecord):
            report = make_report(folder)
            overall = report.analysis.overall_table()
            return [table_of_frame(overall) if form in RAW else report.shown(overall)]
        results = load_replays(folder)
    elif hasattr(results, "columns"):
        is_named = any(results.index.names)
        table = table_of_frame(results.reset_index() if is_named else results)
        if form in RAW:
            return [table]
        if "ends" in results.attrs and "difference_s" in results:
            return [_differences(table, results.attrs["ends"])]
        found = {each.key for each in table.columns}
        if not {"solver", "gap_to_best", "gap_to_optimum_at_most", *COMPARED} <= found:
            return [table.with_intervals().without_empty()]
        is_bounded = results.gap_to_optimum_at_most.notna().any()
        gap = "gap_to_optimum_at_most" if is_bounded else "gap_to_best"
        kept = ("instance", "solver", *COMPARED, gap)
        columns = [each for each in table.columns if each.key in kept]
        main = Table(columns, least=("wall_time_s", "dual_bound")).without_empty()
        if "sense" not in results.attrs or "instance" not in results.index.names:
            return [main]
        return [main, summary_table(summaries_of_frame(results))]
    else:
        rule = "must be runs, a plan, a data frame, differences or a folder"
        raise FieldError("results", str(results), rule)
    if form in RAW:
        return [table_of_frame(replays_frame(results))]
    return results_tables(results, form=form)


def _differences(table: Table, ends: tuple[str, str]) -> Table:
    """Return the table of `Runs.differences` with units and headings as the command has them."""
    low, high = ends
    headings = {"difference": "difference", "change": "difference", "low": low, "high": high}
    times = [each.values for each in table.columns if each.key == "difference_s"]
    unit = unit_of(max((abs(value) for value in times[0] if value is not None), default=0.0))
    columns = []
    for each in table.columns:
        name, _, kind = each.key.partition("_")
        if kind in ("s", "percent") and name in headings:
            is_time = kind == "s"
            show, symbol = (in_unit(unit), unit.name) if is_time else (percent, "%")
            each = replace(each, show=signed(show), heading=headings[name], unit=symbol)
        columns.append(each)
    from lyra_opt.experiments.random_inputs import with_intervals

    return replace(table, columns=columns, paper=with_intervals(columns, ends))
