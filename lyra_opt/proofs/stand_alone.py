#!/usr/bin/env python3
"""Check a proof that no solution of an instance is better than a bound: Python alone, exact.

    python stand_alone.py INSTANCE.json PROOF.json

The format is described in docs/proofs.md. The checker builds an integer programme of the instance
by itself, whose optimum is that of the problem (the proofs are in the README.md of each folder of
formulations/). A proof is a tree: each branch splits the values of a variable at an integer, and
each leaf has multipliers for some of the rows. With multipliers y (at least 0 for rows "at least",
any sign for equations) every point of the leaf's box costs at least

    sum_i y_i b_i  +  sum_j  min over the box of (c_j - sum_i y_i a_ij) x_j,

whatever the multipliers are, and a leaf is empty if that is above 0 with all c_j = 0. So what is
proved is the least over the leaves, rounded up where all values are integers.

Exit code: 0 if the proof proves what it claims, 1 if it does not, 2 for files that are none.
"""

from __future__ import annotations

import hashlib
import json
import sys
from fractions import Fraction
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROOF_FORMAT, PROOF_VERSION = "lyra-opt/proof", 1

Document = dict[str, Any]
Box = dict[int, tuple[int, int]]
Losses = dict[str, int]
Pairs = list[tuple[int, int]]


class Refuted(Exception):  # noqa: N818
    """The proof does not prove what it claims."""


class Programme:
    """Minimise the cost of integers from 0 to their upper bounds that keep some rows."""

    def __init__(self, sense: int) -> None:
        self.sense = sense  # -1 where the problem maximises: the cost is the negative then
        self.names: list[str] = []
        self.upper: list[int] = []
        self.cost: list[Any] = []
        self.rows: list[tuple[dict[int, Any], Any, bool]] = []  # the last: whether an equation

    def variable(self, name: str, cost: Any = 0, upper: int = 1) -> int:
        """Add a variable; return its number."""
        self.names.append(name)
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.names) - 1

    def row(self, coefficients: Mapping[int, Any], right: Any, *, equal: bool = False) -> None:
        """Add the row sum of coefficients x >= right, or = right."""
        self.rows.append((dict(coefficients), right, equal))

    @cached_property
    def least_cost(self) -> Any:
        """What every point of the root's box costs at least."""
        return sum(min(0, cost * most) for cost, most in zip(self.cost, self.upper, strict=True))

    @cached_property
    def is_integral(self) -> bool:
        """Whether every value of the objective is an integer."""
        return all(Fraction(each).denominator == 1 for each in self.cost)


# --- reclaim: which servers are given back (formulations/reclaim/README.md, sections 2, 4) -----


def threshold_form(instance: Document) -> tuple[list[str], list[tuple[str, int, Losses, int]]]:
    """Return servers on loan, and of each job that may be preempted: weight, losses, slack."""
    servers = [each["id"] for each in instance["servers"] if each.get("on_loan", True)]
    on_loan, jobs = set(servers), []
    rigid = instance.get("semantics", "rigid") == "rigid"
    for job in instance["jobs"]:
        groups = [(w["server"], w.get("base", 0), w.get("flexible", 0)) for w in job["workers"]]
        if rigid:
            losses, slack = {name: 1 for name, each, _ in groups if each and name in on_loan}, 0
        else:
            losses = {name: each + more for name, each, more in groups if name in on_loan}
            base = sum(each for _, each, _ in groups)
            slack = sum(each + more for _, each, more in groups) - job.get("min_workers", base)
        # Capped: a loss beyond what is too much already is no worse.
        losses = {name: min(lost, slack + 1) for name, lost in losses.items()}
        weight = job.get("weight", 1)
        if weight and sum(losses.values()) > slack:
            jobs.append((job["id"], weight, losses, slack))
    return servers, jobs


