"""The commands ``lyra-opt simulate``, ``bound``, ``scenarios`` and ``schemes``."""

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
from lyra_opt.core.errors import UserError
from lyra_opt.simulation.bounds.scope import ALL, JOB_CLASSES, Reading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.proving import Proved
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

SIMULATE_DESCRIPTION = """\
Replay the jobs of a scenario on a simulated cluster under one or more schemes, and report queuing
times, job completion times (JCT), usage and preemptions. A scenario is a TOML file, or the name of
one that comes along: cluster with its loans, jobs, models of speed, tenure, seeds, schemes.

"lyra-opt scenarios list" names them, "lyra-opt scenarios keys" explains every key that a file or
--set can have, "lyra-opt schemes --for SCENARIO" says which schemes run there."""

SIMULATE_EXAMPLES = """\
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

BOUND_DESCRIPTION = """\
Prove what no schedule of the jobs of a scenario can beat, not even that of somebody who knows the
future: a lower bound on the mean job completion time (JCT), hence on what is lost beside the least
run times (the excess), and one of its own on the mean queuing time; a job that holds GPUs does not
queue.

A bound holds for what a reading permits. "restart": a rigid job without checkpoints that is stopped
starts from nothing; so it is under Lyra and other schemes under which jobs keep their GPUs.
"conserved": jobs may be stopped, resized and moved at any moment and lose nothing; so it is at best
under leases and rounds. It is the weaker bound, and holds for schemes of both kinds.

The clusters, loans and speeds are those of the scenario. Only readings that cover all of its
schemes are used; with copies of jobs if one of the schemes runs some. No bound applies to a scheme
that lets jobs share GPUs, or tunes them while they run. "lyra-opt simulate --bound" puts the bound
beside each scheme."""

BOUND_EXAMPLES = """\
examples:
  lyra-opt bound lyra-paper --set cluster.servers=44 --set jobs.parameters.days=2
  lyra-opt bound plain --jobs trace.csv --set cluster.servers=60 --json
      a trace of your own, as it is
  lyra-opt bound plain --jobs trace.csv --set cluster.servers=60 --schedule
      and the best schedule found by somebody who knows it all: how good the bound is
  lyra-opt bound lyra-paper --set cluster.servers=44 --save proofs
  lyra-opt bound lyra-paper --set cluster.servers=44 --check proofs/seed0-restart-jct_mean.json
      prices that anybody can check
  lyra-opt simulate lyra-paper --set cluster.servers=44 --set jobs.parameters.days=2 --bound
      how far each scheme is from the best that there is

Exit code: 0; 1 if prices prove less than a file that is checked says; 2 for bad input or usage; 130
after Ctrl-C.
"""


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
    _add_bound(subparsers)


def scenario_names() -> Iterable[str]:
    """Return the names of the scenarios that come along."""
    from lyra_opt.experiments.simulation.scenario.documents import bundled

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


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario, and the options that change it."""
    scenario = parser.add_argument("scenario", metavar="SCENARIO", help="its name, or a TOML file")
    completed_by(scenario, scenario_names)
    add_changes(parser)
    scheme = add_repeated_option(parser, "--scheme", "NAME", "in place of the scenario's schemes")
    completed_by(scheme, scheme_names)
    add_repeated_option(
        parser, "--seed", "N", "in place of the scenario's seeds", type=integer_from(0)
    )


