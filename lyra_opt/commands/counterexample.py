"""``lyra-opt counterexample``: find a small instance on which another solver beats a heuristic."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import amount, integer_from
from lyra_opt.commands.messages import complain, is_quiet, write_traceback
from lyra_opt.commands.output import (
    html_of_printed,
    print_json,
    print_line,
    require_file_path,
    stdout_kept_clean,
)
from lyra_opt.commands.progress import lines_until_done
from lyra_opt.core.documents import gzip_bytes, write_bytes
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.representations import html_of_object
from lyra_opt.core.texts import show_seconds, show_value_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver, SolverLike
    from lyra_opt.testing.counterexamples import Counterexample, CounterexampleSearch
    from lyra_opt.testing.small_instances import InstanceSpace

UNITS = {"_worker_s": "worker-s", "_s": "s", "_percent": "%"}
"""The units of measures, by the ending of their names."""


def limit(text: str) -> tuple[str, int]:
    """Return a count and its limit from a command-line argument such as ``jobs=3``."""
    name, value = amount(text)
    return name, integer_from(0)(value)


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt counterexample`` and return the exit code."""
    from lyra_opt.core.isolation.loading import find_solver_safely, require_loadable
    from lyra_opt.core.loading import load_instance
    from lyra_opt.testing.counterexamples import SolverFailedError, find_counterexample

    given = (arguments.heuristic, arguments.against)
    start = None if arguments.start is None else load_instance(arguments.start).instance
    with stdout_kept_clean():  # a user's solver may print while it is loaded
        for solver in given:
            require_loadable(solver, arguments.problem)
        space, first, second = asked(
            *given,
            arguments.problem,
            arguments.variant,
            arguments.limits,
            find_solver_safely,
            start,
        )
    names = names_of(first, second)
    out = Path(arguments.out or f"{space.name}.json")
    require_file_path("--out", str(out))
    if out.exists() and not out.is_file():
        raise UserError(f"--out {out}: is not a regular file, so it cannot be read back")
    files = [out, *(_beside(out, each) for each in names)]
    try:
        with stdout_kept_clean(), _progress() as progress:
            search = find_counterexample(
                space,
                first,
                second,
                min_ratio=arguments.min_ratio,
                seed=arguments.seed,
                time_limit_s=arguments.time_limit_s,
                start=start,
                progress=progress,
            )
            if search.counterexample is not None:
                _write(search.counterexample, files)
    except SolverFailedError as error:
        write_traceback("counterexample", error.traceback)
        complain(f"error: {error}")
        return 1
    if search.counterexample is None:
        files = []
    found = Searched(search, space, names, arguments.min_ratio, arguments.seed)
    if arguments.form == "json":
        print_json(found.as_json_object(files))
    else:
        for line in found.lines(files):
            print_line(line, indent="  ")
    return 0 if files else 1


def asked(
    heuristic: SolverLike,
    against: SolverLike,
    problem: str | None,
    variant: str | None,
    limits: Iterable[tuple[str, int]],
    find: Callable[[str, Any], Solver],
    start: Any = None,
) -> tuple[InstanceSpace, Solver, Solver | None]:
    """Return the instances to search and both solvers, as `find` finds them; None is the optimum.

    Raises
    ------
    UserError
        If a name is unknown, the solvers cannot be compared, or the instance `start` is of another
        problem or variant.
    """
    from lyra_opt.testing.counterexamples import OPTIMUM, require_comparable
    from lyra_opt.testing.small_instances import InstanceSpace

    if start is not None:
        own = {"problem": start.problem, "variant": str(start.variant)}
        for field, value in {"problem": problem, "variant": variant}.items():
            if value not in (None, own[field]):
                raise FieldError(field, value, f"must be that of the instance, {own[field]}")
        problem, variant = own["problem"], own["variant"]
    of = _find_problem(heuristic, against, problem)
    first = find(of, heuristic)
    second = None if against == OPTIMUM else find(of, against)
    space = InstanceSpace(
        problem=of,
        variant=variant or _common_variant(first, second),
        limits=dict(limits),
        name=_file_name("-against-".join(names_of(first, second))),
    )
    require_comparable(of, space.variant, first, second)
    return space, first, second


