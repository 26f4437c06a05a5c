"""Recompute the cost of a reclaim solution from the instance and the chosen servers alone.

The checker is written for clarity. It reads the records of the instance and not the arrays that the
algorithms use, so that an error in the arrays cannot hide here.
"""

from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.rules import Integer, ListOf, Text
from lyra_opt.reclaim.instance import Instance, Job, Semantics, Solution

SUM = Integer(most=2**100)
"""The rule for sums of weights and GPUs, which may exceed the largest integer in a file."""


@declared()
class Report(CheckReport):
    """The checker's report on a reclaim solution: violations, objective and collateral damage."""

    objective: int | None = key(SUM, "total weight of the preempted jobs", default=None)
    preempted_jobs: tuple[str, ...] | None = key(
        ListOf(Text(), least=0), "ids of the preempted jobs, in file order", default=None
    )
    collateral_gpus: int | None = key(
        SUM, "GPUs that preempted jobs release on servers that are not reclaimed", default=None
    )
    scaled_in_workers: int | None = key(
        SUM, "workers of surviving jobs on reclaimed servers", default=None
    )


def check(instance: Instance, solution: Solution) -> Report:
    """Return the report on `solution`: the rules that it breaks, or its cost in integers.

    Time O(servers + worker groups).
    """
    violations = _violations(instance, solution)
    if violations:
        return Report.invalid(violations)
    reclaimed = set(solution.servers)
    objective = collateral_gpus = scaled_in_workers = 0
    preempted_jobs = []
    for job in instance.jobs:
        if _is_preempted(instance.semantics, job, reclaimed):
            objective += job.weight
            preempted_jobs.append(job.id)
            collateral_gpus += job.gpus_per_worker * sum(
                group.workers for group in job.workers if group.server not in reclaimed
            )
        else:
            scaled_in_workers += sum(
                group.workers for group in job.workers if group.server in reclaimed
            )
    return Report(
        objective=objective,
        preempted_jobs=tuple(preempted_jobs),
        collateral_gpus=collateral_gpus,
        scaled_in_workers=scaled_in_workers,
    )


def _violations(instance: Instance, solution: Solution) -> list[str]:
    on_loan = {server.id: server.on_loan for server in instance.servers}
    violations = []
    seen = set()
    for server in solution.servers:
        if server not in on_loan:
            violations.append(f"server {server!r} is not in the instance")
        elif not on_loan[server]:
            violations.append(f"server {server!r} is not on loan")
        if server in seen:
            violations.append(f"server {server!r} is chosen twice")
        seen.add(server)
    if len(solution.servers) != instance.reclaim_servers:
        violations.append(
            f"{len(solution.servers)} servers are chosen, "
            f"but reclaim_servers is {instance.reclaim_servers}"
        )
    return violations


def _is_preempted(semantics: Semantics, job: Job, reclaimed: set[str]) -> bool:
    if semantics is Semantics.RIGID:
        return any(group.base > 0 and group.server in reclaimed for group in job.workers)
    remaining = sum(group.workers for group in job.workers if group.server not in reclaimed)
    return remaining < job.min_workers
