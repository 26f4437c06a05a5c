"""Results of a paper that nobody simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.evaluation import compared
from lyra_opt.paper_figures.results import Results
from lyra_opt.paper_figures.setting import Setting

if TYPE_CHECKING:
    from lyra_opt.paper_figures.comparison import Comparison, Entry
    from lyra_opt.paper_figures.document import PublicationTable
    from lyra_opt.paper_figures.setting import Draw, PaperRun


class MadeUp(Results):
    """Results whose runs have the figures that a function gives them."""

    def __init__(self, setting: Setting, figures: Any = lambda run, draw: None) -> None:
        super().__init__(setting, None)
        self._figures = figures

    def of(self, run: PaperRun, draw: Draw) -> Any:
        """Return an outcome with these figures, and with tables of jobs if they are among them."""
        found = self._figures(run, draw)
        if found is None:
            return None
        return SimpleNamespace(
            figures=found,
            jobs=found.get("table of jobs"),
            record=SimpleNamespace(cpu_time_s=1.0),
        )


def publication(paper: str, kind: str, number: int) -> PublicationTable:
    """Return a table or figure of a paper's file."""
    (found,) = (
        each
        for each in find_paper(paper).publications
        if (each.kind, each.number) == (kind, number)
    )
    return found


def made(
    paper: str, kind: str, number: int, figures: Any = None, *, scale: float = 0.02, seeds: int = 1
) -> Comparison:
    """Return a table or figure beside figures that are made up."""
    setting = Setting(find_paper(paper), scale, seeds)
    results = MadeUp(setting, figures) if figures else MadeUp(setting)
    return compared(results, publication(paper, kind, number))


def by_row(comparison: Comparison) -> dict[tuple[str, str], Entry]:
    """Return entries by row and column."""
    return {(entry.row, entry.column): entry for entry in comparison.entries}
