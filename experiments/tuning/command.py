"""The command ``lyra-opt tune``: choose values of a scenario's keys by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lyra_opt.experiments.command import print_keys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.tuning.outcome import Found
    from lyra_opt.experiments.tuning.tuning_file import Tuning

RESULT_FILE, BEST_FILE = "tuning.json", "best.toml"


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt tune``; return the exit code."""
    from lyra_opt.commands.messages import complain, say
    from lyra_opt.commands.output import print_formatted
    from lyra_opt.core.errors import UserError
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.experiments.simulation.scenario.loading import parse_change
    from lyra_opt.experiments.simulation.scenario.setup import SimulationError
    from lyra_opt.experiments.tuning.tuning_file import TuningTable, load_tuning

    if print_keys(arguments, TuningTable, "A tuning file of lyra-opt"):
        return 0
    if arguments.tuning is None:
        raise UserError("FILE is missing: give a tuning file or the name of a bundled tuning")
    tuning = load_tuning(arguments.tuning, [parse_change(text) for text in arguments.changes])
    out = None if arguments.out is None else Path(arguments.out)
    try:
        found, record = tuned(
            tuning,
            out,
            engine=engine_of(arguments.scheduler, arguments.processes, spares_one=True),
            resume=arguments.resume,
            command=arguments.command_line,
        )
    except KeyboardInterrupt:
        say("interrupted: continue with --resume" if out else "interrupted: use --out to keep runs")
        return EXIT_INTERRUPTED
    except SimulationError as error:
        complain(f"error: {error}")
        return 1
    tables = [each.comparison() for each in found]
    if not print_formatted(arguments.form, tables, record):
        print_tuning(found, out)
    missed = [
        f"{each.name or tuning.table.name}: {name} misses its target"
        for each in found
        for name in each.missed(each.table.seeds)
    ]
    for line in missed:
        complain(line)
    return 1 if missed else 0


def tuned(
    tuning: Tuning, out: Path | None, *, engine: Engine, resume: bool, command: str | None
) -> tuple[list[Found], dict[str, Any]]:
    """Run a tuning, and write its results into a folder unless that is None.

    Returns
    -------
    list of Found
        The result for each point of the scenario's axes.
    dict
        The content of ``tuning.json``.
    """
    import tempfile
    from contextlib import ExitStack

    from lyra_opt.commands.output import output_folder, require_folder_path, stdout_kept_clean
    from lyra_opt.experiments.tuning.running import run_tuning
    from lyra_opt.experiments.tuning.search import load_optuna

    load_optuna()
    if out is not None:
        require_folder_path("--out", out)
    with ExitStack() as stack:
        stack.enter_context(stdout_kept_clean())
        stack.enter_context(output_folder("--out", out))
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        study, found, runs = run_tuning(
            tuning, folder, engine=engine, resume=resume, command=command
        )
        records = [each.as_json_object() for each in found]
        record = records[0] if len(records) == 1 else {"points": records}
        if out is not None:
            _write(tuning, study, found, runs, record, out)
    return found, record


def _write(
    tuning: Any, study: Any, found: Sequence[Found], runs: Any, record: Any, out: Path
) -> None:
    """Write tuning.json, the page, and for each point the scenario with the best values."""
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.core.picture_styles import house_style
    from lyra_opt.experiments.page import PAGE, how_run, render_page, write_plots
    from lyra_opt.experiments.plots.trials import trials_plot
    from lyra_opt.experiments.simulation.scenario.documents import toml_text
    from lyra_opt.experiments.simulation.scenario.loading import variants

    write_text(out / RESULT_FILE, format_document(record))
    for each, (_, variant) in zip(found, variants(tuning.scenario), strict=True):
        best = tuning.with_values(variant, list(each.values.values()))
        remark = f"# The best values found by the tuning {tuning.table.name}. {each.name}\n"
        write_text(out / _best_file(each), remark + toml_text(best.document))
    with house_style():
        plot = trials_plot(found)
    write_plots(out, [plot])
    page = render_page(
        "tuning.html.jinja", study=study, found=found, plot=plot, how=how_run(study, runs)
    )
    write_text(out / PAGE, page)


def _best_file(found: Found) -> str:
    point = quote(found.name, safe=" =,+()")
    return f"best {point}.toml" if point else BEST_FILE


def print_tuning(found: Sequence[Found], out: Path | None) -> None:
    """Print the results of a tuning as readable text."""
    from lyra_opt.commands.output import print_line, print_table
    from lyra_opt.core.errors import counted
    from lyra_opt.experiments.page import PAGE
    from lyra_opt.experiments.tuning.outcome import BEST

    for each in found:
        table = each.table
        judged = f", judged on {counted(len(table.judged), 'other')}" if table.judged else ""
        print_line(
            f"{each.name or table.name}: scenario {table.scenario}; means of "
            f"{', '.join(table.measures)} over "
            f"{counted(len(table.seeds), 'draw')}{judged}, and ratios to "
            f"{'published values' if table.targets else BEST}; brackets show the range over draws."
        )
        print_table(each.comparison(), None)
        print(f"Best of {counted(len(each.trials), 'trial')}:")
        for path, value in each.values.items():
            print(f"  {path} = {value}")
        if words := each.shares_in_words():
            print_line(words)
        if each.worst_disagreement is not None:
            print(
                "The simulated cluster differs from the compiled schedule by at most "
                f"{each.worst_disagreement:.2g}, relative."
            )
        print("Assumptions:")
        for sentence in each.assumptions:
            print_line(f"- {sentence}", indent="  ")
    if out is not None:
        print(f"{out / PAGE}: the full result, with all trials")
