"""Which tables and figures of Lyra (EuroSys 2023) there are, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paper_figures.comparison import Comparison
    from paper_figures.lyra.gaps import GapReport
    from paper_figures.simulations import Results, Setting

TABLES = tuple(range(1, 11))
FIGURES = (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)
"""Those with values: Figure 3 is measured on hardware that is not here, Figure 4 is a sketch."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A table or figure.

    Parameters
    ----------
    kind
        ``table`` or ``figure``.
    number
        As in the paper.
    """

    kind: str
    number: int

    @property
    def module(self) -> Any:
        """Its module: `compare`, and `cases` if it needs simulations."""
        return import_module(f"paper_figures.lyra.{self.kind}_{self.number}")

    @property
    def is_simulated(self) -> bool:
        """Whether it needs simulations."""
        return hasattr(self.module, "cases")


ALL = (
    *(Publication("table", number) for number in TABLES),
    *(Publication("figure", number) for number in FIGURES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was made.

    Parameters
    ----------
    setting
        How much was simulated.
    comparisons
        The tables and figures asked for, in the order of `ALL`.
    gaps
        What closing the gaps changes; None if it was not asked for.
    """

    setting: Setting
    comparisons: Sequence[Comparison]
    gaps: GapReport | None


def make_report(
    publications: Iterable[Publication], setting: Setting, *, gaps: bool, processes: int
) -> Report:
    """Run what is needed, each simulation once, and compare.

    Parameters
    ----------
    publications
        The tables and figures asked for.
    gaps
        Whether to make the page on gaps too.
    processes
        Simulations at the same time.
    """
    from paper_figures.simulations import simulate_all

    chosen = [publication for publication in ALL if publication in set(publications)]
    gap_module = import_module("paper_figures.lyra.gaps")
    modules = [publication.module for publication in chosen if publication.is_simulated]
    if gaps:
        modules.append(gap_module)
    cases = [case for module in modules for case in module.cases(setting)]
    results: Results = simulate_all(cases, setting, processes=processes)
    return Report(
        setting=setting,
        comparisons=[
            publication.module.compare(results)
            if publication.is_simulated
            else publication.module.compare()
            for publication in chosen
        ],
        gaps=gap_module.report(results) if gaps else None,
    )