def names_of(heuristic: Solver, against: Solver | None) -> tuple[str, str]:
    """Return the names of both sides of a comparison."""
    from lyra_opt.testing.counterexamples import OPTIMUM

    return heuristic.name, OPTIMUM if against is None else against.name


def _find_problem(heuristic: SolverLike, against: SolverLike, problem: str | None) -> str:
    """Return the chosen problem, or the only one that both solvers solve."""
    from lyra_opt.core.own_files import is_reference
    from lyra_opt.core.solver import SOLVERS, find_solver, solver_names
    from lyra_opt.testing.counterexamples import OPTIMUM
    from lyra_opt.testing.small_instances import DOMAINS

    if problem is not None and problem not in DOMAINS:
        raise UserError(f"problem {problem!r}: unknown problem; {meant(problem, DOMAINS)}")
    found = list(DOMAINS) if problem is None else [problem]
    wanted = [("heuristic", heuristic)]
    if against != OPTIMUM:
        wanted.append(("against", against))
    for role, solver in wanted:
        known = {of: [name for _, name in solver_names(of)] for of in found}
        if isinstance(solver, str) and not is_reference(solver):
            found = [of for of in found if solver in known[of]]
        else:
            found = [of for of in found if of == SOLVERS.of(solver).problem]
        if not found:
            names = sorted({name for names in known.values() for name in names})
            if role == "against":
                names.append(OPTIMUM)
            if len(known) == 1 and nearest(solver, names) is None:
                find_solver(next(iter(known)), solver)  # raises a more precise error
            raise UserError(f"{role} {solver!r}: unknown solver; {meant(solver, names)}")
    if len(found) > 1:
        raise UserError(
            f"heuristic {heuristic!r}: is a solver of {' and of '.join(found)}; choose the problem "
            "(--problem)"
        )
    return found[0]


def _common_variant(heuristic: Solver, against: Solver | None) -> str:
    """Return the first problem variant that both solvers support, or else the heuristic's first.

    Variants for which the heuristic is not exact come first.
    """
    other = heuristic if against is None else against
    common = [each for each in heuristic.variants if each in other.variants]
    unproved = [each for each in common if each not in heuristic.exact_variants]
    return [*unproved, *common, *heuristic.variants][0]


def _file_name(text: str) -> str:
    """Return `text` with characters replaced that a file name should not contain."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def _beside(out: Path, solver: str) -> Path:
    stem = out.name.removesuffix(".gz").removesuffix(".json")
    return out.with_name(f"{stem}.{_file_name(solver)}.solution.json")


@contextmanager
def _progress() -> Iterator[Callable[[Mapping[str, Number]], None] | None]:
    """Show the smallest counterexample so far: on a terminal, or as a line every 15 s."""
    if is_quiet():
        yield None
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("searching") as status:
            yield lambda measures: status.update(f"searching below {_shown(measures)}")
    else:
        below: dict[str, Number] = {}

        def line() -> str:
            return f"counterexample: searching below {_shown(below) or 'the limits of --max'}"

        with lines_until_done(line):
            yield below.update


def _write(found: Counterexample, files: list[Path]) -> None:
    """Write the counterexample and both solvers' solutions, and verify the written files."""
    from lyra_opt.core.loading import instance_text, load_instance, load_solution, save_solution
    from lyra_opt.core.verifying import verify
    from lyra_opt.testing.counterexamples import SolverFailedError

    out, *solution_files = files
    data = instance_text(found.heuristic.problem, found.instance).encode()
    write_bytes(out, gzip_bytes(data) if out.suffix == ".gz" else data)
    loaded = load_instance(out)
    for path, answer in zip(solution_files, (found.heuristic, found.against), strict=True):
        assert answer.objective is not None, "both answers were compared"
        save_solution(path, answer.problem, found.instance, answer.solution, answer.objective)
        solution, claims = load_solution(path, loaded.problem)
        verification = verify(loaded.problem, loaded.instance, solution, claims)
        if not verification.valid:
            raise SolverFailedError(f"{path}: {'; '.join(verification.violations)}")


