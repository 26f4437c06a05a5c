"""The multiple-choice knapsack: its data, its linear relaxation, and the bound that this proves.

At most one item of each class, weights within the capacity, most value. How an allocation
instance becomes one is in `lyra_opt.allocation.knapsack.of_instance`.

Values are floats, but what is claimed of them is proved in integers: `ScaledKnapsack` multiplies
them by a power of two and rounds them up. With the scaled optimum at most 2**59 and an item of
each class rounded by less than 1, the scaled optimum is too large by a relative (number of
classes) * 2**-58 at most, since the scale is chosen by the linear relaxation, which is at most
twice the optimum. That is far below the 1e-9 within which `lyra_opt.core.result.same_value` calls
two values one, and it is never too small. Proof: README of ``formulations/allocation``, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.knapsack.kernels import (
    climb_hulls,
    mark_undominated,
    price_items,
    split_slope,
)

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

SCALED_BITS = 59
"""The scaled optimum is at most 2**SCALED_BITS, so that sums and products stay below 2**62."""

STEPS_PER_ITEM = 10
"""Elementary steps that a kernel spends on an item."""

VALUE_MARGIN = 2.0**-48
"""How far values from an instance may be off, relatively; nine roundings are less than 2**-49."""

FLOAT_NOISE = 2**12
"""Scaled units by which the value of a choice may be off for having been floats."""

LARGEST_CAPACITY = 2**26
"""A unit of weight is then still priced finely enough: 2**26 * 2**-58 is below 1e-9."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Knapsack:
    """Classes of items, of which at most one a class is taken; value is to be maximised.

    Parameters
    ----------
    capacity
        The most weight that can be taken, at least 0.
    start
        Shape (classes + 1,): the items of class c stand at ``start[c]`` to ``start[c + 1]``.
    weight
        Shape (items,): at least 1.
    value
        Shape (items,): finite; items of value 0 or less are never worth taking.
    """

    capacity: int
    start: IntArray
    weight: IntArray
    value: FloatArray

    @property
    def classes(self) -> int:
        """How many classes there are, empty ones too."""
        return len(self.start) - 1

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.weight)

    @cached_property
    def class_of(self) -> IntArray:
        """Shape (items,): the class of each item."""
        return np.repeat(np.arange(self.classes), np.diff(self.start))

    def reduced(self) -> ReducedKnapsack:
        """Return the same without items that no optimum needs, and with the least weights.

        Dropped are items that do not fit, those worth nothing, and those dominated by another of
        their class that is no heavier and worth no less; then items are sorted by weight. All
        weights and the capacity are divided by the greatest common divisor of the weights, and
        the capacity is lowered to what all classes can hold. Time O(items), O(items log items)
        where classes are not sorted.
        """
        if self._is_reduced():
            kept = np.arange(self.items)
            start, weight, value = self.start, self.weight, self.value
        else:
            fits = np.flatnonzero((self.weight <= self.capacity) & (self.value > 0))
            class_of = self.class_of[fits]
            order = fits[np.lexsort((-self.value[fits], self.weight[fits], class_of))]
            bounds = np.searchsorted(class_of, np.arange(self.classes + 1))
            is_kept = mark_undominated.run(
                bounds,
                order,
                self.value,
                np.zeros(self.items, dtype=np.int64),
                work=STEPS_PER_ITEM * self.items,
                largest=self.items,
            )
            kept = order[np.asarray(is_kept)[order] == 1]
            start = np.searchsorted(self.class_of[kept], np.arange(self.classes + 1))
            weight, value = self.weight[kept], self.value[kept]
        divisor = int(np.gcd.reduce(weight)) if len(weight) else 1
        if divisor > 1:
            weight = weight // divisor
        reduced = ReducedKnapsack(
            capacity=self.capacity // divisor,
            start=start.astype(np.int64),
            weight=weight,
            value=value,
            kept=kept,
        )
        most = int(reduced.last_weights().sum())
        if most < reduced.capacity:
            object.__setattr__(reduced, "capacity", most)
        return reduced

    def _is_reduced(self) -> bool:
        """Whether all items fit and have value, and classes are strictly sorted by both."""
        if not self.items:
            return True
        if int(self.weight.max()) > self.capacity or float(self.value.min()) <= 0:
            return False
        rises = (np.diff(self.weight) > 0) & (np.diff(self.value) > 0)
        inner = self.start[1:-1]
        rises[inner[(inner > 0) & (inner < self.items)] - 1] = True  # from one class to another
        return bool(rises.all())


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedKnapsack(Knapsack):
    """A knapsack in which weights and values rise within each class, and every item fits.

    Parameters
    ----------
    kept
        Shape (items,): which item of the original each one is.
    """

    kept: IntArray

    def last_weights(self) -> IntArray:
        """Return the weight of the heaviest, and last, item of each class that has one."""
        ends = self.start[1:]
        return self.weight[ends[ends > self.start[:-1]] - 1]

    def original(self, chosen: Any) -> IntArray:
        """Return the items of the original that these are, -1 for none."""
        chosen = np.asarray(chosen, dtype=np.int64)
        taken = chosen >= 0
        items = np.full(len(chosen), -1, dtype=np.int64)
        items[taken] = self.kept[chosen[taken]]
        return items

    def steps(self) -> HullSteps:
        """Return the steps up the upper convex hulls of the classes."""
        scratch = [np.zeros(self.items, dtype=np.int64) for _ in range(3)]
        count, *arrays = climb_hulls.run(
            self.start,
            self.weight,
            self.value,
            *scratch,
            np.zeros(self.items),
            work=STEPS_PER_ITEM * self.items,
            largest=self.capacity,
        )
        return HullSteps(*(np.asarray(array[:count]) for array in arrays))

    def scaled(self) -> ScaledKnapsack:
        """Return the knapsack with values in integers and the linear relaxation's price."""
        steps = self.steps()
        slope = steps.split_slope(self.capacity)
        steeper = np.maximum(steps.slope - slope, 0.0)
        relaxed = float((steeper * steps.weight).sum()) + slope * self.capacity
        exponent = SCALED_BITS - math.frexp(relaxed)[1]
        value = np.ceil(np.ldexp(self.value, exponent)).astype(np.int64)
        return ScaledKnapsack(
            reduced=self,
            value=value,
            exponent=exponent,
            price=math.floor(math.ldexp(slope, exponent)) + 1 if slope > 0 else 0,
        )