def reclaim_programme(instance: Document, proof: Document) -> Programme:
    """Variables: servers, then jobs. Rows: the count; jobs with their servers; dominance."""
    servers, jobs = threshold_form(instance)
    found = Programme(1)
    column = {name: found.variable(f"server {name}") for name in servers}
    job_column = [found.variable(f"job {name}", weight) for name, weight, _, _ in jobs]
    found.row({column[name]: 1 for name in servers}, instance["reclaim_servers"], equal=True)
    for preempted, (_, _, losses, slack) in zip(job_column, jobs, strict=True):
        for name, lost in losses.items():
            if lost > slack:
                found.row({preempted: 1, column[name]: -1}, 0)
        if any(lost <= slack for lost in losses.values()):
            row = {column[name]: -lost for name, lost in losses.items()}
            row[preempted] = sum(losses.values()) - slack
            found.row(row, -slack)
    # A server that costs no more in any respect, ties by place, is reclaimed before the other.
    shared: dict[str, dict[int, int]] = {name: {} for name in servers}
    alone = dict.fromkeys(servers, 0)
    for number, (_, weight, losses, _) in enumerate(jobs):
        for name, lost in losses.items():
            if len(losses) == 1:
                alone[name] += weight
            else:
                shared[name][number] = lost
    for better, worse in proof.get("dominance", []):
        mine, other = shared[better], shared[worse]
        is_no_more = alone[better] <= alone[worse] and all(mine[j] <= other.get(j, 0) for j in mine)
        is_same = alone[better] == alone[worse] and mine == other
        if not is_no_more or (is_same and column[better] >= column[worse]):
            raise Refuted(f"server {better} does not dominate server {worse}")
        found.row({column[better]: 1, column[worse]: -1}, 0)
    return found


# --- allocation: how many workers each job gets (formulations/allocation/README.md, 1 and 2) ------


def number(given: Any) -> Fraction:
    """Return a number of a file as the toolkit takes it: a 64-bit float, exactly."""
    return Fraction(float(given))


def duration_s(job: Document, workers: int) -> Fraction:
    """Return for how long a job runs with so many workers."""
    least: int = job["min_workers"]
    rate = least + (workers - least) * (1 - number(job.get("scaling_loss", 0)))
    return number(job["work_worker_s"]) / rate


def started_by_two_phase(instance: Document) -> list[Document]:
    """Return the jobs whose base demand is granted: running ones, then by work / max_workers."""
    jobs, free, started = instance["jobs"], instance["gpus"], []
    by_work = sorted(jobs, key=lambda job: number(job["work_worker_s"]) / job["max_workers"])
    for job in sorted(by_work, key=lambda job: not job.get("running", False)):
        base_gpus = job["min_workers"] * job.get("gpus_per_worker", 1)
        if job.get("running", False) or base_gpus <= free:
            free -= base_gpus
            started.append(job)
    return started


def allocation_programme(instance: Document, proof: Document) -> Programme:  # noqa: ARG001
    """Variables: a job's numbers of workers, job by job. Rows: one of each job; the GPUs."""
    objective, jobs, capacity = instance["objective"], instance["jobs"], instance["gpus"]
    if objective == "mean_jct":
        raise ValueError("objective mean_jct has no proofs of this kind")
    found = Programme(-1 if objective == "jct_reduction" else 1)
    work_gpu_s = sum(number(job["work_worker_s"]) * job.get("gpus_per_worker", 1) for job in jobs)
    used: dict[int, int] = {}
    for job in started_by_two_phase(instance) if objective == "two_phase" else jobs:
        least, gpus, row = job["min_workers"], job.get("gpus_per_worker", 1), {}
        # The knapsack has the workers beyond the base demand, and what they save.
        given = least if objective == "jct_reduction" else 0
        base_s = duration_s(job, least) if given else 0
        choices = {
            workers: ((workers - given) * gpus, duration_s(job, workers) - base_s)
            for workers in range(least, job["max_workers"] + 1)
        }
        if objective == "joint" and not job.get("running", False):
            choices[0] = (0, duration_s(job, least) + work_gpu_s / capacity)
        for workers, (used_gpus, cost_s) in sorted(choices.items()):
            if used_gpus <= capacity:
                column = found.variable(f"job {job['id']} workers {workers}", cost_s)
                row[column], used[column] = 1, -used_gpus
        found.row(row, 1, equal=True)
    found.row(used, -capacity)
    return found


# --- network: which gangs start, how close together (formulations/network/README.md, 2 and 3) ----


def worth_of(instance: Document, job: Document) -> dict[int, Fraction]:
    """Return what a gang adds to the objective at each tier that it accepts."""
    objective, machines = instance["objective"], instance["machines"]
    racks = dict.fromkeys((each["rack"] for each in machines), 0)
    for each in machines:
        racks[each["rack"]] += each["gpus"]
    largest = (0, max(each["gpus"] for each in machines), max(racks.values()))
    waits_s = (0, job.get("rack_timer_s", 0), job.get("network_timer_s", 0))
    waiting_s, gang, found = number(job.get("waiting_s", 0)), job["gang"], {}
    urgency = 1 - number(job.get("score", 0)) + number(instance["waiting_weight_per_s"]) * waiting_s
    for tier, name in enumerate(("machine", "rack", "network")):
        is_over = waits_s[tier] is not None and waiting_s >= number(waits_s[tier])
        if name in job["efficiency"] and (is_over or gang > largest[tier] > 0):
            value = number(job.get("weight", 1)) * gang * number(job["efficiency"][name])
            if objective == "epoch":
                value *= urgency
            elif objective == "fewest_tiers":
                value = Fraction((2 * len(instance["jobs"]) + 1) * gang - tier)
            elif objective == "least_fragmentation":
                value = Fraction((len(machines) + 1) * gang)
            found[tier] = value
    return found


