"""Runs of methods on the instances of a library, kept so that grading goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.loading import load_solution, save_solution
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import OWN_BOUND, solve_and_check
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lyra_opt.core.execution import Executor
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.result import Number
    from lyra_opt.core.solving import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a method said of an instance.

    Parameters
    ----------
    id, sha256
        Of the instance.
    method, engine
        A solver, or the own bound of the problem; and what its bounds rest on.
    is_exact
        Whether it is asked for proofs.
    is_started
        Whether it began with the best solution known, and not with the instance alone.
    status, objective, dual_bound, message
        As of its answer.
    time_limit_s
        That it had, by the clock.
    time_s
        That it computed: of the processor, or by the clock where that is less, as it is where
        packages were loaded. A machine that has other things to do does not count.
    """

    id: str
    sha256: str
    method: str
    engine: str
    is_exact: bool
    is_started: bool
    status: str
    objective: Number | None
    dual_bound: Number | None
    time_limit_s: float
    time_s: float
    message: str | None = None


class Runs:
    """The runs in a folder, each a line of a file; and the best solution found of each instance."""

    def __init__(self, folder: Path) -> None:
        self._file, self._solutions = folder / "runs.jsonl", folder / "solutions"
        self._solutions.mkdir(parents=True, exist_ok=True)
        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else []
        self._runs = [Run(**json.loads(line)) for line in lines]

    def of(self, name: str, sha256: str) -> list[Run]:
        """Return the runs on an instance, as it is now, that did not fail."""
        found = [run for run in self._runs if (run.id, run.sha256) == (name, sha256)]
        return [run for run in found if run.status not in (Status.ERROR, Status.UNSUPPORTED)]

    def add(self, runs: list[Run]) -> None:
        """Keep runs."""
        self._runs += runs
        with self._file.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(asdict(run))}\n" for run in runs)

    def solution_file(self, name: str) -> Path:
        """Return where the best solution of an instance is kept."""
        return self._solutions / f"{name}.solution.json"

    def best(self, loaded: LoadedInstance) -> tuple[Any, Number] | None:
        """Return the best solution found, and its value."""
        file = self.solution_file(loaded.instance.name)
        if not file.exists():
            return None
        solution, claims = load_solution(file, loaded.problem)
        return solution, claims["objective"]

    def keep_if_best(self, loaded: LoadedInstance, answer: Answer) -> None:
        """Keep the solution of an answer if it is the best so far."""
        if answer.objective is None:
            return
        best, instance = self.best(loaded), loaded.instance
        if best is None or instance.variant.is_better(answer.objective, best[1]):
            file = self.solution_file(instance.name)
            save_solution(file, loaded.problem, instance, answer.solution, answer.objective)


def asked(
    loaded: LoadedInstance,
    sha256: str,
    method: str,
    *,
    is_exact: bool,
    start: Any,
    time_limit_s: float,
    certify: bool,
    executor: Executor,
) -> Iterator[tuple[Run, Answer]]:
    """Yield what a solver says and, if it is asked for too, what the problem's own bound says."""
    solver = find_solver(loaded.problem.name, method)
    answer = solve_and_check(
        loaded.problem,
        loaded.instance,
        solver,
        limits=Limits(time_s=time_limit_s),
        warm_start=start,
        certify=certify,
        executor=executor,
    )
    common: dict[str, Any] = {
        "id": loaded.instance.name,
        "sha256": sha256,
        "is_started": start is not None,
        "time_limit_s": time_limit_s,
    }
    times = [each for each in (answer.wall_time_s, answer.cpu_time_s) if each is not None]
    bound = answer.dual_bound
    witness = answer.witness
    if witness is not None:
        own_bound = witness.dual_bound
        # The answer has the better of both bounds; a solver that gives none has none of its own.
        bound = answer.dual_bound if solver.gives_bound else None
        yield (
            Run(
                **common,
                method=OWN_BOUND,
                engine=OWN_ENGINE,
                is_exact=False,
                status=str(Status.UNKNOWN),
                objective=None,
                dual_bound=own_bound,
                time_s=witness.wall_time_s,
            ),
            answer,
        )
    yield (
        Run(
            **common,
            method=method,
            engine=engine_of(solver),
            is_exact=is_exact,
            status=str(answer.status),
            objective=answer.objective,
            dual_bound=bound,
            time_s=min(times, default=0.0),
            message=answer.message,
        ),
        answer,
    )
