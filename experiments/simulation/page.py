"""The files of ``lyra-opt simulate --out``: figures, tables, plots and one page."""

from __future__ import annotations

import csv
import io
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from experiments.report import PAGE, PLOTS_FOLDER, TEMPLATES
from experiments.simulation.measures import MEASURES, Measure, counted, shown_measures
from experiments.simulation.network_measures import NETWORK_MEASURES
from experiments.simulation.plots import draw_plots
from experiments.simulation.rounds_measures import ROUND_MEASURES
from experiments.simulation.setup import POOLS, RACKS, TYPES
from lyra_opt.documents import format_document, write_text
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from experiments.plots.figures import Plot
    from experiments.simulation.replay import Replay
    from lyra_opt.simulation.workload import Job

METRICS_FILE = "metrics.json"
JOBS_FILE = "jobs.csv"
SERIES_FILE = "series.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What tables and pages show of a kind of setup.

    Parameters
    ----------
    template
        One of `TEMPLATES`.
    measures
        Rows of the tables.
    jobs
        Columns of the jobs, by name, and what they are of a job.
    outcomes
        Fields of `Outcomes` that follow.
    renamed
        The fields that are called otherwise there.
    """

    template: str
    measures: Sequence[Measure]
    jobs: Mapping[str, Callable[[Job], object]]
    outcomes: Sequence[str]
    renamed: Mapping[str, str]


def _steps(job: Job) -> float:
    return job.work_worker_s if job.measured is None else job.measured.steps


FORMS = {
    POOLS: Form(
        template="simulation.html.jinja",
        measures=MEASURES,
        jobs={
            name: attrgetter(name)
            for name in (
                *("submit_s", "work_worker_s", "min_workers", "max_workers", "gpus_per_worker"),
                *("fungible", "heterogeneous", "checkpoints"),
            )
        },
        outcomes=(
            *("start_s", "completion_s", "queued_s", "jct_s", "held_gpu_s", "preemptions"),
            *("ran_on_loan", "most_racks"),
        ),
        renamed={},
    ),
    TYPES: Form(
        template="rounds.html.jinja",
        measures=ROUND_MEASURES,
        jobs={
            "release_s": attrgetter("submit_s"),
            "gang": attrgetter("min_gpus"),
            "steps": _steps,
            "weight": attrgetter("weight"),
        },
        outcomes=(
            *("start_s", "completion_s", "queued_s", "jct_s", "held_gpu_s", "fairness"),
            *("restarts", "preemptions", "most_copies"),
        ),
        renamed={"held_gpu_s": "working_gpu_s"},
    ),
    RACKS: Form(
        template="network.html.jinja",
        measures=NETWORK_MEASURES,
        jobs={
            "submit_s": attrgetter("submit_s"),
            "gang": attrgetter("min_gpus"),
            "work_gpu_s": attrgetter("work_worker_s"),
            "model": attrgetter("model"),
        },
        outcomes=(
            *("start_s", "completion_s", "queued_s", "jct_s", "running_s", "computing_gpu_s"),
            *("communication_share", "allocations", "losses", "preemptions", "migrations"),
            *("machine_allocations", "rack_allocations", "network_allocations"),
        ),
        renamed={
            "allocations": "leases",
            "losses": "lease_losses",
            "machine_allocations": "machine_leases",
            "rack_allocations": "rack_leases",
            "network_allocations": "network_leases",
        },
    ),
}


def write_files(replays: Sequence[Replay], folder: Path) -> None:
    """Write what came of the schemes into a folder, which is made if it is missing.

    Parameters
    ----------
    replays
        Runs of one setup, at least one.
    folder
        Gets ``metrics.json`` (an object, or an array of several), ``jobs.csv`` with a row for each
        scheme and job, ``series.csv`` with a row for each scheme and step of time, ``plots/*.svg``
        and the page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots = draw_plots(replays)
    make_folder(folder / PLOTS_FOLDER)
    write_text(folder / METRICS_FILE, metrics_text([replay.as_json_object() for replay in replays]))
    write_text(folder / JOBS_FILE, jobs_text(replays))
    write_text(folder / SERIES_FILE, series_text(replays))
    for plot in plots:
        write_text(folder / PLOTS_FOLDER / f"{plot.name}.svg", plot.svg)
    write_text(folder / PAGE, page_text(replays, plots))


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
    """Return what became of each job, as CSV: a row for each scheme and job."""
    setup = replays[0].setup
    form = FORMS[setup.kind]
    known = [[of(job) for of in form.jobs.values()] for job in setup.workload.jobs]

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            columns = [getattr(replay.outcomes, name).tolist() for name in form.outcomes]
            values_of = zip(*columns, strict=True)
            for job, before, values in zip(setup.workload.jobs, known, values_of, strict=True):
                yield [replay.scheme.name, job.id, *before, *values]

    outcomes = [form.renamed.get(name, name) for name in form.outcomes]
    return csv_text(["scheme", "job_id", *form.jobs, *outcomes], rows())


def series_text(replays: Sequence[Replay]) -> str:
    """Return the cluster over time, as CSV: a row for each scheme and step of time.

    Values are means from the moment of their row to that of the next; see `Series`.
    """

    def rows() -> Iterable[Sequence[object]]:
        for replay in replays:
            columns = [column.tolist() for column in _columns_of_series(replay).values()]
            for values in zip(*columns, strict=True):
                yield [replay.scheme.name, *values]

    return csv_text(["scheme", *_columns_of_series(replays[0])], rows())


def _columns_of_series(replay: Replay) -> dict[str, np.ndarray]:
    setup, series = replay.setup, replay.series
    jobs = {"queued_jobs": series.queued_jobs, "running_jobs": series.running_jobs}
    if setup.kind == POOLS:
        return {
            "time_s": series.time_s,
            "training_gpus_held": series.own_gpus_held,
            "loan_gpus_held": series.gpus_held_on_loan,
            "servers_on_loan": series.servers_on_loan,
            **jobs,
            "inference_busy_share": series.gpus_serving / max(1, setup.cluster.inference_gpus),
        }
    if setup.kind == TYPES:
        return {
            "time_s": series.time_s,
            **jobs,
            "copies": series.running_copies,
            "busy_servers": series.busy_servers,
            **{f"gpus_given_{name}": held for name, held in series.gpus_held.items()},
        }
    return {
        "time_s": series.time_s,
        **jobs,
        "gpus_held": series.own_gpus_held,
        "gpus_computing": series.gpus_computing,
        "gpus_handed_over": series.gpus_handed_over,
        "machines_partly_free": series.machines_partly_free,
    }


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
    setup = replays[0].setup
    form = FORMS[setup.kind]
    records = [replay.as_json_object() for replay in replays]
    shown = shown_measures(records, form.measures)
    return render_page(
        form.template,
        setup=setup,
        demand=setup.demand_in_words,
        schemes=[replay.scheme for replay in replays],
        rows=[(measure.name, [measure.of(record) for record in records]) for measure in shown],
        meanings=[measure for measure in shown if measure.meaning],
        plots=plots,
        assumptions=dict.fromkeys(
            sentence for replay in replays for sentence in replay.assumptions
        ),
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
