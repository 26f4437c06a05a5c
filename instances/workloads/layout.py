"""What a layout of job traces is, and what the readers of layouts share.

`lyra_opt.registry` lists the built-in ones; other packages register theirs in the entry-point group
``lyra_opt.trace_layouts``.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import LONGEST_ROW
from lyra_opt.core.errors import InputError
from lyra_opt.instances.rows import BadRows, Row
from lyra_opt.instances.traces import JOB_BYTES, TraceJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lyra_opt.core.reading_memory import ReadingMemory

# Reasons for which rows of a published trace are no jobs of a workload.
NO_GPUS = "without GPUs"
NOT_ENDED = "that never ran or had not ended"
NO_TIME = "that ran for no time"

DROPS_BAD_ROWS: ContextVar[bool] = ContextVar("DROPS_BAD_ROWS", default=False)
"""Whether the file that is being read may have rows that break a rule, which are dropped."""

MEMORY: ContextVar[ReadingMemory | None] = ContextVar("MEMORY", default=None)
"""The memory of the file that is being read."""


def count_memory(count: int) -> None:
    """Add bytes to the memory of the file that is being read; `InputError` beyond the limit."""
    if (memory := MEMORY.get()) is not None:
        memory.add(count)


@dataclass(slots=True)
class Found:
    """What a file holds.

    Parameters
    ----------
    jobs
        (row, job) pairs, in file order.
    left_out
        How many rows were left out, by reason.
    remarks
        A sentence on each choice that the layout asks for.
    noted
        Of how many jobs something is to be said, by what that is: a sentence without its full stop.
    bad_rows
        The context in which a layout reads each row.
    renamed
        How many jobs have got another id already.
    """

    jobs: list[tuple[int, TraceJob]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)
    bad_rows: BadRows = field(default_factory=lambda: BadRows(DROPS_BAD_ROWS.get()))
    renamed: int = 0

    def ignore(self, columns: Iterable[str]) -> None:
        """Add the remark that columns of the file were not read."""
        if listed := ", ".join(name or "(without a name)" for name in columns):
            self.remarks.append(f"Columns ignored: {listed}.")

    def add(self, number: int, job: TraceJob | str, *notes: str | None) -> None:
        """Take in a row: its job, and what is to be said of it, or the reason why it is none."""
        if isinstance(job, str):
            self.left_out[job] += 1
            return
        self.jobs.append((number, job))
        count_memory(JOB_BYTES)
        if job.duration_ms:  # or else it is left out
            self.noted.update(note for note in notes if note is not None)


class TraceLayout(ABC):
    """How files of a kind say what was run.

    Attributes
    ----------
    name
        Whose it is.
    form
        What it looks like: its columns, or the like.
    measured_on
        The GPU type on which its running times were measured; None if the layout does not say.
    """

    name: str
    form: str
    measured_on: str | None = None

    @abstractmethod
    def likeness(self, text: str, header: Sequence[str]) -> int:
        """Return how sure it is that a file has this layout; 0 if it has not.

        The file is read by the layout that is surest: as sure as many columns, or surer.

        Parameters
        ----------
        text
            All of the file.
        header
            Its first row, as CSV.
        """

    @abstractmethod
    def read(self, source: str, text: str, vc: str | None) -> Found:
        """Return what a file holds.

        Parameters
        ----------
        source
            Its name, for errors.
        text
            All of it.
        vc
            Only the jobs of this virtual cluster, where the layout has them.

        Raises
        ------
        InputError
            If a value breaks its rule; names row and column.
        """


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank; no more than `LONGEST_ROW` characters."""
    return text[:LONGEST_ROW].lstrip().partition("\n")[0]


def first_row(text: str) -> list[str]:
    """Return the first row of a text as CSV; empty where it is not CSV."""
    try:
        row = next(csv.reader(io.StringIO(text[:LONGEST_ROW], newline="")), [])
    except csv.Error:
        return []
    return [name.strip() for name in row]


def line_rows(
    source: str, text: str, columns: Sequence[str], fields_of: Callable[[str], list[str]]
) -> Iterator[Row]:
    """Yield a row for each line of a text that has fields.

    Parameters
    ----------
    columns
        The names of the fields, in order.
    fields_of
        Returns the fields of a line; an empty list for an empty line or a remark.

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
    """Yield the lines of a text one after the other, without their line feeds."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > LONGEST_ROW:
            raise InputError(source, f"has a line of more than {LONGEST_ROW:,} characters")
        yield text[start:end]
        start = end + 1


def of_cluster(vc: str) -> str:
    """Return the remark that the jobs are those of one virtual cluster."""
    return f"Only the jobs of virtual cluster {vc}."
