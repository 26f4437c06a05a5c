"""Close nodes on which no better solution makes room, for demands of one shape."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lyra_opt.preemption.bounds.dual_bound import Relaxation
from lyra_opt.preemption.bounds.prices import INFINITE, Prices, Task
from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.counting import node_room
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.exact.start import make_room, put_back
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The closing of nodes in one domain, by the prices of `lyra_opt.preemption.bounds.prices`.

    On a closed node, that is, one that is not open, pending pods use only the free capacity. Its
    running pods leave only if their gang is lost whole.

    Parameters
    ----------
    instance
        The instance.
    task
        The demand in the domain.
    free
        Number of pending pods that the free capacity of each node of the domain holds, (N,).
    costs
        The encoded costs.
    """

    instance: Instance
    task: Task
    free: Integers
    costs: Costs

    @classmethod
    def of(
        cls, instance: Instance, relaxation: Relaxation, domain: int, costs: Costs
    ) -> "Reduction":
        """Build the reduction of a domain for a demand of one shape."""
        task = relaxation.tasks[0]
        inside = task.domain == domain
        return cls(
            instance=instance,
            task=replace(task, domain=np.where(inside, 0, -1), domains=1),
            free=np.where(inside, node_room(instance, 0, instance.index.free), 0),
            costs=costs,
        )

    def plans(self, task: Task, found: Prices) -> Iterator[Plan | None]:
        """Yield plans that place the pods as the prices of a task suggest; None for a failure."""
        placements = [found.placement(task)]
        supply, price = self._supply(task, found)
        if price is not None:
            placements.append(self.free + supply)
        for placed in placements:
            yield put_back(self.instance, self.costs, placed[None, :])

    def narrowed(self, task: Task, found: Prices, limit: int) -> Task:
        """Return the task with fewer open nodes and gangs that can be lost.

        A node is not open if the bound of the solutions that make room on it exceeds the limit.
        """
        limit = task.scaled(limit)
        is_open = np.zeros_like(task.is_open)
        more = found.more_than(self.free)
        is_open[found.nodes] = (more & (found.excess + found.bound <= limit)).any(axis=1)
        loss = np.where(task.loss <= limit, task.loss, INFINITE)
        return replace(task, is_open=is_open & task.is_open, loss=loss)

    def open_nodes(self, task: Task, found: Prices, limit: int) -> Flags:
        """Return nodes, (N,), outside which some best solution loses and moves no pods.

        The prices were found for a task that includes the open nodes of `task`.
        """
        instance, index = self.instance, self.instance.index
        limit = task.scaled(limit)
        if index.may_move.any():
            return self._with_chains(task, int(found.bound[0]), limit)
        terms = instance.terms.terms
        is_plain = not instance.budgets and all(term.name != "extra_domains" for term in terms)
        if not is_plain or instance.empty_nodes or index.must_be_empty.any():
            return task.is_open
        supply, price = self._supply(task, found)
        if price is None:
            return task.is_open
        price = min(limit + 1, -task.scaled(-price))
        is_open: Flags = task.is_open & (supply | found.components(self.free, price))
        return is_open

    def _with_chains(self, task: Task, bound: int, limit: int) -> Flags:
        """Return the open nodes, and nodes on which pods may make room for pods that move in.

        Making such room costs at least as much as the cheapest pod or gang on the node, in addition
        to the bound. It costs nothing more if the gang is lost because of an open node.
        """
        index = self.instance.index
        gang, node = index.group_gang, index.group_node
        cheapest = np.full(len(index.free), INFINITE)
        cost = np.where(task.pods > 0, np.minimum(task.pod, task.loss[gang]), task.loss[gang])
        np.minimum.at(cheapest, node, cost)
        is_open: Flags = task.is_open | (cheapest + bound <= limit)
        touched = np.zeros(len(index.size), dtype=bool)
        touched[gang[is_open[node]]] = True
        is_open[node[(touched & index.may_lose)[gang]]] = True
        return is_open

    def _supply(self, task: Task, found: Prices) -> tuple[Flags, int | None]:
        """Return the cheapest nodes that each make room for one more pod, and the highest cost.

        These nodes are the supply, one for each pod that does not fit without losses. Gangs on
        these nodes have no pods elsewhere, so the cost of a node is exact and does not depend on
        other nodes. The price is the largest of these costs; None if there are too few such nodes.

        Consider the nodes on which a solution makes room. Gangs on several of these nodes connect
        them into components. If every node of a component makes room only at the price per pod or
        more, nodes of the supply can replace the component. Some optimal solution therefore makes
        room only on the supply and on components with a cheaper node.
        """
        index, free = self.instance.index, self.free
        wanted = max(0, task.wanted - int(free.sum()))
        is_alone = index.first_group[1:] - index.first_group[:-1] == 1
        is_local = task.is_open[found.nodes] & found.more_than(free).any(axis=1)
        is_local[found.items.row[~is_alone[found.items.gang]]] = False
        rows = np.flatnonzero(is_local)
        rows = rows[np.argsort(found.cost[rows, free[found.nodes[rows]] + 1], kind="stable")]
        nodes = found.nodes[rows[: 2 * wanted]]
        supply = np.zeros(len(free), dtype=bool)
        if not 0 < wanted <= len(nodes) or index.may_move.any():
            return supply, None
        placed = np.zeros_like(free)
        placed[nodes] = free[nodes] + 1
        lost = make_room(self.instance, self.costs, placed[None, :], supply)
        assert lost is not None
        groups = np.flatnonzero(lost)
        gang = index.group_gang[groups]
        is_whole = index.size[gang] - lost[groups] < index.min_pods[gang]
        pods = self.costs.lost_pod[groups] * lost[groups]
        cost = np.zeros(len(free), dtype=self.costs.loss.dtype)
        np.add.at(cost, index.group_node[groups], np.where(is_whole, self.costs.loss[gang], pods))
        nodes = nodes[np.argsort(cost[nodes], kind="stable")][:wanted]
        supply[nodes] = True
        return supply, int(cost[nodes[-1]])
