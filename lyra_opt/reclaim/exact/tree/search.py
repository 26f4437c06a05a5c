"""Best-first branch and bound on jobs, for the rigid semantics."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.kernels import LARGEST_COMPILED_INTEGER
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import (
    BYTES_PER_MIB,
    Stopwatch,
    is_out_of_time,
    limits_in_force,
    remaining_s,
)
from lyra_opt.reclaim.exact.tree.kernel import Restricted, Split, Tree, TreeInstance, explore
from lyra_opt.reclaim.reduction import SearchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lyra_opt.reclaim.reduction import ReducedReclaim

FINEST_UNIT = 2**20
"""Prices are multiples of 2^-20 of a weight, coarser where 64 bits ask for it."""
COARSEST_UNIT = 2**8
FIRST_NODES = 16
SLICE_S = 0.05
"""Seconds between two looks at the clock, about."""
FIRST_SLOTS = 256
PATIENCE = 8
"""How many times the usual work a tree may do before compiled code is loaded for it."""


class TreeSearch:
    r"""The search for the best choice of a rigid instance; it can go on where a limit stopped it.

    A node has decided for some jobs that they are preempted (paid) and for some that they are
    not (kept). A paid job costs its weight and leaves the instance; the servers of a kept job can
    not be chosen. Both make the instance smaller. The bound of a node is the sum of the N_R
    smallest prices, where every open job splits its weight over its servers
    (`lyra_opt.reclaim.exact.tree.kernel`): it converges to that of the linear relaxation and
    is valid before. Open nodes are taken by least bound. Servers that alone, or by their price,
    would lift the bound to the incumbent are ruled out.

    Branching only on jobs treats interchangeable servers alike, so that symmetric choices of
    servers are never told apart.

    Parameters
    ----------
    reduced
        From a rigid instance: every slack is 0.
    incumbent
        Places to start from, ``reclaim_servers`` of them.
    dual_bound
        Proved before.
    observer
        Called with ("objective", value) and ("dual_bound", value) at improvements.

    Notes
    -----
    Source: job branching from this project's study of minimum k-union; the bound is its own.
    Complexity: exponential at worst; a node takes O(entries) time, an open node a byte a job.
    """

    def __init__(
        self,
        reduced: ReducedReclaim,
        incumbent: Sequence[int],
        dual_bound: int,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> None:
        losses = reduced.losses
        self._reduced = reduced
        self._observer = observer
        total = exact_sum(reduced.server_cost) + exact_sum(reduced.weight)
        # Every objective is a multiple of the step.
        self._step = max(1, gcd(*reduced.server_cost.tolist(), *reduced.weight.tolist()))
        self._unit, dtype = price_unit(total // self._step)
        scale = np.array([self._unit], dtype=dtype)
        # Narrow jobs level their prices first: that saves rounds.
        order = np.argsort(losses.span(), kind="stable")
        span = losses.span()[order]
        entries = np.concatenate(
            [np.arange(losses.job_start[j], losses.job_start[j + 1]) for j in order]
            or [np.zeros(0, dtype=np.int64)]
        )
        rank = np.argsort(order)
        self._instance = TreeInstance(
            picks=reduced.reclaim_servers,
            unit=self._unit,
            forbidden_price=2 * (total // self._step + 1) * self._unit,
            weight=(reduced.weight[order] // self._step).astype(dtype) * scale,
            cost=(reduced.server_cost // self._step).astype(dtype) * scale,
            job_start=np.concatenate(([0], np.cumsum(span))).astype(np.int64),
            job_servers=losses.job_servers[entries],
            server_start=losses.server_start,
            server_jobs=rank[losses.server_jobs].astype(np.int64),
        )
        self._objective = reduced.objective(incumbent) // self._step * self._unit
        self._floor = -(-dual_bound // self._step) * self._unit
        self.nodes = 0
        self._is_chosen = np.zeros(losses.servers, dtype=np.int64)
        self._is_chosen[list(incumbent)] = 1
        self._open_nodes = 1
        self._free_slots = FIRST_SLOTS - 1
        bounds = np.zeros(FIRST_SLOTS, dtype=dtype)
        bounds[0] = self._floor
        self._tree = Tree(
            bounds=bounds,
            depths=np.zeros(FIRST_SLOTS, dtype=np.int64),
            slots=np.zeros(FIRST_SLOTS, dtype=np.int64),
            # The last of these are used first; row 0 is the root's.
            unused_slots=np.arange(FIRST_SLOTS - 1, -1, -1, dtype=np.int64),
            decisions=np.zeros(FIRST_SLOTS * losses.jobs, dtype=np.int8),
            warm_share=np.zeros(losses.entries, dtype=dtype),
        )

    def search(self) -> SearchResult:
        """Explore in slices of nodes until the tree is done or a limit is reached.

        The limit of nodes counts those of all calls, the result those of this one.
        """
        limits, stopped_by, nodes_before = limits_in_force(), None, self.nodes
        budget = FIRST_NODES
        while self._open_nodes and self._bound() < self._objective_value():
            if is_out_of_time():
                stopped_by = StoppedBy.TIME
            elif limits.nodes is not None and self.nodes >= limits.nodes:
                stopped_by = StoppedBy.NODES
            elif not self._free_slots and not self._grow(limits.memory_mib):
                stopped_by = StoppedBy.MEMORY
            if stopped_by is not None:
                break
            if limits.nodes is not None:
                budget = min(budget, limits.nodes - self.nodes)
            slice_watch = Stopwatch()
            made = self._explore(budget)
            # As many nodes as keep the slices near their length.
            node_s = max(slice_watch.elapsed_s, 1e-9) / max(made, 1)
            left_s = remaining_s()
            slice_s = SLICE_S if left_s is None else min(SLICE_S, left_s)
            budget = max(1, min(4 * budget, int(slice_s / node_s)))
        return SearchResult(
            places=[int(place) for place in np.flatnonzero(self._is_chosen)],
            objective=self._objective_value(),
            bound=self._bound(),
            nodes=self.nodes - nodes_before,
            stopped_by=stopped_by,
        )

    def raise_bound(self, dual_bound: int) -> None:
        """Take a bound that was proved elsewhere."""
        self._floor = max(self._floor, -(-dual_bound // self._step) * self._unit)

    def _objective_value(self) -> int:
        return int(self._objective) // self._unit * self._step

    def _bound(self) -> int:
        """Return the least that a choice can preempt, as far as is proved."""
        if not self._open_nodes:
            return self._objective_value()
        least = max(int(self._tree.bounds[0]), self._floor)
        return min(-(-least // self._unit) * self._step, self._objective_value())

    def _explore(self, budget: int) -> int:
        losses = self._reduced.losses
        before = self._objective_value(), self._bound()
        servers, jobs, entries = losses.servers, losses.jobs, losses.entries
        made, self._objective, self._open_nodes, self._free_slots, is_chosen, tree = explore.run(
            budget,
            self._objective,
            self._open_nodes,
            self._free_slots,
            self._is_chosen,
            self._instance,
            self._tree,
            Restricted(
                decision=_places(jobs),
                number=_places(servers),
                server=_places(servers),
                job=_places(jobs),
                entry_of=_places(entries),
                is_picked=self._weights(servers),
                is_preempted=_places(jobs),
                saved_weight=self._weights(jobs),
                saved_share=self._weights(entries),
                saved_price=self._weights(servers),
            ),
            Split(
                weight=self._weights(jobs),
                job_start=_places(jobs + 1),
                job_servers=_places(entries),
                share=self._weights(entries),
                price=self._weights(servers),
                without=self._weights(servers),
            ),
            # Of all nodes so far: a tree that stays small never waits for the compiler.
            work=(self.nodes + budget) * (entries + servers + jobs) // PATIENCE,
            largest=4 * self._instance.forbidden_price,
        )
        self.nodes += made
        self._is_chosen = np.asarray(is_chosen, dtype=np.int64)
        self._tree = Tree(
            *(np.asarray(new, dtype=old.dtype) for new, old in zip(tree, self._tree, strict=True))
        )
        if self._observer is not None:
            if self._objective_value() < before[0]:
                self._observer("objective", self._objective_value())
            if self._bound() > before[1]:
                self._observer("dual_bound", self._bound())
        return int(made)

    def _grow(self, memory_mib: float | None) -> bool:
        """Make room for twice as many open nodes, as far as the memory limit allows."""
        tree, jobs = self._tree, self._reduced.losses.jobs
        old = len(tree.bounds)
        new = 2 * old
        if memory_mib is not None:
            bytes_per_node = jobs + 4 * np.dtype(np.int64).itemsize
            new = min(new, int(memory_mib * BYTES_PER_MIB / bytes_per_node))
        if new <= old:
            return False
        self._tree = tree._replace(
            bounds=_extended(tree.bounds, new),
            depths=_extended(tree.depths, new),
            slots=_extended(tree.slots, new),
            unused_slots=_extended(np.arange(old, new), new),
            decisions=_extended(tree.decisions, new * jobs),
        )
        self._free_slots = new - old
        return True

    def _weights(self, size: int) -> NDArray[Any]:
        return np.zeros(size, dtype=self._instance.weight.dtype)


def _places(size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _extended(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer: NDArray[Any] = np.zeros(size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def price_unit(total_weight: int) -> tuple[int, Any]:
    """Return into how many parts prices cut a unit of weight, and the type that holds them."""
    unit = FINEST_UNIT
    while unit > COARSEST_UNIT and 16 * (total_weight + 1) * unit >= LARGEST_COMPILED_INTEGER:
        unit //= 2
    fits = 16 * (total_weight + 1) * unit < LARGEST_COMPILED_INTEGER
    return (unit, np.int64) if fits else (FINEST_UNIT, object)
