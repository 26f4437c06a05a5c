"""Runs of methods on library instances, and their combination with earlier records.

Runs are stored, so that grading can continue after an interruption.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.execution import Executor
from lyra_opt.core.loading import LoadedInstance
from lyra_opt.core.problem import Variant
from lyra_opt.core.result import Limits, Number, Status, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import OWN_BOUND, solve_and_check
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of
from lyra_opt.experiments.analysis import PROVED
from lyra_opt.instances.library.documents import (
    EASY_LIMIT_S,
    BestKnown,
    Entry,
    Grade,
    MethodRun,
    Proof,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingRun:
    """The result of one run of a solver, or of the problem's own bound, on a library instance.

    Parameters
    ----------
    id, sha256
        Id and content hash of the instance.
    method, engine
        A solver, or the problem's own bound; and the engine that its bounds rely on.
    is_exact
        Whether the method is run for proofs.
    is_started
        Whether the method started from the best known solution, as all that an earlier record
        states; such runs do not count for grades.
    status, objective, dual_bound, message, solution
        As in the solver's answer; the solution is a document.
    time_limit_s
        Wall-clock limit in seconds.
    time_s
        Processor seconds, or wall-clock seconds if they are fewer, as when packages were loaded.
        Other load on the machine does not count.
    """

    id: str
    sha256: str
    method: str
    engine: str
    is_exact: bool = False
    is_started: bool = False
    status: str = str(Status.UNKNOWN)
    objective: Number | None = None
    dual_bound: Number | None = None
    time_limit_s: float = 0.0
    time_s: float = 0.0
    message: str | None = None
    solution: dict[str, Any] | None = None


class GradingRuns:
    """The stored runs of a folder, one per line of a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "runs.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else []
        self._runs = [GradingRun(**json.loads(line)) for line in lines]

    def of(self, name: str, sha256: str) -> list[GradingRun]:
        """Return the successful runs on an instance whose content has the hash `sha256`."""
        found = [run for run in self._runs if (run.id, run.sha256) == (name, sha256)]
        return [run for run in found if run.status not in (Status.ERROR, Status.UNSUPPORTED)]

    def add(self, run: GradingRun) -> None:
        """Store a run at the end of the file."""
        self._runs.append(run)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(asdict(run))}\n")


def run_method(
    loaded: LoadedInstance,
    sha256: str,
    method: str,
    *,
    is_exact: bool,
    time_limit_s: float,
    certify: bool,
    executor: Executor,
) -> Iterator[GradingRun]:
    """Run a solver on an instance, and yield the run.

    With `certify`, the run of the problem's own bound comes first.
    """
    solver = find_solver(loaded.problem.name, method)
    answer = solve_and_check(
        loaded.problem,
        loaded.instance,
        solver,
        limits=Limits(time_s=time_limit_s),
        certify=certify,
        executor=executor,
    )
    common: dict[str, Any] = {
        "id": loaded.instance.name,
        "sha256": sha256,
        "time_limit_s": time_limit_s,
    }
    times = [each for each in (answer.wall_time_s, answer.cpu_time_s) if each is not None]
    bound = answer.dual_bound
    witness = answer.witness
    if witness is not None:
        own_bound = witness.dual_bound
        # A heuristic gives no bound itself, even if its answer has a bound from a certificate.
        bound = answer.dual_bound if solver.gives_bound else None
        yield GradingRun(
            **common,
            method=OWN_BOUND,
            engine=OWN_ENGINE,
            dual_bound=own_bound,
            time_s=witness.wall_time_s,
        )
    document = None
    if answer.objective is not None:
        document = loaded.problem.solution_document(
            loaded.instance, answer.solution, answer.objective
        )
    yield GradingRun(
        **common,
        method=method,
        engine=engine_of(solver),
        is_exact=is_exact,
        status=str(answer.status),
        objective=answer.objective,
        dual_bound=bound,
        time_s=min(times, default=0.0),
        message=answer.message,
        solution=document,
    )


def runs_of_record(before: BestKnown, entry: Entry, exact: Collection[str]) -> Iterator[GradingRun]:
    """Yield the runs in a library record; its best solution, bound and proofs are further runs.

    Parameters
    ----------
    exact
        Methods that are run for proofs; only their runs count for grades.
    """
    engines = {run.method: run.engine for run in before.runs}

    def run(method: str, **others: Any) -> GradingRun:
        engine = engines.get(method) or _engine_of(method, entry.problem)
        known = {"id": entry.id, "sha256": entry.sha256, "is_started": True}
        return GradingRun(method=method, engine=engine, **{**known, **others})

    if before.best_known is None:
        for method in before.proved_with:
            yield run(method, status=str(Status.INFEASIBLE))
    else:
        yield run(before.found_with, status=str(Status.FEASIBLE), objective=before.best_known)
    for each in before.runs:
        yield run(
            each.method,
            is_exact=each.method in exact,
            is_started=False,
            status=each.status,
            objective=each.objective,
            dual_bound=each.dual_bound,
            time_limit_s=each.time_limit_s,
            time_s=each.time_s,
        )
    if before.bound_with is not None:
        for method in (before.bound_with, *before.proved_with):
            if method != CERTIFICATE:
                yield run(method, dual_bound=before.best_bound)


