"""``lyra-opt calibrate``: parameters of generated jobs under which published figures come out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    add_command,
    add_json_option,
    add_seed_option,
    completed_by,
    integer_from,
)
from lyra_opt.experiments.calibration import MOST_TRIALS

if TYPE_CHECKING:
    import argparse

    from lyra_opt.experiments.calibration.document import CalibrationTable
    from lyra_opt.experiments.calibration.outcome import Calibration

MOST_REPLAYS = 1000

DESCRIPTION = """\
Choose parameters of a scenario's generated jobs so that figures of one simple queue come as near as
they can to published ones (simulation optimisation with Optuna, extra "tuning"). Every candidate
sees the same draws, on a compiled schedule of GPUs that are counted. What is found is judged on
other draws, and replayed on some of these by the simulated cluster; how far the two differ is said.
Whatever another scheme does with such jobs is a prediction: nothing of it was calibrated on.
"""

EXAMPLES = """\
examples:
  lyra-opt calibrate lyra-2 --out results/calibration
  lyra-opt calibrate lyra-2 --trials 20 --refinements 20 --replays 0
  lyra-opt calibrate mine.toml --json

"lyra-opt calibrate --keys" explains every key of a calibration file.
Exit code: 0; 1 if a figure misses its tolerance on the draws calibrated on, or a simulation failed
its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "calibrate",
        "choose parameters of generated jobs that meet published figures",
        DESCRIPTION,
        EXAMPLES,
    )
    calibration = parser.add_argument(
        "calibration",
        metavar="CALIBRATION",
        nargs="?",
        help="a name, such as lyra-2, or a TOML file",
    )
    completed_by(calibration, _names)
    parser.add_argument(
        "--keys",
        action="store_true",
        help="list every key of calibration files, and do nothing else",
    )
    for option, what in (
        ("--trials", "candidates that Optuna's sampler chooses"),
        ("--refinements", "candidates after these, near the best"),
    ):
        parser.add_argument(
            option,
            type=integer_from(1 if option == "--trials" else 0, MOST_TRIALS),
            metavar="N",
            help=f"{what} (default: the file's)",
        )
    parser.add_argument(
        "--replays",
        type=integer_from(0, MOST_REPLAYS),
        metavar="N",
        help="judged draws that the simulated cluster replays (default: all)",
    )
    add_seed_option(parser, "the search")
    add_json_option(parser)
    parser.add_argument(
        "--out", metavar="DIR", help="write NAME.json there, with all that was tried"
    )
    parser.set_defaults(run=run)


def _names() -> list[str]:
    from lyra_opt.experiments.calibration.document import calibration_names

    return calibration_names()


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from dataclasses import replace

    from lyra_opt.commands.folders import output_folder, require_folder_path
    from lyra_opt.commands.messages import complain
    from lyra_opt.commands.output import print_json, stdout_kept_clean, text_width
    from lyra_opt.core.described import keys_text
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.core.errors import UserError
    from lyra_opt.experiments.calibration.document import CalibrationTable, load_calibration
    from lyra_opt.experiments.calibration.evaluation import Evaluation
    from lyra_opt.experiments.simulation.carried_out import SimulationError
    from lyra_opt.experiments.tuning.search import load_optuna

    if arguments.keys:
        print(keys_text(CalibrationTable, text_width()))
        return 0
    if arguments.calibration is None:
        raise UserError("CALIBRATION is missing: a calibration file, or the name of a bundled one")
    # All that can be wrong is found out before the first trial.
    load_optuna()
    table, source = load_calibration(arguments.calibration)
    for name in ("trials", "refinements"):
        if getattr(arguments, name) is not None:
            table = replace(table, **{name: getattr(arguments, name)})
    if arguments.out is not None:
        require_folder_path("--out", Path(arguments.out))
    out = None if arguments.out is None else Path(arguments.out)
    evaluation = Evaluation(table, source)
    try:
        with output_folder("--out", out), stdout_kept_clean():
            found = _calibrated(arguments, table, evaluation)
            record = found.as_json_object()
            if out is not None:
                write_text(out / f"{table.name}.json", format_document(record))
    except SimulationError as error:
        complain(f"error: {error}")
        return 1
    if arguments.json:
        print_json(record)
    else:
        _print(found)
    missed = found.misses(found.calibrated)
    if missed:
        complain(f"calibration {table.name}: missed {', '.join(missed)}")
    return 1 if missed else 0


def _calibrated(
    arguments: argparse.Namespace, table: CalibrationTable, evaluation: Any
) -> Calibration:
    from lyra_opt.commands.progress import progress
    from lyra_opt.experiments.calibration.outcome import Calibration
    from lyra_opt.experiments.calibration.search import best_of, search

    with progress("calibrating", table.trials + table.refinements, "trials") as advance:
        trials = search(
            table,
            lambda candidate: [evaluation.scheduled(candidate, seed) for seed in table.seeds],
            seed=arguments.seed,
            advance=advance,
        )
    best = best_of(trials).candidate
    replays = table.judged[: arguments.replays]
    return Calibration(
        table=table,
        seed=arguments.seed,
        trials=tuple(trials),
        calibrated=tuple(evaluation.scheduled(best, seed) for seed in table.seeds),
        judged=tuple(evaluation.scheduled(best, seed) for seed in table.judged),
        replayed=tuple(evaluation.replayed(best, seed) for seed in replays),
    )


def _print(found: Calibration) -> None:
    from lyra_opt.commands.output import print_line, print_table
    from lyra_opt.core.errors import counted
    from lyra_opt.experiments.calibration.outcome import HEADER

    table = found.table
    judged = f" and on {counted(len(table.judged), 'other')}" if table.judged else ""
    print_line(
        f"{table.name}: scenario {table.scenario}, queue {table.queue}; means over the "
        f"{counted(len(table.seeds), 'draw')} of the calibration{judged}, the least and the "
        "greatest in brackets."
    )
    print_table(HEADER, found.rows(), right=1)
    print(f"Best of {counted(len(found.trials), 'trial')}:")
    for key, value in found.best.candidate.items():
        print(f"  {key} = {value}")
    if found.worst_disagreement is not None:
        print(
            f"Replays differ from the compiled schedule by at most {found.worst_disagreement:.2g}, "
            "relative."
        )
