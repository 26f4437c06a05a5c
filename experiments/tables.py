"""Tables of a report, with readable column headings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.numbers import MISSING, UP, count, percent, share, six_digits, three_digits
from lyra_opt.core.table import ENDS, Column, Table, as_text, run_times
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from lyra_opt.core.gaps import GapWords
    from lyra_opt.core.numbers import Show


def column_of(
    frame: pd.DataFrame, key: str, show: Show, heading: str, unit: str = "", **options: Any
) -> Column:
    """Return a column of a data frame as a column of a table; missing values become None."""
    values = values_of(frame[key])
    return Column(key=key, values=values, show=show, heading=heading, unit=unit, **options)


def values_of(series: pd.Series) -> list[Any]:
    """Return the values of a series, with None for missing values of any kind."""
    return list(series.astype(object).where(series.notna(), None))


def table_of_frame(frame: pd.DataFrame) -> Table:
    """Return a data frame as a table; the unit of a column follows from its name."""
    return Table([_column_named(str(key), frame[key]) for key in frame.columns])


def _column_named(key: str, series: pd.Series) -> Column:
    """Return the column of a data frame whose name states what its values are."""
    import pandas as pd

    for end in ENDS:
        if key.endswith(end):
            of = _column_named(key.removesuffix(end), series)
            return replace(of, key=key, heading=(of.heading or words(of.key)) + words(end))
    values, types = values_of(series), pd.api.types
    if not types.is_numeric_dtype(series) or types.is_bool_dtype(series):
        return Column(key=key, values=values)
    if key.endswith("_time_s"):
        return run_times(key, values)
    for ending, show in (("_percent", percent), ("_share", share)):
        if key.endswith(ending):
            name = words(key.removesuffix(ending))
            return Column(key=key, values=values, show=show, heading=name, unit="%")
    if key.startswith("gap"):
        return Column(key=key, values=values, show=share, unit="%")
    is_objective = key in ("objective", "dual_bound", "optimum")
    is_whole = all(value is None or value == value // 1 for value in values)
    show = six_digits if is_objective else count if is_whole else three_digits
    return Column(key=key, values=values, show=show)


PRINTED = (
    *("family", "configuration", "mean_excess_percent", "max_excess_percent"),
    *("optimal_percent", "median_time_ms"),
)
"""The columns of gap statistics that a paper prints, beside the axes and the instances."""


def gap_table(table: pd.DataFrame, gap: GapWords) -> Table:
    """Return the gap statistics of `Analysis.summaries` as a table; `gap` names the gap."""
    noun = gap.noun
    compared = (table.compared - table.infinite - table.several_terms).astype(int)
    of_all = list(compared.astype(str) + " of " + table.instances.astype(str))
    left_out = [_left_out(row) for row in table.itertuples()]
    instances = Column(
        key="compared", values=list(compared), show=count, heading="Instances", texts=of_all
    )
    axes = list(_axis_columns(table))
    columns = [
        column_of(table, "family", as_text, "Family"),
        column_of(table, "configuration", as_text, "Solver"),
        *axes,
        column_of(table, "mean_excess_percent", percent, f"Mean {noun}", "%"),
        column_of(table, "max_excess_percent", percent, f"Maximum {noun}", "%"),
        column_of(table, "total_excess_percent", percent, f"Total {noun}", "%"),
        instances,
        column_of(table, "mean_excess_at_most_percent", _at_most, "Mean at most", "%"),
        column_of(table, "optimal_percent", percent, "Optimal", "%"),
        column_of(table, "proved_percent", percent, "Proved", "%"),
        column_of(table, "median_time_ms", three_digits, "Median time", "ms"),
        column_of(table, "max_time_ms", three_digits, "Maximum time", "ms"),
        column_of(table, "median_certify_time_ms", three_digits, "Median bound time", "ms"),
        Column(key="left_out", values=left_out, heading=f"Left out of the {noun}"),
    ]
    printed = {*PRINTED, *(column.key for column in axes)}
    return Table(
        columns,
        least=("median_certify_time_ms", "max_time_ms", "total_excess_percent", "left_out"),
        paper=[*(each for each in columns if each.key in printed), instances],
    )


def _axis_columns(table: pd.DataFrame) -> Iterator[Column]:
    """Yield the columns of the study's axes, whose values are aligned like numbers."""
    for name in table.columns[1 : table.columns.get_loc("configuration")]:
        yield column_of(table, name, _axis_value, axis_in_words(name))


def _axis_value(value: object) -> str:
    return MISSING if value is None else str(value)


def _at_most(value: float | None) -> str:
    """Return an upper bound in percent, or a dash if it is not finite."""
    return percent(value, rounding=UP) if value is not None and math.isfinite(value) else MISSING


def _left_out(row: Any) -> str:
    """Return how many instances the mean gap leaves out, and why, in words."""
    reasons = (
        (row.unproved, "optimum not proved"),
        (row.infinite, "optimum 0 missed"),
        (row.several_terms, "optimum of several terms missed"),
        (row.infeasible, "no solution exists"),
        (row.without_solution, "no solution"),
        (row.failed, "failed"),
        (row.unsupported, "unsupported"),
    )
    return ", ".join(f"{number} {reason}" for number, reason in reasons if number)


COUNTED = {"reclaim": "servers"}
"""The unit of a parameter that counts things but does not name them."""


def axis_in_words(name: str) -> str:
    """Return the column heading of an axis, with its unit in brackets.

    >>> axis_in_words("release_percent"), axis_in_words("reclaim"), axis_in_words("gpus_per_worker")
    ('Release (%)', 'Reclaim (servers)', 'GPUs per worker')
    """
    text = _axis_name(name)
    unit = "%" if name.endswith("_percent") else COUNTED.get(name)
    return text[0].upper() + text[1:] + (f" ({unit})" if unit else "")


def parameter_in_words(name: str, value: object) -> str:
    """Return a family's parameter with its value, as part of a sentence.

    >>> parameter_in_words("busy_percent", 80), parameter_in_words("gpus_per_worker", 2)
    ('busy 80 %', 'GPUs per worker 2')
    """
    unit = " %" if name.endswith("_percent") else ""
    return f"{_axis_name(name)} {value}{unit}"


def _axis_name(name: str) -> str:
    return name.removesuffix("_percent").replace("_", " ").replace("gpus", "GPUs")
