"""The files of ``lyra-opt simulate --out``: figures, tables, plots and one page."""

from __future__ import annotations

import csv
import io
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from experiments.report import PAGE, PLOTS_FOLDER, TEMPLATES
from experiments.simulation.measures import MEASURES, counted, shown_measures
from experiments.simulation.plots import draw_plots
from lyra_opt.documents import format_document, write_text
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from experiments.plots.figures import Plot
    from experiments.simulation.measures import Measure
    from experiments.simulation.replay import Replay

METRICS_FILE = "metrics.json"
JOBS_FILE = "jobs.csv"
SERIES_FILE = "series.csv"

JOB_COLUMNS = (
    "submit_s",
    "work_worker_s",
    "min_workers",
    "max_workers",
    "gpus_per_worker",
    "fungible",
    "heterogeneous",
    "checkpoints",
)


def write_files(replays: Sequence[Replay], folder: Path) -> None:
    """Write what came of the schemes into a folder, which is made if it is missing.

    Parameters
    ----------
    replays
        Runs of one setup, at least one.
    folder
        Gets ``metrics.json`` (an object, or an array of several), ``jobs.csv`` with a row for each
        scheme and job, ``series.csv`` with a row for each scheme and moment, ``plots/*.svg`` and
        the page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots = draw_plots(replays)
    save_files(
        folder,
        records=[replay.as_json_object() for replay in replays],
        jobs=jobs_text(replays),
        series=series_text(replays),
        plots=plots,
        page=page_text(replays, plots),
    )


def save_files(
    folder: Path,
    *,
    records: Sequence[dict[str, Any]],
    jobs: str,
    series: str,
    plots: Sequence[Plot],
    page: str,
) -> None:
    """Write the files of ``simulate --out``, whichever engine made them; see `write_files`."""
    make_folder(folder / PLOTS_FOLDER)
    write_text(folder / METRICS_FILE, metrics_text(records))
    write_text(folder / JOBS_FILE, jobs)
    write_text(folder / SERIES_FILE, series)
    for plot in plots:
        write_text(folder / PLOTS_FOLDER / f"{plot.name}.svg", plot.svg)
    write_text(folder / PAGE, page)


def require_folder_path(option: str, folder: Path) -> None:
    """Raise `UserError` if `folder`, which need not be there yet, is or lies below a file."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {folder}: is a file, not a folder")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise UserError(f"{option} {folder}: {above} is a file, not a folder")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; `UserError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror or error}") from None


@contextmanager
def output_folder(option: str, folder: Path | None) -> Iterator[None]:
    """Have a folder that files can be written to, so that no time is lost on what cannot be kept.

    What was made of it is removed again if nothing has been written in the end.

    Parameters
    ----------
    option
        Which names it.
    folder
        None does nothing.

    Raises
    ------
    UserError
        If it cannot be made or written to.
    """
    if folder is None:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        make_folder(folder)
        try:
            TemporaryFile(dir=folder).close()
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{option} {folder}: cannot be written to: {reason}") from None
        yield
    finally:
        for path in made:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def metrics_text(records: Sequence[dict[str, Any]]) -> str:
    """Return an object, or an array of several."""
    if len(records) == 1:
        return format_document(records[0])
    return "[\n" + ",\n".join(format_document(record).rstrip() for record in records) + "\n]\n"


def jobs_text(replays: Sequence[Replay]) -> str:
    """Return what became of each job, as CSV."""
    return outcomes_text(replays, JOB_COLUMNS)


def outcomes_text(replays: Sequence[Any], job_columns: Sequence[str]) -> str:
    """Return a row for each scheme and job, as CSV, whichever engine ran.

    Parameters
    ----------
    replays
        Runs of one setup; their ``outcomes`` are a dataclass of arrays by job.
    job_columns
        Attributes of jobs that stand before the outcomes.
    """
    outcomes = [field.name for field in fields(replays[0].outcomes)]

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            columns = [getattr(replay.outcomes, name).tolist() for name in outcomes]
            for job, *values in zip(replay.setup.workload.jobs, *columns, strict=True):
                known = [getattr(job, name) for name in job_columns]
                yield [replay.scheme.name, job.id, *known, *values]

    return csv_text(["scheme", "job_id", *job_columns, *outcomes], rows())


def series_text(replays: Sequence[Replay]) -> str:
    """Return the state of the cluster over time, as CSV."""
    return moments_text(replays)


def _columns_of_series(replay: Any) -> dict[str, np.ndarray]:
    return {field.name: getattr(replay.series, field.name) for field in fields(replay.series)}


def moments_text(
    replays: Sequence[Any],
    columns_of: Callable[[Any], Mapping[str, np.ndarray]] = _columns_of_series,
) -> str:
    """Return a row for each scheme and moment, as CSV, whichever engine ran.

    Parameters
    ----------
    replays
        Runs of one setup.
    columns_of
        Returns the columns of a run by name, the same names for all; by default the fields of its
        ``series``.
    """
    names = list(columns_of(replays[0]))

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            columns = [column.tolist() for column in columns_of(replay).values()]
            for values in zip(*columns, strict=True):
                yield [replay.scheme.name, *values]

    return csv_text(["scheme", *names], rows())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_as_written(value) for value in row] for row in rows)
    return stream.getvalue()


def _as_written(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def page_text(replays: Sequence[Replay], plots: Sequence[Plot]) -> str:
    """Return everything as one HTML page that needs no other file."""
    from instances.workloads.transform import demand_in_words

    setup = replays[0].setup
    return comparison_page(
        "simulation.html.jinja",
        replays,
        MEASURES,
        plots,
        demand=demand_in_words(setup.workload, setup.cluster.gpus),
    )


def comparison_page(
    template: str,
    replays: Sequence[Any],
    measures: Sequence[Measure],
    plots: Sequence[Plot],
    **values: Any,
) -> str:
    """Return runs of one setup side by side as a page, whichever engine ran.

    Parameters
    ----------
    template
        One of `TEMPLATES` that extends that of simulations.
    replays
        The runs.
    measures
        Rows of the table; those without a value in any run are left out.
    plots
        Below the table.
    values
        What else the template asks for.
    """
    records = [replay.as_json_object() for replay in replays]
    shown = shown_measures(records, measures)
    return render_page(
        template,
        setup=replays[0].setup,
        schemes=[replay.scheme for replay in replays],
        rows=[(measure.name, [measure.of(record) for record in records]) for measure in shown],
        meanings=[measure for measure in shown if measure.meaning],
        plots=plots,
        assumptions=dict.fromkeys(
            sentence for replay in replays for sentence in replay.assumptions
        ),
        **values,
    )


def render_page(template: str, **values: Any) -> str:
    """Return a page made from a template of `TEMPLATES`, escaped, with where it was measured."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from experiments.environment import current_environment

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        counted=counted, environment=asdict(current_environment()), **values
    )
