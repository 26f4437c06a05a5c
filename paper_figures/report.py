"""What is made of a paper: tables and figures beside ours, and pages on questions of our own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from paper_figures.comparison import markdown_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_figures.comparison import Comparison, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A question, and its answer."""

    question: str
    sentences: tuple[str, ...]


class OwnPage(Protocol):
    """A page on a question that the paper does not ask."""

    @property
    def name(self) -> str:
        """File name of the page, such as ``lyra-closing-gaps``."""

    @property
    def title(self) -> str:
        """What it is about."""

    @property
    def picture(self) -> str:
        """Name of its plot; empty if it has none."""

    def answers(self) -> Sequence[Answer]:
        """Return what stands first: the questions with what was found, in words."""

    def further_answers(self) -> Sequence[Answer]:
        """Return answers that stand on the pages only, and not on the terminal."""

    def tables(self) -> Sequence[Table]:
        """Return what that rests on."""

    def notes(self) -> Sequence[str]:
        """Return what a reader must know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An `OwnPage` that is at hand.

    Parameters
    ----------
    name, title, picture
        As `OwnPage` has them.
    found, data, remarks
        Its answers, tables and notes.
    series
        Points of its plot, by name.
    """

    name: str
    title: str
    picture: str = ""
    found: tuple[Answer, ...]
    data: tuple[Table, ...]
    remarks: tuple[str, ...]
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def answers(self) -> Sequence[Answer]:
        """Return what was found."""
        return self.found

    def further_answers(self) -> Sequence[Answer]:
        """Return none: all is said in `answers`."""
        return ()

    def tables(self) -> Sequence[Table]:
        """Return what that rests on."""
        return self.data

    def notes(self) -> Sequence[str]:
        """Return what a reader must know."""
        return self.remarks


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was made.

    Parameters
    ----------
    title
        Of the HTML page.
    introduction
        What a reader must know before the numbers, a paragraph each.
    setting
        How much was simulated, in a sentence.
    rule
        By which verdicts are found.
    comparisons
        The tables and figures asked for, in the order of the paper.
    pages
        Those on questions of our own that were asked for.
    """

    title: str
    introduction: Sequence[str] = ()
    setting: str
    rule: str
    comparisons: Sequence[Comparison]
    pages: list[OwnPage]


def page_as_markdown(page: OwnPage) -> str:
    """Return a page on a question of our own."""
    lines = [f"# {page.title}", ""]
    for answer in (*page.answers(), *page.further_answers()):
        lines += [f"**{answer.question}**", "", *(f"- {s}" for s in answer.sentences), ""]
    for table in page.tables():
        if table.title:
            lines += [f"**{table.title}**", ""]
        lines += [*markdown_table(table.header, table.rows, words=table.words), ""]
    lines += [f"- {note}" for note in page.notes()]
    return "\n".join(lines) + "\n"
