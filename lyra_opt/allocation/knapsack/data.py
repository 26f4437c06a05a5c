"""The multiple-choice knapsack: its data, its linear relaxation, and the proved bound.

At most one item of each class is taken, the weights must fit the capacity, and the value is
maximised. `lyra_opt.allocation.knapsack.of_instance` converts an allocation instance.

Values are floats, but bounds on them are proved in integers: `ScaledKnapsack` multiplies the values
by a power of two and rounds them up. The linear relaxation, which is at most twice the optimum,
determines the scale, so that the scaled optimum is at most 2**59. One item of each class is rounded
up by less than 1, so the scaled optimum is never too small, and too large by a relative (number of
classes) * 2**-58 at most. That is far below the 1e-9 within which `lyra_opt.core.result.same_value`
treats two values as equal. Proof: README of ``formulations/allocation``, section 7.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lyra_opt.allocation.knapsack.kernels import (
    climb_hulls,
    mark_undominated,
    price_items,
    split_slope,
)
from lyra_opt.core.arrays import FloatArray, IntArray

SCALED_BITS = 59
"""The scaled optimum is at most 2**SCALED_BITS, so that sums and products stay below 2**62."""

STEPS_PER_ITEM = 10
"""Estimated elementary steps of a kernel per item."""

VALUE_MARGIN = 2.0**-48
"""Largest relative error of values from an instance; nine roundings are less than 2**-49."""

FLOAT_NOISE = 2**12
"""Largest error, in scaled units, of the value of a choice due to floating point."""

LARGEST_CAPACITY = 2**26
"""Up to this capacity a price per unit of weight is fine enough: 2**26 * 2**-58 < 1e-9."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Knapsack:
    """A multiple-choice knapsack, with at most one item per class and a value to be maximised.

    Parameters
    ----------
    capacity
        The most weight that can be taken, at least 0.
    start
        Shape (classes + 1,): class c has the items ``start[c]`` to ``start[c + 1]``.
    weight
        Shape (items,): at least 1.
    value
        Shape (items,): finite; items with a value of 0 or less are never worth taking.
    """

    capacity: int
    start: IntArray
    weight: IntArray
    value: FloatArray

    @property
    def classes(self) -> int:
        """Number of classes, including empty ones."""
        return len(self.start) - 1

    @property
    def items(self) -> int:
        """Number of items in all classes."""
        return len(self.weight)

    @cached_property
    def class_of(self) -> IntArray:
        """The class of each item, shape (items,)."""
        return np.repeat(np.arange(self.classes), np.diff(self.start))

    def reduced(self) -> "ReducedKnapsack":
        """Return an equivalent knapsack without useless items and with the smallest weights.

        It drops items that do not fit, items without value, and items dominated by another item of
        their class with at most their weight and at least their value. The items are sorted by
        weight. All weights and the capacity are divided by the greatest common divisor of the
        weights, and the capacity is lowered to the most that all classes can use. Time O(items), or
        O(items log items) if classes are not sorted.
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
        """Whether all items fit and have value, and both weight and value rise in each class."""
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
    """A knapsack in which weights and values rise within each class and every item fits.

    Parameters
    ----------
    kept
        Shape (items,): the original item of each item.
    """

    kept: IntArray

    def last_weights(self) -> IntArray:
        """Return the weight of the heaviest item of each class that is not empty."""
        ends = self.start[1:]
        return self.weight[ends[ends > self.start[:-1]] - 1]

    def original(self, chosen: Any) -> IntArray:
        """Convert chosen items to items of the original knapsack, -1 for no item."""
        chosen = np.asarray(chosen, dtype=np.int64)
        taken = chosen >= 0
        items = np.full(len(chosen), -1, dtype=np.int64)
        items[taken] = self.kept[chosen[taken]]
        return items

    def steps(self) -> "HullSteps":
        """Return the steps along the upper convex hulls of the classes."""
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

    def scaled(self) -> "ScaledKnapsack":
        """Return the knapsack with integer values and the price of the linear relaxation."""
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
    """Steps along the upper convex hulls of the classes, as flat arrays of shape (steps,).

    Parameters
    ----------
    class_of
        The class of the step.
    item
        The item that the step leads to, from the item of the previous step or from no item.
    weight
        Weight that the step adds.
    slope
        Value that the step adds per weight; it falls within a class.
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
    """Each item's loss of value against the best item of its class, at a given price of weight.

    Losses are in scaled units and at least 0.

    Parameters
    ----------
    bound
        Upper bound on the value of any choice, in scaled units.
    base
        Shape (classes,): the best item at the price, -1 for no item.
    loss
        Shape (items,): loss of each item against the base of its class.
    none_loss
        Shape (classes,): loss of taking no item.
    """

    bound: int
    base: IntArray
    loss: IntArray
    none_loss: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ScaledKnapsack:
    """A reduced knapsack with the integer values ceil(value * 2**exponent).

    Parameters
    ----------
    reduced
        The knapsack.
    value
        Shape (items,): the scaled values.
    exponent
        Exponent of the power of two that scales the values.
    price
        Scaled price of a unit of weight: that of the linear relaxation raised by at most 1, so that
        items that tie at it are not taken. Any price proves a bound; this price gives nearly the
        best.
    """

    reduced: ReducedKnapsack
    value: IntArray
    exponent: int
    price: int

    def priced(self) -> PricedItems:
        """Return the Lagrangian bound at `price` and the loss of each item."""
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
        """Convert an upper bound in scaled units to a float bound that is safe from rounding."""
        value = math.ldexp(float(units), -self.exponent)
        return math.nextafter(value * (1 + VALUE_MARGIN), math.inf) if units > 0 else 0.0
