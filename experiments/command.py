"""The commands ``lyra-opt study``, ``report`` and ``diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.nearest_names import meant

if TYPE_CHECKING:
    import argparse

    from lyra_opt.experiments.chosen_pictures import ChosenPictures

DEFAULT_RESULTS_FOLDER = Path("results")
STUDIES = Path(__file__).parent / "studies"


def print_keys(arguments: argparse.Namespace, table: type[Any], title: str) -> bool:
    """Print the keys or schema of `table` for --keys or --schema; return False without either."""
    import json

    from lyra_opt.commands.output import text_width
    from lyra_opt.core.described import keys_text
    from lyra_opt.core.fields import document_schema

    if arguments.keys:
        print(keys_text(table, text_width()))
    elif arguments.schema:
        print(json.dumps(document_schema(table, title), indent=2))
    return bool(arguments.keys or arguments.schema)


def run_study_command(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt study``; return the exit code."""
    from lyra_opt.commands.output import require_folder_path
    from lyra_opt.experiments.chosen_pictures import OF_STUDIES, chosen, chosen_pictures
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.report import make_report, print_report
    from lyra_opt.experiments.runner import run_study
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.experiments.study import read_study
    from lyra_opt.experiments.study_cells import find_trace
    from lyra_opt.experiments.study_file import StudyTable

    if print_keys(arguments, StudyTable, "A study of lyra-opt"):
        return 0
    if arguments.study is None:
        raise UserError("STUDY is missing: give a study file or the name of a bundled study")
    if arguments.out is not None:
        require_folder_path("--out", Path(arguments.out))
    inputs = arguments.study, arguments.trace
    pictures = chosen_pictures(
        arguments.style, arguments.plot, arguments.picture, OF_STUDIES, inputs
    )
    trace = None if arguments.trace is None else find_trace(arguments.trace)
    study = read_study(find_study(arguments.study), trace, solvers=arguments.solvers)
    folder = DEFAULT_RESULTS_FOLDER / study.name if arguments.out is None else Path(arguments.out)
    status = run_study(
        study,
        folder,
        engine=engine_of(arguments.scheduler, arguments.processes),
        resume=arguments.resume,
        command=arguments.command_line,
    )
    if status != EXIT_INTERRUPTED:
        report = make_report(folder)
        if pictures.file is not None:
            pictures.write(lambda name: chosen(report.plot_makers(), name))
        print_report(report, arguments.form)
    return status


def run_report_command(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt report``; return the exit code."""
    from lyra_opt.experiments.chosen_pictures import chosen_pictures
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.store import ResultStore

    folder = Path(arguments.folder)
    pictures = chosen_pictures(
        arguments.style, arguments.plot, arguments.picture, kind=arguments.pictures
    )
    with ResultStore.open(folder) as store:
        kind, settings = store.study.kind, store.study.settings
    if settings.get("tuning"):
        again = f"lyra-opt tune FILE --out {folder} --resume"
        raise UserError(f"{folder}: has runs of a tuning; {again} writes its page")
    if kind == ReplayRecord.kind:
        return _report_replays(folder, arguments, pictures)
    for name in ("window", "captured", "measures"):
        if (given := getattr(arguments, name)) is not None:
            raise UserError(f"--{name} {given}: {folder} has runs of a study, not replays")
    from lyra_opt.experiments.report import write_report

    return write_report(folder, pictures, arguments.form, baseline=arguments.baseline)


def _report_replays(folder: Path, arguments: argparse.Namespace, pictures: ChosenPictures) -> int:
    from lyra_opt.experiments.executor import complain_of
    from lyra_opt.experiments.random_inputs import require_baseline
    from lyra_opt.experiments.simulation.commands import chosen_measures
    from lyra_opt.experiments.simulation.running.replays import load_replays
    from lyra_opt.experiments.simulation.showing.report import parse_window, write_report
    from lyra_opt.experiments.simulation.showing.results import print_replays

    window, captured, baseline = arguments.window, arguments.captured, arguments.baseline
    measures = chosen_measures(arguments)
    window_h = None if window is None else parse_window(window)
    replays = load_replays(folder, captured=None if captured is None else Path(captured))
    require_baseline(baseline, replays.schemes)
    page = write_report(replays, window_h=window_h, baseline=baseline, pictures=pictures)
    print_replays(replays, arguments.form, baseline, measures)
    if arguments.form == "table":
        print(f"{page}: the full report, with plots")
    return complain_of(replays.failed)


def run_diff_command(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt diff``; return the exit code."""
    from lyra_opt.commands.messages import complain
    from lyra_opt.commands.output import print_formatted
    from lyra_opt.experiments.diff import compare_folders, print_diff

    b = None if arguments.b is None else Path(arguments.b)
    diff = compare_folders(Path(arguments.a), b, by=arguments.by)
    if names := diff.settings.get("name"):
        complain(
            f"A is {names['a']} and B is {names['b']}, which are different scenarios or studies: "
            "their inputs may differ, too, so the differences compare more than two solvers"
        )
    tables = [diff.table()] if arguments.form == "csv" else diff.for_papers()
    if not print_formatted(arguments.form, tables, diff.as_json_object()):
        print_diff(diff)
    return 0


def bundled_studies() -> list[str]:
    """Return the names of the bundled studies."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def find_study(name: str) -> Path:
    """Return the path of the study that `name` gives as a file path or as a bundled study's name.

    Raises
    ------
    InputError
        If no such file or bundled study exists.
    """
    if not Path(name).is_file() and name in bundled_studies():
        return STUDIES / f"{name}.toml"
    if not Path(name).exists():
        hint = meant(name, bundled_studies())
        raise InputError(name, f"is not a file or a bundled study; {hint}")
    return Path(name)
