"""A published number beside ours: the ratio and a verdict in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Verdict(StrEnum):
    """How ours compares with the paper's number."""

    REPRODUCED = "reproduced"
    """Equal to all the digits that the paper prints."""
    SAME_DIRECTION = "same direction"
    """On the same side of the reference that the paper compares with."""
    DIFFERS = "differs"
    """Neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One number of a table or figure.

    Parameters
    ----------
    row, column
        Where it stands in the paper.
    paper
        The paper's number as printed, so that its precision is known.
    ours
        What this project computes.
    verdict
        How the two compare.
    """

    row: str
    column: str
    paper: str
    ours: float
    verdict: Verdict

    @classmethod
    def exact(cls, row: str, column: str, paper: str, ours: float) -> Entry:
        """Return an entry that is reproduced if ours rounds to what the paper prints."""
        digits = len(paper.partition(".")[2])
        verdict = Verdict.REPRODUCED if f"{ours:.{digits}f}" == paper else Verdict.DIFFERS
        return cls(row=row, column=column, paper=paper, ours=ours, verdict=verdict)

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's, None where the paper's is 0."""
        paper = float(self.paper)
        return self.ours / paper if paper else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published table or figure beside ours.

    Parameters
    ----------
    name
        File name of the page, such as ``lyra-table-1``.
    title
        What is compared, with the source.
    entries
        The numbers, in the paper's order.
    notes
        What a reader must know: assumptions, contradictions inside the paper.
    """

    name: str
    title: str
    entries: Sequence[Entry]
    notes: Sequence[str] = ()

    def as_markdown(self) -> str:
        """Return the page."""
        verdicts = Counter(str(entry.verdict) for entry in self.entries)
        counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        lines = [
            f"# {self.title}",
            "",
            f"{len(self.entries)} entries: {counted}.",
            "",
            "| row | column | paper | ours | ours / paper | verdict |",
            "| --- | --- | ---: | ---: | ---: | --- |",
        ]
        for entry in self.entries:
            ratio = "" if entry.ratio is None else f"{entry.ratio:.3f}"
            lines.append(
                f"| {entry.row} | {entry.column} | {entry.paper} | {entry.ours:g} | {ratio} "
                f"| {entry.verdict} |"
            )
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"
