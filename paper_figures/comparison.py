"""A published number beside ours: the ratio and a verdict in words."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPRODUCED_WITHIN = 0.10
"""How far a simulated number, or its gain, may be from the paper's and still be reproduced."""

NO_CHANGE_WITHIN = 0.01
"""Gains that close to 1 are none."""

MISSING = "–"

RULE = (
    "Verdicts follow a fixed rule. What the paper computes from a worked example is reproduced if "
    "ours rounds to the digits that the paper prints, and differs if not. The paper's trace is "
    "private and ours is generated, so that a simulated number is judged by its gain over the "
    "row that it is compared with (that row's value over this one's where less is better, this "
    f"one's over that row's where more is better): gains within {100 * NO_CHANGE_WITHIN:g} % of 1 "
    "are no change; if the paper's gain and ours do not point the same way, the number differs; "
    f"if they do, and ours is within {100 * REPRODUCED_WITHIN:g} % of the paper's, it is "
    "reproduced; otherwise it has the same direction. Simulated numbers without such a row, those "
    f"of the Baseline among them, are reproduced within {100 * REPRODUCED_WITHIN:g} % of the "
    "paper's, and differ beyond."
)


class Source(StrEnum):
    """Where a number of a paper comes from, if not from its text."""

    TEXT = ""
    """From the text, as are all numbers of a paper that is at hand."""
    ABSTRACT = "abstract"
    SECONDARY = "others, on the paper"
    """Read in what others say of it."""
    MEMORY = "memory"
    """Remembered, and found nowhere since."""


