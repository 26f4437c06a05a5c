"""The tables of a report: columns in words, and the forms in which they are written."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.analysis import Summary

NOTHING = "–"
"""Stands for a number that is not there, such as a mean over no instance."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table for people: its header and what it shows of a row."""

    header: str
    show: Callable[[Summary], str]
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


def _count(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _left_out(row: Summary) -> str:
    """Return in words which instances the excess is not over, and why."""
    reasons = (
        (row.unproved, "optimum not proved"),
        (row.infinite, "optimum 0 missed"),
        (row.without_solution, "no solution"),
        (row.failed, "failed"),
        (row.unsupported, "unsupported"),
    )
    return ", ".join(f"{count} {reason}" for count, reason in reasons if count)


FAMILY = Column("Family", lambda row: row.group.family, is_number=False)
SOLVER = Column("Solver", lambda row: row.configuration, is_number=False)
SIZE_COLUMNS = (
    Column("Servers", lambda row: _count(row.group.servers)),
    Column(
        "Share reclaimed (%)",
        lambda row: (
            NOTHING if row.group.reclaim_percent is None else f"{row.group.reclaim_percent:g}"
        ),
    ),
    Column("Servers reclaimed", lambda row: _count(row.group.reclaim_servers)),
)
RESULT_COLUMNS = (
    Column("Mean excess (%)", lambda row: percent(row.mean_excess_percent)),
    Column("Maximum excess (%)", lambda row: percent(row.max_excess_percent)),
    Column("Instances", lambda row: f"{row.compared - row.infinite} of {row.instances}"),
    Column("Mean at most (%)", lambda row: percent(row.mean_excess_at_most_percent)),
    Column("Optimal (%)", lambda row: percent(row.optimal_percent)),
    Column("Proved (%)", lambda row: percent(row.proved_percent)),
    Column("Median time (ms)", lambda row: _milliseconds(row.median_time_ms)),
    Column("Maximum time (ms)", lambda row: _milliseconds(row.max_time_ms)),
    Column("Median bound time (ms)", lambda row: _milliseconds(row.median_certify_time_ms)),
    Column("Left out of the excess", _left_out, is_number=False),
)

GAP_COLUMNS = (FAMILY, SOLVER, *SIZE_COLUMNS, *RESULT_COLUMNS)
OVERALL_COLUMNS = (FAMILY, SOLVER, *RESULT_COLUMNS)


def shown_rows(columns: Sequence[Column], rows: Sequence[Summary]) -> list[list[str]]:
    """Return the text of every field."""
    return [[column.show(row) for column in columns] for row in rows]


def markdown_table(columns: Sequence[Column], rows: Sequence[Summary]) -> str:
    """Return a Markdown table."""
    header = [column.header for column in columns]
    rule = ["---:" if column.is_number else "---" for column in columns]
    lines = [header, rule, *shown_rows(columns, rows)]
    return "".join(
        "| " + " | ".join(field.replace("|", r"\|") for field in line) + " |\n" for line in lines
    )


def csv_table(rows: Sequence[Summary]) -> str:
    """Return every field of the rows as CSV, by name, unrounded, empty where there is none."""
    stream = io.StringIO()
    flat = [asdict(row) for row in rows]
    flat = [row.pop("group") | row for row in flat]
    writer = csv.DictWriter(stream, fieldnames=list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()
