"""Reclaiming as the rest of the toolkit sees it: files, checker and bound under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import JsonObject, Record, located, require_format
from lyra_opt.core.validation import require_integer, require_text
from lyra_opt.reclaim.checker import ReclaimReport, check
from lyra_opt.reclaim.instance import (
    Job,
    ReclaimInstance,
    ReclaimSolution,
    Semantics,
    Server,
    WorkerGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from lyra_opt.core.result import Number

INSTANCE_FORMAT = "lyra-opt/reclaim"
SOLUTION_FORMAT = "lyra-opt/reclaim-solution"
VERSION = 1


class ReclaimProblem:
    """Implements `lyra_opt.core.problem.Problem` for reclaiming."""

    name = "reclaim"
    size_name = "servers"
    variants = Semantics
    instance_format = INSTANCE_FORMAT
    measure_keys: Sequence[str] = ("preempted_jobs", "collateral_gpus", "scaled_in_workers")
    answer_keys: Sequence[str] = ("servers", *measure_keys)

    def default_solver_of(self, variant: str) -> str:  # noqa: ARG002
        """Return Lyra's own rule."""
        return "lyra-greedy"

    def parse_instance(self, document: JsonObject) -> ReclaimInstance:
        """Return the instance; raise `FieldError` naming field, value and rule."""
        record = Record(
            document,
            "",
            ("format", "version", "name", "semantics", "reclaim_servers", "servers", "jobs"),
        )
        require_format(record, INSTANCE_FORMAT, VERSION)
        return ReclaimInstance(
            name=record.required("name"),
            semantics=record.required("semantics"),
            reclaim_servers=record.required("reclaim_servers"),
            servers=tuple(located(_parse_server, record.items_of("servers"))),
            jobs=tuple(located(_parse_job, record.items_of("jobs"))),
        )

    def instance_document(self, instance: ReclaimInstance) -> JsonObject:
        """Return the instance as a JSON object, defaults left out."""
        return {
            "format": INSTANCE_FORMAT,
            "version": VERSION,
            "name": instance.name,
            "semantics": str(instance.semantics),
            "reclaim_servers": instance.reclaim_servers,
            "servers": [_server_document(server) for server in instance.servers],
            "jobs": [_job_document(job) for job in instance.jobs],
        }

    def size(self, instance: ReclaimInstance) -> int:
        """Return the number of servers."""
        return len(instance.servers)

    def parse_solution(self, document: JsonObject) -> tuple[ReclaimSolution, Mapping[str, Any]]:
        """Return the chosen servers and what the file claims of them.

        The document is a solution file, or the instance name, servers and claims of one object
        of ``solve --json``.
        """
        record = Record(
            document,
            "",
            ("format", "version", "instance", "objective", *self.answer_keys),
        )
        if "format" in record:
            record = Record(document, "", ("format", "version", "instance", "servers", "objective"))
            require_format(record, SOLUTION_FORMAT, VERSION)
        servers = tuple(require_text(path, server) for path, server in record.items_of("servers"))
        claims = record.chosen("instance", "objective", *self.measure_keys)
        require_text("instance", record.required("instance"))
        for key in ("objective", "collateral_gpus", "scaled_in_workers"):
            if key in claims:
                require_integer(key, claims[key], minimum=0)
        return ReclaimSolution(servers), claims

    def solution_document(
        self, instance: ReclaimInstance, solution: ReclaimSolution, objective: Number
    ) -> JsonObject:
        """Return the solution as a JSON object, with its objective."""
        return {
            "format": SOLUTION_FORMAT,
            "version": VERSION,
            "instance": instance.name,
            **self.answer(instance, solution),
            "objective": objective,
        }

    def answer(self, instance: ReclaimInstance, solution: ReclaimSolution) -> Mapping[str, Any]:
        """Return the chosen servers in file order."""
        position = instance.server_position
        return {"servers": sorted(solution.servers, key=position.__getitem__)}

    def check(self, instance: ReclaimInstance, solution: ReclaimSolution) -> ReclaimReport:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: ReclaimInstance) -> int:
        """Return a proved lower bound on the weight of preempted jobs."""
        from lyra_opt.reclaim.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def drawing_of(
        self,
        variant: str,  # noqa: ARG002
    ) -> Callable[[ReclaimInstance, Mapping[str, Any]], Figure]:
        """Return what draws the servers, the jobs on them and what each solution takes."""
        from lyra_opt.reclaim.plot import draw_reclaims

        return draw_reclaims


PROBLEM = ReclaimProblem()


def _parse_server(value: object, path: str) -> Server:
    record = Record(value, path, ("id", "gpus", "on_loan"))
    return Server(
        id=record.required("id"), gpus=record.required("gpus"), **record.chosen("on_loan")
    )


def _parse_job(value: object, path: str) -> Job:
    record = Record(value, path, ("id", "weight", "gpus_per_worker", "min_workers", "workers"))
    if "min_workers" in record:  # null would otherwise stand for the default
        require_integer("min_workers", record.required("min_workers"), minimum=0)
    return Job(
        id=record.required("id"),
        workers=tuple(located(_parse_worker_group, record.items_of("workers"))),
        **record.chosen("weight", "gpus_per_worker", "min_workers"),
    )


def _parse_worker_group(value: object, path: str) -> WorkerGroup:
    record = Record(value, path, ("server", "base", "flexible"))
    return WorkerGroup(server=record.required("server"), **record.chosen("base", "flexible"))


def _server_document(server: Server) -> JsonObject:
    document: JsonObject = {"id": server.id, "gpus": server.gpus}
    if not server.on_loan:
        document["on_loan"] = False
    return document


def _job_document(job: Job) -> JsonObject:
    document: JsonObject = {"id": job.id}
    if job.weight != 1:
        document["weight"] = job.weight
    if job.gpus_per_worker != 1:
        document["gpus_per_worker"] = job.gpus_per_worker
    if job.min_workers != job.base_workers:
        document["min_workers"] = job.min_workers
    document["workers"] = [
        {"server": group.server}
        | ({"base": group.base} if group.base else {})
        | ({"flexible": group.flexible} if group.flexible else {})
        for group in job.workers
    ]
    return document
