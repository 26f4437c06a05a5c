"""Run every solver of a study on every instance, and store each run when it completes.

A run is a task for a worker process: it generates the instance, warms up, solves and checks.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from numbers import Integral
from pathlib import Path
from typing import Any

from lyra_opt.commands.messages import complain, write_traceback
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.loading import content_hash
from lyra_opt.core.own_files import files_of
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Number, Status
from lyra_opt.core.seeding import derive_seed
from lyra_opt.core.solver import Solver
from lyra_opt.core.solving import Answer, solve_and_check
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.experiments.pool import Engine, in_words
from lyra_opt.experiments.proofs import find_contradictions
from lyra_opt.experiments.records import SolverRecord, StudyRecord, current_environment
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.study import Configuration, Study
from lyra_opt.experiments.study_cells import FILE, LIBRARY, Cell, Trace, read_instance_file
from lyra_opt.instances.family import find_family
from lyra_opt.instances.library import load_library_instance

INSTANCES_KEPT = 4
"""Instances that a worker process caches; few suffice, as runs on one instance are consecutive."""

WARM_UP_LIMIT_S = 1.0
SEED_BITS = 53
"""Length of a seed in bits: every JSON reader represents integers of 53 bits exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverTask:
    """A task that runs one solver on one instance in a worker process.

    Parameters
    ----------
    study
        Name of the study.
    position
        Position of the run in the study.
    cell
        Description of the instance to generate.
    configuration
        The solver to run.
    trace
        The job trace of the study; None if it has no trace.
    """

    study: str
    position: int
    cell: Cell
    configuration: Configuration
    trace: Trace | None

    @property
    def key(self) -> str:
        """Text that identifies the run in the store."""
        return f"{self.cell.key}, {self.configuration.label}"

    @property
    def files(self) -> list[Path]:
        """Files that the task reads: a trace, an instance file, or the file of a user's solver."""
        source, found = self.configuration.source, []
        if self.trace is not None and self.cell.reads_trace:
            found.append(Path(self.trace.path))
        if self.cell.file_sha256 is not None:
            found.append(Path(str(dict(self.cell.parameters)[FILE])))
        return found + ([] if source is None else files_of(source))

    @property
    def documents_folder(self) -> None:
        """None, because runs of solvers write no documents."""

    @property
    def inputs(self) -> None:
        """None, because instances take little time to prepare."""

    @property
    def solver_seed(self) -> int:
        """Seed of the solver, derived from study, instance and solver, but not from the limits."""
        seed = derive_seed(
            study=self.study, instance=self.cell.key, solver=self.configuration.solver
        )
        return seed >> (128 - SEED_BITS)

    def run(self) -> SolverRecord:
        """Run the solver on the instance; return the row, with status error after a failure."""
        started_at = datetime.now(UTC)
        try:
            generated = _generated(self.cell, self.trace)
        except (Exception, SystemExit) as error:
            return self.failed(started_at, f"the generator failed: {in_words(error)}")
        try:
            return _solved(self, generated, started_at)
        except (Exception, SystemExit) as error:
            return self.failed(started_at, in_words(error), **generated.columns)

    def record(self, started_at: datetime, status: Status, **outcome: Any) -> SolverRecord:
        """Return the row of this run, with the result columns given in `outcome`."""
        trace = self.trace if self.cell.reads_trace else None
        parameters = dict(self.cell.parameters)
        columns = {
            "study": self.study,
            "position": self.position,
            "key": self.key,
            "axes": {name: parameters[name] for name in self.cell.axes},
            "seed": self.cell.seed,
            "problem": self.cell.problem,
            "cell": self.cell.key,
            "configuration": self.configuration.label,
            "family_group": self.cell.group,
            "family": self.cell.family,
            "family_parameters": parameters,
            "trace_name": None if trace is None else trace.name,
            "trace_sha256": None if trace is None else trace.sha256,
            "solver": self.configuration.solver,
            "solver_source": self.configuration.source,
            "solver_sha256": self.configuration.source_sha256,
            "solver_seed": self.solver_seed,
            "time_limit_s": self.configuration.time_limit_s,
            "memory_limit_mib": self.configuration.memory_limit_mib,
            "certify": self.configuration.certify,
            "reference": self.configuration.reference,
            "started_at": started_at.isoformat(timespec="milliseconds"),
            "status": status,
            **asdict(current_environment()),
        }
        return SolverRecord(**(columns | outcome))

    def failed(self, started_at: datetime, message: str, **outcome: Any) -> SolverRecord:
        """Return the row of a run that failed."""
        return self.record(started_at, Status.ERROR, message=message, **outcome)


@dataclass(frozen=True, slots=True)
class _Generated:
    """A generated instance with the columns of a row that describe it."""

    instance: Any
    columns: dict[str, Any]


@lru_cache(maxsize=INSTANCES_KEPT)
def _generated(cell: Cell, trace: Trace | None) -> _Generated:
    known = None
    if cell.file_sha256 is not None:
        instance = read_instance_file(cell)
    elif cell.family == LIBRARY:
        instance = load_library_instance(str(dict(cell.parameters)[LIBRARY])).instance
    else:
        family = find_family(cell.problem, cell.family)
        arguments = cell.arguments(trace)
        instance = family.generate(arguments, cell.seed)
        known = family.known_optimum(arguments)
    problem = find_problem(cell.problem)
    return _Generated(
        instance,
        {
            "size": problem.size(instance),
            "instance_name": instance.name,
            "content_sha256": content_hash(problem, instance),
            "variant": str(instance.variant),
            "known_optimum": None if known is None else known[1],
            "terms": max(1, len(problem.terms_of(instance).keys)),
        },
    )