def network_programme(instance: Document, proof: Document) -> Programme:  # noqa: ARG001
    """Variables: GPUs that gangs beyond a machine, a rack hold there; places of jobs; machines."""
    found, machines = Programme(-1), {each["id"]: each for each in instance["machines"]}
    racks: dict[str, list[str]] = {}
    for name, machine in machines.items():
        racks.setdefault(machine["rack"], []).append(name)
    free = {name: machine["free_gpus"] for name, machine in machines.items()}
    wide = {name: found.variable(f"machine {name} wide", 0, free[name]) for name in machines}
    room_in = {rack: sum(free[name] for name in members) for rack, members in racks.items()}
    shared = {rack: found.variable(f"rack {rack} shared", 0, room_in[rack]) for rack in racks}
    on_machine: dict[str, dict[int, int]] = {name: {wide[name]: 1} for name in machines}
    in_rack: dict[str, dict[int, int]] = {rack: {} for rack in racks}
    across: dict[int, int] = {}
    for job in instance["jobs"]:
        worth, row = worth_of(instance, job), {}
        places = [(0, f"machine {name}", free[name], on_machine[name]) for name in machines]
        places += [(1, f"rack {rack}", room_in[rack], in_rack[rack]) for rack in racks]
        for tier, place, room, gangs in [*places, (2, "network", sum(free.values()), across)]:
            if tier in worth and job["gang"] <= room:
                column = found.variable(f"job {job['id']} {place}", -worth[tier])
                row[column], gangs[column] = -1, job["gang"]
        found.row(row, -1)
    piles = [(across, list(shared.values()), dict[int, int]())]
    for rack, members in racks.items():
        piles.append((in_rack[rack], [wide[name] for name in members], {shared[rack]: -1}))
    for gangs, columns, passing in piles:
        every, taken = dict.fromkeys(columns, 1), {column: -gang for column, gang in gangs.items()}
        found.row(every | taken | passing, 0, equal=True)
        for pile in columns:  # each gang has a GPU elsewhere
            found.row(every | {pile: 0} | dict.fromkeys(gangs, -1), 0)
    for name, gangs in on_machine.items():
        row = {column: -gang for column, gang in gangs.items()}
        if instance["objective"] == "least_fragmentation":
            part = found.variable(f"machine {name} part", 1)
            is_free = free[name] == machines[name]["gpus"]
            idle = found.variable(f"machine {name} idle", 0, int(is_free))
            found.row(gangs | {part: free[name], idle: free[name]}, free[name])
            row[idle] = -free[name]
        found.row(row, -free[name])
    return found


PROGRAMMES: dict[str, Callable[[Document, Document], Programme]] = {
    "lyra-opt/reclaim": reclaim_programme,
    "lyra-opt/allocation": allocation_programme,
    "lyra-opt/network-placement": network_programme,
}


# --- the proof ----------------------------------------------------------------------------------


def leaf_value(
    programme: Programme, box: Box, multipliers: Pairs, denominator: int, *, with_cost: bool
) -> Fraction:
    """Return what every point of a box costs at least, or whether it is empty, by weak duality."""
    slopes: dict[int, Any] = {}
    value: Any = 0
    for row, multiplier in multipliers:
        coefficients, right, is_equation = programme.rows[row]
        if multiplier < 0 and not is_equation:
            raise Refuted(f"row {row} has a multiplier below 0")
        value += multiplier * right
        for column, coefficient in coefficients.items():
            slopes[column] = slopes.get(column, 0) - multiplier * coefficient
    if with_cost:
        # Of columns that neither rows nor branches touch the root's value is known.
        value += denominator * programme.least_cost
        for column in slopes.keys() | box.keys():
            cost = denominator * programme.cost[column]
            value -= min(0, cost * programme.upper[column])
            slopes[column] = slopes.get(column, 0) + cost
    for column, slope in slopes.items():
        lower, upper = box.get(column, (0, programme.upper[column]))
        value += slope * (lower if slope > 0 else upper)
    return Fraction(value) / denominator


