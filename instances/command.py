"""``lyra-opt generate``: write instances of a family.

Only what the parser needs is imported here; families, and NumPy with them, are when it runs or
prints the help that lists them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import OneLineParser, add_command, completed_by
from lyra_opt.commands.messages import say
from lyra_opt.commands.output import make_folder, require_folder_path
from lyra_opt.core.errors import UserError, show_value
from lyra_opt.instances.family_parameters import (
    AllocationParameters,
    HeterogeneousParameters,
    NetworkParameters,
    ReclaimParameters,
)
from lyra_opt.instances.parameters import (
    SEED,
    ChoiceParameter,
    IntegerParameter,
    option,
    parameters_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lyra_opt.core.problem import Problem
    from lyra_opt.instances.family import Family
    from lyra_opt.instances.parameters import Parameter

COUNT = IntegerParameter(
    meaning="how many instances, of the seeds N, N + 1, ...", least=1, largest=1_000_000, default=1
)

LARGEST_PENDING_BYTES = 256 * 2**20
"""How much is kept in memory before the first file is written."""

RECLAIM_DESCRIPTION = """\
Write reclaim instances of a family, one file NAME.json each, and print their paths.

The same parameters and seed give the same bytes, on any machine. Instances that differ in
--reclaim, --semantics or --off-loan-percent alone are the same fleet with the same jobs.
Where the optimum is known by construction it is written to solutions/NAME.solution.json."""

RECLAIM_EXAMPLES = """\
examples:
  lyra-opt generate reclaim --family messy-dist --servers 520 --reclaim 156 --count 5 --out fleets
  lyra-opt generate reclaim --family net --reclaim 6 --out fleets
  lyra-opt generate reclaim --family snapshot --trace TRACE.csv.gz --servers 520 --reclaim 156 \\
      --placement messy --count 10 --gzip --out fleets
"""

ALLOCATION_DESCRIPTION = """\
Write allocation instances of a family, one file NAME.json each, and print their paths.

The same parameters and seed give the same bytes, on any machine. Instances of family load that
differ in load, objective, scaling loss, releases or GPUs a worker alone are otherwise the same
jobs."""

ALLOCATION_EXAMPLES = """\
examples:
  lyra-opt generate allocation --family light --jobs 50 --count 10 --out queues
  lyra-opt generate allocation --family load --jobs 8 --load-percent 400 --release-percent 100 \\
      --scaling-loss-percent 20 --out queues
  lyra-opt generate allocation --family load --jobs 300 --objective jct_reduction --gpus 4000 \\
      --gpus-per-worker mixed --extra-workers 8 --out queues
  lyra-opt generate allocation --family worst-case --jobs 61 --out queues
"""


HETEROGENEOUS_DESCRIPTION = """\
Write heterogeneous instances of a family, one file NAME.json each, and print their paths.

The same parameters and seed give the same bytes, on any machine. Instances that differ in
--objective, --gpus-of-server or --forking alone are the same jobs."""

HETEROGENEOUS_EXAMPLES = """\
examples:
  lyra-opt generate heterogeneous --family offline --jobs 8 --count 10 --out rounds
  lyra-opt generate heterogeneous --family offline --jobs 6 --rounds 40 --objective makespan \\
      --release-percent 0 --forking yes --gpus-of-server 1 --out rounds
"""

NETWORK_DESCRIPTION = """\
Write network instances of a family, one file NAME.json each, and print their paths.

The same parameters and seed give the same bytes, on any machine. Instances that differ in
--objective or --timers alone are the same gangs and machines; with another --network the gangs
compute as well as its links let them, and those that ran before have the scores of these links."""

NETWORK_EXAMPLES = """\
examples:
  lyra-opt generate network --family epoch --jobs 20 --count 10 --out epochs
  lyra-opt generate network --family epoch --jobs 40 --racks 8 --machines-per-rack 8 \\
      --busy-percent 50 --network congested-3 --timers none --objective work_rate --out epochs
