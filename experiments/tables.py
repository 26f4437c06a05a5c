"""The tables of a report: columns in words, and the forms in which they are written."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.analysis import Group, Summary
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


FAMILY: Column[GroupRow] = Column("Family", lambda row: row.group.family, is_number=False)
SOLVER: Column[GroupRow] = Column("Solver", lambda row: row.configuration, is_number=False)
SERVERS: Column[GroupRow] = Column("Servers", lambda row: _count(row.group.servers))
SIZE_COLUMNS: tuple[Column[GroupRow], ...] = (
    SERVERS,
    Column(
        "Share reclaimed (%)",
        lambda row: (
            NOTHING if row.group.reclaim_percent is None else f"{row.group.reclaim_percent:g}"
        ),
    ),
    Column("Servers reclaimed", lambda row: _count(row.group.reclaim_servers)),
)
RESULT_COLUMNS: tuple[Column[Summary], ...] = (
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

GAP_COLUMNS: tuple[Column[Summary], ...] = (FAMILY, SOLVER, *SIZE_COLUMNS, *RESULT_COLUMNS)
OVERALL_COLUMNS: tuple[Column[Summary], ...] = (FAMILY, SOLVER, *RESULT_COLUMNS)


def speed_columns(yardstick: str) -> tuple[Column[Speed], ...]:
    """Return the columns of a table of speed whose ratios are to the times of `yardstick`."""
    return (
        FAMILY,
        SERVERS,
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
    flat = [asdict(row) for row in rows]
    flat = [row.pop("group", {}) | row for row in flat]
    writer = csv.DictWriter(stream, fieldnames=list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()
