"""``lyra-opt counterexample``: find a small instance on which a heuristic is worse."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import add_debug_option, integer_from, plain_text, ratio, seconds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver
    from lyra_opt.testing.counterexamples import (
        Counterexample,
        CounterexampleSearch,
        InstanceSpace,
        Size,
    )

DESCRIPTION = """\
Find a small instance of reclaim or allocation on which a heuristic is worse than another solver
or than the optimum, and write it, with both solutions beside it.

Smaller is, of reclaim: fewer servers, or as many and fewer jobs, then fewer workers, less weight,
fewer GPUs, a smaller N_R. Of allocation: fewer jobs, or as many and fewer GPUs, then fewer
workers, smaller base demands, less work, earlier releases. The smallest instances are tried
first, plain ones in full while they are few, others at random. What is found is reduced as far
as it stays a counterexample.

Plain is, of reclaim: all servers on loan, at most one worker of a job on a server, one GPU a
worker, weights up to 2. Of allocation: one GPU a worker, work up to 3, no releases, running jobs
or scaling losses.

The output says what is proved: both values and the optimum always, that nothing is smaller only
where all smaller plain instances were tried. Of objectives that are no integers, such as a mean
JCT, only what is worse by more than a millionth is a counterexample."""

EXAMPLES = """\
examples:
  lyra-opt counterexample --heuristic lyra-greedy --against optimum
      writes lyra-greedy-against-optimum.json, and .lyra-greedy.solution.json,
      .optimum.solution.json beside it
  lyra-opt counterexample --heuristic lyra-greedy --against peeling --max-weight 1 --out a.json
      where all jobs count the same
  lyra-opt counterexample --heuristic peeling --against optimum --min-ratio 4 --json
      at least four times as much as the optimum
  lyra-opt counterexample --heuristic lyra --against srw
      two policies of elastic allocation
  lyra-opt counterexample --heuristic lyra --against optimum --max-release 0
      where all jobs are there from the start
  lyra-opt counterexample --heuristic mckp-greedy --against optimum --objective joint

