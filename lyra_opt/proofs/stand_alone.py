#!/usr/bin/env python3
"""Check exactly, with Python alone, a proof that no solution of an instance beats a bound.

    python stand_alone.py INSTANCE.json PROOF.json

Exit code: 0 if the proof proves its claim, 1 if it does not, 2 if a file cannot be read.
The checker rejects values of the instance that would mislead its arithmetic; `lyra-opt verify`
checks the whole instance. docs/proofs.md describes the format. The checker builds its own programme
of the instance, in integers except for shares of time. The programme has the same optimum as the
problem (each folder of formulations/ has the proof in its README). A proof is a tree: each branch
splits the values of a variable at an integer, and each leaf has multipliers for some rows. With
multipliers y (at least 0 for rows "at least", any sign for equations), every point of the leaf's
box costs at least

    sum_i y_i b_i  +  sum_j  min over the box of (c_j - sum_i y_i a_ij) x_j,

and a leaf is empty if this value is above 0 with all c_j = 0. So the proved bound is the least
value over the leaves, rounded up if all values are integers.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import defaultdict
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, pairwise
from math import ceil, inf, nextafter
from pathlib import Path
from typing import Any

PROOF_FORMAT, PROOF_VERSION = "lyra-opt/proof", 1
SHARE_SLACK = Fraction(1, 10**6)
MOST_VARIABLES, TOO_MANY = 10**6, "the programme has more than 1000000 variables"
MOST_DIGITS = 2000
"""Most digits of an integer in a file; numbers made from 64-bit floats have fewer."""
BOUND = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(/[0-9]{{1,{MOST_DIGITS}}})?")
DEFAULTS: dict[str, Any] = {
    "lyra-opt/reclaim": {
        "semantics": "rigid",
        "servers": {"on_loan": True},
        "jobs": {"weight": 1, "workers": {"base": 0, "flexible": 0}},
    },
    "lyra-opt/allocation": {
        "objective": "mean_jct",
        "jobs": {"gpus_per_worker": 1, "running": False, "scaling_loss": 0.0},
    },
    "lyra-opt/network-placement": {
        "objective": "epoch",
        "waiting_weight_per_s": 1e-6,
        "machines": {},
        "jobs": {
            "score": 0.0,
            "waiting_s": 0.0,
            "rack_timer_s": 0.0,
            "network_timer_s": 0.0,
            "weight": 1.0,
        },
    },
    "lyra-opt/heterogeneous": {
        "objective": "max_min_share",
        "round_s": 360.0,
        "horizon_rounds": 1,
        "restart_s": 0.0,
        "forking": False,
        "packed": (),
        "gpu_types": {"price_per_hour": 1.0},
        "servers": {},
        "jobs": {
            "spread_throughput": None,
            "release_s": 0.0,
            "weight": 1.0,
            "kind": None,
            "elapsed_s": 0.0,
            "isolated_elapsed_s": 0.0,
            "current": (),
        },
    },
}
"""Values of missing keys of an instance; a nested table applies to each object of a list."""
WHOLE = {"gpus", "free_gpus", "gang", "base", "flexible", "min_workers", "max_workers"}
WHOLE |= {"gpus_per_worker", "reclaim_servers", "horizon_rounds"}
POSITIVE = {"gang", "max_workers", "gpus_per_worker", "work_worker_s", "steps", "price_per_hour"}
POSITIVE |= {"round_s", "scale"}

UNREADABLE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError),
    *(RecursionError, MemoryError),
)
"""Errors that malformed files cause."""

Document = dict[str, Any]
Box = dict[int, tuple[int, int]]
Row = dict[int, Any]


class Refuted(Exception):  # noqa: N818
    """The proof does not prove its claim."""


class ProofProgramme:
    """A linear or integer programme that minimises the cost of non-negative, bounded variables."""

    def __init__(self, sense: int, *, is_continuous: bool = False) -> None:
        self.sense = sense  # -1 if the problem maximises; costs are then negated values
        self.is_continuous = is_continuous  # otherwise all variables are integers
        self.unit, self.offset = Fraction(1), Fraction(0)  # value = sense * cost * unit + offset
        self.cost_if_empty: Fraction | None = None  # for makespan: proved if rounds are too few
        self.names: list[str] = []
        self.upper: list[Any] = []
        self.cost: list[Any] = []
        self.rows: list[tuple[Row, Any, bool]] = []  # coefficients, right side, is an equation

    def variable(self, name: str, cost: Any = 0, upper: Any = 1) -> int:
        """Add a variable and return its number."""
        if len(self.names) >= MOST_VARIABLES:
            raise ValueError(TOO_MANY)
        self.names.append(name)
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.names) - 1

    def row(self, coefficients: Row, right: Any, *, equal: bool = False) -> None:
        """Add the constraint "sum of coefficients * x >= right", or an equation if `equal`."""
        self.rows.append((dict(coefficients), right, equal))

    def value_of(self, cost: Fraction) -> Fraction:
        """Return the value of the objective that has a cost."""
        return self.sense * cost * self.unit + self.offset

    def cost_at(self, value: Fraction) -> Fraction:
        """Return the cost of a value of the objective."""
        return self.sense * (value - self.offset) / self.unit

    @cached_property
    def is_integral(self) -> bool:
        """Whether the objective has integer values only."""
        return not self.is_continuous and all(Fraction(c).denominator == 1 for c in self.cost)


# --- This part reads the files -------------------------------------------------------------------
def require_readable(*documents: Any) -> None:
    """Reject NaN, infinities (such as 1e999) and integers with too many digits in a file."""
    left, beyond = list(documents), 10**MOST_DIGITS
    while left:
        value = left.pop()
        if isinstance(value, dict | list):
            left += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float) and not -beyond < value < beyond:
            raise ValueError(f"every number must be finite and have at most {MOST_DIGITS} digits")


def rational(text: Any) -> Fraction:
    """Parse the bound of a proof, a string such as 12 or -35/3, as a `Fraction`."""
    if not isinstance(text, str) or not BOUND.fullmatch(text):
        raise ValueError(f"bound must be a string such as 12 or -35/3, not {str(text)[:40]!r}")
    return Fraction(text)


def filled(record: Document, defaults: Document) -> Document:
    """Return a record in which missing keys have their defaults."""
    found = dict(record)
    for key, default in defaults.items():
        if isinstance(default, dict):
            found[key] = [filled(each, default) for each in record[key]]
        else:
            found.setdefault(key, default)
    return found


def require_numbers(value: Any, key: str, path: str) -> None:
    """Reject numbers that are too small or not whole where required, and ids that occur twice."""
    if isinstance(value, dict):
        for name, each in value.items():
            require_numbers(each, key if key == "gpus" else name, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            require_numbers(each, key, f"{path}[{place}]")
        for name in ("id", "server") + ("name",) * (key == "gpu_types"):
            ids = [each[name] for each in value if isinstance(each, dict) and name in each]
            if len(set(ids)) < len(ids):
                raise ValueError(f"{path}: the same {name} must not occur twice")
    elif type(value) in (int, float) and (value < 0 or (value == 0 and key in POSITIVE)):
        raise ValueError(f"{path} is {value}, which is too small")
    if key in WHOLE and type(value) not in (int, dict):
        raise ValueError(f"{path} must be an integer")


def read_instance(instance: Document) -> Document:
    """Fill in the default values of an instance, and reject values that mislead the arithmetic."""
    require_numbers(instance, "", "instance")
    found = filled(instance, DEFAULTS[instance["format"]])
    is_reclaim = instance["format"] == "lyra-opt/reclaim"
    servers = {each["id"] for each in found["servers"]} if is_reclaim else set()
    for job in found["jobs"]:
        name, workers = f"job {job['id']}", job.get("workers", ()) if is_reclaim else ()
        if any(each["base"] + each["flexible"] < 1 for each in workers):
            raise ValueError(f"{name} has a server without workers")
        if not {each["server"] for each in workers} <= servers:
            raise ValueError(f"{name} has workers on a server that does not exist")
        if is_reclaim and type(job["weight"]) is not int:
            raise ValueError(f"{name}: weight must be an integer")
        if is_reclaim and job.get("min_workers", 0) > sum(
            each["base"] + each["flexible"] for each in workers
        ):
            raise ValueError(f"{name} has fewer workers than its min_workers")
        if job.get("max_workers", 1) < (1 if is_reclaim else job.get("min_workers", 0)):
            raise ValueError(f"{name} has max_workers below its min_workers")
        if not is_reclaim and job.get("min_workers") == 0:
            raise ValueError(f"{name}: min_workers must be at least 1")
        if job.get("gang") == 1 and set(job.get("efficiency", ())) - {"machine"}:
            raise ValueError(f"{name} is a gang of 1, so its only tier must be machine")
        if max(job.get("scaling_loss", 0), job.get("score", 0)) > 1:
            raise ValueError(f"{name}: scaling_loss and score must be at most 1")
    if any(each["free_gpus"] > each["gpus"] for each in found.get("machines", ())):
        raise ValueError("free_gpus of every machine must be at most its gpus")
    return found


# --- This part builds the reclaim programme (formulations/reclaim/README.md, sections 2 and 4) ----
def reclaim_programme(instance: Document, proof: Document) -> ProofProgramme:
    """Build the reclaim programme. Rows: number of servers; jobs and their servers; dominance."""
    found, is_rigid = ProofProgramme(1), instance["semantics"] == "rigid"
    on_loan = [each["id"] for each in instance["servers"] if each["on_loan"]]
    column = {name: found.variable(f"server {name}") for name in on_loan}
    found.row(dict.fromkeys(column.values(), 1), instance["reclaim_servers"], equal=True)
    costs: dict[str, Row] = {name: {} for name in on_loan}
    for job in instance["jobs"]:
        groups = [(w["server"], w["base"], w["flexible"]) for w in job["workers"]]
        if is_rigid:
            losses, slack = {name: 1 for name, each, _ in groups if each and name in column}, 0
        else:
            losses = {name: each + more for name, each, more in groups if name in column}
            base = sum(each for _, each, _ in groups)
            slack = sum(each + more for _, each, more in groups) - job.get("min_workers", base)
        # Losses are capped at slack + 1, because a loss of slack + 1 already preempts the job.
        losses = {name: min(lost, slack + 1) for name, lost in losses.items()}
        weight = job["weight"]
        if not weight or sum(losses.values()) <= slack:
            continue
        preempted = found.variable(f"job {job['id']}", weight)
        for name, lost in losses.items():
            key, cost = (preempted, lost) if len(losses) > 1 else (-1, weight)
            costs[name][key] = costs[name].get(key, 0) + cost
            if lost > slack:
                found.row({preempted: 1, column[name]: -1}, 0)
        if any(lost <= slack for lost in losses.values()):
            row = {column[name]: -lost for name, lost in losses.items()}
            found.row(row | {preempted: sum(losses.values()) - slack}, -slack)
    # A server dominates another if none of its costs is higher; ties go to the earlier server.
    for better, worse in proof.get("dominance", []):
        mine, other = costs[better], costs[worse]
        is_no_more = all(cost <= other.get(key, 0) for key, cost in mine.items())
        if not is_no_more or (mine == other and column[better] >= column[worse]):
            raise Refuted(f"server {better} does not dominate server {worse}")
        found.row({column[better]: 1, column[worse]: -1}, 0)
    return found


# --- This part builds the allocation programme (formulations/allocation/README.md, sections 1, 2)
def number(given: Any) -> Fraction:
    """Return the exact value of a file's number, which the toolkit reads as a 64-bit float."""
    return Fraction(float(given))


