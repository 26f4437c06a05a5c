"""A published number beside ours: the ratio and a verdict in words."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from lyra_opt.paper_figures.verdicts import (
    RULE,
    RULE_OF_0_1_0,
    Spread,
    Verdict,
    digits_of,
    gain,
    is_forbidden,
    verdict_of_0_1_0,
    verdict_of_digits,
    verdict_of_gains,
    verdict_of_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MISSING = "–"


class Judged(StrEnum):
    """What a number of a paper is, and is held against."""

    EXACT = "exact"
    """Digits of a worked example, or a choice among a few."""
    VALUE = "value"
    GAIN = "gain"
    REDUCTION = "reduction"
    """In per cent."""


class Source(StrEnum):
    """Where a number of a paper comes from, if not from its text."""

    TEXT = ""
    """From the text, as are all numbers of a paper that is at hand."""
    ABSTRACT = "abstract"
    SECONDARY = "others, on the paper"
    """Read in what others say of it."""
    CODE = "its authors' code, run again"
    ARTIFACT = "its authors' artifact"
    MEMORY = "memory"
    """Remembered, and found nowhere since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """A number's gain over the row that it is compared with.

    Parameters
    ----------
    paper, ours
        The paper's gain, and ours; None where there is no number of ours.
    spread
        The least and the greatest of ours over seeds, where there are several.
    """

    paper: float
    ours: float | None
    spread: Spread = None

    @property
    def verdict(self) -> Verdict:
        """How the two compare."""
        return verdict_of_gains(self.paper, self.ours, self.spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a number cannot be, whatever the scheduler: proved with the runs.

    Parameters
    ----------
    value
        How much it is at most, or at least.
    is_most
        Which of the two.
    """

    value: float
    is_most: bool


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
    judged
        What the paper's number is: digits of a worked example, a value, a gain or a reduction in
        per cent.
    gains
        Of a value that is compared with another row, its gain over that.
    spread
        The least and the greatest of ours, where there are several.
    is_over_seeds
        Whether the spread is over seeds, and not over workloads that the paper tells apart.
    bound
        What it cannot be, where that was computed.
    is_modelled
        Whether what decides it is simulated at all.
    source
        Where the paper's number comes from.
    """

    row: str
    column: str
    paper: str
    ours: float | None
    judged: Judged = Judged.VALUE
    gains: Gains | None = None
    spread: Spread = None
    is_over_seeds: bool = True
    bound: Bound | None = None
    is_modelled: bool = True
    source: Source = Source.TEXT

    @property
    def value_verdict(self) -> Verdict | None:
        """How ours compares with the paper's; None of what is a gain. See `RULE`."""
        if self.judged is Judged.EXACT:
            return self._of(verdict_of_digits(self.paper, self.ours))
        if self.judged is Judged.VALUE:
            spread = self.spread if self.is_over_seeds else None
            return self._of(verdict_of_values(float(self.paper), self.ours, spread), self.bound)
        return None

    @property
    def gain_verdict(self) -> Verdict | None:
        """How our gain compares with the paper's; None of what has none. See `RULE`."""
        gains = self.judged_gains
        if gains is None:
            return None
        return self._of(gains.verdict, None if self.judged is Judged.VALUE else self.bound)

    @property
    def verdicts(self) -> list[Verdict]:
        """On its value and on its gain, as far as it has them."""
        return [each for each in (self.value_verdict, self.gain_verdict) if each is not None]

    @property
    def verdict_of_0_1_0(self) -> str:
        """How version 0.1.0 judged it, a value or gain."""
        gains = self.judged_gains
        both = None
        if gains is not None and gains.ours is not None:
            both = (gains.paper, gains.ours)
        return verdict_of_0_1_0(float(self.paper), self.ours, both)

    @property
    def judged_gains(self) -> Gains | None:
        """Both gains: those over another row, or what the paper prints as such."""
        spread = self.spread if self.is_over_seeds else None
        if self.judged is Judged.GAIN:
            return Gains(paper=float(self.paper), ours=self.ours, spread=spread)
        if self.judged is Judged.REDUCTION:
            return Gains(
                paper=_gain_of_reduction(float(self.paper)),
                ours=None if self.ours is None else _gain_of_reduction(self.ours),
                spread=None
                if spread is None
                else (_gain_of_reduction(spread[0]), _gain_of_reduction(spread[1])),
            )
        return self.gains

    @property
    def shown_gains(self) -> Gains | None:
        """Gains that are other numbers than those of the entry."""
        return None if self.judged is Judged.GAIN else self.judged_gains

    def _of(self, found: Verdict, bound: Bound | None = None) -> Verdict:
        if found is Verdict.NOT_RUN:
            return found
        if not self.is_modelled:
            return Verdict.NOT_MODELLED
        if (
            bound is not None
            and found is not Verdict.REPRODUCED
            and is_forbidden(self.paper, bound.value, is_most=bound.is_most)
        ):
            return Verdict.UNATTAINABLE
        return found

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's, None where the paper's is 0 or there is no number of ours."""
        paper = float(self.paper)
        return self.ours / paper if paper and self.ours is not None else None

    def our_value_in_words(self) -> str:
        """Return ours as precisely as a page needs it, with its spread if it has one to show."""
        ours = self.shown(self.ours)
        low, high = map(self.shown, self.spread or (self.ours, self.ours))
        return ours if low == high else f"{ours} ({low} to {high})"

    def bound_in_words(self) -> str:
        """Return what it cannot be beyond, whatever the scheduler; empty without a bound."""
        if self.bound is None:
            return ""
        side = "at most" if self.bound.is_most else "at least"
        return f"{side} {self.shown(self.bound.value)}"

    def shown(self, value: float | None) -> str:
        """Return a number as precisely as the paper prints its own, small ones more so."""
        if value is None:
            return MISSING
        digits = digits_of(self.paper) + (abs(value) < 100)
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherTable:
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
            f"## {self.title}",
            "",
            *markdown_table(self.header, self.rows, words=self.words),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The numbers that a function of a paper computes for a table or figure.

    Parameters
    ----------
    values
        Ours by row and column, with the least and the greatest; None for what was not run.
    findings, tables, series
        As `Comparison` has them.
    """

    values: Mapping[tuple[str, str], tuple[float | None, Spread]] = field(default_factory=dict)
    findings: Sequence[str] = ()
    tables: Sequence[FurtherTable] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


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
    counts_by_0_1_0
        Whether its head also counts verdicts by the rule of that version.
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
    tables: Sequence[FurtherTable] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    remembered: str = ""
    findings: Sequence[str] = ()
    counts_by_0_1_0: bool = False

    @property
    def verdicts(self) -> dict[str, Counter[str]]:
        """How many values and how many gains have each verdict, as far as there are any."""
        of = {
            "values": [entry.value_verdict for entry in self.entries],
            "gains": [entry.gain_verdict for entry in self.entries],
        }
        counts = {what: Counter(map(str, filter(None, found))) for what, found in of.items()}
        return {what: count for what, count in counts.items() if count}

    def counted(self) -> str:
        """Return how many values and gains have each verdict, in words."""
        if not self.entries:
            return "No number of the paper stands beside these."
        count = len(self.entries)
        parts = [f"{count} {'entry' if count == 1 else 'entries'}"]
        parts += [f"{what}: {_counted(counts)}" for what, counts in self.verdicts.items()]
        sentence = f"{'; '.join(parts)}."
        if self.counts_by_0_1_0:
            counts = Counter(entry.verdict_of_0_1_0 for entry in self.entries)
            sentence += f" By the rule of version 0.1.0 ({RULE_OF_0_1_0}): {_counted(counts)}."
        return sentence

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
        return [
            "row",
            "column",
            "paper",
            "ours",
            "ours / paper",
            *(["any scheduler"] if self._has_bounds else []),
            *(["paper's gain", "our gain"] if self._has_gains else []),
            *(["paper's number is from"] if self._has_sources else []),
            *(f"verdict on the {what.removesuffix('s')}" for what in self.verdicts),
        ]

    @property
    def last_words(self) -> int:
        """How many of the last columns of `rows` hold words."""
        return len(self.verdicts) + self._has_sources

    def rows(self) -> Iterator[list[str]]:
        """Yield each entry as a row of a table."""
        for entry in self.entries:
            row = [entry.row, entry.column, entry.paper, entry.our_value_in_words()]
            row.append("" if entry.ratio is None else f"{entry.ratio:.3f}")
            if self._has_bounds:
                row.append(entry.bound_in_words())
            if self._has_gains:
                row += _gains_in_words(entry.shown_gains)
            if self._has_sources:
                row.append(str(entry.source))
            of = {"values": entry.value_verdict, "gains": entry.gain_verdict}
            yield [*row, *(str(of[what] or "") for what in self.verdicts)]

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

    def as_markdown(self, picture: str = "") -> str:
        """Return the page.

        Parameters
        ----------
        picture
            The line that shows its plot, if it has one.
        """
        lines = [f"# {self.title}", "", self.counted(), ""]
        warning = self.warning()
        if warning is not None:
            lines += [f"**{warning}**", ""]
        if self.findings:
            lines += [*(f"- {finding}" for finding in self.findings), ""]
        if picture:
            lines += [picture, ""]
        if self.is_wide:
            lines += ["## Paper and ours", ""]
            lines += markdown_table(self.wide_header(), self.wide_rows(), words=1)
            lines += [""]
        in_parts = self.is_wide or bool(self.tables)
        if self.entries:
            lines += ["## Number by number", ""] * in_parts
            lines += markdown_table(self.header(), self.rows(), words=2, words_last=self.last_words)
            lines += [""]
        for table in self.tables:
            lines += [*table.as_markdown(), ""]
        lines += ["## Notes", ""] * (in_parts and bool(self.notes))
        lines += [f"- {note}" for note in self.notes]
        if self.entries:
            lines += ["", *rule_of_verdicts()]
        return "\n".join(lines).rstrip() + "\n"

    @property
    def _has_gains(self) -> bool:
        return any(entry.shown_gains is not None for entry in self.entries)

    @property
    def _has_bounds(self) -> bool:
        return any(entry.bound is not None for entry in self.entries)

    @property
    def _has_sources(self) -> bool:
        return any(entry.source is not Source.TEXT for entry in self.entries)

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(entry.column for entry in self.entries))


