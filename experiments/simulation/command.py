"""``lyra-opt simulate``, ``scenarios`` and ``schemes``: replay jobs on a simulated cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    add_command,
    add_engine_options,
    add_repeated_option,
    add_resume_option,
    completed_by,
    integer_from,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.scenario import Scenario

DESCRIPTION = """\
Replay the jobs of a scenario on a simulated cluster under one or more schemes, and report queuing
times, job completion times (JCT), usage and preemptions. A scenario is a TOML file, or the name of
one that comes along: cluster with its loans, jobs, models of speed, tenure, seeds, schemes.

"lyra-opt scenarios list" names them, "lyra-opt scenarios keys" explains every key that a file or
--set can have, "lyra-opt schemes --for SCENARIO" says which schemes run there."""

EXAMPLES = """\
examples:
  lyra-opt simulate lyra-paper --set cluster.servers=44 --set jobs.parameters.days=2
      Lyra beside its baseline on a tenth of its cluster
  lyra-opt simulate plain --jobs trace.csv --set cluster.servers=60 --scheme fifo --scheme sjf
      a trace of your own as it is
  lyra-opt scenarios show lyra-paper > mine.toml
  lyra-opt simulate mine.toml --scheme fifo --scheme lyra --set seeds=3 --out runs
      a scenario of your own, with a page, plots, and tables that pandas reads
  lyra-opt simulate lyra-paper --set jobs.parameters.days=1 --bound
      how far each scheme is from what no scheduler can beat
  lyra-opt simulate lyra-paper --set jobs.parameters.days=1 --capture decisions
  lyra-opt solve decisions/reclaim-contested-*.json --solver lyra-greedy --solver exact
      the decisions met on the way, and how far a heuristic is from the best

Exit code: 0; 1 if a simulation failed its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""

SCENARIOS_COMMANDS = {
    "list": "their names and what they are for",
    "show": "a scenario, word for word: the start of one of your own",
    "keys": "every key of a scenario, with its values, default and meaning",
    "parts": "what can be named in one: workloads, clusters, types of GPUs, tables, links",
    "schema": "the JSON schema of scenarios, for editors",
}


