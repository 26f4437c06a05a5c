"""What is made of a paper: tables and figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.comparison import Comparison


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
    """

    title: str
    introduction: Sequence[str] = ()
    setting: str
    rule: str
    comparisons: Sequence[Comparison]