@dataclass(frozen=True, slots=True)
class HullSteps:
    """Steps up the upper convex hulls, class by class: flat arrays of shape (steps,).

    Parameters
    ----------
    class_of
        The class that takes the step.
    item
        The item that it leads to, from the item of the step before or from none.
    weight
        Weight that it adds.
    slope
        Value that it adds per weight; falls within a class.
    """

    class_of: IntArray
    item: IntArray
    weight: IntArray
    slope: FloatArray

    def split_slope(self, capacity: int) -> float:
        """Return the optimal price of a unit of weight in the linear relaxation."""
        slope: float = split_slope.run(
            len(self.slope),
            capacity,
            self.weight.copy(),
            self.slope.copy(),
            work=STEPS_PER_ITEM * len(self.slope),
            largest=capacity,
        )
        return slope


@dataclass(frozen=True, slots=True, eq=False)
class PricedItems:
    """What `price_items` finds; losses are in scaled units and never below 0.

    Parameters
    ----------
    bound
        No choice is worth more, in scaled units.
    base
        Shape (classes,): the item that is best at the price, -1 for none.
    loss
        Shape (items,): of each item against its class's base.
    none_loss
        Shape (classes,): of taking none.
    """

    bound: int
    base: IntArray
    loss: IntArray
    none_loss: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ScaledKnapsack:
    """A reduced knapsack whose values are integers: ceil(value * 2**exponent).

    Parameters
    ----------
    reduced
        The knapsack.
    value
        Shape (items,): the scaled values.
    exponent
        The power of two that they were multiplied by.
    price
        Of a unit of weight: the linear relaxation's, scaled and raised by at most 1, so that what
        ties there is not taken. Any price proves a bound; this one nearly the best.
    """

    reduced: ReducedKnapsack
    value: IntArray
    exponent: int
    price: int

    def priced(self) -> PricedItems:
        """Return the Lagrangian bound at `price` and each item's distance from it."""
        reduced = self.reduced
        total, *found = price_items.run(
            self.price,
            reduced.start,
            reduced.weight,
            self.value,
            np.zeros(reduced.classes, dtype=np.int64),
            np.zeros(reduced.items, dtype=np.int64),
            np.zeros(reduced.classes, dtype=np.int64),
            work=STEPS_PER_ITEM * reduced.items,
            largest=2 ** (SCALED_BITS + 2),
        )
        return PricedItems(
            total + self.price * reduced.capacity,
            *(np.asarray(array, dtype=np.int64) for array in found),
        )

    def dual_bound(self, units: int) -> float:
        """Return what `units` are worth at most, with the margin for values that were rounded."""
        value = math.ldexp(float(units), -self.exponent)
        return math.nextafter(value * (1 + VALUE_MARGIN), math.inf) if units > 0 else 0.0
