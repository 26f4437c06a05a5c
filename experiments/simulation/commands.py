"""The commands ``lyra-opt simulate``, ``bound``, ``scenarios`` and ``schemes``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.bounds.scope import ALL, Reading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lyra_opt.core.table import Table
    from lyra_opt.experiments.simulation.measuring.proving import Proved
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

BOUND_HEADINGS = {
    "jct_mean_bound_s": "mean JCT at least",
    "least_run_mean_s": "least run time, mean",
    "excess_mean_bound_s": "excess at least",
    "queue_mean_bound_s": "queuing at least",
}
"""The headings of the bounds, by key."""


def chosen_measures(arguments: argparse.Namespace) -> list[str]:
    """Return the keys that ``--measures`` lists; raise `UserError` if one is unknown."""
    from lyra_opt.experiments.simulation.measuring.measures import measure_named

    if arguments.measures is None:
        return []
    if arguments.form in ("csv", "json"):
        raise UserError(
            f"--measures cannot be combined with --format {arguments.form}, which has all measures;"
            " choose the format table, markdown or latex, or leave out --measures"
        )
    return [measure_named(key.strip()).key for key in arguments.measures.split(",")]


def given_scenario(arguments: argparse.Namespace, seeds: Sequence[int] = ()) -> Scenario:
    """Return the scenario of a command line, with its changes applied."""
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
    from lyra_opt.commands.output import print_formatted, print_table, stdout_kept_clean
    from lyra_opt.core.own_files import name_in
    from lyra_opt.core.table import table_of_records
    from lyra_opt.experiments.chosen_pictures import OF_REPLAYS, chosen_pictures
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.random_inputs import require_baseline
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.experiments.simulation.measuring.demand import say_demand
    from lyra_opt.experiments.simulation.running.replays import run_scenario
    from lyra_opt.experiments.simulation.running.tasks import replay_tasks
    from lyra_opt.experiments.simulation.showing.figures import figure_of
    from lyra_opt.experiments.simulation.showing.report import write_report
    from lyra_opt.experiments.simulation.showing.results import print_replays

    out, capture = (
        None if path is None else Path(path) for path in (arguments.out, arguments.capture)
    )
    pictures = chosen_pictures(
        arguments.style, arguments.plot, arguments.picture, OF_REPLAYS, (arguments.jobs,)
    )
    measures = chosen_measures(arguments)
    scenario = given_scenario(arguments, arguments.seeds)
    labels = arguments.schemes or [each.label for each in scenario.table.schemes]
    require_baseline(arguments.baseline, [name_in(label) for label in labels])
    if arguments.dry_run:
        tasks = replay_tasks(scenario, arguments.schemes)
        say_demand(tasks[0].setup())
        rows = [{"replay": each.key, "jobs": each.setup().demand_in_words} for each in tasks]
        if not print_formatted(arguments.form, [planned := table_of_records(rows)]):
            print_table(planned)
        return 0
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
    if capture is not None:
        for run in replays.runs:
            if run.figures is not None and "captured" in run.figures:
                say(run.figures["captured"])
    if not replays.runs:
        return status
    # A reader such as head may close the output early, so all files are written before.
    pictures.write(lambda name: figure_of(replays, name, baseline=arguments.baseline))
    page = None if out is None else write_report(replays, baseline=arguments.baseline)
    print_replays(replays, arguments.form, arguments.baseline, measures)
    if page is not None and arguments.form == "table":
        print(f"{page}: a page with all results and plots")
    return status


def run_scenarios(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt scenarios``; return the exit code."""
    from lyra_opt.experiments.simulation.showing import catalogue

    if arguments.command == "show":
        from lyra_opt.experiments.simulation.scenario.documents import scenario_text

        print(scenario_text(arguments.scenario)[0], end="")
    elif arguments.command == "list":
        catalogue.print_scenarios(arguments.form)
    elif arguments.command == "keys":
        catalogue.print_keys(arguments.text)
    elif arguments.command == "parts":
        catalogue.print_parts()
    else:
        catalogue.print_schema()
    return 0


