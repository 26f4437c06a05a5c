"""The paper's examples of two elastic jobs, for Tables 2 to 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.library import load_library_instance
from lyra_opt.allocation.instance import Schedule, SchedulePiece
from lyra_opt.problem import find_problem
from lyra_opt.solver import find_solver
from lyra_opt.solving import solve_and_check
from paper_figures.comparison import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.allocation.instance import AllocationInstance

COLUMNS = ("JCT of A (s)", "JCT of B (s)", "mean JCT (s)")


def example(name: str) -> AllocationInstance:
    """Return an example of the library."""
    instance: AllocationInstance = load_library_instance(name).instance
    return instance


def entries_of_starts(
    instance: AllocationInstance, paper: Mapping[tuple[int, int], Sequence[str]]
) -> list[Entry]:
    """Return JCTs and their mean for each start, and the least mean of any schedule.

    Parameters
    ----------
    paper
        By the workers of A and B at the start: the paper's JCT of A, JCT of B and mean. The best
        of the means is what the paper calls the optimum.
    """
    entries = [
        Entry.exact(f"A {start[0]}, B {start[1]}", column, printed, ours)
        for start, numbers in paper.items()
        for column, printed, ours in zip(COLUMNS, numbers, _jcts_s(instance, start), strict=True)
    ]
    answer = solve_and_check(
        find_problem("allocation"), instance, find_solver("allocation", "exact")
    )
    if answer.objective is None:
        raise RuntimeError(f"the example {instance.name} was not solved: {answer.message}")
    best = min((numbers[-1] for numbers in paper.values()), key=float)
    entries.append(Entry.exact("optimum", COLUMNS[-1], best, answer.objective))
    return entries


def _jcts_s(instance: AllocationInstance, start: Sequence[int]) -> tuple[float, ...]:
    """Return the JCTs, and their mean, if the job that is left grows when the other completes."""
    jobs = instance.jobs
    alone_s = [job.work_worker_s / workers for job, workers in zip(jobs, start, strict=True)]
    first_s = min(alone_s)
    pieces, jcts_s = [], []
    for job, workers, end_s in zip(jobs, start, alone_s, strict=True):
        pieces.append(SchedulePiece(job=job.id, start_s=0.0, end_s=first_s, workers=workers))
        if end_s > first_s:
            left_worker_s = job.work_worker_s - workers * first_s
            most = min(job.max_workers, instance.gpus)
            end_s = first_s + left_worker_s / most
            pieces.append(SchedulePiece(job=job.id, start_s=first_s, end_s=end_s, workers=most))
        jcts_s.append(end_s)
    pieces.sort(key=lambda piece: (piece.start_s, piece.job))
    report = find_problem("allocation").check(instance, Schedule(tuple(pieces)))
    if report.objective is None:
        raise RuntimeError(f"the schedule from {start} is not valid: {report.violations}")
    return *jcts_s, float(report.objective)
