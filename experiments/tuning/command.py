"""``lyra-opt tune-timers``: Dally's best fixed timers for a cluster and its jobs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lyra_opt.commands.arguments import (
    add_command,
    add_json_option,
    add_processes_option,
    add_seed_option,
    completed_by,
    integer_from,
)
from lyra_opt.experiments.simulation.command import add_changes, given_scenario, scenario_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.scenario import Scenario
    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.experiments.tuning.outcome import Tuning
    from lyra_opt.experiments.tuning.situation import Situation
    from lyra_opt.experiments.tuning.timer_space import TimerSpace
    from lyra_opt.simulation.scheme import Scheme

TIMERS_FILE, RESULT_FILE = "timers.toml", "tuning.json"
DEFAULT_TRIALS, LEAST_TRIALS, MOST_TRIALS = 60, 4, 100_000
DEFAULT_SEEDS, MOST_SEEDS = 4, 1000
DEFAULT_MOST_LEASES, MOST_LEASES = 24, 100_000
MOST_CHANGES = 100_000

DESCRIPTION = """\
Find the fixed delay timers, by demand class, under which Dally's order gives the least mean JCT
over several draws of jobs, by simulating candidates (simulation optimisation with Optuna, extra
"tuning"). Every candidate sees the same draws. Baselines are tried first, so that what is found is
no worse on these draws; what it is worth shows on fresh draws, beside the baselines, Dally's
auto-tuner and the schemes of the scenario. A scenario with axes is answered point by point.

Classes are gangs that fit a machine, and larger ones that fit a rack; nothing holds back larger
ones still. Timers are whole leases or for ever. The name of a baseline with longer timers than
--most-leases says to what they are cut.
"""

EXAMPLES = """\
examples:
  lyra-opt tune-timers dally-batch --set jobs.parameters.jobs=100 --out tuned
  lyra-opt simulate dally-batch \\
    --set 'schemes=["dally", {name="manual", timers="tuned/timers.toml"}]'

Exit code: 0; 1 if a simulation failed its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers,
        "tune-timers",
        "find Dally's best fixed timers by simulation",
        DESCRIPTION,
        EXAMPLES,
    )
    scenario = parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        help="cluster with a network, and jobs: a name, such as dally-batch, or a TOML file",
    )
    completed_by(scenario, scenario_names)
    add_changes(parser)
    parser.add_argument(
        "--trials",
        type=integer_from(LEAST_TRIALS, MOST_TRIALS),
        default=DEFAULT_TRIALS,
        metavar="N",
        help=f"timers that are tried, {LEAST_TRIALS} baselines among them "
        f"(default: {DEFAULT_TRIALS})",
    )
    parser.add_argument(
        "--seeds",
        type=integer_from(1, MOST_SEEDS),
        default=DEFAULT_SEEDS,
        metavar="K",
        help="draws of jobs that timers are tuned on, and as many fresh ones "
        f"(default: {DEFAULT_SEEDS})",
    )
    add_seed_option(parser, "the first draw, and of the search")
    parser.add_argument(
        "--classes",
        type=_classes,
        default=(),
        metavar="GPUS,...",
        help="largest gangs of other demand classes, such as 2,4,8,64; a last class is added for "
        "larger ones that timers can hold back (default: the largest machine, and the largest "
        "rack)",
    )
    parser.add_argument(
        "--most-leases",
        type=integer_from(0, MOST_LEASES),
        default=DEFAULT_MOST_LEASES,
        metavar="N",
        help=f"longest timer that is not for ever (default: {DEFAULT_MOST_LEASES})",
    )
    parser.add_argument(
        "--clairvoyant",
        type=integer_from(0, MOST_CHANGES),
        metavar="N",
        help="search too for timers of each job, and for an order, that one who knows all jobs "
        "could choose, by so many changes of plans, and prove what no schedule can beat",
    )
    add_processes_option(parser, "draws")
    add_json_option(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help=f"write {TIMERS_FILE}, for scheme manual, and {RESULT_FILE} with all trials there",
    )
    parser.set_defaults(run=run)


