#!/usr/bin/env python3
"""Check exactly, with Python alone, a proof that no choice of servers preempts less than a bound.

    python reclaim_stand_alone.py INSTANCE.json PROOF.json

Exit code: 0 if the proof proves its claim, 1 if it does not, 2 if a file cannot be read.
The instance is of reclaim, with rigid semantics. docs/proofs.md describes the format. The checker
rejects values of the instance that would mislead its arithmetic; `lyra-opt verify` checks the whole
instance.

The proof is a tree: each branch takes a job, which is preempted in one part of the choices and kept
in the other. The checker derives everything else. In each part it lets every open job split its
weight over its servers, and levels the prices of the servers that result. No choice costs less than
the sum of its prices, whatever the split is, so a part is closed if the N_R smallest prices cost
too much. formulations/reclaim/README.md, section 5.3, has the theorems. All numbers are integers.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROOF_FORMAT, VERSION, RECLAIM, KIND = "lyra-opt/proof", 1, "lyra-opt/reclaim", "jobs"
UNIT = 2**20
"""Price units in a weight of 1."""
NEGLIGIBLE = UNIT // 64
"""A smaller change of a price does not make the jobs of the server split their weights again."""
MOST_DIGITS, MOST_NODES = 2000, 10**6
FIRST_SWEEPS, SWEEPS = 200, 4
"""Most sweeps over the jobs whose prices changed, in the whole instance and in each part of it."""

Document = dict[str, Any]


class Refuted(Exception):  # noqa: N818
    """The proof does not prove its claim."""


def whole(given: Any, name: str) -> int:
    """Return an integer of at least 0, after a check that it is one."""
    if type(given) is not int or not 0 <= given < 10**MOST_DIGITS:
        raise ValueError(f"{name} must be an integer of at least 0, not {str(given)[:40]}")
    return given


class Fleet:
    """A rigid instance of reclaim. Jobs on one server on loan are part of the server's cost.

    The other jobs are ordered by their number of servers, since small jobs settle prices sooner.
    """

    def __init__(self, instance: Document) -> None:
        if (instance["format"], instance.get("semantics", "rigid")) != (RECLAIM, "rigid"):
            raise ValueError("proofs of other problems and semantics have another checker")
        listed = instance["servers"]
        self.names = [each["id"] for each in listed if each.get("on_loan", True) is True]
        known, column = {each["id"] for each in listed}, {s: k for k, s in enumerate(self.names)}
        if len(known) < len(listed):
            raise ValueError("two servers have the same id")
        self.picks = whole(instance["reclaim_servers"], "reclaim_servers")
        if self.picks > len(self.names):
            raise ValueError("reclaim_servers is more than the servers on loan")
        self.cost = [0] * len(self.names)
        shared: list[tuple[int, int, int, list[int]]] = []  # first the number of servers
        for place, job in enumerate(instance["jobs"]):
            weight, workers = whole(job.get("weight", 1), "weight"), job["workers"]
            on = [w["server"] for w in workers if whole(w.get("base", 0), "base")]
            if len({w["server"] for w in workers}) < len(workers) or not known.issuperset(on):
                raise ValueError("a job has workers twice on a server, or on an unknown one")
            hosts = [column[name] for name in on if name in column]
            if len(hosts) == 1:
                self.cost[hosts[0]] += weight
            elif weight and hosts:
                shared.append((len(hosts), place, weight, hosts))
        shared.sort()
        self.number = {place: job for job, (_, place, _, _) in enumerate(shared)}
        self.weight = [weight for _, _, weight, _ in shared]
        self.hosts = [hosts for _, _, _, hosts in shared]
        self.on: list[list[int]] = [[] for _ in self.names]
        for job, hosts in enumerate(self.hosts):
            for server in hosts:
                self.on[server].append(job)

    def value(self, chosen: Any) -> int:
        """Return the weight that a choice preempts, given by the ids of its servers."""
        ids = set(chosen)
        taken = {server for server, name in enumerate(self.names) if name in ids}
        if len(chosen) != self.picks or len(taken) != self.picks:
            raise Refuted("the solution does not choose N_R servers on loan")
        jobs = zip(self.weight, self.hosts, strict=True)
        shared = sum(weight for weight, hosts in jobs if not taken.isdisjoint(hosts))
        return shared + sum(self.cost[server] for server in taken)


class Part:
    """The choices in which some jobs are preempted and others are kept, and a split of weights.

    `share[j]` has the shares of job j for the servers `live[j]`, which can still be chosen. They
    add up to at most its weight, so the prices of a choice add up to at most what it costs beyond
    `paid`. `due` is what a server costs alone. `dirty` are the jobs to split again.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.paid = fleet, 0
        self.is_open = [True] * len(fleet.weight)
        self.live, self.share = list(fleet.hosts), [[0] * len(hosts) for hosts in fleet.hosts]
        self.price: list[int | None] = [UNIT * each for each in fleet.cost]
        on = ((s, sum(fleet.weight[j] for j in jobs)) for s, jobs in enumerate(fleet.on))
        self.due = [fleet.cost[server] + weight for server, weight in on]
        self.dirty = set(range(len(fleet.weight)))

    def copy(self) -> Part:
        """Return a part of its own. Lists within lists are replaced, but never changed."""
        other = Part.__new__(Part)
        other.fleet, other.paid, other.dirty = self.fleet, self.paid, set(self.dirty)
        other.is_open, other.live = self.is_open.copy(), self.live.copy()
        other.share, other.price, other.due = self.share.copy(), self.price.copy(), self.due.copy()
        return other

    def preempt(self, job: int) -> None:
        """Restrict the part to choices that preempt a job: its weight is paid."""
        self.is_open[job], self.paid = False, self.paid + self.fleet.weight[job]
        for server, share in zip(self.live[job], self.share[job], strict=True):
            self.price[server] -= share  # type: ignore[operator]
            self.due[server] -= self.fleet.weight[job]
            self.dirty.update(self.fleet.on[server])

    def keep(self, job: int) -> None:
        """Restrict the part to choices that do not preempt a job: its servers are excluded."""
        self.is_open[job] = False
        for server in self.live[job]:
            self.exclude(server)

    def exclude(self, server: int) -> None:
        """Restrict the part to choices without a server; its jobs split their weights again."""
        self.price[server] = None
        for job in self.fleet.on[server]:
            if self.is_open[job]:
                place = self.live[job].index(server)
                self.live[job] = self.live[job][:place] + self.live[job][place + 1 :]
                self.share[job] = self.share[job][:place] + self.share[job][place + 1 :]
                self.dirty.add(job)

    def split(self, job: int) -> None:
        """Give the weight of a job to its cheapest servers, until their prices are equal."""
        live, price, old = self.live[job], self.price, self.share[job]
        without = [price[s] - share for s, share in zip(live, old, strict=True)]  # type: ignore[operator]
        total, count = UNIT * self.fleet.weight[job], 0
        for each in sorted(without):
            if count and each * count >= total:
                break
            total, count = total + each, count + 1
        # The first `count` servers are at most at this level, so the shares fit into the weight.
        level = total // count if count else 0
        self.share[job] = new = [level - each if each < level else 0 for each in without]
        for server, before, share, each in zip(live, old, new, without, strict=True):
            price[server] = each + share
            if not -NEGLIGIBLE <= share - before <= NEGLIGIBLE:
                self.dirty.update(self.fleet.on[server])

    def is_closed(self, target: int, sweeps: int) -> bool:
        """Return whether the prices show that no choice costs at most `target`."""
        fleet, limit = self.fleet, UNIT * (target - self.paid)
        for server, due in enumerate(self.due):
            if self.paid + due > target and self.price[server] is not None:
                self.exclude(server)
        for _ in range(sweeps):
            jobs, self.dirty = sorted(self.dirty), set()
            for job in jobs:
                if self.is_open[job]:
                    self.split(job)
            prices = sorted(each for each in self.price if each is not None)
            if len(prices) < fleet.picks or sum(prices[: fleet.picks]) > limit:
                return True
            if not fleet.picks:
                return False
            # A choice with a dearer server costs at least its price in place of the last one.
            most = limit - sum(prices[: fleet.picks - 1])
            if prices[-1] > most:
                for server, each in enumerate(self.price):
                    if each is not None and each > most:
                        self.exclude(server)
            if not self.dirty:
                break
        return False