def _solved(task: SolverTask, generated: _Generated, started_at: datetime) -> SolverRecord:
    problem = find_problem(task.cell.problem)
    solver = task.configuration.find()
    _warm_up(task, solver, generated.instance)
    answer = _answer(task, solver, generated.instance, task.configuration.time_limit_s)
    write_traceback(task.key, answer.traceback)
    solution = None
    if answer.solution is not None and answer.objective is not None:
        solution = problem.solution_document(generated.instance, answer.solution, answer.objective)
    return task.record(
        started_at,
        answer.status,
        **generated.columns,
        stopped_by=None if answer.stopped_by is None else str(answer.stopped_by),
        objective=answer.objective,
        dual_bound=None if answer.dual_bound is None else _plain(answer.dual_bound),
        wall_time_s=answer.wall_time_s,
        cpu_time_s=answer.cpu_time_s,
        certify_time_s=answer.certify_time_s,
        peak_memory_mib=answer.peak_memory_mib,
        message=answer.message,
        counters={name: int(count) for name, count in answer.counters.items()},
        solution=solution,
    )


def _answer(
    task: SolverTask, solver: Solver, instance: Any, time_limit_s: float | None
) -> Answer[Any]:
    """Run the solver on an instance in a separate process, and return its checked answer."""
    return solve_and_check(
        find_problem(task.cell.problem),
        instance,
        solver,
        limits=Limits(time_s=time_limit_s, memory_mib=task.configuration.memory_limit_mib),
        seed=task.solver_seed,
        certify=task.configuration.certify,
        executor=_workers(),
    )


_of_thread = threading.local()


def _workers() -> Workers:
    """Return the child processes in which this thread runs solvers; they end with this process."""
    known: Workers | None = getattr(_of_thread, "workers", None)
    if known is None:
        known = _of_thread.workers = Workers()
    return known


def end_children() -> None:
    """End the child processes that ran solvers for tasks of this thread."""
    _workers().end()


def _plain(number: Number) -> Number:
    """Return a number as Python's own int or float; a store does not accept NumPy's types."""
    return int(number) if isinstance(number, Integral) else float(number)


_warm: set[tuple[int | None, str, bool, str]] = set()


def _warm_up(task: SolverTask, solver: Solver, instance: Any) -> None:
    """Make an untimed call if the first timed call would load libraries or compile kernels.

    An exact solver loads its library once per process. A heuristic loads compiled code only for
    large instances, so each shape of instance needs its own call.
    """
    configuration = task.configuration
    shape = "" if instance.variant in solver.exact_variants else task.cell.shape
    problem, workers = find_problem(task.cell.problem), _workers()

    def key() -> tuple[int | None, str, bool, str]:
        child = workers.child_of(problem, solver)
        return child, configuration.solver, configuration.certify, shape

    if key() not in _warm:
        limit_s = min(WARM_UP_LIMIT_S, configuration.time_limit_s or WARM_UP_LIMIT_S)
        _answer(task, solver, instance, limit_s)
        _warm.add(key())


def run_study(
    study: Study,
    folder: Path,
    *,
    engine: Engine,
    resume: bool = False,
    command: str | None = None,
    is_kept: bool = True,
) -> int:
    """Run the tasks of a study without a stored result, and search all results for contradictions.

    Parameters
    ----------
    study
        A validated study.
    folder, engine, resume, is_kept
        As in `lyra_opt.experiments.executor.run_stored`.
    command
        The command line that started the study; None without a command line.

    Returns
    -------
    int
        0; 1 if a run failed or results contradict one another; 130 after Ctrl-C, SIGTERM or SIGHUP.

    Raises
    ------
    UserError
        If a store exists and `resume` is false, the store belongs to another study, or it cannot be
        written.
    """
    tasks = [
        SolverTask(
            study=study.name,
            position=position,
            cell=cell,
            configuration=configuration,
            trace=study.trace,
        )
        for position, (cell, configuration) in enumerate(study.runs())
    ]
    record = StudyRecord(
        name=study.name,
        kind=SolverRecord.kind,
        description=study.description,
        text=study.text,
        meaning_hash=study.meaning_hash(),
        runs=len(tasks),
        settings={"headline": list(study.headline), "command": command},
    )
    turns = list(_taking_turns(tasks))
    try:
        status = run_stored(record, turns, folder, engine=engine, resume=resume, is_kept=is_kept)
    finally:
        end_children()  # started by tasks that ran in this process
    if status == EXIT_INTERRUPTED:
        return status
    with ResultStore.open(folder) as store:
        contradictions = find_contradictions(store.runs())
    for contradiction in contradictions:
        complain(f"CONTRADICTION: {contradiction}")
    return 1 if contradictions else status


def _taking_turns(tasks: Sequence[SolverTask]) -> Iterator[SolverTask]:
    """Yield the tasks instance by instance, and rotate the order of solvers each time.

    Otherwise a solver would always run after the same other solver and find its caches.
    """
    for number, (_, group) in enumerate(groupby(tasks, key=lambda task: task.cell)):
        of_instance = list(group)
        first = number % len(of_instance)
        yield from of_instance[first:]
        yield from of_instance[:first]