def run_schemes(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt schemes``; return the exit code."""
    from lyra_opt.experiments.simulation.showing.catalogue import print_schemes

    if arguments.scenario is None and (arguments.changes or arguments.jobs):
        raise UserError("--set and --jobs change a scenario. Name the scenario with --for.")
    scenario = None if arguments.scenario is None else given_scenario(arguments)
    print_schemes(scenario, arguments.form)
    return 0


def run_bound(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt bound``; return the exit code."""
    from lyra_opt.commands.messages import say
    from lyra_opt.commands.output import (
        output_folder,
        print_formatted,
        print_line,
        print_table,
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
        raise UserError("--schedule minimises the mean JCT of all jobs: omit --of")
    readings = [Reading(name) for name in dict.fromkeys(arguments.readings)]
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
            reading, cpu_s = proved.bound.reading.value, proved.bound.cpu_s
            say(f"reading {reading}: lower bound proved in {cpu_s:.1f} s of CPU time")
            found.append(proved)
            if out is not None:
                for name, document in proved.certificates().items():
                    write_text(out / name, format_document(document))
    table = _bounds_table(found)
    if not print_formatted(arguments.form, [table], [each.as_json_object() for each in found]):
        print_table(table, None)
        copies = "" if found[0].has_copies else " and a single copy of each job"
        print_line(
            "No schedule of these jobs has a smaller mean, whatever it knows, if it does what the "
            f"reading permits on these GPUs and loans, with no GPU shared{copies}."
        )
    return 0


def _check_bounds(scenario: Scenario, arguments: argparse.Namespace) -> int:
    from lyra_opt.commands.output import print_formatted, print_line, stdout_kept_clean
    from lyra_opt.core.numbers import DOWN, rounded
    from lyra_opt.core.table import table_of_records
    from lyra_opt.experiments.simulation.measuring.proving import check

    with stdout_kept_clean():
        checked = [check(scenario, file, schemes=arguments.schemes) for file in arguments.checks]
    if not print_formatted(arguments.form, [table_of_records(checked)], checked):
        for each in checked:
            says = "no less than" if each["holds"] else "LESS than"
            of_class = f" of {each['job_class']} jobs" if each["job_class"] != ALL else ""
            print_line(
                f"{each['file']}: {each['objective']}{of_class} under {each['reading']} is proved "
                f"to be at least {rounded(each['proved_mean_s'], 3, DOWN):,.3f} s, {says} the file "
                f"claims: {rounded(each['claimed_mean_s'], 3, DOWN):,.3f} s"
            )
    return 0 if all(each["holds"] for each in checked) else 1


def _bounds_table(found: Sequence[Proved]) -> Table:
    from lyra_opt.core.numbers import DOWN, UP, share, three_digits
    from lyra_opt.core.table import Column, Table

    def times(key: str, heading: str, values_s: Sequence[float | None]) -> Column:
        show = partial(three_digits, rounding=DOWN) if "bound" in key else three_digits
        return Column(key=key, values=values_s, show=show, heading=heading, unit="s")

    bounds = [proved.bound for proved in found]
    points = [proved.point for proved in found]
    columns = [Column(key=axis, values=[point[axis] for point in points]) for axis in points[0]]
    if len({proved.seed for proved in found}) > 1:
        columns.append(Column(key="seed", values=[proved.seed for proved in found]))
    if any(proved.job_class != ALL for proved in found):
        columns.append(Column(key="of", values=[proved.job_class for proved in found]))
    columns.append(Column(key="reading", values=[bound.reading.value for bound in bounds]))
    columns += [
        times(key, heading, [getattr(bound, key) for bound in bounds])
        for key, heading in BOUND_HEADINGS.items()
    ]
    if any(proved.gap is not None for proved in found):
        found_s = [None if each.schedule is None else each.schedule.jct_mean_s for each in found]
        columns.append(times("jct_mean_found_s", "mean JCT found", found_s))
        gaps = [proved.gap for proved in found]
        at_most = partial(share, rounding=UP)
        columns.append(Column(key="gap", values=gaps, show=at_most, heading="gap", unit="%"))
    return Table(columns)
