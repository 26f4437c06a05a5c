"""Comparison of published numbers with simulated numbers: ratios, gains and verdicts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import record
from lyra_opt.core.table import table_of_texts
from lyra_opt.paper_figures.verdicts import (
    RULE,
    Spread,
    Verdict,
    digits_of,
    gain,
    is_forbidden,
    verdict_of_digits,
    verdict_of_gains,
    verdict_of_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

MISSING = "–"


class Judged(StrEnum):
    """The kind of a published number, which decides how its verdict is found."""

    EXACT = "exact"
    """Digits of a worked example, or one of a few values, which must match exactly."""
    VALUE = "value"
    GAIN = "gain"
    REDUCTION = "reduction"
    """A reduction in %."""


class Source(StrEnum):
    """The source of a published number."""

    TEXT = ""
    """The text of the paper."""
    ABSTRACT = "abstract"
    SECONDARY = "another publication"
    """Another publication about the paper."""
    CODE = "the authors' code, run again"
    ARTIFACT = "the authors' artifact"
    MEMORY = "memory"
    """Memory only; no written source was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """The gain of one table row over another row, in the paper and in our simulation.

    Parameters
    ----------
    paper, ours
        The paper's gain, and the computed gain; None where nothing was computed.
    spread
        The least and the greatest computed gain over seeds, if there are several seeds.
    """

    paper: float
    ours: float | None
    spread: Spread = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on our gain, compared with the paper's gain."""
        return verdict_of_gains(self.paper, self.ours, self.spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A proved limit on a number that holds for every scheduler.

    Parameters
    ----------
    value
        The limit.
    is_most
        Whether the number is at most the limit; otherwise it is at least the limit.
    """

    value: float
    is_most: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One number of a published table or figure, with our simulated number.

    Parameters
    ----------
    row, column
        The position of the number in the paper's table.
    paper
        The paper's number as printed, so that its precision is known.
    ours
        The computed number; None if nothing was computed.
    judged
        The kind of the paper's number: digits of a worked example, a value, a gain or a reduction.
    gains
        The gain over another row, for a value that is compared with one.
    spread
        The least and the greatest computed number, if there are several.
    is_over_seeds
        Whether the spread is over seeds; otherwise it is over workloads that the paper
        distinguishes.
    bound
        A proved limit on the number, if one was computed.
    is_modelled
        Whether the simulation models what determines the number.
    source
        The source of the paper's number.
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
        """The verdict on our simulated value; None if the paper prints a gain or a reduction."""
        if self.judged is Judged.EXACT:
            return self._of(verdict_of_digits(self.paper, self.ours))
        if self.judged is Judged.VALUE:
            spread = self.spread if self.is_over_seeds else None
            return self._of(verdict_of_values(float(self.paper), self.ours, spread), self.bound)
        return None

    @property
    def gain_verdict(self) -> Verdict | None:
        """The verdict on our simulated gain; None if the published number has no gain."""
        gains = self.judged_gains
        if gains is None:
            return None
        return self._of(gains.verdict, None if self.judged is Judged.VALUE else self.bound)

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the value and on the gain of a number, without missing ones."""
        return [each for each in (self.value_verdict, self.gain_verdict) if each is not None]

    @property
    def judged_gains(self) -> Gains | None:
        """The paper's gain and our gain, as printed or over another row; None without a gain."""
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
        """The gains shown next to a value; None if the paper prints the gain itself."""
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
        """Our number divided by the paper's; None if the paper's is 0 or ours is missing."""
        paper = float(self.paper)
        return self.ours / paper if paper and self.ours is not None else None

    def our_value_in_words(self) -> str:
        """Return our number as text, with its spread over seeds if there is one."""
        ours = self.shown(self.ours)
        low, high = map(self.shown, self.spread or (self.ours, self.ours))
        return ours if low == high else f"{ours} ({low} to {high})"

    def bound_in_words(self) -> str:
        """Return the proved limit as text, such as ``at most 1.19``; empty without a limit."""
        if self.bound is None:
            return ""
        side = "at most" if self.bound.is_most else "at least"
        return f"{side} {self.shown(self.bound.value)}"

    def shown(self, value: float | None) -> str:
        """Return a number as text with the paper's digits, plus one digit if it is below 100."""
        if value is None:
            return MISSING
        digits = digits_of(self.paper) + (abs(value) < 100)
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherTable:
    """A table of simulated numbers to which the paper has no counterpart.

    Parameters
    ----------
    title
        The title of the table.
    header, rows
        The cells.
    words
        The number of leading columns that hold words.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def as_markdown(self) -> list[str]:
        """Return the table and its title as lines of Markdown."""
        return [f"## {self.title}", "", *markdown_table(self.header, self.rows, words=self.words)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Numbers, findings, tables and plot points that a Python function computes for a table.

    Parameters
    ----------
    values
        The computed number by row and column, with its least and greatest value; None if not run.
    findings, tables, series
        As in `Comparison`.
    """

    values: Mapping[tuple[str, str], tuple[float | None, Spread]] = field(default_factory=dict)
    findings: Sequence[str] = ()
    tables: Sequence[FurtherTable] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published table or figure with our simulated numbers and the verdicts.

    Parameters
    ----------
    name
        The file name of the page, such as ``lyra-table-1``.
    title
        The title, with the source in the paper.
    entries
        The numbers in the paper's order; empty if the paper has no such numbers.
    findings
        Conclusions from the numbers, one sentence each, shown before the tables.
    notes
        Facts that a reader needs: assumptions, contradictions in the paper, reasons for
        differences.
    is_wide
        Whether the page begins with a table in the paper's layout.
    tables
        Further computed tables, for which the paper has no numbers.
    series
        Points of the plot by name, if it shows more than the entries.
    remembered
        The parts of the simulated setting that are from memory; empty if no part is.
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

    def record(self, figure: Figure) -> None:
        """Add the numbers and the points of the lines to the data of a figure that shows them."""
        entries = [
            {"row": entry.row, "column": entry.column, "paper": entry.paper, "ours": entry.ours}
            | (
                {"paper_gain": gains.paper, "our_gain": gains.ours}
                if (gains := entry.gains)
                else {}
            )
            for entry in self.entries
        ]
        points = [
            {"line": name, "x": x, "y": y} for name, found in self.series.items() for x, y in found
        ]
        for table, rows in (("numbers", entries), ("lines", points)):
            if rows:
                record(figure, rows, table)

    @property
    def verdicts(self) -> dict[str, Counter[str]]:
        """The number of entries with each verdict, for values and for gains."""
        of = {
            "values": [entry.value_verdict for entry in self.entries],
            "gains": [entry.gain_verdict for entry in self.entries],
        }
        counts = {what: Counter(map(str, filter(None, found))) for what, found in of.items()}
        return {what: count for what, count in counts.items() if count}

    def counted(self) -> str:
        """Return a sentence that counts the verdicts on values and on gains."""
        if not self.entries:
            return "The paper has no numbers for this comparison."
        count = len(self.entries)
        parts = [f"{count} published number{'' if count == 1 else 's'}."]
        parts += [
            f"Verdicts on {what}: {_counted(counts)}." for what, counts in self.verdicts.items()
        ]
        return " ".join(parts)

    def warning(self) -> str | None:
        """Return a warning about numbers quoted from memory; None if all have a source."""
        sentences = []
        remembered = sum(entry.source is Source.MEMORY for entry in self.entries)
        if remembered:
            which = (
                "All of the paper's numbers on this page are"
                if remembered == len(self.entries)
                else f"{remembered} of the paper's {len(self.entries)} numbers on this page "
                f"{'is' if remembered == 1 else 'are'}"
            )
            sentences.append(
                f"{which} from memory, with little confidence. Verdicts on such numbers compare "
                "only with the remembered values."
            )
        if self.remembered:
            sentences.append(f"Part of the simulated setting is from memory: {self.remembered}.")
        return " ".join(sentences) or None

    def header(self) -> list[str]:
        """Return the column names of the table that has one row per published number."""
        return [
            "row",
            "column",
            "paper",
            "ours",
            "ours / paper",
            *(["bound for any scheduler"] if self._has_bounds else []),
            *(["paper's gain", "our gain"] if self._has_gains else []),
            *(["source of the paper's number"] if self._has_sources else []),
            *(f"verdict on the {what.removesuffix('s')}" for what in self.verdicts),
        ]

    @property
    def last_words(self) -> int:
        """The number of rightmost table columns that contain words instead of numbers."""
        return len(self.verdicts) + self._has_sources

    def rows(self) -> Iterator[list[str]]:
        """Yield one table row per entry: both numbers, their ratio and the verdicts."""
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
        """Return the column names of the table that has the paper's layout."""
        return ["", *self._columns()]

    def wide_rows(self) -> Iterable[list[str]]:
        """Yield each row of the paper's table, with cells of the form ``paper / ours``."""
        cells = {
            (entry.row, entry.column): f"{entry.paper} / {entry.shown(entry.ours)}"
            for entry in self.entries
        }
        for row in dict.fromkeys(entry.row for entry in self.entries):
            yield [row, *(cells.get((row, column), "") for column in self._columns())]

    def as_markdown(self, picture: str = "") -> str:
        """Return the page of a table or figure in Markdown.

        Parameters
        ----------
        picture
            The line that shows the plot; empty if the page has no plot.
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
    """Return the rule for verdicts on simulated numbers, as Markdown lines with a heading."""
    return ["## The rule of verdicts", "", *(f"- {part}" for part in RULE)]


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int, words_last: int = 0
) -> list[str]:
    """Return a Markdown table with words in its first `words` and last `words_last` columns."""
    numbers = range(words, len(header) - words_last)
    return table_of_texts(header, rows, numbers).text("markdown").splitlines()


def _counted(counts: Counter[str]) -> str:
    """Return a text that counts the entries with each verdict, such as ``3 near, 1 differs``."""
    return ", ".join(f"{counts[each]} {each}" for each in map(str, Verdict) if counts[each])


def _gain_of_reduction(percent: float) -> float:
    """Return the gain for a reduction by p %, which is 100 / (100 - p); infinite for 100 %."""
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