def add_parsers(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-commands."""
    _add_simulate(subparsers)
    scenarios = add_command(
        subparsers,
        "scenarios",
        "list and show scenarios of the simulated cluster",
        "Scenarios that come along, and what one can say.",
    )
    what = scenarios.add_subparsers(metavar="WHAT")
    for name, meaning in SCENARIOS_COMMANDS.items():
        parser = what.add_parser(name, help=meaning, description=f"Print {meaning}.")
        if name == "show":
            completed_by(parser.add_argument("scenario", metavar="SCENARIO"), scenario_names)
        parser.set_defaults(run=run_scenarios, what=name)
    schemes = add_command(
        subparsers,
        "schemes",
        "list the schemes of the simulated cluster",
        "List the schemes, and which of them run in a scenario, or why not.",
    )
    scenario = schemes.add_argument(
        "--for", metavar="SCENARIO", dest="scenario", help="a scenario by name, or a TOML file"
    )
    completed_by(scenario, scenario_names)
    add_changes(schemes)
    schemes.set_defaults(run=run_schemes)


def scenario_names() -> Iterable[str]:
    """Return the names of the scenarios that come along."""
    from lyra_opt.experiments.simulation.sources import bundled

    return bundled()


def scheme_names() -> list[str]:
    """Return the names of all schemes."""
    from lyra_opt.simulation.scheme import SCHEMES

    return SCHEMES.names()


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options that change a scenario."""
    parser.add_argument(
        "--jobs",
        metavar="FILE",
        help="job trace in place of the scenario's jobs; looked for as given, then in the folder "
        "that the variable LYRA_OPT_TRACES names",
    )
    add_repeated_option(
        parser,
        "--set",
        "KEY=VALUE",
        "a key of the scenario, such as cluster.loans.servers=70",
        dest="changes",
    )


def _add_simulate(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = add_command(
        subparsers, "simulate", "replay jobs on a simulated cluster", DESCRIPTION, EXAMPLES
    )
    scenario = parser.add_argument("scenario", metavar="SCENARIO", help="its name, or a TOML file")
    completed_by(scenario, scenario_names)
    add_changes(parser)
    scheme = add_repeated_option(parser, "--scheme", "NAME", "in place of the scenario's schemes")
    completed_by(scheme, scheme_names)
    add_repeated_option(
        parser, "--seed", "N", "in place of the scenario's seeds", type=integer_from(0)
    )
    parser.add_argument(
        "--out", metavar="DIR", help="keep the runs there, with a page, plots and tables"
    )
    add_resume_option(parser, "runs that --out holds already")
    add_engine_options(parser, "replays")
    parser.add_argument(
        "--json",
        action="store_true",
        help="write one JSON object to stdout; of several replays an array",
    )
    parser.add_argument(
        "--bound",
        action="store_true",
        help="prove what no schedule can beat, and how far each scheme is above it; the same as "
        "--set bounds=true",
    )
    parser.add_argument(
        "--capture",
        metavar="DIR",
        help='write decisions met on the way there, as instance files for "lyra-opt solve" and '
        "for studies: KIND-contested-* those in which somebody loses, KIND-easy-* the others",
    )
    parser.set_defaults(run=run_simulate)


def given_scenario(arguments: argparse.Namespace, seeds: Sequence[int] = ()) -> Scenario:
    """Return the scenario that is asked for, changed as asked for, with its seeds or these."""
    from lyra_opt.experiments.simulation.scenario import Change, load_scenario, parse_change

    changes = [parse_change(text) for text in arguments.changes]
    if getattr(arguments, "bound", False):
        changes.append(Change("bounds", True))
    if seeds:
        changes.append(Change("seeds", list(dict.fromkeys(seeds))))
    return load_scenario(arguments.scenario, changes, jobs=arguments.jobs)


def run_simulate(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt simulate``; return the exit code."""
    from lyra_opt.commands.messages import say
    from lyra_opt.commands.output import print_json, stdout_kept_clean
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.experiments.simulation.printing import print_replays
    from lyra_opt.experiments.simulation.report import write_report
    from lyra_opt.experiments.simulation.running import run_scenario

    out, capture = (
        None if path is None else Path(path) for path in (arguments.out, arguments.capture)
    )
    scenario = given_scenario(arguments, arguments.seeds)
    with stdout_kept_clean():
        status, replays = run_scenario(
            scenario,
            arguments.schemes,
            out=out,
            resume=arguments.resume,
            engine=engine_of(arguments.scheduler, arguments.processes, spares_one=True),
            capture=capture,
            command=arguments.command_line,
        )
    if status == EXIT_INTERRUPTED:
        return status
    for run in replays.runs:
        if capture is not None and run.figures is not None and "captured" in run.figures:
            say(run.figures["captured"])
    if arguments.json:
        figures = [_as_json_object(run) for run in replays.runs]
        if figures:
            print_json(figures[0] if replays.study.runs == 1 else figures)
    elif replays.runs:
        print_replays(replays)
    if out is not None and replays.runs:
        page = write_report(replays)
        if not arguments.json:
            print(f"{page}: all of it, with plots")
    return status


def _as_json_object(run: ReplayRecord) -> dict[str, Any]:
    """Return the figures of a run, below the values of axes where there are any."""
    return ({"axes": run.point} if run.point else {}) | dict(run.figures or {})


def run_scenarios(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt scenarios``; return the exit code."""
    from lyra_opt.experiments.simulation import catalogue

    if arguments.what == "show":
        from lyra_opt.experiments.simulation.sources import scenario_text

        print(scenario_text(arguments.scenario)[0], end="")
    else:
        {
            "list": catalogue.print_scenarios,
            "keys": catalogue.print_keys,
            "parts": catalogue.print_parts,
            "schema": catalogue.print_schema,
        }[arguments.what]()
    return 0


def run_schemes(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt schemes``; return the exit code."""
    from lyra_opt.experiments.simulation.catalogue import print_schemes

    if arguments.scenario is None and (arguments.changes or arguments.jobs):
        from lyra_opt.core.errors import UserError

        raise UserError("--set and --jobs change a scenario: name it with --for")
    print_schemes(None if arguments.scenario is None else given_scenario(arguments))
    return 0
