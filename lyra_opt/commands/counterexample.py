"""``lyra-opt counterexample``: find a small instance on which a heuristic is worse."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import HelpFormatter, integer_from, plain_text, ratio, seconds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from lyra_opt.counterexamples import Counterexample, CounterexampleSearch, Size
    from lyra_opt.reclaim.counterexamples import ReclaimSpace
    from lyra_opt.solver import Solver

DESCRIPTION = """\
Find a small reclaim instance on which a heuristic is worse than another solver or than the
optimum, and write it, with both solutions beside it.

Smaller is: fewer servers, or as many and fewer jobs, then fewer workers, less weight, fewer
GPUs, a smaller N_R. The smallest instances are tried first; plain ones (all servers on loan, at
most one worker of a job on a server, one GPU a worker, weights up to 2) in full while they are
few, others at random. What is found is reduced as far as it stays a counterexample. The output
says what is proved: both values and the optimum always, that nothing is smaller only where all
smaller plain instances were tried."""

EXAMPLES = """\
examples:
  lyra-opt counterexample --heuristic lyra-greedy --against optimum
      writes lyra-greedy-against-optimum.json, and .lyra-greedy.solution.json,
      .optimum.solution.json beside it
  lyra-opt counterexample --heuristic lyra-greedy --against peeling --max-weight 1 --out a.json
      where all jobs count the same
  lyra-opt counterexample --heuristic peeling --against optimum --min-ratio 4 --json
      at least four times as much as the optimum

