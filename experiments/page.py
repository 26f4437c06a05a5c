"""Write a result page as a self-contained HTML file, and its plots as separate files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyra_opt.commands.output import make_folder
from lyra_opt.core.documents import write_bytes, write_text
from lyra_opt.core.errors import one_line
from lyra_opt.core.picture_styles import picture_bytes
from lyra_opt.core.pictures import data_of
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.records import RunRecord, StudyRecord

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "report.html"
PLOTS_FOLDER = "plots"


def render_page(template: str, *, folder: Path = TEMPLATES, **values: Any) -> str:
    """Return an HTML page rendered from a template, with all values escaped.

    Parameters
    ----------
    template
        A template that extends ``base.html.jinja`` of `TEMPLATES`, which has the style and the
        shared parts of all pages.
    folder
        Folder of the template.
    values
        Values that the template uses.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["one_line"] = lambda text: one_line(text or "")
    environment.filters["groupby_first"] = _by_first
    return environment.get_template(template).render(**values)


def _by_first(rows: Sequence[Sequence[str]]) -> list[tuple[str, list[Sequence[str]]]]:
    """Group rows by their first field, in order of first occurrence."""
    found: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return list(found.items())


def write_plots(
    folder: Path, plots: Sequence[Plot], more: Sequence[Plot] = (), kind: str = ""
) -> None:
    """Write plots and their data into the plots folder of a page; delete those of an earlier page.

    Parameters
    ----------
    folder
        Folder of the page.
    plots
        Plots of the page, which are written as SVG.
    more, kind
        Plots that are also written in another format, ``pdf`` or ``png``.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots_folder = folder / PLOTS_FOLDER
    make_folder(plots_folder)
    drawn = {f"{plot.name}.svg": plot.svg for plot in plots}
    for plot in plots:
        drawn |= data_of(plot.figure, plot.name)
    for path in plots_folder.glob("*.svg"):
        if path.name not in drawn:
            for stale in plots_folder.glob(f"{path.stem}.*"):
                stale.unlink()
    for name, text in drawn.items():
        write_text(plots_folder / name, text)
    for plot in more:
        write_bytes(plots_folder / f"{plot.name}.{kind}", picture_bytes(plot.figure, kind))


@dataclass(frozen=True, slots=True)
class HowRun:
    """The command line, the dates and the machines of the runs on a result page.

    Parameters
    ----------
    command
        The command line; None if it is unknown.
    dates
        Start times of the first and the last run, to the minute.
    environments
        Machine and versions in words, each with its number of runs.
    """

    command: str | None
    dates: str
    environments: Sequence[tuple[str, int]]


def how_run(study: StudyRecord, runs: Sequence[RunRecord]) -> HowRun:
    """Return the command line, the dates and the machines of a non-empty list of stored runs."""
    moments = sorted(run.started_at[:16].replace("T", " ") for run in runs)
    dates = f"{moments[0]} UTC"
    if moments[0] != moments[-1]:
        dates = f"{moments[0]} to {moments[-1]} UTC"
    return HowRun(study.settings.get("command"), dates, environments_of(runs))


def environments_of(runs: Sequence[RunRecord]) -> list[tuple[str, int]]:
    """Return each combination of machine and package versions as text, with its number of runs."""
    return sorted(Counter(map(_environment_in_words, runs)).items())


def _environment_in_words(run: RunRecord) -> str:
    versions = ", ".join(
        f"{name} {number or 'not installed'}" for name, number in run.versions.items()
    )
    return f"{run.cpu}, {run.cores} processors, {run.platform}; {versions}"