class Verdict(StrEnum):
    """How ours compares with the paper's number."""

    REPRODUCED = "reproduced"
    """Equal to all the digits that the paper prints; of simulations, see `RULE`."""
    SAME_DIRECTION = "same direction"
    """On the same side of the reference that the paper compares with."""
    DIFFERS = "differs"
    """Neither."""
    NOT_RUN = "not run"
    """There is no number of ours."""


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
        What this project computes, None if nothing.
    verdict
        How the two compare.
    paper_gain, our_gain
        What the gains over the row that it is compared with are, where there is one.
    spread
        The least and the greatest of ours over seeds, where there are several.
    source
        Where the paper's number comes from.
    """

    row: str
    column: str
    paper: str
    ours: float | None
    verdict: Verdict
    paper_gain: float | None = None
    our_gain: float | None = None
    spread: tuple[float, float] | None = None
    source: Source = Source.TEXT

    @classmethod
    def exact(
        cls, row: str, column: str, paper: str, ours: float | None, *, source: Source = Source.TEXT
    ) -> Entry:
        """Return an entry that is reproduced if ours rounds to what the paper prints."""
        digits = len(paper.partition(".")[2])
        if ours is None:
            verdict = Verdict.NOT_RUN
        else:
            verdict = Verdict.REPRODUCED if f"{ours:.{digits}f}" == paper else Verdict.DIFFERS
        return cls(row=row, column=column, paper=paper, ours=ours, verdict=verdict, source=source)

    @classmethod
    def simulated(
        cls,
        row: str,
        column: str,
        paper: str,
        ours: float | None,
        *,
        spread: tuple[float, float] | None = None,
    ) -> Entry:
        """Return an entry that is judged by its value; see `RULE`."""
        return cls(
            row=row,
            column=column,
            paper=paper,
            ours=ours,
            verdict=_verdict_of_values(float(paper), ours),
            spread=spread,
        )

    @classmethod
    def published_gain(
        cls,
        row: str,
        column: str,
        paper: str,
        ours: float | None,
        *,
        spread: tuple[float, float] | None = None,
        source: Source = Source.TEXT,
    ) -> Entry:
        """Return an entry that is a gain itself; see `RULE`."""
        verdict = Verdict.NOT_RUN if ours is None else verdict_of_gains(float(paper), ours)
        return cls(
            row=row,
            column=column,
            paper=paper,
            ours=ours,
            verdict=verdict,
            spread=spread,
            source=source,
        )

    @classmethod
    def compared(
        cls,
        row: str,
        column: str,
        paper: str,
        ours: float | None,
        *,
        paper_reference: str,
        our_reference: float,
        our_gain: float | None = None,
        more_is_better: bool = False,
        spread: tuple[float, float] | None = None,
    ) -> Entry:
        """Return an entry that is judged by its gain over a reference; see `RULE`.

        Parameters
        ----------
        paper_reference, our_reference
            The number in the same column of the row that this one is compared with.
        our_gain
            Ours where it is a mean of gains; None for that of `ours` over `our_reference`.
        more_is_better
            Whether a gain is this number over the reference, and not the other way round.
        """
        paper_gain = gain(float(paper_reference), float(paper), more_is_better=more_is_better)
        verdict = Verdict.NOT_RUN
        if ours is not None:
            if our_gain is None:
                our_gain = gain(our_reference, ours, more_is_better=more_is_better)
            verdict = verdict_of_gains(paper_gain, our_gain)
        return cls(
            row=row,
            column=column,
            paper=paper,
            ours=ours,
            verdict=verdict,
            paper_gain=paper_gain,
            our_gain=our_gain,
            spread=spread,
        )

    @classmethod
    def published_reduction(
        cls,
        row: str,
        column: str,
        paper: str,
        ours: float | None,
        *,
        spread: tuple[float, float] | None = None,
        source: Source = Source.TEXT,
    ) -> Entry:
        """Return an entry that is a reduction in per cent, judged by the gain that it is.

        Less by p % is 100 / (100 - p) times better; by 100 %, infinitely.
        """
        paper_gain = gain(100.0, 100.0 - float(paper))
        our_gain = None if ours is None else gain(100.0, 100.0 - ours)
        verdict = Verdict.NOT_RUN if our_gain is None else verdict_of_gains(paper_gain, our_gain)
        return cls(
            row=row,
            column=column,
            paper=paper,
            ours=ours,
            verdict=verdict,
            paper_gain=paper_gain,
            our_gain=our_gain,
            spread=spread,
            source=source,
        )

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's, None where the paper's is 0 or there is no number of ours."""
        paper = float(self.paper)
        return self.ours / paper if paper and self.ours is not None else None

    def our_value_in_words(self) -> str:
        """Return ours as precisely as a page needs it, with its spread."""
        if self.spread is None:
            return self.shown(self.ours)
        low, high = self.spread
        return f"{self.shown(self.ours)} ({self.shown(low)} to {self.shown(high)})"

    def shown(self, value: float | None) -> str:
        """Return a number as precisely as the paper prints its own, small ones more so."""
        if value is None:
            return MISSING
        digits = len(self.paper.partition(".")[2]) + (abs(value) < 100)
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers of ours that no number of the paper stands beside.

    Parameters
    ----------
    title
        What they are.
    header, rows
        The cells.
    words
        How many of the first columns hold words.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def as_markdown(self) -> list[str]:
        """Return its lines, with its title."""
        return [
            f"**{self.title}**",
            "",
            *markdown_table(self.header, self.rows, words=self.words),
        ]


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
        The numbers, in the paper's order; none where the paper has no such number.
    findings
        What the numbers say, a sentence each, before they are shown.
    notes
        What a reader must know: assumptions, contradictions inside the paper, why ours differs.
    is_wide
        Whether the page begins with a table as the paper has it, ours beside its numbers.
    tables
        What else was found, without numbers of the paper.
    series
        Points of the plot, by name, where it shows more than the entries.
    remembered
        What of that which was run is from memory, in words; empty if nothing is.
    """

    name: str
    title: str
    entries: Sequence[Entry]
    notes: Sequence[str] = ()
    is_wide: bool = False
    tables: Sequence[Table] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    remembered: str = ""
    findings: Sequence[str] = ()

    @property
    def verdicts(self) -> Counter[str]:
        """How many entries have each verdict."""
        return Counter(str(entry.verdict) for entry in self.entries)

    def counted(self) -> str:
        """Return how many entries have each verdict, in words."""
        if not self.entries:
            return "No number of the paper stands beside these."
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        count = len(self.entries)
        return f"{count} {'entry' if count == 1 else 'entries'}: {verdicts}."

    def warning(self) -> str | None:
        """Return what of this rests on memory, None if nothing does."""
        sentences = []
        remembered = sum(entry.source is Source.MEMORY for entry in self.entries)
        if remembered:
            which = (
                "All of the paper's numbers here are"
                if remembered == len(self.entries)
                else f"{remembered} of the paper's {len(self.entries)} numbers here "
                f"{'is' if remembered == 1 else 'are'}"
            )
            sentences.append(
                f"{which} from memory, with little confidence; a verdict on such a number is one "
                "on what is remembered."
            )
        if self.remembered:
            sentences.append(f"What is run here is partly from memory: {self.remembered}.")
        return " ".join(sentences) or None

    def header(self) -> list[str]:
        """Return the names of the columns of `rows`."""
        gains = ["paper's gain", "our gain"] if self._has_gains else []
        sources = ["paper's number is from"] if self._has_sources else []
        return ["row", "column", "paper", "ours", "ours / paper", *gains, *sources, "verdict"]

    @property
    def last_words(self) -> int:
        """How many of the last columns of `rows` hold words."""
        return 1 + self._has_sources

    def rows(self) -> Iterable[list[str]]:
        """Yield each entry as a row of a table."""
        for entry in self.entries:
            row = [entry.row, entry.column, entry.paper, entry.our_value_in_words()]
            row.append("" if entry.ratio is None else f"{entry.ratio:.3f}")
            if self._has_gains:
                row += [_gain_in_words(entry.paper_gain), _gain_in_words(entry.our_gain)]
            if self._has_sources:
                row.append(str(entry.source))
            yield [*row, str(entry.verdict)]

    def wide_header(self) -> list[str]:
        """Return the names of the columns of `wide_rows`."""
        return ["", *self._columns()]

    def wide_rows(self) -> Iterable[list[str]]:
        """Yield each row of the paper's table, a cell of it as ``paper | ours``."""
        cells = {
            (entry.row, entry.column): f"{entry.paper} | {entry.shown(entry.ours)}"
            for entry in self.entries
        }
        for row in dict.fromkeys(entry.row for entry in self.entries):
            yield [row, *(cells.get((row, column), "") for column in self._columns())]

    def as_markdown(self) -> str:
        """Return the page."""
        lines = [f"# {self.title}", "", self.counted(), ""]
        warning = self.warning()
        if warning is not None:
            lines += [f"**{warning}**", ""]
        if self.findings:
            lines += [*(f"- {finding}" for finding in self.findings), ""]
        if self.is_wide:
            lines += ["Paper | ours:", ""]
            lines += markdown_table(self.wide_header(), self.wide_rows(), words=1)
            lines += [""]
        if self.entries:
            lines += markdown_table(self.header(), self.rows(), words=2, words_last=self.last_words)
            lines += [""]
        for table in self.tables:
            lines += [*table.as_markdown(), ""]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"

    @property
    def _has_gains(self) -> bool:
        return any(entry.paper_gain is not None for entry in self.entries)

    @property
    def _has_sources(self) -> bool:
        return any(entry.source is not Source.TEXT for entry in self.entries)

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(entry.column for entry in self.entries))


