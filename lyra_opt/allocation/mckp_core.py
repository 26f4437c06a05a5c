"""The knapsack by an expanding core: only the classes that the price leaves in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.knapsack import FLOAT_NOISE, SCALED_BITS, STEPS_PER_ITEM
from lyra_opt.allocation.knapsack_kernels import NEVER, expand_core
from lyra_opt.allocation.knapsack_solver import KnapsackChoice, KnapsackSolver
from lyra_opt.allocation.mckp_dp import table_choice, table_fits
from lyra_opt.allocation.mckp_greedy import greedy_choice
from lyra_opt.result import Limits, StoppedBy

if TYPE_CHECKING:
    from lyra_opt.allocation.knapsack import (
        IntArray,
        PricedItems,
        ReducedKnapsack,
        ScaledKnapsack,
    )
    from lyra_opt.stopwatch import Stopwatch

FIRST_STATES = 2**8
STATES_BETWEEN_LOOKS_AT_THE_CLOCK = 2**22
BYTES_PER_STATE = 32
MOST_STATES = 2**25
"""Without another limit of memory: a GiB."""


class MckpCore(KnapsackSolver):
    """Price the capacity, then decide the few classes that the price does not.

    The linear relaxation gives a price per GPU, and each class its best item at that price. Every
    choice falls short of the bound by what its items lose against those, and by the price of
    what it leaves over. Classes enter the core by the least they can lose, and a dynamic
    programme over the core keeps its undominated states of weight and loss; as soon as the next
    class can only lose more than the best choice known falls short, that choice is optimal.

    Notes
    -----
    Source: the expanding core is that of Pisinger (*A minimal algorithm for the multiple-choice
    knapsack problem*, EJOR 83, 1995), the relaxation that of Dyer (1984) and Zemel (1984); losses
    at one price in integers, instead of slopes in turn, are this project's. Complexity
    O(items + classes log classes) plus the states of the core, of which there are at most twice
    the capacity for each class in it; in practice a few dozen classes. Exact in integers, so
    optimal within 1e-9. Where the states outgrow a GiB, as they may if thousands of classes tie at
    the price and no choice fills the capacity, the table of `mckp-dp` takes their place if that
    is smaller. Limits: time, looked at every few million states; memory of the states.
    """

    name = "mckp-core"
    proves_optimality = True
    gives_bound = True

    def choose(
        self, knapsack: ReducedKnapsack, limits: Limits, stopwatch: Stopwatch
    ) -> KnapsackChoice:
        """Return the optimum, or the best choice known when a limit is reached."""
        if not knapsack.items:
            return KnapsackChoice(chosen=np.full(knapsack.classes, -1, dtype=np.int64), bound=0.0)
        core = _Core.of(knapsack.scaled())
        stopped_by = core.expand(limits, stopwatch)
        if stopped_by is StoppedBy.MEMORY and limits == Limits() and table_fits(knapsack):
            return table_choice(knapsack)
        return KnapsackChoice(
            chosen=core.choice(),
            bound=core.scaled.upper_bound(core.bound()),
            stopped_by=stopped_by,
            counters={"core_classes": core.level, "states": core.looked_at},
        )


@dataclass
class _Core:
    """The search: what is known, and the states of all classes in the core.

    Parameters
    ----------
    scaled, priced
        The knapsack and its items at the price.
    order
        The classes by their least loss: the order in which they enter the core.
    bounds
        What classes outside the core lose at least, by place in `order`: their least loss, and
        the least per weight of what is lighter and what is heavier than the base.
    start
        The choice known before any search.
    room
        What the base solution leaves of the capacity; below 0 if it does not fit.
    gap
        Less by `tolerance` than what the best choice known falls short of the bound: choices
        that are better by no more than that are not looked for.
    states
        Weight, loss, parent and item of all states; those of the last level are at ``first`` to
        ``last``.
    best
        The end of the best choice found: level, parent and item; level -1 for `start`.
    """

    scaled: ScaledKnapsack
    priced: PricedItems
    order: IntArray
    bounds: tuple[IntArray, IntArray, IntArray]
    start: IntArray
    room: int
    gap: int
    states: list[IntArray]
    best: tuple[int, int, int] = (-1, -1, -1)
    level: int = 0
    first: int = 0
    last: int = 1
    looked_at: int = 0
    is_done: bool = False

    @classmethod
    def of(cls, scaled: ScaledKnapsack) -> _Core:
        """Return the search at its beginning: the core is empty."""
        priced = scaled.priced()
        knapsack = scaled.reduced
        order = np.argsort(priced.least_loss, kind="stable")
        room = knapsack.capacity - priced.base_weight
        if room >= 0:
            start, short = priced.base, scaled.price * room
        else:
            start = greedy_choice(knapsack)
            short = priced.bound - int(scaled.value[start[start >= 0]].sum())
        return cls(
            scaled=scaled,
            priced=priced,
            order=order,
            bounds=(
                np.append(priced.least_loss[order], NEVER),
                _least_from(priced.lighter_loss[order]),
                _least_from(priced.heavier_loss[order]),
            ),
            start=start,
            room=room,
            gap=short - _tolerance(knapsack),
            states=[np.zeros(FIRST_STATES, dtype=np.int64) for _ in range(4)],
        )

    def expand(self, limits: Limits, stopwatch: Stopwatch) -> StoppedBy | None:
        """Search to the end or to a limit, and return which."""
        knapsack = self.scaled.reduced
        most_states = MOST_STATES
        if limits.memory_mib is not None:
            most_states = int(limits.memory_mib * 2**20 / BYTES_PER_STATE)
        largest_class = int(np.diff(knapsack.start).max())
        scratch = [np.zeros(largest_class + 2, dtype=np.int64) for _ in range(4)]
        while True:
            if limits.time_s is not None and stopwatch.elapsed_s >= limits.time_s:
                return StoppedBy.TIME
            space = len(self.states[0])
            (
                is_done,
                looked_at,
                self.level,
                self.gap,
                *best,
                self.first,
                self.last,
                weight,
                loss,
                parent,
                item,
            ) = expand_core.run(
                STATES_BETWEEN_LOOKS_AT_THE_CLOCK,
                _tolerance(knapsack),
                self.scaled.price,
                knapsack.capacity,
                self.room,
                self.order,
                knapsack.start,
                knapsack.weight,
                self.priced.loss,
                self.priced.base,
                self.priced.none_loss,
                *self.bounds,
                self.level,
                self.gap,
                *self.best,
                self.first,
                self.last,
                *self.states,
                *scratch,
                work=STEPS_PER_ITEM * knapsack.items,
                largest=2 ** (SCALED_BITS + 2),
            )
            self.best = (best[0], best[1], best[2])
            self.looked_at += looked_at
            self.states = [np.asarray(array) for array in (weight, loss, parent, item)]
            if is_done:
                self.is_done = True
                return None
            if looked_at < STATES_BETWEEN_LOOKS_AT_THE_CLOCK:
                if space >= most_states:
                    return StoppedBy.MEMORY
                more = np.zeros(3 * space, dtype=np.int64)
                self.states = [np.concatenate((array, more)) for array in self.states]

    def bound(self) -> int:
        """Return what no choice is worth more than, in scaled units."""
        short = self.gap
        if not self.is_done:  # a better choice still goes through a state of the last level
            short = min(short, int(self.states[1][self.first : self.last].min()))
        return self.priced.bound - max(short, 0)

    def choice(self) -> IntArray:
        """Return the best choice known."""
        level, state, item = self.best
        if level < 0:
            return self.start
        chosen = self.priced.base.copy()
        chosen[self.order[level]] = item
        _, _, parents, items = self.states
        for earlier in range(level - 1, -1, -1):
            chosen[self.order[earlier]] = items[state]
            state = int(parents[state])
        return chosen


def _tolerance(knapsack: ReducedKnapsack) -> int:
    """Return how many units of difference may come from rounding alone.

    A value is rounded by less than 1 for each class and the price by at most half for each unit
    of weight; equal slopes differ as floats. Were such differences pursued, the core would take
    in every class of a thousand equal jobs.
    """
    return knapsack.classes + knapsack.capacity + FLOAT_NOISE


def _least_from(losses: IntArray) -> IntArray:
    """Return the minimum from each place on, and `NEVER` at the end."""
    return np.append(np.minimum.accumulate(losses[::-1])[::-1], NEVER)