def _engine_of(method: str, problem: str) -> str:
    return OWN_ENGINE if method == OWN_BOUND else engine_of(find_solver(problem, method))


def with_earlier_credit(now: BestKnown, before: BestKnown) -> BestKnown:
    """Return `now`, with values and authors of `before` where values differ by rounding only."""
    if now.best_known is None or before.best_known is None:
        return now
    if same_value(now.best_known, before.best_known):
        now = replace(
            now,
            best_known=before.best_known,
            found_by=before.found_by,
            found_with=before.found_with,
        )
    bound = before.best_bound
    if bound is not None and now.best_bound is not None and same_value(now.best_bound, bound):
        now = replace(now, best_bound=bound, bound_by=before.bound_by, bound_with=before.bound_with)
    return now


CERTIFICATE = "certificate"
"""Method name of a bound that a certificate proves but no run."""


def best_known(
    name: str, runs: Sequence[GradingRun], variant: Variant, who: str, certificate: str | None
) -> BestKnown:
    """Return the combined result of all runs on an instance.

    Parameters
    ----------
    who
        Author of the runs.
    certificate
        File of a certificate that the best solution is optimal; None without a certificate.

    Raises
    ------
    UserError
        If runs contradict one another, or no run found a solution or proved that none exists.
    """
    claims = [Claim(run.method, Status(run.status), run.objective, run.dual_bound) for run in runs]
    evidence = Evidence(claims, variant)
    contradiction = next(evidence.contradictions(), None)
    if contradiction is not None:
        raise UserError(f"{name}: {contradiction.sentence}")
    value = evidence.best_objective
    provers: dict[str, str] = {}
    for run in runs:
        if _is_proof(run, value, evidence):
            provers.setdefault(run.engine, run.method)
    if value is None and not provers:
        raise UserError(f"{name}: no solution was found")
    bound = None if value is None else evidence.tightest
    best_bound = None if bound is None else bound.dual_bound
    bound_with = None if bound is None else bound.by
    is_proved = certificate is not None or bool(provers) or evidence.optimum is not None
    if certificate is not None and value is not None and evidence.optimum is None:
        best_bound, bound_with = value, CERTIFICATE
    proof = Proof.NONE
    if certificate is not None:
        proof = Proof.CERTIFICATE
    elif is_proved:
        proof = Proof.TWO_METHODS if len(provers) > 1 else Proof.ONE_METHOD
    alone = list(
        {run.method: run for run in _by_limit(runs) if run.is_exact and not run.is_started}.values()
    )
    return BestKnown(
        id=name,
        grade=_grade(alone, is_proved=is_proved),
        best_known=value,
        found_by=who,
        found_with=next(iter(provers.values())) if evidence.best is None else evidence.best.by,
        best_bound=best_bound,
        bound_by=None if bound_with is None else who,
        bound_with=bound_with,
        proof=proof,
        proved_with=tuple(provers.values()),
        proof_file=certificate,
        runs=tuple(
            MethodRun(
                method=run.method,
                engine=run.engine,
                status=run.status,
                objective=run.objective,
                dual_bound=run.dual_bound,
                time_limit_s=run.time_limit_s,
                time_s=round(run.time_s, 4),
            )
            for run in alone
        ),
    )


def _is_proof(run: GradingRun, value: Number | None, evidence: Evidence) -> bool:
    """Return whether a run proves that a value is optimal, or that there is no solution (None)."""
    if value is None:
        return run.status == Status.INFEASIBLE
    return run.dual_bound is not None and evidence.prove(value, run.dual_bound)


def _by_limit(runs: Sequence[GradingRun]) -> list[GradingRun]:
    """Sort runs by time limit, so that the last run of a method has its longest limit."""
    return sorted(runs, key=lambda run: run.time_limit_s)


def _grade(alone: Sequence[GradingRun], *, is_proved: bool) -> Grade:
    """Return the grade (easy, hard or open) of an instance from the runs of exact solvers on it.

    `lyra_opt.instances.library.documents` defines the grades.
    """
    if not is_proved:
        return Grade.OPEN
    is_quick = all(run.status in PROVED and run.time_s <= EASY_LIMIT_S for run in alone)
    has_two = len({run.engine for run in alone}) > 1
    return Grade.EASY if is_quick and has_two else Grade.HARD
