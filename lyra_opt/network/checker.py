"""Recompute the feasibility and objective of a placement of gangs from the instance alone.

The code is plain on purpose. It works on the records of the instance, not on the arrays of the
algorithms. Every float stands for its exact rational value, and there is no tolerance. Values are
exact until their final rounding to a float.
"""

from fractions import Fraction

from lyra_opt.core import rules
from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.result import Number
from lyra_opt.core.rules import ANY_NUMBER, Integer
from lyra_opt.network.instance import (
    COUNTING_OBJECTIVES,
    GangPlacement,
    Instance,
    Objective,
    Solution,
    WaitingJob,
)
from lyra_opt.network.links import TIER_OF_LABEL, Tier


@declared()
class Report(CheckReport):
    """The result of checking a solution: its violations, or its objective and further figures."""

    objective: Number | None = key(ANY_NUMBER, "value of the instance's objective", default=None)
    placed_gpus: int | None = key(Integer(), "GPUs of the gangs that start", default=None)
    machine_gangs: int | None = key(Integer(), "number of gangs on one machine", default=None)
    rack_gangs: int | None = key(
        Integer(), "number of gangs on several machines of one rack", default=None
    )
    network_gangs: int | None = key(Integer(), "number of gangs on several racks", default=None)
    computing_gpus: float | None = key(
        rules.Number(), "sum over the GPUs in use of the efficiency of their gangs", default=None
    )
    fragmented_machines: int | None = key(
        Integer(), "machines that are partly free after the placement", default=None
    )


def value_of(instance: Instance, job: WaitingJob, tier: Tier) -> Fraction:
    """Return the contribution to the objective of a gang that starts at a given tier.

    `Objective.LEAST_FRAGMENTATION` also subtracts a term for machines, which is not included. For
    ``epoch`` the value is weight * (1 - score + waiting weight * waiting time) * gang * efficiency.

    Raises
    ------
    KeyError
        If the job cannot run at this tier.
    """
    efficiency = Fraction(job.efficiency[tier.label])
    if instance.objective is Objective.EPOCH:
        hurt = 1 - Fraction(job.score)
        waited = Fraction(instance.waiting_weight_per_s) * Fraction(job.waiting_s)
        return Fraction(job.weight) * (hurt + waited) * job.gang * efficiency
    if instance.objective is Objective.WORK_RATE:
        return Fraction(job.weight) * job.gang * efficiency
    crossed = int(tier) if instance.objective is Objective.FEWEST_TIERS else 0
    return Fraction(instance.gpu_points * job.gang - crossed)


def objective_of(instance: Instance, solution: Solution) -> Number:
    """Return the objective of a valid solution, exact until the final rounding.

    O(machines + gangs placed).
    """
    value = Fraction(0)
    for placement in solution.placements:
        job = instance.jobs[instance.job_position[placement.job]]
        value += value_of(instance, job, TIER_OF_LABEL[placement.tier])
    if instance.objective is Objective.LEAST_FRAGMENTATION:
        value -= _fragmented_machines(instance, solution)
    return int(value) if instance.objective in COUNTING_OBJECTIVES else float(value)


def _fragmented_machines(instance: Instance, solution: Solution) -> int:
    """Return the number of machines that are partly free after the placement."""
    left = {machine.id: machine.free_gpus for machine in instance.machines}
    for placement in solution.placements:
        for machine, count in placement.gpus.items():
            left[machine] -= count
    return sum(0 < left[machine.id] < machine.gpus for machine in instance.machines)


def check(instance: Instance, solution: Solution) -> Report:
    """Check a solution and return a report with its objective or its violations.

    O(machines + gangs placed).
    """
    violations: list[str] = []
    taken: dict[str, int] = dict.fromkeys(instance.machine_position, 0)
    seen: set[str] = set()
    for placement in solution.placements:
        if placement.job in seen:
            violations.append(f"job {placement.job!r} is placed twice")
        seen.add(placement.job)
        unknown = [machine for machine in placement.gpus if machine not in taken]
        if unknown:
            violations.append(f"job {placement.job!r} is on unknown machine {unknown[0]!r}")
            continue
        for machine, count in placement.gpus.items():
            taken[machine] += count
        violations += _gang_violations(instance, placement)
    for record in instance.machines:
        if taken[record.id] > record.free_gpus:
            violations.append(
                f"gangs hold {taken[record.id]} GPUs of machine {record.id!r}, but only "
                f"{record.free_gpus} are free"
            )
    if violations:
        return Report.invalid(violations)
    return _report(instance, solution)


def _gang_violations(instance: Instance, placement: GangPlacement) -> list[str]:
    if placement.job not in instance.job_position:
        return [f"job {placement.job!r} is not in the instance"]
    job = instance.jobs[instance.job_position[placement.job]]
    violations = []
    gpus = sum(placement.gpus.values())
    if gpus != job.gang:
        violations.append(f"job {job.id!r} holds {gpus} GPUs, but its gang is {job.gang}")
    spanned = instance.tier_of(placement.gpus)
    if spanned.label != placement.tier:
        violations.append(
            f"job {job.id!r} is labelled {placement.tier}, but its machines span {spanned.label}"
        )
    elif spanned.label not in job.efficiency:
        violations.append(f"job {job.id!r} spans tier {spanned.label}, at which it cannot run")
    elif spanned not in instance.tiers_of(job):
        violations.append(
            f"job {job.id!r} spans tier {spanned.label}, but its timer for this tier still runs"
        )
    return violations


def _report(instance: Instance, solution: Solution) -> Report:
    computing = Fraction(0)
    by_tier = dict.fromkeys(TIER_OF_LABEL, 0)
    gpus = 0
    for placement in solution.placements:
        job = instance.jobs[instance.job_position[placement.job]]
        computing += job.gang * Fraction(job.efficiency[placement.tier])
        by_tier[placement.tier] += 1
        gpus += job.gang
    return Report(
        objective=objective_of(instance, solution),
        placed_gpus=gpus,
        machine_gangs=by_tier[Tier.MACHINE.label],
        rack_gangs=by_tier[Tier.RACK.label],
        network_gangs=by_tier[Tier.NETWORK.label],
        computing_gpus=float(computing),
        fragmented_machines=_fragmented_machines(instance, solution),
    )
