#!/usr/bin/env python3
"""Check exactly, with Python alone, a proof that no schedule has a mean JCT below a bound.

    python order_stand_alone.py INSTANCE.json PROOF.json

Exit code: 0 if the proof proves its claim, 1 if it does not, 2 if a file cannot be read.
The instance is of allocation, with the objective mean_jct. docs/proofs.md describes the format. The
checker rejects values of the instance that would mislead its arithmetic; `lyra-opt verify` checks
the whole instance.

The proof is a tree over orders of events: starts, completions and releases. The checker derives the
children of each node, so every schedule is in a leaf, up to symmetry. A leaf names prices of work.
They give a lower bound for all schedules of its order, whatever the prices are, which the checker
computes in integers. formulations/allocation/README.md, section 13, has the theorems.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from fractions import Fraction
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

PROOF_FORMAT, VERSION, ALLOCATION = "lyra-opt/proof", 1, "lyra-opt/allocation"
BOUND = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?")
MOST_NODES = 10**5
TAIL_PERCENT = (0, 4, 10, 18, 28, 40, 55, 75, 100, 130, 180, 270, 450, 800)
"""Times at which leaves price the work after an order, in % of the time that the work needs."""

Document = dict[str, Any]
Event = tuple[str, int]  # ("C", job), ("S", job) or ("R", index of the release)


class Refuted(Exception):  # noqa: N818
    """The proof does not prove its claim."""


def number(given: Any, *, above: bool = False) -> Fraction:
    """Return the exact value of a number of at least 0, which the toolkit reads as a float."""
    if type(given) not in (int, float) or not 0 <= given < inf or (above and not given):
        raise ValueError(f"{str(given)[:40]} must be a number {'above' if above else 'from'} 0")
    return Fraction(float(given))


def whole(given: Any, least: int = 0) -> int:
    """Return an integer, after a check that it is one and not too small."""
    if type(given) is not int or given < least:
        raise ValueError(f"{str(given)[:40]} must be an integer of at least {least}")
    return given


def integers(given: Any) -> list[int]:
    """Return a list of integers, after a check that it is one."""
    if type(given) is not list or any(type(each) is not int for each in given):
        raise Refuted("a node or a list of prices does not consist of integers")
    return given


class Jobs:
    """The jobs of an allocation instance in integers: ticks, GPU-ticks, and shares of a rate."""

    def __init__(self, instance: Document) -> None:
        jobs, self.gpus = instance["jobs"], whole(instance["gpus"], 1)
        wide = [whole(job.get("gpus_per_worker", 1), 1) for job in jobs]
        work = [number(job["work_worker_s"], above=True) for job in jobs]
        release = [number(job.get("release_s", 0)) for job in jobs]
        gain = [1 - number(job.get("scaling_loss", 0)) for job in jobs]
        self.ticks = max(each.denominator for each in (*work, *release))  # all are powers of two
        self.one = max(each.denominator for each in gain)  # the rate of a GPU of the base demand
        self.area = [int(each * self.ticks) * g for each, g in zip(work, wide, strict=True)]
        self.release = [int(each * self.ticks) for each in release]
        self.gain = [int(each * self.one) for each in gain]
        self.base = [whole(job["min_workers"], 1) * g for job, g in zip(jobs, wide, strict=True)]
        most = [whole(job["max_workers"], 1) * g for job, g in zip(jobs, wide, strict=True)]
        self.every = range(len(jobs))
        self.extra = [min(most[j], self.gpus) - self.base[j] for j in self.every]
        self.running = [job.get("running", False) is True for job in jobs]
        rates = zip(self.base, self.gain, self.extra, strict=True)
        self.top = [base * self.one + gain * extra for base, gain, extra in rates]
        if min(*self.extra, *self.gain, 0) < 0 or len({job["id"] for job in jobs}) < len(jobs):
            rule = "the jobs have equal ids, or numbers of workers or losses out of range"
            raise ValueError(rule)
        if any(self.running[j] and self.release[j] for j in self.every):
            raise ValueError("a running job must be released at 0")
        self.height = [self.area[j] * self.one // self.top[j] for j in self.every]
        self.releases = sorted({each for each in self.release if each})
        self.shift = 64 + max(*self.area, *self.release, self.gpus).bit_length()

    def comes_before(self, i: int, j: int) -> bool:
        """Whether some optimal schedule completes i before j, as both are alike but for work."""
        tables = (self.base, self.extra, self.gain, self.release, self.running)
        if i == j or any(table[i] != table[j] for table in tables):
            return False
        if self.area[i] == self.area[j]:
            return i < j
        return self.running[i] and self.area[i] < self.area[j]

    def earned(self, price: list[int], forced: list[int], allowed: list[int]) -> int:
        """Return the most that all GPUs earn per tick: a fractional knapsack."""
        room = self.gpus - sum(self.base[j] for j in forced)
        value = sum(price[j] * self.base[j] for j in forced) * self.one
        items = [(price[j] * self.one, self.base[j]) for j in allowed]
        items += [(price[j] * self.gain[j], self.extra[j]) for j in (*forced, *allowed)]
        for density, gpus in sorted(items, reverse=True):
            taken = min(room, gpus)
            value, room = value + density * taken, room - taken
        return value


class Order:
    """The first events of a schedule, and the intervals that end with them.

    A job may run in the intervals from `first` to `last`. If it runs at time 0 or its start is an
    event, it is forced: it runs in all of them.
    """

    def __init__(self, jobs: Jobs, events: tuple[Event, ...]) -> None:
        self.jobs, self.events, size = jobs, events, len(events)
        place = {event: k for k, event in enumerate(events)}
        self.last = [place.get(("C", j), size) for j in jobs.every]
        self.start = [0 if jobs.running[j] else place.get(("S", j), -1) + 1 for j in jobs.every]
        self.forced = [jobs.running[j] or self.start[j] > 0 for j in jobs.every]
        self.follow = [j for j in jobs.every if self.last[j] == size]
        seen = [k + 1 for k, (kind, _) in enumerate(events) if kind == "R"]
        self.ahead = jobs.releases[len(seen) :]
        after = {0: 0} | dict(zip(jobs.releases, seen, strict=False))
        released = [after.get(each, size) for each in jobs.release]
        self.first = [
            self.start[j] if self.forced[j] else self.earliest(j, released[j]) for j in jobs.every
        ]
        # Per interval: the number of incomplete jobs, the jobs that run, and those that may run.
        self.intervals: list[tuple[int, list[int], list[int]]] = []
        for k in range(size):
            present = [j for j in jobs.every if self.first[j] <= k <= self.last[j]]
            forced = [j for j in present if self.forced[j]]
            allowed = [j for j in present if not self.forced[j]]
            self.intervals.append((sum(end >= k for end in self.last), forced, allowed))

    def earliest(self, j: int, first: int) -> int:
        """Return the first interval of a job, after its release and the jobs that exclude it."""
        base = self.jobs.base
        for k in range(self.last[j] - 1, first - 1, -1):
            kind, i = self.events[k]
            others = (x for x in self.jobs.every if x not in (i, j) and self.last[x] >= k)
            held = sum(base[x] for x in others if self.forced[x] and self.start[x] <= k)
            if kind == "C" and base[i] + base[j] + held > self.jobs.gpus:
                return k + 1
        return first

    @property
    def is_possible(self) -> bool:
        """Whether every job can run before it completes, and the base demands that run fit."""
        runs = (self.first[j] <= self.last[j] or j in self.follow for j in self.jobs.every)
        held = (sum(self.jobs.base[j] for j in forced) for _, forced, _ in self.intervals)
        return all(runs) and max(held, default=0) <= self.jobs.gpus

    def children(self, node: Document) -> list[tuple[Event, ...]]:
        """Return orders such that every schedule of this order is in one, up to symmetry."""
        if "start" in node:
            j = whole(node["start"])
            if self.follow or self.forced[j]:
                raise Refuted("a node decides a start that is not open")
            places = range(self.first[j], self.last[j] + 1)
            return [(*self.events[:k], ("S", j), *self.events[k:]) for k in places]
        if not self.follow:
            raise Refuted("a node continues an order that is complete")
        jobs, seen = self.jobs, len(self.jobs.releases) - len(self.ahead)
        found = [("R", seen)] if self.ahead else []
        there = [j for j in self.follow if jobs.release[j] not in self.ahead]
        found += [("C", j) for j in there if not any(jobs.comes_before(i, j) for i in self.follow)]
        return [(*self.events, event) for event in found]

    def bound(self, prices: list[int], denominator: int) -> Fraction:
        """Return a lower bound on the sum of completion times, in ticks, for any prices.

        `prices` has four numbers per job, as multiples of 1 / denominator: the price of work, and
        three shares of a completion time after the events (mean busy time, height, release).
        """
        jobs, shift, unit = self.jobs, self.jobs.shift, denominator << self.jobs.shift
        if len(prices) != 4 * len(jobs.every) or min(prices) < 0:
            raise Refuted("prices must be four numbers per job, of at least 0")
        wait = dict.fromkeys(self.follow, 0)  # after the next release
        for j in self.follow:
            if jobs.release[j] in self.ahead:
                wait[j] = jobs.release[j] - self.ahead[0]
        grids, work, price, decay, value, after = self.tail(wait), [], [], [], 0, 0
        for j in jobs.every:
            p, busy, height, late = (each << shift for each in prices[4 * j : 4 * j + 4])
            if busy + height + late > unit:
                raise Refuted("the shares of a completion time are more than 1")
            decay.append(busy // jobs.area[j] if j in wait else 0)
            # Work after the last time of the grid must earn nothing.
            work.append(min(p, decay[j] * grids[-1][0][-1]) if j in wait else p)
            price.append(work[j] + (busy + 2 * height) * jobs.one // (2 * jobs.top[j]))
            late *= j in wait
            after += late
            value += price[j] * jobs.area[j] + late * (jobs.release[j] + jobs.height[j])
        value, since, group = value * jobs.one, 0, []
        for (kind, which), (unfinished, forced, allowed) in zip(
            self.events, self.intervals, strict=True
        ):
            cost = (unfinished * unit - after) * jobs.one
            group.append(cost - jobs.earned(price, forced, allowed))
            if kind == "R":
                value += (jobs.releases[which] - since) * min(group)
                since, group = jobs.releases[which], []
        if self.ahead:
            value += (self.ahead[0] - since) * min([0, *group])
        elif group and min(group) < 0:
            raise Refuted("prices are too high for an interval of any length")
        for times, present in grids:
            falling = ([max(0, work[j] - decay[j] * t) for j in jobs.every] for t in times)
            earned = [jobs.earned(each, [], present) for each in falling]
            steps = zip(pairwise(times), pairwise(earned), strict=True)
            value -= (sum((b - a) * (x + y) for (a, b), (x, y) in steps) + 1) // 2
        return Fraction(value, unit * jobs.one)

    def tail(self, wait: dict[int, int]) -> list[tuple[list[int], list[int]]]:
        """Return times after the events, from each release to the next, and the jobs present."""
        if not wait:
            return []
        length = max(
            1,
            *(self.jobs.height[j] for j in wait),
            sum(self.jobs.area[j] for j in wait) // self.jobs.gpus,
        )
        begins, found = sorted({0, *wait.values()}), []
        for begin, end in zip(begins, [*begins[1:], None], strict=True):
            times = {begin + length * percent // 100 for percent in TAIL_PERCENT}
            if end is not None:
                times = {begin + (end - begin) * part // 3 for part in range(4)}
            found.append((sorted(times), [j for j in wait if wait[j] <= begin]))
        return found


def proved_mean_jct(instance: Document, proof: Document) -> Fraction:
    """Return the lower bound on mean JCT, in seconds, that a tree over orders of events proves."""
    jobs, bounds, unread = Jobs(instance), [], iter(proof["nodes"])
    waiting: list[tuple[Event, ...]] = [()]
    while waiting:
        order = Order(jobs, waiting.pop())
        if not order.is_possible:
            continue
        node = next(unread, None)
        if node is None:
            raise Refuted("the tree ends before all branches are closed")
        if "prices" in node:
            prices = integers(proof["prices"][whole(node["prices"])])
            bounds.append(order.bound(prices, whole(proof["denominator"], 1)))
        else:
            waiting += reversed(order.children(node))
    if next(unread, None) is not None or not bounds:
        raise Refuted("the tree has nodes to which no branch leads")
    return (min(bounds) - sum(jobs.release)) / (jobs.ticks * len(jobs.every))


def check(instance: Document, proof: Document) -> Fraction:
    """Return the proved lower bound on mean JCT, in seconds; or raise Refuted."""
    if (proof["format"], proof["version"]) != (PROOF_FORMAT, VERSION):
        raise ValueError(f"the proof must have format {PROOF_FORMAT}, version {VERSION}")
    if (instance["format"], instance.get("objective", "mean_jct")) != (ALLOCATION, "mean_jct"):
        raise ValueError("proofs of other problems and objectives have another checker")
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if proof["sha256"] != hashlib.sha256(text.encode()).hexdigest():
        raise Refuted("the proof is for another instance")
    if not isinstance(proof["bound"], str) or not BOUND.fullmatch(proof["bound"]):
        raise ValueError(f"bound must be a string such as 12 or 35/3, not {proof['bound']!r}"[:99])
    if len(proof["nodes"]) > MOST_NODES:
        raise ValueError(f"a proof has at most {MOST_NODES} nodes")
    proved = proved_mean_jct(instance, proof)
    if proved < Fraction(proof["bound"]):
        raise Refuted(f"it claims {proof['bound']}, but proves only {float(proved):.17g}")
    return proved


def main(arguments: list[str]) -> int:
    """Check the two files of the command line; return the exit code."""
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        instance, proof = (json.loads(Path(name).read_text("utf-8")) for name in arguments)
        bound = float(check(instance, proof))
    except Refuted as error:
        print(f"{arguments[1]}: NOT proved: {error}")
        return 1
    except Exception as error:
        print(f"cannot check {arguments}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        return 2
    print(f"{arguments[1]}: proved: bound {bound:.12g} (the instance itself is not checked)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
