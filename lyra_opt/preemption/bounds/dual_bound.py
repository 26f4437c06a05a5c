"""The toolkit's own lower bound on the objective of a preemption instance."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lyra_opt.preemption.bounds.prices import INFINITE, Items, Task, prices
from lyra_opt.preemption.counting import Counting, Verdict, count, is_monotone, required_domains
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance

MOST_PODS = 2**20
"""Largest number of pods of a demand for a single resource."""


def dual_bound(instance: Instance) -> int:
    """Return a proved lower bound on the encoded optimum, or the largest code if it is infeasible.

    The bound covers unplaced pods, and the costs of losing and moving pods to make room for the
    pending pods or to empty nodes. If a level is required, it is the least bound of all its
    domains. Time O(pod groups * units + nodes * pods per node * log nodes).
    """
    counting = count(instance)
    if counting.verdict is Verdict.IMPOSSIBLE:
        return instance.terms.largest
    return min(domain_bounds(Relaxation.of(instance, counting)).values())


def domain_bounds(relaxation: "Relaxation") -> dict[int, int]:
    """Return a lower bound on the encoded objective for each domain that can hold the optimum."""
    found = np.full(len(relaxation.fits), relaxation.emptying, dtype=object)
    for task in relaxation.tasks:
        known = prices(task)
        if known is not None:
            found = np.maximum(found, [task.encoded(bound) for bound in known.bound.tolist()])
    return {int(d): relaxation.constant + int(found[d]) for d in np.flatnonzero(relaxation.fits)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """Simpler demands for pods of a single shape, which every optimal solution satisfies.

    Parameters
    ----------
    least, is_all
        Number of pods of each shape that every optimal solution places at least, (S,), and whether
        some optimal solution places no more pods.
    fits
        Whether an optimal solution can be in the domain of a required level, (D,); one domain
        stands for the whole cluster if no level is required.
    constant, emptying
        The part of the encoded objective that all solutions have, and a lower bound on the rest,
        which is the cost of emptying nodes.
    tasks
        The demands with their costs: the pods of each shape alone and, with several shapes, the
        total of each resource in pods of the largest common size.
    """

    least: Integers
    is_all: bool
    fits: Flags
    constant: int
    emptying: int
    tasks: tuple[Task, ...]

    @classmethod
    def of(cls, instance: Instance, counting: Counting) -> "Relaxation":
        """Build the relaxation of an instance that counting does not prove infeasible."""
        index, terms = instance.index, instance.terms
        least, fits, constant = index.shape_min, counting.domain_fits, 0
        names = [term.name for term in terms.terms]
        is_all = "unplaced" not in names
        if (
            names[:1] == ["unplaced"]
            and len(least) == 1
            and is_monotone(instance, index.may_lose | index.may_move)
        ):
            room = counting.room[0]
            most = min(int(room.max()), int(index.shape_count[0]))
            least, fits, is_all = np.array([most]), room >= most, True
            constant = terms.units[0] * (int(index.shape_count[0]) - most)
        domain, domains = required_domains(instance)
        demands = _demands(instance, least)
        return cls(
            least=least,
            is_all=is_all,
            fits=fits,
            constant=constant,
            emptying=_emptying_bound(instance),
            tasks=tuple(Task.of(instance, *each, domain, domains) for each in demands),
        )


def _emptying_bound(instance: Instance) -> int:
    """Return a lower bound on the encoded cost of emptying nodes.

    The cost of a gang is split over its groups on nodes that must or can be emptied. The bound is
    the cost of the nodes that must be emptied, plus the cost of the cheapest other nodes.
    """
    index = instance.index
    is_counted = index.must_be_empty | (index.can_be_chosen_empty & (instance.empty_nodes > 0))
    nothing = np.zeros(index.free.shape[1], dtype=np.int64)
    domain = np.where(is_counted, 0, -1)
    task = Task.of(instance, nothing, 1, is_counted.astype(np.int64), domain, 1)
    nodes = np.flatnonzero(is_counted)
    items = Items.of(task, np.flatnonzero(is_counted[index.group_node]), nodes)
    alone = np.where(items.pods >= items.count, items.pod * items.count, INFINITE)
    each = np.minimum(items.whole, alone)
    cost, is_held = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=bool)
    is_held[items.row[each >= INFINITE]] = True
    np.add.at(cost, items.row, np.where(each >= INFINITE, 0, each))
    must = index.must_be_empty[nodes]
    chosen = np.sort(cost[~must & ~is_held])[: instance.empty_nodes]
    return task.encoded(int(cost[must].sum()) + int(chosen.sum()))


def _demands(instance: Instance, least: Integers) -> Iterator[tuple[Integers, int, Integers]]:
    """Yield demands: the request of a pod, the number of pods, and the most pods on each node."""
    index = instance.index
    limit = np.where(index.shape_allowed, index.shape_per_node[:, None], 0)
    for shape in np.flatnonzero(least):
        yield index.shape_request[shape], int(least[shape]), limit[shape]
    if len(least) < 2:
        return
    some = least > 0
    for resource in range(index.free.shape[1]):
        size = index.shape_request[some, resource]
        unit = max(1, int(np.gcd.reduce(size)))
        wanted = sum(
            a * n for a, n in zip((size // unit).tolist(), least[some].tolist(), strict=True)
        )
        if 0 < wanted <= MOST_PODS:
            request = np.where(np.arange(index.free.shape[1]) == resource, unit, 0)
            yield request, wanted, (limit[some] * (size // unit)[:, None]).sum(axis=0)