def started_by_two_phase(instance: Document) -> list[Document]:
    """Return the jobs whose base demand is granted: running jobs, then by work / max_workers."""
    jobs, free, started = instance["jobs"], instance["gpus"], []
    by_work = sorted(jobs, key=lambda job: number(job["work_worker_s"]) / job["max_workers"])
    for job in sorted(by_work, key=lambda job: not job["running"]):
        base_gpus = job["min_workers"] * job["gpus_per_worker"]
        if job["running"] or base_gpus <= free:
            free -= base_gpus
            started.append(job)
    return started


def allocation_programme(instance: Document, proof: Document) -> ProofProgramme:  # noqa: ARG001
    """Build the allocation programme: each job takes one number of workers, within the GPUs."""
    objective, jobs, capacity = instance["objective"], instance["jobs"], instance["gpus"]
    if objective == "mean_jct":
        raise ValueError("objective mean_jct has no proofs of this kind")
    found = ProofProgramme(-1 if objective == "jct_reduction" else 1)
    work_gpu_s = sum(number(job["work_worker_s"]) * job["gpus_per_worker"] for job in jobs)
    used: Row = {}
    for job in started_by_two_phase(instance) if objective == "two_phase" else jobs:
        least, gpus, row = job["min_workers"], job["gpus_per_worker"], {}
        # Under jct_reduction, every job keeps its base workers; only flexible workers are chosen.
        given = least if objective == "jct_reduction" else 0
        kept, work_worker_s = 1 - number(job["scaling_loss"]), number(job["work_worker_s"])
        most = min(job["max_workers"], given + capacity // gpus)
        if most - least >= MOST_VARIABLES:
            raise ValueError(TOO_MANY)
        may_wait = objective == "joint" and not job["running"]
        for workers in chain([0] * may_wait, range(least, most + 1)):
            cost_s = work_worker_s / (least + max(0, workers - least) * kept)
            cost_s -= work_worker_s / given if given else 0
            cost_s += 0 if workers else work_gpu_s / capacity
            column = found.variable(f"job {job['id']} workers {workers}", cost_s)
            row[column], used[column] = 1, (given - workers) * gpus
        found.row(row, 1, equal=True)
    found.row(used, -capacity)
    return found


# --- This part builds the network programme (formulations/network/README.md, sections 2 and 3) ----
def worth_of(instance: Document, job: Document, largest: list[int]) -> dict[int, Fraction]:
    """Return a gang's value at each tier it accepts; `largest` has the GPUs of the tiers below."""
    waits_s = (0, job["rack_timer_s"], job["network_timer_s"])
    waiting_s, gang, found = number(job["waiting_s"]), job["gang"], {}
    urgency = 1 - number(job["score"]) + number(instance["waiting_weight_per_s"]) * waiting_s
    for tier, name in enumerate(("machine", "rack", "network")):
        is_over = waits_s[tier] is not None and waiting_s >= number(waits_s[tier])
        if name in job["efficiency"] and (is_over or gang > largest[tier] > 0):
            value = number(job["weight"]) * gang * number(job["efficiency"][name])
            if instance["objective"] == "epoch":
                value *= urgency
            elif instance["objective"] == "fewest_tiers":
                value = Fraction((2 * len(instance["jobs"]) + 1) * gang - tier)
            elif instance["objective"] == "least_fragmentation":
                value = Fraction((len(instance["machines"]) + 1) * gang)
            found[tier] = value
    return found


def network_programme(instance: Document, proof: Document) -> ProofProgramme:  # noqa: ARG001
    """Build the network programme. Rows: one place per job; GPUs of network, racks and machines."""
    found, machines = ProofProgramme(-1), {each["id"]: each for each in instance["machines"]}
    racks: dict[str, list[str]] = defaultdict(list)
    for name, machine in machines.items():
        racks[machine["rack"]].append(name)
    in_racks = [sum(machines[name]["gpus"] for name in members) for members in racks.values()]
    largest = [0, max(machine["gpus"] for machine in machines.values()), max(in_racks)]
    free = {name: machine["free_gpus"] for name, machine in machines.items()}
    wide = {name: found.variable(f"machine {name} wide", 0, free[name]) for name in machines}
    room_in = {rack: sum(free[name] for name in members) for rack, members in racks.items()}
    shared = {rack: found.variable(f"rack {rack} shared", 0, room_in[rack]) for rack in racks}
    places = [(0, f"machine {name}", free[name]) for name in machines]
    places += [(1, f"rack {rack}", room_in[rack]) for rack in racks]
    gangs_at: dict[str, Row] = defaultdict(dict)
    for job in instance["jobs"]:
        worth, row = worth_of(instance, job, largest), {}
        for tier, place, room in [*places, (2, "network", sum(free.values()))]:
            if tier in worth and job["gang"] <= room:
                column = found.variable(f"job {job['id']} {place}", -worth[tier])
                row[column], gangs_at[place][column] = -1, job["gang"]
        found.row(row, -1)
    groups = [(gangs_at["network"], list(shared.values()), Row())]
    for rack, members in racks.items():
        groups.append((gangs_at[f"rack {rack}"], [wide[n] for n in members], {shared[rack]: -1}))
    for gangs, columns, passing in groups:
        every, taken = dict.fromkeys(columns, 1), {column: -gang for column, gang in gangs.items()}
        found.row(every | taken | passing, 0, equal=True)
        for excluded in columns:  # each gang has at least one GPU outside this unit
            found.row(every | {excluded: 0} | dict.fromkeys(gangs, -1), 0)
    for name in machines:
        gangs = {wide[name]: 1} | gangs_at[f"machine {name}"]
        row = {column: -gang for column, gang in gangs.items()}
        if instance["objective"] == "least_fragmentation":
            part = found.variable(f"machine {name} part", 1)
            idle = found.variable(f"machine {name} idle", 0, free[name] == machines[name]["gpus"])
            found.row(gangs | {part: free[name], idle: free[name]}, free[name])
            row[idle] = -free[name]
        found.row(row, -free[name])
    return found


# --- This part builds the share programme (formulations/heterogeneous/shares/README.md, 1 and 4) --
def share_programme(instance: Document, proof: Document) -> ProofProgramme:
    """Build the programme for shares of time. Rows: GPUs; time of each job; needs of each job."""
    objective, jobs = instance["objective"], instance["jobs"]
    is_sum = objective in ("throughput", "cost")
    is_least = objective in ("finish_time_fairness", "makespan_share")
    if not (is_sum or is_least or objective == "max_min_share"):
        raise ValueError(f"objective {objective} has no proofs of this kind")
    found, most = ProofProgramme(1 if is_least else -1, is_continuous=True), 1 + SHARE_SLACK
    price = {each["name"]: number(each["price_per_hour"]) for each in instance["gpu_types"]}
    gpus = {name: sum(each["gpus"].get(name, 0) for each in instance["servers"]) for name in price}
    packed = {(one["kind"], one["beside"]): one["throughput"] for one in instance["packed"]}
    if packed and len(jobs) ** 2 > MOST_VARIABLES:
        raise ValueError(TOO_MANY)
    teams: list[Any] = [((job,), (job["throughput"],)) for job in jobs]
    for pair in combinations(jobs, 2) if packed else ():
        kinds = pair[0]["kind"], pair[1]["kind"]
        teams.append((pair, (packed.get(kinds, {}), packed.get(kinds[::-1], {}))))
    held: dict[str, Row] = {name: {} for name in gpus}
    speed: dict[str, Row] = {job["id"]: {} for job in jobs}
    for team, tables in teams:
        for name in gpus:
            rates = [number(table.get(name, 0)) for table in tables]
            if team[0]["gang"] <= gpus[name] and all(rates):
                who = " beside ".join(job["id"] for job in team)
                column = found.variable(f"job {who} type {name}", 0, most)
                held[name][column] = -team[0]["gang"]
                for job, rate in zip(team, rates, strict=True):
                    speed[job["id"]][column] = rate
                    worth = is_sum * rate * number(job["weight"])
                    found.cost[column] -= worth / (price[name] if objective == "cost" else 1)
    for name, row in held.items():
        found.row(row, -gpus[name] * most)
    at = Fraction(proof["solution"]["level"]) if is_least else Fraction(0)
    total, needs = sum(gpus.values()), []
    for job in jobs:
        found.row(dict.fromkeys(speed[job["id"]], -1), -most)
        gang, alone = job["gang"], {name: number(job["throughput"].get(name, 0)) for name in gpus}
        on_all = sum(alone[name] * there for name, there in gpus.items() if gang <= there)
        steps, elapsed_s = number(job["steps"]), number(job["elapsed_s"])
        factor, right = Fraction(0), Fraction(0)  # factor * (steps per second) -+ level >= right
        if objective == "max_min_share":
            factor = gang * total / (number(job["weight"]) * on_all)
        elif objective == "cost" and job.get("utility", {}).get("kind") == "deadline":
            left_s = number(job["utility"]["deadline_s"]) - elapsed_s
            factor, right = left_s / steps, 1 - SHARE_SLACK
        elif is_least:  # the tangent, at the level, of steps / (level * alone_s - elapsed_s)
            alone_s = steps * max(len(jobs) * gang, total) / on_all
            alone_s += number(job["isolated_elapsed_s"])
            if objective == "makespan_share":
                alone_s, elapsed_s = Fraction(1), Fraction(0)
            left_s = at * alone_s - elapsed_s
            if left_s <= 0:
                raise Refuted(f"job {job['id']} can no longer reach the level of the solution")
            factor, right = left_s**2 / (steps * alone_s), at + left_s / alone_s
        needs.append(({column: factor * each for column, each in speed[job["id"]].items()}, right))
    upper = at if is_least else min(most * max(row.values()) for row, _ in needs)
    level = {} if is_sum else {found.variable("level", found.sense, upper): found.sense}
    for row, right in needs:
        found.row(row | level, right)
    return found


# --- This part builds the programme for rounds (formulations/heterogeneous/README.md, section 8) --
def float_up(value: Fraction) -> Fraction:
    """Return a float that is at least the value; the worth of schedules is rounded up."""
    near = float(value)
    return Fraction(near if near >= value else nextafter(near, inf))


def utility_at(utility: Document, jct_s: float) -> Fraction:
    """Return the utility of a job that completes `jct_s` after its release."""
    if utility["kind"] == "inverse_jct":
        return Fraction(float(utility.get("scale", 1)) / jct_s)
    if utility["kind"] == "deadline":
        is_met = jct_s <= number(utility["deadline_s"])
        return number(utility.get("value", 1) if is_met else utility.get("late_value", 0))
    return next(
        (number(each) for time_s, each in utility["entries"] if jct_s <= number(time_s)), Fraction()
    )


def rates_of(instance: Document, job: Document, gpus: dict[str, int]) -> dict[str, Fraction]:
    """Return the most steps per second of a gang that uses a GPU type, on one server or several."""
    hosts = [
        each["gpus"] for each in instance["servers"] if sum(each["gpus"].values()) >= job["gang"]
    ]
    alone, spread = job["throughput"], job["spread_throughput"]
    spread = {} if instance["forking"] else alone if spread is None else spread
    found = {}
    for name in gpus:
        is_alone = any(host.get(name) for host in hosts)
        found[name] = max(is_alone * number(alone.get(name, 0)), number(spread.get(name, 0)))
    return found


def round_programme(instance: Document, proof: Document) -> ProofProgramme:
    """Build the programme for rounds. Rows: completion, and by round; then the GPUs by type."""
    objective, round_s = instance["objective"], number(instance["round_s"])
    is_progress, is_utility = objective == "round_progress", objective == "utility"
    if proof.get("solution") is not None:
        raise ValueError("a proof for schedules in rounds has no solution")
    found = ProofProgramme(-1 if is_utility or is_progress else 1)
    jobs, rounds = instance["jobs"], instance["horizon_rounds"]
    names = [each["name"] for each in instance["gpu_types"]]
    gpus = {name: sum(each["gpus"].get(name, 0) for each in instance["servers"]) for name in names}
    held: dict[str, dict[int, Row]] = {name: defaultdict(dict) for name in gpus}
    if objective == "mean_jct":
        released_s = sum((number(job["release_s"]) for job in jobs), Fraction(0))
        found.unit, found.offset = round_s / len(jobs), -released_s / len(jobs)
    elif objective == "makespan":
        found.unit = round_s
        if proof["bound"] is not None:
            rounds = max(0, min(rounds, ceil(rational(proof["bound"]) / round_s) - 1))
            found.cost_if_empty = Fraction(rounds + 1)
    for job in jobs:
        gang, weight, rates = job["gang"], number(job["weight"]), rates_of(instance, job, gpus)
        fits = [sum(each["gpus"].values()) >= gang for each in instance["servers"]]
        copies = sum(fits) if instance["forking"] else 1
        levels = [
            rate
            for rate in sorted(set(rates.values()) - {0}, reverse=True)
            if gang <= sum(gpus[name] for name in gpus if rates[name] >= rate)
        ]
        # A gang on its current GPUs needs no restart; steps count up to a relative 1e-9.
        run_s = round_s - number(instance["restart_s"]) * (is_progress and not job["current"])
        due = number(job["steps"]) * (1 if is_progress else 1 - Fraction(1, 10**9))
        part = {rate: min(Fraction(1), rate * run_s / due) for rate in levels}
        first, last = ceil(number(job["release_s"]) / round_s), rounds - 1
        done_by: dict[int, int] = {}  # by round: the variable "the job has completed by its end"
        if not is_progress:
            costs: list[Any] = []  # of completion in each round
            for t in range(first, rounds):
                jct_s = float((t + 1) * round_s - number(job["release_s"]))
                worth = utility_at(job.get("utility", {"kind": "inverse_jct"}), jct_s)
                costs.append(-float_up(weight * worth) if is_utility else t + 1)
            while is_utility and costs and not costs[-1]:
                costs.pop()
            last = first + len(costs) - 1
            fastest = copies * max(part.values(), default=Fraction(0))
            for t, (cost, after) in enumerate(pairwise([*costs, 0]), first):
                if (t + 1 - first) * fastest >= 1:
                    earlier = 0 if objective == "makespan" else cost - after
                    done_by[t] = found.variable(f"job {job['id']} completed {t}", earlier)
                    if t - 1 in done_by:
                        found.row({done_by[t]: 1, done_by[t - 1]: -1}, 0)
            if not is_utility:
                found.row({done_by[last]: 1} if done_by else {}, 1)
        done: Row = {}
        for t in range(first, last + 1 if levels and (done_by or is_progress) else 0):
            runs: dict[Fraction, int] = {}
            uses: dict[str, int] = {}
            for rate in levels:
                gained = -float_up(weight * part[rate]) if is_progress else 0
                runs[rate] = found.variable(f"job {job['id']} rate {rate} {t}", gained, copies)
            for name in gpus:
                if rates[name] >= levels[-1]:
                    upper = min(gang * copies, gpus[name])
                    uses[name] = found.variable(f"job {job['id']} type {name} {t}", 0, upper)
                    held[name][t][uses[name]] = -1
            row = {done_by[last]: copies} if done_by else {}
            row |= {done_by[t - 1]: -copies} if t - 1 in done_by else {}
            found.row(row | dict.fromkeys(runs.values(), -1), -copies if is_progress else 0)
            row = dict.fromkeys(uses.values(), 1) | dict.fromkeys(runs.values(), -gang)
            found.row(row, 0, equal=True)
            for k, rate in enumerate(levels[:-1]):
                row = {x: -1 for name, x in uses.items() if rates[name] < rate}
                found.row(row | {runs[each]: gang for each in levels[k + 1 :]}, 0)
            done |= {x: rate for rate, x in runs.items()}
            for size in (Fraction(1, 2**40), *part.values()) if t in done_by else ():
                # The steps count in rounds at one rate, rounded up to whole ones.
                count = {rate: Fraction(ceil(part[rate] / size), ceil(1 / size)) for rate in levels}
                found.row({x: count[rate] for x, rate in done.items()} | {done_by[t]: -1}, 0)
    for name, by_round in held.items():
        for t in sorted(by_round):
            found.row(by_round[t], -gpus[name])
    return found


def heterogeneous_programme(instance: Document, proof: Document) -> ProofProgramme:
    """Build the programme for the objective: shares of time, or schedules in rounds."""
    is_rounds = instance["objective"] in ("utility", "makespan", "mean_jct", "round_progress")
    return (round_programme if is_rounds else share_programme)(instance, proof)


PROGRAMMES = {
    "lyra-opt/reclaim": reclaim_programme,
    "lyra-opt/allocation": allocation_programme,
    "lyra-opt/network-placement": network_programme,
    "lyra-opt/heterogeneous": heterogeneous_programme,
}


def programme_of(instance: Document, proof: Document) -> ProofProgramme:
    """Return the programme of an instance, including rows for the hints of a proof."""
    return PROGRAMMES[instance["format"]](read_instance(instance), proof)


# --- This part checks the proof -------------------------------------------------------------------
def leaf_value(programme: ProofProgramme, box: Box, leaf: Document, denominator: int) -> Fraction:
    """Return a lower bound on the cost in a box, by weak duality; above 0 shows an empty leaf."""
    multipliers, costs = leaf["multipliers"], [] if leaf.get("is_empty") else programme.cost
    slopes: Row = {column: denominator * cost for column, cost in enumerate(costs)}
    value: Any = 0
    for row, multiplier in zip(multipliers[::2], multipliers[1::2], strict=True):
        coefficients, right, is_equation = programme.rows[row]
        if multiplier < 0 and not is_equation:
            raise Refuted(f"row {row} has a negative multiplier, but is not an equation")
        value += multiplier * right
        for column, coefficient in coefficients.items():
            slopes[column] = slopes.get(column, 0) - multiplier * coefficient
    for column, slope in slopes.items():
        lower, upper = box.get(column, (0, programme.upper[column]))
        value += slope * (lower if slope > 0 else upper)
    return Fraction(value) / denominator


def proved_cost(programme: ProofProgramme, proof: Document) -> Fraction | None:
    """Return the lower bound on the cost that a tree proves; None if it proves infeasibility."""
    denominator = proof["denominator"]
    if type(denominator) is not int or denominator < 1:
        raise Refuted("the denominator is not a positive integer")
    least: Fraction | None = None
    boxes: list[Box] = [{}]  # open nodes, as changes to the box of the root
    for place, node in enumerate(proof["nodes"]):
        if not boxes:
            raise Refuted("the tree has nodes to which no branch leads")
        box = boxes.pop()
        if "branch" in node:
            column, at_most = node["branch"], node["at_most"]
            low, high = box.get(column, (0, programme.upper[column]))
            is_split = column >= 0 and type(at_most) is int and low <= at_most < high
            if programme.is_continuous or not is_split:
                raise Refuted(f"node {place} does not split the integers of a variable")
            boxes += [{**box, column: (at_most + 1, high)}, {**box, column: (low, at_most)}]
            continue
        flat = node["multipliers"]
        if any(type(each) is not int for each in flat) or any(row < 0 for row in flat[::2]):
            raise Refuted(f"node {place} has a multiplier or a row that is not a valid integer")
        value = leaf_value(programme, box, node, denominator)
        if not node.get("is_empty"):
            least = value if least is None else min(least, value)
        elif value <= 0:
            raise Refuted(f"the multipliers of node {place} do not show that it is empty")
    if boxes:
        raise Refuted("the tree ends before all branches are closed")
    return least if least is None or not programme.is_integral else Fraction(ceil(least))


def content_hash(instance: Document) -> str:
    """Return a hash of an instance's content that does not depend on the layout of its file."""
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def cost_of(programme: ProofProgramme, point: Document) -> Fraction:
    """Return the cost of a point, given by the values of its non-zero variables."""
    types, exact = ({int, float}, Fraction) if programme.is_continuous else ({int}, int)
    if not point.keys() <= set(programme.names) or not set(map(type, point.values())) <= types:
        raise Refuted("the solution has an unknown variable, or a value that is not an integer")
    values = [exact(point.get(name, 0)) for name in programme.names]
    if not all(0 <= value <= most for value, most in zip(values, programme.upper, strict=True)):
        raise Refuted("the solution has a variable beyond its bounds")
    for row, (coefficients, right, is_equation) in enumerate(programme.rows):
        left = sum(each * values[column] for column, each in coefficients.items())
        if left < right or (is_equation and left != right):
            raise Refuted(f"the solution violates row {row}")
    return sum((c * x for c, x in zip(programme.cost, values, strict=True)), Fraction(0))


def check(instance: Document, proof: Document) -> tuple[Fraction | None, Fraction | None]:
    """Return the proved bound and the value of the solution, None if absent; or raise Refuted."""
    require_readable(instance, proof)
    if (proof["format"], proof["version"]) != (PROOF_FORMAT, PROOF_VERSION):
        raise ValueError(f"the proof must have format {PROOF_FORMAT}, version {PROOF_VERSION}")
    if proof["sha256"] != content_hash(instance):
        raise Refuted("the proof is for another instance")
    claimed = None if proof["bound"] is None else rational(proof["bound"])
    programme = programme_of(instance, proof)
    cost = proved_cost(programme, proof)
    # For makespan all costs are 0, so a cost above 0 also shows that the programme is empty.
    if cost is None or (cost > 0 and programme.cost_if_empty is not None):
        cost = programme.cost_if_empty
    bound = None if cost is None else programme.value_of(cost)
    if cost is not None and (claimed is None or cost < programme.cost_at(claimed)):
        raise Refuted(f"it claims {proof['bound']}, but proves only {bound}")
    if proof.get("solution") is None:
        return bound, None
    # Rows of hints are left out of the programme, because a valid solution may violate them.
    programme = programme_of(instance, {"solution": proof["solution"]})
    return bound, programme.value_of(cost_of(programme, proof["solution"]))


def main(arguments: list[str]) -> int:
    """Check the two files of the command line; return the exit code."""
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        instance, proof = (json.loads(Path(name).read_text("utf-8")) for name in arguments)
        bound, value = check(instance, proof)
        told = "no solution exists" if bound is None else f"bound {float(bound):.12g}"
        if value is not None:
            told += f", solution {float(value):.12g}{', optimal' * (value == bound)}"
    except Refuted as error:
        print(f"{arguments[1]}: NOT proved: {error}")
        return 1
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"[:200]
        print(f"{arguments[1]}: not a proof of {arguments[0]}: {why}", file=sys.stderr)
        return 2
    print(f"{arguments[1]}: proved: {told} (the instance itself is not checked)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
