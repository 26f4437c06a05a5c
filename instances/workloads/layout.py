"""The interface of trace layouts, and the functions that readers of layouts share.

A layout is a file format of job traces. `lyra_opt.registry` lists the built-in layouts; other
packages register layouts in the entry-point group ``lyra_opt.trace_layouts``.
"""

import csv
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from lyra_opt.core.csv_text import LONGEST_ROW
from lyra_opt.core.errors import InputError
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.instances.rows import BadRows, Row
from lyra_opt.instances.traces import JOB_BYTES, TraceJob

# Reasons for leaving out rows of a published trace; each reason completes "12 jobs ...".
NO_GPUS = "without GPUs"
NOT_ENDED = "that never ran or had not ended"
NO_TIME = "that ran for no time"

DROPS_BAD_ROWS: ContextVar[bool] = ContextVar("DROPS_BAD_ROWS", default=False)
"""Whether rows with bad values of the current file are dropped instead of refused."""

MEMORY: ContextVar[ReadingMemory | None] = ContextVar("MEMORY", default=None)
"""The memory count of the current file; None outside of reading."""


def count_memory(count: int) -> None:
    """Add bytes to the memory count of the current file; `InputError` above the limit."""
    if (memory := MEMORY.get()) is not None:
        memory.add(count)


@dataclass(slots=True)
class Found:
    """The jobs of a trace file, with remarks on the rows and columns that were left out.

    Parameters
    ----------
    jobs
        Pairs of row number and job, in file order.
    left_out
        The number of rows left out, by reason.
    remarks
        Sentences on how the layout interprets the file.
    noted
        The number of jobs to which a note applies, by note; a note is a sentence without full stop.
    bad_rows
        The context manager in which a layout reads each row.
    renamed
        The number of jobs that already got another id.
    """

    jobs: list[tuple[int, TraceJob]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)
    bad_rows: BadRows = field(default_factory=lambda: BadRows(DROPS_BAD_ROWS.get()))
    renamed: int = 0

    def ignore(self, columns: Iterable[str]) -> None:
        """Add the remark that the given columns of the file were ignored."""
        if listed := ", ".join(name or "(without a name)" for name in columns):
            self.remarks.append(f"Columns ignored: {listed}.")

    def add(self, number: int, job: TraceJob | str, *notes: str | None) -> None:
        """Add the job of a row with its notes, or count the reason why the row is left out."""
        if isinstance(job, str):
            self.left_out[job] += 1
            return
        self.jobs.append((number, job))
        count_memory(JOB_BYTES)
        if job.duration_ms:  # jobs of duration 0 are left out later
            self.noted.update(note for note in notes if note is not None)


class TraceLayout(ABC):
    """The interface of a trace layout: it recognises files of one format and reads their jobs.

    Attributes
    ----------
    name
        The name of the layout.
    form
        A description of the format, such as its columns.
    measured_on
        The GPU type on which the running times were measured; None if not known.
    """

    name: str
    form: str
    measured_on: str | None = None

    @abstractmethod
    def likeness(self, text: str, header: Sequence[str]) -> int:
        """Return a score for how well a file matches this layout; 0 if the file does not match.

        The score may be the number of matching columns.

        The layout with the highest value reads the file.

        Parameters
        ----------
        text
            The whole file.
        header
            The first row of the file, read as CSV.
        """

    @abstractmethod
    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return the jobs of a trace file in this layout, with remarks on how it was read.

        Parameters
        ----------
        source
            The name of the file, for errors.
        text
            The whole file.
        vc
            Read only the jobs of this virtual cluster, if the layout has virtual clusters.

        Raises
        ------
        InputError
            If a value breaks its rule; the error names row and column.
        """


def first_line(text: str) -> str:
    """Return the first non-blank line of a text, at most `LONGEST_ROW` characters long."""
    return text[:LONGEST_ROW].lstrip().partition("\n")[0]


def first_row(text: str) -> list[str]:
    """Return the first row of a text read as CSV; an empty list if the text is not CSV."""
    try:
        row = next(csv.reader(io.StringIO(text[:LONGEST_ROW], newline="")), [])
    except csv.Error:
        return []
    return [name.strip() for name in row]


def line_rows(
    source: str, text: str, columns: Sequence[str], fields_of: Callable[[str], list[str]]
) -> Iterator[Row]:
    """Yield a `Row` for each line of a text that has fields.

    Parameters
    ----------
    columns
        The names of the fields, in order.
    fields_of
        Returns the fields of a line; an empty list for an empty line or a comment.

    Raises
    ------
    InputError
        If a line has more than `LONGEST_ROW` characters.
    """
    places = {column: place for place, column in enumerate(columns)}
    for number, line in enumerate(_lines_of(source, text), start=1):
        if fields := fields_of(line):
            yield Row(source, number, places, fields)


def _lines_of(source: str, text: str) -> Iterator[str]:
    """Yield the lines of a text, without line feeds."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > LONGEST_ROW:
            raise InputError(source, f"has a line of more than {LONGEST_ROW:,} characters")
        yield text[start:end]
        start = end + 1


def of_cluster(vc: str) -> str:
    """Return the remark that only the jobs of one virtual cluster were read."""
    return f"Only the jobs of virtual cluster {vc}."
