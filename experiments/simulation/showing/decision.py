"""One captured decision of reclaiming, as the solvers of two schemes take it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.loading import load_instance
from lyra_opt.core.pictures import svg_text
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver
from lyra_opt.experiments.plots.figures import Plot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.running.replays import Replays

KIND, PREFIX = "reclaim", "reclaim-contested-"
YARDSTICK = "exact"
"""What is held against the only solver where schemes have no two."""

MOST_SOLVED = 40
LARGEST_SERVERS = 400
LIMIT_S = 0.5
"""Seconds that each solver may take on each of so many decisions of so many servers at most."""


def decision(replays: Replays, runs: Sequence[ReplayRecord]) -> Plot | None:
    """Return the picture of the captured decision on which two solvers differ most.

    Where they never differ, of the one with the most jobs at stake. None if no reclaiming was
    captured, or the files are neither inside the folder of the store nor where
    `lyra_opt.experiments.simulation.running.replays.Replays.captured` says.

    Parameters
    ----------
    runs
        All that finished.
    """
    makers = _makers(runs)
    problem = find_problem(KIND)
    best: tuple[tuple[int, int, int], str, Any, dict[str, Any]] | None = None
    if not makers:
        return None
    for path in islice(_files(replays, runs), MOST_SOLVED):
        found = _solved(path, makers)
        if found is None:
            continue
        instance, solutions, objectives = found
        rank = max(objectives) - min(objectives), max(objectives), len(instance.jobs)
        if best is None or rank > best[0]:
            best = rank, path.name, instance, solutions
    if best is None:
        return None
    (difference, _, _), name, instance, solutions = best
    count = instance.reclaim_servers
    caption = (
        f"The cluster calls back {count} server{'s' * (count != 1)}; a row is one that is on loan, "
        "a block a job on it. Workers on other servers fall with a job that is preempted: its "
        "GPUs there are the collateral damage. "
    )
    caption += (
        "Of the captured decisions the one on which both differ most."
        if difference
        else "Both solvers pay the same on every captured decision that was looked at; this is the "
        "one with the most at stake."
    )
    return Plot(
        "decision",
        f"A reclaiming decision: {name}",
        caption,
        svg_text(problem.drawing_of(instance, solutions).figure(), "decision"),
    )


def _makers(runs: Sequence[ReplayRecord]) -> dict[str, str]:
    """Return two solvers by what the picture calls them; none if no scheme gives servers back."""
    of_solver: dict[str, str] = {}
    for run in runs:
        if run.setting["reclaimer"] is not None:
            of_solver.setdefault(run.setting["reclaimer"], run.scheme)
    makers = {
        f"{scheme} (solver {solver})": solver for solver, scheme in islice(of_solver.items(), 2)
    }
    if len(makers) == 1 and YARDSTICK not in of_solver:
        makers[f"solver {YARDSTICK}"] = YARDSTICK
    return makers


def _files(replays: Replays, runs: Sequence[ReplayRecord]) -> Iterator[Path]:
    """Yield the files of captured decisions that somebody loses by.

    A store may be a stranger's. So only files inside of it, or inside of the folder that the
    command names, are read, whatever its rows and its links name.
    """
    seen = set()
    for run in runs:
        given = Path(run.setting.get("captured_in") or ".")
        places = [(place, replays.folder) for place in (given, replays.folder / given.name)]
        if replays.captured is not None:
            places.insert(0, (replays.captured, replays.captured))
        for name in run.setting.get("captured_files", ()):
            inside = [at / name for at, within in places if _is_inside(at / name, within)]
            if inside and name.startswith(PREFIX) and name not in seen:
                seen.add(name)
                yield inside[0]


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # such as a null character, or a loop of links
        return False


def _solved(path: Path, makers: Mapping[str, str]) -> tuple[Any, dict[str, Any], list[int]] | None:
    """Return instance, solutions and objectives; None if somebody has none, or it is large."""
    try:
        instance = load_instance(path).instance
    except UserError:  # a file that somebody changed since spoils no page
        return None
    if sum(server.on_loan for server in instance.servers) > LARGEST_SERVERS:
        return None
    problem = find_problem(KIND)
    solutions, objectives = {}, []
    for label, name in makers.items():
        result = find_solver(KIND, name).solve(
            instance, limits=Limits(time_s=LIMIT_S), rng=generator(solver=name, page=path.name)
        )
        if result.solution is None:
            return None
        solutions[label] = result.solution
        objective = problem.check(instance, result.solution).objective
        assert objective is not None, "a solver's answer is valid"
        objectives.append(int(objective))
    return instance, solutions, objectives