"""


@dataclass(frozen=True, slots=True)
class _ProblemCommand:
    """What ``generate PROBLEM`` says and takes.

    Parameters
    ----------
    problem
        Its name.
    help, description, examples
        For ``--help``.
    parameters
        Those of its families.
    """

    problem: str
    help: str
    description: str
    examples: str
    parameters: Mapping[str, Parameter]


COMMANDS = (
    _ProblemCommand(
        "allocation",
        "how many workers each elastic job gets",
        ALLOCATION_DESCRIPTION,
        ALLOCATION_EXAMPLES,
        parameters_of(AllocationParameters),
    ),
    _ProblemCommand(
        "heterogeneous",
        "which gangs run on which of unlike GPUs, round by round",
        HETEROGENEOUS_DESCRIPTION,
        HETEROGENEOUS_EXAMPLES,
        parameters_of(HeterogeneousParameters),
    ),
    _ProblemCommand(
        "network",
        "which waiting gangs start, and how close together",
        NETWORK_DESCRIPTION,
        NETWORK_EXAMPLES,
        parameters_of(NetworkParameters),
    ),
    _ProblemCommand(
        "reclaim",
        "which servers on loan to give back",
        RECLAIM_DESCRIPTION,
        RECLAIM_EXAMPLES,
        parameters_of(ReclaimParameters),
    ),
)


class _FamilyListingParser(OneLineParser):
    """A parser whose help lists the families, which are loaded only to print it."""

    def format_help(self) -> str:
        """Return the help with a line for each family."""
        from lyra_opt.instances.family import family_names, find_family

        problem: str = self.get_default("problem")
        lines = [
            f"  {name:<12} {find_family(problem, name).summary}" for name in family_names(problem)
        ]
        self.epilog = "\n".join(["families:", *lines, "", self.get_default("examples")])
        return super().format_help()


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    generate = add_command(
        subparsers,
        "generate",
        "write instances of a family, synthetic or cut from a trace",
        "Write instances of a family, synthetic or cut from a job trace.",
        '"lyra-opt generate PROBLEM --help" lists the families of a problem.',
    )
    problems = generate.add_subparsers(metavar="PROBLEM", parser_class=_FamilyListingParser)
    for command in COMMANDS:
        _add_problem(problems, command)


def _add_problem(problems: argparse._SubParsersAction[Any], command: _ProblemCommand) -> None:
    parser = problems.add_parser(
        command.problem, help=command.help, description=command.description
    )
    family = parser.add_argument(
        "--family", metavar="F", required=True, help="one of those listed below"
    )
    completed_by(family, partial(_families, command.problem))
    for name, parameter in command.parameters.items():
        # The family knows its own defaults, and says what it requires or does not take.
        _add_option(parser, name, parameter, default=None)
    _add_option(parser, "seed", SEED, default=SEED.default)
    _add_option(parser, "count", COUNT, default=COUNT.default)
    parser.add_argument("--gzip", action="store_true", help="write NAME.json.gz instead")
    parser.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="folder to write to, made if it is missing; files of the same name are replaced",
    )
    parser.set_defaults(
        run=run,
        problem=command.problem,
        examples=command.examples,
        parameters=tuple(command.parameters),
    )


def _families(problem: str) -> list[str]:
    from lyra_opt.instances.family import family_names

    return family_names(problem)


def _add_option(
    parser: argparse.ArgumentParser, name: str, parameter: Parameter, *, default: int | None
) -> None:
    action = parser.add_argument(
        option(name),
        dest=name,
        metavar=parameter.metavar,
        type=_argument_type(parameter),
        default=default,
        help=parameter.help.replace("%", "%%"),
    )
    if isinstance(parameter, ChoiceParameter):
        completed_by(action, lambda: parameter.choices)


def _argument_type(parameter: Parameter) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        value = parameter.parse(text)
        if not parameter.accepts(value):
            raise argparse.ArgumentTypeError(f"{show_value(value)}: {parameter.rule}")
        return value

    return parse


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.core.documents import write_bytes
    from lyra_opt.core.problem import find_problem
    from lyra_opt.instances.family import find_family

    family = find_family(arguments.problem, arguments.family)
    parameters = {name: getattr(arguments, name) for name in arguments.parameters}
    if arguments.count > 1 and not family.is_seeded(parameters):
        raise UserError(
            f"--count is {arguments.count}: must be 1 for family {family.name}, which makes one "
            "instance for these parameters whatever the seed"
        )
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    if not SEED.accepts(seeds[-1]):
        raise UserError(f"--count is {arguments.count}: the last seed {SEED.rule}")

    folder = Path(arguments.out)
    require_folder_path("--out", folder)
    files = _files(find_problem(arguments.problem), family, parameters, seeds, arguments.gzip)
    for path, content in _generated_ahead(files):
        target = folder / path
        make_folder(target.parent)
        write_bytes(target, content)
        print(target)
    for remark in family.remarks(parameters):
        say(remark)
    return 0


def _files(
    problem: Problem,
    family: Family,
    parameters: dict[str, Any],
    seeds: Sequence[int],
    is_compressed: bool,
) -> Iterator[tuple[Path, bytes]]:
    """Yield the path inside the output folder and the content of each file."""
    from lyra_opt.core.documents import format_document, gzip_bytes

    for seed in seeds:
        instance = family.generate(parameters, seed)
        content = format_document(problem.instance_document(instance)).encode()
        if is_compressed:
            yield Path(f"{instance.name}.json.gz"), gzip_bytes(content)
        else:
            yield Path(f"{instance.name}.json"), content
        known = family.known_optimum(parameters)
        if known is not None:
            document = problem.solution_document(instance, *known)
            path = Path("solutions", f"{instance.name}.solution.json")
            yield path, format_document(document).encode()


def _generated_ahead(files: Iterator[tuple[Path, bytes]]) -> Iterator[tuple[Path, bytes]]:
    """Yield the same files, each only after as many as memory allows have been generated.

    What can go wrong in generating goes wrong before the first file is written, then.
    """
    pending: list[tuple[Path, bytes]] = []
    pending_bytes = 0
    for path, content in files:
        pending.append((path, content))
        pending_bytes += len(content)
        if pending_bytes > LARGEST_PENDING_BYTES:
            yield from pending
            pending, pending_bytes = [], 0
    yield from pending