def rule_of_verdicts() -> list[str]:
    """Return the lines that say the rule, with their title."""
    return ["## The rule of verdicts", "", *(f"- {part}" for part in RULE)]


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int, words_last: int = 0
) -> list[str]:
    """Return the lines of a table whose first `words` and last `words_last` columns hold words."""
    numbers = len(header) - words - words_last
    rule = ["---"] * words + ["---:"] * numbers + ["---"] * words_last
    table = [header, rule, *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in table]


def _counted(counts: Counter[str]) -> str:
    """Return how many have each verdict, in the order of the rule."""
    return ", ".join(f"{counts[each]} {each}" for each in map(str, Verdict) if counts[each])


def _gain_of_reduction(percent: float) -> float:
    """Less by p % is 100 / (100 - p) times better; by 100 %, infinitely."""
    return gain(100.0, 100.0 - percent)


def _gains_in_words(gains: Gains | None) -> list[str]:
    if gains is None:
        return ["", ""]
    ours = _gain_in_words(gains.ours)
    if gains.spread is not None:
        ours += f" ({' to '.join(map(_gain_in_words, gains.spread))})"
    return [_gain_in_words(gains.paper), ours]


def _gain_in_words(found: float | None) -> str:
    if found is None:
        return ""
    return "∞" if math.isinf(found) else f"{found:.3g}"