def _add_simulate(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = add_command(
        subparsers,
        "simulate",
        "replay jobs on a simulated cluster",
        SIMULATE_DESCRIPTION,
        SIMULATE_EXAMPLES,
    )
    _add_scenario(parser)
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
    from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario, parse_change

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
    from lyra_opt.experiments.simulation.running.replays import run_scenario
    from lyra_opt.experiments.simulation.showing.report import write_report
    from lyra_opt.experiments.simulation.showing.results import print_replays

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
    from lyra_opt.experiments.simulation.showing import catalogue

    if arguments.what == "show":
        from lyra_opt.experiments.simulation.scenario.documents import scenario_text

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
    from lyra_opt.experiments.simulation.showing.catalogue import print_schemes

    if arguments.scenario is None and (arguments.changes or arguments.jobs):
        raise UserError("--set and --jobs change a scenario: name it with --for")
    print_schemes(None if arguments.scenario is None else given_scenario(arguments))
    return 0


def _add_bound(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = add_command(
        subparsers,
        "bound",
        "prove what no schedule of a scenario can beat",
        BOUND_DESCRIPTION,
        BOUND_EXAMPLES,
    )
    _add_scenario(parser)
    parser.add_argument(
        "--reading",
        action="append",
        choices=tuple(each.value for each in Reading),
        dest="readings",
        help="what schedules may do; may be given more than once (default: all that cover the "
        "schemes)",
    )
    parser.add_argument(
        "--of",
        action="append",
        choices=tuple(JOB_CLASSES),
        dest="job_classes",
        help="of which jobs the means are, all others being there too; weighted: of all, by their "
        "weights; may be given more than once (default: all)",
    )
    parser.add_argument(
        "--schedule",
        action="store_true",
        help="search a schedule too, which says how good the bound is: of rigid jobs on GPUs of "
        "one kind without loans",
    )
    parser.add_argument(
        "--save", metavar="DIR", help="write the prices there that prove it, a file for each bound"
    )
    add_repeated_option(
        parser,
        "--check",
        "FILE",
        "recompute what saved prices prove of the scenario, in exact arithmetic, instead",
        dest="checks",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write a JSON array to stdout, an object for each variant, seed and reading",
    )
    parser.set_defaults(run=run_bound)


def run_bound(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt bound``; return the exit code."""
    from lyra_opt.commands.messages import say
    from lyra_opt.commands.output import (
        output_folder,
        print_json,
        require_folder_path,
        stdout_kept_clean,
    )
    from lyra_opt.commands.progress import progress
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.core.run_progress import listening
    from lyra_opt.experiments.simulation.measuring.demand import say_demand
    from lyra_opt.experiments.simulation.measuring.proving import prove

    scenario = given_scenario(arguments, arguments.seeds)
    if arguments.checks:
        return _check_bounds(scenario, arguments)
    out = None if arguments.save is None else Path(arguments.save)
    if out is not None:
        require_folder_path("--save", out)
    job_classes = tuple(dict.fromkeys(arguments.job_classes or (ALL,)))
    if arguments.schedule and job_classes != (ALL,):
        raise UserError("--schedule: what is searched is short in the mean of all jobs; omit --of")
    readings = [Reading(name) for name in dict.fromkeys(arguments.readings or ())]
    found: list[Proved] = []
    shares = [0.0]
    shown = progress("bound", 100, "%", begun=lambda: 100 * shares[-1])
    with stdout_kept_clean(), output_folder("--save", out), listening(shares.append), shown:
        for proved in prove(
            scenario,
            readings,
            schemes=arguments.schemes,
            job_classes=job_classes,
            searches=arguments.schedule,
        ):
            if not found or found[-1].setup is not proved.setup:
                say_demand(proved.setup)
            say(f"{proved.bound.reading.value}: proved in {proved.bound.cpu_s:.1f} s of CPU time")
            found.append(proved)
            if out is not None:
                for name, document in proved.certificates().items():
                    write_text(out / name, format_document(document))
    if arguments.json:
        print_json([proved.as_json_object() for proved in found])
    else:
        _print_bounds(found)
    return 0


def _check_bounds(scenario: Scenario, arguments: argparse.Namespace) -> int:
    """Check saved prices; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line, stdout_kept_clean
    from lyra_opt.experiments.simulation.measuring.proving import check

    with stdout_kept_clean():
        checked = [check(scenario, file, schemes=arguments.schemes) for file in arguments.checks]
    if arguments.json:
        print_json([each.as_json_object() for each in checked])
    else:
        for each in checked:
            print_line(each.in_words())
    return 0 if all(each.holds for each in checked) else 1


def _print_bounds(found: list[Proved]) -> None:
    from lyra_opt.commands.output import print_line, print_table

    has_seeds = len({proved.seed for proved in found}) > 1
    has_classes = any(proved.job_class != ALL for proved in found)
    rows = [_bound_row(proved, has_seeds, has_classes) for proved in found]
    headings = list(rows[0])
    right = headings.index("reading") + 1
    print_table(headings, [list(row.values()) for row in rows], right=right)
    copies = "" if found[0].has_copies else " and a single copy of each job"
    print_line(
        "No schedule of these jobs has less, whatever it knows, that does what the reading permits "
        f"on these GPUs and loans, with no GPU shared{copies}."
    )


def _bound_row(proved: Proved, has_seeds: bool, has_classes: bool) -> dict[str, str]:
    """Return a row of the table by heading; what was found stands beside what is proved."""
    from lyra_opt.core.gaps import percent_text

    bound, schedule = proved.bound, proved.schedule
    row = {axis: str(value) for axis, value in proved.point.items()}
    if has_seeds:
        row["seed"] = str(proved.seed)
    if has_classes:
        row["of"] = proved.job_class
    row["reading"] = bound.reading.value
    row["mean JCT at least (s)"] = f"{bound.jct_mean_bound_s:,.1f}"
    row["least run time, mean (s)"] = f"{bound.least_run_mean_s:,.1f}"
    row["excess at least (s)"] = f"{bound.excess_mean_bound_s:,.1f}"
    row["queuing at least (s)"] = f"{bound.queue_mean_bound_s:,.1f}"
    if schedule is not None and proved.gap is not None:
        row["mean JCT found (s)"] = f"{schedule.jct_mean_s:,.1f}"
        row["gap"] = percent_text(proved.gap)
    return row
