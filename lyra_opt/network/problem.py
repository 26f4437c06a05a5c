"""The network problem as the rest of the toolkit sees it: files, checker and bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import JsonObject, Record, join_path, located, require_format
from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_number, require_text
from lyra_opt.network.checker import NetworkReport, check
from lyra_opt.network.instance import (
    GangPlacement,
    Machine,
    NetworkInstance,
    NetworkSolution,
    Objective,
    WaitingJob,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from lyra_opt.core.result import Number

INSTANCE_FORMAT = "lyra-opt/network-placement"
SOLUTION_FORMAT = "lyra-opt/network-placement-solution"
VERSION = 1
DEFAULT_SOLVER = "priced-placement"

JOB_DEFAULTS: dict[str, Any] = {
    "score": 0.0,
    "waiting_s": 0.0,
    "rack_timer_s": 0.0,
    "network_timer_s": 0.0,
    "weight": 1.0,
    "remaining_s": 3600.0,
    "attained_gpu_s": 0.0,
    "needs_consolidation": True,
}


class NetworkProblem:
    """Implements `lyra_opt.core.problem.Problem` for gangs in a network of tiers."""

    name = "network"
    size_name = "jobs"
    variants = Objective
    instance_format = INSTANCE_FORMAT
    measure_keys: Sequence[str] = (
        "placed_gpus",
        "machine_gangs",
        "rack_gangs",
        "network_gangs",
        "computing_gpus",
        "fragmented_machines",
    )
    answer_keys: Sequence[str] = ("placements", *measure_keys)

    def default_solver_of(self, variant: str) -> str:  # noqa: ARG002
        """Return the solver used where none is named."""
        return DEFAULT_SOLVER

    def parse_instance(self, document: JsonObject) -> NetworkInstance:
        """Return the instance; raise `FieldError` naming field, value and rule."""
        keys = ("name", "objective", "machines", "jobs", "waiting_weight_per_s")
        record = Record(document, "", ("format", "version", *keys))
        require_format(record, INSTANCE_FORMAT, VERSION)
        return NetworkInstance(
            name=record.required("name"),
            objective=record.required("objective"),
            machines=tuple(located(_parse_machine, record.items_of("machines"))),
            jobs=tuple(located(_parse_job, record.items_of("jobs"))),
            **record.chosen("waiting_weight_per_s"),
        )

    def instance_document(self, instance: NetworkInstance) -> JsonObject:
        """Return the instance as a JSON object, defaults of jobs left out."""
        return {
            "format": INSTANCE_FORMAT,
            "version": VERSION,
            "name": instance.name,
            "objective": str(instance.objective),
            "waiting_weight_per_s": instance.waiting_weight_per_s,
            "machines": [_machine_document(machine) for machine in instance.machines],
            "jobs": [_job_document(job) for job in instance.jobs],
        }

    def size(self, instance: NetworkInstance) -> int:
        """Return the number of jobs."""
        return len(instance.jobs)

    def parse_solution(self, document: JsonObject) -> tuple[NetworkSolution, Mapping[str, Any]]:
        """Return the placements, and what the file claims of them.

        The document is a solution file, or the instance name, solution and claims of one object
        of ``solve --json``.
        """
        keys: tuple[str, ...] = ("instance", "objective", *self.answer_keys)
        if "format" in document:
            keys = ("format", "version", "instance", "placements", "objective")
        record = Record(document, "", keys)
        if "format" in document:
            require_format(record, SOLUTION_FORMAT, VERSION)
        solution = NetworkSolution(tuple(located(_parse_placement, record.items_of("placements"))))
        claims = record.chosen("instance", "objective", *self.measure_keys)
        require_text("instance", record.required("instance"))
        if "objective" in claims:
            require_number("objective", claims["objective"], minimum=-math.inf)
        return solution, claims

    def solution_document(
        self, instance: NetworkInstance, solution: NetworkSolution, objective: Number
    ) -> JsonObject:
        """Return the solution as a JSON object."""
        return {
            "format": SOLUTION_FORMAT,
            "version": VERSION,
            "instance": instance.name,
            **self.answer(instance, solution),
            "objective": objective,
        }

    def answer(self, instance: NetworkInstance, solution: NetworkSolution) -> Mapping[str, Any]:
        """Return the placements, jobs and machines in file order."""
        position = instance.machine_position
        return {
            "placements": [
                {
                    "job": placement.job,
                    "tier": placement.tier,
                    "gpus": {
                        machine: placement.gpus[machine]
                        for machine in sorted(placement.gpus, key=position.__getitem__)
                    },
                }
                for placement in sorted(
                    solution.placements, key=lambda entry: instance.job_position[entry.job]
                )
            ]
        }

    def check(self, instance: NetworkInstance, solution: NetworkSolution) -> NetworkReport:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: NetworkInstance) -> Number:
        """Return a proved upper bound on the optimum."""
        from lyra_opt.network.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def drawing_of(
        self,
        variant: str,  # noqa: ARG002
    ) -> Callable[[NetworkInstance, Mapping[str, Any]], Figure] | None:
        """Return None: there is no picture of these solutions."""
        return None


PROBLEM = NetworkProblem()


def _parse_machine(value: object, path: str) -> Machine:
    record = Record(value, path, ("id", "rack", "gpus", "free_gpus", "affinity"))
    required = {key: record.required(key) for key in ("id", "rack", "gpus", "free_gpus")}
    return Machine(**required, **record.chosen("affinity"))


def _machine_document(machine: Machine) -> JsonObject:
    document: JsonObject = {
        "id": machine.id,
        "rack": machine.rack,
        "gpus": machine.gpus,
        "free_gpus": machine.free_gpus,
    }
    if machine.affinity is not None:
        document["affinity"] = machine.affinity
    return document


def _parse_job(value: object, path: str) -> WaitingJob:
    record = Record(value, path, ("id", "gang", "efficiency", *JOB_DEFAULTS))
    efficiency = record.required("efficiency")
    if not isinstance(efficiency, dict):
        raise FieldError(join_path(path, "efficiency"), efficiency, "must be an object")
    return WaitingJob(
        id=record.required("id"),
        gang=record.required("gang"),
        efficiency=efficiency,
        **record.chosen(*JOB_DEFAULTS),
    )


def _job_document(job: WaitingJob) -> JsonObject:
    document: JsonObject = {"id": job.id, "gang": job.gang, "efficiency": dict(job.efficiency)}
    for key, default in JOB_DEFAULTS.items():
        value = getattr(job, key)
        if value != default:
            document[key] = value
    return document


def _parse_placement(value: object, path: str) -> GangPlacement:
    record = Record(value, path, ("job", "tier", "gpus"))
    gpus = record.required("gpus")
    if not isinstance(gpus, dict):
        raise FieldError(join_path(path, "gpus"), gpus, "must be an object")
    return GangPlacement(job=record.required("job"), tier=record.required("tier"), gpus=gpus)
