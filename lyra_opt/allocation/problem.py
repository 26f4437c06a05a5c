"""Allocation as the rest of the toolkit sees it: files, checker and bound under one name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.allocation.checker import AllocationReport, check
from lyra_opt.allocation.instance import (
    AllocationInstance,
    ElasticJob,
    NamedWorkers,
    Objective,
    Schedule,
    SchedulePiece,
    Solution,
)
from lyra_opt.core.documents import JsonObject, Record, located, require_format
from lyra_opt.core.errors import FieldError, MissingFieldError
from lyra_opt.core.validation import require_integer, require_number, require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from lyra_opt.core.result import Number

INSTANCE_FORMAT = "lyra-opt/allocation"
SOLUTION_FORMAT = "lyra-opt/allocation-solution"
VERSION = 1

JOB_DEFAULTS = {"gpus_per_worker": 1, "release_s": 0.0, "running": False, "scaling_loss": 0.0}

DEFAULT_SOLVERS = {
    Objective.JCT_REDUCTION: "mckp-core",
    Objective.TWO_PHASE: "mckp-core",
    Objective.JOINT: "mckp-core",
    Objective.MEAN_JCT: "srw",
}


class AllocationProblem:
    """Implements `lyra_opt.core.problem.Problem` for elastic allocation."""

    name = "allocation"
    size_name = "jobs"
    variants = Objective
    instance_format = INSTANCE_FORMAT
    measure_keys: Sequence[str] = ("started", "used_gpus", "makespan_s", "mean_queuing_s")
    answer_keys: Sequence[str] = ("workers", "schedule", *measure_keys)

    def default_solver_of(self, variant: str) -> str:
        """Return the solver used where none is named, which depends on the objective."""
        return DEFAULT_SOLVERS[Objective(variant)]

    def parse_instance(self, document: JsonObject) -> AllocationInstance:
        """Return the instance; raise `FieldError` naming field, value and rule."""
        record = Record(document, "", ("format", "version", "name", "objective", "gpus", "jobs"))
        require_format(record, INSTANCE_FORMAT, VERSION)
        return AllocationInstance(
            name=record.required("name"),
            objective=record.required("objective"),
            gpus=record.required("gpus"),
            jobs=tuple(located(_parse_job, record.items_of("jobs"))),
        )

    def instance_document(self, instance: AllocationInstance) -> JsonObject:
        """Return the instance as a JSON object, defaults left out."""
        return {
            "format": INSTANCE_FORMAT,
            "version": VERSION,
            "name": instance.name,
            "objective": str(instance.objective),
            "gpus": instance.gpus,
            "jobs": [_job_document(job) for job in instance.jobs],
        }

    def size(self, instance: AllocationInstance) -> int:
        """Return the number of jobs."""
        return len(instance.jobs)

    def parse_solution(self, document: JsonObject) -> tuple[Solution, Mapping[str, Any]]:
        """Return the workers or the schedule, and what the file claims of them.

        The document is a solution file, or the instance name, solution and claims of one object
        of ``solve --json``.
        """
        record = Record(
            document, "", ("format", "version", "instance", "objective", *self.answer_keys)
        )
        if "format" in record:
            record = Record(
                document,
                "",
                ("format", "version", "instance", "workers", "schedule", "objective"),
            )
            require_format(record, SOLUTION_FORMAT, VERSION)
        claims = record.chosen("instance", "objective", *self.measure_keys)
        require_text("instance", record.required("instance"))
        if "objective" in claims:
            require_number("objective", claims["objective"], minimum=-math.inf)
        for key in ("makespan_s", "mean_queuing_s"):
            if key in claims:
                require_number(key, claims[key], minimum=0)
        if "used_gpus" in claims:
            require_integer("used_gpus", claims["used_gpus"], minimum=0)
        if "started" in claims:
            for path, job in record.items_of("started"):
                require_text(path, job)
        return _parse_answer(record), claims

    def solution_document(
        self, instance: AllocationInstance, solution: Solution, objective: Number
    ) -> JsonObject:
        """Return the solution as a JSON object, with its objective."""
        return {
            "format": SOLUTION_FORMAT,
            "version": VERSION,
            "instance": instance.name,
            **self.answer(instance, solution),
            "objective": objective,
        }

    def answer(self, instance: AllocationInstance, solution: Solution) -> Mapping[str, Any]:
        """Return the workers in file order, or the schedule by start, then in file order."""
        if isinstance(solution, Schedule):
            position = instance.job_position
            pieces = sorted(solution.pieces, key=lambda piece: (piece.start_s, position[piece.job]))
            return {"schedule": [_piece_document(piece) for piece in pieces]}
        if isinstance(solution, NamedWorkers):
            solution = solution.in_file_order(instance)
        ids = (job.id for job in instance.jobs)
        return {"workers": dict(zip(ids, solution.workers, strict=True))}

    def check(self, instance: AllocationInstance, solution: Solution) -> AllocationReport:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: AllocationInstance) -> float:
        """Return a proved bound on the optimum, above it for the reduction, else below."""
        from lyra_opt.allocation.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def drawing_of(
        self, variant: str
    ) -> Callable[[AllocationInstance, Mapping[str, Any]], Figure] | None:
        """Return what draws schedules; one-shot objectives have no picture."""
        from lyra_opt.allocation.plot import draw_schedules

        return draw_schedules if variant == Objective.MEAN_JCT else None


PROBLEM = AllocationProblem()


def _parse_job(value: object, path: str) -> ElasticJob:
    record = Record(
        value, path, ("id", "min_workers", "max_workers", "work_worker_s", *JOB_DEFAULTS)
    )
    return ElasticJob(
        id=record.required("id"),
        min_workers=record.required("min_workers"),
        max_workers=record.required("max_workers"),
        work_worker_s=record.required("work_worker_s"),
        **record.chosen(*JOB_DEFAULTS),
    )


def _job_document(job: ElasticJob) -> JsonObject:
    document: JsonObject = {
        "id": job.id,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "work_worker_s": job.work_worker_s,
    }
    for key, default in JOB_DEFAULTS.items():
        value = getattr(job, key)
        if value != default:
            document[key] = value
    return document


def _parse_answer(record: Record) -> Solution:
    """Return the one of ``workers`` and ``schedule`` that is there."""
    if "schedule" in record:
        if "workers" in record:
            raise FieldError(
                "schedule", record.required("schedule"), "must not be given beside workers"
            )
        return Schedule(tuple(located(_parse_piece, record.items_of("schedule"))))
    if "workers" not in record:
        raise MissingFieldError("workers (or, for the objective mean_jct, schedule)")
    workers = record.required("workers")
    if not isinstance(workers, dict):
        raise FieldError("workers", workers, "must be an object, job id to number of workers")
    return NamedWorkers(tuple(workers.items()))


def _parse_piece(value: object, path: str) -> SchedulePiece:
    keys = ("job", "start_s", "end_s", "workers")
    record = Record(value, path, keys)
    return SchedulePiece(**{key: record.required(key) for key in keys})


def _piece_document(piece: SchedulePiece) -> JsonObject:
    return {
        "job": piece.job,
        "start_s": piece.start_s,
        "end_s": piece.end_s,
        "workers": piece.workers,
    }