def _classes(text: str) -> tuple[int, ...]:
    """Argument type: increasing numbers of GPUs."""
    parts = text.split(",")
    gangs = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 9]
    is_increasing = all(first < second for first, second in pairwise(gangs))
    if len(gangs) < len(parts) or not is_increasing or gangs[0] < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be increasing numbers of GPUs of at least 1, such as 2,4,8,64"
        )
    return tuple(gangs)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.folders import output_folder, require_folder_path
    from lyra_opt.commands.messages import complain
    from lyra_opt.commands.output import print_json, stdout_kept_clean
    from lyra_opt.experiments.simulation.carried_out import SimulationError
    from lyra_opt.experiments.simulation.scenario import variants
    from lyra_opt.experiments.tuning.search import load_optuna

    # All that can be wrong is found out before the first simulation.
    load_optuna()
    if arguments.out is not None:
        require_folder_path("--out", Path(arguments.out))
    out = None if arguments.out is None else Path(arguments.out)
    questions = [_Question.of(arguments, *each) for each in variants(given_scenario(arguments))]
    answers = []
    try:
        with output_folder("--out", out), stdout_kept_clean():
            for question in questions:
                tuning = question.tuned(arguments)
                answers.append((question, tuning, question.record(arguments, tuning)))
            if out is not None:
                _write(arguments, answers, out)
    except SimulationError as error:
        complain(f"error: {error}")
        return 1
    if arguments.json:
        records = [record for _, _, record in answers]
        print_json(records[0] if len(records) == 1 else records)
    else:
        for question, tuning, record in answers:
            _print(arguments, question, tuning, record)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What timers are asked for: a variant of a scenario, with its draws of jobs.

    Parameters
    ----------
    point
        What the variant has of each axis.
    schemes
        Those of the scenario, which are simulated beside.
    setups
        Of each seed.
    seeds
        Of the draws that timers are tuned on, and then of as many fresh ones.
    space
        The timers to choose from.
    """

    point: Mapping[str, Any]
    schemes: Sequence[Scheme]
    setups: Sequence[Setup]
    seeds: Sequence[int]
    space: TimerSpace

    @classmethod
    def of(
        cls, arguments: argparse.Namespace, point: Mapping[str, Any], scenario: Scenario
    ) -> _Question:
        """Return what a variant asks; `UserError` if it has no network."""
        from lyra_opt.core.errors import UserError
        from lyra_opt.experiments.simulation.building import make_schemes, make_setup
        from lyra_opt.experiments.tuning.timer_space import TimerSpace
        from lyra_opt.simulation.scheme import find_scheme

        seeds = range(arguments.seed, arguments.seed + 2 * arguments.seeds)
        # Every candidate sees jobs that all placement rules, and all schemes, can run.
        schemes = make_schemes(scenario)
        setups = [make_setup(scenario, [find_scheme("manual"), *schemes], seed) for seed in seeds]
        cluster = setups[0].cluster
        if cluster.topology is None or cluster.communication is None:
            raise UserError(f"{scenario.source}: must have a network, for whose racks timers are")
        space = TimerSpace.of(
            cluster.topology, most_leases=arguments.most_leases, classes=arguments.classes
        )
        return cls(point=point, schemes=schemes, setups=setups, seeds=seeds, space=space)

    @property
    def name(self) -> str:
        """Its point in words; empty of a scenario without axes."""
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())

    @property
    def folder(self) -> str:
        """Where its answer is written below the folder of all."""
        return quote(self.name, safe=" =,+()")

    def situation(self, setups: Sequence[Setup]) -> Situation:
        """Return some of the draws, on the cluster that they share."""
        from lyra_opt.experiments.tuning.situation import Situation

        return Situation(
            cluster=setups[0].cluster,
            draws=tuple(setup.workload for setup in setups),
            options=setups[0].options,
        )

    def tuned(self, arguments: argparse.Namespace) -> Tuning:
        """Tune the timers, and compare them."""
        from lyra_opt.commands.progress import progress
        from lyra_opt.experiments.pool import available_processors
        from lyra_opt.experiments.tuning.clairvoyant import compared_with, search_all
        from lyra_opt.experiments.tuning.outcome import compare
        from lyra_opt.experiments.tuning.search import tune
        from lyra_opt.experiments.tuning.situation import evaluator

        processes = arguments.processes or available_processors()
        known = self.situation(self.setups[: arguments.seeds])
        fresh = self.situation(self.setups[arguments.seeds :])
        with (
            progress("tuning", arguments.trials, "trials") as advance,
            evaluator(known, processes=processes) as evaluate,
        ):
            trials = tune(
                evaluate,
                self.space,
                trials=arguments.trials,
                seed=arguments.seed,
                advance=advance,
            )
            with evaluator(fresh, processes=processes) as evaluate_fresh:
                tuning = compare(trials, evaluate, evaluate_fresh, self.schemes)
        if arguments.clairvoyant is None:
            return tuning
        found = search_all(
            known, self.seeds[: arguments.seeds], changes=arguments.clairvoyant, processes=processes
        )
        rows = compared_with(tuning.compared, found)
        return replace(tuning, compared=(*tuning.compared, *rows))

    def record(self, arguments: argparse.Namespace, tuning: Tuning) -> dict[str, Any]:
        """Return all of an answer, as JSON has it."""
        cluster, leases = self.setups[0].cluster, self.setups[0].options.leases
        assert cluster.topology is not None, "it was checked"
        draws = [setup.workload for setup in self.setups]
        dropped = [setup.dropped for setup in self.setups]
        of_seeds = {seed: draw.assumptions for seed, draw in zip(self.seeds, draws, strict=True)}
        return {
            **({"axes": dict(self.point)} if self.point else {}),
            "workload": draws[0].name.removesuffix(f"-seed{self.seeds[0]}"),
            "topology": cluster.topology.name,
            "network": cluster.network,
            "lease_s": leases.lease_s,
            "hand_over_s_per_gpu": leases.hand_over_s_per_gpu,
            "seeds": list(self.seeds[: arguments.seeds]),
            "fresh_seeds": list(self.seeds[arguments.seeds :]),
            "trials": arguments.trials,
            "dropped": dropped[: arguments.seeds],
            "fresh_dropped": dropped[arguments.seeds :],
            **tuning.as_json_object(),
            "assumptions": [*_assumptions(of_seeds), *cluster.assumptions],
        }


def _write(
    arguments: argparse.Namespace,
    answers: Sequence[tuple[_Question, Tuning, dict[str, Any]]],
    out: Path,
) -> None:
    """Write results and timers, those of a scenario with axes into a folder for each point."""
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.core.errors import counted
    from lyra_opt.simulation.network.class_timers import timers_text

    for question, tuning, record in answers:
        remarks = (
            *((f"{question.name}.",) if question.name else ()),
            f"Best of {arguments.trials} timers on {counted(arguments.seeds, 'draw')} of "
            f"{record['workload']}, cluster {record['topology']}, network {record['network']}.",
            "Leases that gangs wait before they accept machines of one rack, and of several.",
        )
        folder = out / question.folder
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / RESULT_FILE, format_document(record))
        write_text(folder / TIMERS_FILE, timers_text(tuning.timers, remarks))


def _assumptions(by_seed: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield the sentences of all draws, each once, with the seeds where it is not of all."""
    for sentence in dict.fromkeys(chain.from_iterable(by_seed.values())):
        seeds = [seed for seed, sentences in by_seed.items() if sentence in sentences]
        if len(seeds) == len(by_seed):
            yield sentence
        else:
            yield f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: {sentence}"


def _print(
    arguments: argparse.Namespace, question: _Question, tuning: Tuning, record: dict[str, Any]
) -> None:
    from lyra_opt.commands.output import print_line, print_table
    from lyra_opt.core.errors import counted
    from lyra_opt.experiments.tuning.clairvoyant import shares_in_words
    from lyra_opt.experiments.tuning.outcome import HEADER

    print_line(
        f"{question.name}{': ' * bool(question.name)}{record['workload']}, "
        f"cluster {record['topology']}, network {record['network']}; "
        f"{counted(arguments.seeds, 'draw')}, and as many fresh ones:"
    )
    print_table(HEADER, tuning.rows(), right=1)
    print(f"Best of {arguments.trials}, leases before a rack / several racks:")
    print_line(f"  {tuning.timers.in_words()}", indent="  ")
    if arguments.clairvoyant is not None:
        print_line(shares_in_words(tuning.compared))
    print("In brackets the least and the greatest over draws.")
    if arguments.out is not None:
        path = Path(arguments.out) / question.folder / TIMERS_FILE
        print(f"{path}: for the parameter timers of scheme manual")
    print("What is assumed:")
    for sentence in record["assumptions"]:
        print_line(f"- {sentence}", indent="  ")
