"""The exact knapsack solver `mckp-core`, which searches a small core of undecided classes."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.exact.mckp_dp import table_choice, table_fits
from lyra_opt.allocation.heuristics.mckp_greedy import greedy_choice
from lyra_opt.allocation.knapsack.data import (
    FLOAT_NOISE,
    SCALED_BITS,
    STEPS_PER_ITEM,
    ReducedKnapsack,
    ScaledKnapsack,
)
from lyra_opt.allocation.knapsack.kernels import (
    NEVER,
    Changes,
    Classes,
    Search,
    States,
    expand_core,
    least_losses,
    settle_ties,
)
from lyra_opt.allocation.knapsack.solver import KnapsackChoice, KnapsackSolver
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import BYTES_PER_MIB, OutOfTimeError, is_out_of_time, limits_in_force

FIRST_STATES = 2**8
STATES_BETWEEN_LOOKS_AT_THE_CLOCK = 2**22
BYTES_PER_STATE = 32
FEW = 4
"""Classes enter before the ties only if there are this many times as many ties."""
MOST_STATES = 2**25
"""Most states without a memory limit: one GiB."""


class MckpCore(KnapsackSolver):
    """Price the capacity, then search the few classes that the price leaves undecided.

    The linear relaxation gives a price per GPU, and each class has a best item at that price. The
    loss of another item is its disadvantage against the best item at that price. A choice falls
    short of the bound by the losses of its items plus the price of its unused capacity. Classes
    enter the core by increasing least loss. A dynamic programme over the core keeps the undominated
    states of weight and loss. The best known choice is optimal as soon as the next class loses at
    least as much as that choice falls short of the bound.

    Three reductions come first. Classes that tie at the price are settled so that little capacity
    is left. Capacity beyond a multiple of the common divisor of all affordable changes cannot be
    used. Only the changes of each weight, and the sums of weights, that an optimal choice with few
    changes can need are kept.

    Notes
    -----
    Sources: the expanding core is by Pisinger (*A minimal algorithm for the multiple-choice
    knapsack problem*, EJOR 83, 1995). The relaxation is by Dyer (1984) and Zemel (1984). The
    argument for few changes is by Eisenbrand and Weismantel (*Proximity results and faster
    algorithms for integer programming using the Steinitz lemma*, 2018). Integer losses at one
    price, instead of slopes one after another, are this project's own. Complexity O(items + classes
    log classes) plus the states of the core. For each class in the core these are at most twice the
    capacity, and at most twice the product of the largest weights by which a class may grow and
    shrink; in practice the core has a few dozen classes. Exact in integers, so optimal within 1e-9.
    If the states outgrow a GiB, the table of `mckp-dp` is used instead if it is smaller. Limits:
    time, checked every few million states; memory for the states.
    """

    name = "mckp-core"
    exact_variants = KnapsackSolver.variants
    gives_bound = True

    def choose(self, knapsack: ReducedKnapsack) -> KnapsackChoice:
        """Return the optimal choice, or the best known choice if a limit is reached."""
        if not knapsack.items:
            return KnapsackChoice(chosen=np.full(knapsack.classes, -1, dtype=np.int64), bound=0.0)
        core = _Core.of(knapsack.scaled())
        stopped_by = core.expand()
        may_grow = limits_in_force().memory_mib is None
        if stopped_by is StoppedBy.MEMORY and may_grow and table_fits(knapsack):
            with suppress(OutOfTimeError):
                return table_choice(knapsack)
        return KnapsackChoice(
            chosen=core.choice(),
            bound=core.scaled.dual_bound(core.bound()),
            stopped_by=stopped_by,
            counters={"core_classes": core.search.level, "states": core.looked_at},
        )


START = Search(level=0, gap=0, best_level=-1, best_parent=-1, best_item=-1, first=0, last=1)
"""The initial search state, except for the gap."""


@dataclass
class _Core:
    """A core search, with its base solution, best known choice and dynamic-programming states.

    Parameters
    ----------
    scaled
        The knapsack at the price.
    bound_without
        The bound if no choice fell short of it.
    base
        The item of each class outside the core, with ties settled.
    loss, none_loss
        Least loss of each other item, and of no item, against the base; at least 1. `NEVER` marks
        choices that are not needed.
    start
        The best choice known before the search.
    room
        The capacity left by the base solution, minus `unusable`; below 0 if the base does not fit.
    gap
        The shortfall of the best known choice minus `_tolerance`, without the cost of `unusable`.
        Choices that are better by no more than the tolerance are not sought.
    unusable
        Capacity that no better choice can use.
    order
        The classes that may change, in the order in which they enter the core (by least loss).
    bounds
        For each position in `order`, minima over the classes outside the core: their least loss,
        and the least loss per weight of lighter and of heavier choices than the base. The last
        array is the common divisor of the weights that they can add.
    window
        Least and most total weight that some optimal choice adds to any of the classes together.
    states
        All states.
    search
        The state of the search; `start` is the best choice until the search finds a better one.
    """

    scaled: ScaledKnapsack
    bound_without: int
    base: IntArray
    loss: IntArray
    none_loss: IntArray
    start: IntArray
    room: int
    gap: int
    unusable: int = 0
    order: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    bounds: tuple[IntArray, ...] = ()
    window: tuple[int, int] = (0, 0)
    states: States = field(
        default_factory=lambda: States(*(np.zeros(FIRST_STATES, dtype=np.int64) for _ in range(4)))
    )
    search: Search = START
    looked_at: int = 0
    is_done: bool = False

    @classmethod
    def of(cls, scaled: ScaledKnapsack) -> "_Core":
        """Return the core search of a scaled knapsack, before any class has entered the core."""
        priced = scaled.priced()
        knapsack = scaled.reduced
        room, *found = settle_ties.run(
            knapsack.capacity,
            knapsack.start,
            knapsack.weight,
            scaled.value,
            priced.base,
            priced.loss,
            priced.none_loss,
            work=STEPS_PER_ITEM * knapsack.items,
            largest=2 ** (SCALED_BITS + 2),
        )
        base, loss, none_loss = (np.asarray(array, dtype=np.int64) for array in found)
        start, short = base, scaled.price * room
        if room < 0:
            start = greedy_choice(knapsack)
            changed = np.flatnonzero(start != base)
            losses = np.where(start >= 0, loss[start], none_loss)[changed]
            used = int(knapsack.weight[start[start >= 0]].sum())
            short = int(losses.sum()) + scaled.price * (knapsack.capacity - used)
        core = cls(
            scaled=scaled,
            bound_without=priced.bound,
            base=base,
            loss=loss,
            none_loss=none_loss,
            start=start,
            room=room,
            gap=short - _tolerance(knapsack),
        )
        core._narrow()
        return core

    def _narrow(self) -> None:
        """Exclude items that no better choice than the incumbent can use, and order the classes."""
        changes = _Changes.of(self).below(self.gap)
        while len(changes.lost):
            unusable = self.room % int(np.gcd.reduce(changes.added))
            if not unusable:
                break
            self.room -= unusable
            self.unusable += unusable
            self.gap -= self.scaled.price * unusable
            changes = changes.below(self.gap)
        if not len(changes.lost):
            self.is_done = True
            return
        most = self._set_window(changes.added)
        by_weight = np.lexsort((changes.lost, changes.added))
        first_of_weight = np.searchsorted(changes.added[by_weight], changes.added[by_weight])
        is_needed = np.arange(len(by_weight)) - first_of_weight < most
        dropped = changes.at(by_weight[~is_needed])
        self.loss[dropped.item[dropped.item >= 0]] = NEVER
        self.none_loss[dropped.of_class[dropped.item < 0]] = NEVER
        self._order_classes(changes.at(by_weight[is_needed]))

    def _set_window(self, added: IntArray) -> int:
        """Bound the weight that an optimal choice adds; return the most items that it changes."""
        divisor = int(np.gcd.reduce(added))
        up, down = max(int(added.max()), 0), max(-int(added.min()), 0)
        least = self.room - (self.gap - 1) // self.scaled.price
        most = max(
            max(0, total - divisor + up) - min(0, total + divisor - down)
            for total in (least, self.room)
        )
        most //= divisor
        self.window = (
            -(down * (most * up - least) // (up + down)),
            up * (most * down + self.room) // (up + down),
        )
        return most

    def _order_classes(self, changes: "_Changes") -> None:
        """Order the classes by their least loss, with two exceptions that reduce the states.

        Classes that tie enter alternately, one that grows and one that shrinks. If only few classes
        can use a weight that is not a multiple of the common divisor of all ties, these classes
        enter first, so that states that leave such weight over are dropped before the ties enter.
        """
        knapsack = self.scaled.reduced
        found = least_losses.run(
            knapsack.start,
            knapsack.weight,
            self.base,
            self.loss,
            self.none_loss,
            *(np.zeros(knapsack.classes, dtype=np.int64) for _ in range(3)),
            work=STEPS_PER_ITEM * knapsack.items,
            largest=2 ** (SCALED_BITS + 2),
        )
        least, lighter, heavier = (np.asarray(array, dtype=np.int64) for array in found)
        unit = np.zeros(knapsack.classes, dtype=np.int64)
        np.gcd.at(unit, changes.of_class, changes.added)
        inside = np.flatnonzero(unit)
        grows = heavier[inside] < lighter[inside]
        turn = np.where(grows, np.cumsum(grows), np.cumsum(~grows))
        ties = changes.added[changes.lost == 1]
        is_late = unit[inside] % max(int(np.gcd.reduce(ties)), 1) == 0
        if FEW * np.count_nonzero(~is_late) > len(ties):
            is_late[:] = False
        self.order = inside[np.lexsort((turn, least[inside], is_late))]
        self.bounds = (
            _least_from(least[self.order]),
            _least_from(lighter[self.order]),
            _least_from(heavier[self.order]),
            np.append(np.gcd.accumulate(unit[self.order][::-1])[::-1], 1),
        )

    def expand(self) -> StoppedBy | None:
        """Search until the optimum is proved or a limit is reached; return the limit, or None."""
        if self.is_done:
            return None
        knapsack = self.scaled.reduced
        most_states = MOST_STATES
        memory_mib = limits_in_force().memory_mib
        if memory_mib is not None:
            most_states = int(memory_mib * BYTES_PER_MIB / BYTES_PER_STATE)
        largest_class = int(np.diff(knapsack.start).max())
        changes = Changes(*(np.zeros(largest_class + 2, dtype=np.int64) for _ in range(4)))
        next_loss, lighter_loss, heavier_loss, unit = self.bounds
        classes = Classes(
            price=self.scaled.price,
            tolerance=_tolerance(knapsack),
            room=self.room,
            lightest=self.window[0],
            heaviest=self.window[1],
            start=knapsack.start,
            weight=knapsack.weight,
            loss=self.loss,
            base=self.base,
            none_loss=self.none_loss,
            order=self.order,
            next_loss=next_loss,
            lighter_loss=lighter_loss,
            heavier_loss=heavier_loss,
            unit=unit,
        )
        self.search = self.search._replace(gap=self.gap)
        while True:
            if is_out_of_time():
                return StoppedBy.TIME
            space = len(self.states.weight)
            is_done, looked_at, self.search, states = expand_core.run(
                STATES_BETWEEN_LOOKS_AT_THE_CLOCK,
                classes,
                self.search,
                self.states,
                changes,
                work=STEPS_PER_ITEM * knapsack.items,
                largest=2 ** (SCALED_BITS + 2),
            )
            self.gap = self.search.gap
            self.looked_at += looked_at
            self.states = States(*map(np.asarray, states))
            if is_done:
                self.is_done = True
                return None
            if looked_at < STATES_BETWEEN_LOOKS_AT_THE_CLOCK:
                if space >= most_states:
                    return StoppedBy.MEMORY
                more = np.zeros(3 * space, dtype=np.int64)
                self.states = States(*(np.concatenate((array, more)) for array in self.states))

    def bound(self) -> int:
        """Return the proved upper bound on the value of any choice, in scaled units."""
        short = self.gap
        if not self.is_done:  # every better choice extends a state of the last level
            short = min(short, int(self.states.loss[self.search.first : self.search.last].min()))
        short += self.scaled.price * self.unusable
        # Classes that tie at the price change without loss, but the loss is stored as 1. One unit
        # per class is therefore subtracted again.
        return self.bound_without - max(short - len(self.base), 0)

    def choice(self) -> IntArray:
        """Return the best known choice, as the item taken from each class, -1 for no item."""
        level, state = self.search.best_level, self.search.best_parent
        if level < 0:
            return self.start
        chosen = self.base.copy()
        chosen[self.order[level]] = self.search.best_item
        for earlier in range(level - 1, -1, -1):
            chosen[self.order[earlier]] = self.states.item[state]
            state = int(self.states.parent[state])
        return chosen


@dataclass(frozen=True, slots=True)
class _Changes:
    """Possible replacements of the base items of classes, as flat arrays.

    Parameters
    ----------
    of_class, item
        The class, and the item taken instead of the base, -1 for no item.
    added, lost
        The added weight, negative for a lighter item, and the loss.
    """

    of_class: IntArray
    item: IntArray
    added: IntArray
    lost: IntArray

    @classmethod
    def of(cls, core: _Core) -> "_Changes":
        """Return all replacements of base items that lose less value than the gap of `core`."""
        knapsack, base = core.scaled.reduced, core.base
        held = np.where(base >= 0, knapsack.weight[base], 0)
        item = np.flatnonzero(core.loss < core.gap)
        item = item[base[knapsack.class_of[item]] != item]
        with_item = knapsack.class_of[item]
        without = np.flatnonzero((base >= 0) & (core.none_loss < core.gap))
        return cls(
            np.append(with_item, without),
            np.append(item, np.full(len(without), -1)),
            np.append(knapsack.weight[item] - held[with_item], -held[without]),
            np.append(core.loss[item], core.none_loss[without]),
        )

    def at(self, places: NDArray[Any]) -> "_Changes":
        """Return the item replacements that an index array or a mask selects."""
        return _Changes(
            self.of_class[places], self.item[places], self.added[places], self.lost[places]
        )

    def below(self, loss: int) -> "_Changes":
        """Return the item replacements that lose less value than `loss`."""
        return self.at(self.lost < loss)


def _tolerance(knapsack: ReducedKnapsack) -> int:
    """Return the value difference, in scaled units, below which choices count as equal.

    Rounding of values can cause such a difference, by less than 1 for each class.
    """
    return knapsack.classes + FLOAT_NOISE


def _least_from(losses: IntArray) -> IntArray:
    """Return the minimum of `losses` from each index on, with `NEVER` at the end."""
    return np.append(np.minimum.accumulate(losses[::-1])[::-1], NEVER)
