"""``lyra-opt bound``: what no schedule of a scenario can beat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    add_command,
    add_repeated_option,
    completed_by,
    integer_from,
)
from lyra_opt.core.errors import UserError
from lyra_opt.experiments.simulation.command import (
    add_changes,
    given_scenario,
    scenario_names,
    scheme_names,
)
from lyra_opt.simulation.bounds.job_classes import ALL, JOB_CLASSES
from lyra_opt.simulation.bounds.reading import Reading

if TYPE_CHECKING:
    import argparse

    from lyra_opt.experiments.simulation.proving import Proved
    from lyra_opt.experiments.simulation.scenario import Scenario

DESCRIPTION = """\
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

EXAMPLES = """\
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


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers, "bound", "prove what no schedule of a scenario can beat", DESCRIPTION, EXAMPLES
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
    from lyra_opt.commands.folders import output_folder, require_folder_path
    from lyra_opt.commands.messages import say
    from lyra_opt.commands.output import print_json, stdout_kept_clean
    from lyra_opt.commands.progress import progress
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.core.run_progress import listening
    from lyra_opt.experiments.simulation.printing import say_demand
    from lyra_opt.experiments.simulation.proving import prove

    scenario = given_scenario(arguments, arguments.seeds)
    if arguments.checks:
        return _check(scenario, arguments)
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
        _print(found)
    return 0


def _check(scenario: Scenario, arguments: argparse.Namespace) -> int:
    """Check saved prices; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line, stdout_kept_clean
    from lyra_opt.experiments.simulation.proving import check

    with stdout_kept_clean():
        checked = [check(scenario, file, schemes=arguments.schemes) for file in arguments.checks]
    if arguments.json:
        print_json([each.as_json_object() for each in checked])
    else:
        for each in checked:
            print_line(each.in_words())
    return 0 if all(each.holds for each in checked) else 1


def _print(found: list[Proved]) -> None:
    from lyra_opt.commands.output import print_line, print_table

    axes = list(found[0].point)
    seeds = len({proved.seed for proved in found}) > 1
    classes = any(proved.job_class != ALL for proved in found)
    searched = found[0].schedule is not None
    print_table(
        [
            *axes,
            *(["seed"] if seeds else []),
            *(["of"] if classes else []),
            "reading",
            "mean JCT at least (s)",
            "least run time, mean (s)",
            "excess at least (s)",
            "queuing at least (s)",
            *(["mean JCT found (s)", "gap"] if searched else []),
        ],
        [
            [
                *(str(proved.point[axis]) for axis in axes),
                *([str(proved.seed)] if seeds else []),
                *([proved.job_class] if classes else []),
                proved.bound.reading.value,
                f"{proved.bound.jct_mean_bound_s:,.1f}",
                f"{proved.bound.least_run_mean_s:,.1f}",
                f"{proved.bound.excess_mean_bound_s:,.1f}",
                f"{proved.bound.queue_mean_bound_s:,.1f}",
                *_found(proved),
            ]
            for proved in found
        ],
        right=len(axes) + seeds + classes + 1,
    )
    copies = "" if found[0].has_copies else " and a single copy of each job"
    print_line(
        "No schedule of these jobs has less, whatever it knows, that does what the reading permits "
        f"on these GPUs and loans, with no GPU shared{copies}."
    )


def _found(proved: Proved) -> list[str]:
    """Return what was found beside what is proved, as a table has it."""
    from lyra_opt.core.gaps import percent_text

    if proved.schedule is None or proved.gap is None:
        return []
    return [f"{proved.schedule.jct_mean_s:,.1f}", percent_text(proved.gap)]
