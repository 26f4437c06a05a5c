"""Documents with one defect each, by format: how it is made, and what the error must say."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any, NamedTuple

from lyra_opt.instances.library import library

ABSENT = object()
"""The value of a field that is left out."""


class Defect(NamedTuple):
    """What makes a valid document malformed."""

    fields: str | dict[str, Any]
    """Where, such as ``jobs[0].id``, or values by place where it takes several."""
    value: Any
    """What stands there."""
    error: str
    """What the error says; where it begins with "is", it follows the place."""

    @property
    def expected(self) -> str:
        """What the error must contain."""
        return f"{self.fields} {self.error}" if self.error.startswith("is ") else self.error

    def __str__(self) -> str:
        """The name of the case, of field and value."""
        return self.expected.partition(":")[0]

    def in_(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the document that has the defect."""
        several = isinstance(self.fields, dict)
        changes = self.fields if several else {self.fields: self.value}
        return changed(document, changes)


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with these values at these places, those that are `ABSENT` left out."""
    copy = deepcopy(document)
    for place, value in changes.items():
        target: Any = copy
        *path, last = re.findall(r"[^.\[\]]+", place)
        for step in path:
            target = target[int(step) if isinstance(target, list) else step]
        key = int(last) if isinstance(target, list) else last
        if value is ABSENT:
            del target[key]
        else:
            target[key] = value
    return copy


class Malformed(NamedTuple):
    """A valid document of a format, and its defects."""

    valid: dict[str, Any]
    by_form: tuple[tuple[Any, Any, str], ...]
    """Defects that a JSON Schema can tell."""
    by_rule: tuple[tuple[Any, Any, str], ...] = ()
    """Those that only the parser can tell: NaN, 1.0 for 1, references, sums."""


HETEROGENEOUS_DOCUMENT: dict[str, Any] = {
    "format": "lyra-opt/heterogeneous",
    "version": 1,
    "name": "example",
    "objective": "utility",
    "round_s": 1.0,
    "horizon_rounds": 4,
    "gpu_types": [{"name": "fast"}, {"name": "slow"}],
    "servers": [
        {"id": "s1", "gpus": {"fast": 2, "slow": 1}},
        {"id": "s2", "gpus": {"slow": 2}},
    ],
    "jobs": [
        {
            "id": "a",
            "gang": 2,
            "steps": 8.0,
            "throughput": {"fast": 4.0, "slow": 1.0},
            "spread_throughput": {"fast": 3.0, "slow": 1.0},
            "release_s": 1.0,
            "weight": 2.0,
            "utility": {"kind": "deadline", "deadline_s": 4.0, "value": 2.0, "late_value": 1.0},
            "current": {"s1": {"fast": 2}},
        },
        {"id": "b", "gang": 1, "steps": 8.0, "throughput": {"fast": 4.0, "slow": 1.0}},
    ],
}
NETWORK_DOCUMENT: dict[str, Any] = {
    "format": "lyra-opt/network-placement",
    "version": 1,
    "name": "example",
    "objective": "epoch",
    "waiting_weight_per_s": 1e-05,
    "machines": [
        {"id": "r0m0", "rack": "r0", "gpus": 4, "free_gpus": 4},
        {"id": "r0m1", "rack": "r0", "gpus": 4, "free_gpus": 2},
        {"id": "r1m0", "rack": "r1", "gpus": 4, "free_gpus": 4},
        {"id": "r1m1", "rack": "r1", "gpus": 4, "free_gpus": 0},
        {"id": "kept", "rack": "r2", "gpus": 8, "free_gpus": 8, "affinity": 4},
    ],
    "jobs": [
        {
            "id": "a",
            "gang": 4,
            "efficiency": {"machine": 1.0, "rack": 0.5, "network": 0.25},
            "score": 0.25,
            "waiting_s": 60.0,
            "rack_timer_s": 30.0,
            "network_timer_s": None,
            "weight": 2.0,
            "remaining_s": 100.0,
            "attained_gpu_s": 5.0,
            "needs_consolidation": False,
        },
        {"id": "b", "gang": 1, "efficiency": {"machine": 1.0}},
    ],
}

RECLAIM = Malformed(
    json.loads((library().folder / "lyra-figure-5.json").read_text()),
    (
        ("format", ABSENT, "is missing"),
        ("format", "other", 'is "other": must be'),
        ("format", 1, "is 1: must be one of"),
        ("version", 2, "is 2: must be 1"),
        ("version", True, "is true: must be 1"),
        ("reclaim_servers", ABSENT, "is missing"),
        ("name", "", 'is "": must be a string that is not empty'),
        ("name", 5, "is 5: must be a string"),
        ("semantics", "soft", 'is "soft": must be one of: interchangeable, rigid'),
        ("reclaim_servers", -1, "is -1: must be an integer of at least 0"),
        ("servers", {}, "is {}: must be a list"),
        ("servers[0]", "s1", 'is "s1": must be an obj'),
        ("servers[0].id", ABSENT, "is missing"),
        ("servers[0].gpus", 0, "is 0: must be an integer of at least 1"),
        ("servers[0].gpus", True, "is true: must"),
        ("servers[0].gpus", 2**53, "must be at most 9007199254740991"),
        ("servers[0].on_loan", 1, "is 1: must be true or false"),
        ("servers[0].rack", 1, "is 1: unknown key; the known keys are id, gpus, on_loan"),
        ("jobs[0].weight", -1, "is -1: must be an integer of at least 0"),
        ("jobs[0].weight", "1", 'is "1": must be'),
        ("jobs[0].gpus_per_worker", 0, "is 0: must be an integer of at least 1"),
        ("jobs[0].min_workers", None, "is null: must be an integer"),
        ("jobs[0].workers", [], "is []: must have at least one entry"),
        ("jobs[0].workers", ABSENT, "is missing"),
        ("jobs[0].gpu", 1, "is 1: unknown key"),
        ("jobs[0].workers[0].base", 0, "jobs[0].workers[0] is 0: must have at least one base or f"),
        ("jobs[0].workers[0].flexible", -1, "is -1: must be an integer of at least 0"),
        ("k" * 5000, 1, "k... is 1: unknown key"),
        ("comment", "x", 'is "x": unknown key'),
        ("jobs[0].weight", float("nan"), "is NaN: must be an integer of at least 0"),
        ("jobs[0].weight", float("inf"), "is Infinity: must be an integer of at least 0"),
        ("reclaim_servers", "2", 'is "2": must be an integer'),
        ("reclaim_servers", 2**53, "must be at most 9007199254740991"),
        ("servers[0].gpus", ABSENT, "is missing"),
        ("servers[0].id", 1, "is 1: must be a string"),
        ("jobs[0].workers[0].gpu", 1, "is 1: unknown key"),
        ("jobs[0].workers[0]", {"server": "s1"}, "must have at least one base or flexible worker"),
    ),
    (
        ("version", 1.0, "is 1.0: must be 1"),
        ("reclaim_servers", 7, "is 7: must be at most the 6"),
        ("reclaim_servers", 2.0, "is 2.0: must be an integer"),
        ("servers[1].id", "s1", 'is "s1": must be unique'),
        ("servers[0].gpus", 8.0, "is 8.0: must be an integer"),
        ("jobs[3].id", "a", 'is "a": must be unique'),
        ("jobs[0].min_workers", 11, "is 11: must equal the job's 12 base workers"),
        ("jobs[0].workers[0].server", "s9", 'is "s9": must be the id of a server'),
        ("jobs[0].workers[1].server", "s1", 'is "s1": must be unique'),
        ("jobs[0].workers[0].base", 6.0, "is 6.0: must be an integer of at least 0"),
        ("jobs[0].workers[0].base", 9, "jobs[0].workers[0].base is 9: the workers of job 'a' on "),
        ("jobs[1].workers[0].server", "s1", "jobs[1].workers[0].base is 8: the workers of job 'b'"),
        ({f"servers[{n}].on_loan": False for n in range(1, 6)}, None, "reclaim_servers is 2: must"),
        (
            {"semantics": "interchangeable", "jobs[0].min_workers": 13},
            None,
            "jobs[0].min_workers is 13: must be at most the job's 12 workers",
        ),
        ({f"servers[{n}].gpus": 2**52 for n in range(6)}, None, "servers[1].gpus is 4503599627370"),
    ),
)
ALLOCATION = Malformed(
    json.loads((library().folder / "lyra-table-2.json").read_text()),
    (
        ("version", 2, "is 2: must be 1"),
        ("name", "", 'is "": must be a string that is not empty'),
        ("gpus", ABSENT, "is missing"),
        ("objective", "makespan", 'is "makespan": must be one of: jct_reduction, joint, mean_jct,'),
        ("objective", [], "is []: must be one of"),
        ("gpus", -1, "is -1: must be an integer of at least 0"),
        ("jobs", [], "is []: must have at least one entry"),
        ("jobs", {}, "is {}: must be a list"),
        ("jobs[0]", 1, "is 1: must be an object"),
        ("jobs[0].weight", 1, "is 1: unknown key; the known keys are id, min_workers, max_workers"),
        ("jobs[0].id", ABSENT, "is missing"),
        ("jobs[0].min_workers", 0, "is 0: must be an integer of at least 1"),
        ("jobs[0].min_workers", ABSENT, "is missing"),
        ("jobs[0].min_workers", True, "is true: must be an integer"),
        ("jobs[0].gpus_per_worker", 0, "is 0: must be an integer of at least 1"),
        ("jobs[0].work_worker_s", ABSENT, "is missing"),
        ("jobs[0].work_worker_s", 0, "is 0: must be a finite number above 0"),
        ("jobs[0].work_worker_s", float("inf"), "is Infinity: must be a finite number above 0"),
        ("jobs[0].work_worker_s", "1", 'is "1": must be'),
        ("jobs[0].work_worker_s", 10**400, "must be a finite number above 0"),
        ("jobs[0].work_worker_s", 1e300, "is 1e+300: must be at most 9007199254740991"),
        ("jobs[0].release_s", -0.5, "is -0.5: must be a finite number of at least 0"),
        ("jobs[0].release_s", None, "is null: must be"),
        ("jobs[0].running", 1, "is 1: must be true or false"),
        ("jobs[0].scaling_loss", 1.5, "is 1.5: must be at most 1"),
        ("jobs[0].scaling_loss", -0.1, "is -0.1: must be a finite number of at least 0"),
        ("comment", "x", 'is "x": unknown key'),
        ("jobs[0].max_workers", ABSENT, "is missing"),
        ({"objective": "joint", "gpus": 0}, None, "gpus is 0: must be at least 1 for the objectiv"),
        ({"jobs[0].running": True, "jobs[0].release_s": 3}, None, "jobs[0].release_s is 3.0: must"),
    ),
    (
        ("gpus", 8.0, "is 8.0: must be an integer"),
        ("jobs[1].id", "A", 'is "A": must be unique'),
        ("jobs[0].max_workers", 1, "is 1: must be at least the job's min_workers, 2"),
        ("jobs[0].work_worker_s", float("nan"), "is NaN: must be a finite number above 0"),
        ("jobs[0].gpus_per_worker", 5, "jobs[0].min_workers is 2: the job's base demand of 10 GPU"),
        (
            {"gpus": 3, "jobs[0].running": True, "jobs[1].running": True},
            None,
            "jobs[1].running is true: the base demands of the running jobs up to",
        ),
        ({f"jobs[{n}].max_workers": 2**52 for n in range(2)}, None, "jobs[1].max_workers is 45035"),
    ),
)
HETEROGENEOUS = Malformed(
    HETEROGENEOUS_DOCUMENT,
    (
        ("version", 2, "is 2: must be 1"),
        ("objective", "speed", 'is "speed": must be one of: cost'),
        ("objective", 1, "is 1: must be one of"),
        ("gpus", 1, "is 1: unknown key"),
        ("servers", [], "is []: must have at least one entry"),
        ("servers", {}, "is {}: must be a list"),
        ("servers[0].gpus", [1], "is a list of 1: must be"),
        ("servers[0].gpus.fast", 1.5, "is 1.5: must be an integer of at least 0"),
        ("gpu_types[0]", "fast", 'is "fast": must be an object'),
        ("gpu_types[0].price_per_hour", -1, "is -1: must be a finite number above 0"),
        ("jobs[0]", None, "is null: must be an object"),
        ("jobs[0].gpus", 1, "is 1: unknown key"),
        ("jobs[0].gang", ABSENT, "is missing"),
        ("jobs[0].gang", True, "is true: must be an integer"),
        ("jobs[0].steps", 1e300, "is 1e+300: must be from 1e-60 to 1e+60"),
        ("jobs[0].throughput", [], "is []: must be an obj"),
        ("jobs[0].throughput.fast", "4", 'is "4": must be a finite number'),
        ("jobs[0].spread_throughput", "x", 'is "x": must be an object'),
        ("jobs[0].utility", "x", 'is "x": must be an obj'),
        ("jobs[0].utility.kind", "other", 'is "other": must be one of: deadline, inverse_jct, tab'),
        ("jobs[0].utility.kind", ABSENT, "is missing"),
        ("jobs[0].utility.deadline_s", ABSENT, "is missing"),
        ("jobs[0].utility.scale", 1, "is 1: unknown key; the known keys are kind, deadline_s"),
        ("jobs[0].utility", {"kind": "table", "entries": {}}, "jobs[0].utility.entries is {}: mus"),
        ("jobs[0].utility", {"kind": "table", "entries": [1]}, "jobs[0].utility.entries[0] is 1:"),
        ("jobs[0].current", [], "is []: must be an object"),
        ("jobs[0].current.s1", 2, "is 2: must be an object"),
        ("horizon_rounds", 0, "is 0: must be an integer of at"),
        ("restart_s", 1, "is 1.0: must be 0 for the objective util"),
        ("jobs", [], "is []: must have at least one entry"),
        ("gpu_types", [], "is []: must have at least one entry"),
        ("round_s", 1e-61, "is 1e-61: must be from 1e-60 to 1e+60"),
        ("horizon_rounds", 100_001, "is 100001: must be at most 100000"),
        ("jobs[0].current.s1.fast", 0, "is 0: must be an integer of at least 1"),
        ({"objective": "round_progress"}, None, "horizon_rounds is 4: must be 1 for the objective"),
        ({"objective": "cost", "forking": True}, None, "forking is true: must be false for the ob"),
    ),
    (
        ("servers[0].gpus.old", 1, 'servers[0].gpus is "old": must be one of the gpu_types: fast,'),
        ("jobs[0].steps", float("nan"), "is NaN: must be a finite"),
        ("jobs[0].throughput.old", 1, 'jobs[0].throughput is "old": must be one of the gpu_types'),
        ("jobs[0].utility.late_value", 9, "is 9.0: must be at most value, 2"),
        ("jobs[0].current", {"s2": {"fast": 2}}, "jobs[0].current.s2.fast is 2: must be at most t"),
        ("jobs[0].current", {"s9": {"fast": 2}}, 'jobs[0].current.s9 is "s9": must be a server of'),
        ("jobs[0].current", {"s1": {"fast": 1}}, "is an object: must be 2 GPUs in all, the job's"),
        ("jobs[1].current", {"s1": {"fast": 1}}, "must be at most the 0 GPUs that other jobs leav"),
        ("gpu_types[1].name", "fast", 'is "fast": must be unique'),
        ("servers[1].id", "s1", 'is "s1": must be unique'),
        ("servers[0].gpus", {"fast": 0}, "is {}: must have at least one GPU"),
        ("jobs[1].id", "a", 'is "a": must be unique'),
        ("jobs[0].throughput", {"fast": 0}, "is an object: must be above 0 for at least one type"),
        (
            {"objective": "throughput", "jobs[0].gang": 4, "jobs[0].current": {}},
            None,
            "jobs[0].throughput is an object: must be positive for a type",
        ),
        (
            {"objective": "round_progress", "horizon_rounds": 1, "restart_s": 2},
            None,
            "restart_s is 2.0: must be at most round_s, 1",
        ),
    ),
)
NETWORK = Malformed(
    NETWORK_DOCUMENT,
    (
        ("version", 2, "is 2: must be 1"),
        ("objective", "speed", 'is "speed": must be one of: epoch'),
        ("objective", 1, "is 1: must be one of"),
        ("gpus", 1, "is 1: unknown key"),
        ("machines", ABSENT, "is missing"),
        ("waiting_weight_per_s", "x", 'is "x": must be a finite number of at least 0'),
        ("machines", [], "is []: must have at least one entry"),
        ("machines", {}, "is {}: must be a list"),
        ("machines[0]", "m", 'is "m": must be an object'),
        ("machines[0].cpus", 1, "is 1: unknown key"),
        ("machines[0].rack", ABSENT, "is missing"),
        ("machines[0].rack", 0, "is 0: must be a st"),
        ("machines[0].free_gpus", ABSENT, "is missing"),
        ("machines[0].affinity", 0, "is 0: must be an integer of at least 1"),
        ("jobs", None, "is null: must be a list"),
        ("jobs[0]", None, "is null: must be an object"),
        ("jobs[0].gpus", 1, "is 1: unknown key"),
        ("jobs[0].gang", ABSENT, "is missing"),
        ("jobs[0].gang", True, "is true: must be an integer"),
        ("jobs[0].gang", 10**7, "is 10000000: must be at most"),
        ("jobs[0].efficiency", ABSENT, "is missing"),
        ("jobs[0].efficiency", [1], "is a list of 1: must be an object"),
        ("jobs[0].efficiency", {}, "is {}: must have at least one entry"),
        ("jobs[0].efficiency.pod", 1, "is 1: unknown key; the known keys are machine, rack, netwo"),
        ("jobs[0].efficiency.rack", "1", 'is "1": must be a finite number above 0'),
        ("jobs[0].efficiency.rack", 1.5, "is 1.5: must be at most 1"),
        ("jobs[0].score", 2, "is 2: must be at most 1"),
        ("jobs[0].waiting_s", -1, "is -1: must be a finite"),
        ("jobs[0].waiting_s", 1e300, "is 1e+300: must be"),
        ("jobs[0].rack_timer_s", "never", 'is "never": must be a finite number of at least 0'),
        ("jobs[0].network_timer_s", float("inf"), "is Infinity: must be a finite number"),
        ("jobs[0].weight", 0, "is 0: must be a finite number above"),
        ("jobs[0].remaining_s", 0, "is 0: must be a finite"),
        ("jobs[0].needs_consolidation", 1, "is 1: must be true or false"),
    ),
    (
        ("machines[1].id", "r0m0", 'is "r0m0": must be'),
        ("machines[0].gpus", 4.0, "is 4.0: must be an integer of at least 1"),
        ("machines[0].free_gpus", 5, "is 5: must be at most the machine's gpus, 4"),
        ("machines[1].gpus", 10**6, "is 1000000: all machines up to"),
        ("jobs[1].id", "a", 'is "a": must be unique'),
        ("jobs[1].efficiency", {"network": 1}, "jobs[1].efficiency.network is 1.0: must not be"),
        ("jobs[0].score", float("nan"), "is NaN: must be a fin"),
    ),
)

INSTANCES = {
    "reclaim": RECLAIM,
    "allocation": ALLOCATION,
    "heterogeneous": HETEROGENEOUS,
    "network": NETWORK,
}
"""By problem."""

FLOW = {"job": "a", "round": 0, "gpus": {"s1": {"fast": 2}}}
PLACED = {"job": "a", "tier": "machine", "gpus": {"r0m0": 4}}


def _solution(problem: str, **fields: Any) -> dict[str, Any]:
    return {"format": f"lyra-opt/{problem}-solution", "version": 1, "instance": "example", **fields}


RECLAIM_SOLUTION = Malformed(
    _solution("reclaim", servers=["s1", "s5"], objective=3),
    (
        ("format", "lyra-opt/reclaim", 'must be "lyra-opt/reclaim-solution"'),
        ("version", 9, "is 9: must be 1"),
        ("instance", ABSENT, "is missing"),
        ("servers", ABSENT, "is missing"),
        ("servers", "s1", 'is "s1": must be a list'),
        ("servers[0]", 1, "is 1: must be a string"),
        ("servers[0]", "", 'is "": must be a string that is not empty'),
        ("objective", -1, "is -1: must be an integer of at least 0"),
        ("objective", 0.5, "is 0.5: must be an integer"),
        ("note", "", 'is "": unknown key'),
    ),
    (("objective", 3.0, "is 3.0: must be an integer"),),
)
ALLOCATION_SOLUTION = Malformed(
    _solution("allocation", workers={"A": 2, "B": 6}, objective=41.5),
    (
        ("format", "lyra-opt/allocation", "is"),
        ("instance", ABSENT, "is missing"),
        ("workers", ABSENT, "workers or schedule is missing"),
        ("schedule", [], "must not be given beside"),
        ("workers", [2], "is a list of 1: must be an object"),
        ("workers.A", -1, "is -1: must be an integer"),
        ("workers.A", 1.5, "is 1.5: must be an integer"),
        ({"workers": {"": 1}}, None, "workers"),
        ("objective", "1", 'is "1": must be a finite number'),
        ("started", [], "is []: unknown key"),
    ),
    (
        ("workers.A", 2.0, "is 2.0: must be an integer"),
        ("objective", float("nan"), "is NaN: must be a finite number"),
    ),
)
ALLOCATION_SCHEDULE_SOLUTION = Malformed(
    _solution("allocation", schedule=[{"job": "A", "start_s": 0, "end_s": 1.5, "workers": 2}]),
    (
        ("schedule", {}, "is {}: must be a list"),
        ("schedule[0].job", ABSENT, "is missing"),
        ("schedule[0].job", 1, "is 1: must be a string"),
        ("schedule[0].end_s", ABSENT, "is missing"),
        ("schedule[0].workers", 0, "is 0: must be a finite number above 0"),
        ("schedule[0].start_s", -1, "is -1: must be a finite number of at least 0"),
        ("schedule[0].gpus", 1, "is 1: unknown key"),
    ),
    (
        ("schedule[0].start_s", 2, "schedule[0].end_s is 1.5: must be above start_s, 2"),
        ("schedule[0].end_s", float("inf"), "is Infinity: must be a finite number"),
    ),
)
HETEROGENEOUS_SOLUTION = Malformed(
    _solution("heterogeneous", allocation=[FLOW]),
    (
        ("allocation", None, "is null"),
        ("allocation", "x", 'is "x"'),
        ("allocation[0]", 1, "is 1"),
        ("allocation[0].steps", 1, "is 1: unknown key"),
        ("allocation[0].gpus", ABSENT, "is missing"),
        ("allocation[0].job", "", 'is ""'),
        ("allocation[0].round", -1, "is -1"),
        ("allocation[0].gpus", [], "is []"),
        ("allocation[0].gpus", {}, "is {}"),
        ("allocation[0].gpus.s1", 2, "is 2"),
        ("allocation[0].gpus.s1", {}, "is {}"),
        ("allocation[0].gpus.s1.fast", 0, "is 0"),
        ("objective", "1", 'is "1"'),
        ("makespan_s", -1, "is -1"),
        ("completed", 1, "is 1"),
        ("gpu_s", None, "is null"),
    ),
    (("allocation[0].round", 1.0, "is 1.0"),),
)
HETEROGENEOUS_SHARES_SOLUTION = Malformed(
    _solution("heterogeneous", allocation={"a": {"fast": 0.5}}),
    (
        ("allocation.a", 1, "is 1"),
        ("allocation.a.fast", -1, "is -1"),
        ("allocation.a.fast", "1", 'is "1"'),
        ({"allocation": {"": {"fast": 1}}}, None, "allocation"),
    ),
)
NETWORK_SOLUTION = Malformed(
    _solution("network-placement", placements=[PLACED]),
    (
        ("placements", None, "is null"),
        ("placements", {}, "is {}"),
        ("placements[0]", 1, "is 1"),
        ("placements[0].rack", 1, "is 1: unknown key"),
        ("placements[0].gpus", ABSENT, "is missing"),
        ("placements[0].job", "", 'is ""'),
        ("placements[0].job", 1, "is 1"),
        ("placements[0].tier", "pod", 'is "pod"'),
        ("placements[0].tier", 1, "is 1"),
        ("placements[0].gpus", [], "is []"),
        ("placements[0].gpus", {}, "is {}"),
        ("placements[0].gpus.r0m0", 0, "is 0"),
        ("placements[0].gpus", {"": 1}, "placements[0].gpus"),
        ("objective", "1", 'is "1"'),
        ("instance", "", 'is ""'),
    ),
    (("placements[0].gpus.r0m0", 1.0, "is 1.0"), ("objective", float("nan"), "is NaN")),
)

SOLUTIONS = {
    "reclaim": RECLAIM_SOLUTION,
    "allocation": ALLOCATION_SOLUTION,
    "allocation-schedule": ALLOCATION_SCHEDULE_SOLUTION,
    "heterogeneous": HETEROGENEOUS_SOLUTION,
    "heterogeneous-shares": HETEROGENEOUS_SHARES_SOLUTION,
    "network": NETWORK_SOLUTION,
}
"""By problem, and then by what else a solution may look like."""


def defects(table: dict[str, Malformed], *, by_form_only: bool = False) -> list[tuple[str, Defect]]:
    """Return every defect of a table after the name of the document that has it."""
    return [
        (name, Defect(*row))
        for name, malformed in table.items()
        for row in (malformed.by_form if by_form_only else malformed.by_form + malformed.by_rule)
    ]