def gain(reference: float, value: float, *, more_is_better: bool = False) -> float:
    """Return how many times better a value is than a reference; 1 where both are 0."""
    better, worse = (value, reference) if more_is_better else (reference, value)
    if worse:
        return better / worse
    return math.inf if better else 1.0


def verdict_of_gains(paper: float, ours: float) -> Verdict:
    """Return how two gains compare; see `RULE`."""
    if _direction(paper) != _direction(ours):
        return Verdict.DIFFERS
    # Infinite where the value is 0, so that the difference of two infinities is not asked for.
    is_close = paper == ours or abs(ours - paper) <= REPRODUCED_WITHIN * paper
    return Verdict.REPRODUCED if is_close else Verdict.SAME_DIRECTION


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int, words_last: int = 0
) -> list[str]:
    """Return the lines of a table whose first `words` and last `words_last` columns hold words."""
    numbers = len(header) - words - words_last
    rule = ["---"] * words + ["---:"] * numbers + ["---"] * words_last
    table = [header, rule, *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in table]


def _direction(found: float) -> int:
    if abs(found - 1) <= NO_CHANGE_WITHIN:
        return 0
    return 1 if found > 1 else -1


def _verdict_of_values(paper: float, ours: float | None) -> Verdict:
    if ours is None:
        return Verdict.NOT_RUN
    is_close = abs(ours - paper) <= REPRODUCED_WITHIN * abs(paper)
    return Verdict.REPRODUCED if is_close else Verdict.DIFFERS


def _gain_in_words(found: float | None) -> str:
    if found is None:
        return ""
    return "∞" if math.isinf(found) else f"{found:.3g}"