The same seed gives the same answer, unless --time-limit ends the search.
Exit code: 0; 1 if none was found (nothing is written then) or a solver failed; 2 for bad input.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "counterexample",
        help="find a small instance on which a heuristic is worse",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
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
        "--min-ratio",
        type=ratio,
        default=1,
        metavar="R",
        help="A must pay at least R times what B pays, and more in any case; where B pays 0 the "
        "ratio is infinite (default: 1)",
    )
    # The limits are those of `lyra_opt.reclaim.counterexamples`, which is not loaded for --help.
    parser.add_argument(
        "--max-servers",
        type=integer_from(1, 16),
        default=6,
        metavar="N",
        help="most servers, 1 to 16 (default: 6)",
    )
    parser.add_argument(
        "--max-jobs",
        type=integer_from(1, 16),
        default=6,
        metavar="N",
        help="most jobs, 1 to 16 (default: 6)",
    )
    parser.add_argument(
        "--max-weight",
        type=integer_from(1, 1_000_000),
        metavar="N",
        help="largest weight of a job (default: 3, or R rounded up if that is more)",
    )
    parser.add_argument(
        "--semantics",
        choices=("rigid", "interchangeable"),
        help="of the instance (default: rigid, or the one that both solvers take)",
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import print_json, require_file_path, stdout_kept_clean
    from lyra_opt.counterexamples import (
        SolverFailedError,
        find_counterexample,
        require_comparable,
    )
    from lyra_opt.errors import UserError, one_line
    from lyra_opt.reclaim.counterexamples import ReclaimSpace
    from lyra_opt.solver import find_solver

    heuristic = find_solver("reclaim", arguments.heuristic)
    against = _find_against(arguments.against)
    space = ReclaimSpace(
        arguments.semantics or _common_semantics(heuristic, against),
        max_servers=arguments.max_servers,
        max_jobs=arguments.max_jobs,
        max_weight=arguments.max_weight or _default_max_weight(arguments.min_ratio),
    )
    require_comparable(space.problem, space.variant, heuristic, against)
    names = (heuristic.name, arguments.against)
    out = Path(arguments.out or f"{_file_name('-against-'.join(names))}.json")
    require_file_path("--out", str(out))
    if out.exists() and not out.is_file():
        raise UserError(f"--out {out}: is no regular file, which can be read again")
    solution_files = [_beside(out, name) for name in names]
    try:
        with stdout_kept_clean(), _progress() as progress:
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
                _check_files(search.counterexample, heuristic, against, out, solution_files)
    except SolverFailedError as error:
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    files = [out, *solution_files] if search.counterexample is not None else []
    if arguments.json:
        print_json(_record(search, space, arguments, files))
    else:
        for line in _lines(search, space, arguments, files):
            print(one_line(line))
    return 0 if search.counterexample is not None else 1


def _find_against(name: str) -> Solver | None:
    """Return the solver called `name`, None for the optimum."""
    from lyra_opt.counterexamples import OPTIMUM
    from lyra_opt.errors import UserError
    from lyra_opt.solver import find_solver, solver_names

    if name == OPTIMUM:
        return None
    known = [known_name for _, known_name in solver_names("reclaim")]
    if name not in known:
        raise UserError(
            f'--against {name!r}: must be "{OPTIMUM}" or a solver of reclaim: {", ".join(known)}'
        )
    return find_solver("reclaim", name)


def _common_semantics(heuristic: Solver, against: Solver | None) -> str:
    """Return the first semantics that both take; that of the heuristic if there is none."""
    other = heuristic if against is None else against
    common = [variant for variant in heuristic.variants if variant in other.variants]
    return "rigid" if "rigid" in common else [*common, *heuristic.variants, "rigid"][0]


def _default_max_weight(min_ratio: Fraction) -> int:
    import math

    from lyra_opt.reclaim.counterexamples import DEFAULT_MAX_WEIGHT

    return max(DEFAULT_MAX_WEIGHT, min(math.ceil(min_ratio), 1_000_000))


def _file_name(text: str) -> str:
    """Return `text` with what a file name should not hold replaced; solvers may be anybody's."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def _beside(out: Path, solver: str) -> Path:
    stem = out.name.removesuffix(".gz").removesuffix(".json")
    return out.with_name(f"{stem}.{_file_name(solver)}.solution.json")


@contextmanager
def _progress() -> Iterator[Callable[[Size], None]]:
    """Show on a terminal which size is searched; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("searching") as status:
        yield lambda size: status.update(f"searching servers {size[0]}, jobs {size[1]}")


def _write(found: Counterexample, out: Path, solution_files: list[Path]) -> None:
    from lyra_opt.documents import gzip_bytes, write_bytes
    from lyra_opt.loading import instance_text, save_solution

    data = instance_text(found.heuristic.problem, found.instance).encode()
    write_bytes(out, gzip_bytes(data) if out.suffix == ".gz" else data)
    for path, answer in zip(solution_files, (found.heuristic, found.against), strict=True):
        assert answer.objective is not None, "both answers were compared"
        save_solution(path, answer.problem, found.instance, answer.solution, answer.objective)


def _check_files(
    found: Counterexample,
    heuristic: Solver,
    against: Solver | None,
    out: Path,
    solution_files: list[Path],
) -> None:
    """Read the files back, solve and verify anew; `SolverFailedError` if anything differs."""
    from lyra_opt.counterexamples import SolverFailedError, prove
    from lyra_opt.loading import load_instance, load_solution
    from lyra_opt.verifying import verify

    loaded = load_instance(out)
    again = prove(loaded.problem, loaded.instance, heuristic, against, seed=found.heuristic.seed)
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
    space: ReclaimSpace,
    arguments: argparse.Namespace,
    files: list[Path],
) -> dict[str, Any]:
    """Return the object of ``--json``: every key present, null where it has no value."""
    from math import isinf

    from lyra_opt.counterexamples import PROVER

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
        "proved_by": PROVER,
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
    space: ReclaimSpace,
    arguments: argparse.Namespace,
    files: list[Path],
) -> Iterator[str]:
    from math import isinf

    from lyra_opt.commands.output import show_seconds
    from lyra_opt.counterexamples import PROVER

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
        f"{names}: {found.heuristic.objective} against {found.against.objective}, "
        f"ratio {ratio_shown}"
    )
    yield f"optimum: {found.optimum.objective}, proved by {PROVER}"
    shown = [
        f"{key.replace('_', ' ').replace('gpus', 'GPUs')} {value}"
        for key, value in found.measures.items()
        if value
    ]
    yield f"smallest found, most important first: {', '.join(shown)}"
    if search.no_plain_of_smaller_size:
        yield (
            "proved: no plain instance with fewer servers, or as many and fewer jobs, shows it "
            f"(up to {space.extent})"
        )
        yield f"plain: {space.plain}"
    else:
        yield "not proved to be the smallest: not all smaller ones were tried"
    yield f"written, read back and verified: {', '.join(map(str, files))}"
    yield f"{tried} in {show_seconds(search.wall_time_s)}"
