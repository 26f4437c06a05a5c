"""Arithmetic for decisions: exact sums, products in a fixed order, and safe rounding.

Greedy rules add and compare terms such as w_j / |S_j|. In floating point two equal sums can differ
in the last digit, and rounding noise would break the tie. `FractionTerms` therefore stores every
term as an integer multiple of 1 / lcm(denominators). This multiple exceeds 64 bits on ordinary
instances (the spans 1 to 64 have a common multiple of 90 bits), so compiled code stores it in two
limbs.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import IntArray
from lyra_opt.core.kernels import Kernel

Limb = list[int] | IntArray

LIMB_BITS = 61  # the sum of two limbs fits into 64 bits before the carry is moved


def exact_sum(values: NDArray[Any]) -> int:
    """Return the exact sum of non-negative integers, which may exceed 64 bits."""
    if values.dtype == object or int(values.max(initial=0)) * len(values) >= 2**63:
        return sum(values.tolist())
    return int(values.sum())


@dataclass(frozen=True, slots=True)
class FractionTerms:
    """A sequence of fractions, stored as integer numerators over their least common denominator.

    Parameters
    ----------
    distinct
        The distinct terms; few if spans and weights repeat.
    position
        Shape (terms,): the index of each term in `distinct`.
    total
        The sum of all terms.
    """

    distinct: list[int]
    position: IntArray
    total: int

    @classmethod
    def of(cls, weights: IntArray, denominators: IntArray) -> "FractionTerms":
        """Build the fractions ``weights[i] / denominators[i]`` from non-negative integers.

        Both arrays have shape (terms,).

        A denominator of 0 marks a term that is left out; its value is 0. Time O(terms log terms).
        """
        distinct_weights, weight_rank, _ = _distinct(weights)
        base = int(denominators.max(initial=0)) + 1
        # Each pair of weight and denominator becomes one integer. It contains the rank of the
        # weight, because the weight itself could overflow.
        pairs, position, counts = _distinct(weight_rank * base + denominators)
        denominator_of = (pairs % base).tolist()
        weight_of = distinct_weights[pairs // base].tolist()
        common = math.lcm(*(denominator for denominator in denominator_of if denominator))
        distinct = [
            weight * (common // denominator) if denominator else 0
            for weight, denominator in zip(weight_of, denominator_of, strict=True)
        ]
        total = sum(term * count for term, count in zip(distinct, counts.tolist(), strict=True))
        return cls(distinct, position, total)

    def limbs(self, kernel: Kernel, work: int) -> tuple[Limb, Limb, int]:
        """Return the high and low limbs (machine words) of the numerators, and the radix.

        Term i is ``high[i] * radix + low[i]`` with 0 <= low < radix. For a kernel that will run
        interpreted the radix exceeds the sum of all terms, so all high limbs are 0.
        """
        if not kernel.compiles(work, largest=self.total >> LIMB_BITS):
            low = [self.distinct[position] for position in self.position.tolist()]
            return [0] * len(low), low, self.total + 1
        mask = 2**LIMB_BITS - 1
        high_of_distinct = np.array([term >> LIMB_BITS for term in self.distinct], dtype=np.int64)
        low_of_distinct = np.array([term & mask for term in self.distinct], dtype=np.int64)
        return high_of_distinct[self.position], low_of_distinct[self.position], 2**LIMB_BITS


def _distinct(values: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct values, the index of each value among them, and how often each occurs."""
    if int(values.max(initial=0)) <= len(values):  # counting is faster than sorting
        counts = np.bincount(values)
        distinct = np.flatnonzero(counts)
        rank = np.zeros(len(counts), dtype=np.int64)
        rank[distinct] = np.arange(len(distinct))
        return distinct, rank[values], counts[distinct]
    return np.unique(values, return_inverse=True, return_counts=True)


def product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``left @ right`` with sums in an order that does not depend on the processor.

    BLAS, which computes ``@``, has a different kernel for each family of processors. The kernels
    add in different orders, so the last bits of the result differ, and so may every decision that
    compares results. Use this function for every product that a decision depends on.

    Parameters
    ----------
    left, right
        Vectors or matrices.

    Notes
    -----
    Time and memory are O(rows * columns * inner length).
    """
    if right.ndim == 1:
        found: NDArray[np.float64] = (left * right).sum(axis=-1)
    else:
        found = (left[..., None] * right).sum(axis=-2)
    return found


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least `value`."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < value else nearest
