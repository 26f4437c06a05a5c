"""Branch and bound on servers with the semidefinite bound, for jobs on two servers each."""

from __future__ import annotations

from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import OutOfTimeError, limit_reached
from lyra_opt.reclaim.bounds.pair_ascent import PairAscent
from lyra_opt.reclaim.reduction import SearchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.core.arrays import IntArray
    from lyra_opt.reclaim.bounds.pair_ascent import Start
    from lyra_opt.reclaim.bounds.pair_certificate import PairForm
    from lyra_opt.reclaim.reduction import ReducedReclaim


class _Node(NamedTuple):
    """A part of the choices: `chosen` are chosen, and others of `places` may be.

    Parameters
    ----------
    paid
        The weight of the jobs on the chosen servers.
    """

    chosen: tuple[int, ...]
    places: IntArray
    paid: int


class PairSearch:
    """A best-first branch and bound on servers that can resume after a limit.

    A node has chosen some servers and excluded others. Its bound is that of `PairAscent` for the
    servers that are left, proved in integers. The multipliers and cuts of a node, transferred to
    its children, prove the bound of the node at once, so each ascent only has to improve it. The
    node with the least bound branches on the server whose share is closest to 1/2.

    Parameters
    ----------
    reduced
        A reduced rigid instance.
    form
        Its quadratic form.
    incumbent, dual_bound, observer
        As for `TreeSearch`.

    Notes
    -----
    Source: after BiqCrunch (N. Krislock, J. Malick, F. Roupin, ACM Transactions on Mathematical
    Software 43, 2017). Complexity: exponential in the worst case. A node takes O(servers^3) time
    for each step of its ascent, and an open node memory for its cuts.
    """

    def __init__(
        self,
        reduced: ReducedReclaim,
        form: PairForm,
        incumbent: Sequence[int],
        dual_bound: int,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> None:
        self._reduced, self._form, self._observer = reduced, form, observer
        self._chosen, self._objective = list(incumbent), reduced.objective(incumbent)
        self._bound = dual_bound
        self._open: list[tuple[int, float, int, _Node, PairAscent]] = []
        self._order, self._memory_bytes, self.nodes = count(), 0, 0

    def search(self) -> SearchResult:
        """Process nodes until the tree is complete or a limit is reached.

        The node limit counts the nodes of all calls; the result reports the nodes of this call.
        """
        before, stopped_by = self.nodes, None
        while self._bound < self._objective:
            stopped_by = limit_reached(nodes=self.nodes, memory_bytes=self._memory_bytes)
            if stopped_by is not None:
                break
            if not self.nodes:
                places = np.arange(len(self._reduced.servers))
                self._add(_Node((), places, 0), self._form, self._bound)
            else:
                bound, _, _, node, ascent = heappop(self._open)
                self._memory_bytes -= ascent.kept_bytes
                self._branch(node, ascent, bound)
            least = self._open[0][0] if self._open else self._objective
            if least > self._bound:
                self._bound = min(least, self._objective)
                self._tell("dual_bound", self._bound)
        return SearchResult(
            places=sorted(self._chosen),
            objective=self._objective,
            bound=self._bound,
            stopped_by=stopped_by,
            nodes=self.nodes - before,
        )

    def _branch(self, node: _Node, ascent: PairAscent, bound: int) -> None:
        """Add the two children of a node in which one server is chosen or excluded."""
        server = int(np.argmin(np.abs(ascent.squares - 0.5)))
        place = int(node.places[server])
        for value in (1, 0):
            form, paid = ascent.exact_form.fixed(server, value)
            child = _Node(
                chosen=(*node.chosen, place) if value else node.chosen,
                places=np.delete(node.places, server),
                paid=node.paid + paid,
            )
            self._add(child, form, bound, ascent.start_of_child(server, value))

    def _add(self, node: _Node, form: PairForm, bound: int, start: Start | None = None) -> None:
        """Compute the bound of a node, and keep the node if it can improve the incumbent."""
        if not form.ends.size or form.picks in (0, len(form.cost)):
            # The cheapest servers are optimal.
            self._offer(node, np.argsort(form.cost, kind="stable")[: form.picks])
            return
        self.nodes += 1
        ascent = PairAscent(form, self._objective - node.paid, start)
        with suppress(OutOfTimeError):  # the bound is valid however far the ascent got
            ascent.run()
        bound = max(bound, node.paid + ascent.proved())
        self._offer(node, np.argsort(-ascent.squares, kind="stable")[: ascent.form.picks])
        if bound < self._objective:
            value = node.paid + ascent.unit * ascent.best_value
            ascent.cuts, ascent.point = ascent.best_cuts, ascent.best_point  # to free memory
            heappush(self._open, (bound, value, next(self._order), node, ascent))
            self._memory_bytes += ascent.kept_bytes

    def _offer(self, node: _Node, servers: IntArray) -> None:
        """Take a choice in a node as the incumbent if it is better."""
        chosen = [*node.chosen, *node.places[servers].tolist()]
        objective = self._reduced.objective(chosen)
        if objective < self._objective:
            self._chosen, self._objective = chosen, objective
            self._tell("objective", objective)

    def _tell(self, what: str, value: int) -> None:
        if self._observer is not None:
            self._observer(what, value)