def require_closed(fleet: Fleet, target: int, next_job: Callable[[Part], int]) -> None:
    """Close all parts of a tree in which no choice may cost at most `target`.

    `next_job` returns the job on which a part that is not closed branches.
    """
    waiting, sweeps = [Part(fleet)], FIRST_SWEEPS
    while waiting:
        part = waiting.pop()
        if part.is_closed(target, sweeps):
            continue
        sweeps, job, other = SWEEPS, next_job(part), part.copy()
        if not part.is_open[job]:
            raise Refuted("a node branches on a job that is decided")
        part.preempt(job)
        other.keep(job)
        waiting += [part, other]


def check(instance: Document, proof: Document) -> tuple[int, int | None]:
    """Return the proved bound and the value of the solution, None if absent; or raise Refuted."""
    if (proof["format"], proof["version"], proof["kind"]) != (PROOF_FORMAT, VERSION, KIND):
        rule = f"the proof must have format {PROOF_FORMAT}, version {VERSION}, kind {KIND}"
        raise ValueError(rule)
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if proof["sha256"] != hashlib.sha256(text.encode()).hexdigest():
        raise Refuted("the proof is for another instance")
    fleet, bound = Fleet(instance), proof["bound"]
    if not isinstance(bound, str) or not bound.isdecimal() or len(bound) > MOST_DIGITS:
        raise ValueError(f"bound must be a string such as 12, not {str(bound)[:40]!r}")
    nodes = [whole(place, "a node") for place in proof["nodes"]]
    if len(nodes) > MOST_NODES:
        raise ValueError(f"a proof has at most {MOST_NODES} nodes")
    if not set(nodes) <= fleet.number.keys():
        raise Refuted("a node branches on a job that is not on two servers")
    unread = iter(nodes)

    def next_job(_: Part) -> int:
        place = next(unread, None)
        if place is None:
            raise Refuted(f"it claims {bound}, but the tree ends before all branches are closed")
        return fleet.number[place]

    require_closed(fleet, int(bound) - 1, next_job)
    if next(unread, None) is not None:
        raise Refuted("the tree has nodes to which no branch leads")
    solution = proof.get("solution")
    return int(bound), None if solution is None else fleet.value(solution)


def main(arguments: list[str]) -> int:
    """Check the two files of the command line; return the exit code."""
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        instance, proof = (json.loads(Path(name).read_text("utf-8")) for name in arguments)
        bound, value = check(instance, proof)
    except Refuted as error:
        print(f"{arguments[1]}: NOT proved: {error}")
        return 1
    except Exception as error:
        print(f"cannot check {arguments}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        return 2
    told = "" if value is None else f", solution {value}{', optimal' * (value == bound)}"
    print(f"{arguments[1]}: proved: bound {bound}{told} (the instance itself is not checked)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
