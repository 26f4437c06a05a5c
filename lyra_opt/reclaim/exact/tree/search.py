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
"""Prices are multiples of 2^-20 of a weight, or coarser if that is needed to fit 64 bits."""
COARSEST_UNIT = 2**8
FIRST_NODES = 16
SLICE_S = 0.05
"""Approximate time in seconds between two checks of the limits."""
FIRST_SLOTS = 256
PATIENCE = 8
"""A tree may do this many times the usual work before compiled code is loaded."""


class TreeSearch:
    r"""A best-first branch and bound for rigid instances that can resume after a limit.

    A node has decided that some jobs are preempted (paid) and that some are not (kept). A paid job
    adds its weight and leaves the instance. The servers of a kept job cannot be chosen. Both
    decisions make the instance smaller. In the bound of a node every open job splits its weight
    over its servers, and the bound is the sum of the N_R smallest server prices
    (`lyra_opt.reclaim.exact.tree.kernel`). The bound converges to that of the linear relaxation,
    and every intermediate value is valid. Open nodes are processed by least bound. A server that
    alone, or by its price, would raise the bound to the incumbent is ruled out.

    Branching only on jobs treats interchangeable servers alike, so symmetric choices of servers are
    never enumerated.

    Parameters
    ----------
    reduced
        A reduced rigid instance, in which every slack is 0.
    incumbent
        Indices of ``reclaim_servers`` servers to start from.
    dual_bound
        A lower bound that is already proved.
    observer
        Called with ("objective", value) and ("dual_bound", value) at improvements.

    Notes
    -----
    Source: job branching from this project's study of minimum k-union; the bound is this project's
    own. Complexity: exponential in the worst case. A node takes O(entries) time, and an open node
    takes one byte per job.
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
        # Every objective is a multiple of the greatest common divisor of all weights and costs.
        self._step = max(1, gcd(*reduced.server_cost.tolist(), *reduced.weight.tolist()))
        self._unit, dtype = price_unit(total // self._step)
        scale = np.array([self._unit], dtype=dtype)
        # Jobs on few servers come first, because prices then even out in fewer rounds.
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
        self._objective, self._floor, self.nodes = self._instance.forbidden_price, 0, 0
        self.take(incumbent, dual_bound)
        self._open_nodes = 1
        self._free_slots = FIRST_SLOTS - 1
        bounds = np.zeros(FIRST_SLOTS, dtype=dtype)
        bounds[0] = self._floor
        self._tree = Tree(
            bounds=bounds,
            depths=np.zeros(FIRST_SLOTS, dtype=np.int64),
            slots=np.zeros(FIRST_SLOTS, dtype=np.int64),
            # Free slots are taken from the end of the list; slot 0 belongs to the root node.
            unused_slots=np.arange(FIRST_SLOTS - 1, -1, -1, dtype=np.int64),
            decisions=np.zeros(FIRST_SLOTS * losses.jobs, dtype=np.int8),
            warm_share=np.zeros(losses.entries, dtype=dtype),
        )

    def search(self) -> SearchResult:
        """Explore the tree in slices of nodes until it is complete or a limit is reached.

        The node limit counts the nodes of all calls; the result reports the nodes of this call.
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
            # Choose the number of nodes so that the next slice takes about `slice_s` seconds.
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

    def take(self, incumbent: Sequence[int], dual_bound: int) -> None:
        """Take a choice and a lower bound of another method if they are better."""
        objective = self._reduced.objective(incumbent) // self._step * self._unit
        if objective < self._objective:
            self._objective = objective
            self._is_chosen = np.zeros(self._reduced.losses.servers, dtype=np.int64)
            self._is_chosen[list(incumbent)] = 1
        self._floor = max(self._floor, -(-dual_bound // self._step) * self._unit)

    def _objective_value(self) -> int:
        return int(self._objective) // self._unit * self._step

    def _bound(self) -> int:
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
            # The kernel is compiled once `work`, which includes the earlier nodes of the tree, is
            # large enough. So small trees never wait for the compiler.
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
        """Double the space for open nodes within the memory limit; return whether it grew."""
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
    """Return the number of price units per weight of 1, and the dtype that holds the prices."""
    unit = FINEST_UNIT
    while unit > COARSEST_UNIT and 16 * (total_weight + 1) * unit >= LARGEST_COMPILED_INTEGER:
        unit //= 2
    fits = 16 * (total_weight + 1) * unit < LARGEST_COMPILED_INTEGER
    return (unit, np.int64) if fits else (FINEST_UNIT, object)