The same seed gives the same answer, unless --time-limit ends the search.
Exit code: 0; 1 if none was found (nothing is written then) or a solver failed; 2 for bad input.
"""


@dataclass(frozen=True, slots=True)
class _Searched:
    """A problem whose instances can be searched.

    Parameters
    ----------
    options
        Those of this problem alone, as attributes of the parsed arguments, None if not given.
    make_space
        Return its instances, as the arguments ask for, on which both solvers can be compared.
    """

    options: Sequence[str]
    make_space: Callable[[argparse.Namespace, Solver, Solver | None], InstanceSpace[Any]]


def _reclaim_space(
    arguments: argparse.Namespace, heuristic: Solver, against: Solver | None
) -> InstanceSpace[Any]:
    import math

    from lyra_opt.reclaim.counterexamples import DEFAULT_MAX_WEIGHT, ReclaimSpace

    enough = min(math.ceil(arguments.min_ratio), LARGEST_WEIGHT)
    return ReclaimSpace(
        arguments.semantics or _common_variant(heuristic, against, "rigid"),
        max_weight=arguments.max_weight or max(DEFAULT_MAX_WEIGHT, enough),
        **_given(arguments, "max_servers", "max_jobs"),
    )


def _allocation_space(
    arguments: argparse.Namespace, heuristic: Solver, against: Solver | None
) -> InstanceSpace[Any]:
    from lyra_opt.allocation.counterexamples import AllocationSpace
    from lyra_opt.core.errors import UserError

    objective = arguments.objective or _common_variant(heuristic, against, "mean_jct")
    if arguments.max_release is not None and objective != "mean_jct":
        raise UserError(
            f"--max-release {arguments.max_release}: releases play no part in the objective "
            f"{objective}"
        )
    return AllocationSpace(
        objective,
        **_given(arguments, "max_jobs", "max_gpus", "max_work", "max_release"),
    )


SEARCHED = {
    "allocation": _Searched(
        ("max_gpus", "max_work", "max_release", "objective"), _allocation_space
    ),
    "reclaim": _Searched(("max_servers", "max_weight", "semantics"), _reclaim_space),
}

LARGEST_WEIGHT = 1_000_000

UNITS = {"_worker_s": "worker-s", "_s": "s", "_percent": "%"}
"""How the names of measures end that have a unit."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "counterexample",
        help="find a small instance on which a heuristic is worse",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--heuristic",
        required=True,
        type=plain_text,
        metavar="A",
        help='a solver without proof ("lyra-opt solvers" lists them)',
    )
    parser.add_argument(
        "--against",
        required=True,
        type=plain_text,
        metavar="B",
        help='another solver, or the word "optimum"',
    )
    parser.add_argument(
        "--problem",
        choices=tuple(SEARCHED),
        help="of the instance (default: the only one that A and B solve)",
    )
    parser.add_argument(
        "--min-ratio",
        type=ratio,
        default=1,
        metavar="R",
        help="A must be at least R times as bad as B, and worse in any case: pay R times as much, "
        "or gain one R-th; where the smaller value is 0 the ratio is infinite (default: 1)",
    )
    # The limits are those of `lyra_opt.reclaim.counterexamples` and
    # `lyra_opt.allocation.counterexamples`, which are not loaded for --help.
    parser.add_argument(
        "--max-jobs",
        type=integer_from(1, 16),
        metavar="N",
        help="most jobs, 1 to 16 (default: 6 of reclaim, 4 of allocation)",
    )
    parser.add_argument(
        "--seed",
        type=integer_from(0),
        default=0,
        metavar="N",
        help="seed of the search and of both solvers (default: 0)",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        metavar="S",
        dest="time_limit_s",
        help="seconds for the search (default: no limit)",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object to stdout")
    parser.add_argument(
        "--out",
        type=plain_text,
        metavar="FILE",
        help="instance file to write (default: A-against-B.json); this file and the solution "
        "files beside it are replaced if they exist",
    )
    add_debug_option(parser)
    _add_options_of_reclaim(parser.add_argument_group("instances of reclaim"))
    _add_options_of_allocation(parser.add_argument_group("instances of allocation"))
    parser.set_defaults(run=run)


def _add_options_of_reclaim(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-servers",
        type=integer_from(1, 16),
        metavar="N",
        help="most servers, 1 to 16 (default: 6)",
    )
    group.add_argument(
        "--max-weight",
        type=integer_from(1, LARGEST_WEIGHT),
        metavar="N",
        help="largest weight of a job (default: 3, or R rounded up if that is more)",
    )
    group.add_argument(
        "--semantics",
        choices=("rigid", "interchangeable"),
        help="of the instance (default: rigid, or the one that both solvers take)",
    )


def _add_options_of_allocation(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-gpus",
        type=integer_from(1, 64),
        metavar="N",
        help="most GPUs, 1 to 64 (default: 6)",
    )
    group.add_argument(
        "--max-work",
        type=integer_from(1, 1_000_000),
        metavar="N",
        help="most work of a job, in worker-seconds (default: 24)",
    )
    group.add_argument(
        "--max-release",
        type=integer_from(0, 1_000_000),
        metavar="S",
        help="latest release of a job, in seconds, of mean_jct; 0: all jobs are there from the "
        "start (default: 8)",
    )
    group.add_argument(
        "--objective",
        choices=("jct_reduction", "two_phase", "joint", "mean_jct"),
        help="of the instance (default: mean_jct, or the first that both solvers take)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import print_json, require_file_path, stdout_kept_clean
    from lyra_opt.core.errors import UserError, one_line
    from lyra_opt.core.solver import find_solver
    from lyra_opt.testing.counterexamples import (
        OPTIMUM,
        SolverFailedError,
        find_counterexample,
        require_comparable,
    )

    problem = _find_problem(arguments)
    _refuse_options_of_others(arguments, problem)
    heuristic = find_solver(problem, arguments.heuristic)
    against = None if arguments.against == OPTIMUM else find_solver(problem, arguments.against)
    space = SEARCHED[problem].make_space(arguments, heuristic, against)
    require_comparable(space.problem, space.variant, heuristic, against)
    names = (heuristic.name, arguments.against)
    out = Path(arguments.out or f"{_file_name('-against-'.join(names))}.json")
    require_file_path("--out", str(out))
    if out.exists() and not out.is_file():
        raise UserError(f"--out {out}: is no regular file, which can be read again")
    solution_files = [_beside(out, name) for name in names]
    try:
        with stdout_kept_clean(), _progress(space) as progress:
            search = find_counterexample(
                space,
                heuristic,
                against,
                min_ratio=arguments.min_ratio,
                seed=arguments.seed,
                time_limit_s=arguments.time_limit_s,
                progress=progress,
            )
            if search.counterexample is not None:
                _write(search.counterexample, out, solution_files)
                _check_files(search.counterexample, space, heuristic, against, out, solution_files)
    except SolverFailedError as error:
        if arguments.debug and error.traceback is not None:
            print(error.traceback, file=sys.stderr)
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    files = [out, *solution_files] if search.counterexample is not None else []
    if arguments.json:
        print_json(_record(search, space, arguments, files))
    else:
        for line in _lines(search, space, arguments, files):
            print(one_line(line))
    return 0 if search.counterexample is not None else 1


def _find_problem(arguments: argparse.Namespace) -> str:
    """Return the problem that is asked for, or the only one that both solvers solve."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.solver import solver_names
    from lyra_opt.testing.counterexamples import OPTIMUM

    searched = list(SEARCHED) if arguments.problem is None else [arguments.problem]
    names = {problem: [name for _, name in solver_names(problem)] for problem in searched}
    found = [problem for problem in searched if arguments.heuristic in names[problem]]
    if not found:
        raise UserError(
            f"solver {arguments.heuristic!r}: no such solver of {' or '.join(searched)}; known: "
            + "; ".join(f"{problem}: {', '.join(names[problem])}" for problem in searched)
        )
    if arguments.against != OPTIMUM:
        of_heuristic = found
        found = [problem for problem in of_heuristic if arguments.against in names[problem]]
        if not found:
            known = "; ".join(", ".join(names[problem]) for problem in of_heuristic)
            raise UserError(
                f'--against {arguments.against!r}: must be "{OPTIMUM}" or a solver of '
                f"{' or '.join(of_heuristic)}: {known}"
            )
    if len(found) > 1:
        raise UserError(
            f"--heuristic {arguments.heuristic!r}: is a solver of {' and of '.join(found)}; "
            "say which with --problem"
        )
    return found[0]


def _refuse_options_of_others(arguments: argparse.Namespace, problem: str) -> None:
    from lyra_opt.core.errors import UserError

    for other, searched in SEARCHED.items():
        for option in searched.options if other != problem else ():
            if getattr(arguments, option) is not None:
                raise UserError(
                    f"--{option.replace('_', '-')} {getattr(arguments, option)}: is an option of "
                    f"{other}, but {arguments.heuristic} is compared on {problem} instances"
                )


def _given(arguments: argparse.Namespace, *options: str) -> dict[str, Any]:
    """Return those of the options that were given."""
    values = {option: getattr(arguments, option) for option in options}
    return {option: value for option, value in values.items() if value is not None}


def _common_variant(heuristic: Solver, against: Solver | None, preferred: str) -> str:
    """Return `preferred` if both take it, else the first that both, or the heuristic, take."""
    other = heuristic if against is None else against
    common = [variant for variant in heuristic.variants if variant in other.variants]
    return preferred if preferred in common else [*common, *heuristic.variants, preferred][0]


def _file_name(text: str) -> str:
    """Return `text` with what a file name should not hold replaced; solvers may be anybody's."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def _beside(out: Path, solver: str) -> Path:
    stem = out.name.removesuffix(".gz").removesuffix(".json")
    return out.with_name(f"{stem}.{_file_name(solver)}.solution.json")


@contextmanager
def _progress(space: InstanceSpace[Any]) -> Iterator[Callable[[Size], None]]:
    """Show on a terminal which size is searched; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("searching") as status:
        yield lambda size: status.update(
            "searching " + ", ".join(map(_measure, space.size_names, size))
        )


def _write(found: Counterexample, out: Path, solution_files: list[Path]) -> None:
    from lyra_opt.core.documents import gzip_bytes, write_bytes
    from lyra_opt.core.loading import instance_text, save_solution

    data = instance_text(found.heuristic.problem, found.instance).encode()
    write_bytes(out, gzip_bytes(data) if out.suffix == ".gz" else data)
    for path, answer in zip(solution_files, (found.heuristic, found.against), strict=True):
        assert answer.objective is not None, "both answers were compared"
        save_solution(path, answer.problem, found.instance, answer.solution, answer.objective)


def _check_files(
    found: Counterexample,
    space: InstanceSpace[Any],
    heuristic: Solver,
    against: Solver | None,
    out: Path,
    solution_files: list[Path],
) -> None:
    """Read the files back, solve and verify anew; `SolverFailedError` if anything differs."""
    from lyra_opt.core.loading import load_instance, load_solution
    from lyra_opt.core.solver import find_solver
    from lyra_opt.core.verifying import verify
    from lyra_opt.testing.counterexamples import SolverFailedError, prove

    loaded = load_instance(out)
    again = prove(
        loaded.problem,
        loaded.instance,
        heuristic,
        against,
        find_solver(space.problem.name, space.prover),
        seed=found.heuristic.seed,
    )
    for path, answer, before in zip(
        solution_files,
        (again.heuristic, again.against),
        (found.heuristic, found.against),
        strict=True,
    ):
        solution, claims = load_solution(path, loaded.problem)
        verification = verify(loaded.problem, loaded.instance, solution, claims)
        if not verification.valid:
            raise SolverFailedError(f"{path}: {'; '.join(verification.violations)}")
        if answer.objective != before.objective:
            raise SolverFailedError(
                f"{answer.solver} found {before.objective} in the search and {answer.objective} "
                f"on {out}, so that nothing is known"
            )


def _record(
    search: CounterexampleSearch,
    space: InstanceSpace[Any],
    arguments: argparse.Namespace,
    files: list[Path],
) -> dict[str, Any]:
    """Return the object of ``--json``: every key present, null where it has no value."""
    from math import isinf

    found = search.counterexample
    return {
        "found": found is not None,
        "problem": space.problem.name,
        "variant": space.variant,
        "heuristic": arguments.heuristic,
        "against": arguments.against,
        "min_ratio": float(arguments.min_ratio),
        "seed": arguments.seed,
        "file": str(files[0]) if files else None,
        "solution_files": [str(path) for path in files[1:]],
        "instance": found and found.instance.name,
        "objective": found and found.heuristic.objective,
        "against_objective": found and found.against.objective,
        "optimum": found and found.optimum.objective,
        "proved_by": space.prover,
        "ratio": None if found is None or isinf(found.ratio) else found.ratio,
        "size": found and dict(found.measures),
        "no_plain_of_smaller_size": search.no_plain_of_smaller_size,
        "plain": f"up to {space.extent}, {space.plain}",
        "tried": search.tried,
        "tried_plain": search.tried_plain,
        "skipped": search.skipped,
        "skip_reason": search.skip_reason,
        "stopped_by": search.stopped_by and str(search.stopped_by),
        "wall_time_s": search.wall_time_s,
    }


def _lines(
    search: CounterexampleSearch,
    space: InstanceSpace[Any],
    arguments: argparse.Namespace,
    files: list[Path],
) -> Iterator[str]:
    from math import isinf

    from lyra_opt.commands.output import show_seconds, show_value_of

    found = search.counterexample
    names = f"{arguments.heuristic} is worse than {arguments.against}"
    tried = f"{search.tried} instance{'' if search.tried == 1 else 's'} tried"
    if search.stopped_by is not None:
        tried += ", ended by the time limit"
    if search.skipped:
        tried += f" ({search.skipped} could not be compared: {search.skip_reason})"
    if found is None:
        by = f" by a factor of {float(arguments.min_ratio):g}" if arguments.min_ratio > 1 else ""
        yield (
            f"none found: no {space.variant} instance of up to {space.extent} is known on which "
            f"{names}{by}; {tried}, nothing written"
        )
        return
    ratio_shown = "infinite" if isinf(found.ratio) else f"{found.ratio:.6g}"
    yield (
        f"{names}: {show_value_of(found.heuristic.objective)} against "
        f"{show_value_of(found.against.objective)}, ratio {ratio_shown}"
    )
    yield f"optimum: {show_value_of(found.optimum.objective)}, proved by {space.prover}"
    shown = [_measure(key, value) for key, value in found.measures.items() if value]
    yield f"smallest found, most important first: {', '.join(shown)}"
    if search.no_plain_of_smaller_size:
        first, second = space.size_names
        yield (
            f"proved: no plain instance with fewer {_words(first)}, or as many and fewer "
            f"{_words(second)}, shows it (up to {space.extent})"
        )
        yield f"plain: {space.plain}"
    else:
        yield "not proved to be the smallest: not all smaller ones were tried"
    yield f"written, read back and verified: {', '.join(map(str, files))}"
    yield f"{tried} in {show_seconds(search.wall_time_s)}"


def _measure(key: str, value: Number) -> str:
    """Return what is counted of an instance as words, with the unit that its name ends with.

    >>> _measure("gpus", 3), _measure("work_worker_s", 2), _measure("scaling_loss_percent", 10)
    ('GPUs 3', 'work 2 worker-s', 'scaling loss 10 %')
    """
    for suffix, unit in UNITS.items():
        if key.endswith(suffix):
            return f"{_words(key.removesuffix(suffix))} {value} {unit}"
    return f"{_words(key)} {value}"


def _words(key: str) -> str:
    return key.replace("_", " ").replace("gpus", "GPUs")
