"""Trace layouts that are CSV tables with a header."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.errors import InputError
from lyra_opt.instances.rows import Row, require_once
from lyra_opt.instances.traces import (
    COLUMNS,
    MOMENT_COLUMN,
    Clusters,
    Trace,
    TraceJob,
    read_trace,
    require_no_demand_column,
)
from lyra_opt.instances.workloads.layout import (
    DROPS_BAD_ROWS,
    Found,
    TraceLayout,
    first_line,
    of_cluster,
)


def _no_notes(row: Row) -> Iterable[str]:  # noqa: ARG001
    return ()


@dataclass(frozen=True)
class TableLayout(TraceLayout):
    """The layout of a published CSV table with a header.

    Parameters
    ----------
    name
        The name of the layout.
    columns
        The columns that identify the layout and are read.
    marks
        Further columns that identify the layout and are not read.
    optional
        Columns that are read if the file has them.
    is_whole
        Whether a file with any other column, except `vc`, does not match the layout.
    measured_on
        The GPU type on which the running times were measured; None if not known.
    parse
        Returns the job of a row, or the reason why the row is left out.
    remarks
        Sentences for results on how the layout interprets the file.
    notes
        Returns the notes that apply to the job of a row, as in `Found.noted`.
    vc
        The column of the virtual clusters.
    separator
        The character between two columns. Only a table with commas can have quotation marks.
    """

    name: str
    columns: tuple[str, ...]
    parse: Callable[[Row], TraceJob | str]
    remarks: tuple[str, ...] = ()
    notes: Callable[[Row], Iterable[str]] = _no_notes
    marks: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    is_whole: bool = False
    measured_on: str | None = None
    vc: str = "vc"
    separator: str = ","

    @property
    def form(self) -> str:  # type: ignore[override]
        """The columns that identify the layout, separated by commas."""
        return ", ".join((*self.columns, *self.marks))

    def likeness(self, text: str, header: Sequence[str]) -> int:
        """Return the number of identifying columns if the header has all of them, else 0."""
        known = {*self.columns, *self.marks}
        found = set(self.header(text, header))
        if not known <= found or (self.is_whole and not found <= {*known, self.vc}):
            return 0
        return len(known)

    def header(self, text: str, header: Sequence[str]) -> Sequence[str]:
        """Return the names of the columns; `header` is the first row with commas as separators."""
        return header if self.separator == "," else first_line(text).strip().split(self.separator)

    def prepared(
        self, rows: Iterable[Row]
    ) -> tuple[Callable[[Row], TraceJob | str], Iterable[Row]]:
        """Return the function that reads a row, and the rows to read with it."""
        return self.parse, rows

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a table, with remarks on ignored columns and rows left out."""
        rows = csv_rows(source, text, self.separator)
        header = [name.strip() for name in next(rows, [])]
        require_once(source, header, (*self.columns, *self.optional))
        if missing := [column for column in self.columns if column not in header]:
            raise InputError(source, f"row 1: {_lacks(missing)} of layout {self.name}")
        read = {*self.columns, *self.optional, self.vc}
        require_no_demand_column(source, header, read)
        columns = {name: place for place, name in enumerate(header)}
        clusters = Clusters(source, header, vc, column=self.vc)
        parse, given = self.prepared(
            Row(source, number, columns, values) for number, values in enumerate(rows, start=2)
        )
        found = Found(remarks=[*self.remarks, *([] if vc is None else [of_cluster(vc)])])
        found.ignore(name for name in header if name not in read)
        for row in given:
            if not row.values or not clusters.take(row.values):
                continue
            with found.bad_rows:
                row.require_width(len(header), "the header")
                job = parse(row)
                found.add(row.number, job, *(() if isinstance(job, str) else self.notes(row)))
        clusters.require_some()
        return found


def _lacks(columns: Sequence[str]) -> str:
    return f"lacks the column{'s' * (len(columns) > 1)} {', '.join(columns)}"


class OwnTable(TraceLayout):
    """The layout of this project's own traces, a CSV table."""

    name = "this project's CSV"
    form = ", ".join(COLUMNS)

    def likeness(self, text: str, header: Sequence[str]) -> int:  # noqa: ARG002
        """Return 40, more than other tables, if the header has all required columns, else 0."""
        columns = {*header, "submit_time_s"} if MOMENT_COLUMN in header else set(header)
        return 10 * len(COLUMNS) if set(COLUMNS) <= columns else 0

    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a trace in this project's layout."""
        drops = DROPS_BAD_ROWS.get()
        return found_in(read_trace(source, vc=vc, text=text, drops_bad_rows=drops), vc)


def found_in(ours: Trace, vc: str | None = None) -> Found:
    """Return the jobs and remarks of a trace in this project's layout.

    Row numbers are not kept, because they only serve to make ids unique, which these ids already
    are.
    """
    found = Found(
        list(enumerate(ours.jobs)),
        remarks=[] if vc is None else [of_cluster(vc)],
        renamed=ours.renamed,
    )
    found.bad_rows.count, found.bad_rows.first = ours.bad_rows, ours.first_bad_row
    found.ignore(ours.passed_over)
    return found


OWN = OwnTable()