def proved_cost(programme: Programme, proof: Document) -> Fraction | None:
    """Return what every solution costs at least; None if there is none. Walks the tree."""
    denominator, nodes = proof["denominator"], proof["nodes"]
    if type(denominator) is not int or denominator < 1:
        raise Refuted("the denominator is no positive integer")
    least, read = None, 0
    boxes: list[Box] = [{}]  # what differs from the root's box, of nodes still to be read
    while boxes:
        box = boxes.pop()
        if read == len(nodes):
            raise Refuted("the tree ends before all branches do")
        node, read = nodes[read], read + 1
        if "branch" in node:
            column, at_most = node["branch"], node["at_most"]
            low, high = box.get(column, (0, programme.upper[column]))
            if column < 0 or type(at_most) is not int or not low <= at_most < high:
                raise Refuted(f"node {read - 1} does not split the values of a variable")
            boxes.append({**box, column: (at_most + 1, high)})
            boxes.append({**box, column: (low, at_most)})
            continue
        flat = node["multipliers"]
        if any(type(each) is not int for each in flat) or any(row < 0 for row in flat[::2]):
            raise Refuted(f"node {read - 1} has a multiplier or a row that is no such integer")
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        is_empty = node.get("is_empty", False)
        value = leaf_value(programme, box, pairs, denominator, with_cost=not is_empty)
        if not is_empty:
            least = value if least is None else min(least, value)
        elif value <= 0:
            raise Refuted(f"node {read - 1} is not shown to be empty")
    if read < len(nodes):
        raise Refuted("the tree has nodes that no branch leads to")
    if least is None:
        return None
    return Fraction(ceil(least)) if programme.is_integral else least


def content_hash(instance: Document) -> str:
    """Return what names the content of an instance, whatever the spaces of its file."""
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def cost_of(programme: Programme, point: Mapping[str, int]) -> Fraction:
    """Return the cost of a point, given by the values of its variables that are not 0."""
    known = {name: column for column, name in enumerate(programme.names)}
    if not all(name in known and type(value) is int for name, value in point.items()):
        raise Refuted("the solution has a variable that is not there, or no integer")
    values = {known[name]: value for name, value in point.items()}
    if not all(0 <= value <= programme.upper[column] for column, value in values.items()):
        raise Refuted("the solution has a variable beyond its bounds")
    for row, (coefficients, right, is_equation) in enumerate(programme.rows):
        left = sum(each * values.get(column, 0) for column, each in coefficients.items())
        if left < right or (is_equation and left != right):
            raise Refuted(f"the solution does not keep row {row}")
    return Fraction(sum(programme.cost[column] * value for column, value in values.items()))


def check(instance: Document, proof: Document) -> tuple[Fraction | None, Fraction | None]:
    """Return what is proved, and the value of the solution; None for what is not there.

    Both as the problem has them: of a problem that maximises the first is an upper bound.
    Raises Refuted where the proof does not hold, or proves less than it claims.
    """
    if (proof["format"], proof["version"]) != (PROOF_FORMAT, PROOF_VERSION):
        raise ValueError(f"it must have the format {PROOF_FORMAT}, version {PROOF_VERSION}")
    if proof["sha256"] != content_hash(instance):
        raise Refuted("it is a proof of another instance")
    programme = PROGRAMMES[instance["format"]](instance, proof)
    cost = proved_cost(programme, proof)
    claimed = None if proof["bound"] is None else programme.sense * Fraction(proof["bound"])
    if cost is not None and (claimed is None or cost < claimed):
        raise Refuted(f"it claims {proof['bound']}, and proves {programme.sense * cost}")
    # Not every solution keeps to hints, only some of the best do.
    point = proof.get("solution")
    found = None if point is None else cost_of(PROGRAMMES[instance["format"]](instance, {}), point)
    sense = programme.sense
    return None if cost is None else sense * cost, None if found is None else sense * found


def main(arguments: Sequence[str]) -> int:
    """Check the files named; return the exit code."""
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        instance, proof = (json.loads(Path(name).read_text("utf-8")) for name in arguments)
        bound, value = check(instance, proof)
    except Refuted as error:
        print(f"{arguments[1]}: NOT proved: {error}")
        return 1
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        print(f"{arguments[1]}: no proof of {arguments[0]}: {error!r}", file=sys.stderr)
        return 2
    told = "no solution exists" if bound is None else f"bound {float(bound):.12g}"
    told += (
        "" if value is None else f", solution {float(value):.12g}{', optimal' * (value == bound)}"
    )
    print(f"{arguments[1]}: proved: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
