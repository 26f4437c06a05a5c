"""The command ``lyra-opt generate``, which writes instances of a family to files.

Families need NumPy, so they are imported only when the command runs.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import completed_by
from lyra_opt.commands.messages import say
from lyra_opt.commands.output import make_folder, require_folder_path
from lyra_opt.core.errors import UserError, show_value
from lyra_opt.core.nearest_names import suggestion
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
from lyra_opt.instances.preemption.parameters import PreemptionParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lyra_opt.core.problem import Problem
    from lyra_opt.instances.family import Family
    from lyra_opt.instances.parameters import Parameter

COUNT = IntegerParameter(
    meaning="number of instances, with seeds N, N + 1, ...", least=1, largest=1_000_000, default=1
)

LARGEST_PENDING_BYTES = 256 * 2**20
"""The size of generated files to keep in memory before the first file is written."""

PARAMETERS = {
    "allocation": AllocationParameters,
    "heterogeneous": HeterogeneousParameters,
    "network": NetworkParameters,
    "preemption": PreemptionParameters,
    "reclaim": ReclaimParameters,
}
"""The class whose fields are the parameters of the families, by problem."""


def add_parameters(problems: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the options of ``lyra-opt generate PROBLEM``, which follow from the families."""
    for problem, parser in problems.items():
        parameters = parameters_of(PARAMETERS[problem])
        family = parser.add_argument("--family", metavar="F", help="name of a family")
        completed_by(family, partial(_families, problem))
        varied = parser.add_argument_group("parameters of the families")
        for name, parameter in parameters.items():
            # Options have no defaults, because each family sets and checks its own parameters.
            _add_option(varied, name, parameter, default=None)
        output = parser.add_argument_group("output")
        _add_option(output, "seed", SEED, default=SEED.default)
        _add_option(output, "count", COUNT, default=COUNT.default)
        output.add_argument(
            "--gzip", action="store_true", help="compress the files: write NAME.json.gz"
        )
        output.add_argument("--out", metavar="DIR", help="folder; existing files are replaced")
        parser.set_defaults(parameters=tuple(parameters))


def _print_families(problem: str) -> None:
    from lyra_opt.commands.output import print_meanings
    from lyra_opt.instances.family import family_summaries

    print_meanings(family_summaries(problem))


def _families(problem: str) -> list[str]:
    from lyra_opt.instances.family import family_names

    return family_names(problem)


def _add_option(
    parser: argparse._ActionsContainer, name: str, parameter: Parameter, *, default: int | None
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
            hint = suggestion(value, parameter.choices)
            raise argparse.ArgumentTypeError(f"{show_value(value)}: {parameter.rule}{hint}")
        return value

    return parse


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt generate PROBLEM``, and return the exit code."""
    from lyra_opt.core.documents import write_bytes
    from lyra_opt.core.problem import find_problem
    from lyra_opt.instances.family import find_family

    if arguments.family is None and arguments.out is None:
        _print_families(arguments.command)
        return 0
    for name in ("family", "out"):
        if getattr(arguments, name) is None:
            raise UserError(f"--{name} is missing: --family and --out are both required")
    family = find_family(arguments.command, arguments.family)
    parameters = {name: getattr(arguments, name) for name in arguments.parameters}
    if arguments.count > 1 and not family.is_seeded(parameters):
        raise UserError(
            f"--count is {arguments.count}: must be 1 for family {family.name}, whose "
            "instances do not depend on the seed"
        )
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    if not SEED.accepts(seeds[-1]):
        raise UserError(f"--count is {arguments.count}: the last seed {SEED.rule}")

    folder = Path(arguments.out)
    require_folder_path("--out", folder)
    files = _files(find_problem(arguments.command), family, parameters, seeds, arguments.gzip)
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
    """Yield path and content of each output file: the instances and their known optima."""
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
    """Generate files in large blocks, and yield the files of a block once it is complete.

    If all files fit in memory, an error of the generator appears before any file is written.
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
