"""Plot one captured reclaim decision as the solvers of two schemes answer it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.loading import load_instance
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.running.replays import Replays

KIND, PREFIX = "reclaim", "reclaim-contested-"
YARDSTICK = "exact"
"""The second solver if all schemes use the same solver."""

MOST_SOLVED = 40
LARGEST_SERVERS = 400
LIMIT_S = 0.5
"""Time limit in seconds of each solver on each decision."""


def decision(replays: Replays, runs: Sequence[ReplayRecord]) -> Plot | None:
    """Return the plot of the captured decision on which two solvers differ most.

    If they never differ, the decision with the most preemptions is shown. None if no reclaim
    decision was captured, or its file is neither inside the folder of the store nor inside
    `lyra_opt.experiments.simulation.running.replays.Replays.captured`.
    """
    solvers = _solvers(runs)
    best: tuple[tuple[int, int, int], str, Any, dict[str, Any]] | None = None
    if not solvers:
        return None
    for path in islice(_files(replays, runs), MOST_SOLVED):
        found = _solved(path, solvers)
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
        f"The cluster calls back {count} server{'s' * (count != 1)}. A row is a server on loan, a "
        "block is a job on it. A preempted job also loses its workers on other servers; their GPUs "
        "are the collateral damage. "
    )
    caption += (
        "The solvers differ more on this decision than on any other captured decision."
        if difference
        else "Both solvers preempt equally much in every examined decision; this decision has the "
        "most preemptions."
    )
    picture = find_problem(KIND).drawing_of(instance, solutions).figure()
    title = f"A reclaiming decision: {name}"
    return Plot("decision", title, caption, picture)


def _solvers(runs: Sequence[ReplayRecord]) -> dict[str, str]:
    """Return two reclaim solvers by their label in the plot; empty if no scheme reclaims."""
    scheme_of: dict[str, str] = {}
    for run in runs:
        if run.setting["reclaimer"] is not None:
            scheme_of.setdefault(run.setting["reclaimer"], run.scheme)
    solvers = {
        f"{scheme} (solver {solver})": solver for solver, scheme in islice(scheme_of.items(), 2)
    }
    if len(solvers) == 1 and YARDSTICK not in scheme_of:
        solvers[f"solver {YARDSTICK}"] = YARDSTICK
    return solvers


def _files(replays: Replays, runs: Sequence[ReplayRecord]) -> Iterator[Path]:
    """Yield the files of contested decisions.

    A store may come from a stranger. Therefore only files inside the store, or inside the folder
    that the command names, are read, whatever the rows and links of the store point to.
    """
    seen = set()
    for run in runs:
        given = Path(run.setting.get("captured_in") or ".")
        folders = [(folder, replays.folder) for folder in (given, replays.folder / given.name)]
        if replays.captured is not None:
            folders.insert(0, (replays.captured, replays.captured))
        for name in run.setting.get("captured_files", ()):
            inside = [at / name for at, within in folders if _is_inside(at / name, within)]
            if inside and name.startswith(PREFIX) and name not in seen:
                seen.add(name)
                yield inside[0]


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # such as a null character, or a loop of links
        return False


def _solved(path: Path, solvers: Mapping[str, str]) -> tuple[Any, dict[str, Any], list[int]] | None:
    """Return the instance of a file with the solvers' solutions and objectives.

    None if the file is not a valid instance, the instance is too large, or a solver finds nothing.
    """
    try:
        instance = load_instance(path).instance
    except UserError:  # a file that was changed later must not prevent the page
        return None
    if sum(server.on_loan for server in instance.servers) > LARGEST_SERVERS:
        return None
    problem = find_problem(KIND)
    solutions, objectives = {}, []
    for label, name in solvers.items():
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