@dataclass(frozen=True, repr=False)
class Searched:
    """The result of a search for a counterexample, which prints as the command does."""

    search: CounterexampleSearch
    space: InstanceSpace
    names: tuple[str, str]
    min_ratio: float | Fraction
    seed: int

    @property
    def counterexample(self) -> Counterexample | None:
        """The instance with the answers of both solvers and the optimum; None if none was found."""
        return self.search.counterexample

    def __repr__(self) -> str:
        """Return the first sentence that the command prints."""
        return f"<{next(self.lines([]))}>"

    def __str__(self) -> str:
        """Return the sentences that the command prints."""
        return "\n".join(self.lines([]))

    def _repr_html_(self) -> str:
        shown = "" if self.counterexample is None else html_of_object(self.counterexample.instance)
        return html_of_printed(lambda: print(self)) + shown

    def as_json_object(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return the object of ``counterexample --format json``; missing values are null."""
        search, space, found = self.search, self.space, self.counterexample
        return {
            "found": found is not None,
            "problem": space.problem,
            "variant": str(space.variant),
            **dict(zip(("heuristic", "against"), self.names, strict=True)),
            "min_ratio": float(self.min_ratio),
            "seed": self.seed,
            "limits": dict(space.limits),
            "file": str(files[0]) if files else None,
            "solution_files": [str(path) for path in files[1:]],
            "instance": found and found.instance.name,
            "objective": found and found.heuristic.objective,
            "against_objective": found and found.against.objective,
            "optimum": found and found.optimum.objective,
            "proved_by": space.prover,
            "ratio": None if found is None or isinf(found.ratio) else found.ratio,
            "size": found and space.measures(found.instance),
            "no_smaller_plain": search.no_smaller_plain,
            "plain": space.plain_in_words or None,
            "tried": search.tried,
            "tried_plain": search.tried_plain,
            "skipped": search.skipped,
            "skip_reason": search.skip_reason,
            "stopped_by": search.stopped_by and str(search.stopped_by),
            "wall_time_s": search.wall_time_s,
        }

    def lines(self, files: Sequence[Path]) -> Iterator[str]:
        """Yield the sentences that the command prints."""
        search, space, found = self.search, self.space, self.counterexample
        names = " is worse than ".join(self.names)
        tried = f"{search.tried} instance{'' if search.tried == 1 else 's'} tried"
        if search.stopped_by is not None:
            tried += ", ended by the time limit"
        if search.skipped:
            tried += f" ({search.skipped} could not be compared: {search.skip_reason})"
        if found is None:
            by = f" by a factor of {float(self.min_ratio):g}" if self.min_ratio > 1 else ""
            yield (
                f"no counterexample found: no {space.variant} instance of at most "
                f"{_shown(space.limits)} on which {names}{by}; {tried} in "
                f"{show_seconds(search.wall_time_s)}"
            )
            return
        ratio_shown = "infinite" if isinf(found.ratio) else f"{found.ratio:.6g}"
        yield (
            f"{names}: {show_value_of(found.heuristic.objective)} against "
            f"{show_value_of(found.against.objective)}, ratio {ratio_shown}"
        )
        yield f"optimum: {show_value_of(found.optimum.objective)}, proved by {space.prover}"
        yield f"smallest found, most important first: {_shown(space.measures(found.instance))}"
        if search.no_smaller_plain:
            yield (
                "proved: no smaller plain instance is a counterexample "
                f"(all were tried, {search.tried_plain} including those of equal size)"
            )
            yield f"plain: {space.plain_in_words}; limits of --max: {_shown(space.limits)}"
        else:
            yield "not proved to be the smallest: not all smaller instances were tried"
        if files:
            yield f"written, read back and verified: {', '.join(map(str, files))}"
        yield f"{tried} in {show_seconds(search.wall_time_s)}"


def _shown(measures: Mapping[str, Number]) -> str:
    """Return the non-zero measures, such as the number of jobs, as text with units.

    >>> _shown({"gpus": 3, "work_worker_s": 2.0, "running_jobs": 0, "scaling_loss_percent": 10})
    'GPUs 3, work 2 worker-s, scaling loss 10 %'
    """
    shown = []
    for key, value in measures.items():
        ending = next((ending for ending in UNITS if key.endswith(ending)), "")
        words = key.removesuffix(ending).replace("_", " ").replace("gpus", "GPUs")
        if value:
            shown.append(f"{words} {value:g} {UNITS.get(ending, '')}".rstrip())
    return ", ".join(shown)
