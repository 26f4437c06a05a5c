"""The heterogeneous problem as the rest of the toolkit sees it: files, checker and bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import JsonObject, Record, join_path, located, require_format
from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_choice, require_number, require_text
from lyra_opt.heterogeneous.checker import HeterogeneousReport, check
from lyra_opt.heterogeneous.instance import (
    GangJob,
    GpuServer,
    GpuType,
    HeterogeneousInstance,
    Objective,
    RoundEntry,
    RoundSchedule,
    TimeShares,
)
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Table, Utility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from lyra_opt.core.result import Number
    from lyra_opt.heterogeneous.instance import Placement, Solution

INSTANCE_FORMAT = "lyra-opt/heterogeneous"
SOLUTION_FORMAT = "lyra-opt/heterogeneous-solution"
VERSION = 1

INSTANCE_DEFAULTS = {"round_s": 360.0, "horizon_rounds": 1, "restart_s": 0.0, "forking": False}
JOB_DEFAULTS: dict[str, Any] = {
    "spread_throughput": None,
    "release_s": 0.0,
    "weight": 1.0,
    "utility": InverseJct(),
    "elapsed_s": 0.0,
    "isolated_elapsed_s": 0.0,
    "current": {},
}

UTILITY_KEYS: dict[str, tuple[type[Utility], tuple[str, ...]]] = {
    InverseJct.kind: (InverseJct, ("scale",)),
    Deadline.kind: (Deadline, ("deadline_s", "value", "late_value")),
    Table.kind: (Table, ("entries",)),
}
REQUIRED_UTILITY_KEYS = frozenset({"deadline_s", "entries"})

DEFAULT_SOLVERS = {
    Objective.UTILITY: "hadar",
    Objective.MAKESPAN: "priced-progress",
    Objective.MEAN_JCT: "priced-progress",
    Objective.ROUND_PROGRESS: "priced-progress",
    Objective.MAX_MIN_SHARE: "lp-highs",
    Objective.FINISH_TIME_FAIRNESS: "lp-highs",
    Objective.THROUGHPUT: "lp-highs",
    Objective.COST: "lp-highs",
}


class HeterogeneousProblem:
    """Implements `lyra_opt.core.problem.Problem` for jobs on unlike GPUs."""

    name = "heterogeneous"
    size_name = "jobs"
    variants = Objective
    instance_format = INSTANCE_FORMAT
    measure_keys = HeterogeneousReport.measure_keys()
    answer_keys: Sequence[str] = ("allocation", *measure_keys)

    def default_solver_of(self, variant: str) -> str:
        """Return the solver used where none is named, which depends on the objective."""
        return DEFAULT_SOLVERS[Objective(variant)]

    def parse_instance(self, document: JsonObject) -> HeterogeneousInstance:
        """Return the instance; raise `FieldError` naming field, value and rule."""
        lists = ("gpu_types", "servers", "jobs")
        keys = ("format", "version", "name", "objective", *lists, *INSTANCE_DEFAULTS)
        record = Record(document, "", keys)
        require_format(document, INSTANCE_FORMAT, VERSION)
        return HeterogeneousInstance(
            name=record.required("name"),
            objective=record.required("objective"),
            gpu_types=tuple(located(_parse_gpu_type, record.items_of("gpu_types"))),
            servers=tuple(located(_parse_server, record.items_of("servers"))),
            jobs=tuple(located(_parse_job, record.items_of("jobs"))),
            **record.chosen(*INSTANCE_DEFAULTS),
        )

    def instance_document(self, instance: HeterogeneousInstance) -> JsonObject:
        """Return the instance as a JSON object, defaults left out."""
        return {
            "format": INSTANCE_FORMAT,
            "version": VERSION,
            "name": instance.name,
            "objective": str(instance.objective),
            **{
                key: getattr(instance, key)
                for key, default in INSTANCE_DEFAULTS.items()
                if getattr(instance, key) != default
            },
            "gpu_types": [_gpu_type_document(gpu_type) for gpu_type in instance.gpu_types],
            "servers": [
                {"id": server.id, "gpus": dict(server.gpus)} for server in instance.servers
            ],
            "jobs": [_job_document(job) for job in instance.jobs],
        }

    def size(self, instance: HeterogeneousInstance) -> int:
        """Return the number of jobs."""
        return len(instance.jobs)

    def parse_solution(self, document: JsonObject) -> tuple[Solution, Mapping[str, Any]]:
        """Return the schedule or the shares, and what the file claims of them.

        The document is a solution file, or the instance name, solution and claims of one object
        of ``solve --json``.
        """
        keys: tuple[str, ...] = ("format", "version", "instance", "objective", *self.answer_keys)
        if "format" in document:
            keys = ("format", "version", "instance", "allocation", "objective")
        record = Record(document, "", keys)
        if "format" in record:
            require_format(document, SOLUTION_FORMAT, VERSION)
        claims = record.chosen("instance", "objective", *self.measure_keys)
        require_text("instance", record.required("instance"))
        if "objective" in claims:
            require_number("objective", claims["objective"], minimum=-math.inf)
        for key in ("makespan_s", "mean_jct_s", "gpu_s"):
            if key in claims:
                require_number(key, claims[key], minimum=0)
        if "completed" in claims:
            for path, job in record.items_of("completed"):
                require_text(path, job)
        return _parse_allocation(record), claims

    def solution_document(
        self, instance: HeterogeneousInstance, solution: Solution, objective: Number
    ) -> JsonObject:
        """Return the solution as a JSON object, with its objective."""
        return {
            "format": SOLUTION_FORMAT,
            "version": VERSION,
            "instance": instance.name,
            **self.answer(instance, solution),
            "objective": objective,
        }

    def answer(self, instance: HeterogeneousInstance, solution: Solution) -> Mapping[str, Any]:
        """Return the entries by round, then in file order, or the shares in file order."""
        types = [gpu_type.name for gpu_type in instance.gpu_types]
        if isinstance(solution, TimeShares):
            return {
                "allocation": {
                    job.id: {name: shares[name] for name in types if shares.get(name)}
                    for job in instance.jobs
                    if any((shares := solution.shares.get(job.id, {})).values())
                }
            }
        servers = {server.id: position for position, server in enumerate(instance.servers)}

        def in_file_order(placement: Placement) -> Placement:
            return {
                server: {
                    name: placement[server][name] for name in types if name in placement[server]
                }
                for server in sorted(placement, key=servers.__getitem__)
            }

        def place(entry: RoundEntry) -> tuple[int, int, list[int]]:
            held = sorted(servers[server] for server in entry.gpus)
            return entry.round, instance.job_position[entry.job], held

        return {
            "allocation": [
                {"job": entry.job, "round": entry.round, "gpus": in_file_order(entry.gpus)}
                for entry in sorted(solution.entries, key=place)
            ]
        }

    def check(self, instance: HeterogeneousInstance, solution: Solution) -> HeterogeneousReport:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: HeterogeneousInstance) -> float:
        """Return a proved bound on the optimum, above it where that is maximised, else below."""
        from lyra_opt.heterogeneous.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def drawing_of(
        self,
        variant: str,  # noqa: ARG002
    ) -> Callable[[HeterogeneousInstance, Mapping[str, Any]], Figure] | None:
        """Return None: there is no picture of these solutions."""
        return None


PROBLEM = HeterogeneousProblem()


def _object(value: object, path: str) -> JsonObject:
    """Return a JSON object whose keys are names."""
    if not isinstance(value, dict):
        raise FieldError(path, value, "must be an object")
    for key in value:
        require_text(join_path(path, str(key)), key)
    return value


def _parse_gpu_type(value: object, path: str) -> GpuType:
    record = Record(value, path, ("name", "price_per_hour"))
    return GpuType(name=record.required("name"), **record.chosen("price_per_hour"))


def _gpu_type_document(gpu_type: GpuType) -> JsonObject:
    document: JsonObject = {"name": gpu_type.name}
    if gpu_type.price_per_hour != 1.0:
        document["price_per_hour"] = gpu_type.price_per_hour
    return document


def _parse_server(value: object, path: str) -> GpuServer:
    record = Record(value, path, ("id", "gpus"))
    return GpuServer(
        id=record.required("id"), gpus=_object(record.required("gpus"), f"{path}.gpus")
    )


def _parse_job(value: object, path: str) -> GangJob:
    record = Record(value, path, ("id", "gang", "steps", "throughput", *JOB_DEFAULTS))
    fields = record.chosen(*JOB_DEFAULTS)
    if fields.get("spread_throughput") is not None:
        _object(fields["spread_throughput"], f"{path}.spread_throughput")
    if "utility" in fields:
        fields["utility"] = _parse_utility(fields["utility"], f"{path}.utility")
    if "current" in fields:
        where = f"{path}.current"
        for server, types in _object(fields["current"], where).items():
            _object(types, join_path(where, server))
    return GangJob(
        id=record.required("id"),
        gang=record.required("gang"),
        steps=record.required("steps"),
        throughput=_object(record.required("throughput"), f"{path}.throughput"),
        **fields,
    )


def _parse_utility(value: object, path: str) -> Utility:
    known = ("kind", *(key for _, keys in UTILITY_KEYS.values() for key in keys))
    kind = require_choice(
        join_path(path, "kind"), Record(value, path, known).required("kind"), UTILITY_KEYS
    )
    make, keys = UTILITY_KEYS[kind]
    record = Record(value, path, ("kind", *keys))
    for key in keys:
        if key in REQUIRED_UTILITY_KEYS:
            record.required(key)
    if "entries" in record:
        list(record.items_of("entries"))
    try:
        return make(**record.chosen(*keys))
    except FieldError as error:
        raise error.inside(path) from None


def _utility_document(utility: Utility) -> JsonObject:
    _, keys = UTILITY_KEYS[utility.kind]
    fields = {key: getattr(utility, key) for key in keys}
    if isinstance(utility, Table):
        fields["entries"] = [list(entry) for entry in utility.entries]
    return {"kind": utility.kind, **fields}


def _job_document(job: GangJob) -> JsonObject:
    document: JsonObject = {
        "id": job.id,
        "gang": job.gang,
        "steps": job.steps,
        "throughput": dict(job.throughput),
    }
    for key, default in JOB_DEFAULTS.items():
        value = getattr(job, key)
        if value != default:
            document[key] = value
    if "spread_throughput" in document:
        document["spread_throughput"] = dict(document["spread_throughput"])
    if "utility" in document:
        document["utility"] = _utility_document(job.utility)
    if "current" in document:
        document["current"] = {server: dict(types) for server, types in job.current.items()}
    return document


def _parse_allocation(record: Record) -> Solution:
    """Return the shares if ``allocation`` is an object, the schedule if it is a list."""
    value = record.required("allocation")
    if isinstance(value, dict):
        for job, shares in _object(value, "allocation").items():
            _object(shares, join_path("allocation", job))
        try:
            return TimeShares(value)
        except FieldError as error:
            path = "allocation" + error.field.removeprefix("shares")
            raise FieldError(path, error.value, error.rule) from None
    if not isinstance(value, list):
        rule = "must be a list of entries, or an object of shares by job and type"
        raise FieldError("allocation", value, rule)
    return RoundSchedule(tuple(located(_parse_entry, record.items_of("allocation"))))


def _parse_entry(value: object, path: str) -> RoundEntry:
    record = Record(value, path, ("job", "round", "gpus"))
    gpus = _object(record.required("gpus"), f"{path}.gpus")
    for server, types in gpus.items():
        _object(types, join_path(f"{path}.gpus", server))
    return RoundEntry(job=record.required("job"), round=record.required("round"), gpus=gpus)
