"""The page of replays: what came of them, as tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from experiments.simulation.measures import MEASURES, shown_measures
from lyra_opt.documents import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.simulation.runs import Replays

PAGE = "report.html"


def write_report(replays: Replays) -> Path:
    """Write the page beside the store; return where it is.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    figures = [run.figures or {} for run in replays.runs]
    head = "".join(f"<th>{escape(run.key)}</th>" for run in replays.runs)
    rows = "".join(
        f"<tr><th>{escape(measure.name)}</th>"
        + "".join(f"<td>{escape(measure.of(each))}</td>" for each in figures)
        + "</tr>\n"
        for measure in shown_measures(figures, MEASURES)
    )
    title = escape(replays.study.name)
    path = replays.folder / PAGE
    write_text(
        path,
        f"<!DOCTYPE html>\n<html lang='en'><meta charset='utf-8'><title>{title}</title>\n"
        f"<h1>{title}</h1>\n<table><tr><th></th>{head}</tr>\n{rows}</table>\n</html>\n",
    )
    return path
