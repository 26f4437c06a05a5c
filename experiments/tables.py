"""The tables of a report: columns in words, and the forms in which they are written."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.analysis import Group, Summary
    from experiments.gap_words import GapWords
    from experiments.speed import Speed

RowT_contra = TypeVar("RowT_contra", contravariant=True)
RowT = TypeVar("RowT")

NOTHING = "–"
"""Stands for a number that is not there, such as a mean over no instance."""


class GroupRow(Protocol):
    """What the rows about runs have in common: what was run, and by which solver."""

    @property
    def group(self) -> Group:
        """The instances."""

    @property
    def configuration(self) -> str:
        """The solver, as a study runs it."""


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT_contra]):
    """One column of a table for people: its header and what it shows of a row."""

    header: str
    show: Callable[[RowT_contra], str]
    is_number: bool = True


def percent(value: float | None) -> str:
    """Return a percentage as tables show it."""
    if value is None:
        return NOTHING
    return "∞" if math.isinf(value) else f"{value:.1f}"


def _milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _left_out(row: Summary) -> str:
    """Return in words which instances the mean gap is not over, and why."""
    reasons = (
        (row.unproved, "optimum not proved"),
        (row.infinite, "optimum 0 missed"),
        (row.without_solution, "no solution"),
        (row.failed, "failed"),
        (row.unsupported, "unsupported"),
    )
    return ", ".join(f"{count} {reason}" for count, reason in reasons if count)


FAMILY: Column[GroupRow] = Column("Family", lambda row: row.group.family, is_number=False)
SOLVER: Column[GroupRow] = Column("Solver", lambda row: row.configuration, is_number=False)


def overall_columns(words: GapWords) -> tuple[Column[Summary], ...]:
    """Return the columns of a table without axes, which calls the gap as `words` do."""
    return (FAMILY, SOLVER, *_result_columns(words))


def gap_columns(rows: Sequence[Summary], words: GapWords) -> tuple[Column[Summary], ...]:
    """Return the columns of a table with all axes that the rows have; `words` as above."""
    return (FAMILY, SOLVER, *_axis_columns(rows), *_result_columns(words))


def _result_columns(words: GapWords) -> tuple[Column[Summary], ...]:
    return (
        Column(f"Mean {words.noun} (%)", lambda row: percent(row.mean_excess_percent)),
        Column(f"Maximum {words.noun} (%)", lambda row: percent(row.max_excess_percent)),
        Column(f"Total {words.noun} (%)", lambda row: percent(row.total_excess_percent)),
        Column("Instances", lambda row: f"{row.compared - row.infinite} of {row.instances}"),
        Column("Mean at most (%)", lambda row: percent(row.mean_excess_at_most_percent)),
        Column("Optimal (%)", lambda row: percent(row.optimal_percent)),
        Column("Proved (%)", lambda row: percent(row.proved_percent)),
        Column("Median time (ms)", lambda row: _milliseconds(row.median_time_ms)),
        Column("Maximum time (ms)", lambda row: _milliseconds(row.max_time_ms)),
        Column("Median bound time (ms)", lambda row: _milliseconds(row.median_certify_time_ms)),
        Column(f"Left out of the {words.noun}", _left_out, is_number=False),
    )


def _axis_columns(rows: Sequence[GroupRow]) -> tuple[Column[GroupRow], ...]:
    names = dict.fromkeys(axis for row in rows for axis, _ in row.group.axes)
    return tuple(_axis_column(name) for name in names)


def _axis_column(name: str) -> Column[GroupRow]:
    def show(row: GroupRow) -> str:
        value = row.group.value(name)
        return NOTHING if value is None else str(value)

    return Column(axis_in_words(name), show)


def axis_in_words(name: str) -> str:
    """Return the header of an axis, its unit in brackets.

    >>> axis_in_words("release_percent"), axis_in_words("gpus_per_worker")
    ('Release (%)', 'GPUs per worker')
    """
    words = _axis_name(name)
    unit = " (%)" if name.endswith("_percent") else ""
    return words[0].upper() + words[1:] + unit


def parameter_in_words(name: str, value: object) -> str:
    """Return a parameter of a family with its value, as part of a sentence.

    >>> parameter_in_words("busy_percent", 80), parameter_in_words("gpus_per_worker", 2)
    ('busy 80 %', 'GPUs per worker 2')
    """
    unit = " %" if name.endswith("_percent") else ""
    return f"{_axis_name(name)} {value}{unit}"


def _axis_name(name: str) -> str:
    return name.removesuffix("_percent").replace("_", " ").replace("gpus", "GPUs")


def speed_columns(yardstick: str, rows: Sequence[Speed]) -> tuple[Column[Speed], ...]:
    """Return the columns of a table of speed whose ratios are to the times of `yardstick`."""
    return (
        FAMILY,
        *_axis_columns(rows),
        SOLVER,
        Column("Proved", lambda row: f"{row.proved} of {row.instances}"),
        Column("Median time (ms)", lambda row: _milliseconds(row.median_time_ms)),
        Column("Maximum time (ms)", lambda row: _milliseconds(row.max_time_ms)),
        Column(f"Time / that of {yardstick}", lambda row: _ratio(row.time_ratio)),
        Column(f"Time to proof / that of {yardstick}", lambda row: _ratio(row.proof_time_ratio)),
    )


def shown_rows(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> list[list[str]]:
    """Return the text of every field."""
    return [[column.show(row) for column in columns] for row in rows]


def markdown_table(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """Return a Markdown table."""
    header = [column.header for column in columns]
    rule = ["---:" if column.is_number else "---" for column in columns]
    lines = [header, rule, *shown_rows(columns, rows)]
    return "".join(
        "| " + " | ".join(field.replace("|", r"\|") for field in line) + " |\n" for line in lines
    )


def csv_table(rows: Sequence[Any]) -> str:
    """Return every field of the rows, which are dataclasses, as CSV, by name.

    Numbers are not rounded; a field is empty where there is none.
    """
    stream = io.StringIO()
    flat = [_flat(row) for row in rows]
    groups = [row.group.columns() for row in rows if hasattr(row, "group")]
    names = dict.fromkeys(name for columns in (*groups, *flat) for name in columns)
    writer = csv.DictWriter(stream, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(row: Any) -> dict[str, Any]:
    """Return the fields of a row by name, with the columns of its group in place of that."""
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    group = values.pop("group", None)
    return values if group is None else group.columns() | values
